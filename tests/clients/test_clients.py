"""Each client's program, in a process of its own, on ptxjit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import HERE, library_folder, run, tool, toolkit_of


def test_numba(program):
    assert program("numba_program.py", "numba_cuda") == "numba: fine\n"


def test_tinygrad(program):
    assert program("tinygrad_program.py", "tinygrad", DEV="CUDA:PTX") == "tinygrad: fine\n"


def test_ptx_run(program):
    """What the simulated GPU of tinygrad's repository calls; its package has none."""
    assert program("ptx_run_program.py", "numpy") == "ptx_run: fine\n"


def test_cuda_bindings(program):
    assert program("bindings_program.py", "cuda.bindings") == "cuda-bindings: fine\n"


def test_cuda_core(program):
    assert program("core_program.py", "cuda.core") == "cuda-core: fine\n"


def test_pycuda(program):
    """PyCUDA has no wheels: `install_pycuda.py` builds it."""
    assert program("pycuda_program.py", "pycuda") == "pycuda: fine\n"


def test_triton(program):
    tool("cc")
    assert program("triton_program.py", "triton") == "triton: fine\n"


def test_triton_tutorials(program):
    tool("cc")
    assert program("triton_tutorials.py", "triton") == "triton tutorials: fine\n"


def test_nvml(program):
    assert program("nvml_program.py", "pynvml", PTXJIT_DEVICE_COUNT=2) == "nvml: fine\n"


def test_dask(program):
    assert program("dask_program.py", "distributed").endswith("dask: fine\n")


def test_mpi():
    mpirun = tool("mpirun")
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    words = [mpirun, "-n", "2", "--oversubscribe", sys.executable, HERE / "programs" / "mpi_program.py"]
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
    assert run(words, **variables).endswith("mpi: fine\n")


def test_cudarc():
    """cudarc looks up every name of its CUDA version at once, and panics if one is missing."""
    cargo = tool("cargo")
    crate = HERE / "cudarc"
    target = HERE.parents[1] / "target" / "clients"
    words = [cargo, "build", "--quiet", "--manifest-path", crate / "Cargo.toml", "--target-dir", target]
    built = subprocess.run(words, capture_output=True, text=True)
    if built.returncode != 0 and "could not compile" not in built.stderr:
        pytest.skip(f"cudarc cannot be fetched: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    assert run([target / "debug" / "cudarc-client"]) == "cudarc: fine\n"


def test_c_driver_api(tmp_path):
    """A program in C with declarations of its own, linked with the library without a toolkit."""
    cc = tool("cc")
    program = tmp_path / "driver_program"
    source = HERE / "programs" / "driver_program.c"
    words = [cc, "-Wall", "-Wextra", "-Werror", source, "-L", library_folder(), "-l:libcuda.so.1", "-o", program]
    subprocess.run(words, check=True)
    assert run([program]) == "driver API: fine\n"


def test_c_faults(tmp_path):
    """A program in C that asks what went wrong, with the header and the library of the package."""
    cc = tool("cc")
    found = importlib.util.find_spec("ptxjit")
    package = Path(found.origin).parent if found else HERE
    if not (package / "include").exists():
        pytest.skip("ptxjit is not installed from a wheel")
    source = HERE.parents[1] / "crates/cuda/examples/faults.c"
    program = tmp_path / "faults"
    words = [cc, "-I", package / "include", source, "-L", package / "lib", "-l:libcuda.so.1", "-o", program]
    subprocess.run(words, check=True)
    assert run([program]) == "bad-address in kernel number, line 12 of the PTX, code 700\n0 1 2 3\n"


def test_thrust_and_cub(tmp_path):
    """A program of nvcc with Thrust and CUB, which choose kernels by the device and its memory."""
    tool("c++")
    toolkit = toolkit_of("cccl")
    library = next(toolkit.glob("lib/libcudart.so.1*"))
    include = toolkit / "include"
    program = tmp_path / "algorithms"
    words = [toolkit / "bin/nvcc", "-std=c++17", "-gencode", "arch=compute_80,code=compute_80", "-cudart", "none"]
    words += ["-I", include, "-I", include / "cccl", "-Xlinker", library, "-o", program]
    words.append(HERE / "programs/algorithms.cu")
    path = os.pathsep.join([str(toolkit / "nvvm/bin"), os.environ["PATH"]])
    subprocess.run(list(map(str, words)), check=True, env={**os.environ, "PATH": path})
    assert run([program]) == "algorithms: fine\n"
