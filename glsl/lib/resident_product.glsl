// A product of one token: runtime/ref/mul_mat_q2_0.go. Rows are taken in units of 16,
// with SILU of gates and of the ups that belong to them. An item is a block of a row:
// invocations take the items of a pass of units in turn, a row's blocks 16 apart, and
// leave their terms in room, blocks that fill up the last slice as +0, which changes no
// sum. Then the terms of slices are added, and the slices.
const uint UNIT = 16u, TEAMS = LOCAL / UNIT, ITEMS = 4u;

uint first_unit, units; // of this workgroup
uint rows, nb, fours, blocks; // blocks of an item's unit, filled up
bool silus;

// The items that are loaded next: of a unit of this workgroup, and of all its blocks.
uint unit_next, block_next;
uvec4 codes_next[ITEMS];
uvec2 scales_next[ITEMS];

// Loads the next items, if there are any.
void load_items() {
    WeightQuads codes = WeightQuads(address(CODES));
    WeightPairs scales = WeightPairs(address(SCALES));
    uint half_blocks = silus ? blocks / 2u : blocks, steps_units = word(STEP_UNITS), step_blocks = word(STEP_BLOCKS);
    [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
        if (unit_next < units) {
            uint row = (first_unit + unit_next) * UNIT + gl_LocalInvocationIndex % UNIT, b = block_next;
            if (b >= half_blocks) {
                b -= half_blocks;
                row += rows;
            }
            row = min(row, silus ? 2u * rows - 1u : rows - 1u);
            b = min(b, nb - 1u);
            codes_next[i] = codes.v[(row / GROUP * nb + b) * GROUP + row % GROUP];
            scales_next[i] = scales.v[(row / GROUP * fours + (b >> SHARE) / 4u) * GROUP + row % GROUP];
        }
        block_next += step_blocks;
        unit_next += steps_units;
        if (block_next >= blocks) {
            block_next -= blocks;
            unit_next++;
        }
    }
}

// The share of rows of this workgroup.
void share() {
    uint more = word(MORE);
    first_unit = gl_WorkGroupID.x * word(UNITS) + min(gl_WorkGroupID.x, more);
    units = word(UNITS) + uint(gl_WorkGroupID.x < more);
    rows = word(ROWS);
}

// Brings the first items of a product under way.
void begin() {
    share();
    nb = word(NB);
    fours = Q2_0_FOURS(nb);
    silus = (word(FLAGS) & SILU) != 0u;
    blocks = word(SLICES) * SLICE << uint(silus);
    unit_next = gl_LocalInvocationIndex / UNIT * word(PER) >> 16;
    block_next = gl_LocalInvocationIndex / UNIT - unit_next * blocks;
    load_items();
}

// The term of block b of a row.
float term(uint b, uvec4 codes, uvec2 scales) {
    int c[4] = int[4](0, 0, 0, 0);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uvec4 v = acts[b * 4u + j];
        [[unroll]] for (int k = 0; k < 4; k++) c[k] = dot4_unsigned(c[k], codes[j] & 0x03030303u << 2 * k, v[k]); // times 4 to the k
    }
    uvec2 ds = pairs[b];
    int sum = c[0] + (c[1] >> 2) + (c[2] >> 4) + (c[3] >> 6);
    return mul(float(sum - int(ds.y)), mul(q2_0_half(scales, (b >> SHARE) % 4u), uintBitsToFloat(ds.x)));
}

// The sum of a row's slices in order, from the one whose sum is in a cell of room.
float row_sum(uint cell) {
    float total = 0.0;
    [[dont_unroll]] for (uint s = 0u; s < word(SLICES); s += 4u) {
        float v[4];
        [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = s + i < word(SLICES) ? room_float(cell + (s + i) * SLICE * UNIT) : 0.0;
        [[unroll]] for (uint i = 0u; i < 4u; i++) total = add(total, v[i]);
    }
    return tidy(total);
}

void product() {
    begin();
    make_acts();
    barrier();
    uint lane = gl_LocalInvocationIndex, r = lane % UNIT, most = word(MOST), half_blocks = silus ? blocks / 2u : blocks;
    Words y = Words(address(OUT));
    uint at = lane / UNIT; // block of the pass
    for (uint from = 0u; from < units; from += most) {
        uint count = min(units - from, most), end = count * blocks;
        uint unit = lane / UNIT * word(PER) >> 16, b = lane / UNIT - unit * blocks;
        [[dont_unroll]] for (at = lane / UNIT; at < end; at += ITEMS * TEAMS) {
            uvec4 codes[ITEMS] = codes_next;
            uvec2 scales[ITEMS] = scales_next;
            load_items();
            [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
                uint block = b >= half_blocks ? b - half_blocks : b, cell = (at + i * TEAMS) * UNIT + r;
                if (at + i * TEAMS < end) room[cell / 4u][cell % 4u] = block < nb ? term(block, codes[i], scales[i]) : 0.0;
                b += word(STEP_BLOCKS);
                b -= b >= blocks ? blocks : 0u;
            }
        }
        barrier();
        for (uint i = lane; i < end / SLICE * UNIT; i += LOCAL) {
            uint cell = i / UNIT * SLICE * UNIT + i % UNIT;
            float sum = 0.0;
            [[unroll]] for (uint k = 0u; k < SLICE; k++) sum = add(sum, room_float(cell + k * UNIT));
            room[cell / 4u][cell % 4u] = sum;
        }
        barrier();
        for (uint i = lane; i < count * UNIT; i += LOCAL) {
            uint cell = i / UNIT * blocks * UNIT + i % UNIT, row = (first_unit + from) * UNIT + i;
            float v = row_sum(cell);
            if (silus) v = mul(silu(v), row_sum(cell + half_blocks * UNIT));
            if (row < rows) y.v[row] = publish(v);
        }
        if (from + most < units) barrier();
    }
}
