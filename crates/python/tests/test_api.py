"""The package's own interface: arrays, modules, launches, errors."""

import array as builtin_array
import ctypes
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import ptxjit
import pytest
from shared_kernels import SAXPY, STORE


def test_saxpy(saxpy):
    x = ptxjit.array(np.arange(1000, dtype=np.float32))
    y = ptxjit.full(1000, 1.0)
    saxpy[4, 256](np.int32(1000), 2.5, x, y)
    expected = np.arange(1000, dtype=np.float32) * np.float32(2.5) + 1
    np.testing.assert_array_equal(y.numpy(), expected)


def test_numpy_is_a_view(saxpy):
    y = ptxjit.zeros(8)
    view = y.numpy()
    view[...] = 3
    saxpy.launch(grid=1, block=8, args=(8, 0.0, y, y))
    assert y.tolist() == [3.0] * 8
    saxpy.launch(grid=1, block=8, args=(8, 1.0, y, y))
    assert view.tolist() == [6.0] * 8


def test_view_keeps_the_memory():
    view = ptxjit.full((2, 3), 5, dtype=np.int16).numpy()
    others = [ptxjit.zeros(6, np.int16) for _ in range(50)]
    assert view.tolist() == [[5, 5, 5], [5, 5, 5]]
    del others


def test_module_from_file(tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    for source in (path, str(path)):
        module = ptxjit.Module(source)
        assert module.kernels == ["saxpy"]
        assert module.kernel().parameters == [(0, 4), (4, 4), (8, 8), (16, 8)]


def test_device():
    device = ptxjit.Device()
    assert device == ptxjit.Device(0) and device in ptxjit.devices()
    assert device.compute_capability == (8, 0)
    assert device.name and device.memory > 0
    with pytest.raises(ptxjit.PtxjitError, match="there is no device 99"):
        ptxjit.Device(99)


def test_stream(saxpy):
    y = ptxjit.zeros(100)
    x = ptxjit.full(100, 1.0)
    with ptxjit.Stream() as stream:
        for _ in range(10):
            saxpy.launch(grid=1, block=100, args=(100, 1.0, x, y), stream=stream)
    assert y.tolist() == [10.0] * 100


def test_structures_and_bytes_by_value():
    text = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry sum(.param .align 8 .b8 s[16], .param .u64 out)
{
    .reg .u32 %a, %b;
    .reg .u64 %o, %c;
    ld.param.u32 %a, [s];
    ld.param.u32 %b, [s+4];
    ld.param.u64 %c, [s+8];
    ld.param.u64 %o, [out];
    add.u32 %a, %a, %b;
    st.global.u32 [%o], %a;
    st.global.u64 [%o+8], %c;
    ret;
}
"""

    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_uint32), ("b", ctypes.c_uint32), ("c", ctypes.c_uint64)]

    kernel = ptxjit.Module(text).kernel()
    out = ptxjit.zeros(2, "uint64")
    kernel[1, 1](Pair(3, 4, 99), out)
    assert out.tolist() == [7, 99]
    kernel[1, 1](bytes(Pair(30, 4, 98)), out.ptr)
    assert out.tolist() == [34, 98]


def test_arguments_are_checked(saxpy):
    y = ptxjit.zeros(4)
    with pytest.raises(TypeError, match="takes 4 arguments, not 3"):
        saxpy[1, 1](1, 2.0, y)
    with pytest.raises(TypeError, match="argument 0: int64 of 8 bytes for a parameter of 4"):
        saxpy[1, 1](np.int64(1), 2.0, y, y)
    with pytest.raises(OverflowError, match="argument 0: 4294967296 does not fit a parameter of 4 bytes"):
        saxpy[1, 1](1 << 32, 2.0, y, y)
    with pytest.raises(OverflowError, match="argument 1"):
        saxpy[1, 1](1, 1e300, y, y)
    with pytest.raises(TypeError, match="argument 2: str is no argument"):
        saxpy[1, 1](1, 1.0, "x", y)
    with pytest.raises(TypeError, match="argument 0: Array of 8 bytes for a parameter of 4"):
        saxpy[1, 1](y, 1.0, y, y)
    with pytest.raises(ValueError, match="0 is no dimension of a grid"):
        saxpy[0, 1](1, 1.0, y, y)


def test_wrong_ptx():
    with pytest.raises(ptxjit.PtxError) as caught:
        ptxjit.Module(SAXPY.replace("fma.rn.f32", "fma.xx.f32"))
    assert caught.value.code == 218
    assert "fma.xx.f32" in caught.value.report
    with pytest.raises(FileNotFoundError):
        ptxjit.Module("no-such-file.ptx")


def test_unknown_kernel():
    with pytest.raises(ptxjit.PtxjitError, match="no kernel `nothing`, but saxpy"):
        ptxjit.Module(SAXPY).kernel("nothing")


def test_fault(store):
    with pytest.raises(ptxjit.LaunchError) as caught:
        store[2, 4](64)
    error = caught.value
    assert error.code == 700
    assert error.name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert (error.kind, error.kernel) == ("bad-address", "store")
    assert error.block[1:] == (0, 0) and error.thread[1:] == (0, 0)
    line = 1 + STORE.split("\n").index("    st.global.u32 [%p], 7;")
    assert error.ptx_line == line
    assert "st.global.u32" in error.report
    # What an exception has told is told, and the device can be used.
    assert ptxjit.faults() == []
    out = ptxjit.zeros(1, "uint32")
    store[1, 1](out)
    assert out.tolist() == [7]


def test_fault_in_a_stream(store):
    stream = ptxjit.Stream()
    store[1, 1, 0, stream](64)
    with pytest.raises(ptxjit.LaunchError, match="kernel `store`"):
        stream.synchronize()
    stream.synchronize()


def test_two_devices_need_two():
    code = (
        "import ptxjit; assert len(ptxjit.devices()) == 2; a = ptxjit.zeros(4, device=1);"
        "assert a.device.ordinal == 1 and a.tolist() == [0, 0, 0, 0]; assert ptxjit.Device(1).compute_capability == (9, 0)"
    )
    env = {**os.environ, "PTXJIT_DEVICE_COUNT": "2", "PTXJIT_COMPUTE_CAPABILITY": "9.0"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_variable():
    text = """
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 table[3] = {5, 6, 7};
.visible .entry k() { ret; }
"""
    module = ptxjit.Module(text)
    variable = module.variable("table", "uint32")
    assert variable.tolist() == [5, 6, 7]
    variable.numpy()[1] = 60
    assert module.variable("table", "uint32").tolist() == [5, 60, 7]


def test_link():
    callee = """
.version 7.0
.target sm_70
.address_size 64
.visible .func (.reg .u32 r) seven() { mov.u32 r, 7; ret; }
"""
    caller = """
.version 7.0
.target sm_70
.address_size 64
.extern .func (.reg .u32 r) seven();
.visible .entry k(.param .u64 p)
{
    .reg .u32 %v;
    .reg .u64 %p;
    ld.param.u64 %p, [p];
    call (%v), seven, ();
    st.global.u32 [%p], %v;
    ret;
}
"""
    try:
        module = ptxjit.link([caller, callee])
    except ptxjit.PtxError as err:
        if err.code == 801:
            pytest.skip("this driver cannot link")
        raise
    out = ptxjit.zeros(1, "uint32")
    module.kernel("k")[1, 1](out)
    assert out.tolist() == [7]
    with pytest.raises(ptxjit.PtxError, match="seven"):
        ptxjit.link([caller])


def test_pickles(saxpy):
    y = ptxjit.array(np.arange(4, dtype=np.float32))
    again, kernel = pickle.loads(pickle.dumps((y, saxpy)))
    assert again.ptr != y.ptr
    kernel[1, 4](4, 1.0, again, again)
    assert again.tolist() == [0, 2, 4, 6]
    assert y.tolist() == [0, 1, 2, 3]


def test_threads(saxpy):
    results = {}

    def work(number):
        y = ptxjit.full(1000, float(number))
        for _ in range(20):
            saxpy[4, 256](1000, 1.0, y, y)
        results[number] = y.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        np.testing.assert_array_equal(results[number], np.float32(number * 2**20))


def test_types_and_shapes():
    for dtype in ("int8", "uint16", "int32", "uint64", "float16", "float64", "complex64", "bool"):
        host = np.arange(6).reshape(2, 3).astype(dtype)
        device = ptxjit.array(host)
        assert (device.shape, device.dtype, len(device)) == ((2, 3), host.dtype, 2)
        np.testing.assert_array_equal(device.numpy(), host)
        np.testing.assert_array_equal(np.asarray(device), host)
    assert ptxjit.array(np.float64(3)).shape == ()
    assert ptxjit.array(np.float64(3)).tolist() == 3.0
    assert ptxjit.zeros((0, 4)).numpy().shape == (0, 4)
    assert ptxjit.array(np.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(TypeError):
        ptxjit.zeros(3, object)


def test_without_numpy():
    """The package needs no other; it is hidden in a process of its own."""
    code = """
import sys
sys.modules["numpy"] = None
import array
import ptxjit
from shared_kernels import SAXPY
x = ptxjit.array(array.array("f", [1, 2, 3]))
y = ptxjit.full(3, 1.0)
assert (x.typestr, x.shape) == ("<f4", (3,))
ptxjit.Module(SAXPY).kernel()[1, 3](3, 2.0, x, y)
assert y.tolist() == [3.0, 5.0, 7.0], y.tolist()
y.memoryview()[0] = 9
assert y.tolist() == [9.0, 5.0, 7.0]
assert ptxjit.zeros((2, 2), "int32").tolist() == [[0, 0], [0, 0]]
try:
    y.numpy()
except ImportError:
    print("fine")
"""
    here = os.path.dirname(__file__)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_buffers():
    assert ptxjit.array(builtin_array.array("d", [1, 2])).tolist() == [1.0, 2.0]
    assert ptxjit.array(np.frombuffer(b"abc", dtype=np.uint8)).tolist() == [97, 98, 99]


def test_command():
    done = subprocess.run([sys.executable, "-m", "ptxjit", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ptxjit ")
