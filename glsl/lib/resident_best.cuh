// The largest logit, ties to the lower index: each workgroup finds the best of the rows
// that it made, then one the best of all. runtime/ref/argmax_f32.go
struct Best {
    float value;
    u32 at;
};

DEVICE Best better(Best a, Best b) { return a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b; }

DEVICE Best best_of_warp(Best a) {
#pragma unroll
    for (u32 h = 1; h < 32; h *= 2) a = better(a, Best{shuffle_xor(a.value, h), shuffle_xor(a.at, h)});
    return a;
}

DEVICE Best best_of_all(Run &k, Best a) {
    a = best_of_warp(a);
    if (k.l == 0) {
        sm.room[k.warp].v[0] = a.value;
        sm.room[k.warp].v[1] = float_of(a.at);
    }
    barrier();
    return best_of_warp(Best{sm.room[k.l % WARPS].v[0], bits_of(sm.room[k.l % WARPS].v[1])});
}

DEVICE void best(Run &k) {
    u32 first, units;
    share(sm.step[k.now], first, units);
    u32 end = min((first + units) * UNIT, k.word(ROWS));
    const u32 *x = k.at<const u32>(X);
    Best a = {NONE, 0xffffffffu};
    for (u32 i = first * UNIT + k.lane; i < end; i += LOCAL) a = better(a, Best{float_of(peek(x + i)), i});
    a = best_of_all(k, a);
    if (k.lane == 0) {
        u32 *y = k.at<u32>(OUT) + 2u * group_x();
        fence(); // of keys, values and the emptied arena before the next token
        put(y, publish(a.value));
        put(y + 1, a.at);
    }
}

DEVICE Best best_of_groups(Run &k) {
    const Pair *x = k.at<const Pair>(X);
    Best a = {NONE, 0xffffffffu};
    for (u32 i = k.lane; i < groups_x(); i += LOCAL) {
        Pair v = {{EMPTY, EMPTY}};
        for (u32 tries = 0; missing(v) && patient(k, tries); tries++) v = peek(x + i);
        a = better(a, Best{float_of(v.w[0]), v.w[1]});
    }
    return best_of_all(k, a);
}

// One workgroup chooses; all go on with that if tokens follow.
DEVICE void choose(Run &k) {
    u32 first = k.more > 0 && k.lane < 2u * STEP_WORDS ? tape_word(k, k.in_turn ^ 1u, k.lane / STEP_WORDS, k.l) : 0u;
    if (group_x() == 0) {
        Best a = best_of_groups(k);
        if (k.lane == 0) {
            sm.token = a.at;
            if (k.more > 0) put(&k.turn->choice, Pair{{k.choice + 1u, a.at}});
            u32 list = peek(k.batch + FOLLOW);
            put(k.batch + k.word(RESULT), a.at);
            if (list != 0) { // the next run goes on from here
                put(k.batch + list, a.at);
                put(k.batch + FOLLOW, list + 1u);
                put(k.batch + k.word(TOKEN_PLACE), a.at);
                put(k.batch + k.push.positions, k.pos + 1u);
            }
        }
    } else if (k.more > 0 && k.lane == 0) {
        Pair choice = {};
        for (u32 tries = 0; choice.w[0] != k.choice + 1u && patient(k, tries); tries++) choice = peek(&k.turn->choice);
        fence();
        sm.token = choice.w[1];
    }
    if (k.more == 0) return;
    barrier();
    if (k.lane < 2u * STEP_WORDS) sm.step[k.lane / STEP_WORDS][k.l] = first;
    k.now = 0;
    k.in_turn ^= 1u;
    k.pos++;
    k.choice++;
}
