// A picture to another size, each pixel from the four around it, which the texture weights.
extern "C" __global__ void bilinear(cudaTextureObject_t in, float* out, int width, int height, float step_x, float step_y) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  out[y * width + x] = tex2D<float>(in, (x + 0.5f) * step_x, (y + 0.5f) * step_y);
}
