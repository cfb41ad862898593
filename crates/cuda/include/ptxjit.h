/*
 * What ptxjit's libcuda.so.1 offers beyond the CUDA driver API.
 *
 * Programs that work with any driver look these up with dlsym() and go on without them; programs of
 * ptxjit's own link with -lcuda. Every function may be called from any thread, and before cuInit().
 */
#ifndef PTXJIT_H
#define PTXJIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ptxjit's version, as in "0.1.0". */
const char *ptxjit_version(void);

/*
 * Copies the last report of the process into `text`, which has room for `size` bytes: cut to fit, and with a NUL
 * behind. A report tells in full what a code does not: a kernel's fault with its thread and line, or what is
 * wrong with an image.
 *
 * Returns the length of the whole report without its NUL; 0 if there is none. `text` may be null if `size` is 0.
 */
size_t ptxjit_last_error(char *text, size_t size);

/*
 * Makes a context that a fault has made unusable work again, with its memory and modules as they are. Waits for
 * its work first. A null context is the calling thread's current one.
 *
 * Returns a CUresult.
 */
int ptxjit_clear_error(void *context);

/* The same for all contexts of the process. */
int ptxjit_clear_all_errors(void);

/* A kernel's fault. */
typedef struct ptxjit_fault {
    size_t size;          /* sizeof(ptxjit_fault), set by the caller */
    int32_t code;         /* the CUresult that calls return */
    uint32_t has_block;   /* whether `block` is known */
    uint32_t has_thread;  /* whether `thread` is known */
    uint32_t block[3];    /* blockIdx */
    uint32_t thread[3];   /* threadIdx; the first of several */
    uint32_t ptx_line;    /* counted from 1; 0 if not known */
    const char *kind;     /* "bad-address", "misaligned", "trap", "assert", "deadlock", "timeout", ... */
    const char *kernel;   /* its name, or "" */
    const char *source;   /* "FILE:LINE:COLUMN" of the program that the PTX was compiled from, or "" */
    const char *report;   /* all of it, for people */
} ptxjit_fault;

/*
 * Takes the oldest fault that no call has taken yet. The latest 256 are kept.
 *
 * Returns 1, or 0 if there is none, or -1 if `fault` is null or its `size` is another one. The strings are valid until
 * the calling thread's next call of this function.
 */
int ptxjit_next_fault(ptxjit_fault *fault);

#ifdef __cplusplus
}
#endif

#endif
