/* What the test takes for NVRTC: it keeps the options, and its PTX and machine code say which they were. */
#include <stddef.h>
#include <string.h>

struct program {
    char code[256];
};

int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
    program->code[0] = 0;
    for (int i = 0; i < count; i++)
        strcat(strcat(program->code, " "), options[i]);
    return 0;
}

static int get(const struct program *program, const char *form, char *code) {
    strcat(strcpy(code, form), program->code);
    return 0;
}

int nvrtcGetPTXSize(const struct program *program, size_t *size) {
    *size = strlen(program->code) + 4;
    return 0;
}

int nvrtcGetPTX(const struct program *program, char *code) { return get(program, "ptx", code); }

int nvrtcGetCUBINSize(const struct program *program, size_t *size) {
    *size = strlen(program->code) + 6;
    return 0;
}

int nvrtcGetCUBIN(const struct program *program, char *code) { return get(program, "cubin", code); }
