"""Broadcasting for all the axes that an array may have, and errors of ours where they do not suffice."""

import itertools
import re

import numpy as np
import pytest

import pe
from pe._shapes import broadcast

MANY = 40  # more than np.broadcast_shapes takes
X = [[0.0, 1.0], [-1.0, 0.0]]


def normal(*shape):
    return np.random.default_rng(5).normal(size=shape)


def deep(array, axes=MANY):
    """The same array behind axes of length 1."""
    return array.reshape((1,) * (axes - array.ndim) + array.shape)


def test_broadcast_is_that_of_numpy():
    shapes = [(), (1,), (0,), (3,), (1, 3), (2, 1), (2, 3), (4, 1, 1), (0, 1), (4, 2, 3)]
    met = 0
    for few in itertools.product(shapes, repeat=3):
        try:
            expected = np.broadcast_shapes(*few)
        except ValueError:
            with pytest.raises(ValueError, match="do not broadcast"):
                broadcast(*few)
        else:
            met += 1
            assert broadcast(*few) == expected
    assert 0 < met < len(shapes) ** 3
    assert broadcast() == ()
    assert broadcast((2, *[1] * 60, 3), (5, 1), [1]) == (2, *[1] * 59, 5, 3)


Q, K, V = normal(3, 2, 4, 5, 6)
ROWS = np.arange(5.0)
CLOCK = np.abs(normal(2, 4, 5)).cumsum(axis=-1)[..., None]
LENGTHS = deep(np.array([3, 5]), MANY - 3)
CALLS = {
    "attention": lambda f: pe.attention(f(Q), f(K), V, causal=True),
    "attention, big-endian": lambda f: pe.attention(f(Q).astype(">f8"), K, f(V), causal=True),
    "attention, clock": lambda f: pe.attention(f(Q[:, :, :1]), f(K), f(V), clock=f(CLOCK)[..., 0],
                                               kv_lengths=[3, 5] if f is np.asarray else LENGTHS),
    "attention_weights": lambda f: pe.attention_weights(f(Q), K, causal=True),
    "retention": lambda f: pe.retention(f(Q), f(K), f(V), rate=0.1),
    "alibi_bias": lambda f: pe.alibi_bias(3, slopes=f(np.arange(8)).astype(">f8")),
    "decay_bias": lambda f: pe.decay_bias(f(ROWS), f(ROWS), rate=1, dtype="float32"),
    "apply_rope_nd": lambda f: pe.apply_rope_nd(f(Q), f(ROWS[:, None]), [[1.0]], rate=[[0.1]]),
    "transport": lambda f: pe.transport(X, f(ROWS), v=[1.0, 2.0]),
    "encoding": lambda f: pe.encoding(X).score(f(normal(5, 2)), normal(5, 2), ROWS, 0.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_axes_beyond_the_32_of_broadcast_shapes_change_nothing(name):
    plain, many = CALLS[name](np.asarray), CALLS[name](deep)
    assert many.ndim >= MANY - 1
    assert np.array_equal(many.reshape(plain.shape), plain)


def test_retention_goes_on_behind_many_axes():
    first, state = pe.retention(deep(Q), deep(K), deep(V), rate=0.1, return_state=True)
    again = pe.retention(deep(Q), deep(K), deep(V), rate=0.1, state=state)
    _, plain = pe.retention(Q, K, V, rate=0.1, return_state=True)
    assert np.array_equal(again.reshape(V.shape), pe.retention(Q, K, V, rate=0.1, state=plain))
    with pytest.raises(ValueError, match="positions begin at 0"):
        pe.retention(deep(Q), deep(K), deep(V), rate=0.1, state=state, positions=np.arange(5))


ONES = {n: np.ones((1,) * n) for n in (62, 63, 64)}
FULL = {
    "slopes has 63 axes": lambda n: pe.alibi_bias(2, 3, slopes=ONES[n + 1]),
    "rate has 63 axes": lambda n: pe.decay_bias(2, 3, rate=ONES[n + 1]),
    "half_life has 63 axes": lambda n: pe.decay_bias(2, 3, half_life=ONES[n + 1]),
    "multiplier has 63 axes": lambda n: pe.decay_bias(2, 3, multiplier=ONES[n + 1]),
    "q_positions has 64 axes": lambda n: pe.decay_bias(ONES[n + 2], rate=1.0),
    "clock has 64 axes": lambda n: pe.decay_bias(1, clock=ONES[n + 2]),
    "positions has 64 axes": lambda n: pe.Rope(4).cache(ONES[n + 2])[0],
    "t has 63 axes": lambda n: pe.transport(X, ONES[n + 1]),
}


@pytest.mark.parametrize("text", FULL)
def test_an_argument_whose_result_has_too_many_axes_is_named(text):
    assert FULL[text](61).ndim == 64
    most = 63 if "64" in text else 62
    with pytest.raises(ValueError, match=f"^{text} .* expected at most {most}, "):
        FULL[text](62)


def test_positions_of_sinusoids_and_grids_have_their_bounds_too():
    assert pe.sinusoidal(ONES[63], 4).ndim == 64
    with pytest.raises(ValueError, match=re.escape("positions has 64 axes and the result has 1 more")):
        pe.sinusoidal(ONES[64], 4)
    assert len(pe.grid_positions(*[1] * 63)) == 63
    with pytest.raises(ValueError, match="at most 63 axes; got 64"):
        pe.grid_positions(*[1] * 64)
