"""Positions with several coordinates: `apply_rope_nd`, `Rope` with several axes, `Rope.shift`, attention."""

import re

import ml_dtypes
import mpmath
import numpy as np
import pytest
from golden_cases import rope_cases
from isas import each_isa

import pe
import pe.reference

OPS = [pytest.param(pe, id="pe"), pytest.param(pe.reference, id="twin")]
MODELS = [pytest.param(*case, id=f"{file}-{case[0]}") for file in ("rope_mrope", "rope_vision")
          for case in rope_cases(file) if hasattr(case[1], "freqs") and case[0] != "gemma4_vision"]
# How far a result may be from the exact one, in units of the largest value it is made of.
UNITS = {"float64": 2.0**-49, "float32": 2.0**-22, "float16": 1.5 * 2.0**-10, "bfloat16": 1.5 * 2.0**-7}
DTYPES = [np.float64, np.float32, np.float16, np.dtype(ml_dtypes.bfloat16)]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(got, want, dtype, angle=0.0, size=1.0):
    unit = UNITS[np.dtype(dtype).name] + (angle * 2.0**-51 if dtype == np.float64 else 0)
    assert got.dtype == dtype and got.shape == want.shape
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=unit * size)


# Published models


@each_isa
@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, case", MODELS)
def test_published_models(ops, name, case, dtype, isa):
    """Three axes of vision-language models, two of vision models: by apply_rope_nd and by a Rope."""
    assert len(MODELS) == 11 and case.rotary_offset == 0 and case.amplitude == 1 and not case.inverse
    for operand in ("q", "k"):
        x = getattr(case, operand)
        positions = getattr(case, "positions_k", case.positions) if operand == "k" else case.positions
        while 1 < positions.ndim - 1 < x.ndim - 1:          # an op adds no axis on the left
            positions = positions[None]
        angle = np.abs(positions @ case.freqs).max()
        rope = pe.Rope(x.shape[-1], freqs=case.freqs, layout=case.layout)
        for got in (ops.apply_rope_nd(x.astype(dtype), positions, case.freqs, layout=case.layout),
                    ops.apply_rope(x.astype(dtype), positions=positions, rope=rope)):
            close(got, getattr(case, f"{operand}_exact"), dtype, angle + 4, np.abs(x).max())
            rest = slice(case.rotary_dim, None)
            np.testing.assert_array_equal(got[..., rest], x[..., rest].astype(dtype))


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen3_5", "glm4v"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_attention_turns_inside_as_the_model_does_outside(name, dtype):
    """By a Rope of three axes; positions serve the rotation alone, causality counts rows."""
    case = dict(rope_cases("rope_mrope"))[name]
    v = normal(2, 1, 10, 6).astype(dtype)
    rope = pe.Rope(case.q.shape[-1], freqs=case.freqs, layout=case.layout)
    q, k = case.q.astype(dtype), case.k.astype(dtype)
    for keywords in ({}, {"causal": True, "alibi_slopes": 0.1}):
        want = pe.reference.attention(case.q_exact, case.k_exact, v.astype(np.float64), **keywords)
        for ops in (pe, pe.reference):
            got = ops.attention(q, k, v, rope=rope, q_positions=case.positions, k_positions=case.positions,
                                **keywords)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 if dtype == np.float64 else 2e-5)


# Every shape and option against the twin


