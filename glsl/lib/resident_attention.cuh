// Norm and rope of a token's heads (runtime/ref/qkv_rope_cache_f16.go) and attention
// over chunks (runtime/ref/attention.go), as in resident_attention.glsl: few chunks are
// taken by a whole workgroup each, many by a warp each.
#define EIGHTS (HEAD_DIM / 8u)
#define HEADS (PAGE * EIGHTS)                  // where in room the queries are, behind a chunk's keys or values,
#define NEW (HEADS + QUERIES * HEAD_DIM / 2u)  // the new key and value,
#define PACKED (NEW + HEAD_DIM / 2u)           // the same as the cache has them,
#define WEIGHTS (PACKED + HEAD_DIM / 4u)       // and weights: [query][position]; those of warps are in front
#define WARP_WEIGHTS (QUERIES * PAGE / 4u)

// The paged cache of one layer in quads: pages of keys are [kv head][dim/8][position],
// of values [kv head][position][dim/8], from word V_BASE on.
DEVICE u32 key_quad(Run &k, u32 page, u32 head, u32 position, u32 eight) { return ((page * k.spec.kv_heads + head) * EIGHTS + eight) * PAGE + position % PAGE; }
DEVICE u32 value_quad(Run &k, u32 page, u32 head, u32 position) { return k.word(V_BASE) / 4u + ((page * k.spec.kv_heads + head) * PAGE + position % PAGE) * EIGHTS; }

DEVICE float warp_max(float v) {
#pragma unroll
    for (u32 h = 16; h > 0; h /= 2) {
        float other = shuffle_xor(v, h);
        v = other > v ? other : v;
    }
    return v;
}

// s + q k over eight dimensions, in order.
DEVICE float dot8(float s, const Four &a, const Four &b, const Quad &key) {
    s = mac(mac(s, a.v[0], low_half(key.w[0])), a.v[1], high_half(key.w[0]));
    s = mac(mac(s, a.v[2], low_half(key.w[1])), a.v[3], high_half(key.w[1]));
    s = mac(mac(s, b.v[0], low_half(key.w[2])), b.v[1], high_half(key.w[2]));
    return mac(mac(s, b.v[2], low_half(key.w[3])), b.v[3], high_half(key.w[3]));
}

// The heads of a kv head, or of two, one for each warp: queries to room, and, for the
// last chunk of the first, the new key and value. Invocation l has the elements l + 32 i.
DEVICE void prepare_heads(Run &k, u32 head, bool two, bool fresh) {
    const u32 BOTH = 2u * QUERIES;
    u32 l = k.l, heads = k.spec.kv_heads * QUERIES;
#pragma unroll 1
    for (u32 slot = k.warp; slot < BOTH + 2u; slot += WARPS) {
        bool is_q = slot < BOTH, is_v = slot == BOTH + 1u;
        if (!(is_q ? two || slot < QUERIES : fresh)) continue;
        const u32 *x = k.at<const u32>(X) + (is_q ? head * QUERIES + slot : heads + (is_v ? k.spec.kv_heads : 0u) + head) * HEAD_DIM;
        const float *norm = k.consts + k.word(is_q ? WEIGHT : K_NORM), *angles = k.consts + k.word(ROPE) + k.pos * HEAD_DIM;
        float v[4], weight[4], c[2], s[2];
        u32 got[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            weight[i] = norm[l + 32u * i];
            got[i] = EMPTY;
        }
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            c[i] = angles[(l + 32u * i) * 2u];
            s[i] = angles[(l + 32u * i) * 2u + 1u];
        }
        bool again = true;
        for (u32 tries = 0; again && patient(k, tries); tries++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                if (got[i] == EMPTY) got[i] = peek(x + l + 32u * i);
            again = got[0] == EMPTY || got[1] == EMPTY || got[2] == EMPTY || got[3] == EMPTY;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) v[i] = float_of(got[i]);
        if (!is_v) {
            float sum = (v[0] * v[0] + v[2] * v[2]) + (v[1] * v[1] + v[3] * v[3]);
#pragma unroll
            for (u32 h = 16; h > 0; h /= 2) sum = sum + shuffle_xor(sum, h); // either way round
            float r = rsqrt(sum * k.number(INV_K) + k.number(EPS));
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                float a = v[i] * r * weight[i], b = v[i + 2] * r * weight[i + 2];
                v[i] = a * c[i] - b * s[i];
                v[i + 2] = a * s[i] + b * c[i];
            }
        }
        float *to = (float *)(sm.room + HEADS) + slot * HEAD_DIM + l; // key and value follow the queries
