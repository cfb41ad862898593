/* A program as nvcc makes one of a CUDA file: a fat binary with PTX that a constructor registers, for each kernel a function
 * that launches it, for each variable a shadow. Ends with 0 if all is as on a GPU, else with the line that is not. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
typedef int cudaError_t;
typedef void *cudaStream_t;

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, dim3 *, dim3 *, int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
extern void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
extern char __cudaInitModule(void **);
extern unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
extern cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern cudaError_t __cudaGetKernel(void **, const void *);
extern cudaError_t __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaMalloc(void **, size_t);
extern cudaError_t cudaFree(void *);
extern cudaError_t cudaMemcpy(void *, const void *, size_t, int);
extern cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
extern cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
extern cudaError_t cudaGetSymbolSize(size_t *, const void *);
extern cudaError_t cudaDeviceSynchronize(void);
extern cudaError_t cudaDeviceReset(void);
extern cudaError_t cudaGetLastError(void);
extern cudaError_t cudaPeekAtLastError(void);
extern cudaError_t cudaFuncGetName(const char **, const void *);

#define CHECK(condition)                                                                                                       \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #condition);                                                        \
            fflush(stderr), _exit(1);                                                                                          \
        }                                                                                                                      \
    } while (0)

static const char ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .const .align 4 .b8 coef[8];\n"
    ".visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n"
    ".visible .entry axpy(.param .f32 pa, .param .u64 px, .param .u64 py) {\n"
    ".reg .f32 %a, %x, %y, %c; .reg .u64 %p, %q, %o; .reg .u32 %t;\n"
    "ld.param.f32 %a, [pa]; ld.param.u64 %p, [px]; ld.param.u64 %q, [py]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;\n"
    "add.u64 %p, %p, %o; add.u64 %q, %q, %o; ld.global.f32 %x, [%p]; ld.global.f32 %y, [%q]; ld.const.f32 %c, [coef+4];\n"
    "fma.rn.f32 %y, %a, %x, %y; add.f32 %y, %y, %c; st.global.f32 [%q], %y; ret; }\n"
    ".visible .entry bump() { .reg .u32 %r; atom.global.add.u32 %r, [counter], 1; ret; }\n"
    ".visible .entry wild(.param .u64 pa) { .reg .u64 %p; ld.param.u64 %p, [pa]; st.global.u32 [%p], 1; ret; }\n";

static struct {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
    struct {
        uint16_t kind, version;
        uint32_t header, payload, zero, packed, options;
        uint16_t minor, major;
        uint32_t sm, bits, name;
        uint64_t flags, other, unpacked;
    } entry;
    char text[sizeof ptx];
} container;

static struct {
    int magic, version;
    const void *data;
    void *list;
} wrapper = {0x466243b1, 1, &container, 0};

static void **handle;
static char coef[8];
static uint32_t *counter;

static void axpy(float a, float *x, float *y) {
    void *args[] = {&a, &x, &y};
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
        cudaLaunchKernel((const void *)axpy, grid, block, args, shared, stream);
}

/* As newer compilers do it. */
static void bump(void) {
    static void *kernel;
    if (!kernel) __cudaGetKernel(&kernel, (const void *)bump);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    void *args[1];
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
        __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

static void wild(void *p) {
    void *args[] = {&p};
    cudaLaunchKernel_ptsz((const void *)wild, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, 0);
}

/* Registered, but in no fat binary. */
static void missing(void) {}
/* Never registered. */
static void unknown(void) {}

static void end(void) { __cudaUnregisterFatBinary(handle); }

__attribute__((constructor)) static void start(void) {
    container.magic = 0xba55ed50;
    container.version = 1;
    container.header = 16;
    container.size = sizeof container - 16;
    container.entry.kind = 1;
    container.entry.version = 0x101;
    container.entry.header = sizeof container.entry;
    container.entry.payload = container.size - sizeof container.entry;
    container.entry.major = 7;
    container.entry.sm = 80;
    container.entry.bits = 64;
    container.entry.flags = 1;
    memcpy(container.text, ptx, sizeof ptx);
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)axpy, "axpy", "axpy", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (const char *)bump, "bump", "bump", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (const char *)wild, "wild", "wild", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (const char *)missing, "missing", "missing", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(handle, coef, coef, "coef", 0, sizeof coef, 1, 0);
    __cudaRegisterManagedVar(handle, (void **)&counter, (char *)&counter, "counter", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    atexit(end);
}

static void kernels(void) {
    float x[32], y[32], c[2] = {1, 100}, back = 0;
    float *dx, *dy;
    for (int i = 0; i < 32; i++) x[i] = i, y[i] = 1;
    CHECK(cudaMalloc((void **)&dx, sizeof x) == 0 && cudaMalloc((void **)&dy, sizeof y) == 0);
    CHECK(cudaMemcpy(dx, x, sizeof x, 1) == 0 && cudaMemcpy(dy, y, sizeof y, 4) == 0);
    CHECK(cudaMemcpyToSymbol(coef, c, sizeof c, 0, 1) == 0);
    CHECK(__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 0) == 0);
    axpy(2, dx, dy);
    CHECK(cudaGetLastError() == 0);
    CHECK(cudaMemcpy(y, dy, sizeof y, 2) == 0);
    for (int i = 0; i < 32; i++) CHECK(y[i] == 2 * i + 1 + 100);
    CHECK(cudaMemcpyFromSymbol(&back, coef, 4, 4, 2) == 0 && back == 100);
    CHECK(cudaFree(dx) == 0 && cudaFree(dy) == 0);
    const char *name = 0;
    CHECK(cudaFuncGetName(&name, (const void *)axpy) == 0 && strcmp(name, "axpy") == 0);
}

