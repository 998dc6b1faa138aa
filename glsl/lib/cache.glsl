#ifdef QUANTIZED
#define CACHE_WORD uint
#include "cache_q.glsl"
#else
#define CACHE_WORD uvec4
// The paged cache of one layer: pages of 64 positions, keys first, then values
// from word v_base on. A page of keys is [kv head][dim/8][position][8 halves],
// so that invocations at neighbouring positions read neighbouring 16 bytes; a
// page of values is [kv head][position][dim].
const uint PAGE = 64u;

#ifdef HEAD
const uint HEAD_DIM = HEAD;
#else
layout(constant_id = 1) const uint HEAD_DIM = 128u;
#endif
layout(constant_id = 2) const uint KV_HEADS = 1u;

// Word of the pair (dim, dim+1) of a key; dim is even.
uint key_word(uint page, uint head, uint pos, uint dim) {
    return ((page * KV_HEADS + head) * (HEAD_DIM / 8u) + dim / 8u) * PAGE * 4u + (pos % PAGE) * 4u + dim % 8u / 2u;
}
uint value_word(uint page, uint head, uint pos, uint dim) {
    return ((page * KV_HEADS + head) * PAGE + pos % PAGE) * (HEAD_DIM / 2u) + dim / 2u;
}
#endif
