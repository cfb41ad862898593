/*
 * A program that asks ptxjit what went wrong in a kernel.
 *
 *     cc -I crates/cuda/include crates/cuda/examples/faults.c -L LIBRARIES -lcuda -o faults
 *     ptxjit exec -- ./faults
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptxjit.h"

/* What is used of the driver API; a program with NVIDIA's headers includes cuda.h. */
typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream;
CUresult cuInit(unsigned int flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t size);
CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr memory, size_t size);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra);

/* Writes the thread's number into memory: *p[threadIdx.x] = threadIdx.x. */
static const char KERNEL[] = ".version 7.0\n"
                             ".target sm_70\n"
                             ".address_size 64\n"
                             ".visible .entry number(.param .u64 p)\n"
                             "{\n"
                             "    .reg .u32 %t;\n"
                             "    .reg .u64 %p, %o;\n"
                             "    ld.param.u64 %p, [p];\n"
                             "    mov.u32 %t, %tid.x;\n"
                             "    mul.wide.u32 %o, %t, 4;\n"
                             "    add.u64 %p, %p, %o;\n"
                             "    st.global.u32 [%p], %t;\n"
                             "    ret;\n"
                             "}\n";

static void check(CUresult code, CUresult expected, const char *what) {
    if (code != expected) {
        fprintf(stderr, "%s: %d, not %d\n", what, code, expected);
        exit(1);
    }
}

static CUresult launch(CUfunction kernel, CUdeviceptr memory) {
    void *params[] = {&memory};
    check(cuLaunchKernel(kernel, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL), 0, "cuLaunchKernel");
    return cuCtxSynchronize();
}

int main(void) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr memory;
    check(cuInit(0), 0, "cuInit");
    check(cuDeviceGet(&device, 0), 0, "cuDeviceGet");
    check(cuCtxCreate_v2(&context, 0, device), 0, "cuCtxCreate");
    check(cuModuleLoadData(&module, KERNEL), 0, "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel, module, "number"), 0, "cuModuleGetFunction");
    check(cuMemAlloc_v2(&memory, 16), 0, "cuMemAlloc");

    /* Address 64 is nobody's. CUDA_ERROR_ILLEGAL_ADDRESS is 700. */
    check(launch(kernel, 64), 700, "a wild launch");
    ptxjit_fault fault = {.size = sizeof fault};
    check(ptxjit_next_fault(&fault), 1, "ptxjit_next_fault");
    printf("%s in kernel %s, line %u of the PTX, code %d\n", fault.kind, fault.kernel, fault.ptx_line, fault.code);
    char report[4096];
    if (ptxjit_last_error(report, sizeof report) != strlen(fault.report) || strcmp(report, fault.report) != 0) {
        fprintf(stderr, "the last report is not the fault's:\n%s\n", report);
        return 1;
    }
    check(ptxjit_next_fault(&fault), 0, "another ptxjit_next_fault");

    /* The context cannot be used, until it is told to forget. */
    check(cuCtxSynchronize(), 700, "a context after a fault");
    check(ptxjit_clear_error(NULL), 0, "ptxjit_clear_error");
    check(launch(kernel, memory), 0, "a launch that is right");
    uint32_t numbers[4];
    check(cuMemcpyDtoH_v2(numbers, memory, sizeof numbers), 0, "cuMemcpyDtoH");
    printf("%u %u %u %u\n", numbers[0], numbers[1], numbers[2], numbers[3]);
    check(cuCtxDestroy_v2(context), 0, "cuCtxDestroy");
    return 0;
}
