"""The golden models: their configurations, parameters and names in GGUF files."""

import re

import numpy as np

import gguf

QWEN3 = [("Qwen3ForCausalLM", "Qwen3Config")]
QWEN3_MOE = [("Qwen3MoeForCausalLM", "Qwen3MoeConfig")]
QWEN35 = [("Qwen3_5ForCausalLM", "Qwen3_5TextConfig")]
QWEN35_MOE = [("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig")]

VOCAB = 203  # no multiple of anything
# What is written is the model with its last norm, and so its logits, times this power
# of two, which is exact: 8-bit activations are held to a divergence of the softmax.
SOFTER = 0.5
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 512}


def plain(theta):
    return {"rope_type": "default", "rope_theta": theta}


def dense(**more):
    return {
        "vocab_size": VOCAB, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "rope_parameters": plain(1e6),
        "pad_token_id": None, "bos_token_id": None, "eos_token_id": None, **more,
    }


def hybrid(k_heads, rep, head_dim=256, **more):
    pairs = head_dim // 8
    third = (pairs + 2) // 3
    rope = {
        "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
        "mrope_section": [third, (pairs + 1) // 3, pairs // 3],
    }
    return dense(**{
        "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": head_dim,
        "linear_num_key_heads": k_heads, "linear_num_value_heads": k_heads * rep,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "rope_parameters": rope, **more,
    })


MOE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 64}

SPECS = [
    {"name": "qwen3", "arch": "qwen3", "classes": QWEN3, "config": dense()},
    {"name": "qwen3-tied-yarn", "arch": "qwen3", "classes": QWEN3, "config": dense(
        tie_word_embeddings=True, rope_parameters=YARN, head_dim=128, num_attention_heads=2, num_key_value_heads=1)},
    {"name": "qwen3moe", "arch": "qwen3moe", "classes": QWEN3_MOE, "config": dense(
        norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], **MOE)},
    {"name": "qwen35-rep1-tied", "arch": "qwen35", "classes": QWEN35, "config": hybrid(2, 1, tie_word_embeddings=True)},
    {"name": "qwen35-rep2", "arch": "qwen35", "classes": QWEN35, "small": gguf.BF16, "config": hybrid(2, 2, head_dim=128)},
    {"name": "qwen35-rep3", "arch": "qwen35", "classes": QWEN35, "config": hybrid(2, 3)},
    {"name": "qwen35moe", "arch": "qwen35moe", "classes": QWEN35_MOE, "small": gguf.F32, "config": hybrid(
        1, 2, shared_expert_intermediate_size=128, **MOE)},
]
for _spec in SPECS:
    if "moe_intermediate_size" in _spec["config"] and _spec["arch"] == "qwen35moe":
        del _spec["config"]["intermediate_size"]


