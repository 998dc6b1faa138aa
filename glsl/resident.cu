// Whole tokens in one dispatch, resident.comp in CUDA: the same tape, arenas and words.
// What differs is how products are made, in resident_product.cuh, how workgroups wait,
// and that a dispatch can go on with what it chose, for tokens of one page.
// QUERIES is the number of query heads that read a kv head.
#include "memory.cuh"

#define LOCAL 256u
#define WARPS (LOCAL / 32u)
#define HEAD_DIM 128u
#define PAGE 64u

struct Push { u32 steps, positions, tables, tokens; };
struct Spec { u32 head_dim, kv_heads, blocks, room, hidden, share; };

// The words of a step, as plan/tape.go writes them.
#define STEP_WORDS 32u
enum { OP, IN, ROWS, NB, FLAGS, WEIGHT, INV_K, EPS, V_BASE, K_NORM, ROPE, Q_SCALE, CHUNKS = 13 };
enum { RESULT = 8, TOKEN = 8, TOKEN_PLACE, QUADS = 9, FOLLOW = 2 };
enum { SLICES = 8, UNITS, MORE, MOST, PER, STEP_UNITS = 14, STEP_SLICES };
enum { CODES = 16, SCALES = 18, X = 20, Y = 22, COUNTS = 24, OUT = 26 };
enum { OP_EMBED, OP_PRODUCT, OP_ATTENTION, OP_JOIN, OP_BEST, OP_CHOOSE };
enum { IN_NORM, IN_JOIN, IN_ROW };
enum { ADDS = 1, SILU = 2, CHECK = 4 };

#define MAX_NB 208u // blocks of the longest product
#define ROOM 1728u      // shared memory for other things
#define FEW 4u                // chunks up to which every workgroup joins them for itself
#define PART (HEAD_DIM + 4u)  // words of a chunk of a head: values, exponent and sum of weights, two of no use
#define EMPTY 0x7fedcba9u     // a NaN that publish never writes, and no index
#define PATIENCE (1u << 21)
#define UNIT 16u              // rows that a warp takes at once
#define NONE float_of(0xff800000u)

// Where a workgroup's share of attention is, the same in all layers: where the page table
// begins, the page of the last position and those of the warps' first chunks. Few chunks:
// how many workgroups serve a head, and which of them this is. Many: this workgroup's,
// counted through all heads.
struct Place {
    u32 pages, last_page, chunk_page[WARPS];
    u32 mates, me, begin_chunk, end_chunk;
    bool few;
};

struct Memory {
    union {
        struct {
            Four room[ROOM];
            Quad acts[MAX_NB * 4u];
        };
        Four all[ROOM + MAX_NB * 4u]; // of a join of many chunks
    };
    Quad zeros[4];
    Pair pairs[MAX_NB];
    u32 step[2][STEP_WORDS];
    float part[256];
    Place place;
    u32 token; // that was chosen
    u32 stop;  // something did not come for seconds: not all workgroups are on the device
};
static SHARED Memory sm;

// Beside the tape: workgroups that are done, the arena that is in use between
// dispatches, and the choice that a dispatch goes on with: its number, which only
// grows, and the token.
struct Turn {
    u32 left, arena;
    Pair choice;
};

// The residual's elements of an invocation, see resident_in.cuh.
struct Sixteen { Four quad[4]; };

// What an invocation knows of the token.
struct Run {
    const u32 *tape;
    Turn *turn;
    const float *consts;
    u32 *batch, *late;
    Push push;
    Spec spec;
    u32 lane, warp, l; // number in the workgroup, that of the warp, and in the warp
    u32 in_turn, pos;  // the arena of the token, and its position
    u32 more;          // tokens that follow in this dispatch
    u32 choice;        // the number of the last, see Turn
    u32 now;           // which of sm.step
    Sixteen residual; // every workgroup has all of it, an invocation as first_quad says

    __attribute__((device)) u32 word(u32 i) const { return sm.step[now][i]; }
    __attribute__((device)) float number(u32 i) const { return float_of(word(i)); }
    template <class T> __attribute__((device)) T *at(u32 i) const { return (T *)*(const u64 *)&sm.step[now][i]; }
};

DEVICE u32 publish(float x) { return bits_of(x) == EMPTY ? 0x7fc00000u : bits_of(x); }
DEVICE bool missing(Quad v) { return v.w[0] == EMPTY || v.w[1] == EMPTY || v.w[2] == EMPTY || v.w[3] == EMPTY; }
DEVICE bool missing(Pair v) { return v.w[0] == EMPTY || v.w[1] == EMPTY; }

