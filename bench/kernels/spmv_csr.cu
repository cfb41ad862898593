extern "C" __global__ void spmv_csr(int n, const int *rowptr, const int *col, const float *val, const float *x, float *y)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < n) {
        float s = 0.0f;
        int e = rowptr[r + 1];
        for (int j = rowptr[r]; j < e; j++) s += val[j] * x[col[j]];
        y[r] = s;
    }
}
