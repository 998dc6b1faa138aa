// A product of one token: runtime/ref/mul_mat_q2_0.go. Rows are taken in units of 16,
// with SILU of gates and of the ups that belong to them, and 16 invocations (a team)
// take the same four blocks, half a slice, of 16 rows. Where there are few halves, each
// is another invocation's, their terms are left in room, and those of slices are added
// then. Of many, WHOLE says, an invocation takes both halves of a slice and leaves their
// sum. Blocks that fill up the last slice give +0, which changes no sum.
const uint UNIT = 16u, TEAMS = LOCAL / UNIT, HALF = SLICE / 2u;

uint first_unit, units; // of this workgroup
uint rows, nb, fours, slices;
uint halves, up; // of a unit; which of them is the first of the ups, or none
bool silus, whole;
uint step_units, step_halves;

// The half that is loaded next, and what it has.
uint unit_next, half_next;
uvec4 codes_next[HALF];
uvec2 scales_next;

// The share of rows of this workgroup.
void share() {
    uint more = word(MORE);
    first_unit = gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, more);
    units = word(UNITS) + uint(gl_WorkGroupID.x < more);
    rows = word(ROWS);
}

// Where an invocation begins, and how it goes on.
void first_half(out uint unit, out uint half_at) {
    uint at = gl_LocalInvocationIndex / UNIT * (whole ? 2u : 1u);
    unit = at * word(PER) >> 20;
    half_at = at - unit * halves;
}
void next_half(inout uint unit, inout uint half_at) {
    bool within = whole && half_at % 2u == 0u;
    half_at += within ? 1u : step_halves;
    unit += within ? 0u : step_units;
    if (half_at >= halves) {
        half_at -= halves;
        unit++;
    }
}

// Loads the next half, if there is one.
void load() {
    if (unit_next < units) {
        bool ups = half_next >= up;
        uint row = (first_unit + unit_next) * UNIT + gl_LocalInvocationIndex % UNIT, b = HALF * (ups ? half_next - up : half_next);
        row = ups ? min(row + rows, 2u * rows - 1u) : min(row, rows - 1u);
        uint at = (row / GROUP * nb + b) * GROUP + row % GROUP;
        WeightQuads codes = WeightQuads(address(CODES));
        [[unroll]] for (uint i = 0u; i < HALF; i++) if (b + i < nb) codes_next[i] = codes.v[at + i * GROUP];
        scales_next = WeightPairs(address(SCALES)).v[(row / GROUP * fours + min((b >> SHARE) / 4u, fours - 1u)) * GROUP + row % GROUP];
    }
    next_half(unit_next, half_next);
}

#include "resident_in.glsl"

// Brings the first half of a product under way.
void begin() {
    share();
    nb = word(NB);
    slices = word(SLICES);
    step_units = word(STEP_UNITS);
    step_halves = word(STEP_HALVES);
    fours = Q2_0_FOURS(nb);
    silus = (word(FLAGS) & SILU) != 0u;
    whole = (word(FLAGS) & WHOLE) != 0u;
    halves = 2u * slices << uint(silus);
    up = silus ? 2u * slices : halves;
    first_half(unit_next, half_next);
    [[unroll]] for (uint i = 0u; i < HALF; i++) codes_next[i] = uvec4(0u); // or registers would hold those of the last product until now
    scales_next = uvec2(0u);
    load();
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

// The sum of slices in order, from the one whose sum is in a cell of room.
float row_sum(uint cell, uint stride) {
    float total = 0.0;
    [[dont_unroll]] for (uint s = 0u; s < slices; s += 4u) {
        float v[4];
        [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = s + i < slices ? room_float(cell + (s + i) * stride) : 0.0;
        [[unroll]] for (uint i = 0u; i < 4u; i++) total = add(total, v[i]);
    }
    return tidy(total);
}

void product() {
    begin();
    make_acts();
    barrier();
    uint lane = gl_LocalInvocationIndex, r = lane % UNIT, team = lane / UNIT, most = word(MOST);
    uint cells = whole ? UNIT : SLICE * UNIT; // of a slice
    for (uint from = 0u; from < units; from += most) {
        uint count = min(units - from, most), end = count * (halves / 2u) * cells, unit, at;
        first_half(unit, at);
        float sum = 0.0;
        [[dont_unroll]] for (uint cell = team * (whole ? UNIT : HALF * UNIT) + r; cell < end;) {
            uvec4 codes[HALF] = codes_next;
            uvec2 scales = scales_next;
            load();
            uint b = HALF * (at >= up ? at - up : at);
            float v[HALF];
            [[unroll]] for (uint i = 0u; i < HALF; i++) {
                float scale = q2_0_half(scales, SHARE == 0u ? i : ((b + i) >> SHARE) % 4u);
                v[i] = b + i < nb ? term(b + i, codes[i], scale) : 0.0;
            }
            if (whole) {
                [[unroll]] for (uint i = 0u; i < HALF; i++) sum = add(sum, v[i]);
                if (at % 2u != 0u) {
                    room[cell / 4u][cell % 4u] = sum;
                    sum = 0.0;
                    cell += LOCAL;
                }
            } else {
                [[unroll]] for (uint i = 0u; i < HALF; i++) room[cell / 4u + i * (UNIT / 4u)][cell % 4u] = v[i];
                cell += HALF * LOCAL;
            }
            next_half(unit, at);
        }
        barrier();
        if (!whole) {
            for (uint i = lane; i < end / SLICE; i += LOCAL) {
                uint cell = i / UNIT * cells + i % UNIT;
                float sum = 0.0;
                [[unroll]] for (uint k = 0u; k < SLICE; k++) sum = add(sum, room_float(cell + k * UNIT));
                room[cell / 4u][cell % 4u] = sum;
            }
            barrier();
        }
        Words y = Words(address(OUT));
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint cell = i / UNIT * (halves / 2u) * cells + i % UNIT, row = (first_unit + from) * UNIT + i;
            float v = row_sum(cell, cells);
            if (silus) v = mul(silu(v), row_sum(cell + slices * cells, cells));
            if (row < rows) y.v[row] = publish(v);
        }
        if (from + most < units) barrier();
    }
}
