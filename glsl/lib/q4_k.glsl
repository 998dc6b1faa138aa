#define UNIT_BLOCKS 4u
#define UNIT_WORDS 36u
#define TERMS 1
#define GROUPED
#define MINIMA

Block block_in(uint at, uint b) {
    Block w;
    [[unroll]] for (uint k = 0u; k < 16u; k++) w.codes[k] = (WORD(8u * b + k / 2u) >> (k % 2u * 4u)) & 0x0f0f0f0fu;
    uint s = WORD(32u), n = WORD(33u), high = WORD(34u);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uint g = 2u * b + j / 2u;
        w.s[j] = int(((s >> (4u * g)) & 15u) | (((high >> (2u * g)) & 3u) << 4));
        w.n[j] = int(((n >> (4u * g)) & 15u) | (((high >> (16u + 2u * g)) & 3u) << 4));
    }
    vec2 dm = f32_of(WORD(35u));
    w.d[0] = w.d[1] = dm.x;
    w.m[0] = w.m[1] = dm.y;
    return w;
}
