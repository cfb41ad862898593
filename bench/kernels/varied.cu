// Kernels of many kinds, with blocks and sizes of many shapes, written to measure what was not
// looked at while ptxjit was tuned. The names of the native versions are the same.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#define GLOBAL extern "C" __global__ void
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define Y (blockIdx.y * blockDim.y + threadIdx.y)
#define Z (blockIdx.z * blockDim.z + threadIdx.z)

// Stencils in two dimensions.

GLOBAL star1(const float* in, float* out, int w, int h) {
  int x = X, y = Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  int i = y * w + x;
  out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
}

GLOBAL box9(const float* in, float* out, int w, int h) {
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++) {
      int cx = min(max(x + dx, 0), w - 1), cy = min(max(y + dy, 0), h - 1);
      sum += in[cy * w + cx];
    }
  out[y * w + x] = sum * (1.0f / 9.0f);
}

GLOBAL star2(const float* in, float* out, int w, int h) {
  int x = X + 2, y = Y + 2;
  if (x >= w - 2 || y >= h - 2) return;
  const float* p = in + (size_t)y * w + x;
  float near = p[-1] + p[1] + p[-w] + p[w], far = p[-2] + p[2] + p[-2 * w] + p[2 * w];
  out[(size_t)y * w + x] = 3.0f * p[0] - 0.5f * near - 0.25f * far;
}

GLOBAL star4(const float* in, float* out, const float* c, int w, int h) {
  int x = X, y = Y;
  if (x < 4 || y < 4 || x >= w - 4 || y >= h - 4) return;
  int i = y * w + x;
  float sum = c[0] * in[i];
  for (int r = 1; r <= 4; r++) sum += c[r] * (in[i - r] + in[i + r] + in[i - r * w] + in[i + r * w]);
  out[i] = sum;
}

// The tile and its border in shared memory, blocks of 16 x 16.
GLOBAL star3_shared(const float* in, float* out, int w, int h) {
  __shared__ float tile[22][22];
  int x0 = blockIdx.x * 16 - 3, y0 = blockIdx.y * 16 - 3;
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 22 * 22; i += 256) {
    int x = x0 + i % 22, y = y0 + i / 22;
    tile[i / 22][i % 22] = x >= 0 && x < w && y >= 0 && y < h ? in[y * w + x] : 0.0f;
  }
  __syncthreads();
  int x = X, y = Y, tx = threadIdx.x + 3, ty = threadIdx.y + 3;
  if (x >= w || y >= h) return;
  float sum = tile[ty][tx];
  for (int r = 1; r <= 3; r++)
    sum += 0.1f * (tile[ty][tx - r] + tile[ty][tx + r] + tile[ty - r][tx] + tile[ty + r][tx]);
  out[y * w + x] = sum;
}

// Stencils in three dimensions.

GLOBAL star3d1(const float* in, float* out, int nx, int ny, int nz) {
  int x = X, y = Y, z = Z;
  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  int s = nx * ny, i = z * s + y * nx + x;
  out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - s] + in[i + s]);
}

GLOBAL star3d2(const float* in, float* out, int nx, int ny, int nz) {
  int x = X, y = Y, z = Z;
  if (x < 2 || y < 2 || z < 2 || x >= nx - 2 || y >= ny - 2 || z >= nz - 2) return;
  int s = nx * ny, i = z * s + y * nx + x;
  float a = in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - s] + in[i + s];
  float b = in[i - 2] + in[i + 2] + in[i - 2 * nx] + in[i + 2 * nx] + in[i - 2 * s] + in[i + 2 * s];
  out[i] = 4.0f * in[i] - 0.75f * a + 0.0625f * b;
}

// Threads of a plane go through its depth and keep what lies before and behind in registers.
GLOBAL star3d4_march(const float* in, float* out, int nx, int ny, int nz) {
  int x = X + 4, y = Y + 4;
  if (x >= nx - 4 || y >= ny - 4) return;
  int s = nx * ny, i = y * nx + x;
  float v[9];
  for (int k = 0; k < 8; k++) v[k + 1] = in[i + k * s];
  for (int z = 4; z < nz - 4; z++) {
    for (int k = 0; k < 8; k++) v[k] = v[k + 1];
    v[8] = in[i + (z + 4) * s];
    const float* p = in + i + z * s;
    float sum = 0.5f * v[4];
    for (int r = 1; r <= 4; r++)
      sum += 0.02f * r * (v[4 - r] + v[4 + r] + p[-r] + p[r] + p[-r * nx] + p[r * nx]);
    out[i + z * s] = sum;
  }
}

