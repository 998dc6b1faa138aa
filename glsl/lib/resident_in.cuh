// The input of a product as activations in shared memory, made by every workgroup for
// itself: runtime/ref/act.go. An invocation has quads of elements, 4 i to 4 i + 3, and
// trades their integers with its neighbours for those of word i, whose bytes are the
// elements (i & ~3) * 4 + (i & 3) + 4 m. Of a pair the scale is over 64, and for the sum
// of the integers stands the float 1.5 * 2^23 less 64 times it: where sums of products
// begin (resident_product.cuh).
DEVICE void quantise(Run &k, Four x, u32 quad, bool live) {
    float top = largest(largest(x.v[0], x.v[1]), largest(x.v[2], x.v[3]));
#pragma unroll
    for (u32 h = 1; h < 16; h *= 2) top = largest(top, shuffle_xor(top, h));
    bool odd = mag(top) >= INF_BITS, zero = odd || mag(top) < 0x21800000u;
    float d = top * (1.0f / 127.0f), inv = recip(d);
    u32 q[4];
#pragma unroll
    for (u32 e = 0; e < 4; e++) q[e] = bits_of(x.v[e] * inv + 12582912.0f);
    u32 word = zero ? 0u : __nvvm_prmt(__nvvm_prmt(q[0], q[1], 0x40), __nvvm_prmt(q[2], q[3], 0x40), 0x5410);
    int sum = dot4(0, word, 0x01010101u);
#pragma unroll
    for (u32 h = 1; h < 16; h *= 2) sum += (int)shuffle_xor((u32)sum, h);
    word = __nvvm_prmt(word, shuffle_xor(word, 1), (k.l & 1u) != 0 ? 0x3715 : 0x6240);
    word = __nvvm_prmt(word, shuffle_xor(word, 2), (k.l & 2u) != 0 ? 0x3276 : 0x5410);
    if (live) ((u32 *)sm.acts)[(quad & ~7u) + quad % 4u * 2u + quad / 4u % 2u] = word; // those of two quarters, which a matrix takes together, side by side
    if (live && quad % 16u == 0) {
        Pair pair = {{odd ? INF_BITS : zero ? 0u : bits_of(d * 0.015625f), 0x4b400000u - 64u * (u32)sum}};
        sm.pairs[quad / 16u] = pair;
    }
}

// residual += what a step gave, if the step says so, and the factor of the norm:
// runtime/ref/rms_norm.go
DEVICE float norm_factor(Run &k) {
    u32 fours = k.spec.hidden / 4u;
    if ((k.word(FLAGS) & ADDS) != 0) {
        const Quad *x = k.at<const Quad>(X);
        Quad v[ROUNDS];
#pragma unroll
        for (u32 i = 0; i < ROUNDS; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) v[i].w[e] = i * LOCAL + k.lane < fours ? EMPTY : 0u;
        bool again = true;
        for (u32 tries = 0; again && patient(k, tries); tries++) {
            again = false;
#pragma unroll
            for (u32 i = 0; i < ROUNDS; i++) {
                if (missing(v[i])) v[i] = peek(x + i * LOCAL + k.lane);
                again = again || missing(v[i]);
            }
        }
        bool odd = false;
#pragma unroll
        for (u32 i = 0; i < ROUNDS; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                k.residual[i].v[e] = tidy(k.residual[i].v[e] + float_of(v[i].w[e]));
                odd = odd || (i * LOCAL + k.lane < fours && mag(k.residual[i].v[e]) >= INF_BITS);
            }
        if (odd && (k.word(FLAGS) & CHECK) != 0) put(k.batch, 1);
    }
#pragma unroll
    for (u32 i = 0; i < ROUNDS; i++)
        if (i * LOCAL + k.lane < fours) sm.room[i * LOCAL + k.lane] = k.residual[i];
    barrier();
    const float *x = (const float *)sm.room + k.lane;
    float sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < k.spec.hidden; i += 2048)
#pragma unroll
        for (u32 n = 0; n < 2048; n += 256)
            if (i + n < k.spec.hidden) sum = sum + x[i + n] * x[i + n];
    sm.part[k.lane] = sum;
    barrier();
    float s[8]; // the tree of 256
#pragma unroll
    for (u32 i = 0; i < 8; i++) s[i] = sm.part[k.l + 32u * i];
#pragma unroll
    for (u32 h = 4; h > 0; h /= 2)
#pragma unroll
        for (u32 i = 0; i < h; i++) s[i] = s[i] + s[i + h];
