// Kernels that mostly compute.
#include "native.h"

#include <stdlib.h>

// i-k-j: rows of the result stay in the cache, and the inner loop runs along them.
static void sgemm(int m, int n, int k, float alpha, const float *restrict x, const float *restrict y, float beta, float *restrict z)
{
#pragma omp parallel
    {
        float *row = malloc(sizeof(float) * (size_t)n);
#pragma omp for schedule(static)
        for (int i = 0; i < m; i++) {
            memset(row, 0, sizeof(float) * (size_t)n);
            for (int p = 0; p < k; p++) {
                float s = x[(size_t)i * k + p];
                const float *b = y + (size_t)p * n;
                for (int j = 0; j < n; j++) row[j] += s * b[j];
            }
            float *o = z + (size_t)i * n;
            for (int j = 0; j < n; j++) o[j] = alpha * row[j] + beta * o[j];
        }
        free(row);
    }
}
ENTRY(sgemm_naive) { sgemm(a[0].i, a[1].i, a[2].i, a[3].f, a[4].p, a[5].p, a[6].f, a[7].p); }
ENTRY(sgemm_tiled16) { sgemm(a[0].i, a[1].i, a[2].i, 1, a[3].p, a[4].p, 0, a[5].p); }

// Four rows of the result at a time: each row of y is loaded once for all four. m must be a multiple of 4.
static void sgemm_rows4(int m, int n, int k, const float *restrict x, const float *restrict y, float *restrict z)
{
    enum { COLS = 256 };
#pragma omp parallel for schedule(static)
    for (int i = 0; i < m; i += 4)
        for (int j0 = 0; j0 < n; j0 += COLS) {
            float r0[COLS] = {0}, r1[COLS] = {0}, r2[COLS] = {0}, r3[COLS] = {0};
            int width = n - j0 < COLS ? n - j0 : COLS;
            for (int p = 0; p < k; p++) {
                const float *s = x + (size_t)i * k + p, *b = y + (size_t)p * n + j0;
                float s0 = s[0], s1 = s[k], s2 = s[2 * k], s3 = s[3 * k];
                for (int j = 0; j < width; j++) {
                    r0[j] += s0 * b[j];
                    r1[j] += s1 * b[j];
                    r2[j] += s2 * b[j];
                    r3[j] += s3 * b[j];
                }
            }
            float *o = z + (size_t)i * n + j0;
            memcpy(o, r0, sizeof(float) * width);
            memcpy(o + n, r1, sizeof(float) * width);
            memcpy(o + 2 * (size_t)n, r2, sizeof(float) * width);
            memcpy(o + 3 * (size_t)n, r3, sizeof(float) * width);
        }
}
ENTRY(sgemm_reg8x8) { sgemm_rows4(a[0].i, a[1].i, a[2].i, a[3].p, a[4].p, a[5].p); }

