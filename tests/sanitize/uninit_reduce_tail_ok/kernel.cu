extern "C" __global__ void k(float *out, const float *in, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
#ifdef BUG
    if (t < n) s[t] = in[t];
#else
    s[t] = t < n ? in[t] : 0.f;
#endif
    __syncthreads();
    for (int d = 32; d > 0; d >>= 1) {
        if (t < d) s[t] += s[t + d]; //A
        __syncthreads();
    }
    if (t == 0) out[0] = s[0]; //B
}
