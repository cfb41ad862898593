"""nvidia-ml-py: the management library agrees with the driver."""

import ctypes

import pynvml

pynvml.nvmlInit()
assert pynvml.nvmlDeviceGetCount() == 2
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
for ordinal in range(2):
    handle = pynvml.nvmlDeviceGetHandleByIndex(ordinal)
    name = ctypes.create_string_buffer(100)
    assert cuda.cuDeviceGetName(name, 100, ordinal) == 0
    assert pynvml.nvmlDeviceGetName(handle) == name.value.decode()
    uuid = ctypes.create_string_buffer(16)
    assert cuda.cuDeviceGetUuid_v2(uuid, ordinal) == 0
    assert pynvml.nvmlDeviceGetUUID(handle).replace("-", "").removeprefix("GPU") == uuid.raw.hex()
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == (8, 0)
print("nvml: fine")
