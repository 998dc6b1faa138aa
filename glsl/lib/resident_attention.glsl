// Norm and rope of a token's heads (runtime/ref/qkv_rope_cache_f16.go) and attention
// over chunks (runtime/ref/attention.go). A workgroup prepares the queries of a kv head,
// or of two; the one that has a head's last chunk writes key and value to the cache.
// Few chunks are taken by a whole workgroup each, from shared memory. Many, those of all
// heads in a row, are shared out evenly, and each 32 invocations take one (a crew): two
// positions each for the scores, a 32nd of the dimensions each for the values.
const uint CREWS = LOCAL / 32u, EIGHTS = HEAD_DIM / 8u, EACH = HEAD_DIM / 32u, WORDS = EACH / 2u;
const uint HEADS = PAGE * EIGHTS;                 // where in room the queries are, behind a chunk's keys or values,
const uint NEW = HEADS + QUERIES * HEAD_DIM / 2u; // the new key and value,
const uint PACKED = NEW + HEAD_DIM / 2u;          // the same as the cache has them,
const uint WEIGHTS = PACKED + HEAD_DIM / 4u;      // and weights: [query][position]; crews have theirs in front
const uint CREW_WEIGHTS = QUERIES * PAGE / 4u;

#ifdef SHUFFLE
void crew_sync() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}
float crew_max(float v) {
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) {
        float other = subgroupShuffleXor(v, h);
        v = other > v ? other : v;
    }
    return v;
}
void crew_maxima(inout float v[QUERIES]) {
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) [[unroll]] for (uint g = 0u; g < QUERIES; g++) {
        float other = subgroupShuffleXor(v[g], h);
        v[g] = other > v[g] ? other : v[g];
    }
}
// Of 32 values the sum by halves, for all: v[i] += v[i + h], h = 16 .. 1.
float crew_tree(float v) {
    [[unroll]] for (uint h = 16u; h > 0u; h /= 2u) v = add(v, subgroupShuffleDown(v, h));
    return subgroupShuffle(v, 0u);
}
#else
void crew_sync() { barrier(); }
float crew_max(float v) {
    uint lane = gl_LocalInvocationIndex;
    barrier();
    lanes[lane].x = v;
    barrier();
    [[unroll]] for (uint i = 0u; i < 32u; i++) v = lanes[(lane & ~31u) + i].x > v ? lanes[(lane & ~31u) + i].x : v;
    return v;
}
void crew_maxima(inout float v[QUERIES]) {
    [[unroll]] for (uint g = 0u; g < QUERIES; g++) v[g] = crew_max(v[g]);
}
float crew_tree(float v) {
    uint lane = gl_LocalInvocationIndex;
    barrier();
    lanes[lane].x = v;
    for (uint h = 16u; h > 0u; h /= 2u) {
        barrier();
        if (lane % 32u < h) lanes[lane].x = add(lanes[lane].x, lanes[lane + h].x);
    }
    barrier();
    return lanes[lane & ~31u].x;
}
#endif

// What is under way: 4 eighths of the keys of each of two positions, or the values of 16
// or 8 positions, two by two.
const uint AHEAD = QUERIES > 2u ? 8u : 16u;
uvec4 under_way[8];

void ask_keys(Quads keys, uint at) { [[unroll]] for (uint i = 0u; i < 8u; i++) under_way[i] = keys.v[at + i / 2u * PAGE + 32u * (i % 2u)]; }
void ask_values(WordPairs values, uint at) {
    [[unroll]] for (uint i = 0u; i < AHEAD / 2u; i++) under_way[i] = uvec4(values.v[at + 2u * i * (HEAD_DIM / 4u)], values.v[at + (2u * i + 1u) * (HEAD_DIM / 4u)]);
}

