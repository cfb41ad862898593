"""The kinds of kernels in Triton's tutorials that need more than a block per program: layer
normalization with its gradients, attention, and groups of matrix products."""

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


def zeros(shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


@triton.jit
def layer_norm(x, y, weight, bias, means, scales, n, eps, BLOCK: tl.constexpr):
    """A row per program, in blocks."""
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=0.0)
        away = tl.where(at < n, values - mean, 0.0)
        squares += away * away
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < n
        values = (tl.load(x + row * n + at, mask=mask) - mean) * scale
        values = values * tl.load(weight + at, mask=mask) + tl.load(bias + at, mask=mask)
        tl.store(y + row * n + at, values, mask=mask)


@triton.jit
def layer_norm_back(dx, dy, dweight, lock, x, weight, means, scales, n, BLOCK: tl.constexpr):
    """The gradient of a row; that of the weights is summed up under a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    above = tl.load(dy + row * n + at, mask=mask, other=0.0)
    scale = tl.load(scales + row)
    normal = (tl.load(x + row * n + at, mask=mask, other=0.0) - tl.load(means + row)) * scale
    normal = tl.where(mask, normal, 0.0)
    weighted = above * tl.load(weight + at, mask=mask, other=0.0)
    along = tl.sum(normal * weighted, axis=0) / n
    offset = tl.sum(weighted, axis=0) / n
    tl.store(dx + row * n + at, (weighted - normal * along - offset) * scale, mask=mask)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    sums = tl.load(dweight + at, mask=mask)
    tl.store(dweight + at, sums + above * normal, mask=mask)
    # All threads of the program have stored before the lock is free.
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def attention(
    q, k, v, out, n, scale, CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    """A block of queries per program; the softmax goes along with the blocks of keys."""
    head = tl.program_id(1) * n * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    dims = tl.arange(0, D)
    queries = tl.load(q + head + rows[:, None] * D + dims[None, :])
    largest = tl.full([M], -float("inf"), dtype=tl.float32)
    weights = tl.zeros([M], dtype=tl.float32)
    sums = tl.zeros([M, D], dtype=tl.float32)
    end = (tl.program_id(0) + 1) * M if CAUSAL else n
    for start in range(0, end, N):
        columns = start + tl.arange(0, N)
        keys = tl.load(k + head + columns[None, :] * D + dims[:, None])
        scores = tl.dot(queries, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(largest - new)
        weights = weights * shrink + tl.sum(p, axis=1)
        values = tl.load(v + head + columns[:, None] * D + dims[None, :])
        sums = tl.dot(p.to(tl.float16), values, sums * shrink[:, None])
        largest = new
    tl.store(out + head + rows[:, None] * D + dims[None, :], (sums / weights[:, None]).to(tl.float16))


@triton.jit
def grouped(addresses, sizes, n_groups, PROGRAMS: tl.constexpr, B: tl.constexpr, K: tl.constexpr):
    """Products of matrices of several sizes; each program takes every PROGRAMS-th tile of all."""
    tile = tl.program_id(0)
    before = 0
    for group in range(n_groups):
        m = tl.load(sizes + group * 3)
        n = tl.load(sizes + group * 3 + 1)
        depth = tl.load(sizes + group * 3 + 2)
        across = tl.cdiv(n, B)
        count = tl.cdiv(m, B) * across
        while tile >= before and tile < before + count:
            a = tl.load(addresses + group * 3).to(tl.pointer_type(tl.float16))
            b = tl.load(addresses + group * 3 + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(addresses + group * 3 + 2).to(tl.pointer_type(tl.float16))
            rows = (tile - before) // across * B + tl.arange(0, B)
            columns = (tile - before) % across * B + tl.arange(0, B)
            total = tl.zeros((B, B), dtype=tl.float32)
            for start in range(0, depth, K):
                inner = start + tl.arange(0, K)
                left = (rows[:, None] < m) & (inner[None, :] < depth)
                right = (inner[:, None] < depth) & (columns[None, :] < n)
                x = tl.load(a + rows[:, None] * depth + inner[None, :], mask=left, other=0.0)
                y = tl.load(b + inner[:, None] * n + columns[None, :], mask=right, other=0.0)
                total = tl.dot(x, y, total)
            mask = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=mask)
            tile += PROGRAMS
        before += count


def check_layer_norm(rng):
    x = rng.standard_normal((5, 300)).astype(np.float32)
    weight, bias = rng.random((2, 300), dtype=np.float32)
    y, means, scales = zeros(x.shape), zeros(5), zeros(5)
    on_device = Tensor(x), Tensor(weight)
    layer_norm[(5,)](on_device[0], y, on_device[1], Tensor(bias), means, scales, 300, 1e-5, BLOCK=128)
    mean = x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    normal = (x - mean) * scale
    np.testing.assert_allclose(y.numpy(), normal * weight + bias, rtol=1e-4, atol=1e-5)

    dy = rng.standard_normal(x.shape).astype(np.float32)
    dx, dweight, lock = zeros(x.shape), zeros(300), zeros(1, np.int32)
    layer_norm_back[(5,)](dx, Tensor(dy), dweight, lock, *on_device, means, scales, 300, BLOCK=512)
    np.testing.assert_allclose(dweight.numpy(), (dy * normal).sum(axis=0), rtol=1e-4, atol=1e-4)
    weighted = dy * weight
    along = (weighted * normal).mean(axis=1, keepdims=True)
    expected = (weighted - normal * along - weighted.mean(axis=1, keepdims=True)) * scale
    np.testing.assert_allclose(dx.numpy(), expected, rtol=1e-4, atol=1e-5)


def check_attention(rng, causal):
    heads, n, d = 2, 64, 16
    q, k, v = rng.standard_normal((3, heads, n, d)).astype(np.float16)
    out = zeros(q.shape, np.float16)
    # Powers of two are quicker, so the scale changes the base.
    scale = d**-0.5 * 1.44269504
    attention[(n // 32, heads)](Tensor(q), Tensor(k), Tensor(v), out, n, scale, CAUSAL=causal, M=32, N=16, D=d)
    q, k, v = (each.astype(np.float32) for each in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) * d**-0.5
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = p / p.sum(axis=2, keepdims=True) @ v
    np.testing.assert_allclose(out.numpy().astype(np.float32), expected, rtol=2e-2, atol=1e-2)


def check_grouped(rng):
    sizes = [(64, 32, 48), (33, 70, 17), (16, 16, 16)]
    groups = []
    for m, n, depth in sizes:
        a, b = rng.standard_normal((m, depth)), rng.standard_normal((depth, n))
        groups.append([Tensor(each.astype(np.float16)) for each in (a, b, np.zeros((m, n)))])
    addresses = np.array([[each.data_ptr() for each in group] for group in groups], np.int64)
    grouped[(4,)](Tensor(addresses), Tensor(np.array(sizes, np.int32)), len(sizes), PROGRAMS=4, B=32, K=16)
    for a, b, c in groups:
        expected = a.numpy().astype(np.float32) @ b.numpy().astype(np.float32)
        np.testing.assert_allclose(c.numpy().astype(np.float32), expected, rtol=1e-2, atol=2e-2)


rng = np.random.default_rng(11)
check_layer_norm(rng)
check_attention(rng, causal=False)
check_attention(rng, causal=True)
check_grouped(rng)
print("triton tutorials: fine")
