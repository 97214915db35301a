"""`attention_weights`: what `attention` means its values by, and the scores on the way."""

import re

import ml_dtypes
import numpy as np
import pytest
from golden_cases import arrays, op_cases

import pe
import pe.reference

OPS = [pytest.param(pe, id="pe"), pytest.param(pe.reference, id="twin")]
FILES = ["attention_options", "attention_flex", "attention_transformers"]
CASES = [case for file in FILES for case in op_cases(file) if case.op == "attention"]
STAGES = ["scores", "softcapped", "biased", "weights"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def random_call(seed):
    """q, k and a random half of all keywords, any of which may hide every key of a row."""
    rng = np.random.default_rng(seed)
    B, K, M, N, D = rng.integers(1, 4, 5) + [0, 0, 1, 3, 1]
    H = K * rng.integers(1, 3)
    clock = pe.clock(-rng.random((B, H, N)))
    choices = {
        "scale": rng.normal(), "causal": True, "window": (int(rng.integers(1, 4)), (1.5, None))[seed % 2],
        "mask": rng.random((B, 1, M, N)) < 0.8, "bias": rng.normal(size=(H, M, N)),
        "alibi_slopes": rng.random(H), "decay_rate": rng.random(), "softcap": 0.5 + rng.random(),
        "sinks": rng.normal(size=H), "kv_lengths": rng.integers(0, N + 1, B),
        "segments": (rng.integers(0, 2, (B, 1, M)), rng.integers(0, 2, (B, 1, N))),
        "clock": (clock, (np.sort(rng.random((B, H, M)), axis=-1), clock))[seed % 2],
        "q_positions": rng.integers(0, N, M), "k_positions": rng.permutation(N)}
    keywords = {name: value for name, value in choices.items() if rng.random() < 0.5}
    if rng.random() < 0.5 and D % 2 == 0:
        keywords["rope"] = pe.Rope(int(D))
    return rng.normal(size=(B, H, M, D)), rng.normal(size=(B, K, N, D)), keywords


@pytest.mark.parametrize("seed", range(120))
def test_they_are_what_attention_gives_for_one_hot_values(seed):
    """Values of the identity matrix bring the weights out of the kernel itself."""
    q, k, keywords = random_call(seed)
    N = k.shape[-2]
    one_hot = np.broadcast_to(np.eye(N), (*k.shape[:-1], N))
    got = pe.attention_weights(q, k, **keywords)
    np.testing.assert_allclose(got, pe.attention(q, k, one_hot, **keywords), rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(40))
def test_each_stage_follows_from_the_one_before(seed):
    q, k, keywords = random_call(seed)
    stage = {name: pe.attention_weights(q, k, stage=name, **keywords) for name in STAGES}
    shape = (*q.shape[:-1], k.shape[-2])
    assert all(array.shape == shape for array in stage.values())
    cap = keywords.get("softcap")
    bent = stage["scores"] if cap is None else cap * np.tanh(stage["scores"] / cap)
    np.testing.assert_allclose(stage["softcapped"], bent, rtol=0, atol=1e-15)
    biased = stage["biased"]
    if not {"bias", "alibi_slopes", "decay_rate", "clock"} & set(keywords):
        seen = biased > -np.inf
        np.testing.assert_array_equal(biased[seen], stage["softcapped"][seen])
    total = np.exp(biased).sum(axis=-1)
    total += np.exp(keywords["sinks"])[:, None] if "sinks" in keywords else 0
    np.testing.assert_allclose(stage["weights"] * total[..., None], np.exp(biased), rtol=1e-13)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(ops, case):
    """Against the results of other implementations: weights @ v."""
    args = dict(case.args)
    q, k, v = (args.pop(name).astype(np.float64) for name in "qkv")
    if "mask" in args and args["mask"].ndim == 3 and q.ndim == 4:       # (H, M, N) under a batch is refused
        args["mask"] = args["mask"][None]
    weights = ops.attention_weights(q, k, **args, **case.kwargs)
    if v.ndim > 2:
        v = np.repeat(v, q.shape[-3] // v.shape[-3], axis=-3)
    largest = np.abs(v).max(initial=0.0)
    np.testing.assert_allclose(weights @ v, case.expect["out"], rtol=0, atol=1e-13 * largest)


@pytest.mark.parametrize("ops", OPS)
def test_golden_stages(ops):
    """The four output modes of ONNX Attention: exact numbers, and those onnxruntime gives."""
    stored = arrays("attention_onnx")
    q, k, bias = (stored[name].astype(np.float64) for name in ("q", "k", "modes/bias"))
    for mode, (stage, exact) in enumerate(zip(STAGES, ["raw", "capped", "biased", "probs"], strict=True)):
        got = ops.attention_weights(q, k, softcap=2.0, bias=bias, stage=stage)
        np.testing.assert_allclose(got, stored[f"modes/stage_{exact}"], rtol=0, atol=1e-14)
        np.testing.assert_allclose(got, stored[f"modes/ort_mode{mode}"], rtol=0, atol=4e-6)


def test_golden_cases_are_many():
    assert len(CASES) > 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ">f4", np.int64])
