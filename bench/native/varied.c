// The kernels of `kernels/varied.cu`, as one would write them in C.
#include "native.h"

#define ROWS _Pragma("omp parallel for schedule(static)")
#define SIMD _Pragma("omp simd")

static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }

// Stencils in two dimensions.

static void star1(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 1; y < h - 1; y++) for (int x = 1; x < w - 1; x++) {
        const float *p = in + (size_t)y * w + x;
        out[(size_t)y * w + x] = 0.5f * p[0] + 0.125f * (p[-1] + p[1] + p[-w] + p[w]);
    }
}
ENTRY(star1) { star1(a[0].p, a[1].p, a[2].i, a[3].i); }

static float box9_at(const float *in, int w, int h, int x, int y)
{
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) sum += in[(size_t)min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
    return sum * (1.0f / 9.0f);
}

static void box9(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const float *u = in + (size_t)max(y - 1, 0) * w, *m = in + (size_t)y * w, *d = in + (size_t)min(y + 1, h - 1) * w;
        float *o = out + (size_t)y * w;
        o[0] = box9_at(in, w, h, 0, y);
        for (int x = 1; x < w - 1; x++)
            o[x] = (u[x - 1] + u[x] + u[x + 1] + m[x - 1] + m[x] + m[x + 1] + d[x - 1] + d[x] + d[x + 1]) * (1.0f / 9.0f);
        o[w - 1] = box9_at(in, w, h, w - 1, y);
    }
}
ENTRY(box9) { box9(a[0].p, a[1].p, a[2].i, a[3].i); }

static void star2(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 2; y < h - 2; y++) for (int x = 2; x < w - 2; x++) {
        const float *p = in + (size_t)y * w + x;
        float near = p[-1] + p[1] + p[-w] + p[w], far = p[-2] + p[2] + p[-2 * w] + p[2 * w];
        out[(size_t)y * w + x] = 3.0f * p[0] - 0.5f * near - 0.25f * far;
    }
}
ENTRY(star2) { star2(a[0].p, a[1].p, a[2].i, a[3].i); }

static void star4(const float *restrict in, float *restrict out, const float *restrict c, int w, int h)
{
    float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4];
    ROWS for (int y = 4; y < h - 4; y++) for (int x = 4; x < w - 4; x++) {
        const float *p = in + (size_t)y * w + x;
        out[(size_t)y * w + x] = c0 * p[0] + c1 * (p[-1] + p[1] + p[-w] + p[w]) + c2 * (p[-2] + p[2] + p[-2 * w] + p[2 * w]) +
            c3 * (p[-3] + p[3] + p[-3 * w] + p[3 * w]) + c4 * (p[-4] + p[4] + p[-4 * w] + p[4 * w]);
    }
}
ENTRY(star4) { star4(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }

static float star3_at(const float *in, int w, int h, int x, int y)
{
    float sum = in[(size_t)y * w + x];
    for (int r = 1; r <= 3; r++) {
        float l = x >= r ? in[(size_t)y * w + x - r] : 0, e = x + r < w ? in[(size_t)y * w + x + r] : 0;
        float u = y >= r ? in[(size_t)(y - r) * w + x] : 0, d = y + r < h ? in[(size_t)(y + r) * w + x] : 0;
        sum += 0.1f * (l + e + u + d);
    }
    return sum;
}

static void star3(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        float *o = out + (size_t)y * w;
        int inside = y >= 3 && y < h - 3;
        for (int x = 0; x < (inside ? 3 : w); x++) o[x] = star3_at(in, w, h, x, y);
        if (!inside) continue;
        for (int x = 3; x < w - 3; x++) {
            const float *p = in + (size_t)y * w + x;
            o[x] = p[0] + 0.1f * (p[-1] + p[1] + p[-w] + p[w]) + 0.1f * (p[-2] + p[2] + p[-2 * w] + p[2 * w]) +
                0.1f * (p[-3] + p[3] + p[-3 * w] + p[3 * w]);
        }
        for (int x = w - 3; x < w; x++) o[x] = star3_at(in, w, h, x, y);
    }
}
ENTRY(star3_shared) { star3(a[0].p, a[1].p, a[2].i, a[3].i); }

