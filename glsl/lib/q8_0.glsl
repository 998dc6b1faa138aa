#define UNIT_BLOCKS 1u
#define UNIT_WORDS 17u
#define TERMS 2

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = WORD(k);
    vec2 d = f32_of(WORD(16u));
    w.d[0] = d.x;
    w.d[1] = d.y;
    return w;
}
