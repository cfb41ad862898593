// What the native versions share. Every one is a plain C function and an entry that unpacks its arguments,
// which are those of the kernel in the same order.
#ifndef PTXJIT_BENCH_NATIVE_H
#define PTXJIT_BENCH_NATIVE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef union {
    void *p;
    int64_t i;
    double f;
} arg;

#define ENTRY(name) void bench_##name(const arg *a)

#endif
