#version 450
#include "tern.glsl"
#include "delta.glsl"
// The recurrence of a gated delta net: runtime/ref/delta.go. Eight invocations take
// a column of the state, a part of the dots each.
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer State { vec4 state[]; };
layout(binding = 2) readonly buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint n, sequences; };

const uint EACH = DIM / 8u, PAD = EACH + 1u; // elements of a part
shared float query[2u * 8u * PAD]; // of two tokens in turn
shared float key[2u * 8u * PAD];

// The parts of an invocation's column, joined. All invocations call it.
#ifdef SHUFFLE
float join(float part) {
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u) part = add(part, subgroupShuffleXor(part, h));
    return part;
}
#else
shared float parts[LOCAL];
float join(float part) {
    uint at = gl_LocalInvocationIndex & ~7u;
    parts[gl_LocalInvocationIndex] = part;
    barrier();
    float a = add(parts[at], parts[at + 4u]), b = add(parts[at + 1u], parts[at + 5u]);
    float c = add(parts[at + 2u], parts[at + 6u]), d = add(parts[at + 3u], parts[at + 7u]);
    barrier();
    return add(add(a, c), add(b, d));
}
#endif

// For parts of E elements, all of them in registers.
#define RULE(E) \
    vec4 m[E / 4]; \
    [[unroll]] for (uint i = 0u; i < E / 4; i++) m[i] = read == 0xffffffffu ? vec4(0.0) : state[(read * VALUES * DIM + column) * (DIM / 4u) + p * (E / 4) + i]; \
    for (uint t = first; t < end; t++) { \
        uint q = out_row(n, t) + h % KEYS * DIM, k = q + KEYS * DIM, v = out_row(n, t) + 2u * KEYS * DIM + column; \
        uint gates = raw_row(t) + CHANNELS + VALUES * DIM + h; \
        float beta = x[gates], decay = x[gates + VALUES], value = x[v], part = 0.0; \
        uint at = t % 2u * 8u * PAD; \
        for (uint i = lane; i < DIM; i += LOCAL) { \
            query[at + i / EACH * PAD + i % EACH] = x[q + i]; \
            key[at + i / EACH * PAD + i % EACH] = x[k + i]; \
        } \
        barrier(); \
        at += p * PAD; \
        [[unroll]] for (uint i = 0u; i < E; i++) { \
            m[i / 4u][i % 4u] = mul(m[i / 4u][i % 4u], decay); \
            part = add(part, mul(m[i / 4u][i % 4u], key[at + i])); \
        } \
        float err = mul(beta, sub(value, join(part))); \
        part = 0.0; \
        [[unroll]] for (uint i = 0u; i < E; i++) { \
            m[i / 4u][i % 4u] = tidy(add(m[i / 4u][i % 4u], mul(err, key[at + i]))); \
            part = add(part, mul(m[i / 4u][i % 4u], query[at + i])); \
        } \
        value = tidy(join(part)); \
        if (p == 0u) x[v] = value; \
    } \
    [[unroll]] for (uint i = 0u; i < E / 4; i++) state[(write * VALUES * DIM + column) * (DIM / 4u) + p * (E / 4) + i] = m[i];

void main() {
    uint lane = gl_LocalInvocationIndex, p = lane % 8u;
    uint column = group_x() * (LOCAL / 8u) + lane / 8u, seq = sequences + 4u * gl_WorkGroupID.y;
    if (column - lane / 8u >= VALUES * DIM) return;
    uint h = column / DIM; // of all columns of the workgroup
    uint first = batch[seq], end = first + batch[seq + 1u], read = batch[seq + 2u], write = batch[seq + 3u];
    if (DIM == 32u) {
        RULE(4)
    } else if (DIM == 64u) {
        RULE(8)
    } else if (DIM == 128u) {
        RULE(16)
    } else {
        RULE(32)
    }
}
