extern "C" __global__ void k(int *out, const int *in) {
    int t = threadIdx.x;
#ifdef BUG
    unsigned m = t < 16 ? 0xffffffff : 0xffff0000;
#else
    unsigned m = t < 16 ? 0x0000ffff : 0xffff0000;
#endif
    out[t] = __any_sync(m, in[t] > 3); //A
}
