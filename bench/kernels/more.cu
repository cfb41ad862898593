// More kernels of many kinds, written and measured at once, when all others had been tuned for. The names of the native versions are the same.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#define GLOBAL extern "C" __global__ void
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define Y (blockIdx.y * blockDim.y + threadIdx.y)

// Tiles with a border, and without one.

GLOBAL tile_blur(const float* in, float* out, int w, int h) {
  __shared__ float tile[12][36];
  int x0 = blockIdx.x * 32 - 2, y0 = blockIdx.y * 8 - 2;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < 12 * 36; i += 256) {
    int x = min(max(x0 + i % 36, 0), w - 1), y = min(max(y0 + i / 36, 0), h - 1);
    tile[i / 36][i % 36] = in[y * w + x];
  }
  __syncthreads();
  int x = X, y = Y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int dy = 0; dy < 5; dy++)
    for (int dx = 0; dx < 5; dx++) sum += tile[threadIdx.y + dy][threadIdx.x + dx];
  out[y * w + x] = sum * (1.0f / 25.0f);
}

GLOBAL transpose_plain(const float* in, float* out, int w, int h) {
  int x = X, y = Y;
  if (x < w && y < h) out[x * h + y] = in[y * w + x];
}

GLOBAL sobel_tile(const u8* in, u8* out, int w, int h) {
  __shared__ u8 tile[18][34];
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 16;
  for (int y = threadIdx.y; y < 18; y += 16)
    for (int x = threadIdx.x; x < 34; x += 32) tile[y][x] = in[min(y0 + y, h + 1) * (w + 2) + min(x0 + x, w + 1)];
  __syncthreads();
  int x = X, y = Y, tx = threadIdx.x, ty = threadIdx.y;
  if (x >= w || y >= h) return;
  int gx = tile[ty][tx + 2] + 2 * tile[ty + 1][tx + 2] + tile[ty + 2][tx + 2] - tile[ty][tx] - 2 * tile[ty + 1][tx] - tile[ty + 2][tx];
  int gy = tile[ty + 2][tx] + 2 * tile[ty + 2][tx + 1] + tile[ty + 2][tx + 2] - tile[ty][tx] - 2 * tile[ty][tx + 1] - tile[ty][tx + 2];
  out[y * w + x] = min(abs(gx) + abs(gy), 255);
}

GLOBAL convolve1d(const float* in, const float* filter, float* out, int n) {
  __shared__ float tile[256 + 32];
  int x = X;
  tile[threadIdx.x] = x < n + 32 ? in[x] : 0;
  if (threadIdx.x < 32) tile[256 + threadIdx.x] = x + 256 < n + 32 ? in[x + 256] : 0;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 33; i++) sum += filter[i] * tile[threadIdx.x + i];
  if (x < n) out[x] = sum;
}

// Layers of networks.

GLOBAL im2col(const float* in, float* out, int channels, int h, int w) {
  int i = X, n = channels * h * w;
  if (i >= n) return;
  int x = i % w, y = i / w % h, c = i / (w * h);
  for (int ky = 0; ky < 3; ky++)
    for (int kx = 0; kx < 3; kx++) {
      int iy = y + ky - 1, ix = x + kx - 1;
      bool inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
      out[((c * 9 + ky * 3 + kx) * h + y) * w + x] = inside ? in[(c * h + iy) * w + ix] : 0.0f;
    }
}

GLOBAL max_pool(const float* in, float* out, int channels, int h, int w) {
  int x = X, y = Y, c = blockIdx.z, ow = w / 2, oh = h / 2;
  if (x >= ow || y >= oh) return;
  const float* p = in + ((size_t)c * h + 2 * y) * w + 2 * x;
  out[((size_t)c * oh + y) * ow + x] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[w], p[w + 1]));
}

GLOBAL upsample(const float* in, float* out, int w, int h) {
  int i = X;
  if (i >= 4 * w * h) return;
  int x = i % (2 * w), y = i / (2 * w);
  out[i] = in[(y / 2) * w + x / 2];
}

GLOBAL channel_bias(float* data, const float* bias, int channels, int n) {
  for (int i = X; i < n; i += gridDim.x * blockDim.x) {
    float v = data[i] + bias[i % channels];
    data[i] = v > 0 ? v : 0.1f * v;
  }
}

