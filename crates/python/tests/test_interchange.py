"""Arrays of other packages, and ours for them: the CUDA array interface and DLPack."""

import gc
import weakref

import numpy as np
import ptxjit
import pytest


class Foreign:
    """Another package's array in device memory, with the CUDA array interface alone."""

    def __init__(self, base, **changes):
        self.base = base
        self.__cuda_array_interface__ = {**base.__cuda_array_interface__, **changes}


class Tensor:
    """Another package's array, with DLPack alone, in its form before version 1."""

    def __init__(self, base):
        self.base = base

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.base.__dlpack__(stream=stream)


def test_array_interface():
    ours = ptxjit.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    interface = ours.__cuda_array_interface__
    assert interface["version"] == 3
    assert (interface["shape"], interface["typestr"]) == ((2, 3), "<i4")
    assert interface["data"] == (ours.ptr, False)


def test_foreign_arrays_are_views():
    base = ptxjit.array(np.arange(4, dtype=np.int32))
    view = ptxjit.asarray(Foreign(base))
    view.numpy()[2] = 20
    assert base.tolist() == [0, 1, 20, 3]
    copy = ptxjit.array(Foreign(base, stream=None))
    copy.numpy()[...] = 0
    assert base.tolist() == [0, 1, 20, 3]
    assert ptxjit.asarray(Foreign(base, strides=(4,))).tolist() == [0, 1, 20, 3]
    with pytest.raises(BufferError, match="not contiguous"):
        ptxjit.asarray(Foreign(base, shape=(2,), strides=(8,)))


def test_foreign_arrays_are_arguments(saxpy):
    base = ptxjit.full(4, 1.0)
    saxpy[1, 4](4, 1.0, Foreign(base), Foreign(base))
    assert base.tolist() == [2.0] * 4
    saxpy[1, 4](4, 1.0, Tensor(base), Tensor(base))
    assert base.tolist() == [4.0] * 4

    class Torch:
        def data_ptr(self):
            return base.ptr

    saxpy[1, 4](4, 1.0, Torch(), Torch())
    assert base.tolist() == [8.0] * 4


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_there_and_back(versioned):
    ours = ptxjit.array(np.arange(6, dtype=np.float64).reshape(2, 3))
    view = ptxjit.from_dlpack(ours if versioned else Tensor(ours))
    assert (view.ptr, view.shape, view.typestr) == (ours.ptr, (2, 3), "<f8")
    view.numpy()[1, 2] = -1
    assert ours.tolist() == [[0, 1, 2], [3, 4, -1]]


def test_dlpack_keeps_memory():
    ours = ptxjit.full(4, 3.0)
    gone = weakref.ref(ours)
    view = ptxjit.from_dlpack(ours)
    del ours
    gc.collect()
    assert gone() is not None
    assert view.tolist() == [3.0] * 4
    del view
    gc.collect()
    assert gone() is None


def test_capsules_that_are_never_taken():
    ours = ptxjit.full(4, 3.0)
    gone = weakref.ref(ours)
    for version in (None, (1, 0)):
        capsule = ours.__dlpack__(max_version=version)
        assert "dltensor" in repr(capsule)
        del capsule
    del ours
    gc.collect()
    assert gone() is None


def test_capsules_are_taken_once():
    from ptxjit import _native

    capsule = ptxjit.zeros(4).__dlpack__()
    _native.import_dlpack(capsule)
    with pytest.raises(BufferError, match="no capsule"):
        _native.import_dlpack(capsule)
    with pytest.raises(BufferError, match="no capsule"):
        _native.import_dlpack("capsule")


def test_as_host_memory():
    """Device memory is the host's, so numpy can have it as that."""
    ours = ptxjit.array(np.arange(4, dtype=np.int64))

    class Host:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return ours.__dlpack__(dl_device=(1, 0), max_version=options.get("max_version"))

    theirs = np.from_dlpack(Host())
    theirs_pointer = theirs.__array_interface__["data"][0]
    assert theirs.tolist() == [0, 1, 2, 3]
    assert theirs_pointer == ours.ptr
    with pytest.raises(BufferError, match="cannot be one of device"):
        ours.__dlpack__(dl_device=(4, 0))


def test_host_arrays_are_refused_where_no_copy_is_made():
    with pytest.raises(BufferError, match="array\\(\\) makes a copy"):
        ptxjit.from_dlpack(np.zeros(3))
