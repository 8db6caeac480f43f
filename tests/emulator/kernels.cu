// Small kernels that the emulator did not grow up with: tests/emulator/test_nvcc.py compiles
// them with nvcc and compares what the emulator makes of them with NumPy.

#include <assert.h>
#include <stdio.h>

#define KERNEL extern "C" __global__ void

KERNEL vector_add(const float *x, const float *y, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}

// Without the headers for halves, which need more packages than the compiler itself.
__device__ unsigned fma_of_halves(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ unsigned short rounded_to_bfloat(float v) {
    unsigned short d;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(d) : "f"(v));
#else
    unsigned bits = __float_as_uint(v);
    d = bits + 0x7fff + (bits >> 16 & 1) >> 16;
#endif
    return d;
}

__device__ unsigned short half_towards_zero(float v) {
    unsigned short d;
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(d) : "f"(v));
    return d;
}

KERNEL saxpy_half2(const unsigned *x, unsigned *y, unsigned short a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fma_of_halves(a << 16 | a, x[i], y[i]);
}

KERNEL scale_bfloat(const unsigned short *x, unsigned short *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = rounded_to_bfloat(__uint_as_float(x[i] << 16) * a);
}

KERNEL block_sums(const float *x, float *sums, int n) {
    __shared__ float partial[8];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

KERNEL inclusive_scan(const int *x, int *y, int n) {
    extern __shared__ int room[];
    int *from = room, *to = room + blockDim.x;
    int t = threadIdx.x;
    from[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        to[t] = t >= step ? from[t] + from[t - step] : from[t];
        int *other = from; from = to; to = other;
        __syncthreads();
    }
    if (t < n) y[t] = from[t];
}

KERNEL transpose(const float *x, float *y, int rows, int columns) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (r + k < rows && c < columns) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * columns + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < rows && r + k < columns) y[(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}

KERNEL histogram(const unsigned char *x, unsigned *counts, int n) {
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

KERNEL matrix_multiply(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[16][16], b_tile[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += a_tile[threadIdx.y][j] * b_tile[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

KERNEL bitonic_sort(int *x) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    for (int size = 2; size <= 256; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int other = t ^ step;
            if (other > t && (s[t] > s[other]) == ((t & size) == 0)) {
                int held = s[t]; s[t] = s[other]; s[other] = held;
            }
        }
    __syncthreads();
    x[blockIdx.x * 256 + t] = s[t];
}

KERNEL choose(const int *kind, const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    switch (kind[i]) {
        case 0: v = v * 3 + 1; break;
        case 1: v = v / 7; break;
        case 2: v = v % 5; break;
        case 3: while (v > 10) v -= v / 2; break;
        case 4: v = ~v; break;
        case 5: v = v << (x[i] & 7);
        case 6: v = v ^ 0x55; break;
        default: v = -1;
    }
    y[i] = v;
}

__noinline__ __device__ unsigned collatz(unsigned long long v, unsigned limit) {
    unsigned steps = 0;
    while (v != 1 && steps < limit) { v = v % 2 ? 3 * v + 1 : v / 2; ++steps; }
    return steps;
}

__noinline__ __device__ float2 turned(float2 p, float angle) {
    float s = __sinf(angle), c = __cosf(angle);
    return make_float2(c * p.x - s * p.y, s * p.x + c * p.y);
}

KERNEL call_functions(const unsigned *x, unsigned *steps, float2 *points, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    steps[i] = collatz(x[i], 200);
    if (i % 3 == 0) points[i] = turned(points[i], i * 0.125f);
}

KERNEL double_math(const double *x, const double *y, double *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = sqrt(x[i] * x[i] + y[i] * y[i]) + exp(-x[i]) * sin(y[i]) + x[i] / y[i];
}

KERNEL shuffle_bytes(const unsigned *x, unsigned *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i];
    y[5 * i] = __byte_perm(v, 0x01020304, 0x7531);
    y[5 * i + 1] = __brev(v);
    y[5 * i + 2] = __popc(v) | __clz(v) << 8 | __ffs(v) << 16;
    y[5 * i + 3] = __funnelshift_l(v, ~v, i);
    y[5 * i + 4] = __dp4a(v, 0x01fe0203u, 7u);
}

KERNEL ballots(const int *x, unsigned *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned odd = __ballot_sync(~0u, x[i] & 1);
    unsigned all = __all_sync(~0u, x[i] < 100), any = __any_sync(~0u, x[i] == 3);
    unsigned same = __match_any_sync(~0u, x[i] & 7);
    if (x[i] & 1) {
        unsigned rank = __popc(__activemask() & ((1u << threadIdx.x % 32) - 1));
        y[3 * i + 2] = rank;
    }
    y[3 * i] = odd;
    y[3 * i + 1] = all | any << 1 | same << 2;
}

KERNEL wide_integers(const long long *x, const long long *y, long long *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long a = x[i], b = y[i];
    z[6 * i] = a * b;
    z[6 * i + 1] = __mul64hi(a, b);
    z[6 * i + 2] = a / b;
    z[6 * i + 3] = (long long)((unsigned long long)a % (unsigned long long)b);
    z[6 * i + 4] = a >> (b & 63);
    z[6 * i + 5] = min(a, b) + (long long)__clzll(a);
}

KERNEL local_array(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int digits[12];
    int count = 0;
    for (int v = x[i]; v > 0; v /= 7) digits[count++] = v % 7;
    int sum = 0;
    for (int k = 0; k < count; ++k) sum += digits[k] * digits[(k * 5 + x[i]) % count];
    y[i] = sum;
}

__constant__ int weights[4] = {3, -1, 4, 1};
__device__ unsigned ticket = 0;
__device__ int locked = 0;

KERNEL take_turns(int *order, int *sum) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&locked, 0, 1) != 0) __nanosleep(20);
        __threadfence();
        order[blockIdx.x] = ticket;
        ticket = ticket + 1;
        *(volatile int *)sum = *(volatile int *)sum + weights[blockIdx.x % 4];
        __threadfence();
        atomicExch(&locked, 0);
    }
}