GLOBAL quantize_rows(const float* in, signed char* out, float* scales, int n) {
  const float* row = in + (size_t)blockIdx.x * n;
  float most = 0;
  for (int i = threadIdx.x; i < n; i += 32) most = fmaxf(most, fabsf(row[i]));
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  float scale = most / 127.0f, inverse = most > 0 ? 127.0f / most : 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) out[(size_t)blockIdx.x * n + i] = (signed char)__float2int_rn(row[i] * inverse);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

GLOBAL scores(const float* q, const float* k, float* out, int n) {
  int j = X, i = Y;
  if (i >= n || j >= n) return;
  float sum = 0;
  for (int d = 0; d < 64; d++) sum += q[i * 64 + d] * k[d * n + j];
  out[i * n + j] = sum * 0.125f;
}

// Sparse and irregular.

GLOBAL spmv_ell(const float* values, const int* cols, const float* x, float* y, int n, int width) {
  int row = X;
  if (row >= n) return;
  float sum = 0;
  for (int k = 0; k < width; k++) {
    int col = cols[k * n + row];
    if (col >= 0) sum += values[k * n + row] * x[col];
  }
  y[row] = sum;
}

GLOBAL nearest(const float* px, const float* py, const float* cx, const float* cy, int* out, int n, int m) {
  int i = X;
  if (i >= n) return;
  float best = 1e30f;
  int at = -1;
  for (int j = 0; j < m; j++) {
    float dx = px[i] - cx[j], dy = py[i] - cy[j], d = dx * dx + dy * dy;
    if (d < best) best = d, at = j;
  }
  out[i] = at;
}

GLOBAL lower_bound(const int* sorted, const int* keys, int* out, int n, int m) {
  int i = X;
  if (i >= m) return;
  int lo = 0, hi = n, key = keys[i];
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (sorted[mid] < key) lo = mid + 1;
    else hi = mid;
  }
  out[i] = lo;
}

// Reductions.

GLOBAL jacobi_residual(const float* u, const float* f, float* next, float* partial, int w, int h) {
  __shared__ float sums[256];
  int x = X, y = Y, t = threadIdx.y * blockDim.x + threadIdx.x;
  float r = 0;
  if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
    int i = y * w + x;
    float v = 0.25f * (u[i - 1] + u[i + 1] + u[i - w] + u[i + w] - f[i]);
    r = v - u[i];
    next[i] = v;
  }
  sums[t] = r * r;
  for (int s = 128; s > 0; s /= 2) {
    __syncthreads();
    if (t < s) sums[t] += sums[t + s];
  }
  if (t == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sums[0];
}

GLOBAL dot_double(const double* a, const double* b, double* partial, int n) {
  __shared__ double sums[8];
  double sum = 0;
  for (int i = X; i < n; i += gridDim.x * blockDim.x) sum += a[i] * b[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; i++) sum += sums[i];
    partial[blockIdx.x] = sum;
  }
}

GLOBAL scan_blelloch(int* data) {
  __shared__ int a[512];
  int t = threadIdx.x;
  int* block = data + (size_t)blockIdx.x * 512;
  a[2 * t] = block[2 * t], a[2 * t + 1] = block[2 * t + 1];
  int step = 1;
  for (int d = 256; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) a[step * (2 * t + 2) - 1] += a[step * (2 * t + 1) - 1];
    step *= 2;
  }
  if (t == 0) a[511] = 0;
  for (int d = 1; d < 512; d *= 2) {
    step /= 2;
    __syncthreads();
    if (t < d) {
      int lo = step * (2 * t + 1) - 1, hi = step * (2 * t + 2) - 1, s = a[lo];
      a[lo] = a[hi], a[hi] += s;
    }
  }
  __syncthreads();
  block[2 * t] = a[2 * t], block[2 * t + 1] = a[2 * t + 1];
}

// Bytes and bits.

GLOBAL yuv(const u8* rgb, u8* planes, int n) {
  int i = X;
  if (i >= n) return;
  int r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
  planes[i] = (66 * r + 129 * g + 25 * b + 4224) >> 8;
  planes[n + i] = (-38 * r - 74 * g + 112 * b + 32896) >> 8;
  planes[2 * n + i] = (112 * r - 94 * g - 18 * b + 32896) >> 8;
}

GLOBAL pack_bits(const float* in, u32* out, int n, float limit) {
  int i = X;
  u32 bits = __ballot_sync(~0u, i < n && in[i] > limit);
  if (threadIdx.x % 32 == 0 && i < n) out[i / 32] = bits;
}

