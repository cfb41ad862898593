extern "C" __global__ void k(int *out) {
    int t = threadIdx.x;
    if (t < 32) {
        asm volatile("barrier.arrive 1, 96;" ::: "memory"); //A
#ifdef BUG
        asm volatile("barrier.arrive 1, 96;" ::: "memory"); //B
#endif
    }
    asm volatile("barrier.sync 2, 64;" ::: "memory");
#ifdef BUG
    if (t >= 32) asm volatile("barrier.sync 1, 96;" ::: "memory");
#else
    asm volatile("barrier.sync 1, 96;" ::: "memory");
#endif
    out[t] = 1;
}