#pragma unroll
        for (u32 i = 0; i < 4; i++) to[32u * i] = is_q ? tidy(round13(v[i] * k.number(Q_SCALE))) : v[i];
    }
    barrier();
}

DEVICE u32 saturates(float x) { return mag(x) >= 0x477ff000u && mag(x) < INF_BITS ? 1u : 0u; }

// Key and value go to the cache, and to shared memory for the workgroup, which need
// not wait for the cache then.
DEVICE void store_new(Run &k, u32 page, u32 head) {
    if (k.lane < HEAD_DIM) { // words of the key, then of the value
        u32 i = k.lane, d = 2u * i % HEAD_DIM;
        const float *two = (const float *)(sm.room + NEW) + 2u * i;
        u32 w = f16_rte(two[0]) | (f16_rte(two[1]) << 16);
        ((u32 *)(sm.room + PACKED))[i] = w;
        u32 quad = 2u * i < HEAD_DIM ? key_quad(k, page, head, k.pos, d / 8u) : value_quad(k, page, head, k.pos) + d / 8u;
        put(k.at<u32>(Y) + quad * 4u + d % 8u / 2u, w);
        u32 full = saturates(two[0]) + saturates(two[1]);
        if (full != 0) count(k.batch + 1, full);
    }
    barrier();
}

// Eight dimensions of the new key, or value.
DEVICE Quad new_key(u32 eight) { return quad_of(sm.room[PACKED + eight]); }
DEVICE Quad new_value(u32 eight) { return quad_of(sm.room[PACKED + EIGHTS + eight]); }

// Keys that are under way: 4 eighths of each of two positions.
DEVICE void ask_keys(const Quad *keys, Quad next[8]) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) next[i] = peek(keys + i / 2u * PAGE + 32u * (i % 2u));
}

// One chunk, by a warp, with queries at a place in room. Its first keys are under way,
// and those of the next chunk in the end.
DEVICE void attend_many(Run &k, u32 page, u32 head, u32 queries, u32 c, Quad next_keys[8], const Quad *next_chunk) {
    const u32 ROWS_AT_ONCE = 16;
    u32 l = k.l, live = min(PAGE, k.pos + 1u - c * PAGE);
    bool fresh = k.pos / PAGE == c; // its last position is new
    Four *weights = sm.room + k.warp * WARP_WEIGHTS;
    const Quad *cache = k.at<const Quad>(Y);
    float s[QUERIES][2] = {};
    {
        const Quad *at = cache + key_quad(k, page, head, l, 0);
#pragma unroll 1
        for (u32 d0 = 0; d0 < EIGHTS; d0 += 4) {
            Quad key[8];
#pragma unroll
            for (u32 i = 0; i < 8; i++) key[i] = next_keys[i];
            if (fresh && l == (live - 1u) % 32u)
#pragma unroll
                for (u32 d = 0; d < 4; d++) {
                    if (live <= 32) key[2 * d] = new_key(d0 + d);
                    else key[2 * d + 1] = new_key(d0 + d);
                }
            if (d0 + 4 < EIGHTS) ask_keys(at += 4 * PAGE, next_keys);
#pragma unroll
            for (u32 d = 0; d < 4; d++)
#pragma unroll
                for (u32 g = 0; g < QUERIES; g++) {
                    const Four *q = sm.room + queries + g * (HEAD_DIM / 4u) + 2u * (d0 + d);
                    Four a = q[0], b = q[1];
                    s[g][0] = dot8(s[g][0], a, b, key[2 * d]);
                    s[g][1] = dot8(s[g][1], a, b, key[2 * d + 1]);
                }
        }
    }
    // Values: four dimensions each; weights beyond the last position are +0.
    const Pair *at = (const Pair *)(cache + value_quad(k, page, head, 0)) + l;
    Pair next[ROWS_AT_ONCE];
#pragma unroll
    for (u32 n = 0; n < ROWS_AT_ONCE; n++) next[n] = peek(at + min(n, live - 1u) * (HEAD_DIM / 4u));
    float e[QUERIES];
    warp_barrier();
#pragma unroll
    for (u32 g = 0; g < QUERIES; g++) {
        float a = l < live ? s[g][0] : NONE, b = l + 32u < live ? s[g][1] : NONE;
        e[g] = tidy(round_even(warp_max(b > a ? b : a)));
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 j = l + 32u * i;
            ((float *)weights)[g * PAGE + j] = j < live ? round13(exp2_(s[g][i] - e[g])) : 0.0f;
        }
    }
    warp_barrier();
    ask_keys(next_chunk, next_keys);
    float o[QUERIES][4] = {}, sum = 0;
