// The input of a product as activations in shared memory, made by every workgroup
// for itself. An invocation has quads of elements as they come, 4i to 4i + 3, and
// trades them with its neighbours for those of word i: i & ~3 times 4, plus i & 3,
// plus 4m (act.glsl). The code is short where it can be: a token runs through more of
// it than instruction caches hold, which costs more than a loop.
#include "join.glsl"

shared float part[256];

// Byte c of invocation l of four is byte l of the c-th of them. Every invocation of the
// workgroup calls it.
uint crosswise(uint w) {
#ifdef SHUFFLE
    bool odd = (gl_SubgroupInvocationID & 1u) != 0u, high = (gl_SubgroupInvocationID & 2u) != 0u;
    uint got = subgroupShuffleXor(odd ? w : w >> 8, 1u) & 0x00ff00ffu;
    w = odd ? w & 0xff00ff00u | got : w & 0x00ff00ffu | got << 8;
    got = subgroupShuffleXor(high ? w : w >> 16, 2u);
    return high ? w & 0xffff0000u | got & 0xffffu : w & 0xffffu | got << 16;
#else
    uint lane = gl_LocalInvocationIndex, first = lane & ~3u, r = 0u;
    barrier();
    act_red[lane] = w;
    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; i++) r |= (act_red[first + i] >> 8u * (lane & 3u) & 255u) << 8u * i;
    return r;
#endif
}

// The sum over the tree of 256 numbers in part, for all.
float tree256() {
    uint lane = gl_LocalInvocationIndex;
    barrier();
#ifdef SHUFFLE
    float s[8];
    [[unroll]] for (uint i = 0u; i < 8u; i++) s[i] = part[lane % 32u + 32u * i];
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u) [[unroll]] for (uint i = 0u; i < h; i++) s[i] = add(s[i], s[i + h]);
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) s[0] = add(s[0], subgroupShuffleXor(s[0], h)); // either way round
    return s[0];
#else
    for (uint h = 128u; h > 0u; h /= 2u) {
        for (uint p = lane; p < h; p += LOCAL) part[p] = add(part[p], part[p + h]);
        barrier();
    }
    return part[0];
#endif
}

// residual += what a step gave, if the step says so: runtime/ref/rms_norm.go. The
// residual is in room then, too.
void add_residual() {
    uint lane = gl_LocalInvocationIndex;
    if ((word(FLAGS) & ADDS) != 0u) {
        ComingQuads x = ComingQuads(address(X));
        uvec4 v[ROUNDS];
        [[unroll]] for (uint i = 0u; i < ROUNDS; i++) v[i] = uvec4(i * LOCAL + lane < FOURS ? EMPTY : 0u);
        bool again = true;
        for (uint tries = 0u; again && patient(tries); tries++) {
            [[unroll]] for (uint i = 0u; i < ROUNDS; i++) if (missing(v[i])) v[i] = x.v[i * LOCAL + lane];
            again = false;
            [[unroll]] for (uint i = 0u; i < ROUNDS; i++) again = again || missing(v[i]);
        }
        [[unroll]] for (uint i = 0u; i < ROUNDS; i++) [[unroll]] for (uint e = 0u; e < 4u; e++) residual[i][e] = tidy(add(residual[i][e], uintBitsToFloat(v[i][e])));
        if ((word(FLAGS) & CHECK) != 0u) {
            bool odd = false;
            [[unroll]] for (uint i = 0u; i < ROUNDS; i++) odd = odd || i * LOCAL + lane < FOURS && any(greaterThanEqual(floatBitsToUint(residual[i]) & 0x7fffffffu, uvec4(INF_BITS)));
            if (odd) batch[0] = 1u;
        }
    }
    [[unroll]] for (uint i = 0u; i < ROUNDS; i++) if (i * LOCAL + lane < FOURS) room[i * LOCAL + lane] = residual[i];
    barrier();
}

// The factor of the norm.
float norm_factor() {
    for (uint p = gl_LocalInvocationIndex; p < 256u; p += LOCAL) {
        float s = 0.0;
        uint at = p / 4u, e = p % 4u;
        [[unroll]] for (uint i = 0u; i < HIDDEN; i += 256u) {
            float f = room[at + i / 4u][e];
            s = add(s, mul(f, f));
        }
        part[p] = s;
    }
    return rsqrt(add(mul(tree256(), number(INV_K)), number(EPS)));
}