GLOBAL box27(const float* in, float* out, int nx, int ny, int nz) {
  int x = X + 1, y = Y + 1, z = Z + 1;
  if (x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  float sum = 0;
  for (int dz = -1; dz <= 1; dz++)
    for (int dy = -1; dy <= 1; dy++)
      for (int dx = -1; dx <= 1; dx++) sum += in[((z + dz) * ny + y + dy) * nx + x + dx];
  out[(z * ny + y) * nx + x] = sum / 27.0f;
}

// Convolutions.

__constant__ float filter5[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};

GLOBAL conv5x5_const(const float* in, float* out, int w, int h) {
  int x = X, y = Y;
  if (x >= w - 4 || y >= h - 4) return;
  float sum = 0;
  for (int j = 0; j < 5; j++)
    for (int i = 0; i < 5; i++) sum += filter5[j * 5 + i] * in[(y + j) * w + x + i];
  out[y * (w - 4) + x] = sum * (1.0f / 256.0f);
}

GLOBAL conv_any(const float* in, const float* filter, float* out, int w, int h, int r) {
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int j = -r; j <= r; j++)
    for (int i = -r; i <= r; i++) {
      int cx = x + i, cy = y + j;
      if (cx >= 0 && cx < w && cy >= 0 && cy < h) sum += filter[(j + r) * (2 * r + 1) + i + r] * in[cy * w + cx];
    }
  out[y * w + x] = sum;
}

// Four channels in, eight out, 3x3, the output channel in blockIdx.z.
GLOBAL conv_channels(const float* in, const float* filter, float* out, int w, int h) {
  int x = X, y = Y, o = blockIdx.z;
  if (x >= w - 2 || y >= h - 2) return;
  float sum = 0;
  for (int c = 0; c < 4; c++)
    for (int j = 0; j < 3; j++)
      for (int i = 0; i < 3; i++) sum += filter[((o * 4 + c) * 3 + j) * 3 + i] * in[(c * h + y + j) * w + x + i];
  out[(o * (h - 2) + y) * (w - 2) + x] = sum > 0 ? sum : 0.01f * sum;
}

// Sums of rows and of columns.

GLOBAL row_sum_warp(const float* in, float* out, int w, int h) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= h) return;
  float sum = 0;
  for (int x = threadIdx.x; x < w; x += 32) sum += in[(size_t)row * w + x];
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x == 0) out[row] = sum;
}

GLOBAL row_sum_thread(const float* in, float* out, int w, int h) {
  int row = X;
  if (row >= h) return;
  float sum = 0;
  for (int x = 0; x < w; x++) sum += in[(size_t)row * w + x];
  out[row] = sum;
}

GLOBAL col_sum(const float* in, float* out, int w, int h) {
  int x = X;
  if (x >= w) return;
  float sum = 0;
  for (int y = 0; y < h; y++) sum += in[(size_t)y * w + x];
  out[x] = sum;
}