// The heads of a kv head, or of two, one for each crew: n queries, from the given one on,
// to room, and, for the last chunk of the first, the new key and value. Invocation l of a
// crew has the elements l + 32 i.
void prepare_heads(uint head, uint query, uint n, bool fresh) {
    const uint BOTH = 2u * QUERIES;
    uint l = gl_LocalInvocationIndex % 32u, crew = gl_LocalInvocationIndex / 32u, heads = KV_HEADS * QUERIES;
    Comings x = Comings(address(X));
    for (uint first = 0u; first < BOTH + 2u; first += CREWS) {
        uint slot = first + crew;
        bool is_q = slot < BOTH, is_v = slot == BOTH + 1u, live = is_q ? slot - query < n : fresh && slot < BOTH + 2u;
        uint at = (is_q ? head * QUERIES + slot : heads + (is_v ? KV_HEADS : 0u) + head) * HEAD_DIM;
        uint norm = is_q ? word(WEIGHT) : word(K_NORM), angles = word(ROPE) + pos * HEAD_DIM;
        float v[EACH], weight[EACH], c[EACH / 2u], s[EACH / 2u], squares[EACH];
        uint got[EACH];
        [[unroll]] for (uint i = 0u; i < EACH; i++) {
            weight[i] = consts[norm + l + 32u * i];
            got[i] = live ? EMPTY : 0u;
        }
        [[unroll]] for (uint i = 0u; i < EACH / 2u; i++) {
            c[i] = consts[angles + (l + 32u * i) * 2u];
            s[i] = consts[angles + (l + 32u * i) * 2u + 1u];
        }
        bool again = live;
        for (uint tries = 0u; again && patient(tries); tries++) {
            [[unroll]] for (uint i = 0u; i < EACH; i++) if (got[i] == EMPTY) got[i] = x.v[at + l + 32u * i];
            again = false;
            [[unroll]] for (uint i = 0u; i < EACH; i++) again = again || got[i] == EMPTY;
        }
        [[unroll]] for (uint i = 0u; i < EACH; i++) {
            v[i] = uintBitsToFloat(got[i]);
            squares[i] = mul(v[i], v[i]);
        }
        [[unroll]] for (uint h = EACH / 2u; h > 0u; h /= 2u) [[unroll]] for (uint i = 0u; i < h; i++) squares[i] = add(squares[i], squares[i + h]);
        float r = rsqrt(add(mul(crew_tree(squares[0]), number(INV_K)), number(EPS)));
        if (!is_v) [[unroll]] for (uint i = 0u; i < EACH / 2u; i++) {
            float a = mul(mul(v[i], r), weight[i]), b = mul(mul(v[i + EACH / 2u], r), weight[i + EACH / 2u]);
            v[i] = sub(mul(a, c[i]), mul(b, s[i]));
            v[i + EACH / 2u] = add(mul(a, s[i]), mul(b, c[i]));
        }
        if (live) [[unroll]] for (uint i = 0u; i < EACH; i++) {
            uint e = slot * HEAD_DIM + l + 32u * i; // key and value follow the queries
            room[HEADS + e / 4u][e % 4u] = is_q ? tidy(round13(mul(v[i], number(Q_SCALE)))) : v[i];
        }
    }
    barrier();
}

// Where exponents and sums of weights of chunks lie, behind the values.
uint sums_at() { return KV_HEADS * QUERIES * HEAD_DIM * word(CHUNKS); }

uint saturates(float x) { return uint(mag(x) >= 0x477ff000u && mag(x) < INF_BITS); }

// Key and value go to the cache, from one of the workgroups that have them, and to shared memory for the workgroup, which need
// not wait for the cache then.
void store_new(uint page, uint head, bool cached) {
    Words cache = Words(address(Y));
    uint full = 0u;
    for (uint i = gl_LocalInvocationIndex; i < HEAD_DIM; i += LOCAL) { // words of the key, then of the value
        vec4 four = room[NEW + i / 2u];
        vec2 two = i % 2u == 0u ? four.xy : four.zw;
        uint w = f16_rte(two.x) | (f16_rte(two.y) << 16), d = 2u * i % HEAD_DIM;
        room[PACKED + i / 4u][i % 4u] = uintBitsToFloat(w);
        if (cached) cache.v[2u * i < HEAD_DIM ? key_word(page, head, pos, d) : word(V_BASE) + value_word(page, head, pos, d)] = w;
        full += saturates(two.x) + saturates(two.y);
    }
    if (cached && full != 0u) atomicAdd(batch[1], full);
    barrier();
}