// Two quads of a few chunks of attention, a workgroup apart, joined in room:
// runtime/ref/attention.go
void join_two(uint first, uint quads) {
    uint last = pos / PAGE, chunks = word(CHUNKS), all = KV_HEADS * QUERIES * (HEAD_DIM / 4u) * chunks;
    ComingQuads x = ComingQuads(address(X));
    ComingPairs sums = ComingPairs(address(X));
    uvec4 v[2][FEW];
    uvec2 l[2][FEW];
    [[unroll]] for (uint i = 0u; i < 2u; i++) [[unroll]] for (uint c = 0u; c < FEW; c++) {
        v[i][c] = uvec4(c <= last && first + i * LOCAL < quads ? EMPTY : 0u);
        l[i][c] = v[i][c].xy;
    }
    bool again = true;
    for (uint tries = 0u; again && patient(tries); tries++) {
        [[unroll]] for (uint i = 0u; i < 2u; i++) [[unroll]] for (uint c = 0u; c < FEW; c++) {
            uint quad = first + i * LOCAL, at = quad / (COLUMNS / 4u) * chunks + c;
            if (missing(v[i][c])) v[i][c] = x.v[at * (COLUMNS / 4u) + quad % (COLUMNS / 4u)];
            if (missing(l[i][c].xyxy)) l[i][c] = sums.v[2u * all + at];
        }
        again = false;
        [[unroll]] for (uint i = 0u; i < 2u; i++) [[unroll]] for (uint c = 0u; c < FEW; c++) again = again || missing(v[i][c]) || missing(l[i][c].xyxy);
    }
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        Join join;
        vec4 o = vec4(0.0);
        [[unroll]] for (uint c = 0u; c < FEW; c++) if (c <= last) {
            join_next(join, c == 0u, uintBitsToFloat(l[i][c].x), uintBitsToFloat(l[i][c].y));
            [[unroll]] for (uint e = 0u; e < 4u; e++) o[e] = join_value(join, c == 0u, o[e], uintBitsToFloat(v[i][c][e]));
        }
        float r = recip(join.l);
        [[unroll]] for (uint e = 0u; e < 4u; e++) o[e] = tidy(mul(o[e], r));
        if (first + i * LOCAL < quads) room[first + i * LOCAL] = o;
    }
}

// The word of a quad: runtime/ref/act.go. |v * inv| stays below 127.5, and the sum with
// 1.5 * 2^23 has its integer in the low bits.
const uint MAGIC = 0x4b400000u;
uint quantized(vec4 v, float inv) {
    uint q[4];
    [[unroll]] for (uint e = 0u; e < 4u; e++) q[e] = floatBitsToUint(add(mul(v[e], inv), uintBitsToFloat(MAGIC)));
    return q[0] & 255u | (q[1] & 255u) << 8 | (q[2] & 255u) << 16 | q[3] << 24;
}
uint largest(vec4 v) {
    uvec4 m = floatBitsToUint(v) & 0x7fffffffu;
    return max(max(m.x, m.y), max(m.z, m.w));
}
// Of a block whose largest magnitude is top: the scale, and 1 / scale or, if all integers
// are 0, that.
vec2 scales_of(uint top) {
    bool odd = top >= INF_BITS, zero = top < 0x21800000u;
    float d = mul(uintBitsToFloat(top), 1.0 / 127.0), inv = recip(d);
    return vec2(odd ? uintBitsToFloat(INF_BITS) : zero ? 0.0 : d, odd || zero ? 0.0 : inv);
}
void put_act(uint quad, uint word) { acts[quad / 4u][quad % 4u] = word; }

void make_one(uint quad, bool live, vec4 v) {
    uint top = act_top(largest(v));
    vec2 d = scales_of(top);
    uint word = d.y == 0.0 ? 0u : quantized(v, d.y);
    int sum = act_sum(dot4(0, word, 0x01010101u));
    word = crosswise(word);
    if (live) put_act(quad, word);
    if (live && quad % 16u == 0u) pairs[quad / 16u] = uvec2(floatBitsToUint(d.x), uint(sum));
}

