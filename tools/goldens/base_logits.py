#!/usr/bin/env python3
"""Files of base logits (llama.cpp's perplexity tool) by an implementation of its own.

usage: base_logits.py show BASE
       base_logits.py write LOGITS N_CTX IDS BASE
       base_logits.py compare BASE LOGITS

LOGITS holds float32 [chunks][n_ctx][n_vocab], IDS the tokens with commas between
them. `show` prints what a file holds, `write` makes one, `compare` computes the
figures of a model with LOGITS against a base. Prints JSON. Needs numpy.

The layout, little-endian: "_logits_", int32 n_ctx, n_vocab, n_chunk, int32 tokens
[n_chunk][n_ctx], then for the positions n_ctx/2 to n_ctx-2 of each chunk a row:
float32 scale and minimum, uint16 levels [n_vocab], padded to an even number.
"""

import json
import sys

import numpy as np


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"_logits_", "not a file of base logits"
    n_ctx, n_vocab, n_chunk = (int(v) for v in np.frombuffer(data, "<i4", 3, 8))
    tokens = np.frombuffer(data, "<i4", n_chunk * n_ctx, 20).reshape(n_chunk, n_ctx)
    row = np.dtype([("scale", "<f4"), ("min", "<f4"), ("levels", "<u2", (n_vocab + 1) // 2 * 2)])
    rows = np.frombuffer(data, row, offset=20 + 4 * n_chunk * n_ctx).reshape(n_chunk, n_ctx - 1 - n_ctx // 2)
    log_p = rows["scale"][..., None] * rows["levels"][..., :n_vocab].astype(np.float32) + rows["min"][..., None]
    return tokens, log_p.astype(np.float64)


def write(path, logits, tokens):
    n_chunk, n_ctx, n_vocab = logits.shape
    x = logits[:, n_ctx // 2 : n_ctx - 1]
    top = x.max(axis=-1, keepdims=True)
    low = np.maximum(x.min(axis=-1, keepdims=True), top - np.float32(16))
    scale = (top - low) / np.float32(65535)
    levels = np.rint((x - low) * np.where(scale > 0, 1 / scale, 0)).clip(0, 65535).astype("<u2")
    norm = (top - log_softmax(x).max(axis=-1, keepdims=True)).astype(np.float64)
    with open(path, "wb") as f:
        f.write(b"_logits_" + np.array([n_ctx, n_vocab, n_chunk], "<i4").tobytes() + tokens.astype("<i4").tobytes())
        for c in range(n_chunk):
            for i in range(x.shape[1]):
                f.write(scale[c, i].astype("<f4").tobytes() + (low[c, i] - norm[c, i]).astype("<f4").tobytes())
                f.write(levels[c, i].tobytes() + bytes(n_vocab % 2 * 2))


def next_tokens(tokens):
    n_ctx = tokens.shape[1]
    return tokens[:, n_ctx // 2 + 1 :]


def of_tokens(log_p, tokens):
    return np.take_along_axis(log_p, next_tokens(tokens)[..., None], axis=-1)[..., 0].ravel()


def show(path):
    tokens, log_p = read(path)
    return {
        "n_ctx": tokens.shape[1], "n_vocab": log_p.shape[-1], "n_chunk": tokens.shape[0], "tokens": tokens.ravel().tolist(),
        "ppl": float(np.exp(-of_tokens(log_p, tokens).mean())), "mass": float(np.exp(log_p).sum(axis=-1).mean()),
    }


def compare(path, logits):
    tokens, base = read(path)
    n_ctx = tokens.shape[1]
    q = log_softmax(logits.reshape(tokens.shape[0], n_ctx, -1)[:, n_ctx // 2 : n_ctx - 1])
    kl = np.where(base > -16, np.exp(base) * (base - q), 0).sum(axis=-1).ravel()
    a, b = of_tokens(q, tokens), of_tokens(base, tokens)
    dp = np.exp(a) - np.exp(b)
    return {
        "ppl": float(np.exp(-a.mean())), "ppl_base": float(np.exp(-b.mean())), "ppl_ratio": float(np.exp(b.mean() - a.mean())),
        "correlation": float(np.corrcoef(a, b)[0, 1]), "kl": float(kl.mean()), "kl_error": float(kl.std() / np.sqrt(kl.size - 1)),
        "kl_median": float(np.median(kl)), "kl_95": float(np.quantile(kl, 0.95)), "kl_max": float(kl.max()),
        "delta_p": float(dp.mean()), "delta_p_99": float(np.quantile(dp, 0.99)), "rms_delta_p": float(np.sqrt((dp**2).mean())),
        "same_top_p": float((q.argmax(axis=-1) == base.argmax(axis=-1)).mean()),
    }


def main(command, *args):
    if command == "show":
        return show(*args)
    if command == "write":
        logits, n_ctx, ids, path = args
        tokens = np.array([int(v) for v in ids.split(",")]).reshape(-1, int(n_ctx))
        write(path, np.fromfile(logits, "<f4").reshape(*tokens.shape, -1), tokens)
        return {}
    if command == "compare":
        return compare(args[0], np.fromfile(args[1], "<f4"))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    print(json.dumps(main(*sys.argv[1:])))
