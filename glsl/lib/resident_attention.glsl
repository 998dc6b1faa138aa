// Norm and rope of a token's heads (runtime/ref/qkv_rope_cache_f16.go) and attention
// over chunks (runtime/ref/attention.go). 128 invocations take a chunk of a kv head,
// as attention_wide_f16.comp has it; each prepares the queries for itself, and the
// one with the last chunk writes the key and the value to the cache first.
const uint TEAM = 128u, TEAMS = LOCAL / TEAM, EIGHTS = HEAD_DIM / 8u;
const uint HALF_QUERIES = (QUERIES + 1u) / 2u, EACH = HEAD_DIM / 32u;
// A team's part of room: queries, scores [head][position], key and value.
const uint TEAM_SCORES = QUERIES * HEAD_DIM / 4u, TEAM_NEW = TEAM_SCORES + 2u * HALF_QUERIES * PAGE / 4u, TEAM_ROOM = TEAM_NEW + HEAD_DIM / 2u;

#ifndef SHUFFLE
shared float tree[LOCAL];
#endif

// The tree over the squares of a head, whose element l + 32 i invocation l of 32 has.
float head_sum(float v[EACH]) {
    float p[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; i++) p[i] = mul(v[i], v[i]);
    [[unroll]] for (uint h = EACH / 2u; h > 0u; h /= 2u) [[unroll]] for (uint i = 0u; i < h; i++) p[i] = add(p[i], p[i + h]);
    float s = p[0];
#ifdef SHUFFLE
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) s = add(s, subgroupShuffleDown(s, h));
    return subgroupShuffle(s, 0u);
#else
    uint lane = gl_LocalInvocationIndex;
    barrier();
    tree[lane] = s;
    for (uint h = 16u; h > 0u; h /= 2u) {
        barrier();
        if (lane % 32u < h) tree[lane] = add(tree[lane], tree[lane + h]);
    }
    barrier();
    return tree[lane & ~31u];
#endif
}

// The heads of a team, 32 invocations each: queries to its rows; the new key and
// value behind its scores.
void prepare_heads(uint base, uint head, uint pos, bool fresh) {
    uint l = gl_LocalInvocationIndex % 32u, quarter = gl_LocalInvocationIndex % TEAM / 32u, heads = KV_HEADS * QUERIES;
    Floats x = Floats(address(X));
    [[dont_unroll]] for (uint first = 0u; first < QUERIES + 2u; first += 4u) {
        uint slot = first + quarter;
        bool is_q = slot < QUERIES, is_v = slot == QUERIES + 1u, live = is_q || fresh && slot < QUERIES + 2u;
        uint at = (is_q ? head * QUERIES + slot : heads + (is_v ? KV_HEADS : 0u) + head) * HEAD_DIM;
        float v[EACH];
        [[unroll]] for (uint i = 0u; i < EACH; i++) v[i] = live ? x.v[at + l + 32u * i] : 0.0;
        float r = rsqrt(add(mul(head_sum(v), number(INV_K)), number(EPS)));
        if (live && !is_v) {
            uint norm = is_q ? word(WEIGHT) : word(K_NORM);
            [[unroll]] for (uint i = 0u; i < EACH / 2u; i++) {
                uint e = l + 32u * i;
                float a = mul(mul(v[i], r), consts[norm + e]);
                float b = mul(mul(v[i + EACH / 2u], r), consts[norm + e + HEAD_DIM / 2u]);
                uint turn = word(ROPE) + (pos * (HEAD_DIM / 2u) + e) * 2u;
                float c = consts[turn], s = consts[turn + 1u];
                v[i] = sub(mul(a, c), mul(b, s));
                v[i + EACH / 2u] = add(mul(a, s), mul(b, c));
            }
        }
        if (live) [[unroll]] for (uint i = 0u; i < EACH; i++) {
            uint e = l + 32u * i;
            if (is_q) room[base + (slot * HEAD_DIM + e) / 4u][e % 4u] = tidy(round13(mul(v[i], number(Q_SCALE))));
            else room[base + TEAM_NEW + ((slot - QUERIES) * HEAD_DIM + e) / 4u][e % 4u] = v[i];
        }
    }
    barrier();
}

