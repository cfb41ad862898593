"""Runs programs of clients on ptxjit, each in a process of its own."""

import importlib.util
import os
import sys

import pytest
from running import HERE, run


@pytest.fixture
def program(tmp_path):
    """Runs one of the programs beside, if the package that it is for is installed."""

    def program(name, package, **settings):
        if importlib.util.find_spec(package.split(".")[0]) is None or not _has(package):
            pytest.skip(f"{package} is not installed")
        # Compilers keep what they have made; what another driver was given must not be found.
        caches = {
            "XDG_CACHE_HOME": tmp_path,
            "TRITON_CACHE_DIR": tmp_path / "triton",
            "NUMBA_CACHE_DIR": tmp_path / "numba",
            "CACHEDB": tmp_path / "tinygrad.db",
            # Ours is no client's, and warm code makes the tests short.
            "PTXJIT_CACHE_DIR": os.environ.get("PTXJIT_CACHE_DIR") or _cache(),
        }
        return run([sys.executable, HERE / "programs" / name], **{**caches, **settings})

    return program


def _has(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def _cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "ptxjit")
