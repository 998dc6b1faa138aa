// A product of one token: runtime/ref/mul_mat_q2_0.go. Rows are taken in units of 16,
// with SILU of gates and of the ups that belong to them. A warp takes a slice of a
// unit: eight blocks of 16 rows by matrix instructions, whose eight columns are the
// eight blocks, not tokens: the activations of a block are in its column, and zeros in
// the others, so that each sum is of one block. What a lane loads are all codes of two
// blocks of two rows. The sums of slices are left in room and added in order.
// Little is loaded ahead: what waits for memory in long queues keeps others from seeing
// what they wait for, and code that 32 KB of cache do not hold runs at a third of the speed.
#define RING 3u // slices of a warp that are under way

struct Slice {
    Quad codes[2][2]; // of blocks c and c + 4, of rows r and r + 8: the lane is 4 r + c
    u32 scales[2];    // of blocks 2 c and 2 c + 1 of these rows
    u32 at;           // which of the row
};

struct Product {
    const Quad *codes;
    const u32 *scales;
    u32 first_unit, units; // of this workgroup
    u32 rows, nb, fours, slices, all; // all: slices of a unit
    u32 unit, slice;           // that is loaded next
    u32 step_units, step_slices; // from one of a warp to its next
};

// The share of rows of this workgroup.
DEVICE void share(const u32 *step, u32 &first_unit, u32 &units) {
    u32 more = step[MORE];
    first_unit = group_x() * step[UNITS] + min(group_x(), more);
    units = step[UNITS] + (group_x() < more ? 1u : 0u);
}

DEVICE void load(Run &k, Product &p, Slice &x) {
    if (p.unit < p.units) {
        bool ups = p.slice >= p.slices;
        u32 s = ups ? p.slice - p.slices : p.slice, r = k.l / 4u, c = k.l % 4u;
        u32 unit = p.first_unit + p.unit + (ups ? p.rows / UNIT : 0u), in_group = unit % 2u * UNIT + r;
        const Quad *codes = p.codes + unit / 2u * p.nb * 32u + in_group;
        u32 b = 8u * s + c, b0 = min(b, p.nb - 1u) * 32u, b1 = min(b + 4u, p.nb - 1u) * 32u; // beyond are no activations
        x.codes[0][0] = load_once(codes + b0);
        x.codes[0][1] = load_once(codes + b0 + 8);
        x.codes[1][0] = load_once(codes + b1);
        x.codes[1][1] = load_once(codes + b1 + 8);
        u32 i = min(8u * s + 2u * c, p.nb - 1u) >> k.spec.share;
        const u32 *scales = p.scales + ((unit / 2u * p.fours + i / 4u) * 32u + in_group) * 2u + i / 2u % 2u;
        x.scales[0] = load_once(scales);
        x.scales[1] = load_once(scales + 16);
        x.at = s;
    }
    p.slice += p.step_slices;
    p.unit += p.step_units;
    if (p.slice >= p.all) {
        p.slice -= p.all;
        p.unit++;
    }
}

// Moves the ring on.
DEVICE void next(Run &k, Product &p, Slice ring[RING]) {
#pragma unroll
    for (u32 i = 0; i + 1u < RING; i++) ring[i] = ring[i + 1];
    load(k, p, ring[RING - 1u]);
}

DEVICE void begin(Run &k, Product &p, Slice ring[RING]) {
    share(sm.step[k.now], p.first_unit, p.units);
    p.codes = k.at<const Quad>(CODES);
    p.scales = k.at<const u32>(SCALES);
    p.rows = k.word(ROWS);
    p.nb = k.word(NB);
    p.fours = (((p.nb - 1u) >> k.spec.share) + 4u) / 4u;
    p.slices = k.word(SLICES);
    p.all = p.slices << ((k.word(FLAGS) & SILU) != 0 ? 1 : 0);
    p.step_units = k.word(STEP_UNITS);
    p.step_slices = k.word(STEP_SLICES);
    p.unit = k.warp * k.word(PER) >> 20;
    p.slice = k.warp - p.unit * p.all;
#pragma unroll
    for (u32 i = 0; i < RING; i++) ring[i] = {}; // or registers would hold it from the last product on
}

