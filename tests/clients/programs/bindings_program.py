"""cuda-bindings: the driver API and NVRTC, as the package has them."""

import ctypes

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SOURCE = b"""
extern "C" __global__ void scale(float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"""


def ok(result):
    code, *values = result
    assert code.value == 0, code
    return values[0] if len(values) == 1 else values


program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"scale.cu", 0, [], []))
ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
ok(nvrtc.nvrtcGetPTX(program, ptx))

ok(cu.cuInit(0))
device = ok(cu.cuDeviceGet(0))
context = ok(cu.cuDevicePrimaryCtxRetain(device))
ok(cu.cuCtxSetCurrent(context))
module = ok(cu.cuModuleLoadData(np.char.array(ptx).ctypes.data))
kernel = ok(cu.cuModuleGetFunction(module, b"scale"))
stream = ok(cu.cuStreamCreate(0))
host = np.arange(1000, dtype=np.float32)
memory = ok(cu.cuMemAlloc(host.nbytes))
ok(cu.cuMemcpyHtoDAsync(memory, host.ctypes.data, host.nbytes, stream))
arguments = ((int(memory), 2.0, 1000), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
ok(cu.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
back = np.empty_like(host)
ok(cu.cuMemcpyDtoHAsync(back.ctypes.data, memory, host.nbytes, stream))
ok(cu.cuStreamSynchronize(stream))
np.testing.assert_array_equal(back, host * 2)
ok(cu.cuMemFree(memory))
print("cuda-bindings: fine")
