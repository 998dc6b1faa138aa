#version 450
#include "tern.glsl"
#include "cache.glsl"
// Attention over all chunks of a query's positions: runtime/ref/attention.go
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint SHARE = 1u; // query heads per kv head
layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer Cache { uint cache[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint n, q_stride, positions, tables, v_base; };
#include "chunk.glsl"
#include "join.glsl"

void main() {
    uint h = group_x(), t = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex, head = h / SHARE;
    uint heads = KV_HEADS * SHARE;
    uint count = batch[positions + t] + 1u, table = batch[tables + t];
    for (uint d = lane; d < HEAD_DIM; d += LOCAL) q_row[d] = q[t * q_stride + h * HEAD_DIM + d];
    Join join;
    float o[256u / LOCAL];
    for (uint c = 0u; c * PAGE < count; c++) {
        uint page = batch[table + c], live = min(PAGE, count - c * PAGE);
        Chunk part = chunk_scores(page, head, live);
        join_next(join, c == 0u, part.e, part.l);
        for (uint i = 0u; i * LOCAL + lane < HEAD_DIM; i++)
            o[i] = join_value(join, c == 0u, o[i], chunk_value(v_base, page, head, i * LOCAL + lane, live));
    }
    float r = recip(join.l);
    for (uint i = 0u; i * LOCAL + lane < HEAD_DIM; i++)
        y[(t * heads + h) * HEAD_DIM + i * LOCAL + lane] = tidy(mul(o[i], r));
}