uint saturates(float x) { return uint(mag(x) >= 0x477ff000u && mag(x) < INF_BITS); }

void store_new(uint base, uint page, uint head, uint pos) {
    Words cache = Words(address(Y));
    uint full = 0u;
    for (uint i = gl_LocalInvocationIndex % TEAM; i < HEAD_DIM; i += TEAM) { // words of the key, then of the value
        vec4 four = room[base + TEAM_NEW + i / 2u];
        vec2 two = i % 2u == 0u ? four.xy : four.zw;
        uint w = f16_rte(two.x) | (f16_rte(two.y) << 16), d = 2u * i % HEAD_DIM;
        cache.v[2u * i < HEAD_DIM ? key_word(page, head, pos, d) : word(V_BASE) + value_word(page, head, pos, d)] = w;
        full += saturates(two.x) + saturates(two.y);
    }
    if (full != 0u) atomicAdd(batch[1], full);
}

void attend(uint base, uint page, uint head, uint c, uint live, bool works) {
    uint lane = gl_LocalInvocationIndex % TEAM, j = lane % PAGE, side = lane / PAGE, scores = base + TEAM_SCORES;
    float s[HALF_QUERIES], e[HALF_QUERIES], l[HALF_QUERIES];
    [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) s[i] = e[i] = 0.0;
    Quads keys = Quads(address(Y));
    if (works) {
        uint at = key_word(page, head, j, 0u) / 4u;
        [[unroll]] for (uint d = 0u; d < EIGHTS; d++) {
            uvec4 k = keys.v[at + d * PAGE];
            vec2 k0 = f32_of(k.x), k1 = f32_of(k.y), k2 = f32_of(k.z), k3 = f32_of(k.w);
            [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) {
                uint row = base + min(2u * i + side, QUERIES - 1u) * (HEAD_DIM / 4u) + 2u * d;
                vec4 a = room[row], b = room[row + 1u];
                s[i] = mac(mac(mac(mac(s[i], a.x, k0.x), a.y, k0.y), a.z, k1.x), a.w, k1.y);
                s[i] = mac(mac(mac(mac(s[i], b.x, k2.x), b.y, k2.y), b.z, k3.x), b.w, k3.y);
            }
        }
        [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++)
            room[scores + ((2u * i + side) * PAGE + j) / 4u][j % 4u] = j < live ? s[i] : -uintBitsToFloat(INF_BITS);
    }
    barrier();
    if (works) [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) {
        float m = room[scores + (2u * i + side) * (PAGE / 4u)].x;
        [[unroll]] for (uint k = 0u; k < PAGE / 4u; k++) {
            vec4 v = room[scores + (2u * i + side) * (PAGE / 4u) + k];
            m = v.x > m ? v.x : m;
            m = v.y > m ? v.y : m;
            m = v.z > m ? v.z : m;
            m = v.w > m ? v.w : m;
        }
        e[i] = tidy(roundEven(m));
    }
    barrier();
    if (works) [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++)
        room[scores + ((2u * i + side) * PAGE + j) / 4u][j % 4u] = j < live ? round13(exp2_(sub(s[i], e[i]))) : 0.0;
    barrier();
    if (!works) return;
    Floats y = Floats(address(OUT));
    uint stride = HEAD_DIM + 2u;
    if (j == 0u) [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) {
        l[i] = 0.0;
        [[unroll]] for (uint k = 0u; k < PAGE / 4u; k++) {
            vec4 v = room[scores + (2u * i + side) * (PAGE / 4u) + k];
            l[i] = add(add(add(add(l[i], v.x), v.y), v.z), v.w);
        }
        uint g = 2u * i + side, at = ((head * QUERIES + g) * word(CHUNKS) + c) * stride + HEAD_DIM;
        if (g < QUERIES) {
            y.v[at] = e[i];
            y.v[at + 1u] = tidy(l[i]);
        }
    }
    Words values = Words(address(Y));
    for (uint d = 2u * j; d < HEAD_DIM; d += 2u * PAGE) {
        vec2 o[HALF_QUERIES];
        [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) o[i] = vec2(0.0);
        uint at = word(V_BASE) + value_word(page, head, 0u, d);
        for (uint k = 0u; k < (live + 15u) / 16u; k++) {
            vec2 v[16];
            [[unroll]] for (uint n = 0u; n < 16u; n++) // weights beyond are +0
                v[n] = f32_of(values.v[at + min(16u * k + n, live - 1u) * (HEAD_DIM / 2u)]);
            [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++)
                [[unroll]] for (uint f = 0u; f < 4u; f++) {
                    vec4 w = room[scores + (2u * i + side) * (PAGE / 4u) + 4u * k + f];
                    [[unroll]] for (uint n = 0u; n < 4u; n++) o[i] = fma(vec2(w[n]), v[4u * f + n], o[i]); // exact products
                }
        }
        [[unroll]] for (uint i = 0u; i < HALF_QUERIES; i++) {
            uint g = 2u * i + side, at = ((head * QUERIES + g) * word(CHUNKS) + c) * stride + d;
            if (g < QUERIES) {
                y.v[at] = tidy(o[i].x);
                y.v[at + 1u] = tidy(o[i].y);
            }
        }
    }
}

