extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    __shared__ __align__(16) unsigned s[64];
    int t = threadIdx.x;
    s[t] = in[t]; s[t + 32] = in[t + 32];
    __syncwarp();
#ifdef BUG
    unsigned a = (unsigned)__cvta_generic_to_shared(s) + (t & 7) * 16 + 8;
#else
    unsigned a = (unsigned)__cvta_generic_to_shared(s) + (t & 7) * 16;
#endif
    unsigned r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(a) : "memory"); //A
    out[t] = r;
}
