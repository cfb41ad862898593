// What the machine can do at most: vector arithmetic and memory traffic.
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Twelve chains of multiply-adds, enough to hide their latency and few enough for sixteen registers. The compiler must not know where
// they start: of twelve equal chains it would compute one.
#define PEAK(NAME, V, LANES)                                                                     \
    static double NAME(long turns)                                                               \
    {                                                                                            \
        double flops = 0, start = now();                                                         \
        _Pragma("omp parallel reduction(+ : flops)")                                             \
        {                                                                                        \
            V x[12] = {{0}}, a = (V){0} + 0.5f, b = (V){0} + 1.0f;                               \
            for (int k = 0; k < 12; k++) __asm__ volatile("" : "+x"(x[k]));                      \
            for (long i = 0; i < turns; i++) {                                                   \
                _Pragma("GCC unroll 12") for (int k = 0; k < 12; k++) x[k] = x[k] * a + b;       \
                __asm__ volatile("" : "+x"(a), "+x"(b));                                         \
            }                                                                                    \
            for (int k = 0; k < 12; k++) __asm__ volatile("" ::"x"(x[k]));                       \
            flops += 2.0 * 12 * LANES * (double)turns;                                           \
        }                                                                                        \
        return flops / (now() - start);                                                          \
    }
PEAK(peak128, v4, 4)
PEAK(peak256, v8, 8)

static double read_rate(const float *restrict x, long n)
{
    float sum = 0;
    double start = now();
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
    for (long i = 0; i < n; i++) sum += x[i];
    __asm__ volatile("" ::"x"(sum));
    return 4.0 * (double)n / (now() - start);
}

static double triad_rate(float *restrict z, const float *restrict x, const float *restrict y, long n)
{
    double start = now();
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) z[i] = x[i] + 3.0f * y[i];
    return 12.0 * (double)n / (now() - start);
}

static double larger(double a, double b) { return a > b ? a : b; }

// Into a[0]: operations per second with vectors of 128 and of 256 bits, bytes per second when reading and in a triad. The best of
// short bursts: others may use the machine, too.
ENTRY(roofline)
{
    double *best = (double *)a[0].p;
    const long n = 12l << 20;
    float *x = malloc(4 * (size_t)n), *y = malloc(4 * (size_t)n), *z = malloc(4 * (size_t)n);
    for (int k = 0; k < 4; k++) best[k] = 0;
    if (x && y && z) {
        memset(x, 0, 4 * (size_t)n);
        memset(y, 0, 4 * (size_t)n);
        memset(z, 0, 4 * (size_t)n);
        for (int round = 0; round < 40; round++) {
            best[0] = larger(best[0], peak128(100000));
            best[1] = larger(best[1], peak256(100000));
            best[2] = larger(best[2], read_rate(x, n));
            best[3] = larger(best[3], triad_rate(z, x, y, n));
        }
    }
    free(x);
    free(y);
    free(z);
}
