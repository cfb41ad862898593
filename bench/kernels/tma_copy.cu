// Tiles of 64 x 64 floats: in by one tensor copy, out by another, two stages, so that a tile comes while another goes. Each
// block has tiles that follow each other.
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };
__device__ inline u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ inline void load(const Map* m, u32 to, u32 bar, int x, int y) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(16384) : "memory");
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(bar) : "memory");
}
extern "C" __global__ void tma_copy(const __grid_constant__ Map in, const __grid_constant__ Map out, int tiles_x, int tiles_y, int per_block) {
  __shared__ alignas(128) float tile[2][64 * 64];
  __shared__ alignas(8) u64 full[2];
  if (threadIdx.x != 0) return;
  for (int s = 0; s < 2; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full[s])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  int first = blockIdx.x * per_block, end = min(first + per_block, tiles_x * tiles_y);
  if (first < end) load(&in, smem(tile[0]), smem(&full[0]), first % tiles_x * 64, first / tiles_x * 64);
  u32 n = 0;
  for (int t = first; t < end; t++, n++) {
    u32 s = n & 1, parity = n >> 1 & 1, ready;
    int next = t + 1;
    if (next < end) {
      // The tile that lay there has been read.
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      load(&in, smem(tile[s ^ 1]), smem(&full[s ^ 1]), next % tiles_x * 64, next / tiles_x * 64);
    }
    do
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(ready) : "r"(smem(&full[s])), "r"(parity) : "memory");
    while (!ready);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&out), "r"(t % tiles_x * 64), "r"(t / tiles_x * 64), "r"(smem(tile[s])) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
