// The input of a product as activations in shared memory, made by every workgroup for
// itself: runtime/ref/act.go. Four lanes take a block of 64, two of them a half of it:
// of the half's eight quads of elements the first has those of even numbers, the second
// the odd ones, which makes whole sectors of what they load together.

// The first quad of an invocation's sixteen elements of a round; the others are at
// distances of two.
DEVICE u32 first_quad(Run &k, u32 round) { return (round * LOCAL + k.lane) / 2u * 8u + k.lane % 2u; }

// Where room has a quad: so that lanes meet different banks.
DEVICE u32 spread(u32 quad) { return quad + quad / 8u * 2u; }

// The activations of a block. A word of them is element e of the four quads of a quarter
// (codes have them in this order), and words of two quarters, which a matrix takes
// together, lie side by side. Of a pair the scale is over 64, and for the sum of the
// integers stands the float 1.5 * 2^23 less 64 times it: where sums of products begin
// (resident_product.cuh).
DEVICE void quantise(Run &k, const Sixteen &x, u32 quad, bool live) {
    float top = 0;
#pragma unroll
    for (u32 i = 0; i < 16; i++) top = largest(top, x.quad[i / 4].v[i % 4]);
    top = largest(top, shuffle_xor(top, 1));
    top = largest(top, shuffle_xor(top, 2));
    bool odd = mag(top) >= INF_BITS, zero = odd || mag(top) < 0x21800000u;
    float d = top * (1.0f / 127.0f), inv = recip(d);
    u32 bytes[4]; // element e of this lane's quads
    int sum = 0;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        u32 q[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) q[i] = bits_of(x.quad[i].v[e] * inv + 0x1.8p23f);
        bytes[e] = __nvvm_prmt(__nvvm_prmt(q[0], q[1], 0x40), __nvvm_prmt(q[2], q[3], 0x40), 0x5410);
        if (zero) bytes[e] = 0;
        sum = dot4(sum, bytes[e], 0x01010101u);
    }
    sum += (int)shuffle_xor((u32)sum, 1);
    sum += (int)shuffle_xor((u32)sum, 2);
    bool second = k.lane % 2u != 0; // has elements 2 and 3 of both lanes' quads in the end
    u32 from_first = second ? 0x1504 : 0x5140, from_last = second ? 0x3726 : 0x7362;
    Quad words;
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        u32 a = bytes[e], b = bytes[e + 2], own = second ? b : a, other = shuffle_xor(second ? a : b, 1);
        words.w[2 * e] = __nvvm_prmt(own, other, from_first);
        words.w[2 * e + 1] = __nvvm_prmt(own, other, from_last);
    }
    if (live) {
        u32 half = quad / 8u;
        sm.acts[2u * half + (second ? 1u : 0u)] = words;
        if (k.lane % 4u == 0) sm.pairs[half / 2u] = {{odd ? INF_BITS : zero ? 0u : bits_of(d * 0.015625f), 0x4b400000u - 64u * (u32)sum}};
    }
}

// residual += what a step gave, if the step says so, and the factor of the norm:
// runtime/ref/rms_norm.go
DEVICE float norm_factor(Run &k, bool live) {
    u32 quad = first_quad(k, 0);
    if ((k.word(FLAGS) & ADDS) != 0) {
        const Quad *x = k.at<const Quad>(X) + quad;
        Quad v[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) v[i].w[e] = live ? EMPTY : 0u;
        bool again = true;
        for (u32 tries = 0; again && patient(k, tries); tries++) {
            again = false;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                if (missing(v[i])) v[i] = peek(x + 2 * i);
                again = again || missing(v[i]);
            }
        }
        bool odd = false;
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                k.residual.quad[i].v[e] = tidy(k.residual.quad[i].v[e] + float_of(v[i].w[e]));
                odd = odd || mag(k.residual.quad[i].v[e]) >= INF_BITS;
            }
        if (odd && live && (k.word(FLAGS) & CHECK) != 0) put(k.batch, 1);
    }
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        if (live) sm.room[spread(quad) + 2 * i] = k.residual.quad[i];
    barrier();
    const float *x = (const float *)(sm.room + spread(k.lane / 4u)) + k.lane % 4u;
    float sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < k.spec.hidden; i += 2048) {
#pragma unroll
        for (u32 n = 0; n < 8; n++)
            if (i + 256u * n < k.spec.hidden) sum = sum + x[n * 320u] * x[n * 320u];
        x += 8u * 320u; // 256 elements are 80 quads
    }
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
    Quad v = peek(x + d);
    Pair l = peek((const Pair *)(x + HEAD_DIM / 4u));
    Four o = {};
    float e = NONE, sum = 0;
