// The kernels of `kernels/more.cu`, as one would write them in C.
#include <stdlib.h>

#include "native.h"

#define ROWS _Pragma("omp parallel for schedule(static)")
#define SIMD _Pragma("omp simd")

static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }

// Tiles with a border, and without one.

static void tile_blur(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const float *rows[5];
        for (int d = 0; d < 5; d++) rows[d] = in + (size_t)min(max(y + d - 2, 0), h - 1) * w;
        float *o = out + (size_t)y * w;
        for (int x = 0; x < w; x++) {
            if (x == 2) {
                SIMD for (int x = 2; x < w - 2; x++) {
                    float sum = 0;
                    for (int d = 0; d < 5; d++) sum += rows[d][x - 2] + rows[d][x - 1] + rows[d][x] + rows[d][x + 1] + rows[d][x + 2];
                    o[x] = sum * (1.0f / 25.0f);
                }
                x = w - 2;
            }
            float sum = 0;
            for (int d = 0; d < 5; d++)
                for (int k = -2; k <= 2; k++) sum += rows[d][min(max(x + k, 0), w - 1)];
            o[x] = sum * (1.0f / 25.0f);
        }
    }
}
ENTRY(tile_blur) { tile_blur(a[0].p, a[1].p, a[2].i, a[3].i); }

static void transpose_plain(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y0 = 0; y0 < h; y0 += 16)
        for (int x0 = 0; x0 < w; x0 += 16)
            for (int x = x0; x < min(x0 + 16, w); x++)
                for (int y = y0; y < min(y0 + 16, h); y++) out[(size_t)x * h + y] = in[(size_t)y * w + x];
}
ENTRY(transpose_plain) { transpose_plain(a[0].p, a[1].p, a[2].i, a[3].i); }

static void sobel_tile(const uint8_t *restrict in, uint8_t *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const uint8_t *u = in + (size_t)y * (w + 2), *m = u + w + 2, *d = m + w + 2;
        SIMD for (int x = 0; x < w; x++) {
            int gx = u[x + 2] + 2 * m[x + 2] + d[x + 2] - u[x] - 2 * m[x] - d[x];
            int gy = d[x] + 2 * d[x + 1] + d[x + 2] - u[x] - 2 * u[x + 1] - u[x + 2];
            out[(size_t)y * w + x] = min(abs(gx) + abs(gy), 255);
        }
    }
}
ENTRY(sobel_tile) { sobel_tile(a[0].p, a[1].p, a[2].i, a[3].i); }

static void convolve1d(const float *restrict in, const float *restrict filter, float *restrict out, int n)
{
    ROWS for (int x0 = 0; x0 < n; x0 += 256) {
        float sums[256] = {0};
        for (int i = 0; i < 33; i++)
            SIMD for (int x = 0; x < 256; x++) sums[x] += filter[i] * in[x0 + x + i];
        for (int x = x0; x < min(x0 + 256, n); x++) out[x] = sums[x - x0];
    }
}
ENTRY(convolve1d) { convolve1d(a[0].p, a[1].p, a[2].p, a[3].i); }

// Layers of networks.