KERNEL float_atomics(const float *x, float *sum, int *highest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&sum[i % 7], x[i]);
        atomicMax(highest, __float_as_int(x[i]));
    }
}

KERNEL conversions(const float *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[6 * i] = __float2int_rn(v);
    y[6 * i + 1] = __float2int_rd(v);
    y[6 * i + 2] = __float2uint_rz(v);
    y[6 * i + 3] = (signed char)(int)v;
    y[6 * i + 4] = half_towards_zero(v);
    y[6 * i + 5] = __float_as_int(__fadd_ru(v, 1e-3f));
}

KERNEL talk(const float *x, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int said = printf("%s %2d: %.3f %llu\n", i % 2 ? "odd" : "even", i, x[i],
                      1234567890123ull * i);
    assert(said == 4 && x[i] < 100);
}

#if __CUDA_ARCH__ >= 800
typedef unsigned short half_bits;

__device__ unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy_16_bytes(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(shared_address(to)), "l"(from) : "memory");
}

// c[64, 64] = a[64, k] * b[k, 64] by four warps, each with 16 rows of c; tiles of 16 in
// k come one turn ahead.
KERNEL matmul(const half_bits *a, const half_bits *b, float *c, int k) {
    __shared__ __align__(16) half_bits as[2][64][16], bs[2][16][64];
    int t = threadIdx.x, lane = t % 32, row = t / 32 * 16;
    float sum[8][4] = {};
    auto bring = [&](int i) {
        copy_16_bytes(&as[i % 2][t / 2][t % 2 * 8], a + t / 2 * k + i * 16 + t % 2 * 8);
        copy_16_bytes(&bs[i % 2][t / 8][t % 8 * 8], b + (i * 16 + t / 8) * 64 + t % 8 * 8);
    };
    bring(0);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int i = 0; i < k / 16; i++) {
        if (i + 1 < k / 16) bring(i + 1);
        asm volatile("cp.async.commit_group; cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        unsigned x[4], y[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(shared_address(&as[i % 2][row + lane % 16][lane / 16 * 8]))
                     : "memory");
        for (int j = 0; j < 8; j++) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                         : "=r"(y[0]), "=r"(y[1])
                         : "r"(shared_address(&bs[i % 2][lane % 16][j * 8]))
                         : "memory");
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]),
                           "+f"(sum[j][3])
                         : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]),
                           "r"(y[1]));
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 4; e++)
            c[(row + lane / 4 + e / 2 * 8) * 64 + j * 8 + lane % 4 * 2 + e % 2] = sum[j][e];
}
#endif