GLOBAL hamming(const u64* a, const u64* b, int* out, int n) {
  int i = X;
  if (i >= n) return;
  int count = 0;
  for (int k = 0; k < 4; k++) count += __popcll(a[(size_t)k * n + i] ^ b[(size_t)k * n + i]);
  out[i] = count;
}

GLOBAL lowercase(const uchar4* in, uchar4* out, int n) {
  int i = X;
  if (i >= n) return;
  uchar4 c = in[i];
  c.x += c.x >= 'A' && c.x <= 'Z' ? 32 : 0;
  c.y += c.y >= 'A' && c.y <= 'Z' ? 32 : 0;
  c.z += c.z >= 'A' && c.z <= 'Z' ? 32 : 0;
  c.w += c.w >= 'A' && c.w <= 'Z' ? 32 : 0;
  out[i] = c;
}

GLOBAL crc32(const u32* data, const u32* table, u32* out, int n, int words) {
  __shared__ u32 t[256];
  t[threadIdx.x] = table[threadIdx.x];
  __syncthreads();
  int i = X;
  if (i >= n) return;
  u32 crc = ~0u;
  for (int k = 0; k < words; k++) {
    u32 word = data[k * n + i];
    for (int b = 0; b < 4; b++) crc = crc >> 8 ^ t[(crc ^ word >> 8 * b) & 255];
  }
  out[i] = ~crc;
}

// Numbers.

GLOBAL fft_stage(const float2* in, float2* out, int n, int half) {
  int i = X;
  if (i >= n / 2) return;
  int k = i & (half - 1), j = ((i - k) << 1) + k;
  float s, c;
  __sincosf(-3.14159265f * k / half, &s, &c);
  float2 a = in[j], b = in[j + half];
  float re = b.x * c - b.y * s, im = b.x * s + b.y * c;
  out[j] = make_float2(a.x + re, a.y + im);
  out[j + half] = make_float2(a.x - re, a.y - im);
}

GLOBAL runge_kutta(float* xs, float* vs, int n, int steps, float dt) {
  int i = X;
  if (i >= n) return;
  float x = xs[i], v = vs[i];
  for (int s = 0; s < steps; s++) {
    float k1 = v, l1 = -x - 0.1f * v * fabsf(v);
    float v2 = v + 0.5f * dt * l1, x2 = x + 0.5f * dt * k1, l2 = -x2 - 0.1f * v2 * fabsf(v2);
    float v3 = v + 0.5f * dt * l2, x3 = x + 0.5f * dt * v2, l3 = -x3 - 0.1f * v3 * fabsf(v3);
    float v4 = v + dt * l3, x4 = x + dt * v3, l4 = -x4 - 0.1f * v4 * fabsf(v4);
    x += dt / 6 * (k1 + 2 * v2 + 2 * v3 + v4), v += dt / 6 * (l1 + 2 * l2 + 2 * l3 + l4);
  }
  xs[i] = x, vs[i] = v;
}

GLOBAL monte_carlo(u32* hits, int n, int samples, u32 seed) {
  int i = X;
  if (i >= n) return;
  u32 state = seed + i * 747796405u, count = 0;
  for (int s = 0; s < samples; s++) {
    state = state * 1664525u + 1013904223u;
    float x = (state >> 8) * 0x1p-24f;
    state = state * 1664525u + 1013904223u;
    float y = (state >> 8) * 0x1p-24f;
    count += x * x + y * y < 1.0f;
  }
  hits[i] = count;
}

GLOBAL edit_distance(const u8* a, const u8* b, int* out, int n) {
  int i = X;
  if (i >= n) return;
  int row[17];
  for (int j = 0; j <= 16; j++) row[j] = j;
  for (int k = 0; k < 16; k++) {
    int before = row[0];
    row[0] = k + 1;
    int c = a[k * n + i];
    for (int j = 0; j < 16; j++) {
      int cost = before + (c != b[j * n + i]);
      before = row[j + 1];
      row[j + 1] = min(cost, min(row[j], before) + 1);
    }
  }
  out[i] = row[16];
}

GLOBAL particles(float4* pos, float4* vel, int n, float dt, float bound) {
  int i = X;
  if (i >= n) return;
  float4 p = pos[i], v = vel[i];
  p.x += v.x * dt, p.y += v.y * dt, p.z += v.z * dt;
  if (fabsf(p.x) > bound) v.x = -v.x;
  if (fabsf(p.y) > bound) v.y = -v.y;
  if (fabsf(p.z) > bound) v.z = -v.z;
  v.y -= 9.81f * dt;
  pos[i] = p, vel[i] = v;
}