static void im2col(const float *restrict in, float *restrict out, int channels, int h, int w)
{
    ROWS for (int c = 0; c < channels; c++)
        for (int k = 0; k < 9; k++)
            for (int y = 0; y < h; y++) {
                int iy = y + k / 3 - 1, dx = k % 3 - 1;
                float *o = out + (((size_t)c * 9 + k) * h + y) * w;
                if (iy < 0 || iy >= h) {
                    memset(o, 0, w * sizeof *o);
                    continue;
                }
                const float *row = in + ((size_t)c * h + iy) * w;
                for (int x = 0; x < w; x++) o[x] = x + dx >= 0 && x + dx < w ? row[x + dx] : 0.0f;
            }
}
ENTRY(im2col) { im2col(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void max_pool(const float *restrict in, float *restrict out, int channels, int h, int w)
{
    int ow = w / 2, oh = h / 2;
    ROWS for (int r = 0; r < channels * oh; r++) {
        const float *p = in + ((size_t)(r / oh) * h + 2 * (r % oh)) * w;
        SIMD for (int x = 0; x < ow; x++) {
            float u = p[2 * x] > p[2 * x + 1] ? p[2 * x] : p[2 * x + 1];
            float d = p[w + 2 * x] > p[w + 2 * x + 1] ? p[w + 2 * x] : p[w + 2 * x + 1];
            out[(size_t)r * ow + x] = u > d ? u : d;
        }
    }
}
ENTRY(max_pool) { max_pool(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void upsample(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < w; x++) {
            float v = in[(size_t)(y / 2) * w + x];
            out[(size_t)y * 2 * w + 2 * x] = v, out[(size_t)y * 2 * w + 2 * x + 1] = v;
        }
}
ENTRY(upsample) { upsample(a[0].p, a[1].p, a[2].i, a[3].i); }

static void channel_bias(float *restrict data, const float *restrict bias, int channels, int n)
{
    ROWS for (int i0 = 0; i0 < n; i0 += channels)
        SIMD for (int c = 0; c < channels; c++) {
            float v = data[i0 + c] + bias[c];
            data[i0 + c] = v > 0 ? v : 0.1f * v;
        }
}
ENTRY(channel_bias) { channel_bias(a[0].p, a[1].p, a[2].i, a[3].i); }

static void quantize_rows(const float *restrict in, int8_t *restrict out, float *restrict scales, int rows, int n)
{
    ROWS for (int r = 0; r < rows; r++) {
        const float *row = in + (size_t)r * n;
        float most = 0;
        _Pragma("omp simd reduction(max : most)") for (int i = 0; i < n; i++)
        {
            float v = fabsf(row[i]);
            most = most > v ? most : v;
        }
        float inverse = most > 0 ? 127.0f / most : 0.0f;
        SIMD for (int i = 0; i < n; i++) out[(size_t)r * n + i] = (int8_t)(int)rintf(row[i] * inverse);
        scales[r] = most / 127.0f;
    }
}
ENTRY(quantize_rows) { quantize_rows(a[0].p, a[1].p, a[2].p, 4000, a[3].i); }

static void scores(const float *restrict q, const float *restrict k, float *restrict out, int n)
{
    ROWS for (int i = 0; i < n; i++) {
        float *o = out + (size_t)i * n;
        for (int j = 0; j < n; j++) o[j] = 0;
        for (int d = 0; d < 64; d++) {
            float x = q[i * 64 + d];
            SIMD for (int j = 0; j < n; j++) o[j] += x * k[(size_t)d * n + j];
        }
        for (int j = 0; j < n; j++) o[j] *= 0.125f;
    }
}
ENTRY(scores) { scores(a[0].p, a[1].p, a[2].p, a[3].i); }

// Sparse and irregular.

static void spmv_ell(const float *restrict values, const int *restrict cols, const float *restrict x, float *restrict y, int n, int width)
{
    ROWS for (int r0 = 0; r0 < n; r0 += 256) {
        int end = min(r0 + 256, n);
        for (int row = r0; row < end; row++) y[row] = 0;
        for (int k = 0; k < width; k++)
            for (int row = r0; row < end; row++) {
                int col = cols[(size_t)k * n + row];
                if (col >= 0) y[row] += values[(size_t)k * n + row] * x[col];
            }
    }
}
ENTRY(spmv_ell) { spmv_ell(a[0].p, a[1].p, a[2].p, a[3].p, a[4].i, a[5].i); }

static void nearest(const float *restrict px, const float *restrict py, const float *restrict cx, const float *restrict cy, int *restrict out, int n, int m)
{
    ROWS for (int i0 = 0; i0 < n; i0 += 64) {
        float best[64];
        int at[64], size = min(64, n - i0);
        for (int i = 0; i < size; i++) best[i] = 1e30f, at[i] = -1;
        for (int j = 0; j < m; j++)
            SIMD for (int i = 0; i < size; i++) {
                float dx = px[i0 + i] - cx[j], dy = py[i0 + i] - cy[j], d = dx * dx + dy * dy;
                at[i] = d < best[i] ? j : at[i];
                best[i] = d < best[i] ? d : best[i];
            }
        for (int i = 0; i < size; i++) out[i0 + i] = at[i];
    }
}
ENTRY(nearest) { nearest(a[0].p, a[1].p, a[2].p, a[3].p, a[4].p, a[5].i, a[6].i); }

static void lower_bound(const int *restrict sorted, const int *restrict keys, int *restrict out, int n, int m)
{
    ROWS for (int i = 0; i < m; i++) {
        int lo = 0, hi = n, key = keys[i];
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (sorted[mid] < key) lo = mid + 1;
            else hi = mid;
        }
        out[i] = lo;
    }
}
ENTRY(lower_bound) { lower_bound(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }

// Reductions.

static void jacobi_residual(const float *restrict u, const float *restrict f, float *restrict next, float *restrict partial, int w, int h)
{
    int across = (w + 31) / 32;
    ROWS for (int by = 0; by < (h + 7) / 8; by++)
        for (int bx = 0; bx < across; bx++) {
            float sum = 0;
            for (int y = max(by * 8, 1); y < min(by * 8 + 8, h - 1); y++) {
                _Pragma("omp simd reduction(+ : sum)") for (int x = max(bx * 32, 1); x < min(bx * 32 + 32, w - 1); x++)
                {
                    size_t i = (size_t)y * w + x;
                    float v = 0.25f * (u[i - 1] + u[i + 1] + u[i - w] + u[i + w] - f[i]), r = v - u[i];
                    next[i] = v;
                    sum += r * r;
                }
            }
            partial[by * across + bx] = sum;
        }
}
ENTRY(jacobi_residual) { jacobi_residual(a[0].p, a[1].p, a[2].p, a[3].p, a[4].i, a[5].i); }

static void dot_double(const double *restrict x, const double *restrict y, double *restrict partial, int blocks, int n)
{
    ROWS for (int b = 0; b < blocks; b++) {
        double sum = 0;
        for (int i0 = b * 256; i0 < n; i0 += blocks * 256)
            _Pragma("omp simd reduction(+ : sum)") for (int i = i0; i < min(i0 + 256, n); i++) sum += x[i] * y[i];
        partial[b] = sum;
    }
}
ENTRY(dot_double) { dot_double(a[0].p, a[1].p, a[2].p, 64, a[3].i); }

static void scan_blelloch(int *data, int n)
{
    ROWS for (int b = 0; b < n; b += 512) {
        int sum = 0;
        for (int i = b; i < b + 512; i++) {
            int x = data[i];
            data[i] = sum;
            sum += x;
        }
    }
}
ENTRY(scan_blelloch) { scan_blelloch(a[0].p, 4 << 20); }

// Bytes and bits.

static void yuv(const uint8_t *restrict rgb, uint8_t *restrict planes, int n)
{
    ROWS for (int i = 0; i < n; i++) {
        int r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        planes[i] = (66 * r + 129 * g + 25 * b + 4224) >> 8;
        planes[n + i] = (-38 * r - 74 * g + 112 * b + 32896) >> 8;
        planes[2 * n + i] = (112 * r - 94 * g - 18 * b + 32896) >> 8;
    }
}
ENTRY(yuv) { yuv(a[0].p, a[1].p, a[2].i); }

static void pack_bits(const float *restrict in, uint32_t *restrict out, int n, float limit)
{
    ROWS for (int i = 0; i < n / 32; i++) {
        uint32_t bits = 0;
        for (int k = 0; k < 32; k++) bits |= (uint32_t)(in[32 * i + k] > limit) << k;
        out[i] = bits;
    }
}
ENTRY(pack_bits) { pack_bits(a[0].p, a[1].p, a[2].i, a[3].f); }

static void hamming(const uint64_t *restrict x, const uint64_t *restrict y, int *restrict out, int n)
{
    ROWS for (int i = 0; i < n; i++) {
        int count = 0;
        for (int k = 0; k < 4; k++) count += __builtin_popcountll(x[(size_t)k * n + i] ^ y[(size_t)k * n + i]);
        out[i] = count;
    }
}
ENTRY(hamming) { hamming(a[0].p, a[1].p, a[2].p, a[3].i); }

static void lowercase(const uint8_t *restrict in, uint8_t *restrict out, int n)
{
    ROWS for (int i = 0; i < 4 * n; i++) out[i] = in[i] + (in[i] >= 'A' && in[i] <= 'Z' ? 32 : 0);
}
ENTRY(lowercase) { lowercase(a[0].p, a[1].p, a[2].i); }

static void crc32(const uint32_t *restrict data, const uint32_t *restrict table, uint32_t *restrict out, int n, int words)
{
    ROWS for (int i = 0; i < n; i++) {
        uint32_t crc = ~0u;
        for (int k = 0; k < words; k++) {
            uint32_t word = data[(size_t)k * n + i];
            for (int b = 0; b < 4; b++) crc = crc >> 8 ^ table[(crc ^ word >> 8 * b) & 255];
        }
        out[i] = ~crc;
    }
}
ENTRY(crc32) { crc32(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }

// Numbers.

static void fft_stage(const float *restrict in, float *restrict out, int n, int half)
{
    ROWS for (int j0 = 0; j0 < n; j0 += 2 * half)
        for (int k = 0; k < half; k++) {
            int j = j0 + k;
            float angle = -3.14159265f * k / half, s = sinf(angle), c = cosf(angle);
            float ax = in[2 * j], ay = in[2 * j + 1], bx = in[2 * (j + half)], by = in[2 * (j + half) + 1];
            float re = bx * c - by * s, im = bx * s + by * c;
            out[2 * j] = ax + re, out[2 * j + 1] = ay + im;
            out[2 * (j + half)] = ax - re, out[2 * (j + half) + 1] = ay - im;
        }
}
ENTRY(fft_stage) { fft_stage(a[0].p, a[1].p, a[2].i, a[3].i); }

static void runge_kutta(float *restrict xs, float *restrict vs, int n, int steps, float dt)
{
    ROWS for (int i0 = 0; i0 < n; i0 += 64) {
        int size = min(64, n - i0);
        for (int s = 0; s < steps; s++)
            SIMD for (int i = i0; i < i0 + size; i++) {
                float x = xs[i], v = vs[i];
                float k1 = v, l1 = -x - 0.1f * v * fabsf(v);
                float v2 = v + 0.5f * dt * l1, x2 = x + 0.5f * dt * k1, l2 = -x2 - 0.1f * v2 * fabsf(v2);
                float v3 = v + 0.5f * dt * l2, x3 = x + 0.5f * dt * v2, l3 = -x3 - 0.1f * v3 * fabsf(v3);
                float v4 = v + dt * l3, x4 = x + dt * v3, l4 = -x4 - 0.1f * v4 * fabsf(v4);
                xs[i] = x + dt / 6 * (k1 + 2 * v2 + 2 * v3 + v4), vs[i] = v + dt / 6 * (l1 + 2 * l2 + 2 * l3 + l4);
            }
    }
}
ENTRY(runge_kutta) { runge_kutta(a[0].p, a[1].p, a[2].i, a[3].i, a[4].f); }

static void monte_carlo(uint32_t *restrict hits, int n, int samples, uint32_t seed)
{
    ROWS for (int i0 = 0; i0 < n; i0 += 64) {
        uint32_t state[64], count[64] = {0};
        for (int i = 0; i < 64; i++) state[i] = seed + (i0 + i) * 747796405u;
        for (int s = 0; s < samples; s++)
            SIMD for (int i = 0; i < 64; i++) {
                state[i] = state[i] * 1664525u + 1013904223u;
                float x = (float)(int)(state[i] >> 8) * 0x1p-24f;
                state[i] = state[i] * 1664525u + 1013904223u;
                float y = (float)(int)(state[i] >> 8) * 0x1p-24f;
                count[i] += x * x + y * y < 1.0f;
            }
        for (int i = 0; i < min(64, n - i0); i++) hits[i0 + i] = count[i];
    }
}
ENTRY(monte_carlo) { monte_carlo(a[0].p, a[1].i, a[2].i, a[3].i); }

static void edit_distance(const uint8_t *restrict x, const uint8_t *restrict y, int *restrict out, int n)
{
    ROWS for (int i0 = 0; i0 < n; i0 += 64) {
        int row[17][64], size = min(64, n - i0);
        for (int j = 0; j <= 16; j++)
            for (int i = 0; i < 64; i++) row[j][i] = j;
        for (int k = 0; k < 16; k++) {
            int before[64];
            for (int i = 0; i < 64; i++) before[i] = row[0][i], row[0][i] = k + 1;
            for (int j = 0; j < 16; j++)
                SIMD for (int i = 0; i < size; i++) {
                    int cost = before[i] + (x[(size_t)k * n + i0 + i] != y[(size_t)j * n + i0 + i]);
                    int left = row[j][i], up = row[j + 1][i], least = (left < up ? left : up) + 1;
                    before[i] = up;
                    row[j + 1][i] = cost < least ? cost : least;
                }
        }
        for (int i = 0; i < size; i++) out[i0 + i] = row[16][i];
    }
}
ENTRY(edit_distance) { edit_distance(a[0].p, a[1].p, a[2].p, a[3].i); }

static void particles(float *restrict pos, float *restrict vel, int n, float dt, float bound)
{
    ROWS for (int i = 0; i < n; i++) {
        float *p = pos + 4 * i, *v = vel + 4 * i;
        for (int k = 0; k < 3; k++) {
            p[k] += v[k] * dt;
            v[k] = fabsf(p[k]) > bound ? -v[k] : v[k];
        }
        v[1] -= 9.81f * dt;
    }
}
ENTRY(particles) { particles(a[0].p, a[1].p, a[2].i, a[3].f, a[4].f); }
