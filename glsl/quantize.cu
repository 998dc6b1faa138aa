#include "act.cuh"
// Float32 rows to int8 activations: runtime/ref/quantize.go. A lane has four elements
// of each of ROUNDS rounds of the workgroup.
struct Push { u32 n, k; };

const u32 ROUNDS = 2;

KERNEL(128) kernel(const f32x4 *x, u32 *act, Push p) {
    u32 t = group_y(), quads = p.k / 4, first = group_x() * 128 * ROUNDS + thread();
    f32x4 v[ROUNDS];
#pragma unroll
    for (u32 i = 0; i < ROUNDS; i++)
        if (first + i * 128 < quads) v[i] = x[(u64)t * quads + first + i * 128];
#pragma unroll
    for (u32 i = 0; i < ROUNDS; i++) {
        u32 at = first + i * 128;
        store_block(act, p.n, quads / 16, t, at / 16, at < quads, v[i]);
    }
}