#ifdef SHUFFLE
// Two at a time, whose blocks' scales two halves of 8 invocations make one each. There is
// no branch in it, so that one quad fills the waits of the other.
void make_two(uint quad, bool live, vec4 a, vec4 b) {
    bool high = (gl_SubgroupInvocationID & 8u) != 0u;
    uint ta = largest(a), tb = largest(b), top = max(high ? tb : ta, subgroupShuffleXor(high ? ta : tb, 8u));
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u) top = max(top, subgroupShuffleXor(top, h));
    vec2 d = scales_of(top);
    float other = subgroupShuffleXor(d.y, 8u), ia = high ? other : d.y, ib = high ? d.y : other;
    uint wa = ia == 0.0 ? 0u : quantized(a, ia), wb = ib == 0.0 ? 0u : quantized(b, ib);
    int sa = dot4(0, wa, 0x01010101u), sb = dot4(0, wb, 0x01010101u), sum = (high ? sb : sa) + subgroupShuffleXor(high ? sa : sb, 8u);
    [[unroll]] for (uint h = 4u; h > 0u; h /= 2u) sum += subgroupShuffleXor(sum, h);
    wa = crosswise(wa);
    wb = crosswise(wb);
    put_act(quad, wa);
    if (live) put_act(quad + LOCAL, wb);
    uint of = quad + (high ? LOCAL : 0u);
    if (quad % 8u == 0u && (live || !high)) pairs[of / 16u] = uvec2(floatBitsToUint(d.x), uint(sum));
}
#else
void make_two(uint quad, bool live, vec4 a, vec4 b) {
    make_one(quad, true, a);
    make_one(quad + LOCAL, live, b);
}
#endif

void make_norm() {
    uint lane = gl_LocalInvocationIndex;
    vec4 v[ROUNDS];
    [[unroll]] for (uint i = 0u; i < ROUNDS; i++) { // weights come while the row does
        uint at = word(WEIGHT) + 4u * min(i * LOCAL + lane, FOURS - 1u);
        v[i] = vec4(consts[at], consts[at + 1u], consts[at + 2u], consts[at + 3u]);
    }
    add_residual();
    float r = norm_factor();
    [[unroll]] for (uint i = 0u; i < ROUNDS; i++) [[unroll]] for (uint e = 0u; e < 4u; e++) v[i][e] = mul(mul(residual[i][e], r), v[i][e]);
    [[unroll]] for (uint i = 0u; i + 1u < ROUNDS; i += 2u) make_two(i * LOCAL + lane, (i + 1u) * LOCAL + lane < FOURS, v[i], v[i + 1u]);
    if (ROUNDS % 2u != 0u) make_one((ROUNDS - 1u) * LOCAL + lane, (ROUNDS - 1u) * LOCAL + lane < FOURS, v[ROUNDS - 1u]);
}

// The quads of a row as they come, the next ones under way.
void make_row(uint quads) {
    uint lane = gl_LocalInvocationIndex;
    ComingQuads x = ComingQuads(address(X));
    const uint AT_ONCE = 3u;
    vec4 next[AT_ONCE];
    [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) next[i] = uintBitsToFloat(x.v[min(i * LOCAL + lane, quads - 1u)]);
    [[dont_unroll]] for (uint first = 0u; first < quads; first += AT_ONCE * LOCAL) {
        vec4 v[AT_ONCE] = next;
        bool again = true;
        for (uint tries = 0u; again && patient(tries); tries++) {
            again = false;
            [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) if (missing(floatBitsToUint(v[i]))) v[i] = uintBitsToFloat(x.v[min(first + i * LOCAL + lane, quads - 1u)]);
            [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) again = again || missing(floatBitsToUint(v[i]));
        }
        uint quad = first + lane;
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) next[i] = uintBitsToFloat(x.v[min(quad + (AT_ONCE + i) * LOCAL, quads - 1u)]);
        if (first + LOCAL < quads) make_two(quad, quad + LOCAL < quads, v[0], v[1]);
        else make_one(quad, quad < quads, v[0]);
        if (first + 2u * LOCAL < quads) make_one(quad + 2u * LOCAL, quad + 2u * LOCAL < quads, v[2]);
    }
}

void make_joined(uint quads) {
    uint lane = gl_LocalInvocationIndex;
    [[dont_unroll]] for (uint first = 0u; first < quads; first += 2u * LOCAL) {
        uint quad = first + lane;
        join_two(quad, quads);
        vec4 a = room[min(quad, quads - 1u)], b = room[min(quad + LOCAL, quads - 1u)];
        if (first + LOCAL < quads) make_two(quad, quad + LOCAL < quads, a, b);
        else make_one(quad, quad < quads, a);
    }
}

void make_acts() {
    uint quads = nb * 16u;
    for (uint i = nb * 4u + gl_LocalInvocationIndex; i < slices * SLICE * 4u; i += LOCAL) { // blocks that are not there
        acts[i] = uvec4(0u);
        pairs[i / 4u] = uvec2(0u);
    }
    switch (word(IN)) {
    case IN_NORM: make_norm(); break;
    case IN_JOIN: make_joined(quads); break;
    case IN_ROW: make_row(quads); break;
    }
}
