#define UNIT_BLOCKS 4u
#define UNIT_WORDS 9u
#define TERMS 1

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = less(((WORD(2u * b + k / 8u) >> (k % 8u)) & 0x01010101u) << 1, 1u);
    vec2 two = f32_of(WORD(8u));
    w.d[0] = w.d[1] = b < 2u ? two.x : two.y;
    return w;
}
