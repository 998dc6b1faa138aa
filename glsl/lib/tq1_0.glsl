#define UNIT_BLOCKS 4u
#define UNIT_WORDS 14u
#define TERMS 1
#include "trit.glsl"

Block block_in(uint at, uint b) {
    Block w;
    uint words[3];
    [[unroll]] for (uint i = 0u; i < 3u; i++) words[i] = WORD(3u * b + i);
    trits(w, words, WORD(12u) >> (8u * b));
    w.d[0] = w.d[1] = f32_of(WORD(13u)).x;
    return w;
}