def random_call(seed):
    rng = np.random.default_rng(seed)
    axes, D = rng.integers(1, 9), rng.integers(2, 41)
    L = rng.integers(1, D // 2 + 1)
    lead = tuple(rng.integers(1, 4, rng.integers(2, 4)))
    shape = (*lead, rng.integers(1, 20))
    per_head = rng.random() < 0.4
    freqs = rng.normal(size=(axes, lead[-1], L) if per_head else (axes, L))
    points = shape[-1:] if rng.random() < 0.5 else tuple(n if rng.random() < 0.6 else 1 for n in shape)
    points = *points, axes
    positions = rng.integers(-50, 50, points) if rng.random() < 0.5 else rng.normal(size=points)
    rate = rng.normal(size=(axes, L)) * 0.02 if rng.random() < 0.5 else None
    layout = rng.choice(["interleaved", "half"])
    return rng.normal(size=(*shape, D)), positions, freqs, {"layout": str(layout), "rate": rate}


@each_isa
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_the_twin(isa, dtype):
    rates = 0
    for seed in range(150):
        x, positions, freqs, keywords = random_call(seed)
        x = x.astype(dtype)
        rates += keywords["rate"] is not None
        for inverse in (False, True):
            got = pe.apply_rope_nd(x, positions, freqs, inverse=inverse, **keywords)
            want = pe.reference.apply_rope_nd(x.astype(np.float64), positions, freqs, inverse=inverse,
                                              **keywords)
            angle = np.abs(positions).sum(-1).max() * np.abs(freqs).max()
            close(got, want, dtype, angle + 4, max(np.abs(want).max(), np.abs(x).astype(float).max()))
            rest = 2 * freqs.shape[-1]
            np.testing.assert_array_equal(got[..., rest:], x[..., rest:])
    assert 40 < rates < 110


def test_twin_against_mpmath():
    """Two heads, two axes, a rate: every number from the definition, in 40 digits."""
    x, p = normal(2, 3, 5), normal(3, 2, seed=1) * 9
    w, rate = normal(2, 2, 2, seed=2), normal(2, 2, seed=3) / 9
    got = pe.reference.apply_rope_nd(x, p, w, rate=rate)
    with mpmath.workdps(40):
        for h, t, plane in np.ndindex(2, 3, 2):
            angle = mpmath.fdot(p[t], w[:, h, plane])
            fade = mpmath.exp(-mpmath.fdot(p[t], rate[:, plane]))
            a, b = x[h, t, 2 * plane:2 * plane + 2]
            turned = mpmath.mpc(a, b) * mpmath.expj(angle) * fade
            want = [float(turned.real), float(turned.imag)]
            np.testing.assert_allclose(got[h, t, 2 * plane:2 * plane + 2], want, atol=1e-13)
    np.testing.assert_array_equal(got[..., 4], x[..., 4])


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_and_two_axes_are_the_other_ops_to_the_bit(dtype):
    x, p = normal(2, 3, 7, 16).astype(dtype), normal(2, 7, seed=1) * 100
    w = pe.Rope(16).freqs
    for layout in ("interleaved", "half"):
        np.testing.assert_array_equal(pe.apply_rope_nd(x, p[0, :, None], w, layout=layout),
                                      pe.apply_rope(x, positions=p[0], layout=layout))
    w = pe.Rope(8).freqs[0]
    axial = [[*w, *np.zeros(4)], [*np.zeros(4), *w]]
    np.testing.assert_array_equal(pe.apply_rope_nd(x, p.T, axial), pe.apply_rope_2d(x, *p))


def test_heads_that_do_not_differ_may_have_one_row():
    x, p, w = normal(2, 3, 7, 8), normal(7, 2), normal(2, 4, seed=1)
    want = pe.apply_rope_nd(x, p, w)
    np.testing.assert_array_equal(pe.apply_rope_nd(x, p, w[:, None]), want)
    np.testing.assert_array_equal(pe.apply_rope_nd(x, p, np.repeat(w[:, None], 3, axis=1)), want)


# What a rotation promises


def test_scores_depend_on_the_gap_along_every_axis():
    q, k, w = normal(8), normal(8, seed=1), normal(2, 4, seed=2)
    t, s = np.array([[3, -4]]), np.array([[1, 7]])
    want = pe.apply_rope_nd(q, t, w) @ pe.apply_rope_nd(k, s, w)
    for shift in ([100, 0], [0, 100], [-31, 17]):
        got = pe.apply_rope_nd(q, t + shift, w) @ pe.apply_rope_nd(k, s + shift, w)
        np.testing.assert_allclose(got, want, atol=1e-12)
    moved = pe.apply_rope_nd(q, t + [1, 0], w) @ pe.apply_rope_nd(k, s, w)
    assert abs(moved - want) > 0.01


@pytest.mark.parametrize("plane", range(3))
def test_a_rate_that_is_no_number_is_found_in_any_plane(plane):
    rate = np.full((2, 3), 0.1)
    rate[1, plane] = np.nan
    with pytest.raises(ValueError, match="rate has nan; expected finite numbers"):
        pe.apply_rope_nd(np.ones((2, 6)), np.ones((2, 2)), np.ones((2, 3)), rate=rate)


def test_xpos():
    """Queries fade by +rate and keys by -rate: e^(-rate u) cos(w u) between equal vectors."""
    w, rate = np.array([[1.0, 0.5]]), np.array([0.25, 0.0])
    x, t = np.tile([1.0, 0.0, 0.0, 0.0], (5, 1)), np.arange(5.0)
    q = pe.apply_rope_nd(x, t[:, None], w, rate=rate)
    k = pe.apply_rope_nd(x, t[:, None], w, rate=-rate)
    u = t[:, None] - t
    np.testing.assert_allclose(q @ k.T, np.exp(-0.25 * u) * np.cos(u), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inverse(dtype):
    x, p = normal(2, 3, 9, 16).astype(dtype), normal(9, 3) * 9
    w, rate = normal(3, 3, 8, seed=1), normal(3, 8) / 9
    for keywords in ({}, {"rate": rate}, {"layout": "half", "rate": rate}):
        turned = pe.apply_rope_nd(x, p, w, **keywords)
        back = pe.apply_rope_nd(turned, p, w, inverse=True, **keywords)
        np.testing.assert_allclose(back, x, atol=1e-12 if dtype == np.float64 else 1e-5)


def test_far_positions_stay_exact():
    """Angles are formed in float64 whatever x is: no error that grows with the position."""
    x, p, w = normal(1, 1, 64, 32), np.arange(64)[:, None] + [[2**20, -2**19]], normal(2, 16, seed=1)
    got = pe.apply_rope_nd(x.astype(np.float32), p, w)
    want = pe.reference.apply_rope_nd(x.astype(np.float32).astype(np.float64), p, w)
    close(got, want, np.float32, 0, np.abs(x).max())


# Arrays of every kind


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_and_out(dtype):
    x = normal(2, 9, 3, 16).astype(dtype).swapaxes(1, 2)                    # (B, H, T, D), heads inside
    p, w, rate = normal(2, 1, 9, 2), normal(2, 3, 6, seed=1), normal(2, 6, seed=2) / 9
    want = pe.apply_rope_nd(np.ascontiguousarray(x), p, w, rate=rate)
    for view in (x, np.asfortranarray(x), x[:, :, ::-1][:, :, ::-1], np.repeat(x, 2, axis=-1)[..., ::2],
                 x.astype(x.dtype.newbyteorder())):
        np.testing.assert_array_equal(pe.apply_rope_nd(view, p, w, rate=rate), want)
    for points in (np.asfortranarray(p), p[..., ::-1][..., ::-1], p.astype(">f8")):
        np.testing.assert_array_equal(pe.apply_rope_nd(x, points, w, rate=rate), want)
    for freqs in (np.asfortranarray(w), w.astype(">f8"), w.tolist()):
        np.testing.assert_array_equal(pe.apply_rope_nd(x, p, freqs, rate=np.asfortranarray(rate)), want)
    out = np.empty_like(want)
    assert pe.apply_rope_nd(x, p, w, rate=rate, out=out) is out
    np.testing.assert_array_equal(out, want)
    wide = np.zeros(want.shape, np.float64)
    np.testing.assert_array_equal(pe.apply_rope_nd(x, p, w, rate=rate, out=wide), want.astype(np.float64))
    assert pe.apply_rope_nd(x, p, w, rate=rate, out=x) is x
    np.testing.assert_array_equal(x, want)


def test_positions_that_out_overlaps():
    x = normal(9, 9, 2)
    memory, w = x.copy(), [[1.0], [2.0]]
    want = pe.apply_rope_nd(x, x, w)
    np.testing.assert_array_equal(pe.apply_rope_nd(memory, memory, w, out=memory), want)


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8), (0, 3, 5, 8), (2, 3, 0, 8)])
def test_no_rows(shape):
    p = np.zeros((shape[-2], 2))
    assert pe.apply_rope_nd(np.ones(shape), p, np.ones((2, 4)), rate=np.ones((2, 4))).shape == shape


