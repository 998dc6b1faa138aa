#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention over all chunks of a query's positions: runtime/ref/attention.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint SHARE = 1u; // query heads per kv head
layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 1) readonly buffer Cache { CACHE_WORD cache[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint n, q_stride, positions, tables, v_base; };
#include "chunk.glsl"
#include "join.glsl"

const uint MINE = (32u + LOCAL - 1u) / LOCAL; // eights of an invocation, for heads of up to 256

void main() {
    uint h = group_x(), t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex, head = h / SHARE;
    uint heads = KV_HEADS * SHARE;
    uint count = batch[positions + t] + 1u, table = batch[tables + t];
    load_query(t * q_stride + h * HEAD_DIM);
    Join join;
    float o[MINE][8];
    for (uint c = 0u; c * PAGE < count; c++) {
        uint page = batch[table + c], live = min(PAGE, count - c * PAGE);
        float e, l, part[8];
        chunk_scores(page, head, live, e, l);
        join_next(join, c == 0u, e, l);
        [[unroll]] for (uint k = 0u; k < MINE; k++) {
            if (k * LOCAL + lane >= EIGHTS) break;
            chunk_values(v_base, page, head, k * LOCAL + lane, live, part);
            [[unroll]] for (uint i = 0u; i < 8u; i++) o[k][i] = join_value(join, c == 0u, o[k][i], part[i]);
        }
    }
    float r = recip(join.l);
    [[unroll]] for (uint k = 0u; k < MINE; k++) {
        uint eight = k * LOCAL + lane;
        if (eight >= EIGHTS) break;
        [[unroll]] for (uint i = 0u; i < 8u; i++) y[(t * heads + h) * HEAD_DIM + eight * 8u + i] = tidy(mul(o[k][i], r));
    }
}
