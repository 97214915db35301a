"""`Rope.error_bound`: above what happens and not far above, to positions where float32 angles are noise."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa
from mpmath import mp, mpf

import pe
from pe import Rope, scaling

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BF16]
FAR = [0.0, 1.0, -7.0, 0.34375, 1e6 + 1 / 3, 131071.0, 2.0**24 + 1, -123456.789, 1e9]


def turned_exactly(x, positions, freqs, amplitude=1.0):
    """Rows of half planes (a, b), a row a plane, turned by p @ freqs in 50 digits."""
    L = x.shape[-1] // 2
    result = np.empty(x.shape)
    for row, p in enumerate(positions):
        for plane in range(L):
            angle = mp.fdot([mpf(float(c)) for c in np.atleast_1d(p)], [axis[plane] for axis in freqs])
            a, b = mpf(float(x[row, plane])), mpf(float(x[row, plane + L]))
            result[row, plane] = float(amplitude * (a * mp.cos(angle) - b * mp.sin(angle)))
            result[row, plane + L] = float(amplitude * (a * mp.sin(angle) + b * mp.cos(angle)))
    return result


def unit_planes(rows, width, dtype, seed=0):
    """Vectors whose planes have length 1, or a rounding below it."""
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(rows, width // 2))
    x = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1).astype(dtype)
    length = np.sqrt(sum(part.astype(np.float64)**2 for part in np.split(x, 2, axis=-1))).max()
    return (x.astype(np.float64) / length * (1 - 2.0**-7)).astype(dtype)


def spectrum(width, base):
    return [mpf(base) ** (-mpf(2 * plane) / width) for plane in range(width // 2)]


@each_isa
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("position", FAR)
def test_error_lies_under_the_bound_and_within_a_factor_20(position, dtype, isa):
    """Of the published formula, w_l = base^(-2l/d) in 50 digits."""
    rope, x = Rope(128, layout="half"), unit_planes(3, 128, dtype)
    with mp.workdps(50):
        want = turned_exactly(x, [position] * 3, [spectrum(128, 1e4)])
    error = np.abs(rope.apply(x, [position] * 3).astype(np.float64) - want).max()
    bound = rope.error_bound(position, dtype)
    assert error <= bound
    if position:                                            # at 0 nothing turns, and nothing is rounded
        assert bound <= 20 * error


@each_isa
@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_is_what_it_is_alone(dtype, axes, isa):
    """However its neighbours' phases are formed: of whole numbers, of words, less whole turns first."""
    rng = np.random.default_rng(1)
    far = np.array([*FAR, 2.0**19 + 0.5, 2.0**20, 2.0**40 + 3, 2.0**52 + 1, 5.25, 5.0, 6.0, -8.5])
    positions = np.concatenate([np.arange(20), np.arange(20) + 0.25, rng.choice(far, 60)])
    points = np.stack([np.roll(positions, i) for i in range(axes)], axis=-1)
    freqs = np.array([[float(w) for w in spectrum(48, 1e4)], [0.5] * 24, [0.0, 1.0] * 12])[:axes]
    for layout in "interleaved", "half":
        rope, x = Rope(48, freqs=freqs, layout=layout), unit_planes(100, 48, dtype)
        where = points if axes > 1 else positions
        together = rope.apply(x, where)
        for i in range(100):
            assert together[i].tobytes() == rope.apply(x[i:i + 1], where[i:i + 1]).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_frequencies_as_given_are_exact_at_any_position(dtype):
    """Float64 numbers times float64 numbers, to 2^53: no part of the bound grows."""
    w = np.array([np.pi, 1.0, 0.1, 1e-3])
    positions = [1.0, 123456.789, 2.0**24 + 1, 1e9, -(2.0**40) - 1, 2.0**53]
    rope, x = Rope(8, freqs=w, layout="half", amplitude=1.25), unit_planes(6, 8, dtype)
    with mp.workdps(60):
        want = turned_exactly(x, positions, [[mpf(float(f)) for f in w]], 1.25)
    errors = np.abs(rope.apply(x, positions).astype(np.float64) - want).max(axis=1)
    bounds = rope.error_bound(positions, dtype)
    assert (errors <= bounds).all() and bounds.max() <= 2 * bounds.min() <= 40 * errors.max()


@pytest.mark.parametrize("scaled, formula", [
    (scaling.linear(8), lambda w: [f / 8 for f in w]),
    (scaling.ntk(8), lambda w: spectrum(64, mpf(10000) * mpf(8) ** (mpf(64) / 62))),
    (scaling.yarn(32, 4096, attention_factor=1.0, truncate=False), None),
], ids=["linear", "ntk", "yarn"])
def test_scaled_frequencies(scaled, formula):
    rope, x = Rope(64, layout="half", scaling=scaled), unit_planes(4, 64, np.float64)
    positions = [1000.0, 131071.0, 1e6 + 0.5, 1e9]
    with mp.workdps(50):
        w = spectrum(64, 1e4)
        if formula is None:
            lo, hi = (64 * mp.log(4096 / (2 * mp.pi * turns)) / (2 * mp.log(10000)) for turns in (32, 1))
            ramp = [min(max((plane - lo) / (hi - lo), 0), 1) for plane in range(32)]
            w = [f * (1 - r) + f / 32 * r for f, r in zip(w, ramp, strict=True)]
        else:
            w = formula(w)
        want = turned_exactly(x, positions, [w])
    errors = np.abs(rope.apply(x, positions) - want).max(axis=1)
    assert (errors <= rope.error_bound(positions, np.float64)).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("position", FAR)
