"""What the tests of the package share."""

import os

import pytest
from shared_kernels import SAXPY, STORE

pytest_plugins = ["pytester"]


@pytest.fixture
def saxpy():
    import ptxjit

    return ptxjit.Module(SAXPY).kernel("saxpy")


@pytest.fixture
def store():
    import ptxjit

    return ptxjit.Module(STORE).kernel()


@pytest.fixture(autouse=True, scope="session")
def quiet():
    """Reports are asked for, so none is needed on stderr."""
    os.environ.setdefault("PTXJIT_QUIET", "1")
