#define UNIT_BLOCKS 1u
#define UNIT_WORDS 10u
#define TERMS 2
#define MINIMA

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = (WORD(k / 2u) >> (k % 2u * 4u)) & 0x0f0f0f0fu;
    vec2 d = f32_of(WORD(8u)), m = f32_of(WORD(9u));
    w.d[0] = d.x;
    w.d[1] = d.y;
    w.m[0] = m.x;
    w.m[1] = m.y;
    [[unroll]] for (uint j = 0u; j < 4u; j++) w.n[j] = 1;
    return w;
}
