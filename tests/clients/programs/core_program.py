"""cuda-core: devices, programs, launches, buffers."""

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
template <typename T> __global__ void add(const T *a, const T *b, T *c, size_t n) {
    for (size_t i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
arch = "".join(str(n) for n in device.compute_capability)


def compiled(architecture, form):
    options = ProgramOptions(std="c++17", arch=f"{architecture}_{arch}")
    program = Program(SOURCE, code_type="c++", options=options)
    return program.compile(form, name_expressions=("add<float>",)).get_kernel("add<float>")


# What NVRTC is asked for as machine code is PTX, too.
kernels = compiled("compute", "ptx"), compiled("sm", "cubin")

n = 5000
a = device.allocate(4 * n, stream=stream)
b = device.allocate(4 * n, stream=stream)
c = device.allocate(4 * n, stream=stream)
stream.sync()


def view(buffer):
    """Device memory is the host's."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_float * n).from_address(int(buffer.handle)))


view(a)[...], view(b)[...] = np.arange(n), 1
for kernel in kernels:
    view(c)[...] = 0
    launch(stream, LaunchConfig(grid=8, block=256), kernel, a, b, c, np.uint64(n))
    stream.sync()
    np.testing.assert_array_equal(view(c), np.arange(n, dtype=np.float32) + 1)
for buffer in (a, b, c):
    buffer.close(stream)
print("cuda-core: fine")