GLOBAL row_argmax(const float* in, int* out, int w) {
  __shared__ float best[128];
  __shared__ int place[128];
  const float* row = in + (size_t)blockIdx.x * w;
  float b = -1e30f;
  int p = 0;
  for (int x = threadIdx.x; x < w; x += 128)
    if (row[x] > b) b = row[x], p = x;
  best[threadIdx.x] = b, place[threadIdx.x] = p;
  __syncthreads();
  for (int d = 64; d; d >>= 1) {
    if (threadIdx.x < d && best[threadIdx.x + d] > best[threadIdx.x])
      best[threadIdx.x] = best[threadIdx.x + d], place[threadIdx.x] = place[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = place[0];
}

GLOBAL col_mean_var(const double* in, double* out, int w, int h) {
  int x = X;
  if (x >= w) return;
  double sum = 0, squares = 0;
  for (int y = 0; y < h; y++) {
    double v = in[(size_t)y * w + x];
    sum += v, squares += v * v;
  }
  double mean = sum / h;
  out[x] = mean;
  out[w + x] = squares / h - mean * mean;
}

// Automata on bytes.

GLOBAL life_masks(const u8* from, u8* to, int w, int h) {
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  int l = (x - 1) & (w - 1), r = (x + 1) & (w - 1), u = (y - 1) & (h - 1), d = (y + 1) & (h - 1);
  int s = from[u * w + l] + from[u * w + x] + from[u * w + r] + from[y * w + l] + from[y * w + r] +
          from[d * w + l] + from[d * w + x] + from[d * w + r];
  to[y * w + x] = s == 3 || (s == 2 && from[y * w + x]);
}

GLOBAL cyclic(const u8* from, u8* to, int w, int h, int states) {
  int x = X, y = Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  int i = y * w + x, me = from[i], next = me + 1 == states ? 0 : me + 1;
  bool eaten = from[i - 1] == next || from[i + 1] == next || from[i - w] == next || from[i + w] == next;
  to[i] = eaten ? next : me;
}

GLOBAL rule110(const u8* from, u8* to, int n) {
  int i = X;
  if (i >= n) return;
  int l = i ? from[i - 1] : 0, m = from[i], r = i + 1 < n ? from[i + 1] : 0;
  to[i] = 110 >> (l << 2 | m << 1 | r) & 1;
}

// Scans and sorts of a block.

GLOBAL scan_hillis(const float* in, float* out) {
  __shared__ float a[2][256];
  int t = threadIdx.x, now = 0;
  a[0][t] = in[X];
  __syncthreads();
  for (int d = 1; d < 256; d <<= 1) {
    a[1 - now][t] = t >= d ? a[now][t] + a[now][t - d] : a[now][t];
    now = 1 - now;
    __syncthreads();
  }
  out[X] = a[now][t];
}

GLOBAL scan_warps(const int* in, int* out) {
  __shared__ int sums[16];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, v = in[X];
  for (int d = 1; d < 32; d <<= 1) {
    int o = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += o;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int s = lane < 16 ? sums[lane] : 0;
    for (int d = 1; d < 16; d <<= 1) {
      int o = __shfl_up_sync(~0u, s, d);
      if (lane >= d) s += o;
    }
    if (lane < 16) sums[lane] = s;
  }
  __syncthreads();
  out[X] = v + (warp ? sums[warp - 1] : 0);
}

GLOBAL sort_bitonic(u32* data) {
  __shared__ u32 a[512];
  int t = threadIdx.x, base = blockIdx.x * 512;
  a[t] = data[base + t], a[t + 256] = data[base + t + 256];
  for (int k = 2; k <= 512; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      __syncthreads();
      int i = 2 * t - (t & (j - 1)), o = i + j;
      u32 x = a[i], y = a[o];
      if ((x > y) == ((i & k) == 0)) a[i] = y, a[o] = x;
    }
  __syncthreads();
  data[base + t] = a[t], data[base + t + 256] = a[t + 256];
}

GLOBAL sort_odd_even(int* data) {
  __shared__ int a[64];
  int t = threadIdx.x;
  a[t] = data[X];
  __syncthreads();
  for (int round = 0; round < 64; round++) {
    if ((t & 1) == (round & 1) && t < 63 && a[t] > a[t + 1]) {
      int s = a[t];
      a[t] = a[t + 1], a[t + 1] = s;
    }
    __syncthreads();
  }
  data[X] = a[t];
}

GLOBAL bitonic_step(float* data, int j, int k) {
  int i = X, o = i ^ j;
  if (o <= i) return;
  float x = data[i], y = data[o];
  if ((i & k) == 0 ? x > y : x < y) data[i] = y, data[o] = x;
}

// Lattices.

// Two dimensions, nine speeds, structure of arrays: pull, then relax.
GLOBAL lattice9(const float* f, float* g, int w, int h, float omega) {
  const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  const float wt[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
  int x = X, y = Y, n = w * h;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  float v[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
  for (int k = 0; k < 9; k++) {
    v[k] = f[k * n + (y - cy[k]) * w + x - cx[k]];
    rho += v[k], ux += cx[k] * v[k], uy += cy[k] * v[k];
  }
  ux /= rho, uy /= rho;
  float uu = 1.5f * (ux * ux + uy * uy);
#pragma unroll
  for (int k = 0; k < 9; k++) {
    float cu = 3.0f * (cx[k] * ux + cy[k] * uy);
    g[k * n + y * w + x] = v[k] + omega * (wt[k] * rho * (1.0f + cu + 0.5f * cu * cu - uu) - v[k]);
  }
}

__device__ u32 mix(u32 h) {
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u;
  return h ^ h >> 16;
}

// Half a sweep over the cells of one color, which lie in an array of their own.
GLOBAL ising(signed char* mine, const signed char* other, int w, int h, int color, u32 seed) {
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  int up = y ? y - 1 : h - 1, down = y + 1 < h ? y + 1 : 0;
  int side = (y & 1) == color ? (x ? x - 1 : w - 1) : (x + 1 < w ? x + 1 : 0);
  int sum = other[up * w + x] + other[y * w + x] + other[down * w + x] + other[y * w + side];
  int spin = mine[y * w + x], cost = spin * sum;
  u32 r = mix(mix(y * w + x) ^ seed) >> 16, limit = cost <= 0 ? 65536 : cost == 2 ? 11285 : 1943;
  if (r < limit) mine[y * w + x] = -spin;
}

// Filters of pictures.

GLOBAL gray_rgb(const u8* rgb, u8* out, int n) {
  int i = X;
  if (i < n) out[i] = (77 * rgb[3 * i] + 150 * rgb[3 * i + 1] + 29 * rgb[3 * i + 2] + 128) >> 8;
}

GLOBAL gamma_rgba(const float4* in, float4* out, int n) {
  int i = X;
  if (i >= n) return;
  float4 p = in[i];
  p.x = __powf(p.x, 0.4545f), p.y = __powf(p.y, 0.4545f), p.z = __powf(p.z, 0.4545f);
  out[i] = p;
}

__device__ void order(u8& a, u8& b) { u8 lo = min(a, b); b = max(a, b); a = lo; }

GLOBAL median9(const u8* in, u8* out, int w, int h) {
  int x = X, y = Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  u8 v[9];
  for (int k = 0; k < 9; k++) v[k] = in[(y + k / 3 - 1) * w + x + k % 3 - 1];
  order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]), order(v[0], v[1]), order(v[3], v[4]), order(v[6], v[7]);
  order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]), order(v[0], v[3]), order(v[5], v[8]), order(v[4], v[7]);
  order(v[3], v[6]), order(v[1], v[4]), order(v[2], v[5]), order(v[4], v[7]), order(v[4], v[2]), order(v[6], v[4]);
  order(v[4], v[2]);
  out[y * w + x] = v[4];
}