// A is converted row by row, B as a whole before; then as above.
static void matmul_bf16(const uint16_t *a, const uint16_t *b, float *c, int m, int n, int k)
{
    float *x = malloc(sizeof(float) * (size_t)m * k), *y = malloc(sizeof(float) * (size_t)k * n);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (size_t)m * k; i++) {
        uint32_t bits = (uint32_t)a[i] << 16;
        memcpy(x + i, &bits, 4);
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (size_t)k * n; i++) {
        uint32_t bits = (uint32_t)b[i] << 16;
        memcpy(y + i, &bits, 4);
    }
    sgemm_rows4(m, n, k, x, y, c);
    free(x);
    free(y);
}
ENTRY(mma_bf16) { matmul_bf16(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }
ENTRY(wgmma_bf16) { matmul_bf16(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }
ENTRY(tcgen05_bf16) { matmul_bf16(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }

// The values of all bytes of e4m3, of which both matrices are converted as above.
static void matmul_fp8(const uint8_t *a, const uint8_t *b, float *c, int m, int n, int k)
{
    float values[256];
    for (int byte = 0; byte < 256; byte++) {
        int exponent = byte >> 3 & 15, mantissa = byte & 7;
        float value = exponent == 0 ? ldexpf(mantissa, -9) : ldexpf(8 + mantissa, exponent - 10);
        values[byte] = (byte & 0x7f) == 0x7f ? NAN : byte < 128 ? value : -value;
    }
    float *x = malloc(sizeof(float) * (size_t)m * k), *y = malloc(sizeof(float) * (size_t)k * n);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (size_t)m * k; i++) x[i] = values[a[i]];
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (size_t)k * n; i++) y[i] = values[b[i]];
    sgemm_rows4(m, n, k, x, y, c);
    free(x);
    free(y);
}
ENTRY(mma_fp8) { matmul_fp8(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }

// Row by row of q; k is transposed before, so that the loops over rows of k are ones of vectors.
enum { HEAD = 64 };
static void attention_head(const _Float16 *q, const _Float16 *k, const _Float16 *v, float *out, int n, float scale)
{
    float *columns = malloc(sizeof(float) * HEAD * (size_t)n), *values = malloc(sizeof(float) * HEAD * (size_t)n);
    for (int j = 0; j < n; j++)
        for (int d = 0; d < HEAD; d++) {
            columns[(size_t)d * n + j] = k[(size_t)j * HEAD + d];
            values[(size_t)j * HEAD + d] = v[(size_t)j * HEAD + d];
        }
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        float scores[n], sums[HEAD] = {0}, greatest = -INFINITY, total = 0;
        memset(scores, 0, sizeof scores);
        for (int d = 0; d < HEAD; d++) {
            float s = q[(size_t)i * HEAD + d];
            for (int j = 0; j < n; j++) scores[j] += s * columns[(size_t)d * n + j];
        }
        for (int j = 0; j < n; j++) greatest = fmaxf(greatest, scores[j] * scale);
        for (int j = 0; j < n; j++) {
            float weight = exp2f(scores[j] * scale - greatest);
            total += weight;
            for (int d = 0; d < HEAD; d++) sums[d] += weight * values[(size_t)j * HEAD + d];
        }
        for (int d = 0; d < HEAD; d++) out[(size_t)i * HEAD + d] = sums[d] / total;
    }
    free(columns);
    free(values);
}
ENTRY(attention)
{
    size_t size = (size_t)a[4].i * HEAD;
    const _Float16 *q = a[0].p, *k = a[1].p, *v = a[2].p;
    for (size_t head = 0; head < 4; head++)
        attention_head(q + head * size, k + head * size, v + head * size, (float *)a[3].p + head * size, a[4].i, a[5].f);
}

// Two rows of b at a time, whose products are added in 32 bits.
static void matmul_s8(const int8_t *restrict a, const int8_t *restrict b, int32_t *restrict c, int m, int n, int k)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < m; i++) {
        int32_t *restrict row = c + (size_t)i * n;
        memset(row, 0, sizeof(int32_t) * (size_t)n);
        for (int p = 0; p + 1 < k; p += 2) {
            int16_t s0 = a[(size_t)i * k + p], s1 = a[(size_t)i * k + p + 1];
            const int8_t *b0 = b + (size_t)p * n, *b1 = b0 + n;
            for (int j = 0; j < n; j++) row[j] += s0 * b0[j] + s1 * b1[j];
        }
    }
}
ENTRY(mma_s8) { matmul_s8(a[0].p, a[1].p, a[2].p, a[3].i, a[4].i, a[5].i); }

// The quadruples of CUDA are split into arrays first, so that the loop over them is one of vectors.
static void nbody(const float *pos, float *acc, int n, float eps2)
{
    float *all = malloc(sizeof(float) * 4 * (size_t)n), *X = all, *Y = X + n, *Z = Y + n, *M = Z + n;
    for (int i = 0; i < n; i++) X[i] = pos[4 * i], Y[i] = pos[4 * i + 1], Z[i] = pos[4 * i + 2], M[i] = pos[4 * i + 3];
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        float ax = 0, ay = 0, az = 0, px = X[i], py = Y[i], pz = Z[i];
#pragma omp simd reduction(+ : ax, ay, az)
        for (int j = 0; j < n; j++) {
            float dx = X[j] - px, dy = Y[j] - py, dz = Z[j] - pz;
            float inv = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + eps2);
            float s = M[j] * inv * inv * inv;
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
        acc[4 * i] = ax;
        acc[4 * i + 1] = ay;
        acc[4 * i + 2] = az;
        acc[4 * i + 3] = 0;
    }
    free(all);
}
ENTRY(nbody) { nbody(a[0].p, a[1].p, a[2].i, a[3].f); }

// No contraction here: the kernel rounds every product, and the counts of iterations depend on it.
__attribute__((optimize("fp-contract=off"))) static void mandelbrot(uint16_t *it, int w, int h, double x0, double y0, double dx,
                                                                    double dy, int maxit)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int py = 0; py < h; py++)
        for (int px = 0; px < w; px++) {
            double cx = x0 + px * dx, cy = y0 + py * dy, zx = 0, zy = 0;
            int k = 0;
            while (k < maxit && zx * zx + zy * zy <= 4.0) {
                double t = zx * zx - zy * zy + cx;
                zy = 2.0 * zx * zy + cy;
                zx = t;
                k++;
            }
            it[(size_t)py * w + px] = k;
        }
}
ENTRY(mandelbrot) { mandelbrot(a[0].p, a[1].i, a[2].i, a[3].f, a[4].f, a[5].f, a[6].f, a[7].i); }