@pytest.mark.parametrize("ops", OPS)
def test_no_planes_and_no_width(ops):
    x = normal(5, 8)
    np.testing.assert_array_equal(ops.apply_rope_nd(x, np.ones((5, 2)), np.ones((2, 0))), x)
    assert ops.apply_rope_nd(np.ones((5, 0)), np.ones((5, 2)), np.ones((2, 0))).shape == (5, 0)


def test_same_bits_for_any_number_of_threads():
    x, p, w = normal(4, 8, 512, 64).astype(np.float32), normal(4, 1, 512, 3), normal(3, 8, 32, seed=1)
    one, many = (pe.apply_rope_nd(x, p, w, rate=normal(3, 32) / 9, num_threads=n) for n in (1, None))
    np.testing.assert_array_equal(one, many)


# What it refuses

GOOD = {"x": normal(2, 3, 5, 8), "positions": normal(5, 2), "freqs": normal(2, 3, 4)}


@pytest.mark.parametrize("changes, error, words", [
    ({"positions": np.zeros((5, 3))}, ValueError,
     "positions has shape (5, 3); a rope with 2 axes takes positions (..., 2)"),
    ({"positions": np.zeros(5)}, ValueError, "positions has shape (5,); a rope with 2 axes takes"),
    ({"positions": np.zeros(5), "freqs": np.ones((1, 4))}, ValueError, "e.g. positions[..., None]"),
    ({"positions": np.zeros((2, 5, 2))}, ValueError, "positions[:, None, :, :] fits"),
    ({"positions": np.zeros((6, 2))}, ValueError, "positions has shape (6, 2)"),
    ({"positions": 3}, TypeError, "positions is 3; expected np.arange(n)"),
    ({"positions": np.full((5, 2), np.nan)}, ValueError, "positions[0, 0] is nan"),
    ({"positions": np.full((5, 2), 2.0**54)}, ValueError, "2^53"),
    ({"positions": np.zeros((5, 2), np.float16)}, TypeError, "positions has dtype float16"),
    ({"positions": np.ma.zeros((5, 2))}, TypeError, "positions is a masked array"),
    ({"freqs": np.ones(4)}, ValueError,
     "freqs has shape (4,); expected (n_axes, L), or (n_axes, H, L) for heads that differ: freqs[None]"),
    ({"freqs": np.ones((2, 5))}, ValueError,
     "freqs has L = 5 planes (shape (2, 5)), which turn 10 coordinates; x has D = 8"),
    ({"freqs": np.ones((2, 2, 4))}, ValueError, "freqs has H = 2 heads (shape (2, 2, 4)); x has shape"),
    ({"freqs": np.ones((2, 3, 4)), "x": normal(5, 8)}, ValueError, "freqs has H = 3 heads"),
    ({"freqs": np.ones((9, 4)), "positions": np.ones((5, 9))}, ValueError, "freqs has 9 axes of positions"),
    ({"freqs": np.ones((0, 4))}, ValueError, "freqs has 0 axes of positions"),
    ({"freqs": np.full((2, 4), np.inf)}, ValueError, "freqs has inf; expected finite numbers"),
    ({"freqs": np.ones((2, 4), complex)}, TypeError, "freqs has dtype complex128"),
    ({"freqs": None}, TypeError, "freqs is None"),
    ({"rate": np.ones(4)}, ValueError, "rate has shape (4,); expected (2, 4)"),
    ({"rate": 0.1}, ValueError, "rate has shape (); expected (2, 4)"),
    ({"rate": np.ones((2, 3, 4))}, ValueError, "rate has shape (2, 3, 4); expected (2, 4)"),
    ({"rate": np.full((2, 4), np.nan)}, ValueError, "rate has nan; expected finite numbers"),
    ({"rate": np.ones((2, 4), bool)}, TypeError, "rate has dtype bool"),
    ({"x": np.float64(1)}, ValueError, "x is a single number; expected shape (..., D)"),
    ({"x": np.ones((2, 3, 5, 8), bool)}, TypeError, "x has dtype bool"),
    ({"layout": "pairs"}, ValueError, "layout 'pairs' is unknown"),
    ({"inverse": 1}, TypeError, "inverse is 1; expected True or False"),
    ({"num_threads": 0}, ValueError, "num_threads must be at least 1"),
    ({"out": np.full((2, 3, 5, 4), 7.0)}, ValueError, "out has shape (2, 3, 5, 4)"),
    ({"rotary_dim": 4}, TypeError, "pe takes freqs, whose L planes turn the first 2L coordinates"),
    ({"mrope_section": [1, 1, 2]}, TypeError, "a row for each axis"),
    ({"base": 100}, TypeError, "such as rope.freqs"),
])
def test_bad_input(changes, error, words):
    arguments = GOOD | {"out": np.full((2, 3, 5, 8), 7.0)} | changes
    before = [a.tobytes() for a in arguments.values() if isinstance(a, np.ndarray)]
    with pytest.raises(error, match=re.escape(words)):
        pe.apply_rope_nd(**arguments)
    assert [a.tobytes() for a in arguments.values() if isinstance(a, np.ndarray)] == before


