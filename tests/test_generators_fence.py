"""check_encoding: which assumption a score keeps, and the generator where it keeps all."""

import pickle

import numpy as np
import pytest

import pe
from pe.generators import (
    alibi,
    check_encoding,
    conjugate,
    damped_rope,
    decay,
    direct_sum,
    jordan_rope,
    nope,
    rope,
    transport,
)

ROPE = pe.Rope(8)
LEARNED, RELATIVE = np.random.default_rng(0).standard_normal((2, 100, 8))


def rope_score(q, k, t, s):
    return pe.apply_rope(q, positions=[t], rope=ROPE) @ pe.apply_rope(k, positions=[s], rope=ROPE)


def score_of(X):
    """Score by the exponential of X: one matrix per gap, kept."""
    known = {}

    def score(q, k, t, s):
        gap = t - s
        if gap not in known:
            known[gap] = transport(X, float(gap))
        return q @ known[gap] @ k

    return score


INSIDE = {
    "NoPE": (lambda q, k, t, s: q @ k, {"nothing": 8}),
    "RoPE": (rope_score, {"turn": 4}),
    "ALiBi": (lambda q, k, t, s: q @ k - 0.5 * (t - s), {"nothing": 8, "slide": 1}),
    "decay": (lambda q, k, t, s: q @ k * np.exp(-0.1 * (t - s)), {"fade": 8}),
    "RoPE and ALiBi": (lambda q, k, t, s: rope_score(q, k, t, s) - 0.1 * (t - s), {"turn": 4, "slide": 1}),
    "damped RoPE": (score_of(damped_rope(8, 0.1)), {"turn+fade": 4}),
    "mixture": (score_of(direct_sum(rope(4), decay(0.2), alibi(0.3), nope(1))),
                {"turn": 2, "fade": 1, "slide": 1, "nothing": 1}),
    "Jordan-RoPE": (score_of(jordan_rope(0.7, 0.05)), {"damped rotating slide": 1}),
    "cosine bias": (lambda q, k, t, s: q @ k + np.cos(0.7 * (t - s)), {"nothing": 8, "turn": 1}),
    "square bias": (lambda q, k, t, s: q @ k - 0.1 * (t - s) ** 2, {"nothing": 8, "slide": 1}),
    "zero": (lambda q, k, t, s: 0.0, {"nothing": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_inside_the_fence(name):
    score, kinds = INSIDE[name]
    dim = 4 if name == "Jordan-RoPE" else 8
    report = check_encoding(score, dim=dim)
    assert report.inside and (report.linear, report.relative, report.continuous) == (True, True, True)
    assert dict(report.classification.kinds) == kinds
    assert report.counterexample == {} and report.breaks == "" and "inside the fence" in str(report)


@pytest.mark.parametrize("X", [
    rope(8), damped_rope(8, 0.1), direct_sum(rope(4), decay(0.2), alibi(0.3), nope(1)),
    conjugate(rope(8), np.random.default_rng(1).standard_normal((8, 8))),
])  # fmt: skip
def test_the_generator_comes_back_in_the_coordinates_of_the_head(X):
    report = check_encoding(score_of(X), dim=8)
    assert np.allclose(report.generator, X, rtol=0, atol=1e-10)


def test_direction_is_that_of_the_ops():
    assert np.allclose(check_encoding(rope_score).generator, ROPE.generator(), rtol=0, atol=1e-12)


def sinusoidal(p):
    return np.sin(p * np.arange(8.0))


def t5_bucket(gap):
    """Buckets of T5: single gaps up to 16, then log-spaced up to 128."""
    return int(gap) if gap < 16 else min(31, 16 + int(np.log(gap / 16) / np.log(8) * 16))


OUTSIDE = {
    "learned table": ("relative", lambda q, k, t, s: (q + LEARNED[t]) @ (k + LEARNED[s])),
    "raw index": ("relative", lambda q, k, t, s: (q + t) @ (k + s)),
    "sinusoidal, added": ("relative", lambda q, k, t, s: (q + sinusoidal(t)) @ (k + sinusoidal(s))),
    "table of gaps": ("continuous", lambda q, k, t, s: q @ k + RELATIVE[t - s, 0]),
    "T5 buckets": ("continuous", lambda q, k, t, s: q @ k + RELATIVE[t5_bucket(abs(t - s)), 0]),
    "step": ("continuous", lambda q, k, t, s: q @ k * (1.0 if t - s < 5 else 0.5)),
    "step further on": ("linear", lambda q, k, t, s: q @ k * (1.0 if t - s < 20 else 0.5)),
    "clip": ("linear", lambda q, k, t, s: q @ k - 0.1 * np.clip(t - s, -30, 30)),
    "log distance from far behind": ("linear", lambda q, k, t, s: q @ k - np.log1p(max(t - s + 20, 0))),
    "nonlinear": ("linear", lambda q, k, t, s: np.tanh(q @ k) * np.exp(-0.1 * (t - s))),
    "square": ("linear", lambda q, k, t, s: (q @ k) ** 2 - (t - s)),
    "gate from the content": ("linear", lambda q, k, t, s: q @ k * np.exp(-abs(k[0]) * (t - s))),
    "log distance": ("linear", lambda q, k, t, s: q @ k - np.log1p(abs(t - s))),
    "gentle log distance": ("linear", lambda q, k, t, s: q @ k - np.log1p(0.01 * abs(t - s))),
    "gentle log distance, of keys behind": (
        "linear", lambda q, k, t, s: q @ k - np.log(np.maximum(1 + 0.01 * (t - s), 1e-3))),
    "gentler": ("linear", lambda q, k, t, s: q @ k / np.sqrt(1 + 1e-6 * (t - s) ** 2)),
    "loose claim j, |t - s|": ("linear", lambda q, k, t, s: q @ k - 0.5 * abs(t - s)),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_claim_A46_outside_the_fence(name):
    assumption, score = OUTSIDE[name]
    report = check_encoding(score)
    assert not report.inside and report.generator is None and report.classification is None
    assert not getattr(report, assumption)
    for kept in {"relative": ["linear"], "continuous": ["linear", "relative"]}.get(assumption, []):
        assert getattr(report, kept)
    assert report.breaks in str(report) and report.counterexample


def test_the_counterexamples_are_true():
    score = OUTSIDE["raw index"][1]
    seen = check_encoding(score).counterexample
    q, k = np.array(seen["q"]), np.array(seen["k"])
    assert seen["scores"] == (score(q, k, *seen["at t, s"]), score(q, k, *seen["shifted to"]))
    assert np.subtract(*seen["at t, s"]) == np.subtract(*seen["shifted to"])

    score = OUTSIDE["square"][1]
    seen = check_encoding(score).counterexample
    assert seen["score"] == score(np.array(seen["q"]), np.array(seen["k"]), *seen["t, s"])
    assert abs(seen["score"] - seen["sum of parts"]) > 1

    assert check_encoding(OUTSIDE["step"][1]).counterexample["gap"] == 5.0
    assert abs(check_encoding(OUTSIDE["T5 buckets"][1]).counterexample["gap"]) == 1
    for name, gap in (("step further on", 33.0), ("clip", 33.0)):
        seen = check_encoding(OUTSIDE[name][1])
        assert seen.counterexample["gap"] == gap and "further on" in seen.breaks
    assert check_encoding(OUTSIDE["table of gaps"][1]).counterexample == {"gap": 0.5}


def test_half_of_the_absolute_distance_is_a_slide_the_whole_is_two():
    report = check_encoding(OUTSIDE["loose claim j, |t - s|"][1])
    assert report.counterexample["gap"] < 0 and "glued at 0" in report.breaks


def test_the_width_is_found():
    assert check_encoding(lambda q, k, t, s: q @ np.eye(4) @ k).width == 4
    assert check_encoding(lambda q, k, t, s: q @ np.eye(3) @ k, dim=3).width == 3
    with pytest.raises(ValueError, match="no head width"):
        check_encoding(lambda q, k, t, s: q @ np.eye(3) @ k)


@pytest.mark.parametrize(("score", "error", "named"), [
    ("q @ k", TypeError, "function"), (np.eye(9), TypeError, r"score is an array of shape \(9, 9\)"),
    (lambda q, k, t, s: np.zeros(3), TypeError, "one real number"),
    (lambda q, k, t, s: q @ k if t >= s else -np.inf, ValueError, "leave out the mask"),
])  # fmt: skip
def test_bad_input_is_named(score, error, named):
    with pytest.raises(error, match=named):
        check_encoding(score)


def test_the_score_cannot_change_what_is_tried():
    def greedy(q, k, t, s):
        value = float(q @ k)
        q[:], k[:] = 0, 0
        return value

    assert dict(check_encoding(greedy).classification.kinds) == {"nothing": 8}


def test_report_pickles():
    report = check_encoding(rope_score)
    assert repr(report) == "<EncodingReport inside the fence>"
    assert np.array_equal(pickle.loads(pickle.dumps(report)).generator, report.generator)
