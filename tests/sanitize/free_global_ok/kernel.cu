extern "C" __global__ void k(int *out) {
    out[threadIdx.x] = 1;
#ifdef BUG
    if (threadIdx.x == 0) free(out); //A
#endif
}
