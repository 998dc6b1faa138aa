// Joining chunks in order: the running exponent, sum of weights and values.
struct Join {
    float e, l;
    float a, b; // exact powers of two for what is joined so far and for the next part
};

void join_next(inout Join j, bool first, float e, float l) {
    float m = first || e > j.e ? e : j.e;
    j.a = first ? 0.0 : pow2(sub(j.e, m));
    j.b = pow2(sub(e, m));
    j.e = m;
    j.l = first ? l : tidy(mac(mul(l, j.b), j.l, j.a));
}

float join_value(Join j, bool first, float old, float part) {
    return first ? part : tidy(mac(mul(part, j.b), old, j.a));
}
