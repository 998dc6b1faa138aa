// Reading eight elements of a cache of few bits, for chunk.glsl. All values are halves.
void eight_of(uvec2 at, uint eight, uint bits, out vec4 a, out vec4 b) {
    if (bits == 16u) {
        a = vec4(f32_of(cache[at.x]), f32_of(cache[at.x + 1u]));
        b = vec4(f32_of(cache[at.x + 2u]), f32_of(cache[at.x + 3u]));
        return;
    }
    vec2 two = f32_of(cache[at.y]);
    float d = (eight & 4u) == 0u ? two.x : two.y;
    int low = int(cache[at.x]), high = bits == 8u ? int(cache[at.x + 1u]) : low >> 16;
    int n = int(bits);
    [[unroll]] for (int i = 0; i < 4; i++) {
        a[i] = mul(float(bitfieldExtract(low, i * n, n)), d);
        b[i] = mul(float(bitfieldExtract(high, i * n, n)), d);
    }
}
