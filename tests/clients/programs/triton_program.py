"""Triton without torch: its launcher takes anything that has `data_ptr` and `dtype`."""

import numpy as np
import ptxjit
import triton
import triton.language as tl


class Tensor:
    """What Triton asks of a tensor."""

    def __init__(self, host):
        self.array = ptxjit.array(host)
        self.dtype = str(self.array.dtype)

    def data_ptr(self):
        return self.array.ptr

    def numpy(self):
        return self.array.numpy()


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def matmul(a, b, c, K, N, M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    row = tl.arange(0, M)
    total = tl.zeros((M, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + column[None, :])
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * N + column[None, :], total)


rng = np.random.default_rng(3)
x, y = rng.random(1000, dtype=np.float32), rng.random(1000, dtype=np.float32)
out = Tensor(np.zeros(1000, np.float32))
add[(4,)](Tensor(x), Tensor(y), out, 1000, BLOCK=256)
np.testing.assert_array_equal(out.numpy(), x + y)

rows = rng.standard_normal((7, 50)).astype(np.float32)
out = Tensor(np.zeros_like(rows))
softmax[(7,)](Tensor(rows), out, 50, BLOCK=64)
e = np.exp(rows - rows.max(axis=1, keepdims=True))
np.testing.assert_allclose(out.numpy(), e / e.sum(axis=1, keepdims=True), rtol=1e-5)

a, b = rng.random((32, 64)).astype(np.float16), rng.random((64, 128)).astype(np.float16)
c = Tensor(np.zeros((32, 128), np.float32))
matmul[(4,)](Tensor(a), Tensor(b), c, 64, 128, M=32, BN=32, BK=32)
np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3)
print("triton: fine")
