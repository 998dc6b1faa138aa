// The largest logit, ties to the lower index: each workgroup finds the best of the rows
// that it made, then one the best of all. runtime/ref/argmax_f32.go
bool better(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// The best of the workgroup, in room[0].
void best_of_all(float value, uint at) {
    uint lane = gl_LocalInvocationIndex;
    barrier();
    room[lane].xy = vec2(value, uintBitsToFloat(at));
    for (uint h = LOCAL / 2u; h > 0u; h /= 2u) {
        barrier();
        if (lane < h) {
            vec2 a = room[lane].xy, b = room[lane + h].xy;
            if (better(b.x, floatBitsToUint(b.y), a.x, floatBitsToUint(a.y))) room[lane].xy = b;
        }
    }
    barrier();
}

void best() {
    share();
    uint from = first_unit * UNIT, to = min(from + units * UNIT, rows);
    Floats x = Floats(address(X));
    float value = -uintBitsToFloat(INF_BITS);
    uint at = 0xffffffffu;
    memoryBarrierBuffer();
    barrier();
    for (uint i = from + gl_LocalInvocationIndex; i < to; i += LOCAL) {
        float v = x.v[i];
        if (v > value || at == 0xffffffffu && v == value) { value = v; at = i; }
    }
    best_of_all(value, at);
    if (gl_LocalInvocationIndex == 0u) {
        Words y = Words(address(OUT));
        y.v[2u * gl_WorkGroupID.x] = publish(room[0].x);
        y.v[2u * gl_WorkGroupID.x + 1u] = floatBitsToUint(room[0].y);
    }
}

void choose() {
    if (gl_WorkGroupID.x == 0u) {
        ComingPairs x = ComingPairs(address(X));
        float value = -uintBitsToFloat(INF_BITS);
        uint at = 0xffffffffu;
        for (uint i = gl_LocalInvocationIndex; i < gl_NumWorkGroups.x; i += LOCAL) {
            uvec2 v = uvec2(EMPTY);
            for (uint tries = 0u; missing(v.xyxy) && patient(tries); tries++) v = x.v[i];
            if (better(uintBitsToFloat(v.x), v.y, value, at)) { value = uintBitsToFloat(v.x); at = v.y; }
        }
        best_of_all(value, at);
        if (gl_LocalInvocationIndex == 0u) {
            uint best = floatBitsToUint(room[0].y), list = batch[FOLLOW];
            batch[word(RESULT)] = best;
            if (list != 0u) { // the next run goes on from here
                batch[list] = best;
                batch[FOLLOW] = list + 1u;
                batch[word(TOKEN_PLACE)] = best;
                batch[positions] = pos + 1u;
            }
        }
    }
}
