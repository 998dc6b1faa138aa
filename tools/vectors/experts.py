"""Mixtures of experts, as runtime/ref/experts.go describes them, over rational
numbers.
"""

from fractions import Fraction

import make
from exact import add, bits, exp, f16, f32, mul, recip, sigmoid, sub, tidy
from formats import BLOCK, BlockWeights, FloatWeights
from make import File, activations, arg_in, arg_io, arg_out, block, number, numbers, words_of


def route():
    f = File("experts_route_f32")
    for name, n, experts, k, shared in (("ties, and a shared expert", 2, 5, 3, 1), ("all of three", 1, 3, 3, 0)):
        logits = [numbers(experts + shared, 4) for _ in range(n)]
        logits[0][1] = logits[0][3] if experts > 3 else logits[0][0]
        logits[0][2] = abs(logits[0][2])
        ids, weights = [], []
        for row in logits:
            order = sorted(range(experts), key=lambda e: (-row[e], e))[:k]
            e = [exp(sub(row[i], row[order[0]])) for i in order]
            total = Fraction(0)
            for x in e:
                total = add(total, x)
            ids += order
            weights += [tidy(mul(x, recip(total))) for x in e] + [tidy(sigmoid(row[experts])) if shared else Fraction(0)]
        up, down = words_of(numbers(7)), words_of(numbers(4))
        old = words_of(numbers(n * (2 * k + 1)))
        f.case(name, (n, 1), [], [n, experts, k, experts + shared, 7, 4, shared],
               [arg_in("f32", words_of(sum(logits, []))), arg_io("f32", up + old, up + ids + old[n * k:]),
                arg_io("f32", down + old, down + ids + words_of(weights))])
    return f


def experts_sum():
    f = File("experts_sum_f32")
    n, k, width = 2, 3, 5
    for name, shared in (("with a shared expert", 1), ("without", 0)):
        x, weights, common = [numbers(width) for _ in range(n * k)], [numbers(k + 1) for _ in range(n)], [numbers(width, 2) for _ in range(n)]
        y = []
        for t in range(n):
            for d in range(width):
                s = Fraction(0)
                for r in range(k):
                    s = add(s, mul(weights[t][r], x[t * k + r][d]))
                if shared:
                    s = add(s, mul(weights[t][k], common[t][d]))
                y.append(tidy(s))
        words = words_of(sum(x, [])) + [make.R.randrange(8) for _ in range(n * k)] + words_of(sum(weights, []))
        f.case(name, (width, n), [], [n, k, width, n * k * width, shared],
               [arg_in("f32", words), arg_in("f32", words_of(sum(common, []))), arg_out("f32", words_of(y))])
    return f


class Q2_0:
    """The first format, with the interface of the others."""

    def __init__(self, rows, nb):
        self.w = make.Weights(rows, nb, 0)
        self.nb = self.width = nb

    def args(self):
        return self.w.args()

    def product(self, act, r, x, quantized):
        return make.product(act, self.w, r, x)


class Other:
    def __init__(self, name, rows, nb):
        self.w = BlockWeights(make.R, name, rows, nb) if name in BLOCK else FloatWeights(make.R, name, rows, 64 * nb)
        self.nb, self.width = self.w.nb, self.w.width

    def args(self):
        return [arg_in("raw", self.w.words)]

    def product(self, act, r, x, quantized):
        seen = {"i8": sum((q for _, q in quantized), []), "f16": [f32(f16(v)) for v in x], "f32": x}[act]
        return self.w.product(act, r, seen, [d for d, _ in quantized])


def products(name, act):
    """Experts of 32 rows, of which this segment of the stack holds the second."""
    f = File(f"mul_mat_id_{name}_{act}")
    rows, ids = 32, [1, 0, 1]
    nb = BLOCK[name][1] if name in BLOCK else 1
    w = Q2_0(rows, nb) if name == "q2_0" else Other(name, rows, nb)
    for case, n, share in (("rows of one token", 1, 3), ("rows of their own", 3, 1)):
        x = [numbers(64 * nb, 4) for _ in range(n)]
        y = words_of(numbers(rows * len(ids))) + ids + words_of(numbers(2))
        after = list(y)
        for i, e in enumerate(ids):
            row = x[i // share]
            quantized = [block(row[b:b + 64]) for b in range(0, 64 * nb, 64)] if act == "i8" else []
            for r in range(rows if e == 1 else 0):
                after[i * rows + r] = bits(w.product(act, r, row, quantized))
        f.case(case, (rows, len(ids)), [32, nb] + ([0] if name == "q2_0" else []), [rows, n, w.width, 32, 32, share, rows * len(ids)],
               w.args() + [arg_in("raw" if act != "f32" else "f32", activations(act, x)), arg_io("f32", y, after)])
    return f


def experts():
    names = ["q2_0"] + list(BLOCK) + ["f32", "f16", "bf16"]
    return [route(), experts_sum()] + [products(name, act) for name in names for act in ("i8", "f16", "f32")]
