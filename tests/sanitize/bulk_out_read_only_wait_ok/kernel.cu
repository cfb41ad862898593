typedef unsigned u32; typedef unsigned long long u64;
__device__ inline u32 sa(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ inline void mb_init(u32 b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
__device__ inline void mb_expect(u32 b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
__device__ inline void mb_wait(u32 b, u32 par) {
  u32 ok; do { asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0,1,0,p;}" : "=r"(ok) : "r"(b), "r"(par) : "memory"); } while (!ok);
}
__device__ inline void bulk_in(u32 d, const void *s, u32 n, u32 b) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(d), "l"(s), "r"(n), "r"(b) : "memory"); }
__device__ inline void bulk_out(void *d, u32 s, u32 n) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(d), "r"(s), "r"(n) : "memory"); }
__device__ inline void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ inline void pfence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void csync() { asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory"); }
__device__ inline u32 mapa(u32 a, u32 r) { u32 d; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(r)); return d; }
__device__ inline u32 crank() { u32 d; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(d)); return d; }
__device__ inline int ldc(u32 a) { int d; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(d) : "r"(a) : "memory"); return d; }
__device__ inline void stc(u32 a, int v) { asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }

extern "C" __global__ void k(int *out, const int *in, int *sum) {
    __shared__ __align__(128) int s[64];
    int t = threadIdx.x;
    s[t] = in[t] * 2;
    pfence();
    __syncthreads();
    if (t == 0) {
        bulk_out(out, sa(s), 256); //A
        commit();
#ifdef BUG
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#else
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
    }
    __syncthreads();
    sum[t] = out[63 - t]; //B
}