#pragma unroll 1
    for (u32 first = 0; first < live; first += ROWS_AT_ONCE) {
        Pair v[ROWS_AT_ONCE];
#pragma unroll
        for (u32 n = 0; n < ROWS_AT_ONCE; n++) v[n] = next[n];
        if (fresh && first + ROWS_AT_ONCE >= live) { // the last position's value is new
            Pair last = ((const Pair *)(sm.room + PACKED + EIGHTS))[l];
#pragma unroll
            for (u32 n = 0; n < ROWS_AT_ONCE; n++)
                if (first + n >= live - 1u) v[n] = last;
        }
        if (first + ROWS_AT_ONCE < live)
#pragma unroll
            for (u32 n = 0; n < ROWS_AT_ONCE; n++) next[n] = peek(at + min(first + ROWS_AT_ONCE + n, live - 1u) * (HEAD_DIM / 4u));
#pragma unroll
        for (u32 f = 0; f < ROWS_AT_ONCE; f += 4) {
            if (l < QUERIES) { // the sum of weights of a query each
                Four w = weights[l * (PAGE / 4u) + (first + f) / 4u];
                sum = (((sum + w.v[0]) + w.v[1]) + w.v[2]) + w.v[3];
            }
#pragma unroll
            for (u32 g = 0; g < QUERIES; g++) {
                Four w = weights[g * (PAGE / 4u) + (first + f) / 4u];
#pragma unroll
                for (u32 n = 0; n < 4; n++) { // exact products
                    Pair x = v[f + n];
                    o[g][0] = mac(o[g][0], w.v[n], low_half(x.w[0]));
                    o[g][1] = mac(o[g][1], w.v[n], high_half(x.w[0]));
                    o[g][2] = mac(o[g][2], w.v[n], low_half(x.w[1]));
                    o[g][3] = mac(o[g][3], w.v[n], high_half(x.w[1]));
                }
            }
        }
    }
#pragma unroll
    for (u32 g = 0; g < QUERIES; g++) {
        u32 *to = k.at<u32>(OUT) + ((head * QUERIES + g) * k.word(CHUNKS) + c) * PART;
        Quad four;
#pragma unroll
        for (u32 i = 0; i < 4; i++) four.w[i] = publish(tidy(o[g][i]));
        put((Quad *)to + l, four);
        if (l == g) {
            put(to + HEAD_DIM, publish(e[g]));
            put(to + HEAD_DIM + 1u, publish(tidy(sum)));
        }
    }
}

// A chunk of keys or values as it lies in the cache, under way.
#define SHARE_OF_CHUNK (PAGE * EIGHTS / LOCAL)

DEVICE void ask_chunk(Run &k, u32 page, u32 head, Quad keys[SHARE_OF_CHUNK], Quad values[SHARE_OF_CHUNK]) {
    const Quad *cache = k.at<const Quad>(Y) + k.lane;
#pragma unroll
    for (u32 i = 0; i < SHARE_OF_CHUNK; i++) {
        keys[i] = peek(cache + key_quad(k, page, head, 0, 0) + i * LOCAL);
        values[i] = peek(cache + value_quad(k, page, head, 0) + i * LOCAL);
    }
}

DEVICE void put_keys(Run &k, const Quad keys[SHARE_OF_CHUNK]) {
#pragma unroll
    for (u32 i = 0; i < SHARE_OF_CHUNK; i++) sm.room[i * LOCAL + k.lane] = four_of(keys[i]);
}

