"""Positions of grids, padded batches and packed rows; clocks; the sinusoidal table."""

import doctest

import ml_dtypes
import mpmath
import numpy as np
import pytest
from golden_cases import op_cases

import pe.positions
import pe.reference
from pe import clock, grid_positions, positions_from_lengths, positions_from_mask, sinusoidal


def test_docstring_examples_run():
    result = doctest.testmod(pe.positions)
    assert result.attempted and result.failed == 0


def test_x_is_the_column_and_y_the_row():
    x, y = grid_positions(2, 3)
    assert x.tolist() == [0, 1, 2, 0, 1, 2]
    assert y.tolist() == [0, 0, 0, 1, 1, 1]
    assert x.dtype == y.dtype == np.int64


@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (3, 4, 5), (2, 3, 4, 5), (0, 3), (3, 0)])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_last_axis_first_and_prefix_at_the_origin(shape, prefix):
    got = grid_positions(*shape, prefix=prefix)
    want = [np.ravel(axis) for axis in np.meshgrid(*map(np.arange, shape), indexing="ij")][::-1]
    assert len(got) == len(shape)
    for g, w in zip(got, want, strict=True):
        assert g[:prefix].tolist() == [0] * prefix
        np.testing.assert_array_equal(g[prefix:], w)


def test_a_prefix_token_is_not_turned():
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 8))
    y = pe.apply_rope_2d(x, *grid_positions(2, 3, prefix=1))
    np.testing.assert_array_equal(y[..., 0, :], x[..., 0, :])
    assert not np.isclose(y[..., 2:, :], x[..., 2:, :]).all(axis=-1).any()


@pytest.mark.parametrize("args, kwargs, error, words", [
    ((-1, 3), {}, ValueError, "height .*at least 0.*-1"),
    ((1, 3.0), {}, TypeError, "width .*integer.*3.0"),
    ((1, 2, True), {}, TypeError, "axis 2 .*integer.*True"),
    ((1, 2), {"prefix": -1}, ValueError, "prefix .*at least 0.*-1"),
])
def test_bad_input(args, kwargs, error, words):
    with pytest.raises(error, match=words):
        grid_positions(*args, **kwargs)


# Padded batches and packed rows


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(7,), (3, 6), (2, 3, 5), (0,), (4, 0)])
def test_positions_from_mask_count_the_tokens(seed, shape):
    mask = np.random.default_rng(seed).random(shape) < 0.6
    got = positions_from_mask(mask)
    assert got.dtype == np.int64 and got.shape == shape
    for row, positions in zip(mask.reshape(-1, shape[-1] or 1), got.reshape(-1, shape[-1] or 1), strict=True):
        assert positions[row].tolist() == list(range(row.sum()))
        assert (positions[~row] == 0).all()


HELD = {
    "backwards": lambda a: a[..., ::-1], "transposed": lambda a: a.T, "a row": lambda a: a[1, 2],
    "swapped axes": lambda a: a.swapaxes(0, 1), "every other": lambda a: a[:, ::2, 1::2],
    "repeated": lambda a: np.broadcast_to(a, (2, *a.shape)), "nothing": lambda a: a[:, :0],
    "one": lambda a: a[:1, :1, :1],
}


@pytest.mark.parametrize("name", HELD)
def test_masks_held_in_any_way(name):
    mask = HELD[name](np.random.default_rng(0).random((3, 4, 5)) < 0.6)
    want = mask * (mask.cumsum(axis=-1) - 1)
    got = positions_from_mask(mask)
    assert got.dtype == np.int64 and got.flags.c_contiguous
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["i1", ">i2", "u4", "i8", ">i8", "u8"])
def test_lengths_of_any_integer_type(kind):
    lengths = np.array([3, 9, 0, 9, 2, 9]).astype(kind)[::2]
    np.testing.assert_array_equal(positions_from_lengths(lengths), [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(positions_from_lengths(lengths[::-1]), [0, 1, 0, 1, 2])


def test_a_padded_batch_gives_what_each_sequence_gives_alone():
    """Left, right, and in the middle: the queries of tokens do not notice the padding."""
    rng = np.random.default_rng(0)
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1]], bool)
    q, k, v = rng.normal(size=(3, 3, 2, 5, 8))
    p, rope = positions_from_mask(mask)[:, None, :], pe.Rope(8)
    keywords = {"causal": True, "rope": rope, "alibi_slopes": [0.5, 0.25]}
    got = pe.attention(q, k, v, mask=mask[:, None, None], q_positions=p, k_positions=p, **keywords)
    for b, row in enumerate(mask):
        want = pe.attention(q[b][:, row], k[b][:, row], v[b][:, row], **keywords)
        np.testing.assert_allclose(got[b][:, row], want, rtol=0, atol=1e-14)


