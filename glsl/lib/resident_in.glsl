// The input of a product as activations in shared memory, made by every workgroup
// for itself. An invocation has quads of elements as they come, 4i to 4i + 3, and
// trades them with its neighbours for those of word i: i & ~3 times 4, plus i & 3,
// plus 4m (act.glsl). The code is short where it can be: a token runs through more of
// it than instruction caches hold, which costs more than a loop.
#include "join.glsl"

shared float part[256];

float room_float(uint i) { return room[i / 4u][i % 4u]; }

// Element c of invocation l of four is element l of the c-th of them. Every invocation
// of the workgroup calls it.
vec4 crosswise(vec4 v) {
#ifdef SHUFFLE
    bool odd = (gl_SubgroupInvocationID & 1u) != 0u, high = (gl_SubgroupInvocationID & 2u) != 0u;
    vec2 got = subgroupShuffleXor(odd ? v.xz : v.yw, 1u);
    v = odd ? vec4(got.x, v.y, got.y, v.w) : vec4(v.x, got.x, v.z, got.y);
    got = subgroupShuffleXor(high ? v.xy : v.zw, 2u);
    return high ? vec4(got, v.zw) : vec4(v.xy, got);
#else
    uint lane = gl_LocalInvocationIndex, first = lane & ~3u, l = lane & 3u;
    barrier();
    lanes[lane] = v;
    barrier();
    return vec4(lanes[first][l], lanes[first + 1u][l], lanes[first + 2u][l], lanes[first + 3u][l]);
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
        bool odd = false;
        [[unroll]] for (uint i = 0u; i < ROUNDS; i++) [[unroll]] for (uint e = 0u; e < 4u; e++) {
            residual[i][e] = tidy(add(residual[i][e], uintBitsToFloat(v[i][e])));
            odd = odd || i * LOCAL + lane < FOURS && mag(residual[i][e]) >= INF_BITS;
        }
        if (odd && (word(FLAGS) & CHECK) != 0u) batch[0] = 1u;
    }
    [[unroll]] for (uint i = 0u; i < ROUNDS; i++) if (i * LOCAL + lane < FOURS) room[i * LOCAL + lane] = residual[i];
    barrier();
}

// The factor of the norm.
float norm_factor() {
    for (uint p = gl_LocalInvocationIndex; p < 256u; p += LOCAL) {
        float s = 0.0;
        [[unroll]] for (uint i = 0u; i < HIDDEN; i += 256u) {
            float f = room_float(p + i);
            s = add(s, mul(f, f));
        }
        part[p] = s;
    }
    return rsqrt(add(mul(tree256(), number(INV_K)), number(EPS)));
}

// A quad of a few chunks of attention, joined: runtime/ref/attention.go
vec4 joined(uint quad) {
    uint last = pos / PAGE, at = quad / (COLUMNS / 4u) * word(CHUNKS), quads = KV_HEADS * QUERIES * (HEAD_DIM / 4u) * word(CHUNKS);
    ComingQuads x = ComingQuads(address(X));
    ComingPairs sums = ComingPairs(address(X));
    uvec4 v[FEW];
    uvec2 l[FEW];
    [[unroll]] for (uint c = 0u; c < FEW; c++) {
        v[c] = uvec4(c <= last ? EMPTY : 0u);
        l[c] = v[c].xy;
    }
    bool again = true;
    for (uint tries = 0u; again && patient(tries); tries++) {
        [[unroll]] for (uint c = 0u; c < FEW; c++) {
            if (missing(v[c])) v[c] = x.v[(at + c) * (COLUMNS / 4u) + quad % (COLUMNS / 4u)];
            if (missing(l[c].xyxy)) l[c] = sums.v[2u * quads + at + c];
        }
        again = false;
        [[unroll]] for (uint c = 0u; c < FEW; c++) again = again || missing(v[c]) || missing(l[c].xyxy);
    }
    Join join;
    vec4 o = vec4(0.0);
    [[unroll]] for (uint c = 0u; c < FEW; c++) if (c <= last) {
        join_next(join, c == 0u, uintBitsToFloat(l[c].x), uintBitsToFloat(l[c].y));
        [[unroll]] for (uint e = 0u; e < 4u; e++) o[e] = join_value(join, c == 0u, o[e], uintBitsToFloat(v[c][e]));
    }
    float r = recip(join.l);
    [[unroll]] for (uint e = 0u; e < 4u; e++) o[e] = tidy(mul(o[e], r));
    return o;
}

// What an invocation asks for ahead: quads of a row, or four weights of the norm.
vec4 ask_quad(uint kind, ComingQuads x, uint quad) {
    uint at = word(WEIGHT) + 4u * quad;
    if (kind == IN_NORM) return vec4(consts[at], consts[at + 1u], consts[at + 2u], consts[at + 3u]);
    return kind == IN_ROW ? uintBitsToFloat(x.v[quad]) : vec4(0.0);
}

void make_acts() {
    const uint AT_ONCE = 3u;
    uint quads = nb * 16u, kind = word(IN), lane = gl_LocalInvocationIndex;
    ComingQuads x = ComingQuads(address(X));
    float r = 0.0;
    vec4 next[AT_ONCE];
    [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) if (i * LOCAL < quads) next[i] = ask_quad(kind, x, min(i * LOCAL + lane, quads - 1u));
    if (kind == IN_NORM) {
        add_residual();
        r = norm_factor();
    } else if (kind == IN_JOIN) {
        [[dont_unroll]] for (uint quad = lane; quad < quads; quad += LOCAL) room[quad] = joined(quad);
    }
    [[dont_unroll]] for (uint first = 0u; first < quads; first += AT_ONCE * LOCAL) {
        vec4 now[AT_ONCE] = next;
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++)
            if (first + (AT_ONCE + i) * LOCAL < quads) next[i] = ask_quad(kind, x, min(first + (AT_ONCE + i) * LOCAL + lane, quads - 1u));
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) if (first + i * LOCAL < quads) {
            uint quad = first + i * LOCAL + lane;
            vec4 v = now[i];
            bool live = quad < quads;
            if (kind == IN_ROW) {
                for (uint tries = 0u; live && missing(floatBitsToUint(v)) && patient(tries); tries++) v = uintBitsToFloat(x.v[quad]);
            } else {
                vec4 own = room[min(quad, quads - 1u)];
                if (kind == IN_JOIN) v = own;
                else [[unroll]] for (uint e = 0u; e < 4u; e++) v[e] = mul(mul(own[e], r), v[e]);
            }
            v = crosswise(v);
            ActWord made = act_word(float[4](v.x, v.y, v.z, v.w));
            if (live) acts[quad / 4u][quad % 4u] = made.word;
            if (live && quad % 16u == 0u) pairs[quad / 16u] = made.pair;
        }
    }
}