// One chunk, by the workgroup: its keys are in room, the values go there.
DEVICE void attend_few(Run &k, u32 head, u32 c, const Quad values[SHARE_OF_CHUNK]) {
    u32 lane = k.lane, live = min(PAGE, k.pos + 1u - c * PAGE), j = lane % PAGE, g = lane / PAGE;
    bool fresh = k.pos / PAGE == c;
    if (fresh && lane < EIGHTS) sm.room[lane * PAGE + live - 1u] = four_of(new_key(lane));
    barrier();
    float *weights = (float *)(sm.room + WEIGHTS);
    float s = 0;
    if (g < QUERIES) { // scores: an invocation each
        const Four *q = sm.room + HEADS + g * (HEAD_DIM / 4u);
#pragma unroll 1
        for (u32 d0 = 0; d0 < EIGHTS; d0 += 4)
#pragma unroll
            for (u32 d = d0; d < d0 + 4; d++) s = dot8(s, q[2 * d], q[2 * d + 1], quad_of(sm.room[d * PAGE + j]));
        if (j >= live) s = NONE;
        weights[lane] = s;
    }
    barrier();
#pragma unroll
    for (u32 i = 0; i < SHARE_OF_CHUNK; i++) { // the new position's last, those beyond are 0
        u32 at = i * LOCAL + lane, position = at / EIGHTS;
        Quad v = {{0, 0, 0, 0}};
        if (position < live) v = values[i];
        if (fresh && position + 1u == live) v = new_value(at % EIGHTS);
        sm.room[at] = four_of(v);
    }
    u32 *to = k.at<u32>(OUT) + ((head * QUERIES + min(g, QUERIES - 1u)) * k.word(CHUNKS) + c) * PART;
    float p = 0;
    if (g < QUERIES) {
        float other = weights[lane ^ 32u], e = tidy(round_even(warp_max(other > s ? other : s)));
        p = j < live ? round13(exp2_(s - e)) : 0.0f;
        if (j == 0) put(to + HEAD_DIM, publish(e));
    }
    barrier();
    if (g < QUERIES) weights[lane] = p;
    barrier();
    // Values: two dimensions each; and the sums of weights.
    if (g < QUERIES) {
        float o[2] = {}, sum = 0;
        const Four *w4 = sm.room + WEIGHTS + g * (PAGE / 4u);
        const u32 *x = (const u32 *)sm.room + j;
#pragma unroll 1
        for (u32 n = 0; n < live; n += 8)
#pragma unroll
            for (u32 f = 0; f < 8; f += 4) {
                Four w = w4[(n + f) / 4];
#pragma unroll
                for (u32 i = 0; i < 4; i++) { // exact products
                    u32 two = x[(n + f + i) * (HEAD_DIM / 2u)];
                    o[0] = mac(o[0], w.v[i], low_half(two));
                    o[1] = mac(o[1], w.v[i], high_half(two));
                    sum = sum + w.v[i];
                }
            }
        put((Pair *)to + j, Pair{{publish(tidy(o[0])), publish(tidy(o[1]))}});
        if (j == 0) put(to + HEAD_DIM + 1u, publish(tidy(sum)));
    }
    barrier();
}

// By each warp for itself.
DEVICE void place(Run &k, u32 table) {
    u32 groups = groups_x(), group = group_x(), heads = k.spec.kv_heads, last = k.pos / PAGE, all = heads * (last + 1u);
    Place &p = sm.place;
    u32 mates = groups < heads ? 1u : (groups - group % heads + heads - 1u) / heads, me = groups < heads ? 0u : group / heads;
    u32 begin = group * all / groups, end = (group + 1u) * all / groups, first = min(begin + k.warp, max(end, 1u) - 1u);
    bool few = last < 4u * max(groups / heads, 1u);
    p.chunk_page[k.warp] = peek(k.batch + table + (few ? min(me, last) : first % (last + 1u)));
    if (k.warp > 0) return;
    p.pages = table;
    p.last_page = peek(k.batch + table + last);
    p.mates = mates;
    p.me = me;
    p.begin_chunk = begin;
    p.end_chunk = end;
    p.few = few;
}

// Tells that a workgroup has done so many chunks of a head, and of the next; the join
// waits for all.
DEVICE void count_chunks(Run &k, u32 head, u32 chunks, u32 more) {
    if (k.word(CHUNKS) > FEW) { // fewer lie in the arena, and their words are waited for
        barrier();
        if (k.lane == 0) {
            u32 *counts = k.at<u32>(COUNTS);
            fence();
            count(counts + head, chunks);
            if (more > 0) count(counts + head + 1u, more);
        }
    }
    barrier();
}

