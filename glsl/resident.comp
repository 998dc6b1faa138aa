#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#define SHARE_ID 6
#include "tern.glsl"
#include "cache.glsl"
#include "q2_0.glsl"
// A whole token in one dispatch: as many workgroups as the device holds at once
// stay on it and take the steps of a tape one after the other. A step is one or more
// nodes of a graph, with the words of their contracts (runtime/plan/tape.go).
//
// Nothing makes all of them wait for each other. What passes from step to step lies in
// an arena, each word of which is EMPTY when a dispatch starts and written once: a
// reader asks for the words that it needs until they are there (take). Dispatches use
// two arenas in turn; each empties that of the next. While a workgroup waits it has
// the weights of its first rows of the next product under way.
// HEAD is the dimension of heads, QUERIES the query heads that read a kv head.
layout(local_size_x = LOCAL) in;
layout(constant_id = 3) const uint MAX_NB = 4u; // blocks of the longest product
layout(constant_id = 4) const uint ROOM = 256u; // shared memory for other things, in vec4
layout(constant_id = 5) const uint HIDDEN = 256u;
layout(constant_id = 7) const uint FULL = 0u; // not 0: the last slices of all products have all blocks

#define STEP_WORDS 32u
layout(binding = 0) readonly buffer Tape { uint tape[]; };
layout(binding = 1) coherent buffer Turn { uint left, turn; }; // workgroups that are done, and the arena in use
layout(binding = 2) readonly buffer Consts { float consts[]; };
layout(binding = 3) coherent buffer Batch { uint batch[]; };
layout(binding = 4) writeonly buffer Late { uint late; };
layout(push_constant) uniform P { uint steps, positions, tables; };

// What lies at the addresses of a step. Weights never change; the rest is written
// by some workgroups and read by others, what is volatile while they run.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer WeightQuads { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer WeightPairs { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Quads { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer WordPairs { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent volatile buffer Comings { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile buffer ComingPairs { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent volatile buffer ComingQuads { uvec4 v[]; };

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
#define TOKEN_PLACE 9u // of the choice
#define FOLLOW 2u      // in the batch, runtime/op/batch.go
#define QUADS 9u  // of an arena
#define SLICES 8u // of a row of the product
#define UNITS 9u  // of a workgroup; the first MORE have one more
#define MORE 10u
#define MOST 11u        // units whose sums are in shared memory at once
#define PER 12u         // 2^20 over the slices of a unit
#define STEP_UNITS 14u  // from a slice to the team's next: units
#define STEP_SLICES 15u // and slices
#define CODES 16u
#define SCALES 18u
#define X 20u
#define Y 22u
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
shared uint stop; // something did not come for seconds: not all workgroups are on the device
uint pos;         // of the token
uint in_turn;     // the arena of this dispatch

// The residual: every workgroup has all of it, invocation i the quads i, i + LOCAL ...
const uint FOURS = HIDDEN / 4u, ROUNDS = (FOURS + LOCAL - 1u) / LOCAL;
vec4 residual[ROUNDS];

const uint FEW = 4u;             // chunks up to which every workgroup joins them for itself

// Of a chunk of a query head: its values, for each 32 dimensions (a unit) those of all
// chunks side by side, and behind the values of all units, as often as there are units,
// its exponent and sum of weights, so that who joins a unit is the only one to read them.
const uint COLUMNS = 32u;

const uint EMPTY = 0x7fedcba9u; // a NaN that publish never writes, and no index
const uint PATIENCE = 1u << 21;

uint publish(float x) { return floatBitsToUint(x) == EMPTY ? 0x7fc00000u : floatBitsToUint(x); }

// Whether to ask once more.
bool patient(uint tries) {
    if (tries < PATIENCE) return true;
    stop = 1u;
    late = 1u;
    return false;
}

bool missing(uvec4 v) { return any(equal(v, uvec4(EMPTY))); }

#ifndef SHUFFLE
shared vec4 lanes[LOCAL];
#endif

#include "act_word.glsl"
#include "dot4.glsl"
#include "resident_product.glsl"
#include "resident_attention.glsl"
#include "resident_best.glsl"

// The row of the embedding: runtime/ref/get_rows_q2_0.go
void embed() {
    uint nb = word(NB), row = min(batch[word(TOKEN)], word(ROWS) - 1u); // none was chosen if logits are not finite
    [[unroll]] for (uint i = 0u; i < ROUNDS; i++) {
        uint quad = i * LOCAL + gl_LocalInvocationIndex, b = min(quad / 16u, nb - 1u);
        uint q = WeightQuads(address(CODES)).v[(row / GROUP * nb + b) * GROUP + row % GROUP][quad / 4u % 4u];
        uvec2 four = WeightPairs(address(SCALES)).v[(row / GROUP * Q2_0_FOURS(nb) + (b >> SHARE) / 4u) * GROUP + row % GROUP];
        float d = q2_0_half(four, (b >> SHARE) % 4u);
        [[unroll]] for (uint e = 0u; e < 4u; e++) residual[i][e] = tidy(mul(q2_0_value(q, quad % 4u * 4u + e), d));
    }
}

// Empties this workgroup's share of the next dispatch's arena.
void empty_next() {
    Quads arena = Quads(address(OUT));
    for (uint i = gl_WorkGroupID.x * LOCAL + gl_LocalInvocationIndex; i < word(QUADS); i += gl_NumWorkGroups.x * LOCAL) arena.v[i] = uvec4(EMPTY);
}

// Word i of the tape's step s, if there is one.
uint tape_word(uint s, uint i) { return s < steps && i < STEP_WORDS ? tape[(in_turn * steps + s) * STEP_WORDS + i] : 0u; }

void main() {
    uint lane = gl_LocalInvocationIndex;
    in_turn = turn & 1u;
    if (lane == 0u) stop = 0u;
    if (lane < 2u * STEP_WORDS) two_steps[lane] = tape_word(lane / STEP_WORDS, lane % STEP_WORDS);
    pos = batch[positions];
    place(batch[tables]);
    barrier();
    now = 0u;
    embed();
    empty_next();
    uint coming = tape_word(2u, lane);
    barrier();
    for (uint s = 1u; s < steps && stop == 0u; s++) {
        if (lane < STEP_WORDS) two_steps[now + lane] = coming; // of the step after this one
        coming = tape_word(s + 2u, lane);
        now = STEP_WORDS - now;
        switch (word(OP)) {
        case OP_PRODUCT: product(); break;
        case OP_ATTENTION: attention(); break;
        case OP_JOIN: join_chunks(); break;
        case OP_BEST: best(); break;
        case OP_CHOOSE: choose(); break;
        }
        barrier();
    }
    // The last to leave turns to the other arena.
    if (stop == 0u && lane == 0u && atomicAdd(left, 1u) + 1u == gl_NumWorkGroups.x) {
        left = 0u;
        turn = 1u - in_turn;
    }
}
