"""tinygrad: arithmetic, a product of matrices, reductions, a gradient, and a graph (TinyJit)."""

import numpy as np
from tinygrad import Tensor, TinyJit

rng = np.random.default_rng(1)
a, b = rng.random((33, 65), dtype=np.float32), rng.random((65, 17), dtype=np.float32)
np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-5)
np.testing.assert_allclose(Tensor(a).sum(axis=0).numpy(), a.sum(axis=0), rtol=1e-5)
x = np.exp(a - a.max(axis=1, keepdims=True))
np.testing.assert_allclose(Tensor(a).softmax(axis=1).numpy(), x / x.sum(axis=1, keepdims=True), rtol=1e-5)

w = Tensor(b).is_param_(True) if hasattr(Tensor, "is_param_") else Tensor(b, requires_grad=True)
(Tensor(a) @ w).square().sum().backward()
np.testing.assert_allclose(w.grad.numpy(), 2 * a.T @ (a @ b), rtol=1e-4)


@TinyJit
def step(t):
    return ((t * 2 + 1).relu().sum(axis=1) + 3).realize()


for factor in range(5):
    data = a * factor - 1
    np.testing.assert_allclose(step(Tensor(data).realize()).numpy(), np.maximum(data * 2 + 1, 0).sum(axis=1) + 3, rtol=1e-5)
print("tinygrad: fine")