// Eight dimensions of the new key, and word i of the new value.
uvec4 new_key(uint eight) { return floatBitsToUint(room[PACKED + eight]); }
uint new_value(uint i) { return floatBitsToUint(room[PACKED + HEAD_DIM / 8u + i / 4u][i % 4u]); }

// One chunk, by a crew, with queries at a place in room; in step with the other crews
// only where there are no subgroups.
void attend_many(uint page, uint head, uint queries, uint c, bool works) {
    uint crew = gl_LocalInvocationIndex / 32u, l = gl_LocalInvocationIndex % 32u, weights = crew * CREW_WEIGHTS;
    uint live = min(PAGE, pos + 1u - c * PAGE);
    float s[QUERIES][2];
    Quads keys = Quads(address(Y));
    WordPairs values = WordPairs(address(Y));
    uint values_at = (word(V_BASE) + value_word(page, head, 0u, l * EACH)) / 2u;
    [[unroll]] for (uint g = 0u; g < QUERIES; g++) s[g][0] = s[g][1] = 0.0;
    if (works) {
        uint at = key_word(page, head, l, 0u) / 4u;
        uvec4 k[8];
        uint fresh = pos / PAGE == c ? pos % PAGE : PAGE; // the position whose key is new
        [[dont_unroll]] for (uint d0 = 0u; d0 < EIGHTS; d0 += 4u) {
            k = under_way;
            if (l == fresh % 32u && fresh < PAGE) [[unroll]] for (uint d = 0u; d < 4u; d++) {
                if (fresh < 32u) k[2u * d] = new_key(d0 + d);
                else k[2u * d + 1u] = new_key(d0 + d);
            }
            at += 4u * PAGE;
            if (d0 + 4u < EIGHTS) ask_keys(keys, at);
            else ask_values(values, values_at);
            [[unroll]] for (uint d = 0u; d < 4u; d++) [[unroll]] for (uint h = 0u; h < 2u; h++) {
                vec4 key[2];
                [[unroll]] for (uint i = 0u; i < 2u; i++) key[i] = vec4(f32_of(k[2u * d + i][2u * h]), f32_of(k[2u * d + i][2u * h + 1u]));
                [[unroll]] for (uint g = 0u; g < QUERIES; g++) {
                    vec4 q = room[queries + g * (HEAD_DIM / 4u) + 2u * (d0 + d) + h];
                    [[unroll]] for (uint i = 0u; i < 2u; i++)
                        s[g][i] = mac(mac(mac(mac(s[g][i], q.x, key[i].x), q.y, key[i].y), q.z, key[i].z), q.w, key[i].w);
                }
            }
        }
    }
    // Scores become weights, of all queries side by side and without branches, so that
    // one fills the waits of others.
    const float none = -uintBitsToFloat(INF_BITS);
    float mine = 0.0, e[QUERIES]; // the exponent of query l
    [[unroll]] for (uint g = 0u; g < QUERIES; g++) {
        [[unroll]] for (uint i = 0u; i < 2u; i++) s[g][i] = l + 32u * i < live ? s[g][i] : none;
        e[g] = s[g][1] > s[g][0] ? s[g][1] : s[g][0];
    }
    crew_maxima(e);
    [[unroll]] for (uint g = 0u; g < QUERIES; g++) {
        e[g] = tidy(roundEven(e[g]));
        mine = l == g ? e[g] : mine;
        [[unroll]] for (uint i = 0u; i < 2u; i++) {
            float w = round13(exp2_(sub(s[g][i], e[g])));
            room[weights + g * (PAGE / 4u) + 8u * i + l / 4u][l % 4u] = l + 32u * i < live ? w : 0.0;
        }
    }
    crew_sync();
    if (works) {
        uint unit = head * QUERIES * EACH * word(CHUNKS) + c;
        float o[QUERIES][EACH];
        [[unroll]] for (uint g = 0u; g < QUERIES; g++) [[unroll]] for (uint i = 0u; i < EACH; i++) o[g][i] = 0.0;
        float sum = 0.0;
        [[dont_unroll]] for (uint k = 0u; k < live; k += AHEAD) {
            uvec4 v[8] = under_way;
            if (pos / PAGE == c && k + AHEAD >= live) // the last position's value is new, those beyond have weights of +0
                [[unroll]] for (uint n = 0u; n < AHEAD; n++) if (k + n + 1u >= live) {
                    v[n / 2u][n % 2u * 2u] = new_value(l * WORDS);
                    v[n / 2u][n % 2u * 2u + 1u] = new_value(l * WORDS + 1u);
                }
            values_at += AHEAD * (HEAD_DIM / 4u);
            if (k + AHEAD < live) ask_values(values, values_at);
            [[unroll]] for (uint f = 0u; f < AHEAD / 4u; f++) {
                if (l < QUERIES) { // the sum of weights of a query each
                    vec4 w = room[weights + l * (PAGE / 4u) + k / 4u + f];
                    sum = add(add(add(add(sum, w.x), w.y), w.z), w.w);
                }
                vec2 a[4], b[4];
                [[unroll]] for (uint n = 0u; n < 4u; n++) {
                    a[n] = f32_of(v[2u * f + n / 2u][n % 2u * 2u]);
                    b[n] = f32_of(v[2u * f + n / 2u][n % 2u * 2u + 1u]);
                }
                [[unroll]] for (uint g = 0u; g < QUERIES; g++) {
                    vec4 w = room[weights + g * (PAGE / 4u) + k / 4u + f];
                    [[unroll]] for (uint n = 0u; n < 4u; n++) { // exact products
                        o[g][0] = mac(o[g][0], w[n], a[n].x);
                        o[g][1] = mac(o[g][1], w[n], a[n].y);
                        o[g][2] = mac(o[g][2], w[n], b[n].x);
                        o[g][3] = mac(o[g][3], w[n], b[n].y);
                    }
                }
            }
        }
        Quads quads = Quads(address(OUT));
        WordPairs pairs = WordPairs(address(OUT));
        [[unroll]] for (uint g = 0u; g < QUERIES; g++) { // four dimensions of a unit each
            uvec4 four;
            [[unroll]] for (uint i = 0u; i < EACH; i++) four[i] = publish(tidy(o[g][i]));
            quads.v[(unit + (g * EACH + l / 8u) * word(CHUNKS)) * 8u + l % 8u] = four;
        }
        if (l < QUERIES) [[unroll]] for (uint i = 0u; i < EACH; i++)
            pairs.v[sums_at() / 2u + unit + (l * EACH + i) * word(CHUNKS)] = uvec2(publish(mine), publish(tidy(sum)));
    }
    crew_sync();
}