DEVICE void attention(Run &k) {
    const Place &p = sm.place;
    const Quad *cache = k.at<const Quad>(Y);
    u32 last = k.pos / PAGE, chunks = last + 1u, heads = k.spec.kv_heads;
    bool few = p.few;
    u32 at = few ? group_x() % heads : p.begin_chunk, end = !few ? p.end_chunk : p.me <= last ? heads : 0u;
    while (at < end) {
        // Few: chunks of a head. Many: the chunks of a head, and those but the last of the next one.
        u32 head = few ? at : at / chunks, border = (head + 1u) * chunks, to = few ? at + min(groups_x(), heads) : min(end, border + chunks - 1u);
        u32 mine = min(at + k.warp, to - 1u), own = head + (mine >= border ? 1u : 0u), page = p.chunk_page[k.warp];
        Quad ahead[8] = {};
        if (few) {
            ask_chunk(k, page, head, ahead, ahead + SHARE_OF_CHUNK);
            put_keys(k, ahead);
        } else {
            if (at > p.begin_chunk) page = peek(k.batch + p.pages + mine % chunks);
            ask_keys(cache + key_quad(k, page, own, k.l, 0), ahead);
        }
        bool fresh = few ? last % p.mates == p.me : to >= border;
        prepare_heads(k, head, !few && to > border, fresh);
        if (fresh) store_new(k, p.last_page, head);
        if (few) {
            for (u32 c = p.me;;) {
                attend_few(k, head, c, ahead + SHARE_OF_CHUNK);
                c += p.mates;
                if (c > last) break;
                ask_chunk(k, peek(k.batch + p.pages + c), head, ahead, ahead + SHARE_OF_CHUNK);
                put_keys(k, ahead);
                barrier();
            }
            count_chunks(k, head, (last - p.me) / p.mates + 1u, 0);
        } else {
            for (u32 c = at + k.warp; c < to; c += WARPS) {
                u32 next = min(c + WARPS, to - 1u), next_own = head + (next >= border ? 1u : 0u), next_page = peek(k.batch + p.pages + next % chunks);
                const Quad *next_chunk = cache + key_quad(k, next_page, next_own, k.l, 0);
                attend_many(k, page, own, HEADS + (own - head) * (QUERIES * HEAD_DIM / 4u), c - own * chunks, ahead, next_chunk);
                own = next_own;
                page = next_page;
            }
            count_chunks(k, head, min(to, border) - at, max(to, border) - border);
        }
        at = to;
    }
}

// Many chunks joined to a row. A workgroup takes 32 dimensions of a head at a time.
// The exponents' running maximum gives all factors at once, the parts are scaled on
// their way to shared memory, and what is left to do in order is an exact product and
// a sum for each chunk: by a warp for the values, by one invocation more for the weights.
// In sm.all the chunks of a column lie side by side: 32 columns of values and one of the
// weights, then the factors of the sum so far and those of the parts.
#define COLUMNS 32u
#define BATCH 288u
#define FOURS_OF_BATCH (BATCH / 4u)
#define STRIDE (FOURS_OF_BATCH | 1u) // of columns; odd, so that 8 lie in different banks
#define BEFORE ((COLUMNS + 1u) * STRIDE)
#define FACTORS (BEFORE + FOURS_OF_BATCH)
#define PARTS ((FOURS_OF_BATCH * COLUMNS + LOCAL - 1u) / LOCAL)

// Chunks in order: sum = tidy(sum * factor + part), those of a column.
DEVICE float in_order(float sum, u32 column, u32 count) {
    const Four *v = sm.all + column * STRIDE, *z = sm.all + BEFORE;
    float first = sum, low = float_of(INF_BITS);
    const u32 AT = 4; // fours of chunks, and as many under way
    Four v_next[AT], z_next[AT];
#pragma unroll
    for (u32 n = 0; n < AT; n++) v_next[n] = v[n], z_next[n] = z[n];
#pragma unroll 1
    for (u32 c = 0; c < (count + 3u) / 4u; c += AT) {
        Four x[AT], f[AT];
#pragma unroll
        for (u32 n = 0; n < AT; n++) {
            u32 next = min(c + AT + n, FOURS_OF_BATCH - 1u);
            x[n] = v_next[n], f[n] = z_next[n];
            v_next[n] = v[next], z_next[n] = z[next];
        }
#pragma unroll
        for (u32 n = 0; n < AT; n++)
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                sum = mac(x[n].v[i], sum, f[n].v[i]);
                low = __builtin_fminf(low, __builtin_fabsf(sum));
            }
    }
    if (mag(low) >= 0x21800000u) return sum; // tidy changed nothing
    sum = first;
