"""Gated delta nets and gated outputs, as runtime/ref/delta.go and sigmoid_mul.go
describe them, over rational numbers.
"""

from fractions import Fraction

from exact import add, bits, exp, mul, rnd, rsqrt, sigmoid, silu, softplus, sub, tidy
from make import File, activations, arg_in, arg_io, arg_out, norm, number, numbers, words_of

FRESH = 0xFFFFFFFF


class Net:
    """Two sequences of three tokens and one; the second begins."""

    def __init__(self, keys, rep, dim, taps):
        self.keys, self.values, self.dim, self.taps = keys, keys * rep, dim, taps
        self.heads = 2 * keys + self.values
        self.channels, self.inner = self.heads * dim, self.values * dim
        self.records = [(0, 3, 2, 0), (3, 1, FRESH, 1)]
        self.n, self.slots = 4, 3
        self.raw = [numbers(self.channels + self.inner + 2 * self.values, 2) for _ in range(self.n)]
        self.out = [numbers(self.channels) for _ in range(self.n)]
        members = [s for s, (_, count, _, _) in enumerate(self.records) for _ in range(count)]
        self.batch = [0] * 16 + members + [w for r in self.records for w in r]
        self.members, self.sequences = 16, 16 + self.n

    def spec(self):
        return [self.dim, self.keys, self.values]

    def words(self):
        return words_of(sum(self.raw, []) + sum(self.out, []))

    def tokens(self):
        """(token, its record)"""
        return [(t, r) for r in self.records for t in range(r[0], r[0] + r[1])]

    def gates(self, t):
        at = self.channels + self.inner
        return self.raw[t][at:at + self.values], self.raw[t][at + self.values:]


def total(terms):
    s = Fraction(0)
    for x in terms:
        s = add(s, x)
    return s


def tree(part):
    while len(part) > 1:
        h = len(part) // 2
        part = [add(part[i], part[i + h]) for i in range(h)]
    return part[0]


def delta_inputs():
    f = File("delta_inputs_f32")
    d = Net(1, 2, 8, 3)
    state = [[numbers(d.channels) for _ in range(d.taps - 1)] for _ in range(d.slots)]
    for row in d.raw:  # a query head so small that eps counts
        row[:d.dim] = [x / 4096 for x in row[:d.dim]]
    for row in state[0] + state[1] + state[2]:
        row[:d.dim] = [x / 4096 for x in row[:d.dim]]
    weights, a, dt = numbers(d.channels * d.taps), [-abs(number(3)) for _ in range(d.values)], numbers(d.values)
    eps, scale = rnd(Fraction(1, 1000000)), rnd(Fraction(3536, 10000))
    before, state_before = d.words(), words_of(sum(sum(state, []), []))
    raw, after = [list(r) for r in d.raw], [list(map(list, s)) for s in state]
    for t, (first, count, read, write) in d.tokens():
        past = [[Fraction(0)] * d.channels] * (d.taps - 1) if read == FRESH else state[read]
        line = past + [raw[i] for i in range(first, t + 1)]
        line = line[-d.taps:]
        if t == first + count - 1:
            after[write] = [r[:d.channels] for r in line[1:]]
        y = [silu(total(mul(weights[c * d.taps + i], line[i][c]) for i in range(d.taps))) for c in range(d.channels)]
        for h in range(d.heads):
            head = y[h * d.dim:(h + 1) * d.dim]
            r = rsqrt(add(tree([mul(v, v) for v in head]), eps))
            if h < 2 * d.keys:
                head = [mul(v, r) for v in head]
            if h < d.keys:
                head = [mul(v, scale) for v in head]
            d.out[t][h * d.dim:(h + 1) * d.dim] = [tidy(v) for v in head]
        beta, alpha = d.gates(t)
        d.raw[t][d.channels + d.inner:] = [tidy(sigmoid(b)) for b in beta] + [
            tidy(exp(mul(a[h], softplus(add(x, dt[h]))))) for h, x in enumerate(alpha)]
    consts = numbers(2) + weights + a + dt
    at = 2 + len(weights)
    f.case("one sequence goes on, one begins", (d.heads + 1, d.n), d.spec() + [d.taps],
           [d.n, 2, at, at + d.values, d.members, d.sequences, bits(eps), bits(scale)],
           [arg_io("f32", before, d.words()), arg_io("f32", state_before, words_of(sum(sum(after, []), []))),
            arg_in("u32", d.batch), arg_in("f32", words_of(consts))])
    return f


def dot(a, b):
    n = len(a) // 8
    return tree([total(mul(a[i], b[i]) for i in range(p * n, (p + 1) * n)) for p in range(8)])