@pytest.mark.parametrize("dtype, limit", [(np.float64, 708), (np.float32, 87), (np.float16, 87),
                                          (ml_dtypes.bfloat16, 87)])
def test_rates_beyond_the_compute_type(dtype, limit):
    x, w, out = np.zeros((1, 4), dtype), np.ones((2, 2)), np.full((1, 4), 7, dtype)
    for sign in (1, -1):
        for rate in ([[1, 0], [0, 0]], [[0, 0], [0, 1]]):
            rate = sign * np.array(rate)
            inside, beyond = (np.array([[limit + over] * 2]) for over in (0, 2))
            assert not np.isnan(pe.apply_rope_nd(x, inside, w, rate=rate).astype(float)).any()
            words = rf"rate times positions reaches -?{limit + 2}, and .* float"
            with pytest.raises(ValueError, match=words):
                pe.apply_rope_nd(x, beyond, w, rate=rate, out=out)
    assert (out == 7).all()
    # Two axes that cancel are far inside, whatever each is alone.
    y = pe.apply_rope_nd(np.ones((1, 4), dtype), [[1e6, 1e6]], w, rate=[[1, 1], [-1, -1]])
    np.testing.assert_allclose((y.astype(float) ** 2).sum(), 4, rtol=0.05)


def test_a_rope_has_at_most_eight_axes():
    with pytest.raises(ValueError, match="9 axes of positions"):
        pe.Rope(8, freqs=np.ones((9, 4)))
    rope = pe.Rope(8, freqs=normal(8, 4))
    x, p = normal(5, 8), normal(5, 8, seed=1)
    np.testing.assert_array_equal(rope.apply(x, p), pe.apply_rope_nd(x, p, rope.freqs))


