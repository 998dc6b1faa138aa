#define UNIT_BLOCKS 4u
#define UNIT_WORDS 53u
#define TERMS 2
#define GROUPED

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) {
        uint low = (WORD(8u * b + k / 2u) >> (k % 2u * 4u)) & 0x0f0f0f0fu;
        uint high = (WORD(32u + 4u * b + k / 4u) >> (k % 4u * 2u)) & 0x03030303u;
        w.codes[k] = less(low | (high << 4), 32u);
    }
    uint groups = WORD(48u + b);
    [[unroll]] for (uint j = 0u; j < 4u; j++) w.s[j] = bitfieldExtract(int(groups), int(8u * j), 8);
    w.d[0] = w.d[1] = f32_of(WORD(52u)).x;
    return w;
}
