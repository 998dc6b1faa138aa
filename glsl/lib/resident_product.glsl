// A product of one token: runtime/ref/mul_mat_q2_0.go. Rows are taken in units of 16,
// with SILU of gates and of the ups that belong to them. A team takes a slice of 16 rows:
// with subgroups 32 invocations, of which the first 16 hand the sum of their four blocks
// on to the others, without them 16. Sums of slices are left in room, and added then.
// Blocks that fill up the last slice have activations of 0 and give 0, which changes no sum.
#ifdef SHUFFLE
const uint TEAM = 32u;
#else
const uint TEAM = 16u;
#endif
const uint UNIT = 16u, TEAMS = LOCAL / TEAM, BLOCKS = SLICE * UNIT / TEAM;

uint first_unit, units; // of this workgroup
uint rows, nb, fours, slices;
uint parts; // slices of a unit, those of the ups behind those of the gates
bool silus;
uvec2 codes_at, scales_at;

// What an invocation has of a slice: blocks from b on.
struct Part {
    uvec4 codes[BLOCKS];
    uvec2 scales[BLOCKS / 4u];
    uint b;
};
Part part_next;
uint unit_next, slice_next; // what is loaded next

// The share of rows of this workgroup.
void share() {
    uint more = word(MORE);
    first_unit = gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, more);
    units = word(UNITS) + uint(gl_WorkGroupID.x < more);
    rows = word(ROWS);
}

// Loads the next part and goes on. Where there is none, all read the same word: a branch
// would have the values wait for, and moved, at its end.
void load(out Part to) {
    bool ups = slice_next >= slices;
    uint lane = gl_LocalInvocationIndex, slice = ups ? slice_next - slices : slice_next, row = (first_unit + unit_next) * UNIT + lane % UNIT;
    uint b = slice * SLICE + lane % TEAM / UNIT * BLOCKS, end = unit_next < units ? nb : 0u;
    row += ups ? rows : 0u; // matrices have whole groups of rows
    uint at = (row / GROUP * nb + b) * GROUP + row % GROUP, four = row / GROUP * fours * GROUP + row % GROUP;
    WeightQuads codes = WeightQuads(codes_at);
    WeightPairs scales = WeightPairs(scales_at);
    to.b = b;
    [[unroll]] for (uint i = 0u; i < BLOCKS; i++) {
        bool there = (FULL != 0u ? b : b + i) < end;
        to.codes[i] = codes.v[(there ? at : 0u) + (FULL != 0u || there ? i * GROUP : 0u)];
    }
    [[unroll]] for (uint i = 0u; i < BLOCKS; i += 4u) to.scales[i / 4u] = scales.v[b < end ? four + min((b + i >> SHARE) / 4u, fours - 1u) * GROUP : 0u];
    slice_next += word(STEP_SLICES);
    unit_next += word(STEP_UNITS);
    if (slice_next >= parts) {
        slice_next -= parts;
        unit_next++;
    }
}

#include "resident_in.glsl"

// Brings the first part of a product under way.
void begin() {
    share();
    nb = word(NB);
    slices = word(SLICES);
    fours = Q2_0_FOURS(nb);
    silus = (word(FLAGS) & SILU) != 0u;
    parts = slices << uint(silus);
    uint team = gl_LocalInvocationIndex / TEAM;
    unit_next = team * word(PER) >> 20;
    slice_next = team - unit_next * parts;
    codes_at = address(CODES);
    scales_at = address(SCALES);
    load(part_next);
}

// The term of block b of a row.
float term(uint b, uvec4 codes, float scale) {
    int c[4] = int[4](0, 0, 0, 0);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uvec4 v = acts[b * 4u + j];
        [[unroll]] for (int k = 0; k < 4; k++) c[k] = dot4_unsigned(c[k], codes[j] & 0x03030303u << 2 * k, v[k]); // times 4 to the k
    }
    uvec2 ds = pairs[b];
    int sum = c[0] + (c[1] >> 2) + (c[2] >> 4) + (c[3] >> 6);
    return mul(float(sum - int(ds.y)), mul(scale, uintBitsToFloat(ds.x)));
}

// The sum of a slice, in the last invocations of a team, goes to a cell of room.
void multiply(Part p, uint cell, bool live) {
    float v[BLOCKS], sum = 0.0;
    [[unroll]] for (uint i = 0u; i < BLOCKS; i++) v[i] = 0.0;
    if (live) [[unroll]] for (uint i = 0u; i < BLOCKS; i++) { // without a shuffle, which would be of some invocations
        float scale = q2_0_half(p.scales[SHARE == 0u ? i / 4u : 0u], SHARE == 0u ? i % 4u : ((p.b + i) >> SHARE) % 4u);
        v[i] = term(p.b + i, p.codes[i], scale);
    }
    [[unroll]] for (uint i = 0u; i < BLOCKS; i++) sum = add(sum, v[i]);
#ifdef SHUFFLE
    bool last = gl_LocalInvocationIndex % TEAM >= UNIT;
    float before = subgroupShuffleXor(sum, UNIT);
    sum = last ? before : 0.0;
    [[unroll]] for (uint i = 0u; i < BLOCKS; i++) sum = add(sum, v[i]);
    if (last && live)
#else
    if (live)
#endif
        room[cell / 4u][cell % 4u] = sum;
}

// The sum of slices in order, from the one whose sum is in a cell of room.
float row_sum(uint cell) {
    float total = 0.0;
    uint at = cell / 4u, e = cell % 4u, s = 0u;
    [[dont_unroll]] for (; s + 4u <= slices; s += 4u) {
        float v[4];
        [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = room[at + i * (UNIT / 4u)][e];
        [[unroll]] for (uint i = 0u; i < 4u; i++) total = add(total, v[i]);
        at += UNIT;
    }
    [[dont_unroll]] for (; s < slices; s++) {
        total = add(total, room[at][e]);
        at += UNIT / 4u;
    }
    return tidy(total);
}

void product() {
    begin();
    make_acts();
    barrier();
    uint lane = gl_LocalInvocationIndex, most = word(MOST);
    for (uint from = 0u; from < units; from += most) {
        uint count = min(units - from, most), end = count * parts * UNIT, cell = lane / TEAM * UNIT + lane % UNIT;
        uint rounds = (count * parts + TEAMS - 1u) / TEAMS; // the same for all teams
        bool last = from + most >= units; // nothing is loaded with the last part
        [[dont_unroll]] for (uint i = last ? 1u : 0u; i < rounds; i++) {
            Part part = part_next;
            load(part_next);
            multiply(part, cell, cell < end);
            cell += TEAMS * UNIT;
        }
        if (last) multiply(part_next, cell, cell < end);
        barrier();
        Words y = Words(address(OUT));
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint first = i / UNIT * parts * UNIT + i % UNIT, row = (first_unit + from) * UNIT + i;
            float v = row_sum(first);
            if (silus) v = mul(silu(v), row_sum(first + slices * UNIT));
            if (row < rows) y.v[row] = publish(v);
        }
        if (from + most < units) barrier();
    }
}
