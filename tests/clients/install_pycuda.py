"""Builds PyCUDA, which has no wheels, against the headers in NVIDIA's wheels and ptxjit's libcuda.so.

    pip install nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-profiler-api-cu12
    python tests/clients/install_pycuda.py

It takes some minutes and a C++ compiler. What is built needs no toolkit; `SourceModule` needs nvcc.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from running import library_folder


def headers():
    """The folders of headers in the wheels."""
    roots = find_spec("nvidia").submodule_search_locations
    parts = ["cuda_runtime", "cuda_nvcc", "cuda_profiler_api"]
    found = [Path(root) / part / "include" for part in parts for root in roots]
    return [str(folder) for folder in found if folder.is_dir()]


def main():
    libraries = [library_folder()]
    settings = {
        "CUDA_INC_DIR": headers(),
        "CUDADRV_LIB_DIR": libraries,
        "CUDART_LIB_DIR": libraries,
        "CUDA_ENABLE_CURAND": False,
    }
    with tempfile.TemporaryDirectory() as home:
        # PyCUDA's build reads this file of the user's.
        lines = (f"{name} = {value!r}\n" for name, value in settings.items())
        Path(home, ".aksetup-defaults.py").write_text("".join(lines))
        command = [sys.executable, "-m", "pip", "install", "--no-binary", "pycuda", "pycuda"]
        subprocess.run(command, env={**os.environ, "HOME": home}, check=True)


if __name__ == "__main__":
    main()
