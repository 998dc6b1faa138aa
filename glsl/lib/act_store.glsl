// Storing a row of activations, LOCAL words at a time. Every invocation of the
// workgroup calls act_store, with live false past the end of the row.
#include "act.glsl"

layout(binding = ACT_BINDING) writeonly buffer Act { uint act[]; };

#if ACT == ACT_I8
#include "act_word.glsl"
#endif

// n rows of `words` words each; v holds the elements of word w of row t.
void act_store(uint n, uint words, uint t, uint w, bool live, float v[4]) {
#if ACT == ACT_F32
    if (live) act[t * words + w] = floatBitsToUint(tidy(v[0]));
#elif ACT == ACT_F16
    if (live) act[t * words + w] = f16_rte(v[0]) | (f16_rte(v[1]) << 16);
#else
    ActWord made = act_word(v);
    uint block = ACT_BLOCK(t, w / 16u), at = n * words + block * 2u;
    if (live) act[block * 16u + w % 16u] = made.word;
    if (live && w % 16u == 0u) {
        act[at] = made.pair.x;
        act[at + 1u] = made.pair.y;
    }
#endif
}