// A chunk of keys or values as it lies in the cache, under way.
const uint SHARE_OF_CHUNK = (PAGE * EIGHTS + LOCAL - 1u) / LOCAL;
uvec4 chunk_keys[SHARE_OF_CHUNK], chunk_values[SHARE_OF_CHUNK];

void ask_chunk(uint page, uint head) {
    Quads cache = Quads(address(Y));
    uint keys = key_word(page, head, 0u, 0u) / 4u, values = (word(V_BASE) + value_word(page, head, 0u, 0u)) / 4u;
    [[unroll]] for (uint i = 0u; i < SHARE_OF_CHUNK; i++) {
        chunk_keys[i] = cache.v[keys + i * LOCAL + gl_LocalInvocationIndex];
        chunk_values[i] = cache.v[values + i * LOCAL + gl_LocalInvocationIndex];
    }
}

// The chunk's keys, or values, to room; the new position's last, those beyond are 0.
void put_keys() {
    [[unroll]] for (uint i = 0u; i < SHARE_OF_CHUNK; i++) room[i * LOCAL + gl_LocalInvocationIndex] = uintBitsToFloat(chunk_keys[i]);
}
void put_values(uint live, bool fresh) {
    [[unroll]] for (uint i = 0u; i < SHARE_OF_CHUNK; i++) {
        uint at = i * LOCAL + gl_LocalInvocationIndex, position = at / EIGHTS;
        uvec4 v = position < live ? chunk_values[i] : uvec4(0u);
        if (fresh && position + 1u == live) v = floatBitsToUint(room[PACKED + EIGHTS + at % EIGHTS]);
        room[at] = uintBitsToFloat(v);
    }
}