#pragma unroll 1
    for (u32 c = 0; c < count; c++) sum = tidy(mac(((const float *)v)[c], sum, ((const float *)z)[c]));
    return sum;
}

DEVICE void join_chunks(Run &k) {
    u32 lane = k.lane, last = k.pos / PAGE;
    for (u32 unit = group_x(); unit < k.spec.kv_heads * QUERIES * 4u; unit += groups_x()) {
        if (lane == 0) {
            const u32 *counts = k.at<const u32>(COUNTS) + unit / 4u / QUERIES;
            for (u32 tries = 0; peek_acquire(counts) != EMPTY + last + 1u && patient(k, tries); tries++) {}
        }
        barrier();
        const u32 *x = k.at<const u32>(X) + unit / 4u * k.word(CHUNKS) * PART;
        u32 column = unit % 4u * COLUMNS + k.l;
        float sum = 0, top = NONE;
        for (u32 from = 0; from <= last; from += BATCH) {
            Four parts[PARTS] = {}; // of four chunks each, beyond the last that again
#pragma unroll
            for (u32 i = 0; i < PARTS; i++) {
                u32 four = i * WARPS + k.warp;
                if (four < FOURS_OF_BATCH && from + four * 4u <= last)
#pragma unroll
                    for (u32 n = 0; n < 4; n++) parts[i].v[n] = float_of(peek(x + min(from + four * 4u + n, last) * PART + column));
            }
            float e[2], l[2]; // of two chunks
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                Pair el = peek((const Pair *)(x + min(from + 2u * lane + i, last) * PART + HEAD_DIM));
                e[i] = float_of(el.w[0]), l[i] = float_of(el.w[1]);
            }
            float m = e[1] > e[0] ? e[1] : e[0];
#pragma unroll
            for (u32 h = 1; h < 32; h *= 2) {
                float other = shuffle_up(m, h);
                if (k.l >= h && other > m) m = other;
            }
            if (k.l == (k.warp == BATCH / 64u ? BATCH % 64u / 2u - 1u : 31u)) sm.part[k.warp] = m;
            float before = shuffle_up(m, 1);
            barrier();
            float prefix = top;
#pragma unroll
            for (u32 w = 0; w < (BATCH + 63u) / 64u; w++) {
                float other = sm.part[w];
                if (w < k.warp && other > prefix) prefix = other;
                if (other > top) top = other;
            }
            if (k.l == 0 || prefix > before) before = prefix;
            if (2u * lane < BATCH) {
                float *room = (float *)sm.all + 2u * lane;
#pragma unroll
                for (u32 i = 0; i < 2; i++) {
                    bool live = from + 2u * lane + i <= last;
                    float to = e[i] > before ? e[i] : before, b = pow2(e[i] - to);
                    room[COLUMNS * STRIDE * 4u + i] = live ? l[i] * b : 0.0f;
                    room[BEFORE * 4u + i] = !live ? 1.0f : from + 2u * lane + i == 0 ? 0.0f : pow2(before - to);
                    room[FACTORS * 4u + i] = b;
                    before = to;
                }
            }
            barrier();
#pragma unroll
            for (u32 i = 0; i < PARTS; i++) {
                u32 four = i * WARPS + k.warp;
                if (four < FOURS_OF_BATCH) {
                    Four b = sm.all[FACTORS + four], v;
#pragma unroll
                    for (u32 n = 0; n < 4; n++) v.v[n] = from + four * 4u + n <= last ? parts[i].v[n] * b.v[n] : 0.0f;
                    sm.all[k.l * STRIDE + four] = v;
                }
            }
            barrier();
            if (lane <= COLUMNS) sum = in_order(sum, lane, min(last + 1u - from, BATCH));
            barrier();
        }
        if (lane == COLUMNS) sm.part[0] = recip(sum);
        barrier();
        if (lane < COLUMNS) put(k.at<u32>(OUT) + unit * COLUMNS + lane, publish(tidy(sum * sm.part[0])));
        barrier();
    }
}
