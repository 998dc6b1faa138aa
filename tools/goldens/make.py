#!/usr/bin/env python3
"""Golden models: small random ones of every family, evaluated by transformers.

usage: make.py OUT

Writes OUT/goldens.tar.gz (unpack it in testdata) and OUT/layers.tar.gz (hidden
states of one prompt, to find where an implementation departs). For each model:

  NAME.gguf   matrices exactly ternary, so that nothing is lost in the file
  NAME.json   {"vocab": V, "prompts": [[id, ...], ...]}
  NAME.f32    float32 logits [positions of all prompts in order][V]

Needs numpy, PyTorch and transformers (made with 5.17.0); runs on the CPU, in
float32, without a network.
"""

import json
import os
import sys
import tarfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers

import gguf
import models

LENGTHS = [1, 6, 65, 149]  # odd places; beyond a page of 64 and a second one


def fill(model, spec, rng):
    """Random parameters. Matrices are ternary in blocks of 64 along the input."""
    for name, p in model.named_parameters():
        p.data.copy_(torch.from_numpy(models.parameter(name, tuple(p.shape), spec, rng)))


def build(spec):
    """The class and the configuration of a model."""
    names = [n for n in spec["classes"] if hasattr(transformers, n[0]) and hasattr(transformers, n[1])]
    if not names:
        have = sorted(n for n in dir(transformers) if n.startswith("Qwen3"))
        raise SystemExit(f"transformers {transformers.__version__} has none of {spec['classes']}, but {have}")
    cls, cfg = (getattr(transformers, n) for n in names[0])
    config = cfg(**spec["config"])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return cls(config).eval().float()


class Routers:
    """Margins between the last expert that is taken and the first that is not."""

    def __init__(self, model, top_k):
        self.top_k, self.margins = top_k, []
        for name, module in model.named_modules():
            if name.endswith("mlp.gate"):
                module.register_forward_hook(self.hook)

    def hook(self, _module, _inputs, output):
        logits = output[0] if isinstance(output, tuple) else output
        top = logits.float().topk(self.top_k + 1, dim=-1).values
        self.margins.append(top[:, self.top_k - 1] - top[:, self.top_k])

    def least(self, batch):
        """Of the last position of each sequence, over the layers."""
        m = torch.stack(self.margins)
        self.margins = []
        return m.reshape(m.shape[0], batch, -1)[:, :, -1].min(dim=0).values


@torch.no_grad()
def prompts(model, spec, rng):
    """Random ids; for mixtures of experts such that no router is near a tie."""
    vocab, out = spec["config"]["vocab_size"], []
    routers = Routers(model, spec["config"]["num_experts_per_tok"]) if "num_experts" in spec["config"] else None
    for n in LENGTHS:
        ids = []
        while len(ids) < n:
            if routers is None:
                ids.append(int(rng.integers(vocab)))
                continue
            some = rng.integers(vocab, size=48)
            model(torch.tensor([ids + [int(s)] for s in some]), use_cache=False)
            margin = routers.least(len(some))
            best = int(margin.argmax())
            ids.append(int(some[best]))
            spec["margin"] = min(spec.get("margin", 1e9), float(margin[best]))
        out.append(ids)
    return out


@torch.no_grad()
def evaluate(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


@torch.no_grad()
def step_by_step(model, ids):
    cache, rows = None, []
    for i in ids:
        r = model(torch.tensor([[i]]), past_key_values=cache, use_cache=True)
        cache = r.past_key_values
        rows.append(r.logits[0, 0].float().numpy())
    return np.stack(rows)


@torch.no_grad()
def layers(model, ids):
    states = model(torch.tensor([ids]), use_cache=False, output_hidden_states=True).hidden_states
    return np.stack([s[0].float().numpy() for s in states])


def pack(path, folder):
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=os.path.basename(folder))


def main(out):
    torch.manual_seed(0)
    torch.set_num_threads(min(8, os.cpu_count() or 1))
    golden, debug = os.path.join(out, "goldens"), os.path.join(out, "layers")
    os.makedirs(golden, exist_ok=True)
    os.makedirs(debug, exist_ok=True)
    print("transformers", transformers.__version__, "torch", torch.__version__, "numpy", np.__version__)
    for seed, spec in enumerate(models.SPECS):
        rng = np.random.default_rng(1000 + seed)
        model = build(spec)
        fill(model, spec, rng)
        ids = prompts(model, spec, rng)
        logits = [evaluate(model, p) for p in ids]
        steps = step_by_step(model, ids[2])
        top = max(float(np.abs(l).max()) for l in logits)
        base = os.path.join(golden, spec["name"])
        params = {k: v.detach().numpy() for k, v in model.named_parameters()}
        gguf.write(base + ".gguf", *models.to_gguf(spec, params))
        with open(base + ".json", "w") as f:
            json.dump({"vocab": spec["config"]["vocab_size"], "prompts": ids}, f)
            f.write("\n")
        (np.concatenate(logits) * np.float32(models.SOFTER)).astype("<f4").tofile(base + ".f32")
        layers(model, ids[1]).astype("<f4").tofile(os.path.join(debug, spec["name"] + ".f32"))
        print(
            f"{spec['name']:24} {type(model).__name__:28} {sum(v.size for v in params.values()):9} parameters"
            f"  max |logit| {top:.3f}  std {np.concatenate(logits).std():.3f}"
            f"  whole - steps {np.abs(steps - logits[2]).max() / top:.1e} of it"
            f"  least margin {spec.get('margin', 0):.3f}",
            flush=True,
        )
    pack(os.path.join(out, "goldens.tar.gz"), golden)
    pack(os.path.join(out, "layers.tar.gz"), debug)
    for folder in (golden, debug):
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        os.rmdir(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
