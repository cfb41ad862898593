"""Where the command and the libraries are, which the package brings along."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from importlib import metadata

_HERE = os.path.dirname(os.path.abspath(__file__))


def version() -> str:
    """The version of the package that is installed."""
    try:
        return metadata.version("ptxjit")
    except metadata.PackageNotFoundError:
        # In a source tree.
        return "0.0.0"


def command() -> str:
    """The path of the `ptxjit` command."""
    path = os.path.join(_HERE, "bin", "ptxjit")
    if not os.path.exists(path):
        raise FileNotFoundError(f"the command is missing: {path}; was ptxjit installed with pip?")
    for file in (path, os.path.join(_HERE, "bin", "ptxas")):
        # Some installers lose the bit that says that a file can be run.
        if os.path.exists(file) and not os.access(file, os.X_OK):
            mode = os.stat(file).st_mode
            os.chmod(file, mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def environment(options: list[str]) -> dict[str, str]:
    """The variables with which `ptxjit exec` runs a program."""
    # The command must not be run with what it is to find.
    clean = {name: value for name, value in os.environ.items() if name != "LD_AUDIT"}
    words = [command(), "exec", *options, "--print-env"]
    done = subprocess.run(words, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    variables = {}
    for line in done.stdout.splitlines():
        _, assignment = shlex.split(line)
        name, _, value = assignment.partition("=")
        variables[name] = value
    return variables


def driver() -> str:
    """The path of the driver library."""
    folder = os.environ.get("PTXJIT_LIB_DIR") or os.path.join(_HERE, "lib")
    path = os.path.join(folder, "libcuda.so.1")
    if not os.path.exists(path):
        raise ImportError(f"the driver library is missing: {path}; was ptxjit installed with pip?")
    return path
