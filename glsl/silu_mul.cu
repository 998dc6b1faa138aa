#include "act.cuh"
// silu(gate) * up into int8 activations: runtime/ref/silu_mul.go. A lane has four
// elements of each of ROUNDS rounds of the workgroup.
struct Push { u32 n, k; };

const u32 ROUNDS = 2;

KERNEL(128) kernel(const f32x4 *x, u32 *act, Push p) {
    u32 t = group_y(), quads = p.k / 4, first = group_x() * 128 * ROUNDS + thread();
    const f32x4 *gate = x + (u64)t * 2 * quads;
    f32x4 g[ROUNDS], u[ROUNDS];
#pragma unroll
    for (u32 i = 0; i < ROUNDS; i++) {
        u32 at = first + i * 128;
        if (at < quads) {
            g[i] = gate[at];
            u[i] = gate[at + quads];
        }
    }
#pragma unroll
    for (u32 i = 0; i < ROUNDS; i++) {
        u32 at = first + i * 128;
        f32x4 v;
#pragma unroll
        for (u32 e = 0; e < 4; e++) v[e] = silu(g[i][e]) * u[i][e];
        store_block(act, p.n, quads / 16, t, at / 16, at < quads, v);
    }
}
