// Kernels that mostly move data.
#include "native.h"

#include <stdlib.h>

static void saxpy(int n, float alpha, const float *x, float *y)
{
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; i++) y[i] = alpha * x[i] + y[i];
}
ENTRY(saxpy) { saxpy(a[0].i, a[1].f, a[2].p, a[3].p); }

// 32 x 32 tiles; without them, reading or writing strides through memory.
static void transpose(float *restrict out, const float *restrict in, int w, int h)
{
#pragma omp parallel for schedule(static)
    for (int yb = 0; yb < h; yb += 32)
        for (int xb = 0; xb < w; xb += 32)
            for (int x = xb; x < xb + 32 && x < w; x++)
                for (int y = yb; y < yb + 32 && y < h; y++) out[(size_t)x * h + y] = in[(size_t)y * w + x];
}
ENTRY(transpose_tiled) { transpose(a[0].p, a[1].p, a[2].i, a[3].i); }

static void stencil_row(const float *restrict in, float *restrict out, int w, int h, int y, float p, float q)
{
    const float *row = in + (size_t)y * w;
    for (int x = 0; x < w; x++) {
        float up = y > 0 ? row[x - w] : 0, down = y < h - 1 ? row[x + w] : 0;
        float left = x > 0 ? row[x - 1] : 0, right = x < w - 1 ? row[x + 1] : 0;
        out[(size_t)y * w + x] = p * row[x] + q * (up + down + left + right);
    }
}

// The edges apart, so that the inside is one loop without conditions.
static void stencil2d(const float *restrict in, float *restrict out, int w, int h, float p, float q)
{
#pragma omp parallel for schedule(static)
    for (int y = 0; y < h; y++) {
        if (y == 0 || y == h - 1) {
            stencil_row(in, out, w, h, y, p, q);
            continue;
        }
        const float *row = in + (size_t)y * w;
        float *o = out + (size_t)y * w;
        o[0] = p * row[0] + q * (row[-w] + row[w] + row[1]);
        for (int x = 1; x < w - 1; x++) o[x] = p * row[x] + q * (row[x - w] + row[x + w] + row[x - 1] + row[x + 1]);
        o[w - 1] = p * row[w - 1] + q * (row[-1] + row[2 * w - 1] + row[w - 2]);
    }
}
ENTRY(stencil2d) { stencil2d(a[0].p, a[1].p, a[2].i, a[3].i, a[4].f, a[5].f); }

// One round of the game of life on a torus.
static void life(const uint8_t *restrict from, uint8_t *restrict to, int w, int h)
{
#pragma omp parallel for schedule(static)
    for (int y = 0; y < h; y++) {
        const uint8_t *u = from + (size_t)((y + h - 1) % h) * w, *m = from + (size_t)y * w, *d = from + (size_t)((y + 1) % h) * w;
        uint8_t *o = to + (size_t)y * w;
        for (int x = 1; x < w - 1; x++) {
            uint8_t s = u[x - 1] + u[x] + u[x + 1] + m[x - 1] + m[x + 1] + d[x - 1] + d[x] + d[x + 1];
            o[x] = (s == 3) | ((s == 2) & (m[x] != 0));
        }
        for (int x = 0; x < w; x += w - 1) {
            int l = (x + w - 1) % w, r = (x + 1) % w;
            int s = u[l] + u[x] + u[r] + m[l] + m[r] + d[l] + d[x] + d[r];
            o[x] = s == 3 || (s == 2 && m[x]);
        }
    }
}
ENTRY(life) { life(a[0].p, a[1].p, a[2].i, a[3].i); }

// Edges of a picture, but for its border.
static void sobel(const uint8_t *restrict in, uint8_t *restrict out, int w, int h)
{
#pragma omp parallel for schedule(static)
    for (int y = 1; y < h - 1; y++) {
        const uint8_t *u = in + (size_t)(y - 1) * w, *m = in + (size_t)y * w, *d = in + (size_t)(y + 1) * w;
        uint8_t *o = out + (size_t)y * w;
        for (int x = 1; x < w - 1; x++) {
            int gx = u[x + 1] + 2 * m[x + 1] + d[x + 1] - u[x - 1] - 2 * m[x - 1] - d[x - 1];
            int gy = d[x - 1] + 2 * d[x] + d[x + 1] - u[x - 1] - 2 * u[x] - u[x + 1];
            int g = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
            o[x] = g > 255 ? 255 : g;
        }
    }
}
ENTRY(sobel) { sobel(a[0].p, a[1].p, a[2].i, a[3].i); }