#include "resident_in.cuh"

// The sums of a slice of rows r and r + 8, for the last lane of a row's four.
DEVICE void multiply_slice(Run &k, const Slice &x, float sum[2]) {
    u32 n = k.l / 4u, c = k.l % 4u;
    const Quad *own = sm.acts + (8u * x.at + n) * 4u;
    const Quad *column[2] = {n == c ? own : sm.zeros, n == c + 4u ? own : sm.zeros};
    Quad two = *(const Quad *)&sm.pairs[8u * x.at + 2u * c];
    int sums[4][4] = {}; // times 4 to the power of the first index
    sums[3][0] = sums[3][2] = two.w[1];
    sums[3][1] = sums[3][3] = two.w[3];
#pragma unroll
    for (u32 h = 0; h < 2; h++)
#pragma unroll
        for (u32 j = 0; j < 4; j += 2) {
            Quad acts[2] = {column[h][j], column[h][j + 1]};
            const u32 *a = x.codes[h][0].w + j, *b = x.codes[h][1].w + j;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 m = 0x03030303u << 2 * i;
                multiply(sums[i], a[0] & m, b[0] & m, a[1] & m, b[1] & m, acts[i / 2].w[i % 2 * 2], acts[i / 2].w[i % 2 * 2 + 1]);
            }
        }
#pragma unroll
    for (u32 row = 0; row < 2; row++) {
        float term[2];
        u32 shift = k.spec.share == 0 ? 0u : ((8u * x.at + 2u * c) >> k.spec.share) % 2u * 16u, scales = x.scales[row];
        float d[2] = {low_half(scales >> shift), low_half(scales >> (k.spec.share == 0 ? 16u : shift))};
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 at = 2u * row + i;
            int v = ((sums[0][at] * 4 + sums[1][at]) * 4 + sums[2][at]) * 4 + sums[3][at];
            term[i] = (float_of(v) - 0x1.8p23f) * (d[i] * float_of(two.w[2u * i]));
        }
        float s = (0.0f + term[0]) + term[1];
#pragma unroll
        for (u32 i = 0; i < 3; i++) s = (before_of_four(s) + term[0]) + term[1];
        sum[row] = s;
    }
}

DEVICE void product(Run &k) {
    Product p;
    Slice ring[RING];
    begin(k, p, ring);
    make_acts(k, p, ring);
    barrier();
    float *room = (float *)sm.room;
    bool silus = p.all != p.slices;
    u32 most = k.word(MOST);
    for (u32 from = 0; from < p.units; from += most) {
        u32 units = min(p.units - from, most), items = units * p.all, i = k.warp;
#pragma unroll 1
        for (; i < items; i += WARPS) {
            float sum[2];
            multiply_slice(k, ring[0], sum);
            if (k.l % 4u == 3u) {
                room[i * UNIT + k.l / 4u] = sum[0];
                room[i * UNIT + k.l / 4u + 8u] = sum[1];
            }
            next(k, p, ring);
        }
        barrier();
        u32 *y = k.at<u32>(OUT);
        for (u32 i = k.lane; i < units * UNIT; i += LOCAL) {
            const float *cell = room + i / UNIT * p.all * UNIT + i % UNIT, *up = cell + (silus ? p.slices * UNIT : 0u);
            float v = 0, u = 0;
#pragma unroll 1
            for (u32 s = 0; s < p.slices; s += 4)
#pragma unroll
                for (u32 n = 0; n < 4; n++)
                    if (s + n < p.slices) {
                        v = v + cell[(s + n) * UNIT];
                        u = u + up[(s + n) * UNIT];
                    }
            v = tidy(v);
            if (silus) v = silu(v) * tidy(u);
            u32 row = (p.first_unit + from) * UNIT + i;
            if (row < p.rows) put(y + row, publish(v));
        }
        if (from + most < p.units) barrier();
    }
}