void attention() {
    uint pos = batch[word(POSITIONS)], pages = batch[word(TABLES)], last = pos / PAGE, tasks = (last + 1u) * KV_HEADS;
    uint team = gl_LocalInvocationIndex / TEAM, base = team * TEAM_ROOM, groups = gl_NumWorkGroups.x;
    [[dont_unroll]] for (uint first = gl_WorkGroupID.x; first < tasks; first += groups * TEAMS) {
        uint task = first + team * groups;
        bool works = task < tasks;
        uint c = works ? task / KV_HEADS : 0u, head = task % KV_HEADS, page = batch[pages + c];
        prepare_heads(base, head, pos, works && c == last);
        if (works && c == last) store_new(base, page, head, pos);
        memoryBarrierBuffer();
        barrier();
        attend(base, page, head, c, min(PAGE, pos + 1u - c * PAGE), works);
        barrier();
    }
}

// Many chunks joined to a row, 32 elements at a time.
void join_chunks() {
    uint lane = gl_LocalInvocationIndex, k = KV_HEADS * QUERIES * HEAD_DIM, last = batch[word(POSITIONS)] / PAGE, stride = HEAD_DIM + 2u;
    Floats x = Floats(address(X)), y = Floats(address(OUT));
    for (uint e = (gl_WorkGroupID.x + lane / 32u * gl_NumWorkGroups.x) * 32u + lane % 32u; e < k; e += LOCAL * gl_NumWorkGroups.x) {
        uint at = e / HEAD_DIM * word(CHUNKS) * stride, d = e % HEAD_DIM;
        Join join;
        float v = 0.0;
        for (uint c = 0u; c <= last; c += 8u) {
            float es[8], ls[8], vs[8];
            [[unroll]] for (uint i = 0u; i < 8u; i++) {
                uint part_at = at + min(c + i, last) * stride;
                es[i] = x.v[part_at + HEAD_DIM];
                ls[i] = x.v[part_at + HEAD_DIM + 1u];
                vs[i] = x.v[part_at + d];
            }
            [[unroll]] for (uint i = 0u; i < 8u; i++) if (c + i <= last) {
                join_next(join, c + i == 0u, es[i], ls[i]);
                v = join_value(join, c + i == 0u, v, vs[i]);
            }
        }
        y.v[e] = tidy(mul(v, recip(join.l)));
    }
}
