extern "C" __global__ void sobel(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || x >= w - 1 || y < 1 || y >= h - 1) return;
  const unsigned char *u = in + (y - 1) * w + x, *m = in + y * w + x, *d = in + (y + 1) * w + x;
  int gx = u[1] + 2 * m[1] + d[1] - u[-1] - 2 * m[-1] - d[-1];
  int gy = d[-1] + 2 * d[0] + d[1] - u[-1] - 2 * u[0] - u[1];
  int g = abs(gx) + abs(gy);
  out[y * w + x] = g > 255 ? 255 : g;
}
