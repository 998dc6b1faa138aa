#!/usr/bin/env python3
"""The golden models as Hugging Face folders, for the tests of model/convert.

usage: hf.py GOLDENS OUT [--transformers]

Makes the parameters of some golden models anew (GOLDENS is testdata/goldens), checks
that they give the golden file byte by byte, and writes OUT/NAME.tar.gz with a folder
of config.json and model.safetensors. With --transformers (and PyTorch; 5.17.0 was
meant) each folder is loaded by transformers, its logits are compared with the golden
ones, and what save_pretrained writes is packed instead. Needs numpy.
"""

import io
import json
import os
import sys
import tarfile
import tempfile

import numpy as np

import gguf
import models

FOLDERS = ["qwen3", "qwen3-tied-yarn", "qwen3moe", "qwen35-rep3", "qwen35moe"]
TYPES = {"qwen3": "qwen3", "qwen3moe": "qwen3_moe", "qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text"}


def shapes(spec):
    """Names and shapes of the parameters in the order of transformers."""
    c, arch = spec["config"], spec["arch"]
    d, f, heads, kv, dim = c["hidden_size"], c.get("intermediate_size"), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    hybrid = arch.startswith("qwen35")
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        if hybrid and c["layer_types"][i % 4] == "linear_attention":
            p, nk, nv, s = p + "linear_attn.", c["linear_num_key_heads"], c["linear_num_value_heads"], 128
            channels = (2 * nk + nv) * s
            yield from [(p + "dt_bias", (nv,)), (p + "A_log", (nv,)), (p + "conv1d.weight", (channels, 1, 4)), (p + "norm.weight", (s,))]
            yield from [(p + "out_proj.weight", (d, nv * s)), (p + "in_proj_qkv.weight", (channels, d)), (p + "in_proj_z.weight", (nv * s, d))]
            yield from [(p + "in_proj_b.weight", (nv, d)), (p + "in_proj_a.weight", (nv, d))]
        else:
            p += "self_attn."
            yield from [(p + "q_proj.weight", (heads * dim * (2 if hybrid else 1), d)), (p + "k_proj.weight", (kv * dim, d))]
            yield from [(p + "v_proj.weight", (kv * dim, d)), (p + "o_proj.weight", (d, heads * dim))]
            yield from [(p + "q_norm.weight", (dim,)), (p + "k_norm.weight", (dim,))]
        p = f"model.layers.{i}.mlp."

        def swiglu(prefix, width):
            return [(prefix + "gate_proj.weight", (width, d)), (prefix + "up_proj.weight", (width, d)), (prefix + "down_proj.weight", (d, width))]

        if "num_experts" in c:
            n, w = c["num_experts"], c["moe_intermediate_size"]
            experts = [(p + "experts.gate_up_proj", (n, 2 * w, d)), (p + "experts.down_proj", (n, d, w))]
            router = [(p + "gate.weight", (n, d))]
            yield from router + experts if hybrid else experts + router
            if "shared_expert_intermediate_size" in c:
                yield from swiglu(p + "shared_expert.", c["shared_expert_intermediate_size"])
                yield p + "shared_expert_gate.weight", (1, d)
        else:
            yield from swiglu(p, f)
        yield f"model.layers.{i}.input_layernorm.weight", (d,)
        yield f"model.layers.{i}.post_attention_layernorm.weight", (d,)
    yield "model.norm.weight", (d,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], d)


def golden(seed, spec, path):
    """The parameters, which must be those of the golden file."""
    rng = np.random.default_rng(1000 + seed)
    params = {name: models.parameter(name, shape, spec, rng) for name, shape in shapes(spec)}
    with tempfile.NamedTemporaryFile() as f:
        gguf.write(f.name, *models.to_gguf(spec, params))
        with open(path, "rb") as g:
            a, b = f.read(), g.read()
    # exp may differ in the last place, in the few numbers of ssm_a
    assert len(a) == len(b) and sum(x != y for x, y in zip(a, b)) <= 16, f"{spec['name']}: not the golden model"
    return params


def one_by_one(params):
    """Experts as in the folders of Qwen3-MoE."""
    out = {}
    for name, x in params.items():
        if name.endswith("experts.gate_up_proj"):
            w = x.shape[1] // 2
            for e in range(len(x)):
                base = name.replace("gate_up_proj", f"{e}.")
                out[base + "gate_proj.weight"], out[base + "up_proj.weight"] = x[e, :w], x[e, w:]
        elif name.endswith("experts.down_proj"):
            for e in range(len(x)):
                out[name.replace("down_proj", f"{e}.down_proj.weight")] = x[e]
        else:
            out[name] = x
    return out


def safetensors(path, tensors):
    header, at, bodies = {"__metadata__": {"format": "pt"}}, 0, []
    for name in sorted(tensors):
        body = tensors[name].astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [at, at + len(body)]}
        at += len(body)
        bodies.append(body)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(bodies))


def folder(path, spec, params):
    os.makedirs(path)
    config = {"model_type": TYPES[spec["arch"]], "architectures": [spec["classes"][0][0]], "hidden_act": "silu", "attention_bias": False, **spec["config"]}
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][i % 4] for i in range(config["num_hidden_layers"])]
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    safetensors(os.path.join(path, "model.safetensors"), one_by_one(params) if spec["arch"] == "qwen3moe" else params)


def through_transformers(path, spec, goldens):
    """Loads the folder, compares logits, and saves it again."""
    import torch
    import transformers

    cls = getattr(transformers, spec["classes"][0][0])
    model = cls.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    base = os.path.join(goldens, spec["name"])
    with open(base + ".json") as f:
        prompts = json.load(f)["prompts"]
    want = np.fromfile(base + ".f32", "<f4").reshape(-1, spec["config"]["vocab_size"]) / np.float32(models.SOFTER)
    with torch.no_grad():
        got = np.concatenate([model(torch.tensor([p]), use_cache=False).logits[0].numpy() for p in prompts])
    worst = np.abs(got - want).max() / np.abs(want).max()
    print(f"{spec['name']:20} transformers {transformers.__version__}: {worst:.1e} of the largest logit off the golden ones", flush=True)
    assert worst < 1e-4
    saved = path + ".saved"
    model.save_pretrained(saved)
    return saved


def main(goldens, out, *flags):
    os.makedirs(out, exist_ok=True)
    for seed, spec in enumerate(models.SPECS):
        if spec["name"] not in FOLDERS:
            continue
        params = golden(seed, spec, os.path.join(goldens, spec["name"] + ".gguf"))
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, spec["name"])
            folder(path, spec, params)
            if "--transformers" in flags:
                path = through_transformers(path, spec, goldens)
            with tarfile.open(os.path.join(out, spec["name"] + ".tar.gz"), "w:gz", compresslevel=9) as tar:
                for name in ("config.json", "model.safetensors"):
                    info = tarfile.TarInfo(f"{spec['name']}/{name}")
                    with open(os.path.join(path, name), "rb") as f:
                        data = f.read()
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
