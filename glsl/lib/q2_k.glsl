#define UNIT_BLOCKS 4u
#define UNIT_WORDS 21u
#define TERMS 1
#define GROUPED
#define MINIMA

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = (WORD(4u * b + k / 4u) >> (k % 4u * 2u)) & 0x03030303u;
    uint groups = WORD(16u + b);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        w.s[j] = int((groups >> (8u * j)) & 15u);
        w.n[j] = int((groups >> (8u * j + 4u)) & 15u);
    }
    vec2 dm = f32_of(WORD(20u));
    w.d[0] = w.d[1] = dm.x;
    w.m[0] = w.m[1] = dm.y;
    return w;
}