def test_tables_lie_under_the_bound(position, dtype):
    rope, x = Rope(128, layout="half", amplitude=1.25), unit_planes(3, 128, dtype)
    with mp.workdps(50):
        want = turned_exactly(x, [position] * 3, [spectrum(128, 1e4)], 1.25)
    got = pe.apply_rope(x, *rope.cache([position] * 3), layout="half").astype(np.float64)
    assert np.abs(got - want).max() <= rope.error_bound(position, dtype)


def test_several_axes_and_an_offset():
    with mp.workdps(50):
        w = spectrum(16, 1e4)
        table = [[*w[:4], *[mpf(0)] * 4], [*[mpf(0)] * 4, *w[4:]]]
        rope = Rope(20, freqs=np.array(table, float), layout="half", rotary_offset=4)
        x, positions = unit_planes(3, 16, np.float64), np.array([[3.0, -5.5], [131071, 2**24 + 1], [1e9, 7]])
        want = turned_exactly(x, positions, [[mpf(float(f)) for f in row] for row in table])
    whole = np.concatenate([np.full((3, 4), 9.0), x], axis=-1)
    got = rope.apply(whole, positions)
    np.testing.assert_array_equal(got[:, :4], 9.0)
    assert (np.abs(got[:, 4:] - want).max(axis=1) <= rope.error_bound(positions, np.float64)).all()


def test_the_twin_rounds_the_angle():
    """NumPy's product p*w is off by half a unit of the angle; the core keeps 106 bits of it."""
    rope, x, p = Rope(64, layout="half"), unit_planes(200, 64, np.float64), np.arange(200) * 12345.0 + 2**30
    with mp.workdps(50):
        want = turned_exactly(x[:20], p[:20], [[mpf(float(f)) for f in rope.freqs[0]]])
    ours, twin = (np.abs(ops.apply_rope(x, positions=p, rope=rope)[:20] - want).max()
                  for ops in (pe, pe.reference))
    assert ours < 1e-14 and 1e-9 < twin < 2**30 * 2.0**-52


def test_the_bound_is_readable_as_a_safe_position():
    rope = Rope(128, 5e5)
    bounds = rope.error_bound([2**10, 2**20, 2**30, 2**50], np.float32)
    assert (np.diff(bounds) > 0).all() and bounds[1] < 5e-7 and bounds[3] > 0.4
    np.testing.assert_array_equal(rope.error_bound(-3, np.float64), rope.error_bound(3, "float64"))
    np.testing.assert_allclose(Rope(128, amplitude=3.0).error_bound(9, np.float32),
                               3 * Rope(128).error_bound(9, np.float32))


def test_scaled_frequencies_are_rounded():
    """A third of a float64 number is no float64 number, whoever gave it: at 2^40 the turn shows it."""
    w, position, x = [1.0, 0.3, 0.1, 0.03], 2.0**40, np.array([[1.0, 0.0] * 4])
    rope = Rope(8, freqs=w, scaling=pe.scaling.linear(3))
    with mp.workprec(200):
        exact = [float(mp.cos(mpf(position) * mpf(each) / 3)) for each in w]
    error = np.abs(rope.apply(x, [position])[0, ::2] - exact).max()
    assert 1e-6 < error < rope.error_bound(position, np.float64)


@pytest.mark.parametrize("name, spellings", [
    ("float64", [float, "double", "f8"]), ("float32", [np.dtype(">f4"), "single", np.float32]),
    ("float16", ["e", np.dtype(np.float16)]), ("bfloat16", [BF16, ml_dtypes.bfloat16])])
def test_spellings_of_a_dtype(name, spellings):
    assert {Rope(8).error_bound(3, dtype) for dtype in spellings} == {Rope(8).error_bound(3, name)}


@pytest.mark.parametrize("position, dtype, error, words", [
    (1, np.int64, TypeError, "dtype must be float16, bfloat16, float32 or float64"),
    (1, None, TypeError, "dtype must be"), (1, "complex128", TypeError, "dtype must be"),
    (np.nan, np.float64, ValueError, "position"), ([True], np.float64, TypeError, "position"),
])
def test_bad_input(position, dtype, error, words):
    with pytest.raises(error, match=words):
        Rope(8).error_bound(position, dtype)


def test_bad_shape():
    with pytest.raises(ValueError, match=r"position must have shape \(\.\.\., 2\).*\(3,\)"):
        Rope(8, freqs=np.eye(2)).error_bound([1, 2, 3], np.float32)
