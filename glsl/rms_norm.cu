#include "act.cuh"
// x += y (if asked), then RMS norm into int8 activations: runtime/ref/rms_norm.go. A
// workgroup has a row. Sixteen lanes have sixteen quads of the 64 of a round over the 256
// partial sums, of all rounds of a group: two groups a warp, four in all, which add their
// squares in turn. The first HELD rounds of a group stay in registers, others are read again.
struct Push { u32 n, k, weight, adds; float inv_k, eps; };

const u32 COLUMNS = 64, GROUPS = 4, HELD = 4;

SHARED f32x4 part[2][COLUMNS];

// Rows of two or four full groups are whole: nothing is to be asked then.
template <bool whole> DEVICE void norm(f32x4 *x, const f32x4 *y, const float *weight, u32 *act, const Push &p) {
    u32 t = group_x(), lane = thread() % 32, warp = thread() / 32, column = warp % 4 * 16 + lane % 16, half = warp / 4, group = half * 2 + lane / 16;
    // Quads of a row, and of a round; lanes beyond those idle.
    u32 quads = p.k / 4, wide = whole || p.k >= 256 ? 64 : p.k < 128 ? 16 : 32;
    u32 each = whole ? HELD : max(((quads + wide - 1) / wide + GROUPS - 1) / GROUPS, HELD), first = group * each * wide + column;
    u32 end = min((group + 1) * each * wide, quads), halves = quads > 2 * each * wide ? 2 : 1;
    if (column >= wide) first = end;
    bool idle = half >= halves;
    f32x4 *row = x + (u64)t * quads + first;
    const f32x4 *more = y + (u64)t * quads + first;
    auto live = [&](u32 j) { return whole || first + j * wide < end; };
    auto added = [&](f32x4 v, f32x4 u) {
#pragma unroll
        for (u32 e = 0; e < 4; e++) v[e] = tidy(v[e] + u[e]);
        return v;
    };
    f32x4 held[HELD], scale[HELD];
    auto scales = [&](u32 j) { // of rounds from j on
#pragma unroll
        for (u32 b = 0; b < HELD; b++) {
            const float *from = weight + 4 * (live(j + b) ? first + (j + b) * wide : 0);
            scale[b] = !whole && p.weight % 4 ? f32x4{from[0], from[1], from[2], from[3]} : *(const f32x4 *)from;
        }
    };
    if (!idle) {
#pragma unroll
        for (u32 j = 0; j < HELD; j++) held[j] = live(j) ? load_once(row + j * wide) : f32x4(0); // +0 changes no sum
        if (p.adds) {
#pragma unroll
            for (u32 j = 0; j < HELD; j++) scale[j] = live(j) ? load_once(more + j * wide) : f32x4(0);
#pragma unroll
            for (u32 j = 0; j < HELD; j++) {
                held[j] = added(held[j], scale[j]);
                if (live(j)) row[j * wide] = held[j];
            }
        }
    }
    f32x4 s4 = 0;
    for (u32 h = 0; h < halves; h++) {
        if (h == half) {
            if (h) s4 = part[0][column];
#pragma unroll 1
            for (u32 g = 0; g < 2; g++) {
#pragma unroll
                for (u32 j = 0; j < HELD; j++) s4 = s4 + held[j] * held[j];
                if (!whole)
#pragma unroll 1
                    for (u32 j = HELD; first + j * wide < end; j++) {
                        f32x4 v = p.adds ? added(row[j * wide], more[j * wide]) : row[j * wide];
                        if (p.adds && g == lane / 16) row[j * wide] = v;
                        s4 = s4 + v * v;
                    }
                if (g == 0)
#pragma unroll
                    for (u32 e = 0; e < 4; e++) s4[e] = shuffle_xor(s4[e], 16);
            }
            if (lane >= 16) part[half][column] = s4;
        }
        __syncthreads();
    }
    if (idle) return;
    scales(0);
    const float *parts = (const float *)part[halves - 1] + lane;
    float s[8];
#pragma unroll
    for (u32 i = 0; i < 8; i++) s[i] = parts[32 * i]; // sums beyond the columns are +0
#pragma unroll
    for (u32 h = 4; h > 0; h /= 2)
#pragma unroll
        for (u32 i = 0; i < h; i++) s[i] = s[i] + s[i + h];
#pragma unroll
    for (u32 h = 16; h > 0; h /= 2) s[0] = s[0] + shuffle_xor(s[0], h);
    float r = rsqrt(s[0] * p.inv_k + p.eps);
    for (u32 j = 0;;) {
        u32 i = first + (j + lane % 4) * wide;
#pragma unroll
        for (u32 b = 0; b < HELD; b++) held[b] = held[b] * r * scale[b];
        store_blocks(act, p.n * (quads / 16), i / 16 * p.n + t, whole || i < end, held);
        if (whole || (j += HELD) >= each) break;
#pragma unroll
        for (u32 b = 0; b < HELD; b++) held[b] = live(j + b) ? row[(j + b) * wide] : f32x4(0);
        scales(j);
    }
}

KERNEL_TIMES(COLUMNS * GROUPS, 4) kernel(f32x4 *x, const f32x4 *y, const float *consts, u32 *act, Push p) {
    u32 full = COLUMNS * 4 * HELD * 2;
    if ((p.k == full || p.k == 2 * full) && p.weight % 4 == 0)
        norm<true>(x, y, consts + p.weight, act, p);
    else
        norm<false>(x, y, consts + p.weight, act, p);
}
