extern "C" __global__ void k(int *out)
{
    int t = threadIdx.x;
    if (t < 32) {
#ifdef BUG
        asm volatile("barrier.arrive 1, 96;" ::: "memory"); //A
        asm volatile("barrier.arrive 1, 96;" ::: "memory"); //B
#else
        asm volatile("barrier.arrive 1, 64;" ::: "memory");
#endif
    } else {
#ifdef BUG
        asm volatile("barrier.sync 1, 96;" ::: "memory");
#else
        asm volatile("barrier.sync 1, 64;" ::: "memory");
#endif
    }
    out[t] = 1;
}