// One chunk, by the workgroup, with n queries from the given one on: its keys are in
// room, the values go there.
void attend_few(uint head, uint c, uint query, uint n) {
    uint lane = gl_LocalInvocationIndex, live = min(PAGE, pos + 1u - c * PAGE);
    bool fresh = pos / PAGE == c;
    if (fresh && lane < EIGHTS) room[lane * PAGE + live - 1u] = room[PACKED + lane];
    barrier();
    // Scores: an invocation each.
    for (uint first = query * PAGE; first < (query + n) * PAGE; first += LOCAL) {
        uint i = first + lane, j = i % PAGE, g = min(i / PAGE, QUERIES - 1u);
        float s = 0.0;
        if (i < (query + n) * PAGE) {
            [[dont_unroll]] for (uint d0 = 0u; d0 < EIGHTS; d0 += 4u) [[unroll]] for (uint d = d0; d < d0 + 4u; d++) {
                uvec4 k = floatBitsToUint(room[d * PAGE + j]);
                vec4 a = room[HEADS + g * (HEAD_DIM / 4u) + 2u * d], b = room[HEADS + g * (HEAD_DIM / 4u) + 2u * d + 1u];
                vec2 k0 = f32_of(k.x), k1 = f32_of(k.y), k2 = f32_of(k.z), k3 = f32_of(k.w);
                s = mac(mac(mac(mac(s, a.x, k0.x), a.y, k0.y), a.z, k1.x), a.w, k1.y);
                s = mac(mac(mac(mac(s, b.x, k2.x), b.y, k2.y), b.z, k3.x), b.w, k3.y);
            }
            room[WEIGHTS + i / 4u][i % 4u] = j < live ? s : -uintBitsToFloat(INF_BITS);
        }
    }
    barrier();
    put_values(live, fresh);
    for (uint first = query * PAGE; first < (query + n) * PAGE; first += LOCAL) {
        uint i = first + lane, j = i % PAGE, g = min(i / PAGE, QUERIES - 1u);
        float s = room[WEIGHTS + min(i, QUERIES * PAGE - 1u) / 4u][i % 4u], other = room[WEIGHTS + (g * PAGE + (j ^ 32u)) / 4u][j % 4u];
        float e = tidy(roundEven(crew_max(other > s ? other : s)));
        barrier();
        if (i < (query + n) * PAGE) {
            room[WEIGHTS + i / 4u][i % 4u] = j < live ? round13(exp2_(sub(s, e))) : 0.0;
            if (j < EACH) Words(address(OUT)).v[sums_at() + 2u * (((head * QUERIES + g) * EACH + j) * word(CHUNKS) + c)] = publish(e);
        }
    }
    barrier();
    // Values: two dimensions each; and the sums of weights, which others add meanwhile.
    const uint PAIRS = HEAD_DIM / 2u;
    uint values = n * PAIRS;
    for (uint i = lane; i < values + 32u * n; i += LOCAL) {
        uint g = query + (i < values ? i / PAIRS : (i - values) / 32u), pair = i % PAIRS, weights = WEIGHTS + g * (PAGE / 4u);
        uint unit = (head * QUERIES + g) * EACH + (i < values ? pair / 16u : i % 32u);
        if (i < values) {
            vec2 o = vec2(0.0);
            uint at = pair / 4u, e = pair % 4u;
            [[dont_unroll]] for (uint k = 0u; k < live; k += 16u) {
                [[unroll]] for (uint f = 0u; f < 4u; f++) {
                    vec4 w = room[weights + f];
                    [[unroll]] for (uint m = 0u; m < 4u; m++) // exact products
                        o = fma(vec2(w[m]), f32_of(floatBitsToUint(room[at + (4u * f + m) * EIGHTS][e])), o);
                }
                at += 16u * EIGHTS;
                weights += 4u;
            }
            WordPairs(address(OUT)).v[((unit * word(CHUNKS) + c) * COLUMNS + 2u * pair % COLUMNS) / 2u] = uvec2(publish(tidy(o.x)), publish(tidy(o.y)));
        } else {
            float sum = 0.0;
            [[dont_unroll]] for (uint k = 0u; k < live; k += 8u) [[unroll]] for (uint f = 0u; f < 2u; f++) {
                vec4 w = room[weights + k / 4u + f];
                sum = add(add(add(add(sum, w.x), w.y), w.z), w.w);
            }
            if (i % 32u < EACH) Words(address(OUT)).v[sums_at() + 2u * (unit * word(CHUNKS) + c) + 1u] = publish(tidy(sum));
        }
    }
    barrier();
}

