__constant__ int c[16] = {1,2,3};
__constant__ int d[16];
extern "C" __global__ void k(int *out, const int *in) {
    int t = threadIdx.x;
#ifdef BUG
    out[t] = c[in[t] & 31] + d[t & 15]; //A
#else
    out[t] = c[in[t] & 15] + d[t & 15];
#endif
}