GLOBAL bilateral(const float* in, float* out, int w, int h) {
  int x = X, y = Y;
  if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2) return;
  float c = in[y * w + x], sum = 0, norm = 0;
  for (int j = -2; j <= 2; j++)
    for (int i = -2; i <= 2; i++) {
      float v = in[(y + j) * w + x + i], d = v - c;
      float k = __expf(-0.1f * (i * i + j * j) - 8.0f * d * d);
      sum += k * v, norm += k;
    }
  out[y * w + x] = sum / norm;
}

GLOBAL blur_rows(const u8* in, u8* out, int w, int h) {
  int y = X;
  if (y >= h) return;
  const u8* row = in + y * w;
  int sum = 0;
  for (int x = 0; x < 8; x++) sum += row[x];
  for (int x = 0; x < w; x++) {
    if (x + 8 < w) sum += row[x + 8];
    if (x >= 9) sum -= row[x - 9];
    out[y * w + x] = sum / 17;
  }
}

GLOBAL resize_bilinear(const float* in, float* out, int w, int h, int ow, int oh) {
  int x = X, y = Y;
  if (x >= ow || y >= oh) return;
  float fx = (x + 0.5f) * w / ow - 0.5f, fy = (y + 0.5f) * h / oh - 0.5f;
  int x0 = max((int)floorf(fx), 0), y0 = max((int)floorf(fy), 0);
  int x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
  float ax = fx - x0, ay = fy - y0;
  float top = in[y0 * w + x0] + ax * (in[y0 * w + x1] - in[y0 * w + x0]);
  float bottom = in[y1 * w + x0] + ax * (in[y1 * w + x1] - in[y1 * w + x0]);
  out[y * ow + x] = top + ay * (bottom - top);
}

