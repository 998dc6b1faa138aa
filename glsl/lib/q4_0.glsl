#define UNIT_BLOCKS 1u
#define UNIT_WORDS 9u
#define TERMS 2

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = less((WORD(k / 2u) >> (k % 2u * 4u)) & 0x0f0f0f0fu, 8u);
    vec2 d = f32_of(WORD(8u));
    w.d[0] = d.x;
    w.d[1] = d.y;
    return w;
}