def delta_rule():
    f = File("delta_rule_f32")
    d = Net(1, 2, 32, 2)
    for t in range(d.n):
        d.raw[t][d.channels + d.inner:] = [abs(x) for x in numbers(2 * d.values, Fraction(1, 2))]
    state = [[[numbers(d.dim) for _ in range(d.dim)] for _ in range(d.values)] for _ in range(d.slots)]
    flat = lambda: words_of([x for slot in state for head in slot for row in head for x in row])
    before, state_before = d.words(), flat()
    start = [[list(map(list, head)) for head in slot] for slot in state]
    for first, count, read, write in d.records:
        for h in range(d.values):
            for j in range(d.dim):
                m = [Fraction(0) if read == FRESH else start[read][h][j][i] for i in range(d.dim)]
                for t in range(first, first + count):
                    out, (beta, decay) = d.out[t], (g[h] for g in d.gates(t))
                    q, k = (out[(kind * d.keys + h % d.keys) * d.dim:][:d.dim] for kind in (0, 1))
                    at = (2 * d.keys + h) * d.dim + j
                    m = [mul(x, decay) for x in m]
                    e = mul(beta, sub(out[at], dot(m, k)))
                    m = [tidy(add(x, mul(e, y))) for x, y in zip(m, k)]
                    out[at] = tidy(dot(m, q))
                for i in range(d.dim):
                    state[write][h][j][i] = m[i]
    f.case("one sequence goes on, one begins", (d.inner, 2), d.spec(), [d.n, d.sequences],
           [arg_io("f32", before, d.words()), arg_io("f32", state_before, flat()), arg_in("u32", d.batch)])
    return f


def delta_norm(act):
    f = File(f"delta_norm_{act}")
    d = Net(1, 2, 64, 2)
    weight, inv, eps = numbers(d.dim), rnd(Fraction(1, d.dim)), rnd(Fraction(1, 1000000))
    rows = []
    for t in range(d.n):
        v, z = d.out[t][2 * d.keys * d.dim:], d.raw[t][d.channels:]
        row = [x for h in range(d.values) for x in norm(v[h * d.dim:(h + 1) * d.dim], weight, inv, eps)]
        rows.append([mul(x, silu(g)) for x, g in zip(row, z)])
    f.case("two value heads", (d.values, d.n), d.spec(), [d.n, 1, bits(inv), bits(eps)],
           [arg_in("f32", d.words()), arg_in("f32", words_of(numbers(1) + weight)),
            arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def delta_norm_hadamard(act):
    from hadamard import blocks

    f = File(f"delta_norm_hadamard_{act}")
    d, block, scale = Net(2, 2, 32, 2), 64, Fraction(1, 8)
    weight, inv, eps = numbers(d.dim), rnd(Fraction(1, d.dim)), rnd(Fraction(1, 1000000))
    signs = [Fraction(1 - 2 * (i * 7 % 3 // 2)) for i in range(d.inner)]
    for name, grouped in (("heads as they are", 0), ("heads of a key together", 1)):
        rows = []
        for t in range(d.n):
            v, z = d.out[t][2 * d.keys * d.dim:], d.raw[t][d.channels:]
            heads = [[mul(x, silu(g)) for x, g in zip(norm(v[at:at + d.dim], weight, inv, eps), z[at:])] for at in range(0, d.inner, d.dim)]
            if grouped:  # head k + keys*r of value heads goes to r + rep*k
                heads = [heads[k + d.keys * r] for k in range(d.keys) for r in range(d.values // d.keys)]
            rows.append(blocks([mul(tidy(x), s) for x, s in zip(sum(heads, []), signs)], block, scale))
        f.case(name, (d.inner // block, d.n), d.spec() + [block], [d.n, 1, 1 + d.dim, grouped, bits(inv), bits(eps), bits(scale)],
               [arg_in("f32", d.words()), arg_in("f32", words_of(numbers(1) + weight + signs)),
                arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def sigmoid_mul(act):
    f = File(f"sigmoid_mul_{act}")
    n, k, stride, first = 2, 64, 80, 9
    x, gates = [numbers(k, 3) for _ in range(n)], [numbers(stride, 8) for _ in range(n)]
    rows = [[mul(v, sigmoid(g)) for v, g in zip(x[t], gates[t][first:])] for t in range(n)]
    per = {"f32": 1, "f16": 2, "i8": 4}[act]
    f.case("two rows, gates in wider ones", (k // per, n), [], [n, k, stride, first],
           [arg_in("f32", words_of(sum(x, []))), arg_in("f32", words_of(sum(gates, []))),
            arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def delta():
    acts = ("f32", "f16", "i8")
    return [delta_inputs(), delta_rule()] + [f(a) for f in (delta_norm, delta_norm_hadamard) for a in acts] + [sigmoid_mul(a) for a in acts]
