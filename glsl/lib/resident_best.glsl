// The largest logit, ties to the lower index: each workgroup finds the best of its
// share, then one the best of all. runtime/ref/argmax_f32.go
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
    uint k = word(ROWS), to = k * (gl_WorkGroupID.x + 1u) / gl_NumWorkGroups.x;
    Floats x = Floats(address(X));
    float value = -uintBitsToFloat(INF_BITS);
    uint at = 0xffffffffu;
    for (uint i = k * gl_WorkGroupID.x / gl_NumWorkGroups.x + gl_LocalInvocationIndex; i < to; i += LOCAL) {
        float v = x.v[i];
        if (v > value || at == 0xffffffffu && v == value) { value = v; at = i; }
    }
    best_of_all(value, at);
    if (gl_LocalInvocationIndex == 0u) {
        Words y = Words(address(OUT));
        y.v[2u * gl_WorkGroupID.x] = floatBitsToUint(room[0].x);
        y.v[2u * gl_WorkGroupID.x + 1u] = floatBitsToUint(room[0].y);
    }
}

void choose() {
    if (gl_WorkGroupID.x == 0u) {
        Words x = Words(address(X));
        float value = -uintBitsToFloat(INF_BITS);
        uint at = 0xffffffffu;
        for (uint i = gl_LocalInvocationIndex; i < gl_NumWorkGroups.x; i += LOCAL) {
            float v = uintBitsToFloat(x.v[2u * i]);
            uint j = x.v[2u * i + 1u];
            if (better(v, j, value, at)) { value = v; at = j; }
        }
        best_of_all(value, at);
        if (gl_LocalInvocationIndex == 0u) batch[word(RESULT)] = floatBitsToUint(room[0].y);
    }
}
