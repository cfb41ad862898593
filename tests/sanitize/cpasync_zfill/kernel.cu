#define COPY16(d, s, n) asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(d)), "l"(s), "r"(n) : "memory")
#define WAIT() asm volatile("cp.async.wait_all;" ::: "memory")

extern "C" __global__ void k(int *out, const int4 *in, int size)
{
    __shared__ int4 s[64];
    int t = threadIdx.x;
    COPY16(&s[t], in + t, size);
    WAIT();
    out[t] = s[t].y;
}
