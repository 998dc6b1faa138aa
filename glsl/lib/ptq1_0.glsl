#define UNIT_BLOCKS 2u
#define UNIT_WORDS 7u
#define TERMS 1
#include "trit.glsl"

Block block_in(uint at, uint b) {
    Block w;
    uint words[3], last = WORD(6u);
    [[unroll]] for (uint i = 0u; i < 3u; i++) words[i] = WORD(3u * b + i);
    trits(w, words, last >> (8u * b));
    w.d[0] = w.d[1] = f32_of(last).y;
    return w;
}
