extern "C" __global__ void k(int *out) {
    __shared__ int s[2];
    if (threadIdx.x == 0) {
        s[0] = 1;
#ifndef BUG
        s[1] = 2;
#endif
        printf("%d %d\n", s[0], s[1]); //A
    }
    out[threadIdx.x] = 1;
}