// Small matrices in batches.

GLOBAL batch_mul4(const float* a, const float* b, float* c, int n) {
  int m = X;
  if (m >= n) return;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      float sum = 0;
      for (int k = 0; k < 4; k++) sum += a[m * 16 + i * 4 + k] * b[m * 16 + k * 4 + j];
      c[m * 16 + i * 4 + j] = sum;
    }
}

// Element for element of all matrices, so that threads access neighbors.
GLOBAL batch_invert3(const double* in, double* out, int n) {
  int m = X;
  if (m >= n) return;
  double v[9];
  for (int k = 0; k < 9; k++) v[k] = in[k * n + m];
  double a = v[4] * v[8] - v[5] * v[7], b = v[5] * v[6] - v[3] * v[8], c = v[3] * v[7] - v[4] * v[6];
  double r = 1.0 / (v[0] * a + v[1] * b + v[2] * c);
  out[m] = a * r, out[n + m] = (v[2] * v[7] - v[1] * v[8]) * r, out[2 * n + m] = (v[1] * v[5] - v[2] * v[4]) * r;
  out[3 * n + m] = b * r, out[4 * n + m] = (v[0] * v[8] - v[2] * v[6]) * r, out[5 * n + m] = (v[2] * v[3] - v[0] * v[5]) * r;
  out[6 * n + m] = c * r, out[7 * n + m] = (v[1] * v[6] - v[0] * v[7]) * r, out[8 * n + m] = (v[0] * v[4] - v[1] * v[3]) * r;
}

// Blocks of 8 x 8 x 4, a matrix for each z.
GLOBAL batch_mul8_shared(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[4][8][8], sb[4][8][8];
  int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z, m = blockIdx.x * 4 + z, i = m * 64 + y * 8 + x;
  if (m < n) sa[z][y][x] = a[i], sb[z][y][x] = b[i];
  __syncthreads();
  if (m >= n) return;
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += sa[z][y][k] * sb[z][k][x];
  c[i] = sum;
}

GLOBAL gemm_transposed(const float* a, const float* b, float* c, int n) {
  int x = X, y = Y;
  if (x >= n || y >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[k * n + y] * b[k * n + x];
  c[y * n + x] = sum;
}

// Others.

GLOBAL layer_norm(const float* in, const float* gain, float* out, int w) {
  __shared__ float part[8];
  const float* row = in + (size_t)blockIdx.x * w;
  float sum = 0, squares = 0;
  for (int x = threadIdx.x; x < w; x += 256) sum += row[x], squares += row[x] * row[x];
  for (int pass = 0; pass < 2; pass++) {
    float v = pass ? squares : sum;
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
    __syncthreads();
    v = 0;
    for (int k = 0; k < 8; k++) v += part[k];
    if (pass) squares = v; else sum = v;
    __syncthreads();
  }
  float mean = sum / w, scale = rsqrtf(squares / w - mean * mean + 1e-5f);
  for (int x = threadIdx.x; x < w; x += 256) out[(size_t)blockIdx.x * w + x] = (row[x] - mean) * scale * gain[x];
}

GLOBAL hash64(const u64* in, u64* out, int n) {
  for (int i = X; i < n; i += gridDim.x * blockDim.x) {
    u64 h = in[i];
    h ^= h >> 33, h *= 0xff51afd7ed558ccdull, h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ull;
    out[i] = h ^ h >> 33;
  }
}

GLOBAL julia(u8* out, int w, int h, float cr, float ci) {
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  float zr = 3.0f * x / w - 1.5f, zi = 2.0f * y / h - 1.0f;
  int k = 0;
  for (; k < 200; k++) {
    float r2 = zr * zr, i2 = zi * zi;
    if (r2 + i2 > 4.0f) break;
    zi = 2.0f * zr * zi + ci;
    zr = r2 - i2 + cr;
  }
  out[y * w + x] = k;
}

GLOBAL gather_rows(const float* table, const u32* rows, float* out, int w, int n) {
  int x = X, y = Y;
  if (x < w && y < n) out[(size_t)y * w + x] = 0.5f * table[(size_t)rows[y] * w + x] + 1.0f;
}