// Whether to ask once more.
DEVICE bool patient(Run &k, u32 tries) {
    if (tries < PATIENCE) return true;
    sm.stop = 1;
    put(k.late, 1);
    return false;
}

// Word i of the step s of the tape for an arena, if there is one.
DEVICE u32 tape_word(Run &k, u32 arena, u32 s, u32 i) {
    return s < k.push.steps && i < STEP_WORDS ? k.tape[(arena * k.push.steps + s) * STEP_WORDS + i] : 0u;
}

#include "resident_product.cuh"
#include "resident_attention.cuh"
#include "resident_best.cuh"

// The row of the embedding: runtime/ref/get_rows_q2_0.go
DEVICE void embed(Run &k) {
    u32 nb = k.word(NB), row = min(sm.token, k.word(ROWS) - 1u); // none was chosen if logits are not finite
    u32 fours = (((nb - 1u) >> k.spec.share) + 4u) / 4u;
    const u32 *codes = k.at<const u32>(CODES), *scales = k.at<const u32>(SCALES);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 quad = first_quad(k, 0) + 2u * i, b = min(quad / 16u, nb - 1u), s = b >> k.spec.share;
        u32 q = codes[((row / 32u * nb + b) * 32u + row % 32u) * 4u + quad / 4u % 4u] >> (8u * (quad % 4u));
        u32 two = scales[((row / 32u * fours + s / 4u) * 32u + row % 32u) * 2u + s / 2u % 2u];
        float d = low_half(two >> (s % 2u * 16u));
#pragma unroll
        for (u32 e = 0; e < 4; e++) k.residual.quad[i].v[e] = tidy((float)((int)((q >> (2u * e)) & 3u) - 1) * d);
    }
}

// Empties this workgroup's share of the next token's arena, which no one reads any more.
DEVICE void empty_next(Run &k) {
    Quad *arena = k.at<Quad>(OUT);
    const Quad none = {{EMPTY, EMPTY, EMPTY, EMPTY}};
    for (u32 i = group_x() * LOCAL + k.lane; i < k.word(QUADS); i += groups_x() * LOCAL) put(arena + i, none);
}

KERNEL(LOCAL) kernel(const u32 *tape, Turn *turn, const float *consts, u32 *batch, u32 *late, Push push, Spec spec) {
    Run k;
    k.tape = tape, k.turn = turn, k.consts = consts, k.batch = batch, k.late = late, k.push = push, k.spec = spec;
    k.lane = thread();
    k.warp = shuffle(k.lane / 32u, 0u); // so that the compiler knows it to be the same in a warp
    k.l = shuffle(k.lane % 32u, k.lane % 32u); // and does not ask for it again and again
    k.in_turn = peek(&turn->arena) & 1u;
    k.choice = peek(&turn->choice.w[0]);
    k.pos = peek(batch + push.positions);
    k.now = 0;
    if (k.lane == 0) sm.stop = 0;
    if (k.lane < 16) sm.zeros[k.lane / 4u].w[k.lane % 4u] = 0;
    if (k.l == 0) place(k, peek(batch + push.tables));
    if (k.lane < 2u * STEP_WORDS) sm.step[k.lane / STEP_WORDS][k.l] = tape_word(k, k.in_turn, k.lane / STEP_WORDS, k.l);
    barrier();
    if (k.lane == 0) sm.token = peek(batch + k.word(TOKEN));
    barrier();
    for (k.more = push.tokens; k.more > 0 && sm.stop == 0;) {
        k.more--;
        embed(k);
        empty_next(k);
        u32 coming = tape_word(k, k.in_turn, 2, k.lane);
        barrier();
        for (u32 s = 1; s < push.steps && sm.stop == 0; s++) {
            if (k.lane < STEP_WORDS) sm.step[k.now][k.lane] = coming; // of the step after this one
            coming = tape_word(k, k.in_turn, s + 2u, k.lane);
            k.now ^= 1u;
            switch (k.word(OP)) {
            case OP_PRODUCT: product(k); break;
            case OP_ATTENTION: attention(k); break;
            case OP_JOIN: join_chunks(k); break;
            case OP_BEST: best(k); break;
            case OP_CHOOSE: choose(k); break;
            }
            barrier();
        }
    }
    // The last to leave turns to the other arena.
    if (sm.stop == 0 && k.lane == 0 && count(&turn->left, 1) + 1u == groups_x()) {
        put(&turn->left, 0);
        put(&turn->arena, 1u - k.in_turn);
    }
}
