# Triton's source of mma_bf16.ptx, mma_s8.ptx and mma_fp8.ptx: products of row-major matrices on the
# tensor cores of sm_80, and of sm_89 for e4m3, where pointers and strides are multiples of 16.
# `python matmul.py FOLDER` writes them there.
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, m, n, k, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    at_a = a + rows[:, None] * stride_a + steps[None, :]
    at_b = b + steps[:, None] * stride_b + columns[None, :]
    sums = tl.zeros([BM, BN], SUM)
    for done in range(0, k, BK):
        x = tl.load(at_a, mask=(rows[:, None] < m) & (steps[None, :] + done < k), other=0.0)
        y = tl.load(at_b, mask=(steps[:, None] + done < k) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(x, y, sums, out_dtype=SUM)
        at_a += BK
        at_b += BK * stride_b
    at_c = c + rows[:, None] * stride_c + columns[None, :]
    tl.store(at_c, sums, mask=(rows[:, None] < m) & (columns[None, :] < n))


triton.knobs.compilation.disable_line_info = True
for name, element, total, arch in [("mma_bf16", "bf16", tl.float32, 80), ("mma_s8", "i8", tl.int32, 80), ("mma_fp8", "fp8e4nv", tl.float32, 89)]:
    pointers = {"a": "*" + element, "b": "*" + element, "c": "*i32" if total == tl.int32 else "*fp32"}
    numbers = dict.fromkeys(["m", "n", "k", "stride_a", "stride_b", "stride_c"], "i32")
    chosen = {"BM": 64, "BN": 64, "BK": 32, "SUM": total}
    source = ASTSource(
        fn=matmul,
        signature={**pointers, **numbers, **dict.fromkeys(chosen, "constexpr")},
        constexprs={(9 + number,): value for number, value in enumerate(chosen.values())},
        attrs={(number,): [["tt.divisibility", 16]] for number in range(9)},
    )
    options = {"num_warps": 4, "num_stages": 3}
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    print(name, kernel.metadata.shared, "bytes of shared memory")
    with open(f"{sys.argv[1]}/{name}.ptx", "w") as file:
        file.write(kernel.asm["ptx"])
