"""check_rope on the functions of transformers, where it is installed: their conventions and precision."""

import importlib

import pytest

import pe

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", minversion="5", reason="transformers 5 is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")               # those of the peers
SMALL = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64}


def model(name):
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def check(model_type, module, rotary, dim=64, *, changes=SMALL, **keywords):
    """Try a model's own tables and its own function on them."""
    code = model(module)
    tables = getattr(code, rotary)(transformers.CONFIG_MAPPING[model_type](**changes))

    def apply(q, k, position_ids):
        return code.apply_rotary_pos_emb(q, k, *tables(q, position_ids))
    return pe.check_rope(apply, dim, signature="q, k, position_ids", arrays="torch", **keywords)


@pytest.mark.parametrize(("model_type", "rotary", "layout", "base"), [
    ("llama", "LlamaRotaryEmbedding", "half", 1e4), ("cohere", "CohereRotaryEmbedding", "interleaved", 5e5),
    ("ernie4_5", "Ernie4_5RotaryEmbedding", "interleaved", 5e5),
    ("qwen3", "Qwen3RotaryEmbedding", "half", 1e4),
])
def test_text_models(model_type, rotary, layout, base):
    report = check(model_type, model_type, rotary, max_position=4096)
    assert report.ok, str(report)
    assert (report.layout, report.base, report.rotary_dim, report.direction) == (layout, base, 64, 1)
    assert "float64 values are turned to" in report.notes[-1]


def test_float32_angles_at_131071():
    report = check("llama", "llama", "LlamaRotaryEmbedding", 128, changes={**SMALL, "head_dim": 128})
    assert report.causes[0].startswith("angles are formed in float32") and len(report.causes) == 1
    assert 2e-3 < report.angle_errors[131071] < 8e-3


def test_partial_heads():
    report = check("glm", "glm", "GlmRotaryEmbedding", max_position=4096)
    assert report.ok and (report.layout, report.rotary_dim) == ("interleaved", 32)


def test_a_module_cast_to_bfloat16():
    code = model("llama")
    tables = code.LlamaRotaryEmbedding(transformers.LlamaConfig(**SMALL)).to(torch.bfloat16)
    report = pe.check_rope(lambda q, k, ids: code.apply_rotary_pos_emb(q, k, *tables(q, ids)),
                           signature="q, k, position_ids", arrays="torch", dtypes=["float32"])
    assert report.causes == ("frequencies are rounded to bfloat16 (for float32)",)


def test_sections():
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    report = check("qwen2_vl_text", "qwen2_vl", "Qwen2VLRotaryEmbedding", 128, n_axes=3, max_position=4096,
                   changes={"hidden_size": 512, "num_attention_heads": 4, "rope_parameters": rope},
                   expect=pe.presets.qwen2_vl(128))
    assert report.ok, str(report)
    assert report.axis_order == ("axis 0", "axis 1", "axis 2")


def test_clockwise():
    report = check("nanochat", "nanochat", "NanoChatRotaryEmbedding", max_position=4096)
    assert report.direction == -1 and report.causes[0].startswith("clockwise") and report.is_relative


def test_v_jepa_2():
    report = pe.check_rope(model("vjepa2").rotate_queries_or_keys, arrays="torch")
    assert report.causes[0].startswith("table in the wrong layout: its columns are [w, w]")
    assert not report.is_rotation and not report.is_relative


def test_deepseek_writes_halves():
    apply = model("deepseek_v3").apply_rotary_pos_emb_interleave
    report = pe.check_rope(apply, signature="q, k, cos, sin", arrays="torch")
    assert report.ok and report.layout == "interleaved to half"


def test_gpt_j_takes_sin_before_cos():
    apply = model("gptj").apply_rotary_pos_emb
    right, wrong = (pe.check_rope(apply, signature=signature, axes="BTHD", arrays="torch")
                    for signature in ("x, sin, cos", "x, cos, sin"))
    assert right.ok and right.layout == "interleaved"
    assert wrong.causes == ("sin and cos are swapped: position 0 turns by a quarter",)


def test_a_function_of_tensors():
    def apply(x, positions):
        angle = positions[:, None].double() * 10000.0 ** (-torch.arange(32).double() / 32)
        cos, sin = (torch.cat([t, t], dim=-1).to(x.dtype) for t in (angle.cos(), angle.sin()))
        return x * cos + torch.cat([-x[..., 32:], x[..., :32]], dim=-1) * sin

    report = pe.check_rope(apply, arrays="torch")
    assert report.ok and report.layout == "half" and report.base == pytest.approx(1e4)
    late = pe.check_rope(lambda x, p: apply(x, p.to(torch.bfloat16)), arrays="torch", dtypes=["float32"])
    assert late.causes == ("positions are rounded to bfloat16 (for float32)",)
