// A product of one token. Rows are taken in units of 16, with SILU of gates and of
// the ups that belong to them. 64 invocations take one slice of a unit: a quarter of
// the slice's blocks of one row each. runtime/ref/mul_mat_q2_0.go
const uint UNIT = 16u, TEAM = 64u, TEAMS = LOCAL / TEAM, QUARTER = SLICE / 4u;
const uint AHEAD = 2u; // slices that an invocation has under way

// Units of this workgroup.
uint first_unit() { return gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, word(MORE)); }
uint count_units() { return word(UNITS) + uint(gl_WorkGroupID.x < word(MORE)); }

bool silus() { return (word(FLAGS) & SILU) != 0u; }

// Slices of a unit: with SILU, those of the ups follow those of the gates.
uint unit_slices() { return word(SLICES) << uint(silus()); }

// A team's walk over the slices of the workgroup's units, AHEAD of them at once.
// Slice i is slice i % unit_slices() of unit i / unit_slices().
uint walk_at;
uvec4 codes_next[AHEAD * QUARTER];
uvec2 scales_next[AHEAD];

uint row_in_unit() { return gl_LocalInvocationIndex % TEAM / 4u; }
uint quarter() { return gl_LocalInvocationIndex % 4u; }

// The unit of slice i; exact for i * unit_slices() < 2^18.
uint unit_of(uint i) { return i * word(PER) >> 18; }

// Loads the next AHEAD slices of the walk.
void load() {
    uint nb = word(NB), rows = word(ROWS), slices = word(SLICES), per = unit_slices(), fours = Q2_0_FOURS(nb), total = count_units() * per;
    WeightQuads codes = WeightQuads(address(CODES));
    WeightPairs scales = WeightPairs(address(SCALES));
    [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
        if (walk_at < total) {
            uint unit = unit_of(walk_at), slice = walk_at - unit * per, row = min((first_unit() + unit) * UNIT + row_in_unit(), rows - 1u);
            if (slice >= slices) {
                slice -= slices;
                row += rows;
            }
            uint b = slice * SLICE + quarter() * QUARTER, at = row / GROUP * nb * GROUP + row % GROUP;
            [[unroll]] for (uint e = 0u; e < QUARTER; e++) codes_next[i * QUARTER + e] = codes.v[at + min(b + e, nb - 1u) * GROUP];
            scales_next[i] = scales.v[row / GROUP * fours * GROUP + row % GROUP + min((b >> SHARE) / 4u, fours - 1u) * GROUP];
        }
        walk_at += TEAMS;
    }
}

// Brings the first slices of a product under way.
void begin() {
    walk_at = gl_LocalInvocationIndex / TEAM;
    load();
}

// The sum of a slice, in the last of the four invocations that have a quarter each.
// Blocks beyond the end of a row add +0, which changes no sum.
float slice_sum(uint slice, uvec4 codes[QUARTER], uvec2 scales) {
    float t[QUARTER], sum = 0.0;
    [[unroll]] for (uint e = 0u; e < QUARTER; e++) {
        uint b = slice * SLICE + quarter() * QUARTER + e, inside = min(b, word(NB) - 1u);
        int c[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uvec4 v = acts[inside * 4u + j];
            c[j] = 0;
            [[unroll]] for (int k = 0; k < 4; k++) c[j] = dot4(c[j], (codes[e][j] >> (2 * k)) & 0x03030303u, v[k]);
        }
        uvec2 ds = pairs[inside];
        t[e] = mul(float(c[0] + c[1] + (c[2] + c[3]) - int(ds.y)), mul(q2_0_half(scales, (b >> SHARE) % 4u), uintBitsToFloat(ds.x)));
        if (b > inside) t[e] = 0.0;
        sum = add(sum, t[e]);
    }
    [[unroll]] for (uint i = 1u; i < 4u; i++) {
        float below = from_below(sum);
        [[unroll]] for (uint e = 0u; e < QUARTER; e++) below = add(below, t[e]);
        if (quarter() == i) sum = below;
    }
    return sum;
}

float row_sum(uint first) {
    float total = room_float(first);
    for (uint i = 1u; i < word(SLICES); i++) total = add(total, room_float(first + i * UNIT));
    return tidy(total);
}

void product() {
    switch (word(IN)) {
    case IN_NORM: norm_in(); break;
    case IN_JOIN: join_in(); break;
    case IN_ROW: row_in(); break;
    }
    barrier();
    uint lane = gl_LocalInvocationIndex, per = unit_slices(), total = count_units() * per, most = word(MOST);
    Floats y = Floats(address(OUT));
    for (uint from = 0u; from < total; from += most) { // whole units
        uint end = min(total, from + most);
        [[dont_unroll]] for (uint done = from; done < end; done += AHEAD * TEAMS) {
            uvec4 codes[AHEAD * QUARTER] = codes_next;
            uvec2 scales[AHEAD] = scales_next;
            load();
            [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
                if (done + i * TEAMS < end) { // for all teams
                    uint at = done + i * TEAMS + lane / TEAM, slice = at - unit_of(at) * per;
                    uvec4 mine[QUARTER];
                    [[unroll]] for (uint e = 0u; e < QUARTER; e++) mine[e] = codes[i * QUARTER + e];
                    float sum = slice_sum(slice - (slice >= word(SLICES) ? word(SLICES) : 0u), mine, scales[i]);
                    if (quarter() == 3u && at < end) {
                        uint cell = (at - from) * UNIT + row_in_unit();
                        room[cell / 4u][cell % 4u] = sum;
                    }
                }
            }
        }
        barrier();
        uint unit = unit_of(from), count = unit_of(end) - unit;
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint first = i / UNIT * per * UNIT + i % UNIT, row = (first_unit() + unit) * UNIT + i;
            float v = row_sum(first);
            if (silus()) v = mul(silu(v), row_sum(first + word(SLICES) * UNIT));
            if (row < word(ROWS)) y.v[row] = v;
        }
        barrier();
    }
}