#pragma unroll 1
    for (u32 c = 0; c <= last; c++, x += PART / 4u) {
        for (u32 tries = 0; (missing(v) || missing(l)) && patient(k, tries); tries++) {
            if (missing(v)) v = peek(x + d);
            if (missing(l)) l = peek((const Pair *)(x + HEAD_DIM / 4u));
        }
        Four part = four_of(v);
        float next = float_of(l.w[0]), weights = float_of(l.w[1]);
        if (c < last) {
            v = peek(x + PART / 4u + d);
            l = peek((const Pair *)(x + PART / 4u + HEAD_DIM / 4u));
        }
        bool first = c == 0; // nothing is rounded yet
        float m = first || next > e ? next : e, a = first ? 0.0f : pow2(e - m), b = pow2(next - m);
        e = m;
        sum = first ? weights : tidy(mac(weights * b, sum, a));
#pragma unroll
        for (u32 i = 0; i < 4; i++) o.v[i] = first ? part.v[i] : tidy(mac(part.v[i] * b, o.v[i], a));
    }
    float r = recip(sum);
#pragma unroll
    for (u32 i = 0; i < 4; i++) o.v[i] = tidy(o.v[i] * r);
    return o;
}

// Makes the activations of a product, and brings its first slices under way.
DEVICE void make_acts(Run &k, Product &p, Slice ring[RING]) {
    u32 quads = p.nb * 16u, beyond = (0u - p.nb) % 8u, in = k.word(IN);
    if (k.lane < beyond * 4u) sm.acts[p.nb * 4u + k.lane] = {{0, 0, 0, 0}};
    if (k.lane < beyond) sm.pairs[p.nb + k.lane] = {{0, 0x4b400000u}};
    const Quad *x = in == IN_NORM ? (const Quad *)(k.consts + k.word(WEIGHT)) : k.at<const Quad>(X); // weights of the norm, or a row
    Quad ahead[4] = {};
    if (in != IN_JOIN)
#pragma unroll
        for (u32 i = 0; i < 4; i++) ahead[i] = peek(x + min(first_quad(k, 0) + 2 * i, quads - 1u));
#pragma unroll 1
    for (u32 i = 0; i < RING; i++) next(k, p, ring);
    float r = 0;
    if (in == IN_NORM) {
        r = norm_factor(k, first_quad(k, 0) < quads);
    }
#pragma unroll 1
    for (u32 round = 0; round * LOCAL * 4u < quads; round++) {
        u32 quad = first_quad(k, round);
        bool live = quad < quads;
        Sixteen v;
        if (in == IN_JOIN) {
            u32 begin = round * LOCAL * 4u;
            if (round > 0) barrier();
#pragma unroll 1
            for (u32 i = k.lane; i < min(quads - begin, LOCAL * 4u); i += LOCAL) sm.room[spread(i)] = joined(k, begin + i);
            barrier();
#pragma unroll
            for (u32 i = 0; i < 4; i++) v.quad[i] = sm.room[spread(first_quad(k, 0)) + 2 * i];
        } else if (in == IN_ROW) {
            Quad now[4];
            bool again = live;
#pragma unroll
            for (u32 i = 0; i < 4; i++) now[i] = ahead[i];
            for (u32 tries = 0; again && patient(k, tries); tries++) {
                again = false;
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    if (missing(now[i])) now[i] = peek(x + quad + 2 * i);
                    again = again || missing(now[i]);
                }
            }
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                v.quad[i] = four_of(now[i]);
                ahead[i] = peek(x + min(first_quad(k, round + 1u) + 2 * i, quads - 1u));
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                Four weight = four_of(ahead[i]);
#pragma unroll
                for (u32 e = 0; e < 4; e++) v.quad[i].v[e] = k.residual.quad[i].v[e] * r * weight.v[e];
            }
        }
        quantise(k, v, quad, live);
    }
}
