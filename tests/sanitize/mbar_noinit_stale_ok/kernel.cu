extern "C" __global__ void k(int *out) {
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar);
    if (t == 0) bar = 0x0123456789abcdefull;
    __syncthreads();
#ifndef BUG
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(b) : "memory");
    __syncthreads();
#endif
    unsigned long long st;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(st) : "r"(b) : "memory"); //A
    out[t] = 1;
}
