// The input of a product as activations in shared memory, made by every workgroup
// for itself.
#include "join.glsl"

shared float part[256];

// Element m of word w of int8 activations: act.glsl
uint element(uint w, uint m) { return (w & ~15u) * 4u + (w & 12u) * 4u + (w & 3u) + 4u * m; }

float room_float(uint i) { return room[i / 4u][i % 4u]; }

void put_act(uint w, bool live, float v[4]) {
    ActWord made = act_word(v);
    if (live) acts[w / 4u][w % 4u] = made.word;
    if (live && w % 16u == 0u) pairs[w / 16u] = made.pair;
}

// The tree over 256 sums; the result is in part[0].
void tree256() {
    uint lane = gl_LocalInvocationIndex;
    barrier();
#ifdef SHUFFLE
    if (lane < 32u) {
        float s[8];
        [[unroll]] for (uint i = 0u; i < 8u; i++) s[i] = part[lane + 32u * i];
        [[unroll]] for (uint h = 4u; h > 0u; h /= 2u) [[unroll]] for (uint i = 0u; i < h; i++) s[i] = add(s[i], s[i + h]);
        [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) s[0] = add(s[0], subgroupShuffleDown(s[0], h));
        if (lane == 0u) part[0] = s[0];
    }
#else
    for (uint h = 128u; h > 0u; h /= 2u) {
        for (uint p = lane; p < h; p += LOCAL) part[p] = add(part[p], part[p + h]);
        barrier();
    }
#endif
    barrier();
}

// runtime/ref/rms_norm.go. Workgroups share the writing of x += y, which goes to
// another place than x, as others still read that.
void norm_in() {
    uint lane = gl_LocalInvocationIndex, k = word(NB) * 64u, fours = k / 4u;
    bool adds = (word(FLAGS) & ADDS) != 0u, check = (word(FLAGS) & CHECK) != 0u;
    Vectors x = Vectors(address(X)), y = Vectors(address(Y)), x_out = Vectors(address(X_OUT));
    for (uint i = lane; i < fours; i += LOCAL) {
        vec4 v = x.v[i];
        if (adds) {
            vec4 w = y.v[i];
            [[unroll]] for (uint e = 0u; e < 4u; e++) v[e] = tidy(add(v[e], w[e]));
            if (i % gl_NumWorkGroups.x == gl_WorkGroupID.x) {
                x_out.v[i] = v;
                if (check) [[unroll]] for (uint e = 0u; e < 4u; e++) if (mag(v[e]) >= INF_BITS) batch[0] = 1u;
            }
        }
        room[i] = v;
    }
    barrier();
    for (uint p = lane; p < 256u; p += LOCAL) {
        float s = 0.0;
        for (uint i = p; i < k; i += 256u) {
            float v = room_float(i);
            s = add(s, mul(v, v));
        }
        part[p] = s;
    }
    tree256();
    float r = rsqrt(add(mul(part[0], number(INV_K)), number(EPS)));
    for (uint w0 = 0u; w0 < fours; w0 += LOCAL) {
        uint w = w0 + lane;
        float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (w < fours) [[unroll]] for (uint m = 0u; m < 4u; m++) v[m] = mul(mul(room_float(element(w, m)), r), consts[word(WEIGHT) + element(w, m)]);
        put_act(w, w < fours, v);
    }
}

// A few chunks of attention joined: runtime/ref/attention.go
void join_in() {
    uint words = word(NB) * 16u, last = batch[word(POSITIONS)] / PAGE, stride = HEAD_DIM + 2u;
    Floats x = Floats(address(X));
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + gl_LocalInvocationIndex;
        float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (w < words) {
            uint at = element(w, 0u) / HEAD_DIM * word(CHUNKS) * stride;
            Join join;
            for (uint c = 0u; c <= last; c++, at += stride) {
                join_next(join, c == 0u, x.v[at + HEAD_DIM], x.v[at + HEAD_DIM + 1u]);
                [[unroll]] for (uint m = 0u; m < 4u; m++) v[m] = join_value(join, c == 0u, v[m], x.v[at + element(w, m) % HEAD_DIM]);
            }
            float r = recip(join.l);
            [[unroll]] for (uint m = 0u; m < 4u; m++) v[m] = tidy(mul(v[m], r));
        }
        put_act(w, w < words, v);
    }
}

void row_in() {
    uint words = word(NB) * 16u;
    Floats x = Floats(address(X));
    for (uint w0 = 0u; w0 < words; w0 += LOCAL) {
        uint w = w0 + gl_LocalInvocationIndex;
        float v[4] = float[4](0.0, 0.0, 0.0, 0.0);
        if (w < words) [[unroll]] for (uint m = 0u; m < 4u; m++) v[m] = x.v[element(w, m)];
        put_act(w, w < words, v);
    }
}
