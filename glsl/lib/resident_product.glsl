// A product of one token. Rows are taken in units of 16, with SILU of gates and of
// the ups that belong to them; a task is one slice of one row. runtime/ref/mul_mat_q2_0.go
const uint UNIT = 16u;

struct Share {   // of a product, of this workgroup
    uint slices; // of a row
    uint tasks;  // of a unit
    uint from, to, most; // units, and how many at once
};

Share share() {
    Share s;
    s.slices = (word(NB) + SLICE - 1u) / SLICE;
    s.tasks = UNIT * s.slices << uint((word(FLAGS) & SILU) != 0u);
    uint units = (word(ROWS) + UNIT - 1u) / UNIT;
    s.from = units * gl_WorkGroupID.x / gl_NumWorkGroups.x;
    s.to = units * (gl_WorkGroupID.x + 1u) / gl_NumWorkGroups.x;
    s.most = max(ROOM * 4u / s.tasks, 1u);
    return s;
}

uvec4 codes_next[SLICE];
uvec2 scales_next[2];

// Where the scales of a slice begin, in fours.
uint four_of(uint slice) { return (slice * SLICE >> SHARE) / 4u; }

uint slice_of(Share s, uint task) { return task / UNIT % s.slices; }

void load(Share s, uint unit, uint task) {
    uint rest = task % s.tasks, slice = slice_of(s, rest), nb = word(NB);
    uint row = min((unit + task / s.tasks) * UNIT + rest % UNIT, word(ROWS) - 1u);
    if (rest >= UNIT * s.slices) row += word(ROWS);
    uint at = row / GROUP * nb * GROUP + row % GROUP;
    WeightQuads codes = WeightQuads(address(CODES));
    [[unroll]] for (uint i = 0u; i < SLICE; i++) codes_next[i] = codes.v[at + min(slice * SLICE + i, nb - 1u) * GROUP];
    uint fours = Q2_0_FOURS(nb);
    at = row / GROUP * fours * GROUP + row % GROUP;
    WeightPairs scales = WeightPairs(address(SCALES));
    [[unroll]] for (uint i = 0u; i < 2u; i++) scales_next[i] = scales.v[at + min(four_of(slice) + i, fours - 1u) * GROUP];
}

// Brings the first task of the next product under way.
void load_first() {
    Share s = share();
    if (gl_LocalInvocationIndex < min(s.to - s.from, s.most) * s.tasks) load(s, s.from, gl_LocalInvocationIndex);
}

float slice_sum(uint slice, uvec4 codes[SLICE], uvec2 scales[2]) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0u; i < SLICE; i++) {
        uint b = slice * SLICE + i;
        if (b < word(NB)) {
            int c = 0;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uvec4 v = acts[b * 4u + j];
                [[unroll]] for (int k = 0; k < 4; k++) c = dot4(c, (codes[i][j] >> (2 * k)) & 0x03030303u, v[k]);
            }
            uint scale = (b >> SHARE) - 4u * four_of(slice);
            uvec2 ds = pairs[b];
            sum = add(sum, mul(float(c - int(ds.y)), mul(q2_0_half(scale < 4u ? scales[0] : scales[1], scale % 4u), uintBitsToFloat(ds.x))));
        }
    }
    return sum;
}

float row_sum(Share s, uint first) {
    float total = room_float(first);
    for (uint i = 1u; i < s.slices; i++) total = add(total, room_float(first + i * UNIT));
    return tidy(total);
}

void product() {
    switch (word(IN)) {
    case IN_NORM: norm_in(); break;
    case IN_JOIN: join_in(); break;
    case IN_ROW: row_in(); break;
    }
    barrier();
    uint lane = gl_LocalInvocationIndex;
    bool silus = (word(FLAGS) & SILU) != 0u;
    Floats y = Floats(address(OUT));
    Share s = share();
    for (uint unit = s.from; unit < s.to; unit += s.most) {
        uint count = min(s.to - unit, s.most), tasks = count * s.tasks;
        if (unit != s.from && lane < tasks) load(s, unit, lane);
        [[dont_unroll]] for (uint task = lane; task < tasks; task += LOCAL) {
            uvec4 codes[SLICE] = codes_next;
            uvec2 scales[2] = scales_next;
            if (task + LOCAL < tasks) load(s, unit, task + LOCAL);
            float sum = slice_sum(slice_of(s, task % s.tasks), codes, scales);
            room[task / 4u][task % 4u] = sum;
        }
        barrier();
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint first = i / UNIT * s.tasks + i % UNIT, row = unit * UNIT + i;
            float v = row_sum(s, first);
            if (silus) v = mul(silu(v), row_sum(s, first + s.slices * UNIT));
            if (row < word(ROWS)) y.v[row] = v;
        }
        barrier();
    }
}