#pragma unroll
    for (u32 h = 16; h > 0; h /= 2) s[0] = s[0] + shuffle_xor(s[0], h); // either way round
    return rsqrt(s[0] * k.number(INV_K) + k.number(EPS));
}

// A quad of a few chunks of attention, joined: runtime/ref/attention.go
DEVICE Four joined(Run &k, u32 quad) {
    u32 last = k.pos / PAGE, at = quad / (HEAD_DIM / 4u) * k.word(CHUNKS) * (PART / 4u), d = quad % (HEAD_DIM / 4u);
    const Quad *x = k.at<const Quad>(X) + at;
    Quad v[FEW];
    Pair l[FEW];
#pragma unroll
    for (u32 c = 0; c < FEW; c++) {
        u32 w = c <= last ? EMPTY : 0u;
        v[c] = {{w, w, w, w}};
        l[c] = {{w, w}};
    }
    bool again = true;
    for (u32 tries = 0; again && patient(k, tries); tries++) {
        again = false;
#pragma unroll
        for (u32 c = 0; c < FEW; c++) {
            if (missing(v[c])) v[c] = peek(x + c * (PART / 4u) + d);
            if (missing(l[c])) l[c] = peek((const Pair *)(x + c * (PART / 4u) + HEAD_DIM / 4u));
            again = again || missing(v[c]) || missing(l[c]);
        }
    }
    Four o = four_of(v[0]);
    float e = float_of(l[0].w[0]), sum = float_of(l[0].w[1]);
#pragma unroll
    for (u32 c = 1; c < FEW; c++)
        if (c <= last) {
            float next = float_of(l[c].w[0]), m = next > e ? next : e, a = pow2(e - m), b = pow2(next - m);
            e = m;
            sum = tidy(mac(float_of(l[c].w[1]) * b, sum, a));
#pragma unroll
            for (u32 i = 0; i < 4; i++) o.v[i] = tidy(mac(float_of(v[c].w[i]) * b, o.v[i], a));
        }
    float r = recip(sum);
#pragma unroll
    for (u32 i = 0; i < 4; i++) o.v[i] = tidy(o.v[i] * r);
    return o;
}

#define AT_ONCE 4u // quads of an invocation

// Makes the activations of a product, and brings its first slices under way.
DEVICE void make_acts(Run &k, Product &p, Slice ring[RING]) {
    u32 quads = p.nb * 16u, beyond = (0u - p.nb) % 8u, in = k.word(IN);
    if (k.lane < beyond * 4u) sm.acts[p.nb * 4u + k.lane] = {{0, 0, 0, 0}};
    if (k.lane < beyond) sm.pairs[p.nb + k.lane] = {{0, 0x4b400000u}};
    const Quad *x = in == IN_NORM ? (const Quad *)(k.consts + k.word(WEIGHT)) : k.at<const Quad>(X); // weights of the norm, or a row
    Quad next[AT_ONCE] = {};
#pragma unroll
    for (u32 i = 0; i < AT_ONCE; i++)
        if (in != IN_JOIN && i * LOCAL < quads) next[i] = peek(x + min(i * LOCAL + k.lane, quads - 1u));
#pragma unroll
    for (u32 i = 0; i < RING; i++) load(k, p, ring[i]);
    float r = 0;
    if (in == IN_NORM) {
        r = norm_factor(k);
    } else if (in == IN_JOIN) {
#pragma unroll 1
        for (u32 quad = k.lane; quad < quads; quad += LOCAL) sm.room[quad] = joined(k, quad);
    }
#pragma unroll 1
    for (u32 first = 0; first < quads; first += AT_ONCE * LOCAL) {
        Quad now[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            now[i] = next[i];
            u32 quad = first + (AT_ONCE + i) * LOCAL;
            if (in == IN_ROW && quad < quads) next[i] = peek(x + min(quad + k.lane, quads - 1u));
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++)
            if (first + i * LOCAL < quads) {
                u32 quad = first + i * LOCAL + k.lane, place = min(quad, quads - 1u);
                if (in == IN_ROW) {
                    for (u32 tries = 0; missing(now[i]) && patient(k, tries); tries++) now[i] = peek(x + place);
                } else {
                    Four own = sm.room[place], weight = four_of(now[i]);
                    if (in == IN_NORM)
#pragma unroll
                        for (u32 e = 0; e < 4; e++) own.v[e] = own.v[e] * r * weight.v[e];
                    now[i] = quad_of(own);
                }
                quantise(k, four_of(now[i]), quad, quad < quads);
            }
    }
}