// The same in all layers: where the page table begins, the page of the last position and
// that of this invocation's first chunk. Few chunks: how many workgroups serve
// a head, which of them this is, and by how many a chunk's queries are shared, if there
// are enough (QUERIES is a power of two). Many: this workgroup's, counted through all heads.
uint pages, last_page, chunk_page;
bool few;
uint mates, me, sharers;
uint begin_chunk, end_chunk;

void place(uint table) {
    uint groups = gl_NumWorkGroups.x, last = pos / PAGE, all = KV_HEADS * (last + 1u);
    mates = groups < KV_HEADS ? 1u : (groups - gl_WorkGroupID.x % KV_HEADS + KV_HEADS - 1u) / KV_HEADS;
    me = groups < KV_HEADS ? 0u : gl_WorkGroupID.x / KV_HEADS;
    sharers = QUERIES;
    while (sharers > 1u && (last + 1u) * sharers > mates) sharers /= 2u;
    few = last < 4u * max(groups / KV_HEADS, 1u);
    begin_chunk = gl_WorkGroupID.x * all / groups;
    end_chunk = (gl_WorkGroupID.x + 1u) * all / groups;
    pages = table;
    last_page = batch[pages + last];
    chunk_page = batch[pages + (few ? min(me / sharers, last) : min(begin_chunk + gl_LocalInvocationIndex / 32u, end_chunk - 1u) % (last + 1u))];
}

void attention_few() {
    uint last = pos / PAGE;
    uint first = me / sharers, n = QUERIES / sharers, query = me % sharers * n;
    bool fresh = last % (mates / sharers) == first;
    for (uint head = gl_WorkGroupID.x % KV_HEADS; head < KV_HEADS && first <= last; head += min(gl_NumWorkGroups.x, KV_HEADS)) {
        [[unroll]] for (uint i = 0u; i < SHARE_OF_CHUNK; i++) chunk_values[i] = uvec4(0u); // so that registers hold nothing until here
        ask_chunk(chunk_page, head);
        put_keys();
        prepare_heads(head, query, n, fresh);
        if (fresh) store_new(last_page, head, query == 0u);
        for (uint c = first;;) {
            attend_few(head, c, query, n);
            c += mates;
            if (c > last) break;
            ask_chunk(batch[pages + c], head);
            put_keys();
            barrier();
        }
        barrier();
    }
}

