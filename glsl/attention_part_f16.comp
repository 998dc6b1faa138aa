#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention over one chunk each: runtime/ref/attention.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint SHARE = 1u;
layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 1) readonly buffer Cache { CACHE_WORD cache[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint chunks, q_stride, positions, tables, v_base; };
#include "chunk.glsl"

void main() {
    uint c = group_x(), t = gl_WorkGroupID.y / KV_HEADS, head = gl_WorkGroupID.y % KV_HEADS, lane = gl_LocalInvocationIndex;
    uint heads = KV_HEADS * SHARE, count = batch[positions + t] + 1u;
    if (c * PAGE >= count) return;
    uint page = batch[batch[tables + t] + c], live = min(PAGE, count - c * PAGE);
    for (uint g = 0u; g < SHARE; g++) {
        uint h = head * SHARE + g, at = ((t * heads + h) * chunks + c) * (HEAD_DIM + 2u);
        float e, l, o[8];
        barrier();
        load_query(t * q_stride + h * HEAD_DIM);
        chunk_scores(page, head, live, e, l);
        for (uint eight = lane; eight < EIGHTS; eight += LOCAL) {
            chunk_values(v_base, page, head, eight, live, o);
            [[unroll]] for (uint i = 0u; i < 8u; i++) y[at + eight * 8u + i] = o[i];
        }
        if (lane == 0u) {
            y[at + HEAD_DIM] = e;
            y[at + HEAD_DIM + 1u] = l;
        }
    }
}
