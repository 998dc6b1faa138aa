#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#define SHARE_ID 6
#include "tern.glsl"
#include "cache.glsl"
#include "q2_0.glsl"
// A whole token in one dispatch: as many workgroups as the device holds at once
// stay on it, take the steps of a tape one after the other and meet at a barrier
// of the grid behind each. A step is one or more nodes of a graph, with the words
// of their contracts (runtime/plan/tape.go). While a workgroup waits it has the
// weights of its first rows of the next product under way.
// HEAD is the dimension of heads, QUERIES the query heads that read a kv head.
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint MAX_NB = 4u; // blocks of the longest product
layout(constant_id = 4) const uint ROOM = 256u; // shared memory for other things, in vec4
layout(constant_id = 5) const uint HIDDEN = 256u;

#define STEP_WORDS 32u
layout(binding = 0) readonly buffer Tape { uint tape[]; };
layout(binding = 1) coherent volatile buffer Meeting { uint arrived; };
layout(binding = 2) readonly buffer Consts { float consts[]; };
layout(binding = 3) coherent buffer Batch { uint batch[]; };
layout(binding = 4) writeonly buffer Late { uint late; };
layout(push_constant) uniform P { uint steps, positions, tables; };

// What lies at the addresses of a step. Weights never change; the rest is written
// by some workgroups and read by others.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer WeightQuads { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer WeightPairs { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Quads { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer WordPairs { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Vectors { vec4 v[]; };

// The words of a step: numbers first, then addresses. plan/tape.go writes them.
#define OP 0u
#define IN 1u
#define ROWS 2u
#define NB 3u
#define FLAGS 4u
#define WEIGHT 5u
#define INV_K 6u
#define EPS 7u
#define V_BASE 8u
#define K_NORM 9u
#define ROPE 10u
#define Q_SCALE 11u
#define CHUNKS 13u
#define RESULT 8u
#define TOKEN 8u
#define SLICES 8u // of a row of the product
#define UNITS 9u  // of a workgroup; the first MORE have one more
#define MORE 10u
#define MOST 11u // slices whose sums are in shared memory at once
#define PER 12u  // 2^18 over the slices of a unit
#define CODES 16u
#define SCALES 18u
#define X 20u
#define Y 22u
#define X_OUT 24u
#define OUT 26u

#define OP_EMBED 0u // always the first step, and only that
#define OP_PRODUCT 1u
#define OP_ATTENTION 2u
#define OP_JOIN 3u
#define OP_BEST 4u
#define OP_CHOOSE 5u
#define IN_NORM 0u
#define IN_JOIN 1u
#define IN_ROW 2u
#define ADDS 1u  // x += y before the norm
#define SILU 2u  // rows of gates, then as many of ups; the output is silu(gate) * up
#define CHECK 4u // the status tells if a sum is not finite

shared uint two_steps[2u * STEP_WORDS];
uint now; // where the words of the step begin

uint word(uint i) { return two_steps[now + i]; }
float number(uint i) { return uintBitsToFloat(two_steps[now + i]); }
uvec2 address(uint i) { return uvec2(two_steps[now + i], two_steps[now + i + 1u]); }

shared uvec4 acts[MAX_NB * 4u];
shared uvec2 pairs[MAX_NB];
shared vec4 room[ROOM];
shared uint stop;
uint pos; // of the token

#ifndef SHUFFLE
shared float lanes[LOCAL];
#endif

#include "act_word.glsl"
#include "dot4.glsl"
#include "resident_in.glsl"
#include "resident_product.glsl"
#include "resident_attention.glsl"
#include "resident_best.glsl"

// The row of the embedding: runtime/ref/get_rows_q2_0.go
void embed() {
    uint i = gl_WorkGroupID.x * LOCAL + gl_LocalInvocationIndex, nb = word(NB), row = batch[word(TOKEN)];
    if (i < nb * 4u) {
        uint b = i / 4u;
        uint q = WeightQuads(address(CODES)).v[(row / GROUP * nb + b) * GROUP + row % GROUP][i % 4u];
        uvec2 four = WeightPairs(address(SCALES)).v[(row / GROUP * Q2_0_FOURS(nb) + (b >> SHARE) / 4u) * GROUP + row % GROUP];
        float d = q2_0_half(four, (b >> SHARE) % 4u);
        Floats y = Floats(address(OUT));
        for (uint e = 0u; e < 16u; e++) y.v[16u * i + e] = tidy(mul(q2_0_value(q, e), d));
    }
}

// The workgroup has done its part of a step.
void arrive() {
    groupMemoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrierBuffer();
        atomicAdd(arrived, 1u);
    }
}

// Waits until all workgroups have arrived n times; false if that takes seconds,
// because not all of them are on the device.
bool wait(uint n) {
    if (gl_LocalInvocationIndex == 0u) {
        uint tries = 0u, all = n * gl_NumWorkGroups.x;
        while (arrived < all && tries < 1u << 21) tries++;
        stop = tries >> 21;
        if (stop != 0u) late = 1u;
        memoryBarrierBuffer();
    }
    barrier();
    return stop == 0u;
}

void main() {
    uint lane = gl_LocalInvocationIndex;
    now = 0u;
    if (lane < STEP_WORDS) two_steps[lane] = tape[lane];
    pos = batch[positions];
    barrier();
    embed();
    bool met = true;
    for (uint s = 1u; s < steps && met; s++) {
        now = STEP_WORDS - now;
        if (lane < STEP_WORDS) two_steps[now + lane] = tape[s * STEP_WORDS + lane];
        arrive();
        if (word(OP) == OP_PRODUCT) {
            begin();
            met = wait(s);
            product();
        } else {
            met = wait(s);
            switch (word(OP)) {
            case OP_ATTENTION: attention(); break;
            case OP_JOIN: join_chunks(); break;
            case OP_BEST: best(); break;
            case OP_CHOOSE: choose(); break;
            }
        }
    }
    // The last to leave makes the meeting ready for the next dispatch.
    if (met && lane == 0u && atomicAdd(arrived, 1u) + 1u == steps * gl_NumWorkGroups.x) arrived = 0u;
}
