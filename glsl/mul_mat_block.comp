#version 450
#define WIDTH nb
#define Y_BINDING 2
#include "tern.glsl"
#include "block.glsl"
#include "act.glsl"
#include "product.glsl"
// The matrix product of block formats, a row and TOKENS tokens an invocation:
// runtime/ref/mul_mat_block.go. LANES invocations share the slices of a row, whose
// sums the first of them adds in order.
layout(local_size_x = 32 * LANES) in;
layout(binding = 1) readonly buffer A { uvec4 a[]; };

#if ACT == ACT_I8
#include "dot4.glsl"

void add_terms(inout float sum, Block w, uint at) {
    int c[4], m[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uvec4 x = a[at * 4u + j];
        c[j] = m[j] = 0;
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            c[j] = dot4(c[j], w.codes[4u * j + i], x[i]);
#ifdef MINIMA
            m[j] = dot4(m[j], 0x01010101u, x[i]);
#endif
        }
#ifdef GROUPED
        c[j] *= w.s[j];
#endif
#ifdef MINIMA
        m[j] *= w.n[j];
#endif
    }
    float da = uintBitsToFloat(ACT_PAIR(at).x);
#if TERMS == 2
#define TERM(v, h) (v[2 * h] + v[2 * h + 1])
#else
#define TERM(v, h) (v[0] + v[1] + v[2] + v[3])
#endif
    [[unroll]] for (int h = 0; h < TERMS; h++) {
        float term = mul(float(TERM(c, h)), mul(w.d[h], da));
#ifdef MINIMA
        term = add(term, mul(float(TERM(m, h)), mul(w.m[h], da)));
#endif
        sum = add(sum, term);
    }
}
#else
void add_terms(inout float sum, Block w, uint at) {
    float c[4], m[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        c[j] = m[j] = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
#if ACT == ACT_F32
            float x = uintBitsToFloat(a[at * 16u + j * 4u + i / 4u][i % 4u]);
#else
            vec2 two = f32_of(a[at * 8u + j * 2u + i / 8u][i / 2u % 4u]);
            float x = i % 2u == 0u ? two.x : two.y;
#endif
            c[j] = add(c[j], mul(float(code(w, 4u * j + i % 4u, i / 4u)), x));
#ifdef MINIMA
            m[j] = add(m[j], x);
#endif
        }
#ifdef GROUPED
        c[j] = mul(float(w.s[j]), c[j]);
#endif
#ifdef MINIMA
        m[j] = mul(float(w.n[j]), m[j]);
#endif
    }
#if TERMS == 2
#define TERM(v, h) add(v[2 * h], v[2 * h + 1])
#else
#define TERM(v, h) add(add(v[0], v[1]), add(v[2], v[3]))
#endif
    [[unroll]] for (int h = 0; h < TERMS; h++) {
        float term = mul(TERM(c, h), w.d[h]);
#ifdef MINIMA
        term = add(term, mul(TERM(m, h), w.m[h]));
#endif
        sum = add(sum, term);
    }
}
#endif

void slice_sums(uint row, uint s, uint t0, out float sum[TOKENS]) {
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) sum[t] = 0.0;
    for (uint b = s * SLICE; b < min(nb, s * SLICE + SLICE); b++) {
        Block w = block_of(row, nb, b);
        [[unroll]] for (uint t = 0u; t < TOKENS; t++) add_terms(sum[t], w, ACT_BLOCK(act_row(t0 + t), b));
    }
}
#define BLOCKS nb
#include "slices.glsl"
