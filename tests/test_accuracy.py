"""How far results may lie from the exact value, for every instruction set.

The oracles are `pe.reference` in float64 for narrower dtypes, the same formulas in extended precision,
and mpmath.
"""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa, weight_rounding
from mpmath import mp, mpf

import pe
from pe import reference

HALVES = {"float16": (np.dtype(np.float16), 10, -24), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 7, -133)}


def largest(a):
    return np.max(np.abs(a), initial=0.0)


def half_ulp(exact, name):
    """Half the distance of neighbours in a 16-bit dtype: what rounding once may cost."""
    _, bits, lowest = HALVES[name]
    _, exponent = np.frexp(exact)  # exact = m 2^exponent, 0.5 <= |m| < 1
    return 0.5 * np.exp2(np.maximum(exponent - 1 - bits, lowest))


# attention

DRAWS = {"uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
         "normal": lambda rng, shape: rng.normal(size=shape),
         "positive": lambda rng, shape: rng.uniform(0, 1, shape),
         "nearly equal values": lambda rng, shape: 1 + 0.01 * rng.normal(size=shape)}
BOUND = {"uniform": 3e-7, "normal": 2e-6}
SHAPES = [(3, 64, 64, 64), (1, 128, 128, 128), (1, 100, 200, 256), (2, 70, 1000, 16), (1, 257, 257, 1),
          (1, 8, 4096, 64), (1, 1, 3000, 128), (1, 200, 300, 80)]  # H, M, N, D


def draw(kind, shape, dtype=np.float32):
    H, M, N, D = shape
    rng = np.random.default_rng([M, N, D])
    return [DRAWS[kind](rng, (H, rows, D)).astype(dtype) for rows in (M, N, N)]