def test_positions_from_mask_are_those_of_bloom():
    """ALiBi of a left-padded batch, as transformers computes it: cumsum of the mask, less one."""
    cases = [case for case in op_cases("attention_transformers") if "left_pad" in case.name]
    assert cases
    for case in cases:
        hidden = ~case.args["mask"].any(axis=tuple(range(1, case.args["mask"].ndim - 1)))
        positions = positions_from_mask(~hidden)
        seen = ~hidden
        want = case.args["k_positions"].reshape(seen.shape)
        np.testing.assert_array_equal(positions[seen], want[seen])


@pytest.mark.parametrize("lengths", [[3, 2], [0, 4, 0, 1], [], [1] * 5, np.array([2, 3], np.uint8)], ids=str)
def test_positions_from_lengths(lengths):
    got = positions_from_lengths(lengths)
    assert got.dtype == np.int64
    assert got.tolist() == [i for n in lengths for i in range(n)]


def test_packed_texts_give_what_each_gives_alone():
    rng = np.random.default_rng(0)
    lengths, rope = [3, 4], pe.Rope(8)
    q, k, v = rng.normal(size=(3, 2, 7, 8))
    p = positions_from_lengths(lengths)
    got = pe.attention(q, k, v, causal=True, rope=rope, q_positions=p, k_positions=p,
                       segments=np.repeat([0, 1], lengths))
    for part in (slice(0, 3), slice(3, 7)):
        want = pe.attention(q[:, part], k[:, part], v[:, part], causal=True, rope=rope)
        np.testing.assert_allclose(got[:, part], want, rtol=0, atol=1e-14)


# Clocks


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_clock_is_minus_the_running_sum(axis, dtype):
    gates = -np.random.default_rng(0).random((4, 6, 5)).astype(dtype)
    got = clock(gates, axis)
    assert got.dtype == np.float64 and got.shape == gates.shape
    np.testing.assert_array_equal(got, -np.cumsum(gates.astype(np.float64), axis=axis))
    assert (np.diff(got, axis=axis) >= 0).all()


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ml_dtypes.bfloat16, ">f8", ">f4", "i4"])
@pytest.mark.parametrize("name", HELD)
def test_gates_held_in_any_way(name, dtype):
    gates = -np.random.default_rng(0).integers(0, 2000, (3, 4, 5)).astype(dtype)
    gates = HELD[name](gates)
    for axis in range(-gates.ndim, gates.ndim):
        got = clock(gates, axis)
        assert got.flags.c_contiguous and not np.signbit(got).any()
        np.testing.assert_array_equal(got, -np.maximum(gates.astype(np.float64), -1000).cumsum(axis=axis))


def test_a_closed_gate_stays_finite():
    """It forgets all before it, and what comes after it as if the clock had started there."""
    log_gates = np.log([0.5, 0.5, 1.0, 0.25])
    log_gates[2] = -np.inf
    c = clock(log_gates)
    assert np.isfinite(c).all() and not np.signbit(clock([0.0, 0.0])).any()
    weights = np.exp(pe.decay_bias(4, clock=c))
    np.testing.assert_allclose(weights[3], [0, 0, 0.25, 1], rtol=1e-12, atol=0)
    np.testing.assert_allclose(weights[1], [0.5, 1, 0, 0], rtol=1e-12, atol=0)


def test_equal_gates_are_the_ordinary_decay():
    c = clock(np.full(9, -0.25))
    np.testing.assert_array_equal(pe.decay_bias(3, 9, clock=c), pe.decay_bias(3, 9, rate=0.25))


# The sinusoidal table


def test_sinusoidal_against_exact_arithmetic():
    got = sinusoidal([[0, 1], [-3.5, 1000]], 6, base=100.0)
    assert got.shape == (2, 2, 6) and got.dtype == np.float64
    with mpmath.workdps(30):
        for row, p in zip(got.reshape(-1, 6), [0, 1, -3.5, 1000], strict=True):
            angles = [p * mpmath.mpf(100) ** (-mpmath.mpf(plane) / 3) for plane in range(3)]
            want = [float(f(angle)) for angle in angles for f in (mpmath.sin, mpmath.cos)]
            np.testing.assert_allclose(row, want, rtol=0, atol=1e-12)


def test_sinusoidal_is_exact_far_away():
    """Float64 frequencies, and the sine and cosine of their exact product with the position."""
    points = [2**40 + 1, -(2**31), 2.0**52 + 0.5]
    freqs = np.power(100.0, -np.arange(0, 6, 2) / 6)
    with mpmath.workdps(50):
        angles = [[mpmath.mpf(p) * mpmath.mpf(float(w)) for w in freqs] for p in points]
        want = [[float(f(angle)) for angle in row for f in (mpmath.sin, mpmath.cos)] for row in angles]
    np.testing.assert_allclose(sinusoidal(points, 6, base=100.0), want, rtol=0, atol=3 * 2.0**-53)


