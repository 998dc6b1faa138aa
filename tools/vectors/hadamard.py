"""Walsh-Hadamard transforms, as runtime/ref/hadamard.go describes them, over rational
numbers.
"""

from exact import add, bits, mul, rnd, sigmoid, silu, sub, tidy
from fractions import Fraction
from make import R, File, activations, arg_in, arg_io, arg_out, numbers, words_of


def transform(v, scale):
    """By halves: pairs of neighbours first."""
    n = len(v)
    length = 1
    while length < n:
        w = list(v)
        for i in range(n):
            j = i ^ length
            w[i] = add(v[i], v[j]) if i < j else sub(v[j], v[i])
        v, length = w, 2 * length
    return [mul(x, scale) for x in v]


def blocks(v, block, scale):
    return [x for at in range(0, len(v), block) for x in transform(v[at:at + block], scale)]


def hadamard(act):
    f = File(f"hadamard_{act}")
    block, n, scale = 64, 2, Fraction(1, 8)
    for name, k, dim, keys, rep in (("two blocks", 128, 128, 1, 1), ("six heads of 32 in another order", 192, 32, 2, 3)):
        x, signs = [numbers(k, 3) for _ in range(n)], [Fraction(R.choice((1, -1))) for _ in range(k)]
        rows = []
        for row in x:
            turned = [None] * k
            for r in range(rep):
                for g in range(keys):
                    for d in range(dim):
                        turned[d + dim * (r + rep * g)] = row[d + dim * (g + keys * r)]
            rows.append(blocks([mul(a, s) for a, s in zip(turned, signs)], block, scale))
        f.case(name, (k // block, n), [block], [n, k, 1, bits(scale), dim, keys, rep],
               [arg_in("f32", words_of(sum(x, []))), arg_in("f32", words_of(numbers(1) + signs)),
                arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def fused(name, act):
    f = File(f"{name}_hadamard_{act}")
    block, n, k, scale, stride, first = 64, 2, 128, Fraction(1, 8), 150, 7
    signs = [Fraction(R.choice((1, -1))) for _ in range(k)]
    consts = arg_in("f32", words_of(numbers(1) + signs))
    if name == "silu_mul":
        x = [numbers(2 * k, 4) for _ in range(n)]
        products, more = [[mul(silu(g), u) for g, u in zip(row[:k], row[k:])] for row in x], []
        inputs = [arg_in("f32", words_of(sum(x, []))), consts]
    else:
        x, gates = [numbers(k, 4) for _ in range(n)], [numbers(stride, 8) for _ in range(n)]
        products, more = [[mul(v, sigmoid(g)) for v, g in zip(x[t], gates[t][first:])] for t in range(n)], [stride, first]
        inputs = [arg_in("f32", words_of(sum(x, []))), arg_in("f32", words_of(sum(gates, []))), consts]
    rows = [blocks([mul(tidy(v), s) for v, s in zip(row, signs)], block, scale) for row in products]
    f.case("two blocks", (k // block, n), [block], [n, k, 1, bits(scale)] + more,
           inputs + [arg_out("raw" if act != "f32" else "f32", activations(act, rows))])
    return f


def inverse():
    f = File("hadamard_inverse_f32")
    block, n, k, scale = 128, 2, 256, rnd(Fraction(8838834764831845, 10**17))
    x, signs = [numbers(k, 3) for _ in range(n)], [Fraction(R.choice((1, -1))) for _ in range(k)]
    y = [tidy(mul(a, s)) for row in x for a, s in zip(blocks(row, block, scale), signs)]
    f.case("two blocks of 128", (2, n), [block], [n, k, 1, bits(scale)],
           [arg_io("f32", words_of(sum(x, [])), words_of(y)), arg_in("f32", words_of(numbers(1) + signs))])
    return f


def hadamards():
    acts = ("f32", "f16", "i8")
    return [hadamard(a) for a in acts] + [fused(n, a) for n in ("silu_mul", "sigmoid_mul") for a in acts] + [inverse()]
