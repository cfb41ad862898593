# Triton's source of mma_bf16.ptx, mma_s8.ptx and mma_fp8.ptx: products of row-major matrices on the
# tensor cores of sm_80, and of sm_89 for e4m3, where pointers and strides are multiples of 16; and of
# wgmma_bf16.ptx and tcgen05_bf16.ptx, for sm_90 and sm_100, whose tiles come through tensor maps that
# the kernel makes. `python matmul.py FOLDER` writes them there. Triton 3.5.1 made the last two.
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


@triton.jit
def matmul_maps(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    of_b = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    of_c = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros([BM, BN], tl.float32)
    for done in range(0, k, BK):
        sums = tl.dot(of_a.load([row, done]), of_b.load([done, column]), sums)
    of_c.store([row, column], sums)


def write(name, fn, pointers, numbers, chosen, arch):
    arguments = {**pointers, **dict.fromkeys(numbers, "i32")}
    source = ASTSource(
        fn=fn,
        signature={**arguments, **dict.fromkeys(chosen, "constexpr")},
        constexprs={(len(arguments) + number,): value for number, value in enumerate(chosen.values())},
        attrs={(number,): [["tt.divisibility", 16]] for number in range(len(arguments))},
    )
    options = {"num_warps": 4, "num_stages": 3}
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    print(name, kernel.metadata.shared, "bytes of shared memory")
    with open(f"{sys.argv[1]}/{name}.ptx", "w") as file:
        file.write(kernel.asm["ptx"])


triton.knobs.compilation.disable_line_info = True
for name, element, total, arch in [("mma_bf16", "bf16", tl.float32, 80), ("mma_s8", "i8", tl.int32, 80), ("mma_fp8", "fp8e4nv", tl.float32, 89)]:
    pointers = {"a": "*" + element, "b": "*" + element, "c": "*i32" if total == tl.int32 else "*fp32"}
    numbers = ["m", "n", "k", "stride_a", "stride_b", "stride_c"]
    write(name, matmul, pointers, numbers, {"BM": 64, "BN": 64, "BK": 32, "SUM": total}, arch)
for name, arch in [("wgmma_bf16", 90), ("tcgen05_bf16", 100)]:
    pointers = {"a": "*bf16", "b": "*bf16", "c": "*fp32"}
    write(name, matmul_maps, pointers, ["m", "n", "k"], {"BM": 128, "BN": 128, "BK": 64}, arch)
