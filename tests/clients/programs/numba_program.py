"""numba-cuda: elementwise, shared memory with a barrier, atomics, device functions, streams and events."""

import math

import numpy as np
from numba import cuda, float32


@cuda.jit(device=True)
def square(x):
    return x * x


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * square(x[i])


@cuda.jit
def block_sums(x, out):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def histogram(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)


x = np.arange(1000, dtype=np.float64)
y = np.ones(1000)
axpy[8, 128](0.5, x, y)
np.testing.assert_array_equal(y, 1 + 0.5 * np.arange(1000.0) ** 2)

ones = np.arange(1024, dtype=np.float32)
sums = cuda.device_array(8, np.float32)
block_sums[8, 128](cuda.to_device(ones), sums)
np.testing.assert_array_equal(sums.copy_to_host(), ones.reshape(8, 128).sum(axis=1))

values = np.arange(10000) % 7
bins = np.zeros(7, dtype=np.int64)
histogram[math.ceil(10000 / 256), 256](values, bins)
np.testing.assert_array_equal(bins, np.bincount(values))

stream, start, end = cuda.stream(), cuda.event(), cuda.event()
device = cuda.to_device(np.zeros(1000), stream=stream)
start.record(stream)
for _ in range(4):
    axpy[8, 128, stream](1.0, cuda.to_device(np.full(1000, 2.0), stream=stream), device)
end.record(stream)
end.synchronize()
assert cuda.event_elapsed_time(start, end) >= 0
np.testing.assert_array_equal(device.copy_to_host(stream=stream), np.full(1000, 16.0))
assert cuda.get_current_device().compute_capability == (8, 0)
print("numba: fine")