# Rope.shift


@pytest.mark.parametrize("rope", [
    pe.Rope(16), pe.Rope(16, layout="half", rotary_dim=8), pe.Rope(16, amplitude=1.25),
    pe.Rope(16, freqs=normal(3, 8), amplitude=0.5)], ids=["plain", "partial", "amplitude", "axes"])
@pytest.mark.parametrize("shape", [(16,), (5, 16), (3, 5, 16), (2, 3, 5, 16)])
def test_shift_moves_turned_keys(rope, shape):
    """To where turning the unturned keys would have put them; one move, or one a row."""
    k, axes = normal(*shape), len(rope.freqs)
    tail = (axes,) if axes > 1 else ()
    rows = shape[-2] if len(shape) > 1 else 1
    p = normal(rows, *tail, seed=1) * 50
    cache = rope.apply(k, p)
    one = np.full(tail, -20.5) if tail else -20.5
    each = normal(rows, *tail, seed=2) * 50
    for delta in (one, each):
        got = rope.shift(cache, delta)
        np.testing.assert_allclose(got, rope.apply(k, p + delta), atol=1e-12)
        np.testing.assert_allclose(got, pe.reference.shift(rope, cache, delta), atol=1e-13)
    np.testing.assert_array_equal(rope.shift(cache, np.zeros(tail)), cache)
    moved = cache.copy()
    assert rope.shift(moved, one, out=moved) is moved
    np.testing.assert_array_equal(moved, rope.shift(cache, one))


def test_shift_of_a_sequence_each():
    rope, k = pe.Rope(8), normal(2, 3, 5, 8)
    p, delta = np.arange(5), np.array([-3, 40])[:, None, None]
    np.testing.assert_allclose(rope.shift(rope.apply(k, p), delta), rope.apply(k, p + delta), atol=1e-13)


def test_shift_keeps_scores():
    """The oldest keys go, the rest move back: attention does not notice."""
    rope = pe.Rope(16)
    q, k, v = normal(2, 1, 16), normal(2, 20, 16, seed=1), normal(2, 20, 16, seed=2)
    cache = rope.apply(k, np.arange(20))
    want = pe.attention(rope.apply(q, [19]), cache[:, 8:], v[:, 8:])
    got = pe.attention(rope.apply(q, [11]), rope.shift(cache[:, 8:], -8), v[:, 8:])
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize("rope, delta, error, words", [
    (pe.Rope(8), [1, 2], ValueError, "delta has shape (2,) and k has rows of shape (3, 5)"),
    (pe.Rope(8), np.nan, ValueError, "delta is nan; expected finite numbers"),
    (pe.Rope(8), True, TypeError, "delta has dtype bool"),
    (pe.Rope(8, freqs=np.ones((2, 4))), 3, ValueError, "delta is 3; a rope with 2 axes moves by (2,)"),
    (pe.Rope(8, freqs=np.ones((2, 4))), [1, 2, 3], ValueError, "delta has shape (3,); a rope with 2 axes"),
    (pe.Rope(16), 3, ValueError, "rope is for D = 16; the values have D = 8"),
])
def test_bad_shift(rope, delta, error, words):
    with pytest.raises(error, match=re.escape(words)):
        rope.shift(normal(3, 5, 8), delta)
