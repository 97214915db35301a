"""The page docs/rope.md: its sessions run, its tables are the code's, its recipes what others compute."""

import doctest
import importlib.util
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from golden_cases import GOLDEN, rope_cases

import pe
from pe.rope.models import FAMILIES, VISION

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "rope.md").read_text()
BLOCKS = re.findall(r"^```(python|pycon)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
CONFIGS = json.loads((GOLDEN / "rope_hf_configs.json").read_text())["cases"]
RNG = np.random.default_rng(0)
POSITIONS = np.array([0, 1, 7, 100, 4095, 131071])


def run_page():
    """Run every block, in order and in one namespace; return it and how many examples failed."""
    names, failures = {}, 0
    runner = doctest.DocTestRunner()
    for language, block in BLOCKS:
        if language == "python":
            exec(block, names)
        else:
            test = doctest.DocTestParser().get_doctest(block, names, "rope.md", "rope.md", 0)
            failures += runner.run(test, clear_globs=False).failed
            names.update(test.globs)
    return names, failures


@pytest.fixture(scope="module")
def page():
    """What the page defines."""
    return run_page()[0]


def ropes():
    """One-axis ropes of every kind: configs of models, whole and partial, both layouts, every scaling."""
    for name, case in CONFIGS.items():
        if case["expect"]["n_axes"] == 1 and case["expect"]["head_dim"] <= 256:
            rope = pe.Rope.from_hf({"model_type": case["model_type"], **case["config"]},
                                   layer_type=case["layer_type"], seq_len=case["seq_len"])
            yield pytest.param(rope, id=name)


ROPES = [*ropes()]


def tail(rope, x):
    """The part of a head that other libraries are given."""
    return x[..., rope.rotary_offset:]


def heads(rope):
    """Random rows (H, T, D)."""
    return RNG.standard_normal((2, len(POSITIONS), rope.dim))


def test_sessions_run_and_print_what_they_show():
    assert len(BLOCKS) > 10
    assert run_page()[1] == 0


def test_tables_of_models_are_those_of_the_code():
    spec = importlib.util.spec_from_file_location("rope_table", DOCS / "rope_table.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.filled(PAGE) == PAGE
    first_cells = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    named = [name for cell in first_cells for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted({*FAMILIES, *VISION}) == sorted(name for name in named if name in {*FAMILIES, *VISION})


@pytest.mark.parametrize("model, words", [
    ("gemma4_text", "has `head_dim` 512, `rope_type` proportional, `partial_rotary_factor` 0.25"),
    ("ministral3", "queries also times"), ("mistral4", "queries also times"), ("llama", " | - |")])
def test_table_tells_what_a_model_has_of_its_own(model, words):
    row, = (line for line in PAGE.splitlines() if line.startswith("| `") and f"`{model}`" in line)
    assert words in row


def test_table_of_scalings_names_all_of_them_with_their_parameters():
    rows = {cells[1].strip(" `"): line for line in PAGE.splitlines() if len(cells := line.split("|")) == 7}
    scalings = [name for name in pe.scaling.__all__ if name != "Scaling"]
    assert {*scalings} <= {*rows}
    for name in scalings:
        scaling = getattr(pe.scaling, name)
        assert re.search(r"arXiv:[\d.]+", scaling.paper) is None or (
            re.search(r"arXiv:[\d.]+", scaling.paper)[0] in rows[name] or "the same" in rows[name])
        for parameter, default in inspect.signature(scaling).parameters.items():
            if parameter in ("beta_fast", "low_freq_factor", "high_freq_factor", "truncate", "seq_len",
                             "attention_factor", "mscale", "mscale_all_dim", "partial_rotary_factor"):
                assert parameter in rows[name], parameter
            if isinstance(default.default, float) and default.default > 1 and parameter != "factor":
                assert re.search(rf"{parameter}` {default.default:g}\b", rows[name]), parameter


# Recipes


@pytest.mark.parametrize("rope", ROPES)
def test_tables_for_torch(rope, page):
    """Against rotate_half and against complex numbers, as transformers writes them."""
    x, turning = heads(rope), slice(0, rope.rotary_dim)
    given = tail(rope, x)[..., turning]
    if rope.layout == "half":
        first, second = np.split(given, 2, axis=-1)
        rotated = np.concatenate([-second, first], axis=-1)
    else:
        rotated = np.stack([-given[..., 1::2], given[..., ::2]], axis=-1).reshape(given.shape)
        z = (given[..., ::2] + 1j * given[..., 1::2]) * page["freqs_cis"](rope, POSITIONS)
        np.testing.assert_allclose(np.stack([z.real, z.imag], axis=-1).reshape(given.shape),
                                   tail(rope, rope.apply(x, POSITIONS))[..., turning], rtol=0, atol=1e-9)
    cos, sin = page["tables_for_torch"](rope, POSITIONS)
    turned = given * cos + rotated * sin
    np.testing.assert_allclose(turned, tail(rope, rope.apply(x, POSITIONS))[..., turning], rtol=0, atol=1e-9)


def onnx_reference(x, position_ids, cos_cache, sin_cache, interleaved, rotary_embedding_dim):
    """RotaryEmbedding of opset 23 for x (B, H, T, D), written after its specification."""
    width = rotary_embedding_dim or x.shape[-1]
    turning, rest = x[..., :width], x[..., width:]
    cos, sin = (cache[position_ids][:, None] for cache in (cos_cache, sin_cache))
    first, second = (turning[..., ::2], turning[..., 1::2]) if interleaved else np.split(turning, 2, axis=-1)
    real, imag = cos * first - sin * second, sin * first + cos * second
    both = np.stack([real, imag], axis=-1) if interleaved else np.stack([real, imag], axis=-2)
    return np.concatenate([both.reshape(turning.shape), rest], axis=-1)


@pytest.mark.parametrize("rope", ROPES)
def test_caches_for_onnx(rope, page):
    ids = np.array([[0, 1, 7, 100, 255, 63]])
    x = heads(rope)[None]
    cos, sin, attributes = page["onnx_rotary_embedding"](rope, 256)
    if rope.rotary_offset:
        attributes["rotary_embedding_dim"] = 0                  # the tail is whole
    y = onnx_reference(tail(rope, x), ids, cos, sin, **attributes)
    np.testing.assert_allclose(y, tail(rope, rope.apply(x, ids[:, None])), rtol=0, atol=1e-6)


def test_the_reference_above_is_the_operator():
    """Numbers of onnx's own evaluator."""
    for name in ("op23_half_full_4d_ids", "op23_interleaved_partial_4d_ids"):
        case = dict(rope_cases("rope_onnx"))[name]
        attributes = json.loads(case.attributes)
        y = onnx_reference(case.X, case.position_ids, case.cos_cache, case.sin_cache,
                           attributes.get("interleaved", 0), attributes.get("rotary_embedding_dim", 0))
        np.testing.assert_allclose(y, case.Y_ref, rtol=0, atol=1e-6)


def ggml(x, positions, freq_factors, n_dims, mode, freq_base, freq_scale, ext_factor, attn_factor, **ramp):
    """ggml_rope_ext with its ramp off, in float64: theta = p base^(-2l/n) scale / factor."""
    assert ext_factor == 0
    theta = np.multiply.outer(positions, freq_base ** (-2 * np.arange(n_dims // 2) / n_dims))
    theta = theta * freq_scale / freq_factors
    cos, sin = attn_factor * np.cos(theta), attn_factor * np.sin(theta)
    i = np.arange(n_dims // 2)
    first, second = (2 * i, 2 * i + 1) if mode == 0 else (i, i + n_dims // 2)
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


@pytest.mark.parametrize("rope", ROPES)
def test_parameters_for_ggml(rope, page):
    x, positions = heads(rope), np.array([0, 1, 7, 100, 4095, 8191])
    parameters = page["ggml_rope_ext"](rope)
    assert parameters["freq_factors"].dtype == np.float32 and "beta_slow" in parameters
    y = ggml(tail(rope, x), positions, **parameters)
    # the divisors are float32: up to 2^-24 of an angle
    np.testing.assert_allclose(y, tail(rope, rope.apply(x, positions)), rtol=0, atol=8191 * 2.0**-23 * 5)


@pytest.mark.parametrize("rope", ROPES)
def test_arguments_for_mlx(rope, page):
    x, positions = heads(rope), np.arange(40, 40 + len(POSITIONS))
    keywords, amplitude = page["mlx_rope"](rope)
    dims, freqs = keywords["dims"], keywords["freqs"].astype(np.float64)
    angle = positions[:, None] * keywords["scale"] / freqs      # as mx.fast.rope documents freqs
    coordinates = np.arange(dims)
    pairs = coordinates.reshape(-1, 2) if keywords["traditional"] else coordinates.reshape(2, -1).T
    given = tail(rope, x)
    y = given.copy()
    for plane, (i, j) in enumerate(pairs):
        z = (given[..., i] + 1j * given[..., j]) * np.exp(1j * angle[:, plane]) * amplitude
        y[..., i], y[..., j] = z.real, z.imag
    np.testing.assert_allclose(y, tail(rope, rope.apply(x, positions)), rtol=0, atol=1e-4)


def test_arguments_for_mlx_are_those_of_its_own_run(page):
    """The case whose frequencies went into MLX as reciprocals."""
    case = dict(rope_cases("rope_peers"))["mlx_freqs"]
    keywords, amplitude = page["mlx_rope"](pe.Rope(case.x.shape[-1], freqs=case.freqs, layout=case.layout))
    np.testing.assert_allclose(keywords["freqs"] * case.freqs, 1, rtol=1e-7)
    assert keywords["dims"] == case.rotary_dim and amplitude == 1
    assert keywords["traditional"] == (case.layout == "interleaved")


def test_arguments_for_mlx_in_mlx(page):
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed")
    for rope in (param.values[0] for param in ROPES):
        x = heads(rope).astype(np.float32)[None]
        keywords, amplitude = page["mlx_rope"](rope)
        freqs = mx.array(keywords.pop("freqs"))
        y = np.array(mx.fast.rope(mx.array(tail(rope, x)), **keywords, offset=40, freqs=freqs))
        y[..., :keywords["dims"]] *= amplitude
        want = tail(rope, rope.apply(x, 40 + np.arange(len(POSITIONS))))
        np.testing.assert_allclose(y, want, rtol=0, atol=1e-4)


def test_caches_for_onnx_in_onnx(page):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    ids = np.array([[0, 1, 7, 100, 255, 63]])
    for rope in (param.values[0] for param in ROPES):
        x = heads(rope).astype(np.float32)[None]
        cos, sin, attributes = page["onnx_rotary_embedding"](rope, 256)
        if rope.rotary_offset:
            attributes["rotary_embedding_dim"] = 0
        feeds = {"X": tail(rope, x), "cos_cache": cos, "sin_cache": sin, "position_ids": ids}
        node = onnx.helper.make_node("RotaryEmbedding", [*feeds], ["Y"], **attributes)
        values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(feed.dtype),
                                                     feed.shape) for name, feed in feeds.items()]
        output = onnx.helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, feeds["X"].shape)
        graph = onnx.helper.make_graph([node], "rotary", values, [output])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
        y = evaluator(model).run(None, feeds)[0]
        np.testing.assert_allclose(y, tail(rope, rope.apply(x, ids[:, None])), rtol=0, atol=2e-6)
