struct B { unsigned a : 5, b : 7, c : 20; };
extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    __shared__ B s[64];
    int t = threadIdx.x;
    s[t].a = in[t];
    s[t].b = in[t] >> 2;
    __syncthreads();
    out[t] = s[63 - t].a + s[63 - t].b;
}