// Stencils in three dimensions.

static void star3d1(const float *restrict in, float *restrict out, int nx, int ny, int nz)
{
    int s = nx * ny;
    ROWS for (int z = 1; z < nz - 1; z++) for (int y = 1; y < ny - 1; y++) for (int x = 1; x < nx - 1; x++) {
        const float *p = in + (size_t)z * s + y * nx + x;
        out[(size_t)z * s + y * nx + x] = 0.4f * p[0] + 0.1f * (p[-1] + p[1] + p[-nx] + p[nx] + p[-s] + p[s]);
    }
}
ENTRY(star3d1) { star3d1(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void star3d2(const float *restrict in, float *restrict out, int nx, int ny, int nz)
{
    int s = nx * ny;
    ROWS for (int z = 2; z < nz - 2; z++) for (int y = 2; y < ny - 2; y++) for (int x = 2; x < nx - 2; x++) {
        const float *p = in + (size_t)z * s + y * nx + x;
        float near = p[-1] + p[1] + p[-nx] + p[nx] + p[-s] + p[s];
        float far = p[-2] + p[2] + p[-2 * nx] + p[2 * nx] + p[-2 * s] + p[2 * s];
        out[(size_t)z * s + y * nx + x] = 4.0f * p[0] - 0.75f * near + 0.0625f * far;
    }
}
ENTRY(star3d2) { star3d2(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void star3d4(const float *restrict in, float *restrict out, int nx, int ny, int nz)
{
    int s = nx * ny;
    ROWS for (int z = 4; z < nz - 4; z++) for (int y = 4; y < ny - 4; y++) for (int x = 4; x < nx - 4; x++) {
        const float *p = in + (size_t)z * s + y * nx + x;
        out[(size_t)z * s + y * nx + x] = 0.5f * p[0] + 0.02f * (p[-1] + p[1] + p[-nx] + p[nx] + p[-s] + p[s]) +
            0.04f * (p[-2] + p[2] + p[-2 * nx] + p[2 * nx] + p[-2 * s] + p[2 * s]) +
            0.06f * (p[-3] + p[3] + p[-3 * nx] + p[3 * nx] + p[-3 * s] + p[3 * s]) +
            0.08f * (p[-4] + p[4] + p[-4 * nx] + p[4 * nx] + p[-4 * s] + p[4 * s]);
    }
}
ENTRY(star3d4_march) { star3d4(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void box27(const float *restrict in, float *restrict out, int nx, int ny, int nz)
{
    ROWS for (int z = 1; z < nz - 1; z++) for (int y = 1; y < ny - 1; y++) {
        const float *r[9];
        for (int k = 0; k < 9; k++) r[k] = in + ((size_t)(z + k / 3 - 1) * ny + y + k % 3 - 1) * nx;
        float *o = out + ((size_t)z * ny + y) * nx;
        for (int x = 1; x < nx - 1; x++) {
            float sum = 0;
            for (int k = 0; k < 9; k++) sum += r[k][x - 1] + r[k][x] + r[k][x + 1];
            o[x] = sum / 27.0f;
        }
    }
}
ENTRY(box27) { box27(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

// Convolutions.

static const float filter5[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};

static void conv5x5(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h - 4; y++) for (int x = 0; x < w - 4; x++) {
        float sum = 0;
        for (int j = 0; j < 5; j++)
            for (int i = 0; i < 5; i++) sum += filter5[j * 5 + i] * in[(size_t)(y + j) * w + x + i];
        out[(size_t)y * (w - 4) + x] = sum * (1.0f / 256.0f);
    }
}
ENTRY(conv5x5_const) { conv5x5(a[0].p, a[1].p, a[2].i, a[3].i); }

static void conv_any(const float *restrict in, const float *restrict filter, float *restrict out, int w, int h, int r)
{
    ROWS for (int y = 0; y < h; y++) {
        float *o = out + (size_t)y * w;
        memset(o, 0, w * sizeof *o);
        for (int j = max(-r, -y); j <= min(r, h - 1 - y); j++)
            for (int i = -r; i <= r; i++) {
                float f = filter[(j + r) * (2 * r + 1) + i + r];
                const float *row = in + (size_t)(y + j) * w + i;
                SIMD for (int x = max(0, -i); x < min(w, w - i); x++) o[x] += f * row[x];
            }
    }
}
ENTRY(conv_any) { conv_any(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }

static void conv_channels(const float *restrict in, const float *restrict filter, float *restrict out, int w, int h)
{
    ROWS for (int oy = 0; oy < 8 * (h - 2); oy++) {
        int o = oy / (h - 2), y = oy % (h - 2);
        const float *f = filter + o * 36;
        float *to = out + ((size_t)o * (h - 2) + y) * (w - 2);
        for (int x = 0; x < w - 2; x++) {
            float sum = 0;
            for (int c = 0; c < 4; c++)
                for (int j = 0; j < 3; j++)
                    for (int i = 0; i < 3; i++) sum += f[(c * 3 + j) * 3 + i] * in[((size_t)c * h + y + j) * w + x + i];
            to[x] = sum > 0 ? sum : 0.01f * sum;
        }
    }
}
ENTRY(conv_channels) { conv_channels(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }

// Sums of rows and of columns.

static void row_sum(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int x = 0; x < w; x++) sum += in[(size_t)y * w + x];
        out[y] = sum;
    }
}
ENTRY(row_sum_warp) { row_sum(a[0].p, a[1].p, a[2].i, a[3].i); }
ENTRY(row_sum_thread) { row_sum(a[0].p, a[1].p, a[2].i, a[3].i); }

static void col_sum(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int b = 0; b < w; b += 1024) {
        int end = min(b + 1024, w);
        for (int x = b; x < end; x++) out[x] = 0;
        for (int y = 0; y < h; y++)
            for (int x = b; x < end; x++) out[x] += in[(size_t)y * w + x];
    }
}
ENTRY(col_sum) { col_sum(a[0].p, a[1].p, a[2].i, a[3].i); }

static void row_argmax(const float *restrict in, int *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const float *row = in + (size_t)y * w;
        float best = row[0];
#pragma omp simd reduction(max : best)
        for (int x = 0; x < w; x++) best = row[x] > best ? row[x] : best;
        int place = 0;
        while (row[place] != best) place++;
        out[y] = place;
    }
}
ENTRY(row_argmax) { row_argmax(a[0].p, a[1].p, a[2].i, 4000); }

static void col_mean_var(const double *restrict in, double *restrict out, int w, int h)
{
    ROWS for (int b = 0; b < w; b += 256) {
        int n = min(256, w - b);
        double sum[256] = {0}, squares[256] = {0};
        for (int y = 0; y < h; y++)
            for (int x = 0; x < n; x++) {
                double v = in[(size_t)y * w + b + x];
                sum[x] += v, squares[x] += v * v;
            }
        for (int x = 0; x < n; x++) {
            double mean = sum[x] / h;
            out[b + x] = mean;
            out[w + b + x] = squares[x] / h - mean * mean;
        }
    }
}
ENTRY(col_mean_var) { col_mean_var(a[0].p, a[1].p, a[2].i, a[3].i); }

// Automata on bytes.

static void life_masks(const uint8_t *restrict from, uint8_t *restrict to, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const uint8_t *u = from + (size_t)((y - 1) & (h - 1)) * w, *m = from + (size_t)y * w, *d = from + (size_t)((y + 1) & (h - 1)) * w;
        uint8_t *o = to + (size_t)y * w;
        for (int x = 1; x < w - 1; x++) {
            uint8_t s = u[x - 1] + u[x] + u[x + 1] + m[x - 1] + m[x + 1] + d[x - 1] + d[x] + d[x + 1];
            o[x] = (s == 3) | ((s == 2) & (m[x] != 0));
        }
        for (int x = 0; x < w; x += w - 1) {
            int l = (x - 1) & (w - 1), r = (x + 1) & (w - 1);
            int s = u[l] + u[x] + u[r] + m[l] + m[r] + d[l] + d[x] + d[r];
            o[x] = s == 3 || (s == 2 && m[x]);
        }
    }
}
ENTRY(life_masks) { life_masks(a[0].p, a[1].p, a[2].i, a[3].i); }

static void cyclic(const uint8_t *restrict from, uint8_t *restrict to, int w, int h, int states)
{
    uint8_t last = states - 1;
    ROWS for (int y = 1; y < h - 1; y++) {
        const uint8_t *p = from + (size_t)y * w;
        uint8_t *o = to + (size_t)y * w;
        for (int x = 1; x < w - 1; x++) {
            uint8_t me = p[x], next = me == last ? 0 : me + 1;
            uint8_t eaten = (p[x - 1] == next) | (p[x + 1] == next) | (p[x - w] == next) | (p[x + w] == next);
            o[x] = eaten ? next : me;
        }
    }
}
ENTRY(cyclic) { cyclic(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i); }

static void rule110(const uint8_t *restrict from, uint8_t *restrict to, int n)
{
    to[0] = 110 >> (from[0] << 1 | from[1]) & 1;
    ROWS for (int i = 1; i < n - 1; i++) {
        uint8_t l = from[i - 1], m = from[i], r = from[i + 1];
        to[i] = (m ^ r) | (m & r & (l ^ 1));
    }
    to[n - 1] = 110 >> (from[n - 2] << 2 | from[n - 1] << 1) & 1;
}
ENTRY(rule110) { rule110(a[0].p, a[1].p, a[2].i); }

// Scans and sorts of a block.

static void scan_floats(const float *restrict in, float *restrict out, int n)
{
    ROWS for (int b = 0; b < n; b += 256) {
        float sum = 0;
        for (int i = b; i < b + 256; i++) out[i] = sum += in[i];
    }
}
ENTRY(scan_hillis) { scan_floats(a[0].p, a[1].p, 8 << 20); }

static void scan_ints(const uint32_t *restrict in, uint32_t *restrict out, int n)
{
    ROWS for (int b = 0; b < n; b += 512) {
        uint32_t sum = 0;
        for (int i = b; i < b + 512; i++) out[i] = sum += in[i];
    }
}
ENTRY(scan_warps) { scan_ints(a[0].p, a[1].p, 8 << 20); }

// The same network: its loops over halves of pairs are vectorized.
static void sort_bitonic(uint32_t *data, int n)
{
    ROWS for (int b = 0; b < n; b += 512) {
        uint32_t *v = data + b;
        for (int k = 2; k <= 512; k <<= 1)
            for (int j = k >> 1; j; j >>= 1)
                for (int i = 0; i < 512; i += 2 * j) {
                    int up = (i & k) == 0;
                    SIMD for (int t = i; t < i + j; t++) {
                        uint32_t x = v[t], y = v[t + j], lo = x < y ? x : y, hi = x < y ? y : x;
                        v[t] = up ? lo : hi, v[t + j] = up ? hi : lo;
                    }
                }
    }
}
ENTRY(sort_bitonic) { sort_bitonic(a[0].p, 1 << 20); }

static void sort_odd_even(int *data, int n)
{
    ROWS for (int b = 0; b < n; b += 64) {
        int *v = data + b;
        for (int round = 0; round < 64; round++)
            for (int t = round & 1; t < 63; t += 2) {
                int x = v[t], y = v[t + 1];
                v[t] = x < y ? x : y, v[t + 1] = x < y ? y : x;
            }
    }
}
ENTRY(sort_odd_even) { sort_odd_even(a[0].p, 1 << 20); }

static void bitonic_step(float *data, int j, int k, int n)
{
    ROWS for (int i = 0; i < n; i += 2 * j) {
        int up = (i & k) == 0;
        SIMD for (int t = i; t < i + j; t++) {
            float x = data[t], y = data[t + j], lo = x > y ? y : x, hi = x > y ? x : y;
            data[t] = up ? lo : hi, data[t + j] = up ? hi : lo;
        }
    }
}
ENTRY(bitonic_step) { bitonic_step(a[0].p, a[1].i, a[2].i, 8 << 20); }

// Lattices.

static void lattice9(const float *restrict f, float *restrict g, int w, int h, float omega)
{
    static const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    static const float wt[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    int n = w * h;
    ROWS for (int y = 1; y < h - 1; y++) {
        SIMD for (int x = 1; x < w - 1; x++) {
            float v[9], rho = 0, ux = 0, uy = 0;
#pragma GCC unroll 9
            for (int k = 0; k < 9; k++) {
                v[k] = f[k * n + (y - cy[k]) * w + x - cx[k]];
                rho += v[k], ux += cx[k] * v[k], uy += cy[k] * v[k];
            }
            ux /= rho, uy /= rho;
            float uu = 1.5f * (ux * ux + uy * uy);
#pragma GCC unroll 9
            for (int k = 0; k < 9; k++) {
                float cu = 3.0f * (cx[k] * ux + cy[k] * uy);
                g[k * n + y * w + x] = v[k] + omega * (wt[k] * rho * (1.0f + cu + 0.5f * cu * cu - uu) - v[k]);
            }
        }
    }
}
ENTRY(lattice9) { lattice9(a[0].p, a[1].p, a[2].i, a[3].i, a[4].f); }

static uint32_t mix(uint32_t h)
{
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

static void ising_at(int8_t *mine, const int8_t *u, const int8_t *m, const int8_t *d, int x, int side, int i, uint32_t seed)
{
    int sum = u[x] + m[x] + d[x] + m[side], spin = mine[x], cost = spin * sum;
    uint32_t r = mix(mix(i) ^ seed) >> 16, limit = cost <= 0 ? 65536 : cost == 2 ? 11285 : 1943;
    mine[x] = r < limit ? -spin : spin;
}

static void ising(int8_t *restrict mine, const int8_t *restrict other, int w, int h, int color, uint32_t seed)
{
    ROWS for (int y = 0; y < h; y++) {
        const int8_t *u = other + (size_t)(y ? y - 1 : h - 1) * w, *m = other + (size_t)y * w, *d = other + (size_t)(y + 1 < h ? y + 1 : 0) * w;
        int left = (y & 1) == color;
        int8_t *row = mine + (size_t)y * w;
        if (left) {
            ising_at(row, u, m, d, 0, w - 1, y * w, seed);
            SIMD for (int x = 1; x < w; x++) ising_at(row, u, m, d, x, x - 1, y * w + x, seed);
        } else {
            SIMD for (int x = 0; x < w - 1; x++) ising_at(row, u, m, d, x, x + 1, y * w + x, seed);
            ising_at(row, u, m, d, w - 1, 0, y * w + w - 1, seed);
        }
    }
}
ENTRY(ising) { ising(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i, a[5].i); }

// Filters of pictures.

static void gray_rgb(const uint8_t *restrict rgb, uint8_t *restrict out, int n)
{
    ROWS for (int i = 0; i < n; i++) out[i] = (77 * rgb[3 * i] + 150 * rgb[3 * i + 1] + 29 * rgb[3 * i + 2] + 128) >> 8;
}
ENTRY(gray_rgb) { gray_rgb(a[0].p, a[1].p, a[2].i); }

static void gamma_rgba(const float *restrict in, float *restrict out, int n)
{
    ROWS for (int i = 0; i < n; i++) {
        for (int c = 0; c < 3; c++) out[4 * i + c] = powf(in[4 * i + c], 0.4545f);
        out[4 * i + 3] = in[4 * i + 3];
    }
}
ENTRY(gamma_rgba) { gamma_rgba(a[0].p, a[1].p, a[2].i); }

#define ORDER(a, b) { uint8_t lo = v[a] < v[b] ? v[a] : v[b]; v[b] = v[a] < v[b] ? v[b] : v[a]; v[a] = lo; }

static void median9(const uint8_t *restrict in, uint8_t *restrict out, int w, int h)
{
    ROWS for (int y = 1; y < h - 1; y++) {
        SIMD for (int x = 1; x < w - 1; x++) {
            const uint8_t *p = in + (size_t)y * w + x;
            uint8_t v[9] = {p[-w - 1], p[-w], p[-w + 1], p[-1], p[0], p[1], p[w - 1], p[w], p[w + 1]};
            ORDER(1, 2) ORDER(4, 5) ORDER(7, 8) ORDER(0, 1) ORDER(3, 4) ORDER(6, 7) ORDER(1, 2) ORDER(4, 5)
            ORDER(7, 8) ORDER(0, 3) ORDER(5, 8) ORDER(4, 7) ORDER(3, 6) ORDER(1, 4) ORDER(2, 5) ORDER(4, 7)
            ORDER(4, 2) ORDER(6, 4) ORDER(4, 2)
            out[(size_t)y * w + x] = v[4];
        }
    }
}
ENTRY(median9) { median9(a[0].p, a[1].p, a[2].i, a[3].i); }

static void bilateral(const float *restrict in, float *restrict out, int w, int h)
{
    ROWS for (int y = 2; y < h - 2; y++) for (int x = 2; x < w - 2; x++) {
        float c = in[(size_t)y * w + x], sum = 0, norm = 0;
        for (int j = -2; j <= 2; j++)
            for (int i = -2; i <= 2; i++) {
                float v = in[(size_t)(y + j) * w + x + i], d = v - c;
                float k = expf(-0.1f * (i * i + j * j) - 8.0f * d * d);
                sum += k * v, norm += k;
            }
        out[(size_t)y * w + x] = sum / norm;
    }
}
ENTRY(bilateral) { bilateral(a[0].p, a[1].p, a[2].i, a[3].i); }

static void blur_rows(const uint8_t *restrict in, uint8_t *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const uint8_t *row = in + (size_t)y * w;
        int sum = 0;
        for (int x = 0; x < 8; x++) sum += row[x];
        for (int x = 0; x < w; x++) {
            if (x + 8 < w) sum += row[x + 8];
            if (x >= 9) sum -= row[x - 9];
            out[(size_t)y * w + x] = sum / 17;
        }
    }
}
ENTRY(blur_rows) { blur_rows(a[0].p, a[1].p, a[2].i, a[3].i); }

static void resize(const float *restrict in, float *restrict out, int w, int h, int ow, int oh)
{
    ROWS for (int y = 0; y < oh; y++) {
        float fy = (y + 0.5f) * h / oh - 0.5f;
        int y0 = max((int)floorf(fy), 0), y1 = min(y0 + 1, h - 1);
        float ay = fy - y0;
        const float *t = in + (size_t)y0 * w, *b = in + (size_t)y1 * w;
        for (int x = 0; x < ow; x++) {
            float fx = (x + 0.5f) * w / ow - 0.5f;
            int x0 = max((int)floorf(fx), 0), x1 = min(x0 + 1, w - 1);
            float ax = fx - x0, top = t[x0] + ax * (t[x1] - t[x0]), bottom = b[x0] + ax * (b[x1] - b[x0]);
            out[(size_t)y * ow + x] = top + ay * (bottom - top);
        }
    }
}
ENTRY(resize_bilinear) { resize(a[0].p, a[1].p, a[2].i, a[3].i, a[4].i, a[5].i); }

// Small matrices in batches.

static void batch_mul4(const float *restrict p, const float *restrict q, float *restrict r, int n)
{
    ROWS for (int m = 0; m < n; m++) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                float sum = 0;
                for (int k = 0; k < 4; k++) sum += p[m * 16 + i * 4 + k] * q[m * 16 + k * 4 + j];
                r[m * 16 + i * 4 + j] = sum;
            }
    }
}
ENTRY(batch_mul4) { batch_mul4(a[0].p, a[1].p, a[2].p, a[3].i); }

static void batch_invert3(const double *restrict in, double *restrict out, int n)
{
    ROWS for (int m = 0; m < n; m++) {
        double v[9];
        for (int k = 0; k < 9; k++) v[k] = in[k * n + m];
        double x = v[4] * v[8] - v[5] * v[7], y = v[5] * v[6] - v[3] * v[8], z = v[3] * v[7] - v[4] * v[6];
        double r = 1.0 / (v[0] * x + v[1] * y + v[2] * z);
        out[m] = x * r, out[n + m] = (v[2] * v[7] - v[1] * v[8]) * r, out[2 * n + m] = (v[1] * v[5] - v[2] * v[4]) * r;
        out[3 * n + m] = y * r, out[4 * n + m] = (v[0] * v[8] - v[2] * v[6]) * r, out[5 * n + m] = (v[2] * v[3] - v[0] * v[5]) * r;
        out[6 * n + m] = z * r, out[7 * n + m] = (v[1] * v[6] - v[0] * v[7]) * r, out[8 * n + m] = (v[0] * v[4] - v[1] * v[3]) * r;
    }
}
ENTRY(batch_invert3) { batch_invert3(a[0].p, a[1].p, a[2].i); }

static void batch_mul8(const float *restrict p, const float *restrict q, float *restrict r, int n)
{
    ROWS for (int m = 0; m < n; m++) {
        for (int i = 0; i < 8; i++) {
            float sum[8] = {0};
            for (int k = 0; k < 8; k++)
                for (int j = 0; j < 8; j++) sum[j] += p[m * 64 + i * 8 + k] * q[m * 64 + k * 8 + j];
            memcpy(r + m * 64 + i * 8, sum, sizeof sum);
        }
    }
}
ENTRY(batch_mul8_shared) { batch_mul8(a[0].p, a[1].p, a[2].p, a[3].i); }

static void gemm_transposed(const float *restrict p, const float *restrict q, float *restrict r, int n)
{
    ROWS for (int y = 0; y < n; y++) {
        float *o = r + (size_t)y * n;
        memset(o, 0, n * sizeof *o);
        for (int k = 0; k < n; k++) {
            float f = p[(size_t)k * n + y];
            for (int x = 0; x < n; x++) o[x] += f * q[(size_t)k * n + x];
        }
    }
}
ENTRY(gemm_transposed) { gemm_transposed(a[0].p, a[1].p, a[2].p, a[3].i); }

// Others.

static void layer_norm(const float *restrict in, const float *restrict gain, float *restrict out, int w, int h)
{
    ROWS for (int y = 0; y < h; y++) {
        const float *row = in + (size_t)y * w;
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum, squares)
        for (int x = 0; x < w; x++) sum += row[x], squares += row[x] * row[x];
        float mean = sum / w, scale = 1.0f / sqrtf(squares / w - mean * mean + 1e-5f);
        for (int x = 0; x < w; x++) out[(size_t)y * w + x] = (row[x] - mean) * scale * gain[x];
    }
}
ENTRY(layer_norm) { layer_norm(a[0].p, a[1].p, a[2].p, a[3].i, 4000); }

static void hash64(const uint64_t *restrict in, uint64_t *restrict out, int n)
{
    ROWS for (int i = 0; i < n; i++) {
        uint64_t h = in[i];
        h ^= h >> 33, h *= 0xff51afd7ed558ccdull, h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ull;
        out[i] = h ^ h >> 33;
    }
}
ENTRY(hash64) { hash64(a[0].p, a[1].p, a[2].i); }

static void julia(uint8_t *restrict out, int w, int h, float cr, float ci)
{
#pragma omp parallel for schedule(dynamic, 8)
    for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) {
        float zr = 3.0f * x / w - 1.5f, zi = 2.0f * y / h - 1.0f;
        int k = 0;
        for (; k < 200; k++) {
            float r2 = zr * zr, i2 = zi * zi;
            if (r2 + i2 > 4.0f) break;
            zi = 2.0f * zr * zi + ci;
            zr = r2 - i2 + cr;
        }
        out[(size_t)y * w + x] = k;
    }
}
ENTRY(julia) { julia(a[0].p, a[1].i, a[2].i, a[3].f, a[4].f); }

static void gather_rows(const float *restrict table, const uint32_t *restrict rows, float *restrict out, int w, int n)
{
    ROWS for (int y = 0; y < n; y++) {
        const float *row = table + (size_t)rows[y] * w;
        for (int x = 0; x < w; x++) out[(size_t)y * w + x] = 0.5f * row[x] + 1.0f;
    }
}
ENTRY(gather_rows) { gather_rows(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i); }
