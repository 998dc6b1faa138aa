// Joining chunks in order: the running exponent, sum of weights and values.
struct Join { float e, l, a, b; }; // a, b: exact powers of two for the old and the new part

void join_next(inout Join j, bool first, float e, float l) {
    if (first) {
        j.e = e;
        j.l = tidy(l);
        return;
    }
    float m = e > j.e ? e : j.e;
    j.a = pow2(sub(j.e, m));
    j.b = pow2(sub(e, m));
    j.e = m;
    j.l = tidy(add(mul(j.l, j.a), mul(l, j.b)));
}

float join_value(Join j, bool first, float old, float part) {
    return first ? part : tidy(add(mul(old, j.a), mul(part, j.b)));
}
