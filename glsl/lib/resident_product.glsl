// A product of one token. Rows are taken in units of 16, with SILU of gates and of
// the ups that belong to them. 16 invocations take one slice of a unit, of one row each:
// fewer blocks for each invocation cost more than they gain. runtime/ref/mul_mat_q2_0.go
const uint UNIT = 16u, TEAMS = LOCAL / UNIT;

// Units of this workgroup.
uint first_unit() { return gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, word(MORE)); }
uint count_units() { return word(UNITS) + uint(gl_WorkGroupID.x < word(MORE)); }

bool silus() { return (word(FLAGS) & SILU) != 0u; }

// Slices of a unit: with SILU, those of the ups follow those of the gates.
uint unit_slices() { return word(SLICES) << uint(silus()); }

// A team's walk over the slices of the workgroup's units, the next one under way.
// Slice i is slice i % unit_slices() of unit i / unit_slices().
uvec4 codes_next[SLICE];
uvec2 scales_next[2];

// Where the scales of a slice begin, in fours.
uint four_of(uint slice) { return (slice * SLICE >> SHARE) / 4u; }

// The unit of slice i; exact for i * unit_slices() < 2^18.
uint unit_of(uint i) { return i * word(PER) >> 18; }

// Loads slice i of this invocation's row, if there is one.
void load(uint i) {
    uint nb = word(NB), rows = word(ROWS), slices = word(SLICES), per = unit_slices(), fours = Q2_0_FOURS(nb);
    if (i < count_units() * per) {
        uint unit = unit_of(i), slice = i - unit * per, row = min((first_unit() + unit) * UNIT + gl_LocalInvocationIndex % UNIT, rows - 1u);
        if (slice >= slices) {
            slice -= slices;
            row += rows;
        }
        uint at = row / GROUP * nb * GROUP + row % GROUP;
        WeightQuads codes = WeightQuads(address(CODES));
        [[unroll]] for (uint e = 0u; e < SLICE; e++) codes_next[e] = codes.v[at + min(slice * SLICE + e, nb - 1u) * GROUP];
        at = row / GROUP * fours * GROUP + row % GROUP;
        WeightPairs scales = WeightPairs(address(SCALES));
        [[unroll]] for (uint e = 0u; e < 2u; e++) scales_next[e] = scales.v[at + min(four_of(slice) + e, fours - 1u) * GROUP];
    }
}

// Brings the first slice of a product under way.
void begin() { load(gl_LocalInvocationIndex / UNIT); }

float slice_sum(uint slice, uvec4 codes[SLICE], uvec2 scales[2]) {
    float sum = 0.0;
    [[unroll]] for (uint e = 0u; e < SLICE; e++) {
        uint b = slice * SLICE + e;
        if (b < word(NB)) {
            int c = 0;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uvec4 v = acts[b * 4u + j];
                [[unroll]] for (int k = 0; k < 4; k++) c = dot4(c, (codes[e][j] >> (2 * k)) & 0x03030303u, v[k]);
            }
            uint scale = (b >> SHARE) - 4u * four_of(slice);
            uvec2 ds = pairs[b];
            sum = add(sum, mul(float(c - int(ds.y)), mul(q2_0_half(scale < 4u ? scales[0] : scales[1], scale % 4u), uintBitsToFloat(ds.x))));
        }
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
        [[dont_unroll]] for (uint at = from + lane / UNIT; at < end; at += TEAMS) {
            uvec4 codes[SLICE] = codes_next;
            uvec2 scales[2] = scales_next;
            load(at + TEAMS);
            uint slice = at - unit_of(at) * per, cell = (at - from) * UNIT + lane % UNIT;
            float sum = slice_sum(slice - (slice >= word(SLICES) ? word(SLICES) : 0u), codes, scales);
            room[cell / 4u][cell % 4u] = sum;
        }
        barrier();
        uint unit = unit_of(from), count = unit_of(end) - unit;
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint first = i / UNIT * per * UNIT + i % UNIT, row = (first_unit() + unit) * UNIT + i;
            float v = row_sum(first);
            if (silus()) v = mul(silu(v), row_sum(first + word(SLICES) * UNIT));
            if (row < word(ROWS)) y.v[row] = v;
        }
        if (end < total) barrier();
    }
}
