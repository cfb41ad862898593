extern "C" __global__ void k(int *out)
{
    __shared__ unsigned long long bar;
    __shared__ int left;
    int t = threadIdx.x, lane = t & 31;
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar), ok;
    unsigned long long st;
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(b) : "memory");
        left = 2;
    }
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(st) : "r"(b) : "memory");
    do {
        asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0,1,0,p;}"
                     : "=r"(ok) : "r"(b), "l"(st) : "memory");
    } while (!ok);
    out[t] = 1;
    // The lanes of a warp are done with it, and so are all warps before the last.
    if (__all_sync(~0u, ok) && lane == 0 && atomicSub(&left, 1) == 1)
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(b) : "memory");
}