void attention_many() {
    uint chunks = pos / PAGE + 1u, crew = gl_LocalInvocationIndex / 32u, l = gl_LocalInvocationIndex % 32u;
    Quads keys = Quads(address(Y));
    for (uint from = begin_chunk, to; from < end_chunk; from = to) {
        // The chunks of a head, and those but the last of the next one.
        uint head = from / chunks, border = (head + 1u) * chunks;
        to = min(end_chunk, border + chunks - 1u);
        [[unroll]] for (uint i = 0u; i < 8u; i++) under_way[i] = uvec4(0u); // so that registers hold nothing until here
        uint at = min(from + crew, to - 1u), own = head + uint(at >= border), page = chunk_page;
        if (from > begin_chunk) page = batch[pages + at % chunks];
        ask_keys(keys, key_word(page, own, l, 0u) / 4u);
        prepare_heads(head, 0u, to > border ? 2u * QUERIES : QUERIES, to >= border);
        if (to >= border) store_new(last_page, head, true);
        [[dont_unroll]] for (uint first = from; first < to; first += CREWS) {
            uint next = min(at + CREWS, end_chunk - 1u), next_page = batch[pages + next % chunks];
            attend_many(page, own, HEADS + (own - head) * (QUERIES * HEAD_DIM / 4u), at - own * chunks, first + crew < to);
            at = next;
            own = head + uint(at >= border);
            page = next_page;
            if (first + CREWS < to) ask_keys(keys, key_word(page, own, l, 0u) / 4u);
        }
        barrier();
    }
}

void attention() {
    if (few) attention_few();
    else attention_many();
}

// Many chunks joined to a row. A workgroup takes a unit at a time, and nobody else reads
// what the unit's chunks gave, so words are waited for, and empty again for the next
// layer. All but two crews bring chunks to room: records of 32 values, the sum of
// weights and the exponent. The first crew adds values in order, the second weights.
const uint RECORD = COLUMNS / 4u + 1u; // vec4
const uint QUADS_EACH = 5u, STRIDE = LOCAL / 8u - 8u; // chunks from one to the next of an invocation that brings them
const uint SPAN = QUADS_EACH * STRIDE, BATCH = min(SPAN, 160u); // chunks under way, and in room
const uint FACTORS = (BATCH + 31u) / 32u * 32u * RECORD, FOURS_OF_FACTORS = (BATCH + 31u) / 32u * 8u; // of each of the two crews
const uint CREW_EACH = (BATCH + 31u) / 32u;

// Chunks in order, as runtime/ref/attention.go has it: sum = tidy(sum * factor + part * factor).
float in_order(float sum, float top, bool first, uint column, uint count) {
    [[dont_unroll]] for (uint c = 0u; c < count; c++) {
        float e = room[c * RECORD + RECORD - 1u].y, part = room[c * RECORD + column / 4u][column % 4u], m = first || e > top ? e : top;
        sum = first ? part : tidy(mac(mul(part, pow2(sub(e, m))), sum, pow2(sub(top, m))));
        top = m;
        first = false;
    }
    return sum;
}

// The same with the exponents' maximum known, and all parts and sums as multiples of its
// power: an exact product and a sum for each chunk. It does not hold where parts are too
// far below the maximum, whose factors are no numbers then, or where tidy changes a sum.
float in_order_of(float sum, float before, float top, float e[CREW_EACH], bool first, uint column, uint count) {
    const float odd = uintBitsToFloat(0x7fc00000u);
    uint crew = gl_LocalInvocationIndex / 32u, l = gl_LocalInvocationIndex % 32u, factors = FACTORS + min(crew, 1u) * FOURS_OF_FACTORS;
    [[unroll]] for (uint i = 0u; i < CREW_EACH; i++) {
        uint c = l + 32u * i;
        float d = sub(e[i], top);
        if (crew < 2u && c < FOURS_OF_FACTORS * 4u) room[factors + c / 4u][c % 4u] = c >= count ? 0.0 : d >= -60.0 ? pow2(d) : odd;
    }
    crew_sync();
    if (crew > 1u) return 0.0;
    float d = sub(before, top), s = first ? 0.0 : d >= -60.0 ? mul(sum, pow2(d)) : odd;
    uint low = INF_BITS;
    uint at = column / 4u, element = column % 4u;
    [[dont_unroll]] for (uint c = 0u; c < count; c += 32u) {
        float part[32];
        vec4 factor[8];
        [[unroll]] for (uint i = 0u; i < 32u; i++) part[i] = room[at + i * RECORD][element];
        [[unroll]] for (uint i = 0u; i < 8u; i++) factor[i] = room[factors + i];
        [[unroll]] for (uint i = 0u; i < 32u; i++) {
            s = mac(s, part[i], factor[i / 4u][i % 4u]);
            low = min(low, mag(s));
        }
        at += 32u * RECORD;
        factors += 8u;
    }
    return low >= 0x21800000u && s == s ? s : in_order(sum, before, first, column, count);
}

