# Triton's source of attention.ptx: softmax(q k^T * scale) v of f16 with sums of f32, by blocks of
# 64 rows of q and 64 of k, for heads of 64 columns that are contiguous. `python attention.py
# FOLDER` writes it there.
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def attention(q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1) * n * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    others = tl.arange(0, BN)
    columns = tl.arange(0, D)
    x = tl.load(q + head + rows[:, None] * D + columns[None, :])
    at_k = k + head + others[None, :] * D + columns[:, None]
    at_v = v + head + others[:, None] * D + columns[None, :]
    greatest = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, D], tl.float32)
    for done in range(0, n, BN):
        scores = tl.dot(x, tl.load(at_k)) * scale
        higher = tl.maximum(greatest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(greatest - higher)
        total = total * factor + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), tl.load(at_v), sums * factor[:, None])
        greatest = higher
        at_k += BN * D
        at_v += BN * D
    at_out = out + head + rows[:, None] * D + columns[None, :]
    tl.store(at_out, sums / total[:, None])


triton.knobs.compilation.disable_line_info = True
pointers = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp32"}
chosen = {"BM": 64, "BN": 64, "D": 64}
source = ASTSource(
    fn=attention,
    signature={**pointers, "n": "i32", "scale": "fp32", **dict.fromkeys(chosen, "constexpr")},
    constexprs={(6 + number,): value for number, value in enumerate(chosen.values())},
    attrs={(number,): [["tt.divisibility", 16]] for number in range(5)},
)
kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 2})
print("attention", kernel.metadata.shared, "bytes of shared memory")
with open(f"{sys.argv[1]}/attention.ptx", "w") as file:
    file.write(kernel.asm["ptx"])
