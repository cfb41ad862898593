extern "C" __global__ void k(int *out, const int *in) {
    __shared__ int *ptr[64];
    int loc[2];
    int t = threadIdx.x;
    loc[0] = in[t]; loc[1] = t;
    ptr[t] = loc;
    __syncthreads();
#ifdef BUG
    out[t] = *(volatile int *)ptr[63 - t]; //A
#else
    out[t] = *(volatile int *)ptr[t];
#endif
}
