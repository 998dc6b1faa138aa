// Tern's own arithmetic: runtime/ref/math.go, line for line. Every helper is
// precise inside, because precise at a call site does not reach in.

const float TINY = 8.673617379884035e-19; // 2^-60
const uint INF_BITS = 0x7f800000u;

float add(float a, float b) { precise float r = a + b; return r; }
float sub(float a, float b) { precise float r = a - b; return r; }
float mul(float a, float b) { precise float r = a * b; return r; }

// s + a*b for a product that is exact in f32 and finite: fused or not, the words are equal.
float mac(float s, float a, float b) { return fma(a, b, s); }

uint mag(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

float tidy(float x) { return mag(x) < 0x21800000u ? 0.0 : x; }

float recip(float x) {
    float y = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(x));
    for (int i = 0; i < 4; i++) y = mul(y, sub(2.0, mul(x, y)));
    return y;
}

float rsqrt(float x) {
    float y = uintBitsToFloat(0x5f3759dfu - (floatBitsToUint(x) >> 1));
    float h = mul(0.5, x);
    for (int i = 0; i < 4; i++) y = mul(y, sub(1.5, mul(mul(h, y), y)));
    return y;
}

float exp2_(float x) {
    bool low = x < -64.0, odd = !(x <= 120.0);
    float v = low || odd ? 0.0 : x;
    float n = roundEven(v);
    float f = sub(v, n);
    float p = uintBitsToFloat(0x39222000u);
    p = add(mul(p, f), uintBitsToFloat(0x3aafa460u));
    p = add(mul(p, f), uintBitsToFloat(0x3c1d950eu));
    p = add(mul(p, f), uintBitsToFloat(0x3d635766u));
    p = add(mul(p, f), uintBitsToFloat(0x3e75fdf0u));
    p = add(mul(p, f), uintBitsToFloat(0x3f317218u));
    p = add(mul(p, f), 1.0);
    p = uintBitsToFloat(floatBitsToUint(p) + (uint(int(n)) << 23));
    return low ? 0.0 : odd ? x : p;
}

float sigmoid(float x) {
    float e = exp2_(mul(-uintBitsToFloat(mag(x)), uintBitsToFloat(0x3fb8aa3bu)));
    float r = recip(add(1.0, e));
    return x >= 0.0 ? r : mul(e, r);
}

float silu(float x) { return mul(x, sigmoid(x)); }

float exp_(float x) { return exp2_(mul(x, uintBitsToFloat(0x3fb8aa3bu))); }

float log1p(float x) {
    float s = mul(x, recip(add(2.0, x))), z = mul(s, s);
    float p = uintBitsToFloat(0x3e102af7u);
    p = add(mul(p, z), uintBitsToFloat(0x3e0f2e7eu));
    p = add(mul(p, z), uintBitsToFloat(0x3e4ced0au));
    p = add(mul(p, z), uintBitsToFloat(0x3eaaaa71u));
    p = add(mul(p, z), 1.0);
    return mul(mul(2.0, s), p);
}

float softplus(float x) { return add(x > 0.0 ? x : 0.0, log1p(exp_(-uintBitsToFloat(mag(x))))); }

float pow2(float d) { return d < -60.0 ? 0.0 : uintBitsToFloat(uint(int(d) + 127) << 23); }

float round13(float x) { return mag(x) >= INF_BITS ? x : uintBitsToFloat((floatBitsToUint(x) + 0x400u) & 0xfffff800u); }

// Half bits of x; saturates, and makes infinities NaN.
uint f16_rte(float x) {
    uint u = floatBitsToUint(x), s = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a >= INF_BITS) return 0x7e00u;
    if (a >= 0x477fe000u) return s | 0x7bffu;
    if (a >= 0x38800000u) return s | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13);
    if (a <= 0x33000000u) return 0u;
    uint shift = 126u - (a >> 23), m = (a & 0x7fffffu) | 0x800000u;
    return s | ((m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift);
}

// Two halves of a word, widened. The start-up probe holds every device to the
// exact values, subnormals included.
vec2 f32_of(uint pair) { return unpackHalf2x16(pair); }