static void variables(void) {
    size_t size = 0;
    CHECK(cudaGetSymbolSize(&size, coef) == 0 && size == 8);
    CHECK(cudaMemcpyToSymbol(coef, ptx, 8, 4, 1) == 1);
    CHECK(cudaMemcpyToSymbol(coef, ptx, 4, 0, 2) == 21);
    CHECK(cudaMemcpyToSymbol(ptx, ptx, 4, 0, 1) == 13);
    CHECK(cudaGetLastError() == 13);
    if (!counter) CHECK(__cudaInitModule(handle));
    CHECK(*counter == 5);
    *counter = 10;
    CHECK(__cudaPushCallConfiguration((dim3){2, 1, 1}, (dim3){3, 1, 1}, 0, 0) == 0);
    bump();
    CHECK(cudaDeviceSynchronize() == 0);
    CHECK(*counter == 16);
}

static void errors(void) {
    dim3 one = {1, 1, 1};
    CHECK(__cudaPopCallConfiguration(&one, &one, (size_t[1]){0}, (void *[1]){0}) == 52);
    CHECK(cudaLaunchKernel((const void *)missing, one, one, 0, 0, 0) == 98);
    CHECK(cudaLaunchKernel((const void *)unknown, one, one, 0, 0, 0) == 98);
    CHECK(cudaLaunchKernel((const void *)bump, one, (dim3){2048, 1, 1}, 0, 0, 0) == 9);
    CHECK(cudaLaunchKernel((const void *)bump, (dim3){0, 1, 1}, one, 0, 0, 0) == 9);
    CHECK(cudaPeekAtLastError() == 9 && cudaGetLastError() == 9 && cudaGetLastError() == 0);
    /* A fault stays until the device is reset; then the module is loaded again when it is used. */
    wild((void *)8);
    CHECK(cudaDeviceSynchronize() == 700);
    CHECK(cudaGetLastError() == 700 && cudaGetLastError() == 700);
    CHECK(cudaDeviceReset() == 0);
    cudaGetLastError();
    CHECK(cudaGetLastError() == 0);
    kernels();
}

/* The destructor of a global object, when the variables of the main thread have ended. */
static void *global;
static void late(void) {
    kernels();
    CHECK(cudaFree(global) == 0 && cudaFree(global) == 1);
    CHECK(__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){1, 1, 1}, 0, 0) == 0);
    wild((void *)8);
    CHECK(cudaDeviceSynchronize() == 700);
    puts("after the end, too");
}

int main(void) {
    atexit(late);
    kernels();
    variables();
    errors();
    CHECK(cudaMalloc(&global, 100) == 0);
    puts("all is well");
    return 0;
}
