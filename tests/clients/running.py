"""How programs are run on ptxjit."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def command():
    """The `ptxjit` command: that of the package if it is installed, else what PTXJIT_COMMAND names."""
    named = os.environ.get("PTXJIT_COMMAND")
    if named:
        return [named]
    return [sys.executable, "-m", "ptxjit"]


def library_folder():
    """The folder of ptxjit's libraries, for a linker."""
    done = subprocess.run([*command(), "exec", "--print-env"], capture_output=True, text=True, check=True)
    exports = (line.removeprefix("export ").partition("=") for line in done.stdout.splitlines())
    folder = next(value for name, _, value in exports if name == "TRITON_LIBCUDA_PATH")
    return folder.strip("'\"")


def run(words, timeout=600, options=(), **variables):
    """Runs a command under `ptxjit exec`."""
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(
        [*command(), "exec", *options, "--", *map(str, words)], env=env, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def tool(name):
    """The path of a program that a test needs; the test is skipped if there is none."""
    # Packages put programs beside the interpreter.
    found = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def toolkit_of(part):
    """The folder in which packages of the CUDA toolkit lie, nvcc and a part of its headers among them."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for toolkit in sorted(Path(folder).glob("cu*")):
            if (toolkit / "bin/nvcc").exists() and (toolkit / "nvvm/bin/cicc").exists() and (toolkit / "include" / part).exists():
                return toolkit
    pytest.skip(f"nvcc and {part} are not installed")
