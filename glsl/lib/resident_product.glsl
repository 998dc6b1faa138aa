// A product of one token. Rows are taken in units of 16, with SILU of gates and of
// the ups that belong to them. 32 invocations take one slice of a unit: half of the
// slice's blocks of one row each. runtime/ref/mul_mat_q2_0.go
const uint UNIT = 16u, TEAM = 32u, TEAMS = LOCAL / TEAM, HALF = SLICE / 2u;

// Units of this workgroup.
uint first_unit() { return gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, word(MORE)); }
uint count_units() { return word(UNITS) + uint(gl_WorkGroupID.x < word(MORE)); }

bool silus() { return (word(FLAGS) & SILU) != 0u; }

// Slices of a unit: with SILU, those of the ups follow those of the gates.
uint unit_slices() { return word(SLICES) << uint(silus()); }

// A team's walk over the slices of the workgroup's units, the next one under way.
// Slice i is slice i % unit_slices() of unit i / unit_slices().
uvec4 codes_next[HALF];
uvec2 scales_next;

uint row_in_unit() { return gl_LocalInvocationIndex % TEAM / 2u; }
uint side() { return gl_LocalInvocationIndex % 2u; }

// The unit of slice i; exact for i * unit_slices() < 2^18.
uint unit_of(uint i) { return i * word(PER) >> 18; }

// Loads this invocation's blocks of slice i, if there is one.
void load(uint i) {
    uint nb = word(NB), rows = word(ROWS), slices = word(SLICES), per = unit_slices(), fours = Q2_0_FOURS(nb);
    if (i < count_units() * per) {
        uint unit = unit_of(i), slice = i - unit * per, row = min((first_unit() + unit) * UNIT + row_in_unit(), rows - 1u);
        if (slice >= slices) {
            slice -= slices;
            row += rows;
        }
        uint b = slice * SLICE + side() * HALF, at = row / GROUP * nb * GROUP + row % GROUP;
        WeightQuads codes = WeightQuads(address(CODES));
        [[unroll]] for (uint e = 0u; e < HALF; e++) codes_next[e] = codes.v[at + min(b + e, nb - 1u) * GROUP];
        WeightPairs scales = WeightPairs(address(SCALES));
        scales_next = scales.v[row / GROUP * fours * GROUP + row % GROUP + min((b >> SHARE) / 4u, fours - 1u) * GROUP];
    }
}

// Brings the first slice of a product under way.
void begin() { load(gl_LocalInvocationIndex / TEAM); }

// The sum of a slice, in the second of the two invocations that have a half each.
// Blocks beyond the end of a row add +0, which changes no sum.
float slice_sum(uint slice, uvec4 codes[HALF], uvec2 scales) {
    float t[HALF], sum = 0.0;
    [[unroll]] for (uint e = 0u; e < HALF; e++) {
        uint b = slice * SLICE + side() * HALF + e, inside = min(b, word(NB) - 1u);
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
    float below = from_below(sum);
    [[unroll]] for (uint e = 0u; e < HALF; e++) below = add(below, t[e]);
    return below;
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
        [[dont_unroll]] for (uint done = from; done < end; done += TEAMS) { // in step, for those without subgroups
            uvec4 codes[HALF] = codes_next;
            uvec2 scales = scales_next;
            uint at = done + lane / TEAM, slice = at - unit_of(at) * per;
            load(at + TEAMS);
            float sum = slice_sum(slice - (slice >= word(SLICES) ? word(SLICES) : 0u), codes, scales);
            if (side() == 1u && at < end) {
                uint cell = (at - from) * UNIT + row_in_unit();
                room[cell / 4u][cell % 4u] = sum;
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
