// Matrix instructions of a warpgroup: their operands in shared memory are read when they
// take effect, which is when a warp waits for them at the latest; until then nobody may
// look at the sums.
#include <string.h>
#include "workgroup.h"

enum { SETS = 2, WIDE = 128, DEEP = 64, ROWS = 16, QUEUE = 8, LOG = 1024 };

// A product of a warp's rows that is under way.
typedef struct {
    int done;
    u32 n, set, x;
    int8_t a[DEEP][ROWS];
} Product;

// What a warp has begun, first the oldest, and its sums.
typedef struct {
    u32 queued;
    Product queue[QUEUE];
    int made[SETS];
    int sum[SETS][WIDE][ROWS];
} Warp;

static int used; // any since begin_matrices
static Warp warps[MAX_WARPS];
static u32 operands[MAX_WARPS][LANES][ROWS / 2];
// What a warpgroup's warps have begun: all four have to begin the same.
static struct { u32 begun[4], what[LOG]; } logs[MAX_WARPS / 4];

// Columns lie one behind the other, rows of 64 bytes, of whose parts of 16 number p of row r
// is at p ^ (r / 2 % 4).
static u32 swizzled(u32 at) { return at ^ (at >> 7 & 3) << 4; }

static void multiply(Warp *w, Product *p) {
    for (u32 column = 0; column < p->n; column++) {
        int *sum = w->sum[p->set][column];
        const int8_t *part = NULL;
        for (u32 row = 0; row < ROWS; row++) sum[row] = 0;
        for (u32 k = 0; k < DEEP; k++) {
            if (k % 16 == 0) part = emulated_pointer(swizzled(p->x + column * DEEP + k));
            for (u32 row = 0; row < ROWS; row++) sum[row] += p->a[k][row] * part[k % 16];
        }
    }
    p->done = w->made[p->set] = 1;
}

void emulated_multiply(unsigned n, unsigned set, const unsigned *a, unsigned x) {
    u32 number = current / LANES, lane = current % LANES;
    Warp *w = &warps[number];
    memcpy(operands[number][lane], a, sizeof operands[number][lane]);
    if (!warp_meets("wgmma")) return;
    if (n > WIDE || n % 8 || x % 512 || w->queued == QUEUE) fault("a product of %u columns at %u of shared memory, behind %u", n, x, w->queued);
    u32 *at = &logs[number / 4].begun[number % 4], *what = &logs[number / 4].what[*at % LOG], this = x << 10 | n << 2 | set << 1;
    if (*what && *what != this) fault("warps of a warpgroup multiply different matrices");
    *what = this;
    logs[number / 4].what[(*at + LOG / 2) % LOG] = 0;
    ++*at;
    used = 1;
    Product *p = &w->queue[w->queued++];
    *p = (Product){.n = n, .set = set, .x = x};
    for (u32 row = 0; row < ROWS; row++)
        for (u32 k = 0; k < DEEP; k++) { // of 32 bytes each, two registers of a lane, for two rows
            u32 reg = operands[number][row % 8 * 4 + k % 16 / 4][k / 32 * 4 + k % 32 / 16 * 2 + row / 8];
            p->a[k][row] = reg >> k % 4 * 8;
        }
    read_by_matrices(x, n * DEEP);
    if ((w->queued == 1 || p[-1].done) && (launch.order == BACKWARDS_AT_ONCE || launch.order == AT_RANDOM && draw(2))) multiply(w, p);
    warp_go();
}

void emulated_sums_wait(void) {
    if (!warp_meets("wgmma.wait")) return;
    Warp *w = &warps[current / LANES];
    for (Product *p = w->queue; p < w->queue + w->queued; p++) {
        if (!p->done) multiply(w, p);
        read_by_matrices_ends(p->x, p->n * DEEP);
    }
    w->queued = 0;
    warp_go();
}

float emulated_sum(unsigned set, unsigned i) {
    u32 lane = current % LANES;
    Warp *w = &warps[current / LANES];
    for (u32 q = 0; q < w->queued; q++)
        if (w->queue[q].set == set) fault("a sum is looked at while a product is under way");
    if (!w->made[set]) fault("a sum is looked at of which no product was made");
    return w->sum[set][i / 4 * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 % 2 * 8];
}

void begin_matrices(void) {
    if (!used) return;
    used = 0;
    memset(logs, 0, sizeof logs);
    for (Warp *w = warps; w < warps + MAX_WARPS; w++) w->queued = w->made[0] = w->made[1] = 0;
}

void end_matrices(void) {
    for (u32 warp = 0; warp * LANES < launch.local; warp++) {
        if (logs[warp / 4].begun[warp % 4] != logs[warp / 4].begun[0]) fault("warps of a warpgroup begin %u and %u products", logs[warp / 4].begun[0], logs[warp / 4].begun[warp % 4]);
        if (warps[warp].queued) fault("the kernel ends while products are under way");
    }
}
