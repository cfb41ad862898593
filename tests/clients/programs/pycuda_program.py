"""PyCUDA: a module from PTX, calls of kernels, prepared calls, streams, events, constants, arrays."""

import numpy as np
import pycuda.autoinit  # noqa: F401, makes a context
import pycuda.driver as cuda

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .const .align 4 .f32 offset;
.visible .entry saxpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %i, %b, %t, %n;
    .reg .f32 %a, %x, %y, %c;
    .reg .b64 %to, %from, %o;
    ld.param.u64 %to, [y];
    ld.param.u64 %from, [x];
    ld.param.f32 %a, [a];
    ld.param.u32 %n, [n];
    mov.u32 %b, %ctaid.x;
    mov.u32 %i, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %b, %i, %t;
    setp.ge.u32 %p, %i, %n;
    @%p ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %to, %to, %o;
    add.u64 %from, %from, %o;
    ld.global.f32 %x, [%from];
    ld.global.f32 %y, [%to];
    ld.const.f32 %c, [offset];
    fma.rn.f32 %y, %a, %x, %y;
    add.f32 %y, %y, %c;
    st.global.f32 [%to], %y;
    ret;
}
.extern .shared .align 4 .b8 tile[];
.visible .entry reverse(.param .u64 p)
{
    .reg .b32 %t, %v, %s, %n;
    .reg .b64 %p, %o;
    ld.param.u64 %p, [p];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %o, %p, %o;
    ld.global.u32 %v, [%o];
    shl.b32 %s, %t, 2;
    mov.u32 %n, tile;
    add.u32 %s, %n, %s;
    st.shared.u32 [%s], %v;
    bar.sync 0;
    mov.u32 %s, %ntid.x;
    sub.u32 %s, %s, %t;
    sub.u32 %s, %s, 1;
    shl.b32 %s, %s, 2;
    add.u32 %s, %n, %s;
    ld.shared.u32 %v, [%s];
    st.global.u32 [%o], %v;
    ret;
}
"""

module = cuda.module_from_buffer(PTX)
saxpy, reverse = module.get_function("saxpy"), module.get_function("reverse")

# A constant of the module, and arguments that PyCUDA copies in and out itself.
offset, size = module.get_global("offset")
assert size == 4
cuda.memcpy_htod(offset, np.float32(0.5).tobytes())
n = 1000
x, y = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32)
saxpy(cuda.InOut(y), cuda.In(x), np.float32(2), np.uint32(n), block=(256, 1, 1), grid=(4, 1))
np.testing.assert_array_equal(y, 2 * np.arange(n) + 1.5)

# A prepared call with dynamic shared memory, in a stream, between events.
numbers = cuda.pagelocked_empty(64, np.uint32)
numbers[:] = np.arange(64)
memory = cuda.mem_alloc(numbers.nbytes)
stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
start.record(stream)
cuda.memcpy_htod_async(memory, numbers, stream)
reverse.prepare("P")
reverse.prepared_async_call((1, 1), (64, 1, 1), stream, memory, shared_size=numbers.nbytes)
cuda.memcpy_dtoh_async(numbers, memory, stream)
end.record(stream)
end.synchronize()
assert start.time_till(end) >= 0
np.testing.assert_array_equal(numbers, np.arange(64)[::-1])

# Rows of a picture with a pitch, to an array and back.
picture = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
array = cuda.np_to_array(picture, order="C")
copy = cuda.Memcpy2D()
copy.set_src_array(array)
back = np.empty_like(picture)
copy.set_dst_host(back)
copy.width_in_bytes, copy.height, copy.dst_pitch = 40, 6, 40
copy(aligned=False)
np.testing.assert_array_equal(back, picture)
memory.free()
print("pycuda: fine")
