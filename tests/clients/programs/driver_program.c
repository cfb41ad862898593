/*
 * The driver API as C programs use it: streams and events, memory in their order, a module with options, a
 * launch with packed arguments, a captured graph, a function of the host, errors.
 *
 *     cc driver_program.c -L LIBRARIES -l:libcuda.so.1 -o program
 *     ptxjit exec -- ./program
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of cuda.h. */
typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct graph *CUgraph;
typedef struct exec *CUgraphExec;
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int size, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options, void **values);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *memory, size_t *size, CUmodule module, const char *name);
CUresult cuModuleUnload(CUmodule module);
CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t size, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream);
CUresult cuMemAllocHost_v2(void **memory, size_t size);
CUresult cuMemFreeHost(void *memory);
CUresult cuMemsetD32Async(CUdeviceptr memory, unsigned int value, size_t count, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr memory, const void *host, size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *host, CUdeviceptr memory, size_t size, CUstream stream);
CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr memory, size_t size);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra);
CUresult cuGetErrorName(CUresult code, const char **name);

/* counts[i % 4] += p[i] for i < n: sums by atomic additions. */
static const char KERNELS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counts[4];\n"
    ".visible .entry sum(.param .u64 p, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %q;\n"
    "    .reg .b32 %i, %b, %t, %n, %v;\n"
    "    .reg .b64 %p, %o, %c;\n"
    "    ld.param.u64 %p, [p];\n"
    "    ld.param.u32 %n, [n];\n"
    "    mov.u32 %b, %ctaid.x;\n"
    "    mov.u32 %i, %ntid.x;\n"
    "    mov.u32 %t, %tid.x;\n"
    "    mad.lo.u32 %i, %b, %i, %t;\n"
    "    setp.ge.u32 %q, %i, %n;\n"
    "    @%q ret;\n"
    "    mul.wide.u32 %o, %i, 4;\n"
    "    add.u64 %p, %p, %o;\n"
    "    ld.global.u32 %v, [%p];\n"
    "    and.b32 %i, %i, 3;\n"
    "    mul.wide.u32 %o, %i, 4;\n"
    "    mov.u64 %c, counts;\n"
    "    add.u64 %c, %c, %o;\n"
    "    red.global.add.u32 [%c], %v;\n"
    "    ret;\n"
    "}\n";

enum { N = 1000, NOT_READY = 600, INVALID_PTX = 218, LOG = 5, LOG_SIZE = 6 };

#define CHECK(call) check((call), 0, #call)

static void check(CUresult code, CUresult expected, const char *what) {
    if (code != expected) {
        const char *name = "an unknown code";
        cuGetErrorName(code, &name);
        fprintf(stderr, "%s: %s (%d), not %d\n", what, name, code, expected);
        exit(1);
    }
}

static void ensure(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void count_call(void *data) { ++*(int *)data; }

/* Loads text that is no PTX: the log says what is wrong with it. */
static void load_garbage(void) {
    char log[1024] = "";
    int options[] = {LOG, LOG_SIZE};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    CUresult code = cuModuleLoadDataEx(&module, ".version 7.0\n.target sm_70\nnonsense\n", 2, options, values);
    check(code, INVALID_PTX, "loading garbage");
    ensure(strstr(log, "error") != NULL, "the log has no error");
}

/* Copies numbers to the device, adds them up, and lets the host know: into a graph, or at once. */
static void submit(CUfunction sum, CUdeviceptr memory, const uint32_t *host, CUstream stream, int *n_calls) {
    struct {
        CUdeviceptr p;
        uint32_t n;
    } arguments = {memory, N};
    size_t size = 12;
    void *extra[] = {(void *)1, &arguments, (void *)2, &size, NULL};
    CHECK(cuMemcpyHtoDAsync_v2(memory, host, N * sizeof *host, stream));
    CHECK(cuLaunchKernel(sum, 8, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
    CHECK(cuLaunchHostFunc(stream, count_call, n_calls));
}

int main(void) {
    int version = 0, n_devices = 0, n_calls = 0;
    char name[100];
    size_t bytes = 0;
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&n_devices));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceTotalMem_v2(&bytes, device));
    ensure(version >= 12000 && n_devices > 0 && name[0] != 0 && bytes > 0, "the device says too little");
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    load_garbage();

    CUmodule module;
    CUfunction sum;
    CUdeviceptr counts, memory;
    size_t counts_size = 0;
    CHECK(cuModuleLoadDataEx(&module, KERNELS, 0, NULL, NULL));
    CHECK(cuModuleGetFunction(&sum, module, "sum"));
    CHECK(cuModuleGetGlobal_v2(&counts, &counts_size, module, "counts"));
    ensure(counts_size == 16, "the variable has another size");

    CUstream one, two;
    CUevent start, end;
    uint32_t *host, sums[4];
    CHECK(cuStreamCreate(&one, 1));
    CHECK(cuStreamCreate(&two, 1));
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&end, 0));
    CHECK(cuMemAllocHost_v2((void **)&host, N * sizeof *host));
    CHECK(cuMemAllocAsync(&memory, N * sizeof *host, one));
    for (uint32_t i = 0; i < N; i++)
        host[i] = i;

    /* At once, with a second stream that waits for the first. */
    CHECK(cuEventRecord(start, one));
    submit(sum, memory, host, one, &n_calls);
    CHECK(cuEventRecord(end, one));
    CHECK(cuStreamWaitEvent(two, end, 0));
    CHECK(cuMemcpyDtoHAsync_v2(sums, counts, sizeof sums, two));
    CUresult state = cuStreamQuery(two);
    ensure(state == 0 || state == NOT_READY, "a stream is neither ready nor not");
    CHECK(cuStreamSynchronize(two));
    for (uint32_t i = 0; i < 4; i++)
        ensure(sums[i] == 250 * i + 4 * (249 * 250 / 2), "a sum is wrong");
    float time = -1;
    CHECK(cuEventElapsedTime(&time, start, end));
    ensure(time >= 0 && n_calls == 1, "the host was not called once in time");

    /* The same as a graph that starts with zeros, three times. */
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture_v2(one, 0));
    CHECK(cuMemsetD32Async(counts, 0, 4, one));
    submit(sum, memory, host, one, &n_calls);
    CHECK(cuStreamEndCapture(one, &graph));
    ensure(n_calls == 1, "what is captured has run");
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int launch = 0; launch < 3; launch++)
        CHECK(cuGraphLaunch(exec, one));
    CHECK(cuStreamSynchronize(one));
    CHECK(cuMemcpyDtoH_v2(sums, counts, sizeof sums));
    for (uint32_t i = 0; i < 4; i++)
        ensure(sums[i] == 250 * i + 4 * (249 * 250 / 2), "a sum of the graph is wrong");
    ensure(n_calls == 4, "the graph has not called the host each time");

    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFreeAsync(memory, one));
    CHECK(cuMemFreeHost(host));
    CHECK(cuEventDestroy_v2(start));
    CHECK(cuEventDestroy_v2(end));
    CHECK(cuStreamDestroy_v2(one));
    CHECK(cuStreamDestroy_v2(two));
    CHECK(cuModuleUnload(module));
    CHECK(cuCtxSynchronize());
    CHECK(cuDevicePrimaryCtxRelease_v2(device));
    puts("driver API: fine");
    return 0;
}
