"""Dask: launches spread over processes. Kernels and arrays are pickled; each worker loads a module once."""

import numpy as np
import ptxjit
from distributed import Client, LocalCluster

SCALE = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 p, .param .f32 a, .param .u32 n)
{
    .reg .pred %q;
    .reg .f32 %a, %v;
    .reg .u32 %n, %i, %b, %t;
    .reg .u64 %p, %o;
    ld.param.u64 %p, [p];
    ld.param.f32 %a, [a];
    ld.param.u32 %n, [n];
    mov.u32 %b, %ctaid.x;
    mov.u32 %i, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %b, %i, %t;
    setp.ge.u32 %q, %i, %n;
    @%q ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %p, %p, %o;
    ld.global.f32 %v, [%p];
    mul.f32 %v, %v, %a;
    st.global.f32 [%p], %v;
    ret;
}
"""


def scale(kernel, part, factor):
    """What a worker does: the array that comes back is a new one there."""
    kernel[(part.size + 255) // 256, 256](part, factor, part.size)
    return part


def main():
    kernel = ptxjit.Module(SCALE).kernel("scale")
    data = np.arange(10_000, dtype=np.float32)
    # A cluster of machines is used the same: Client("scheduler:8786"), with ptxjit installed on each.
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        parts = [ptxjit.array(part) for part in np.array_split(data, 8)]
        tasks = [client.submit(scale, kernel, part, float(idx), pure=False) for idx, part in enumerate(parts)]
        results = [result.numpy() for result in client.gather(tasks)]
    expected = [part * idx for idx, part in enumerate(np.array_split(data, 8))]
    np.testing.assert_array_equal(np.concatenate(results), np.concatenate(expected))
    print("dask: fine")


if __name__ == "__main__":
    main()