void join_chunks() {
    uint lane = gl_LocalInvocationIndex, last = pos / PAGE, l = lane % 32u, column = min(lane, COLUMNS);
    bool brings = lane >= 64u;
    ComingQuads x = ComingQuads(address(X));
    ComingPairs sums = ComingPairs(address(X));
    for (uint unit = gl_WorkGroupID.x; unit < KV_HEADS * QUERIES * EACH; unit += gl_NumWorkGroups.x) {
        float sum = 0.0, top = 0.0;
        [[dont_unroll]] for (uint from = 0u; from <= last; from += SPAN) {
            uint first = (lane - 64u) / 8u, at[QUADS_EACH]; // chunks beyond the last are that again, and do not count
            uvec4 v[QUADS_EACH];
            uvec2 el[QUADS_EACH];
            [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) {
                at[i] = unit * word(CHUNKS) + min(from + first + i * STRIDE, last);
                v[i] = uvec4(0u);
                el[i] = uvec2(0u);
            }
            bool again = brings;
            for (uint tries = 0u; again && patient(tries); tries++) {
                again = false;
                [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) el[i] = sums.v[sums_at() / 2u + at[i]];
                [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) v[i] = x.v[at[i] * 8u + lane % 8u];
                [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) again = again || missing(el[i].xyxy) || missing(v[i]);
            }
            [[dont_unroll]] for (uint begin = from; begin <= last && begin < from + SPAN; begin += BATCH) {
                uint count = min(min(last + 1u, from + SPAN) - begin, BATCH);
                [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) {
                    uint c = from + first + i * STRIDE - begin;
                    if (brings && c < BATCH) {
                        room[c * RECORD + lane % 8u] = uintBitsToFloat(v[i]);
                        if (lane % 8u == 0u) room[c * RECORD + 8u].xy = uintBitsToFloat(el[i]).yx;
                    }
                }
                barrier();
                if (brings && begin == from) {
                    [[unroll]] for (uint i = 0u; i < QUADS_EACH; i++) {
                        x.v[at[i] * 8u + lane % 8u] = uvec4(EMPTY);
                        if (lane % 8u == 0u) sums.v[sums_at() / 2u + at[i]] = uvec2(EMPTY);
                    }
                    memoryBarrierBuffer(); // before the row tells that there may be others
                }
                float e[CREW_EACH], before = top, most = begin == 0u ? -uintBitsToFloat(INF_BITS) : top;
                [[unroll]] for (uint i = 0u; i < CREW_EACH; i++) {
                    e[i] = room[min(l + 32u * i, count - 1u) * RECORD + 8u].y;
                    most = e[i] > most ? e[i] : most;
                }
                top = crew_max(most);
                sum = in_order_of(sum, before, top, e, begin == 0u, column, count);
                barrier();
            }
        }
        if (lane == COLUMNS) part[0] = recip(sum);
        barrier();
        if (lane < COLUMNS) Words(address(OUT)).v[unit * COLUMNS + lane] = publish(tidy(mul(sum, part[0])));
        barrier();
    }
}
