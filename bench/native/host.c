// Services that the benchmark takes from the C side: threads of OpenMP, processor time.
#include "native.h"

#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

ENTRY(set_threads)
{
#ifdef _OPENMP
    omp_set_num_threads((int)a[0].i);
#else
    (void)a;
#endif
}

// Nanoseconds that all threads of this process have computed, into a[0].
ENTRY(cpu_time)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    *(int64_t *)a[0].p = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
