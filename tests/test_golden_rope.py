"""pe beside what the peers of the golden rotations gave themselves; `test_golden` has the exact values."""

import json

import numpy as np
import pytest
from golden_cases import rope_cases

import pe

SOURCE1 = dict(rope_cases("rope_source1"))


def by_tables(x, cos, sin):
    return pe.apply_rope(x, cos[:x.shape[-2]], sin[:x.shape[-2]])


@pytest.mark.parametrize("name", ["sanity", "worked_example", "attention", "far_rows"])
def test_tables_of_the_tutorial_in_torch(name):
    """Its angles are float32 products: off by the position times a rounding, and useless at the last row."""
    case = SOURCE1[name]
    rows = getattr(case, "positions", np.arange(len(case.cos)))
    cos, sin = pe.Rope(2 * case.cos.shape[-1]).cache(rows)
    allowed = np.minimum(4 * rows * 2.0**-24, 2)[:, None] + 2.0**-22
    assert (np.abs(cos - case.cos) <= allowed).all() and (np.abs(sin - case.sin) <= allowed).all()
    if name == "far_rows":
        assert np.abs(cos - case.cos_exact).max() < 2e-9 < 0.5 < np.abs(cos - case.cos).max()


@pytest.mark.parametrize("name", ["sanity", "worked_example"])
def test_scores_of_the_tutorial_in_torch(name):
    case = SOURCE1[name]
    q, k = (getattr(case, operand, getattr(case, "x", None)) for operand in "qk")
    for (t, s), theirs in zip(case.pairs, case.score_torch, strict=True):
        turned = [pe.apply_rope(x, case.cos[p:p + 1], case.sin[p:p + 1]) for x, p in ((q, t), (k, s))]
        assert float((turned[0] * turned[1]).sum()) == pytest.approx(theirs, abs=2e-6)


def test_attention_of_the_tutorial_in_torch():
    """From its own tables: the same roundings but for the order of sums."""
    case = SOURCE1["attention"]
    q, k = (by_tables(x, case.cos, case.sin) for x in (case.q, case.k))
    np.testing.assert_allclose(q, case.q_rot, rtol=0, atol=2.0**-22)
    np.testing.assert_allclose(k, case.k_rot, rtol=0, atol=2.0**-22)
    np.testing.assert_allclose(by_tables(case.k.astype(float), *pe.build_rope_cache(7, 8)), case.k_rot_exact,
                               rtol=0, atol=1e-14)
    for causal, theirs in ((True, case.out_causal), (False, case.out_full)):
        np.testing.assert_allclose(pe.attention(q, k, case.v, causal=causal), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_onnx")])
def test_onnx_runtime_and_its_reference(name, case):
    x = getattr(case, "X", getattr(case, "input", None))
    attributes, fused = json.loads(case.attributes), x.ndim == 3

    def heads(a):                                           # (B, S, N*H) -> (B, N, S, H)
        return a.reshape(*a.shape[:2], attributes["num_heads"], -1).swapaxes(1, 2) if fused else a

    x, (cos, sin) = heads(x), (case.cos_cache, case.sin_cache)
    if hasattr(case, "position_ids"):
        ids = case.position_ids
        ids = ids + np.arange(x.shape[-2])[None] if ids.ndim == 1 else ids
        cos, sin = cos[ids], sin[ids]
    got = pe.apply_rope(x, cos[:, None], sin[:, None],
                        layout="interleaved" if attributes["interleaved"] else "half")
    for theirs in ("Y_ref", "Y_ort"):
        if hasattr(case, theirs):                           # in 16 bits theirs round each product
            unit = 2.0**-22 if x.dtype == np.float32 else 2.0**-9
            np.testing.assert_allclose(got.astype(float), heads(getattr(case, theirs)).astype(float), rtol=0,
                                       atol=unit * np.abs(x).max())


@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for file in ("rope_apply", "rope_mrope")
                                        for c in rope_cases(file)])
def test_float64_models_are_no_more_exact(name, case):
    """Asked for float64, transformers turns float64 vectors by float32 angles; RoFormer alone does better."""
    x, theirs = case.q, case.q_hf64
    rope = pe.Rope(x.shape[-1], freqs=case.freqs, layout=case.layout, amplitude=case.amplitude,
                   rotary_offset=case.rotary_offset)
    tail = () if case.freqs.ndim == 1 else (len(case.freqs),)
    got = rope.apply(x.astype(np.float64), np.broadcast_to(case.positions, x.shape[:-1] + tail),
                     inverse=case.inverse)
    if name == "deepseek_v3_interleave":                    # reads adjacent pairs, writes half order
        turned = got[..., case.rotary_offset:]
        got = np.concatenate([got[..., :case.rotary_offset], turned[..., ::2], turned[..., 1::2]], axis=-1)
    ours = np.abs(got - case.q_exact).max()
    gap = np.abs(theirs - case.q_exact).max()
    assert ours < 1e-6 * gap or name == "roformer" and ours < 1e-8
    near = np.abs(case.positions).max() * 2.0**-21 + 2.0**-21
    assert np.abs(got - theirs).max() <= 1.5 * near * np.abs(x).max() * case.amplitude