static inline float cnd(float d)
{
    const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float p = 0.39894228f * expf(-0.5f * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
    return d > 0 ? 1.0f - p : p;
}

static void black_scholes(const float *S, const float *X, const float *T, float *call, float *put, float r, float v, int n)
{
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; i++) {
        float s = S[i], x = X[i], t = T[i], sq = sqrtf(t);
        float d1 = (logf(s / x) + (r + 0.5f * v * v) * t) / (v * sq), d2 = d1 - v * sq;
        float c1 = cnd(d1), c2 = cnd(d2), e = expf(-r * t);
        call[i] = s * c1 - x * e * c2;
        put[i] = x * e * (1.0f - c2) - s * (1.0f - c1);
    }
}
ENTRY(black_scholes) { black_scholes(a[0].p, a[1].p, a[2].p, a[3].p, a[4].p, a[5].f, a[6].f, a[7].i); }

static void softmax(const float *restrict in, float *restrict out, int rows, int cols)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < rows; r++) {
        const float *p = in + (size_t)r * cols;
        float *o = out + (size_t)r * cols;
        float m = -INFINITY, s = 0;
#pragma omp simd reduction(max : m)
        for (int c = 0; c < cols; c++) m = p[c] > m ? p[c] : m;
#pragma omp simd reduction(+ : s)
        for (int c = 0; c < cols; c++) {
            float e = expf(p[c] - m);
            o[c] = e;
            s += e;
        }
        for (int c = 0; c < cols; c++) o[c] /= s;
    }
}
// The kernel takes its number of rows from the grid.
ENTRY(softmax) { softmax(a[0].p, a[1].p, 8192, a[2].i); }

static void philox(uint32_t *raw, float *uni, uint64_t seed, uint32_t offset, int n)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        uint32_t c[4] = {offset + (uint32_t)i, 0, (uint32_t)i, 7}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int r = 0; r < 10; r++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
            uint32_t x = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, z = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
            c[0] = x, c[1] = (uint32_t)p1, c[2] = z, c[3] = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        memcpy(raw + 4 * (size_t)i, c, sizeof c);
        uni[i] = (float)c[0] * 2.3283064e-10f + 1.1641532e-10f;
    }
}
ENTRY(philox) { philox(a[0].p, a[1].p, (uint64_t)a[2].i, (uint32_t)a[3].i, a[4].i); }

static const uint32_t K256[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};

static inline uint32_t rotr(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void sha_block(uint32_t h[8], const uint8_t *bytes)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 | (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) + w[i - 7] + (rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10));
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], t1 = s[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + K256[i] + w[i];
        uint32_t b = s[0], t2 = (rotr(b, 2) ^ rotr(b, 13) ^ rotr(b, 22)) + ((b & s[1]) ^ (b & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6], s[6] = s[5], s[5] = s[4], s[4] = s[3] + t1;
        s[3] = s[2], s[2] = s[1], s[1] = s[0], s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

// One message of at most 119 bytes per digest.
static void sha256(const uint8_t *msg, int pitch, const int *len, uint32_t *digest, int n)
{
#pragma omp parallel for schedule(static)
    for (int id = 0; id < n; id++) {
        int l = len[id], blocks = (l + 8) / 64 + 1;
        uint8_t padded[128] = {0};
        memcpy(padded, msg + (size_t)id * pitch, l);
        padded[l] = 0x80;
        padded[blocks * 64 - 2] = l * 8 >> 8;
        padded[blocks * 64 - 1] = l * 8;
        uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        for (int b = 0; b < blocks; b++) sha_block(h, padded + 64 * b);
        memcpy(digest + (size_t)id * 8, h, sizeof h);
    }
}
ENTRY(sha256) { sha256(a[0].p, a[1].i, a[2].p, a[3].p, a[4].i); }

static uint32_t solutions(uint32_t full, uint32_t cols, uint32_t ld, uint32_t rd)
{
    if (cols == full) return 1;
    uint32_t count = 0;
    for (uint32_t free = full & ~(cols | ld | rd); free; free &= free - 1) {
        uint32_t b = free & -free;
        count += solutions(full, cols | b, (ld | b) << 1, (rd | b) >> 1);
    }
    return count;
}

// Solutions for each placement of the first two queens.
static void nqueens(int n, uint64_t *total, uint32_t *per)
{
    uint64_t sum = 0;
    uint32_t full = (1u << n) - 1;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
    for (int id = 0; id < n * n; id++) {
        uint32_t c0 = 1u << (id / n), c1 = 1u << (id % n);
        per[id] = 0;
        if (!(c1 & (c0 | c0 << 1 | c0 >> 1))) per[id] = solutions(full, c0 | c1, ((c0 << 1) | c1) << 1, ((c0 >> 1) | c1) >> 1);
        sum += per[id];
    }
    *total += sum;
}
ENTRY(nqueens) { nqueens(a[0].i, a[1].p, a[2].p); }