def textbook(q, k, v, causal):
    """softmax(q k^T / sqrt(D)) v, in the precision of its operands."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    if causal:
        M, N = scores.shape[-2:]
        scores[..., ~np.tri(M, N, N - M, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


@cache
def exactly(kind, shape, dtype, causal):
    """Result and lse for the drawn values, and the error of the textbook formula."""
    values = draw(kind, shape, dtype)
    exact, lse = reference.attention(*(a.astype(float) for a in values), causal=causal, return_lse=True)
    return exact, lse, largest(textbook(*values, causal) - exact) if dtype == np.float32 else None


@each_isa
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", DRAWS)
def test_attention_float32(kind, shape, causal, isa):
    q, k, v = draw(kind, shape)
    exact, lse, theirs = exactly(kind, shape, np.float32, causal)
    actual, actual_lse = pe.attention(q, k, v, causal=causal, return_lse=True)
    error = largest(actual - exact)
    assert error <= BOUND.get(kind, np.inf)
    assert error <= 1.5 * theirs + 2.0**-23 * largest(v)
    assert largest(actual_lse - lse) <= 1e-6 + 2.0**-23 * largest(lse)


FAR = {"q_positions": 10.0**6 + np.arange(200), "k_positions": 10**6 + np.arange(200)}


@each_isa
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("keywords", [
    {"alibi_slopes": [0.5, 2.0**-8]}, {"decay_rate": 0.01}, {"rope": pe.Rope(64)},
    {"rope": pe.Rope(64, layout="half"), **FAR}, {"bias": np.linspace(-3, 3, 200)},
    {"mask": np.arange(200) % 7 > 2}, {"scale": 0.1}], ids="+".join)
def test_attention_float32_with_keywords(keywords, causal, isa):
    q, k, v = draw("normal", (2, 200, 200, 64))
    exact = reference.attention(*(a.astype(float) for a in (q, k, v)), causal=causal, **keywords)
    assert largest(pe.attention(q, k, v, causal=causal, **keywords) - exact) <= 2e-6


@each_isa
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", [(2, 40, 70, 64), (1, 33, 130, 16), (1, 2, 1500, 8), (1, 20, 30, 256)],
                         ids=str)
@pytest.mark.parametrize("kind", DRAWS)
def test_attention_float64(kind, shape, causal, isa):
    q, k, v = draw(kind, shape, np.float64)
    exact = textbook(*(a.astype(np.longdouble) for a in (q, k, v)), causal)
    actual, lse = pe.attention(q, k, v, causal=causal, return_lse=True)
    assert largest(actual - exact) <= 1e-13
    assert largest(lse - exactly(kind, shape, np.float64, causal)[1]) <= 1e-13


@each_isa
@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_attention_16_bit_rounds_once(shape, kind, name, isa):
    """Once at the end, and softmax weights where the processor multiplies pairs of bfloat16."""
    q, k, v = draw(kind, shape, HALVES[name][0])
    exact, lse, _ = exactly(kind, shape, HALVES[name][0], True)
    actual, actual_lse = pe.attention(q, k, v, causal=True, return_lse=True)
    bound = half_ulp(exact, name) + BOUND[kind] + weight_rounding(actual.dtype) * largest(v.astype(float))
    assert (abs(actual.astype(float) - exact) <= bound).all()
    assert largest(actual_lse - lse) <= 1e-6 + 2.0**-23 * largest(lse)


@each_isa
@pytest.mark.parametrize("dtype, unit", [(np.float32, 2.0**-23), (np.float64, 2.0**-52)])
def test_small_weights_keep_their_digits(dtype, unit, isa):
    """The weight of each key, read off through values that are the rows of a unit matrix, down to e^-80."""
    scores = -np.linspace(0, 80, 100).astype(dtype)
    weights = pe.attention(np.ones((1, 1), dtype), scores[:, None], np.eye(100, dtype=dtype), scale=1)[0]
    exact = np.exp(scores.astype(np.longdouble))
    exact /= exact.sum()
    assert (abs(weights / exact - 1) <= (4 + 1.5 * abs(scores)) * unit).all()


@pytest.mark.parametrize("queries", [1, 20])
@each_isa
def test_weights_down_to_the_least_normal_number(queries, isa):
    powers = np.array([0, -1, -60, -124, -126, -200, -1e6, -np.inf])  # of two
    q, k = np.full((queries, 1), np.log(2), np.float32), powers[:, None].astype(np.float32)
    weights = pe.attention(q, k, np.eye(8, dtype=np.float32), scale=1.0)
    np.testing.assert_allclose(weights[0], np.exp2(powers) / np.exp2(powers).sum(), rtol=2e-5, atol=2.0**-130)
    assert not weights[:, 5:].any()


@pytest.mark.parametrize("shape", [(3, 70, 90, 40), (1, 128, 128, 128)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_isa
def test_a_normaliser_or_rows_apart_change_no_bit(dtype, shape, isa):
    H, M, N, D = shape
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(H, n, D)).astype(dtype) for n in (M, N, N))
    out, _ = pe.attention(q, k, v, return_lse=True)
    assert np.array_equal(pe.attention(q, k, v), out)
    assert np.array_equal(pe.attention(q, k, v, sinks=np.full(H, -np.inf)), out)
    far = np.empty((H, M, 4 * D), dtype)[..., :D]
    pe.attention(np.repeat(q, 2, -1)[..., ::2], k, v, out=far)
    assert np.array_equal(far, out)


@each_isa
def test_hundred_thousand_equal_weights(isa):
    """Sums over many keys do not drift: the mean of ones is one, and the normaliser is N."""
    N = 100_000
    q, k, v = (np.ones((n, 1), np.float32) for n in (1, N, N))
    out, lse = pe.attention(q, k, v, return_lse=True)
    assert abs(out[0, 0] - 1) <= 2.0**-22
    assert abs(lse[0] - (1 + np.log(N))) <= 2e-6


# cos and sin of the angles, seen through the rotation of (1, 0)

def cos_sin(positions, freqs, dtype):
    """cos and sin, (T, L) each, as apply_rope makes them."""
    x = np.zeros((len(positions), 2 * len(freqs)), dtype)
    x[:, :len(freqs)] = 1
    return np.split(pe.apply_rope(x, positions=positions, freqs=freqs, layout="half"), 2, axis=-1)


POSITIONS = np.unique(np.concatenate([
    np.arange(70), 2**np.arange(25), 2**np.arange(25) - 1, [710, 15962, 65537, 103993, 131071, 5419351],
    np.random.default_rng(0).integers(0, 2**24, 1000)]))
FREQS = 10000.0 ** (-np.arange(0, 128, 2) / 128)


@each_isa
@pytest.mark.parametrize("points", [POSITIONS, -POSITIONS, POSITIONS[POSITIONS < 2**22] + 0.34375],
                         ids=["+", "-", "fractions"])
def test_cos_and_sin_float32(points, isa):
    angle = points[:, None].astype(np.longdouble) * FREQS
    cos, sin = cos_sin(points, FREQS, np.float32)
    assert largest(cos - np.cos(angle)) <= 1.5e-7
    assert largest(sin - np.sin(angle)) <= 1.5e-7


@each_isa
@pytest.mark.parametrize("name", HALVES)
def test_cos_and_sin_16_bit_round_once(name, isa):
    angle = POSITIONS[::4, None].astype(np.longdouble) * FREQS
    made = cos_sin(POSITIONS[::4], FREQS, HALVES[name][0])
    for actual, exact in zip(made, (np.cos(angle), np.sin(angle)), strict=True):
        assert (abs(actual.astype(float) - exact) <= half_ulp(exact.astype(float), name) + 1.5e-7).all()


@each_isa
@pytest.mark.parametrize("dtype, bound", [(np.float32, 1.5e-7), (np.float64, 1e-13)])
def test_cos_and_sin_against_mpmath(dtype, bound, isa):
    """With frequencies that are themselves float64 numbers, at integers, fractions and far out."""
    points = np.array([0, 1, 7, 710, 5419351, 2**24, -131071, 0.125, 1e6 + 1 / 3, 123456.789, 2.0**40 + 1,
                       2.0**53])
    freqs = np.array([np.pi, 1.0, FREQS[1], FREQS[17], FREQS[63], 2 * np.pi, 1e-12, 0.0])
    with mp.workdps(60):
        angle = [[mpf(float(p)) * mpf(float(w)) for w in freqs] for p in points]
        exact = [np.array([[float(f(a)) for a in row] for row in angle]) for f in (mp.cos, mp.sin)]
    for actual, wanted in zip(cos_sin(points, freqs, dtype), exact, strict=True):
        assert largest(actual - wanted) <= bound


@each_isa
def test_cos_and_sin_of_whole_positions(isa):
    """Up to a million and past it, with frequencies of less than a turn, of many, and of very many."""
    points = np.array([1, -3, 1000, 131071, 2**20 - 1, 1 - 2**20, 2**20, 2**20 + 1])
    freqs = np.array([1e-9, 0.7, np.pi, -3.2, 100.3, -4321.1, 2e8, 3e8])
    with mp.workdps(60):
        angle = [[mpf(int(p)) * mpf(float(w)) for w in freqs] for p in points]
        exact = [np.array([[float(f(a)) for a in row] for row in angle]) for f in (mp.cos, mp.sin)]
    for part in (slice(0, 6), slice(0, 7), slice(0, 8)):
        for actual, wanted in zip(cos_sin(points, freqs[part], np.float32), exact, strict=True):
            assert largest(actual - wanted[:, part]) <= 1.5e-7


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("op", ["positions", "tables", "2d"])
def test_rotations_float32(op, layout, isa):
    """An error of 1.5e-7 in cos and in sin, and the roundings of two products and a sum."""
    x = np.random.default_rng(1).normal(size=(200, 64)).astype(np.float32)
    points = POSITIONS[::5][:200]
    angle = points[:, None] * FREQS[:32]
    call = {"positions": lambda ops, x: ops.apply_rope(x, positions=points, layout=layout),
            "tables": lambda ops, x: ops.apply_rope(x, np.cos(angle), np.sin(angle), layout=layout),
            "2d": lambda ops, x: ops.apply_rope_2d(x, points, points[::-1], layout=layout)}[op]
    exact = call(reference, x.astype(float))
    assert largest(call(pe, x) - exact) <= 4e-7 * largest(x)
    # in float64 the twin's phase is the coarser one: 2^24 x 2^-53
    assert largest(call(pe, x.astype(float)) - exact) <= 4e-9 * largest(x)


@each_isa
@pytest.mark.parametrize("name", HALVES)
def test_rotations_16_bit_round_once(name, isa):
    x = np.random.default_rng(1).normal(size=(200, 64)).astype(HALVES[name][0])
    exact = reference.apply_rope(x.astype(float), positions=POSITIONS[:200])
    error = abs(pe.apply_rope(x, positions=POSITIONS[:200]).astype(float) - exact)
    assert (error <= half_ulp(exact, name) + 4e-7 * largest(x.astype(float))).all()


# Biases

@each_isa
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, bound", [(np.float32, 2.0**-22), (np.float64, 2.0**-51)])
@pytest.mark.parametrize("start", [0, 2.0**52, -1e15])
def test_biases_form_the_gap_exactly(start, dtype, bound, causal, isa):
    points = start + np.arange(130)
    slopes = np.array([1.0, 0.1, 2.0**-8, 1e-30])
    gap = np.arange(130.0)[:, None] - np.arange(130.0)
    exact = -slopes[:, None, None] * abs(gap)
    future = (gap < 0) & causal
    for bias in (pe.alibi_bias(points, slopes=slopes, causal=causal, dtype=dtype),
                 pe.decay_bias(points, rate=slopes, causal=causal, dtype=dtype)):
        assert np.isneginf(bias[:, future]).all()
        np.testing.assert_allclose(bias[:, ~future], exact[:, ~future], rtol=bound, atol=0)


@each_isa
@pytest.mark.parametrize("name", HALVES)
def test_biases_16_bit_round_once(name, isa):
    exact = reference.alibi_bias(700, slopes=[2.0**-0.5, 0.3], causal=False)
    actual = pe.alibi_bias(700, slopes=[2.0**-0.5, 0.3], causal=False, dtype=HALVES[name][0]).astype(float)
    assert (abs(actual - exact) <= half_ulp(exact, name) + 2.0**-22 * abs(exact)).all()