@pytest.mark.parametrize("stage", STAGES)
def test_dtype_is_that_of_queries_and_keys(dtype, stage):
    q, k = (normal(4, 6, seed=seed) * 4 for seed in (0, 1))
    q, k = q.astype(dtype), k.astype(dtype)
    got = pe.attention_weights(q, k, bias=np.ones((4, 4)), stage=stage)
    native = np.dtype(np.float64 if dtype == np.int64 else dtype).newbyteorder("=")
    assert got.dtype == native
    want = pe.attention_weights(q.astype(np.float64), k.astype(np.float64), bias=np.ones((4, 4)), stage=stage)
    computed = 0 if native == np.float64 else 2.0**-24 * abs(want).max()
    rounding = ml_dtypes.finfo(native).eps if native.itemsize == 2 else 0
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=float(rounding) / 2, atol=4 * computed)


def test_one_head_and_many():
    q, k = normal(3, 4), normal(5, 4, seed=1)
    one = pe.attention_weights(q, k, causal=True)
    assert one.shape == (3, 5)
    np.testing.assert_array_equal(pe.attention_weights(q[None], k[None], causal=True)[0], one)
    assert pe.attention_weights(np.tile(q, (4, 1, 1)), k).shape == (4, 3, 5)
    assert pe.attention_weights(normal(0, 4), k).shape == (0, 5)
    assert pe.attention_weights(q, normal(0, 4)).shape == (3, 0)


def test_hidden_keys_leak_nothing():
    q, k = normal(3, 4), normal(5, 4, seed=1)
    spoilt = k.copy()
    spoilt[4] = np.nan
    mask = np.arange(5) < 4
    for stage in ("biased", "weights"):
        np.testing.assert_array_equal(pe.attention_weights(q, spoilt, mask=mask, stage=stage),
                                      pe.attention_weights(q, k, mask=mask, stage=stage))
    assert np.isneginf(pe.attention_weights(q, spoilt, mask=mask, stage="biased")[:, 4]).all()


@pytest.mark.filterwarnings("error")
def test_a_row_that_sees_nothing():
    with np.errstate(all="raise"):
        weights = pe.attention_weights(normal(2, 4), normal(3, 4), mask=[[False] * 3, [True] * 3])
    np.testing.assert_array_equal(weights[0], 0)
    assert weights[1].sum() == pytest.approx(1)


@pytest.mark.parametrize("changes, error, words", [
    ({"stage": "logits"}, ValueError, "stage is 'logits'; expected one of 'scores', 'softcapped', 'bias"),
    ({"stage": 1}, TypeError, "stage is 1; expected one of"),
    ({"stage": None}, TypeError, "stage is None"),
    ({"k": normal(5, 3)}, ValueError, "k has width 3"),
    ({"k": np.float64(3)}, ValueError, "k has shape ()"),
    ({"q": np.ma.ones((3, 4))}, TypeError, "q is a masked array"),
    ({"k": normal(5, 4).astype(complex)}, TypeError, "k has dtype complex128"),
    ({"q": normal(3, 4) > 0, "k": normal(5, 4) > 0}, TypeError, "q has dtype bool"),
    ({"mask": np.ones((4, 5), bool)}, ValueError, "mask has shape (4, 5)"),
    ({"causal": 1}, TypeError, "causal is 1"),
    ({"window": 0}, ValueError, "window is 0"),
    ({"alibi_slopes": -1}, ValueError, "alibi_slopes has -1"),
    ({"softcap": -1.0}, ValueError, "softcap"),
    ({"q_positions": 3}, TypeError, "q_positions is 3"),
    ({"rope": pe.Rope(8)}, ValueError, "rope is for D = 8"),
    ({"v": normal(5, 4)}, TypeError, "the result is the weights alone; pe.attention has these"),
    ({"return_lse": True}, TypeError, "pe.attention has these"),
    ({"is_causal": True}, TypeError, "pe takes causal="),
])
def test_bad_input(changes, error, words):
    with pytest.raises(error, match=re.escape(words)):
        pe.attention_weights(**({"q": normal(3, 4), "k": normal(5, 4)} | changes))


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_lengths_of_any_integer_type(kind):
    """Fewer keys than queries: n - M is below 0, which an unsigned type cannot hold."""
    q, k, v = normal(3, 2, 6, 4), normal(3, 2, 9, 4, seed=1), normal(3, 2, 9, 5, seed=2)
    lengths = np.array([2, 0, 9])
    for more in ({}, {"causal": True}, {"causal": True, "clock": np.linspace(0.0, 2.0, 9)}):
        wanted = pe.reference.attention(q, k, v, kv_lengths=lengths, **more)
        more["kv_lengths"] = lengths.astype(kind)
        np.testing.assert_array_equal(pe.reference.attention(q, k, v, **more), wanted)
        np.testing.assert_allclose(pe.attention(q, k, v, **more), wanted, rtol=0, atol=1e-13)
        np.testing.assert_allclose(pe.attention_weights(q, k, **more) @ v, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("window", [np.array(3), np.int8(3), 10**400, (np.float32(2), None), (10**300, 1)])
def test_windows_that_attention_takes(window):
    q, k, v = normal(6, 4), normal(6, 4, seed=1), normal(6, 5, seed=2)
    more = {"causal": True, "window": window}
    np.testing.assert_allclose(pe.attention_weights(q, k, **more) @ v, pe.attention(q, k, v, **more), rtol=0,
                               atol=1e-13)


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_gives_nan_quietly():
    q, k = normal(3, 4), normal(3, 4, seed=1)
    q[1, 2] = np.inf
    weights = pe.attention_weights(q, k, rope=pe.Rope(4))
    np.testing.assert_array_equal(np.isnan(weights), np.isnan(pe.attention(q, k, np.eye(3), rope=pe.Rope(4))))
    assert np.isnan(weights[1]).all() and np.isfinite(weights[[0, 2]]).all()
