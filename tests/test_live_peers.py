"""pe beside the libraries themselves: transformers, torch, onnxruntime, on random configs and shapes.

Skipped where they are not installed. transformers forms powers, scalings and angles in float32: an angle of
a radians is compared within 6e-7 a, ten roundings of 2^-24.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import pe
from pe.rope.models import FAMILIES, VISION

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", minversion="5", reason="transformers 5 is not installed")

from transformers import CONFIG_MAPPING  # noqa: E402
from transformers_peer import (  # noqa: E402  (imports both)
    Peer,
    config_of,
    layer_types,
    made_for,
    modelling_code,
    rotary_classes,
)

pytestmark = pytest.mark.filterwarnings("ignore")               # those of the peers
transformers.logging.set_verbosity_error()

SEEDS = range(3)
ROPE_TYPES = ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"]
SCALED = ["llama", "qwen3", "mistral", "granite", "gpt_oss", "cohere", "glm4", "gpt_neox", "phi"]
SCALED = [*((model_type, rope_type) for model_type in SCALED for rope_type in ROPE_TYPES),
          *(("deepseek_v3", rope_type) for rope_type in ROPE_TYPES if rope_type != "proportional"),
          ("phi3", "default"), ("phi3", "longrope")]
PARTIAL = ("glm4", "gpt_neox", "phi")
MODEL_TYPES = [name for name in FAMILIES if name in transformers.CONFIG_MAPPING]
HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
# What these need to be models at all: by default their heads are odd, or their axes count other planes.
CHANGES = {"glm4_moe": {"head_dim": 128}, "glm4v_text": HALF, "glm4v_moe_text": {"head_dim": 128}}
CHANGES |= {"glm4v": {"text_config": HALF}, "glm4v_moe": {"text_config": {"head_dim": 128}}}
# And what asks this one to turn, which it does not by default.
ASKED = {"granitemoehybrid": {"position_embedding_type": "rope"}}


# transformers: scaling


def scaling(rng, rope_type, planes, longest):
    """Random parameters of a rope type, as a config.json has them."""
    factor = float(rng.uniform(1.5, 40))
    trained = {"original_max_position_embeddings": int(longest / factor) + 2}
    match rope_type:
        case "linear" | "dynamic":
            return {"factor": factor}
        case "proportional":
            return {"factor": factor, "partial_rotary_factor": float(rng.choice([0.25, 0.5, 0.75, 1.0]))}
        case "llama3":
            low = float(rng.uniform(0.5, 2))
            return {"factor": factor, "low_freq_factor": low, "high_freq_factor": 4 * low, **trained}
        case "longrope":
            short, long = np.sort(rng.uniform(1, 1.5, planes)), np.sort(rng.uniform(1, 50, planes))
            return {"short_factor": short.tolist(), "long_factor": long.tolist(), **trained}
        case "yarn":
            more = [{}, {"attention_factor": 1.25}, {"mscale": 0.7, "mscale_all_dim": 1.0},
                    {"beta_fast": 24.0, "beta_slow": 2.0, "truncate": False}]
            return {"factor": factor, **trained, **more[rng.integers(len(more))]}
    return {}


def random_config(model_type, rope_type, seed):
    """A configuration with random width, base, context and scaling, and the generator it came from."""
    rng = np.random.default_rng([seed, ROPE_TYPES.index(rope_type), *model_type.encode()])
    width, longest = int(rng.choice([32, 64, 96, 128])), int(2 ** rng.uniform(10, 17))
    part = float(rng.choice([0.25, 0.5])) if model_type in PARTIAL else 1.0
    rope = {"rope_type": rope_type, "rope_theta": float(10 ** rng.uniform(3.5, 6.5))}
    if part < 1 and rope_type != "proportional":
        rope["partial_rotary_factor"] = part
    rope |= scaling(rng, rope_type, int(width * part) // 2, longest)
    changes = {"hidden_size": 2 * width, "num_attention_heads": 2, "num_key_value_heads": 1,
               "max_position_embeddings": longest, "rope_parameters": rope}
    if model_type == "deepseek_v3":
        changes |= {"qk_rope_head_dim": width, "qk_nope_head_dim": 2 * width,
                    "rope_interleave": bool(rng.integers(2))}
    elif model_type not in ("gpt_neox", "phi", "phi3"):
        changes["head_dim"] = width
    return config_of(model_type, **changes), rng


def assert_turns_alike(rope, peer, positions, rng):
    """Compare amplitude, frequencies and turned rows; positions (B, T), or (B, T, axes)."""
    ids = np.moveaxis(positions, -1, 0).copy() if positions.ndim == 3 else positions
    x = rng.standard_normal((len(positions), 2, positions.shape[1], rope.dim)).astype(np.float32)
    turning = slice(rope.rotary_offset, rope.rotary_offset + rope.rotary_dim)
    theirs = peer.turn(x[..., turning].copy(), ids)             # first: its table may depend on the length
    assert rope.rotary_dim == peer.width(ids)
    np.testing.assert_allclose(rope.amplitude, peer.attention_scaling, rtol=1e-12)
    if peer.inv_freq is not None:
        w = np.sort(rope.freqs.max(axis=0))                     # Ernie 4.5 VL keeps them by axis
        np.testing.assert_allclose(w, np.sort(peer.inv_freq), rtol=3e-6, atol=1e-12)
    inverse = FAMILIES[peer.config.model_type].inverse
    ours = rope.apply(x, positions[:, None], inverse=inverse)
    np.testing.assert_array_equal(np.delete(ours, turning, -1), np.delete(x, turning, -1))
    angle = positions[..., None] * rope.freqs[0] if positions.ndim == 2 else positions @ rope.freqs
    allowed = (6e-7 * angle.max(axis=-1) + 6e-7) * rope.amplitude * np.abs(x).max() * np.sqrt(2)
    error = np.abs(ours[..., turning] - theirs).max(axis=(1, 3))
    assert (error <= allowed).all(), (error / allowed).max()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model_type, rope_type", SCALED)
def test_random_configs_of_every_rope_type(model_type, rope_type, seed):
    config, rng = random_config(model_type, rope_type, seed)
    longest = int(rng.integers(8, 2 * config.max_position_embeddings))
    positions = rng.integers(0, longest, (2, 5))
    positions[0, :2] = 0, longest - 1                           # the last one decides which table they take
    saved = json.loads(config.to_json_string(use_diff=False))
    rope = pe.Rope.from_hf(saved, seq_len=longest)
    assert pe.Rope.from_hf(config, seq_len=longest) == rope
    assert_turns_alike(rope, Peer(config), positions, rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rope_type", ["linear", "yarn", "longrope", "llama3", "proportional"])
@pytest.mark.parametrize("model_type", ["gemma3_text", "olmo3", "modernbert"])
def test_random_scaling_of_one_layer_type(model_type, rope_type, seed):
    rng = np.random.default_rng([seed, ROPE_TYPES.index(rope_type), *model_type.encode()])
    width, longest = int(rng.choice([32, 64])), int(2 ** rng.uniform(10, 15))
    full = {"rope_type": rope_type, "rope_theta": 1e6, **scaling(rng, rope_type, width // 2, longest)}
    full.pop("truncate", None)                                  # which they overlook inside a layer type
    local = {"rope_type": "default", "rope_theta": float(rng.uniform(1e3, 1e5))}
    rope_parameters = {"full_attention": full, "sliding_attention": local}
    head = {} if model_type == "modernbert" else {"head_dim": width}
    config = config_of(model_type, hidden_size=2 * width, num_attention_heads=2, num_key_value_heads=1,
                       max_position_embeddings=longest, rope_parameters=rope_parameters, **head)
    for layer_type in rope_parameters:
        rope = pe.Rope.from_hf(config, layer_type=layer_type, seq_len=longest)
        positions = rng.integers(0, longest, (2, 5))
        positions[0, 0] = longest - 1
        assert_turns_alike(rope, Peer(config, layer_type), positions, rng)


# transformers: every text model in the table


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_table_of_models_is_what_the_models_do(model_type):
    rng = np.random.default_rng([*model_type.encode()])
    whole = config_of(model_type, **CHANGES.get(model_type, {}), **ASKED.get(model_type, {}))
    config = whole.get_text_config()
    for layer_type in layer_types(config):
        rope = pe.Rope.from_hf(whole, layer_type=layer_type)
        axes = len(rope.freqs)
        positions = rng.integers(0, 500, (2, 5) if axes == 1 else (2, 5, axes))
        assert_turns_alike(rope, Peer(config, layer_type), positions, rng)


def saved_with(model_type, **sizes):
    """A config.json with these sizes and no more, and the text configuration that its class makes of it."""
    cls = CONFIG_MAPPING[model_type]
    sizes = {getattr(cls, "attribute_map", {}).get(name, name): value for name, value in sizes.items()}
    if type(cls().get_text_config()) is cls:
        return {"model_type": model_type, **sizes}, cls(**sizes)
    return {"model_type": model_type, "text_config": sizes}, cls(text_config=dict(sizes)).get_text_config()


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_what_a_config_leaves_out_is_what_its_class_fills_in(model_type, sized):
    family = FAMILIES[model_type]
    width = int(2 * sum(family.sections) / family.part) or 240
    sizes = {"hidden_size": 8 * width, "num_attention_heads": 8} if sized else {}
    saved, config = saved_with(model_type, **sizes, **ASKED.get(model_type, {}))
    for layer_type in layer_types(config):
        if not sized and model_type in CHANGES:                 # whose heads no code can turn
            with pytest.raises(ValueError, match="mrope_section|partial_rotary_factor"):
                pe.Rope.from_hf(saved, layer_type=layer_type)
            continue
        rope = pe.Rope.from_hf(saved, layer_type=layer_type)
        positions = np.arange(10).reshape(2, 5)
        if len(rope.freqs) > 1:
            positions = np.repeat(positions[..., None], len(rope.freqs), axis=-1)
        assert_turns_alike(rope, Peer(config, layer_type), positions, np.random.default_rng(0))


@pytest.mark.parametrize("model_type", VISION)
def test_what_a_tower_leaves_out_is_what_its_class_fills_in(model_type):
    saved = json.loads(config_of(model_type).to_json_string(use_diff=False))
    assert pe.Rope.from_hf({"model_type": model_type}) == pe.Rope.from_hf(saved)


# transformers: every vision tower in the table


def vision_tower(model_type, width, rng):
    """A tower with heads of this width: its config, its rotary class built, and their module."""
    if model_type == "sam2_video":
        changes = {"memory_attention_hidden_size": width, "memory_attention_num_attention_heads": 1}
    elif model_type == "qwen2_vl_vision":
        changes = {"embed_dim": 2 * width, "num_heads": 2}
    else:
        heads = "num_heads" if model_type.startswith("qwen") else "num_attention_heads"
        changes = {"hidden_size": 2 * width, heads: 2}
    if model_type == "llama4_vision_model":
        changes |= {"image_size": 14 * int(rng.integers(2, 6)), "patch_size": 14}
    config = config_of(model_type, **changes)
    module = modelling_code(config)
    rotary, = (cls for cls in rotary_classes(module) if made_for(cls) is type(config))
    return config, rotary(config).eval(), module                # DINOv3 shakes positions in training


def turned_by_tower(module, rotary, x, positions):
    """Turn x (1, H, N, D) as the tower does, to positions (N, 2)."""
    tables = rotary(x, torch.from_numpy(positions))
    if hasattr(module, "apply_rotary_pos_emb_vision"):          # (N, H, D)
        rows = x[0].transpose(0, 1)
        return module.apply_rotary_pos_emb_vision(rows, rows, *tables)[0].transpose(0, 1)[None]
    if hasattr(module, "apply_rotary_pos_emb_2d"):
        return module.apply_rotary_pos_emb_2d(x, x, *tables)[0]
    return module.apply_rotary_pos_emb(x, x, *tables, unsqueeze_dim=0)[0]


@pytest.mark.parametrize("width", [32, 64, 80])
@pytest.mark.parametrize("model_type", VISION)
def test_the_table_of_vision_towers_is_what_they_do(model_type, width):
    rng = np.random.default_rng([width, *model_type.encode()])
    config, rotary, module = vision_tower(model_type, width, rng)
    rope = pe.Rope.from_hf(config)
    assert rope.dim == rope.rotary_dim == width
    if model_type == "llama4_vision_model":                     # (B, N, H, D), positions of its own
        side = config.image_size // config.patch_size
        positions = pe.presets.llama4_vision_positions(side, side)
        x = torch.from_numpy(rng.standard_normal((1, len(positions), 2, width)).astype(np.float32))
        theirs = module.vision_apply_rotary_emb(x, x, rotary(x))[0].transpose(1, 2)
        x = x.transpose(1, 2)
    elif model_type == "dinov3_vit":
        height, columns = 3, 5
        positions = pe.presets.dinov3_positions(height, columns, prefix=2)
        x = torch.from_numpy(rng.standard_normal((1, 2, len(positions), width)).astype(np.float32))
        pixels = torch.zeros(1, 3, height * config.patch_size, columns * config.patch_size)
        theirs = module.apply_rotary_pos_emb(x, x, *rotary(pixels))[0]
    else:
        positions = rng.integers(0, 60, (7, 2))
        x = torch.from_numpy(rng.standard_normal((1, 2, 7, width)).astype(np.float32))
        theirs = turned_by_tower(module, rotary, x, positions)
    np.testing.assert_allclose(rope.apply(x.numpy(), positions), theirs.detach().numpy(), rtol=0, atol=1e-4)


# torch


def random_attention(seed):
    """Operands, keywords of pe.attention, and the same keywords as one bias and a scale for torch."""
    rng = np.random.default_rng(seed)
    batch, kv, group = (int(n) for n in rng.integers(1, 4, 3))
    m, n, d, width = (int(n) for n in rng.integers(1, [70, 90, 40, 70]))
    q, k, v = (rng.standard_normal(shape) for shape in (
        (batch, kv * group, m, 2 * d), (batch, kv, n, 2 * d), (batch, kv, n, width)))
    lengths = rng.integers(0, n + 1, batch)
    offers = {
        "scale": float(rng.uniform(0.01, 0.5)), "causal": True,
        "window": tuple(rng.integers(0, n, 2).tolist()),
        "mask": rng.random((batch, 1, m, n)) < 0.8, "bias": rng.standard_normal((kv * group, m, n)),
        "alibi_slopes": pe.alibi_slopes(kv * group), "kv_lengths": lengths,
        "rope": pe.Rope(2 * d, layout=str(rng.choice(["half", "interleaved"])))}
    options = {name: value for name, value in offers.items() if rng.random() < 0.5}

    ends = options.get("kv_lengths", np.full(batch, n))
    t, s = ends[:, None] - m + np.arange(m), np.arange(n)
    gap = (t[..., None] - s)[:, None]
    left, right = options.get("window", (n + m, n + m))
    hidden = (s >= ends[:, None, None, None]) | (gap > left) | (gap < -right) | ~options.get("mask", np.True_)
    hidden = hidden | (gap < 0) if "causal" in options else hidden
    bias = options.get("bias", 0) - options.get("alibi_slopes", np.zeros(1))[:, None, None] * np.abs(gap)
    return (q, k, v), options, np.where(hidden, -np.inf, bias), (t[:, None], s)


def as_numpy(tensor):
    """A tensor as the array NumPy would have of it, bfloat16 by its bits."""
    bits = tensor.dtype == torch.bfloat16
    return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16) if bits else tensor.numpy()


def turned_by_torch(x, positions, rope):
    """RoPE as one product of complex numbers, in float64."""
    planes = x.shape[-1] // 2
    w = 10000.0 ** (-torch.arange(planes, dtype=torch.float64) / planes)
    dial = torch.polar(torch.ones(1, dtype=torch.float64), torch.from_numpy(positions)[..., None] * w)
    if rope.layout == "half":
        z = torch.complex(x[..., :planes], x[..., planes:]) * dial
        return torch.cat((z.real, z.imag), dim=-1)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (planes, 2))) * dial).flatten(-2)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 2e-14), ("float32", 3e-6), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("seed", range(40))
def test_attention_of_torch_on_random_shapes_and_options(seed, dtype, tolerance):
    operands, options, bias, positions = random_attention(seed)
    given = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in operands]
    q, k, v = (a.double() for a in given)                       # what the dtype holds, computed in 64 bits
    if "rope" in options:
        q, k = (turned_by_torch(a, p, options["rope"]) for a, p in zip((q, k), positions, strict=True))
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.from_numpy(bias), scale=options.get("scale"), enable_gqa=True).numpy()
    ours = pe.attention(*(as_numpy(a) for a in given), **options).astype(np.float64)
    np.testing.assert_allclose(ours, want, rtol=0, atol=tolerance * np.abs(operands[2]).max())


# onnxruntime


def onnx_rotary(rng, domain, layout, partial, flat):
    """Run RotaryEmbedding on random rows; return the rows (B, H, T, D), its result and pe's."""
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    batch, heads, tokens = (int(n) for n in rng.integers(1, 6, 3))
    width = 16 * int(rng.integers(2, 9))
    turning = width // 2 if partial else width
    rope = pe.Rope(width, base=float(10 ** rng.uniform(3, 6)), rotary_dim=turning, layout=layout)
    x = rng.standard_normal((batch, heads, tokens, width)).astype(np.float32)
    ids = rng.integers(0, 5000, (batch, tokens))
    cos, sin = (table.astype(np.float32) for table in rope.cache(5000))
    given = x.swapaxes(1, 2).reshape(batch, tokens, heads * width) if flat else x
    attributes = {"interleaved": int(layout == "interleaved"),
                  "rotary_embedding_dim": turning if partial else 0}
    if flat or partial:
        attributes["num_heads"] = heads
    feeds = {"x": given, "cos": cos, "sin": sin, "ids": ids}
    order = ["x", "ids", "cos", "sin"] if domain else ["x", "cos", "sin", "ids"]
    node = onnx.helper.make_node("RotaryEmbedding", order, ["y"], domain=domain, **attributes)
    kind = {"ids": onnx.TensorProto.INT64}
    inputs = [onnx.helper.make_tensor_value_info(name, kind.get(name, onnx.TensorProto.FLOAT), feed.shape)
              for name, feed in feeds.items()]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, given.shape)
    graph = onnx.helper.make_graph([node], "rotary", inputs, [output])
    opsets = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y = session.run(None, feeds)[0]
    y = y.reshape(batch, tokens, heads, width).swapaxes(1, 2) if flat else y
    return y, rope.apply(x, ids[:, None])


@pytest.mark.parametrize("flat", [False, True], ids=["4d", "3d"])
@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("domain", ["", "com.microsoft"], ids=["onnx", "microsoft"])
def test_rotary_embedding_of_onnxruntime(domain, layout, partial, flat):
    for seed in SEEDS:
        theirs, ours = onnx_rotary(np.random.default_rng(seed), domain, layout, partial, flat)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