def test_sinusoidal_at_a_base_below_one_has_rising_frequencies():
    want = [[np.sin(2), np.cos(2), np.sin(4), np.cos(4)]]
    np.testing.assert_allclose(sinusoidal([2.0], 4, base=0.25), want, rtol=1e-14)


def test_sinusoidal_takes_a_width_of_any_integer_type():
    want = sinusoidal([1], 4)
    for width in (np.int8(4), np.array(4), np.ma.array(4)):
        np.testing.assert_array_equal(sinusoidal([1], width), want)


def test_sinusoidal_turns_as_a_rope_does_backwards():
    """Sine first: a row moves to the next position by a turn the other way round."""
    table, rope = sinusoidal(np.arange(20), 8), pe.Rope(8)
    np.testing.assert_allclose(rope.apply(table, np.full(20, 3), inverse=True)[:-3], table[3:], atol=1e-13)


# The twins


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5), (2, 3, 8), (2, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_twins(shape, seed):
    rng = np.random.default_rng(seed)
    mask, gates = rng.random(shape) < 0.6, -rng.exponential(300, shape)
    lengths, points = rng.integers(0, 5, shape[-1]), rng.normal(size=shape) * 50
    pairs = [(positions_from_mask(mask), pe.reference.positions_from_mask(mask)),
             (positions_from_lengths(lengths), pe.reference.positions_from_lengths(lengths)),
             (sinusoidal(points, 6, base=50.0), pe.reference.sinusoidal(points, 6, base=50.0)),
             *((clock(gates, axis), pe.reference.clock(gates, axis)) for axis in range(-1, len(shape)))]
    for got, twin in pairs:
        assert got.dtype == twin.dtype and got.shape == twin.shape
        np.testing.assert_allclose(got, twin, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("call, error, words", [
    (lambda: positions_from_mask(np.ones((2, 3), int)), TypeError, "mask has dtype int64.*mask.astype.bool"),
    (lambda: positions_from_mask(np.full(3, 2.5)), TypeError, "float64; expected bool, True for a token$"),
    (lambda: positions_from_mask(True), ValueError, "mask is a single value"),
    (lambda: positions_from_mask(None), TypeError, "mask is None"),
    (lambda: positions_from_mask(np.ma.ones(3, bool)), TypeError, "mask is a masked array"),
    (lambda: positions_from_lengths([1.0]), TypeError, "lengths has dtype float64; expected integers"),
    (lambda: positions_from_lengths([True]), TypeError, "lengths has dtype bool"),
    (lambda: positions_from_lengths([[1]]), ValueError, r"lengths has shape \(1, 1\); expected \(S,\)"),
    (lambda: positions_from_lengths(5), ValueError, r"lengths has shape \(\)"),
    (lambda: positions_from_lengths([3, -1]), ValueError, "lengths has -1; .*np.diff"),
    (lambda: positions_from_lengths(np.array([2**63], "u8")), ValueError, "lengths has 922337203685477580"),
    (lambda: positions_from_lengths([2**62, 2**62]), ValueError, r"lengths has 4611686018427387904; .*2\^53"),
    (lambda: positions_from_lengths([2**53] * 1024), MemoryError, None),
    (lambda: positions_from_lengths([2**53] * 200), MemoryError, None),
    (lambda: clock([-1.0], axis=2**70), ValueError, "axis must be at most"),
    (lambda: clock([0.5, 0.9]), ValueError, r"log_gates has 0.5; expected numbers <= 0.*np.log\(gates\)"),
    (lambda: clock([-1, np.nan]), ValueError, "log_gates has nan; expected numbers <= 0$"),
    (lambda: clock(-1.0), ValueError, "log_gates is a single number"),
    (lambda: clock([-1.0], axis=1), ValueError, r"axis is 1; log_gates has 1 axis \(shape \(1,\)\)"),
    (lambda: clock([-1.0], axis=-2), ValueError, "axis must be at least -1; got -2"),
    (lambda: clock([-1.0], axis=0.0), TypeError, "axis must be an integer"),
    (lambda: clock([True]), TypeError, "log_gates has dtype bool"),
    (lambda: clock([-1j]), TypeError, "log_gates has dtype complex128"),
    (lambda: sinusoidal(4, 8), TypeError, r"positions is 4; expected np.arange\(n\)"),
    (lambda: sinusoidal([np.inf], 8), ValueError, r"positions\[0\] is inf"),
    (lambda: sinusoidal([1], 7), ValueError, "dim is 7; expected an even width"),
    (lambda: sinusoidal([1], 0), ValueError, "dim must be at least 2; got 0"),
    (lambda: sinusoidal([1], 8.0), TypeError, "dim must be an integer"),
    (lambda: sinusoidal([1], 8, base=0), ValueError, "base must be a finite number above 0"),
])
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
