// Products of a warp: 16 rows of 16 halves by 8 columns, sums in float32. Of a, a lane has
// the pairs of halves at 2 (l % 4) of row l / 4 and of row l / 4 + 8, then those at
// 2 (l % 4) + 8 of both; of b the pairs at 2 (l % 4) and at 2 (l % 4) + 8 of column l / 4; of
// the sums those of columns 2 (l % 4) and the next, of row l / 4, then of row l / 4 + 8.
#include "stages.cuh"

#ifdef __CUDA__
DEVICE void multiply(f32x4 &c, u32x4 a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Four matrices of 8 rows of 8 halves: lane l gives the address of row l % 8 of matrix l / 8, and gets
// of each the pair at 2 (l % 4) of row l / 4, or, turned, of column l / 4.
DEVICE u32x4 four_matrices(u32 at) {
    u32x4 r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at) : "memory");
    return r;
}
DEVICE u32x4 four_matrices_turned(u32 at) {
    u32x4 r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at) : "memory");
    return r;
}

DEVICE float exp2_near(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Copies that this thread has begun.
DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif
