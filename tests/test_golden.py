"""Every op against numbers made by other implementations; the twins of `pe.reference` stand the same trial.

An unknown keyword in a golden file fails `test_every_case_is_accounted_for`: nothing is skipped silently.
"""

import inspect
import json

import numpy as np
import pytest
from golden_cases import arrays, bfloat16, op_cases, rope_cases
from isas import weight_rounding

import pe
import pe.reference

OPS = [pytest.param(pe, id="pe"), pytest.param(pe.reference, id="twin")]
FLOATS = [np.float64, np.float32]
HALVES = [np.float16, bfloat16()]

# Counts of the cases of attention in each file. Other ops have tests of their own.
ELSEWHERE = {"merge_attention", "retention"}
ATTENTION_FILES = {"attention_shapes": 175, "attention_options": 34, "attention_flex": 20,
                   "attention_transformers": 18, "attention_onnx": 24, "attention_lowprec": 12,
                   "attention_adversarial": 49, "retention_fla": 2}
LOW_PRECISION = "attention_lowprec"
# Beyond the contract, for the twins alone: sums that overflow before the division.
STRETCH = {"huge_values_f64", "huge_values_f32", "dot_overflow_f32"}


def _attention_cases(*files):
    return [case for file in files for case in op_cases(file) if case.op not in ELSEWHERE]


def _dtypes(case):
    """Dtypes in which the stored inputs are exact."""
    if "dtypes" in case.info:
        return [{"f64": np.float64, "f32": np.float32, "f16": np.float16}[d] for d in case.info["dtypes"]]
    return FLOATS if case.args["q"].dtype == np.float32 else [np.float64]


def _trials():
    cases = _attention_cases(*(file for file in ATTENTION_FILES if file != LOW_PRECISION))
    return [pytest.param(*ops.values, case, dtype, id=f"{ops.id}-{case}-{np.dtype(dtype).name}")
            for ops in OPS for case in cases for dtype in _dtypes(case)
            if not (ops.values == (pe,) and case.name in STRETCH)]


def _score_bound(q, k, bias=None, scale=None, alibi_slopes=None, decay_rate=None, sinks=None,
                 q_positions=None, k_positions=None, **others):
    """Bound the terms a score is summed from: its rounding error is about that many units."""
    q, k = np.abs(np.nan_to_num(q, posinf=0, neginf=0)), np.abs(np.nan_to_num(k, posinf=0, neginf=0))
    M, N = q.shape[-2], k.shape[-2]
    if q.size == 0 or k.size == 0:
        return 0.0
    group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    k = np.repeat(k, group, axis=-3) if group > 1 else k
    dot = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64)
    bound = np.max(dot) * abs(q.shape[-1] ** -0.5 if scale is None else scale)
    for added in (bias, sinks):
        bound += 0 if added is None else np.max(np.abs(added), where=np.isfinite(added), initial=0)
    t = np.arange(N - M, N) if q_positions is None else q_positions
    s = np.arange(N) if k_positions is None else k_positions
    gap = np.max(t, initial=0) - np.min(s, initial=0)
    for slope in (alibi_slopes, decay_rate):
        bound += 0 if slope is None else np.max(slope) * gap
    return float(bound)


def _lse_tolerance(dtype, bound, width):
    """A log-sum-exp is as wrong as the scores: some roundings of their largest terms, more for wide heads."""
    return (8 + width**0.5) * float(np.finfo(dtype).eps) / 2 * (1 + bound)


def _check(got, want, tolerance, what):
    """Same shape, NaN and inf where they are wanted and only there, all else within the tolerance."""
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape, what
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=f"{what}: NaN")
    infinite, finite = np.isinf(want), np.isfinite(want)
    np.testing.assert_array_equal(np.isinf(got), infinite, err_msg=f"{what}: inf")
    np.testing.assert_array_equal(got[infinite], want[infinite], err_msg=f"{what}: sign of inf")
    error = np.abs(got[finite] - want[finite])
    allowed = np.broadcast_to(tolerance, want.shape)[finite]
    assert (error <= allowed).all(), f"{what}: error {error.max():.3g}, allowed {allowed.max():.3g}"


def _attend(ops, case, dtype=None):
    args = dict(case.args)
    q, k, v = (args.pop(name) if dtype is None else args.pop(name).astype(dtype) for name in "qkv")
    if "mask" in args and args["mask"].ndim == 3 and q.ndim == 4:       # (H, M, N) under a batch is refused
        args["mask"] = args["mask"][None]
    return ops.attention(q, k, v, return_lse=True, **args, **case.kwargs)


@pytest.mark.parametrize("file", ATTENTION_FILES)
def test_every_case_is_accounted_for(file):
    known = set(inspect.signature(pe.attention).parameters)
    for case in op_cases(file):
        assert case.op in ELSEWHERE or (case.op == "attention" and case.keywords <= known), case
    assert len(_attention_cases(file)) == ATTENTION_FILES[file]


@pytest.mark.parametrize("ops, case, dtype", _trials())
def test_attention(ops, case, dtype):
    out, lse = _attend(ops, case, dtype)
    assert out.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)

    v = case.args["v"]
    largest = np.max(np.abs(v), where=np.isfinite(v), initial=0.0)
    bound = _score_bound(**case.args, **case.kwargs)
    if dtype == np.float64:
        unit = 1e-11 if bound >= 1e4 else 1e-13
    else:
        unit = 2.0**-24 * (8 + 2 * bound)
    rounding = float(np.finfo(dtype).eps) if dtype == np.float16 else 0.0
    tiny = float(np.finfo(dtype).smallest_subnormal)
    allowed = (unit + rounding) * largest
    theirs = [error for key, error in case.info.items() if key.startswith("torch_f32_err")]
    if dtype == np.float32 and theirs:
        allowed = (1.6 if pe.isa() == "scalar" else 1.25) * max(*theirs, 2.0**-23 * largest)
    _check(out, case.expect["out"], allowed + tiny, "out")
    _check(lse, case.expect["lse"], _lse_tolerance(lse.dtype, bound, case.args["q"].shape[-1]), "lse")


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name", ["one_hot", "single_key", "decay_only_far_key", "dot_f16_overflow"])
def test_attention_exact(ops, name):
    """Cases whose answer is one value row, bit for bit."""
    case = next(c for c in op_cases("attention_adversarial") if c.name == name)
    for dtype in _dtypes(case):
        out, _ = _attend(ops, case, dtype)
        np.testing.assert_array_equal(out.astype(np.float64), case.expect["out"])


@pytest.mark.parametrize("ops", OPS)
def test_attention_float32_is_as_good_as_torch(ops):
    """Over all odd sizes: the largest error of each case beside that of torch on the same inputs."""
    cases = [case for case in _attention_cases("attention_shapes") if case.expect["out"].size]
    outs = [_attend(ops, case, np.float32)[0] for case in cases]
    errors = np.array([np.abs(out - case.expect["out"]).max() for out, case in zip(outs, cases, strict=True)])
    torch = np.array([case.info["torch_f32_err_math"] for case in cases])
    assert np.median(errors) <= 1.25 * np.median(torch) and errors.max() <= 2 * torch.max()


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("case", _attention_cases(LOW_PRECISION), ids=str)
def test_attention_16_bit(ops, case):
    """Rounded once: half a unit of the exact value and little more, but for what weights are rounded by."""
    out, lse = _attend(ops, case)
    assert out.dtype == case.args["q"].dtype and lse.dtype == np.float32
    want, cond = case.expect["out"], case.expect["cond"]
    slack = 2.0**-24 * cond * (8 + 2 * case.info["max_abs_score"])
    slack += cond * weight_rounding(out.dtype) * (ops is pe)
    _check(out, want, 0.5 * _ulp(want, case.info["bits"]) + slack, "out")
    bound, width = case.info["max_abs_score"], case.args["q"].shape[-1]
    _check(lse, case.expect["lse"], _lse_tolerance(lse.dtype, bound, width), "lse")


def _ulp(exact, bits):
    """Unit in the last place of the exact value in float16 or bfloat16."""
    digits, least = (10, -24) if bits == "f16" else (7, -133)
    return np.exp2(np.maximum(np.frexp(exact)[1] - 1 - digits, least).astype(np.float64))


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name", ["kv_lengths_causal", "nonpad_causal", "nonpad_causal_short"])
def test_queries_end_at_the_length_without_being_told(ops, name):
    """These cases spell out the positions that are the default with kv_lengths."""
    case = next(c for file in ("attention_flex", "attention_onnx") for c in op_cases(file) if c.name == name)
    out, lse = _attend(ops, case, np.float64)
    del case.args["q_positions"]
    for got, want in zip(_attend(ops, case, np.float64), (out, lse), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("case", [c for c in op_cases("retention_fla") if c.op == "attention"], ids=str)
def test_forgetting_attention_by_its_clock(ops, case):
    """The bias of fla-core is clock[s] - clock[t], whose last row is the clock but for a constant."""
    q, k, v = (case.args[name].astype(np.float64) for name in "qkv")
    out, lse = ops.attention(q, k, v, clock=case.args["bias"][..., -1, :], return_lse=True, **case.kwargs)
    _check(out, case.expect["out"], 1e-13 * np.abs(v).max(), "out")
    _check(lse, case.expect["lse"], 1e-13, "lse")


@pytest.mark.parametrize("ops", OPS)
def test_documents_of_flex_are_segments(ops):
    case = next(c for c in op_cases("attention_flex") if c.name == "documents")
    mask = case.args.pop("mask")
    seen = mask.any(axis=0)
    of_k = np.where(seen, np.argmax(mask, axis=0), -1)      # the first query that sees a key names its text
    of_q = of_k[np.argmax(mask, axis=1)]
    np.testing.assert_array_equal(of_q[:, None] == of_k, mask)
    out, lse = ops.attention(**case.args, segments=(of_q, of_k), return_lse=True, **case.kwargs)
    _check(out, case.expect["out"], 1e-13 * np.abs(case.args["v"]).max(), "out")
    _check(lse, case.expect["lse"], 1e-13, "lse")


# Biases and slopes


@pytest.mark.parametrize("case", [c for c in op_cases("bias_alibi") if c.op == "alibi_slopes"], ids=str)
def test_alibi_slopes(case):
    np.testing.assert_array_max_ulp(pe.alibi_slopes(**case.kwargs), case.expect["out"], 1)


@pytest.mark.parametrize("heads", arrays("bias_alibi")["heads"].tolist())
def test_alibi_slopes_of_published_models(heads):
    """BLOOM, MPT and Falcon, in their own precision and head order."""
    stored, slopes = arrays("bias_alibi"), pe.alibi_slopes(heads)
    np.testing.assert_allclose(slopes, stored[f"bloom_slopes/{heads}"], rtol=1e-6)
    np.testing.assert_allclose(slopes, stored[f"mpt_slopes/{heads}"], rtol=1e-6)
    falcon = stored[f"falcon_slopes_bf16/{heads}"].view(bfloat16()).astype(np.float64)
    np.testing.assert_allclose(slopes, falcon, rtol=2.0**-8)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES])
@pytest.mark.parametrize("case", [c for c in op_cases("bias_alibi") if c.op == "alibi_bias"]
                         + list(op_cases("bias_decay")), ids=str)
def test_bias(ops, case, dtype):
    kwargs = {**case.args, **case.kwargs}
    form = kwargs.pop("form", "log")
    bias = getattr(ops, case.op)(dtype=dtype, **kwargs)
    assert bias.dtype == dtype
    bias = bias.astype(np.float64)
    # Below float64 the slope may be rounded to float32 first; then comes the one rounding of the result.
    unit = 2.0**-51 + {"float64": 0, "float32": 2.0**-23, "float16": 2.0**-11 + 2.0**-23,
                       "bfloat16": 2.0**-8 + 2.0**-23}[np.dtype(dtype).name]
    if form == "multiplicative":            # e^bias: its relative error is the bias's absolute one
        weight, want = np.exp(bias), case.expect["out"]
        log = np.abs(np.log(want, where=want > 0, out=np.zeros_like(want)))
        _check(weight, want, want * np.expm1((unit * 2 + 2.0**-50) * (log + 1)) + 1e-300, "e^bias")
    else:
        want = case.expect["out"]
        if dtype == np.float16:
            want = np.where(want < -65520, -np.inf, want)   # beyond float16
        tiny = 2.0**-25 if dtype == np.float16 else 0.0     # half of the least subnormal
        if case.name == "clock_gates":                      # the peer sums gates, we subtract rounded sums
            tiny += 2.0**-51 * case.args["q_positions"].max()
        _check(bias, want, unit * np.abs(np.where(np.isfinite(want), want, 0)) + tiny, "bias")


@pytest.mark.parametrize("ops", OPS)
def test_gates_of_mamba_by_their_clock(ops):
    case = next(c for c in op_cases("bias_decay") if c.name == "clock_gates")
    clock = case.args["q_positions"]
    for clocks in (clock, (clock, clock)):
        bias = ops.decay_bias(clock.shape[-1], clock=clocks)
        _check(bias, case.expect["out"], 2.0**-50 * clock.max(), "bias")


# Rotations


def _rope_tolerance(dtype, x, angle, amplitude):
    """float64: the phase carries the rounding of p*w. 16 bits: x is rounded going in, y coming out."""
    largest = np.abs(x).max() * amplitude
    if dtype == np.float64:
        return (angle + 4) * 2.0**-51 * largest
    if dtype == np.float32:
        return 2.0**-22 * largest
    return (2.0**-10 if dtype == np.float16 else 2.0**-7) * 1.5 * largest


def _largest_angle(positions, freqs):
    p = np.abs(positions).astype(np.float64)
    return float(np.max(p[..., None] * freqs) if freqs.ndim == 1 else np.max(p @ np.abs(freqs)))


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES])
@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_apply")])
def test_rope_of_published_models(ops, name, case, dtype):
    """Twenty models with one position axis, whole heads; what does not turn comes out bit for bit."""
    turned = np.arange(case.rotary_offset, case.rotary_offset + case.rotary_dim)
    for operand in ("q", "k"):
        if not hasattr(case, operand):
            continue
        x = getattr(case, operand)
        rope = pe.Rope(x.shape[-1], freqs=case.freqs, layout=case.layout, rotary_offset=case.rotary_offset,
                       amplitude=case.amplitude)
        got = ops.apply_rope(x.astype(dtype), positions=case.positions, rope=rope, inverse=case.inverse)
        assert got.dtype == dtype
        rest = np.setdiff1d(np.arange(x.shape[-1]), turned)
        np.testing.assert_array_equal(got[..., rest], x.astype(dtype)[..., rest])
        if name == "deepseek_v3_interleave":                # reads adjacent pairs, writes half order
            got[..., turned] = got[..., np.concatenate([turned[::2], turned[1::2]])]
        tolerance = _rope_tolerance(dtype, x, _largest_angle(case.positions, case.freqs), case.amplitude)
        want = getattr(case, f"{operand}_exact")[..., turned]
        _check(got[..., turned], want, tolerance, f"{name} {operand}")


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_apply")
                                        if c[1].rotary_offset == 0 and c[1].rotary_dim < c[1].q.shape[-1]])
def test_rope_leaves_the_rest_alone(ops, name, case):
    """Models that turn a part: whole heads go in, coordinates past rotary_dim come out bit for bit."""
    x = case.q
    got = ops.apply_rope(x, positions=case.positions, freqs=case.freqs, layout=case.layout)
    np.testing.assert_array_equal(got[..., case.rotary_dim:], x[..., case.rotary_dim:])
    _check(got, case.q_exact, _rope_tolerance(np.float32, x, 0, 1), name)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_vision")
                                        if hasattr(c[1], "freqs")])
def test_rope_of_vision_models(ops, name, case, dtype):
    for operand in ("q", "k"):
        x = getattr(case, operand)
        positions = getattr(case, "positions_k", case.positions) if operand == "k" else case.positions
        while 1 < positions.ndim - 1 < x.ndim - 1:          # an op adds no axis on the left
            positions = positions[None]
        if name == "gemma4_vision":
            got = ops.apply_rope_2d(x.astype(dtype), positions[..., 0], positions[..., 1], base=100,
                                    layout="half")
            angle = float(np.max(positions))
        else:
            rope = pe.Rope(x.shape[-1], freqs=case.freqs, layout=case.layout, amplitude=case.amplitude)
            got = ops.apply_rope(x.astype(dtype), positions=positions, rope=rope)
            angle = _largest_angle(positions, case.freqs)
        tolerance = _rope_tolerance(dtype, x, angle, case.amplitude)
        _check(got, getattr(case, f"{operand}_exact"), tolerance, operand)