def ternary(shape, gain, rng):
    """d * {-1, 0, 1} in blocks of 64, so that a product with a unit vector has a
    deviation of about gain; d is a half."""
    k = shape[-1]
    d = gain * np.sqrt(1.5 / k) * rng.uniform(0.6, 1.4, (*shape[:-1], k // 64, 1))
    d = d.astype(np.float16).astype(np.float32)
    t = rng.integers(-1, 2, (*shape[:-1], k // 64, 64)).astype(np.float32)
    t[..., 0] = 1  # so that the scale shows
    return (d * t).reshape(shape)


def to_bf16(x):
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def parameter(name, shape, spec, rng):
    """A value for a parameter of transformers' name and shape."""
    f = np.float32
    zero_centred = spec["arch"] in ("qwen35", "qwen35moe")
    if name.endswith("A_log"):
        return np.log(rng.uniform(0.02, 1.5, shape)).astype(f)
    if name.endswith("dt_bias"):
        return rng.uniform(-2, 1, shape).astype(f)
    if name.endswith("conv1d.weight"):
        return (0.6 * rng.standard_normal(shape)).astype(f)
    if name.endswith("linear_attn.norm.weight"):
        return rng.uniform(0.8, 1.2, shape).astype(f)
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return (rng.uniform(0.85, 1.05, shape) - zero_centred).astype(f)
    if name.endswith("norm.weight"):
        return (rng.uniform(0.8, 1.2, shape) - zero_centred).astype(f)
    if name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")):
        return (rng.standard_normal(shape) * 2 / np.sqrt(shape[-1])).astype(f)
    gain = 1.0
    if "embed_tokens" in name or "lm_head" in name:
        gain = 2.0
        if "embed_tokens" in name:
            gain *= np.sqrt(shape[-1]) / (4 if not spec["config"]["tie_word_embeddings"] else 8)
    w = ternary(shape, gain, rng)
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight")) and "small" in spec:
        w = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(f)
        if spec["small"] == gguf.BF16:
            w = to_bf16(w)
    return w


NAMES = {
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.A_log": "ssm_a", "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def tile(x, spec, head):
    """Value heads from transformers' order (rep heads of a key head together) to
    the file's (the first of every key head, then the second, ...), on axis 0."""
    nk = spec["config"]["linear_num_key_heads"]
    rep = spec["config"]["linear_num_value_heads"] // nk
    return x.reshape(nk, rep, head, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def convert(name, x, spec):
    """A layer's parameter as the file has it: (name, array) pairs."""
    c, dim = spec["config"], 128
    key_rows = 2 * dim * c.get("linear_num_key_heads", 0)
    if name.endswith("experts.gate_up_proj"):
        half = x.shape[1] // 2
        return [("ffn_gate_exps.weight", x[:, :half]), ("ffn_up_exps.weight", x[:, half:])]
    to = NAMES[name] if name in NAMES else {
        "qwen35": "post_attention_norm.weight", "qwen35moe": "post_attention_norm.weight"}.get(spec["arch"], "ffn_norm.weight")
    if to in ("attn_qkv.weight", "ssm_conv1d.weight"):
        x = x.reshape(x.shape[0], -1)
        x = np.concatenate([x[:key_rows], tile(x[key_rows:], spec, dim)])
    elif to == "attn_gate.weight":
        x = tile(x, spec, dim)
    elif to in ("ssm_alpha.weight", "ssm_beta.weight", "ssm_dt.bias", "ssm_a"):
        x = tile(x, spec, 1)
    elif to == "ssm_out.weight":
        x = tile(x.T, spec, dim).T
    elif to == "ffn_gate_inp_shexp.weight":
        x = x.reshape(-1)
    if to == "ssm_a":
        x = -np.exp(x)
    return [(to, x)]


def to_gguf(spec, params):
    """Metadata and tensors of the file of a model."""
    c, arch = spec["config"], spec["arch"]
    recurrent = arch in ("qwen35", "qwen35moe")
    tensors = []
    for full, x in params.items():
        m = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", full)
        prefix, name = (f"blk.{m[1]}.", m[2]) if m else ("", full)
        assert m is None or name in NAMES or name in ("post_attention_layernorm.weight", "mlp.experts.gate_up_proj"), full
        for to, y in convert(name, x, spec) if m else [(TOP[full], x)]:
            if recurrent and to.endswith("norm.weight") and to != "ssm_norm.weight":
                y = np.float32(1) + y
            if full == "model.norm.weight":
                y = y * np.float32(SOFTER)
            kind = gguf.F32
            if to in ("ssm_alpha.weight", "ssm_beta.weight"):
                kind = spec.get("small", gguf.Q2_0)
            elif y.ndim > 1 and to not in ("ffn_gate_inp.weight", "ssm_conv1d.weight"):
                kind = gguf.Q2_0
            tensors.append((prefix + to, kind, y))
    rope = c["rope_parameters"]
    meta = {
        "general.architecture": arch, "general.name": "golden " + spec["name"],
        f"{arch}.block_count": c["num_hidden_layers"], f"{arch}.context_length": c["max_position_embeddings"],
        f"{arch}.embedding_length": c["hidden_size"],
        f"{arch}.feed_forward_length": c.get("intermediate_size", c.get("moe_intermediate_size")),
        f"{arch}.attention.head_count": c["num_attention_heads"], f"{arch}.attention.head_count_kv": c["num_key_value_heads"],
        f"{arch}.attention.key_length": c["head_dim"], f"{arch}.attention.value_length": c["head_dim"],
        f"{arch}.attention.layer_norm_rms_epsilon": c["rms_norm_eps"], f"{arch}.rope.freq_base": rope["rope_theta"],
        "tokenizer.ggml.model": "no_vocab",
    }
    if rope["rope_type"] == "yarn":
        meta |= {
            f"{arch}.rope.scaling.type": "yarn", f"{arch}.rope.scaling.factor": rope["factor"],
            f"{arch}.rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        }
    if "num_experts" in c:
        meta |= {
            f"{arch}.expert_count": c["num_experts"], f"{arch}.expert_used_count": c["num_experts_per_tok"],
            f"{arch}.expert_feed_forward_length": c["moe_intermediate_size"],
        }
    if "shared_expert_intermediate_size" in c:
        meta[f"{arch}.expert_shared_feed_forward_length"] = c["shared_expert_intermediate_size"]
    if recurrent:
        meta |= {
            f"{arch}.rope.dimension_count": c["head_dim"] // 4, f"{arch}.rope.dimension_sections": [*rope["mrope_section"], 0],
            f"{arch}.full_attention_interval": 4, f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.state_size": 128,
            f"{arch}.ssm.group_count": c["linear_num_key_heads"], f"{arch}.ssm.time_step_rank": c["linear_num_value_heads"],
            f"{arch}.ssm.inner_size": 128 * c["linear_num_value_heads"],
        }
    return meta, tensors