// Sums of 512 neighbours.
static void reduce_tree(const float *in, float *part, int n)
{
#pragma omp parallel for schedule(static)
    for (int b = 0; b < n / 512; b++) {
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int i = 0; i < 512; i++) s += in[(size_t)b * 512 + i];
        part[b] = s;
    }
}
ENTRY(reduce_tree) { reduce_tree(a[0].p, a[1].p, a[2].i); }

static void reduce(const float *in, float *out, int n)
{
    float s = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : s)
    for (int i = 0; i < n; i++) s += in[i];
    out[0] += s;
}
ENTRY(reduce_shfl) { reduce(a[0].p, a[1].p, a[2].i); }

static void gemv(const float *restrict m, const float *restrict x, float *restrict y, int rows, int cols)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < rows; r++) {
        const float *row = m + (size_t)r * cols;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int c = 0; c < cols; c++) s += row[c] * x[c];
        y[r] = s;
    }
}
ENTRY(gemv_rows) { gemv(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }

static void histogram(const uint32_t *data, unsigned n, uint32_t *bins)
{
#pragma omp parallel
    {
        uint32_t own[4][256];
        memset(own, 0, sizeof own);
#pragma omp for schedule(static)
        for (unsigned i = 0; i < n; i++) {
            uint32_t v = data[i];
            own[0][v & 255]++;
            own[1][(v >> 8) & 255]++;
            own[2][(v >> 16) & 255]++;
            own[3][v >> 24]++;
        }
#pragma omp critical
        for (int i = 0; i < 256; i++) bins[i] += own[0][i] + own[1][i] + own[2][i] + own[3][i];
    }
}
ENTRY(hist_shared) { histogram(a[0].p, a[1].i, a[2].p); }

static void spmv(int n, const int *rowptr, const int *col, const float *val, const float *x, float *y)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < n; r++) {
        float s = 0;
        for (int j = rowptr[r]; j < rowptr[r + 1]; j++) s += val[j] * x[col[j]];
        y[r] = s;
    }
}
ENTRY(spmv_csr) { spmv(a[0].i, a[1].p, a[2].p, a[3].p, a[4].p, a[5].p); }

static void copy(const float *in, float *out, size_t n)
{
    enum { PIECE = 1 << 20 };
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < n; at += PIECE) memcpy(out + at, in + at, sizeof(float) * PIECE);
}
ENTRY(tma_copy) { copy(a[0].p, a[1].p, (size_t)a[2].i * a[3].i * 64 * 64); }
ENTRY(tma_copy_lines) { copy(a[0].p, a[1].p, (size_t)a[2].i * a[3].i * 64 * 64); }

// What all rows need of the columns is computed before.
static void bilinear(const float *in, float *out, int width, int height, float step_x, float step_y)
{
    enum { IN = 1024 };
    int *left = malloc(sizeof(int) * 2 * (size_t)width), *right = left + width;
    float *weight = malloc(sizeof(float) * (size_t)width);
    for (int x = 0; x < width; x++) {
        float at = (x + 0.5f) * step_x - 0.5f, floor_at = floorf(at);
        int l = (int)floor_at, r = l + 1;
        left[x] = l < 0 ? 0 : l >= IN ? IN - 1 : l;
        right[x] = r < 0 ? 0 : r >= IN ? IN - 1 : r;
        weight[x] = at - floor_at;
    }
#pragma omp parallel for schedule(static)
    for (int y = 0; y < height; y++) {
        float at = (y + 0.5f) * step_y - 0.5f, floor_at = floorf(at), down = at - floor_at;
        int t = (int)floor_at, b = t + 1;
        const float *top = in + (size_t)(t < 0 ? 0 : t >= IN ? IN - 1 : t) * IN;
        const float *bottom = in + (size_t)(b < 0 ? 0 : b >= IN ? IN - 1 : b) * IN;
        for (int x = 0; x < width; x++) {
            float above = top[left[x]] + weight[x] * (top[right[x]] - top[left[x]]);
            float below = bottom[left[x]] + weight[x] * (bottom[right[x]] - bottom[left[x]]);
            out[(size_t)y * width + x] = above + down * (below - above);
        }
    }
    free(left);
    free(weight);
}
ENTRY(bilinear) { bilinear(a[0].p, a[1].p, a[2].i, a[3].i, a[4].f, a[5].f); }
