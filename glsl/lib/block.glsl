// Packed weights in blocks of 64 (runtime/ref/block.go): units of UNIT_BLOCKS blocks
// and UNIT_WORDS words, rows in groups of 32. One format is defined by name; its
// include decodes a block.
const uint GROUP = 32u;
const uint SLICE = 8u; // blocks whose terms are summed before they join the total

layout(binding = 0) readonly buffer Weights { uint weights[]; };

// A block as 16 words of signed bytes, in the order of int8 activations; scales of
// the halves, and of the quarters (GROUPED), likewise of minima (MINIMA).
struct Block {
    uint codes[16];
    float d[2];
    float m[2];
    int s[4];
    int n[4];
};

#define WORD(i) weights[at + GROUP * (i)]

// Each byte less z; bytes are below 128.
uint less(uint bytes, uint z) { return ((bytes | 0x80808080u) - z * 0x01010101u) ^ 0x80808080u; }

#ifdef Q8_0
#include "q8_0.glsl"
#endif
#ifdef Q4_0
#include "q4_0.glsl"
#endif
#ifdef Q4_1
#include "q4_1.glsl"
#endif
#ifdef Q1_0
#include "q1_0.glsl"
#endif
#ifdef PTQ1_0
#include "ptq1_0.glsl"
#endif
#ifdef TQ1_0
#include "tq1_0.glsl"
#endif
#ifdef Q2_K
#include "q2_k.glsl"
#endif
#ifdef Q4_K
#include "q4_k.glsl"
#endif
#ifdef Q6_K
#include "q6_k.glsl"
#endif

Block block_of(uint row, uint nb, uint b) {
    uint units = (nb + UNIT_BLOCKS - 1u) / UNIT_BLOCKS;
    return block_in((row / GROUP * units + b / UNIT_BLOCKS) * UNIT_WORDS * GROUP + row % GROUP, b % UNIT_BLOCKS);
}

int code(Block w, uint k, uint m) { return bitfieldExtract(int(w.codes[k]), int(8u * m), 8); }

// Weight of byte m of code word k.
float block_value(Block w, uint k, uint m) {
    int q = code(w, k, m);
#ifdef GROUPED
    q *= w.s[k / 4u];
#endif
    float v = mul(float(q), w.d[k / 8u]);
#ifdef MINIMA
    v = add(v, mul(float(w.n[k / 4u]), w.m[k / 8u]));
#endif
    return tidy(v);
}

// Writes a block to y[] from word `to` on.
#define STORE_BLOCK(w, to) \
    [[unroll]] for (uint k = 0u; k < 16u; k++) \
        [[unroll]] for (uint m = 0u; m < 4u; m++) y[(to) + k / 4u * 16u + k % 4u + 4u * m] = block_value(w, k, m);