@pytest.mark.parametrize("ops", OPS)
def test_apply_rope_2d_is_sam2(ops):
    case = dict(rope_cases("rope_vision"))["sam2"]
    x, y = pe.grid_positions(3, 5)
    np.testing.assert_array_equal(np.stack([x, y], axis=-1), case.positions)
    got = ops.apply_rope_2d(case.q.astype(np.float64), x, y)
    _check(got, case.q_exact, _rope_tolerance(np.float64, case.q, 4, 1), "q")


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_onnx")])
def test_rope_of_onnx(ops, name, case):
    """RotaryEmbedding of ONNX 23 and com.microsoft 1, by their own tables."""
    x = getattr(case, "X", getattr(case, "input", None))
    cos, sin, attributes = case.cos_cache, case.sin_cache, json.loads(case.attributes)
    fused, want = x.ndim == 3, case.Y_exact
    if fused:                                               # (B, S, N*H) -> (B, N, S, H)
        def split(a):
            return a.reshape(*a.shape[:2], attributes["num_heads"], -1).swapaxes(1, 2)
        x, want = split(x), split(want)
    if hasattr(case, "position_ids"):
        ids = case.position_ids
        if ids.ndim == 1:                                   # one offset for all
            ids = ids + np.arange(x.shape[-2])[None]
        cos, sin = cos[ids], sin[ids]                       # (B, S, L)
    layout = "interleaved" if attributes["interleaved"] else "half"
    got = ops.apply_rope(x, cos[:, None], sin[:, None], layout=layout)
    tolerance = 2.0**-22 if x.dtype == np.float32 else 2.0**-10
    assert got.dtype == x.dtype
    _check(got, want, tolerance * np.abs(x).max(), name)


# Source document 1

SOURCE1 = dict(rope_cases("rope_source1"))


def _score(ops, q, k, cos, sin, t, s):
    q, k = (ops.apply_rope(x, cos[p:p + 1], sin[p:p + 1]) for x, p in ((q, t), (k, s)))
    return float((q.astype(np.float64) * k).sum())


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name, seq_len", [("sanity", 64), ("worked_example", 128)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_scores_of_the_tutorial(ops, name, seq_len, dtype):
    case = SOURCE1[name]
    q, k = (getattr(case, operand, getattr(case, "x", None)).astype(dtype) for operand in "qk")
    tables = pe.build_rope_cache(seq_len, q.shape[-1])
    got = [_score(ops, q, k, *tables, t, s) for t, s in case.pairs]
    np.testing.assert_allclose(got, case.score_exact, atol=1e-12 if dtype == np.float64 else 2e-6)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_of_the_tutorial(ops, causal):
    case = SOURCE1["attention"]
    want = case.out_causal_exact if causal else case.out_full_exact
    rope, positions = pe.Rope(8), np.arange(7)
    for dtype, tolerance in ((np.float64, 1e-14), (np.float32, 1e-6)):
        q, k, v = (getattr(case, name).astype(dtype) for name in "qkv")
        turned = [ops.apply_rope(x, positions=positions, rope=rope) for x in (q, k)]
        np.testing.assert_allclose(turned[0], case.q_rot_exact, atol=tolerance)
        np.testing.assert_allclose(ops.attention(*turned, v, causal=causal), want, atol=tolerance)
        np.testing.assert_allclose(ops.attention(q, k, v, causal=causal, rope=rope), want, atol=tolerance)


def test_far_rows_of_the_tutorial_table():
    case = SOURCE1["far_rows"]
    cos, sin = pe.Rope(128).cache(case.positions)
    allowed = (case.positions + 4.0)[:, None] * 2.0**-51
    _check(cos, case.cos_exact, allowed, "cos")
    _check(sin, case.sin_exact, allowed, "sin")
    near = SOURCE1["sanity"]
    cos, sin = pe.build_rope_cache(64, 8)
    np.testing.assert_allclose([cos, sin], [near.cos_exact, near.sin_exact], atol=64 * 2.0**-51)
