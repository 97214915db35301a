"""Every number the generator figure prints, against exact values, mpmath, NumPy and `pe.classify`."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import pe
from pe.plot import data, trajectories

# X, u and the printed texts: worked out by hand from trace, determinant and the definitions, or from the
# table of source document 1 (The Dog, the Man, and the Clock)
PRINTED = {
    "turn": ([[0, -1], [1, 0]], math.pi / 2, {
        "trace-det": "0.0000, 1.0000", "eigenvalues": "0.0000 ± 1.0000 i", "period": "6.2832",
        "det": "1.0000", "half-life": "none", "directions": "none", "x": "(−1.0000, 1.0000)"}),
    "turn+fade": ([[-0.1, -0.5], [0.5, -0.1]], 5, {
        "trace-det": "−0.2000, 0.2600", "eigenvalues": "−0.1000 ± 0.5000 i", "period": "12.5664",
        "half-life": "6.9315", "A": "−0.4859 −0.3630 0.3630 −0.4859", "det": "0.3679"}),
    "fade": ([[-0.1, 0], [0, -0.3]], 5, {
        "trace-det": "−0.4000, 0.0300", "eigenvalues": "−0.1000, −0.3000", "half-life": "6.9315, 2.3105",
        "A": "0.6065 0.0000 0.0000 0.2231", "period": "none", "directions": "2", "det": "0.1353"}),
    "nothing": ([[0, 0], [0, 0]], 5, {
        "trace-det": "0.0000, 0.0000", "eigenvalues": "0.0000, twice", "directions": "every one",
        "A": "1.0000 0.0000 0.0000 1.0000", "x": "(1.0000, 1.0000)"}),
    "slide": ([[0, 1], [0, 0]], 5, {
        "trace-det": "0.0000, 0.0000", "eigenvalues": "0.0000, twice", "directions": "1",
        "A": "1.0000 5.0000 0.0000 1.0000", "x": "(6.0000, 1.0000)", "det": "1.0000"}),
    "explode": ([[0.1, -0.5], [0.5, 0.1]], 5, {
        "trace-det": "0.2000, 0.2600", "eigenvalues": "0.1000 ± 0.5000 i", "det": "2.7183",
        "half-life": "none"}),
    "mixed": ([[1, 0], [0, -1]], 1, {
        "trace-det": "0.0000, −1.0000", "eigenvalues": "1.0000, −1.0000", "half-life": "0.6931",
        "A": "2.7183 0.0000 0.0000 0.3679"}),
    "fading slide": ([[-0.1, 1], [0, -0.1]], 10, {
        "trace-det": "−0.2000, 0.0100", "eigenvalues": "−0.1000, twice",
        "A": "0.3679 3.6788 0.0000 0.3679", "directions": "1", "half-life": "6.9315"}),
}


@pytest.mark.parametrize("kind", PRINTED)
def test_printed_numbers(kind):
    X, u, expected = PRINTED[kind]
    shown = data.generator(X, u)
    assert shown.kind == kind
    assert {key: text for key, (_, text) in shown.numbers().items() if key in expected} == expected


def test_presets_are_the_six_rows_and_two_that_are_in_none():
    rows = ["turn", "fade", "slide", "turn+fade", "nothing", "explode"]
    assert list(data.PRESETS) == [*rows, "fading slide", "saddle"]
    kinds = [data.behaviour([[a, b], [c, d]]) for a, b, c, d, _ in data.PRESETS.values()]
    assert kinds == [*rows, "fading slide", "mixed"]


def test_fading_slide_peaks_at_ten():
    entry = [data.transport_2x2([[-0.1, 1], [0, -0.1]], u)[0, 1] for u in np.linspace(9, 11, 201)]
    assert np.argmax(entry) == 100 and entry[100] == pytest.approx(10 / math.e, rel=1e-15)


def generators(seed=20):
    """500 matrices: 200 anywhere, 100 defective up to rounding, 100 nearly so, 100 on the sliders' grid."""
    rng = np.random.default_rng(seed)
    found = list(rng.uniform(-2, 2, (200, 2, 2)))
    for split in [0.0] * 100 + list(10.0 ** rng.uniform(-14, -2, 100) * rng.choice([-1, 1], 100)):
        a, d, b = rng.uniform(-2, 2, 3)
        found.append(np.array([[a, b], [(split - ((a - d) / 2) ** 2) / b, d]]))
    found += list(rng.integers(-40, 41, (100, 2, 2)) * 0.05)
    return [(X, float(u)) for X, u in zip(found, rng.uniform(0, 20, len(found)), strict=True)
            if np.abs(X).max() < 30]


def test_transport_against_mpmath():
    cases, worst = generators(), 0.0
    assert len(cases) > 450
    with mpmath.workdps(60):
        for X, u in cases:
            (a, b), (c, d) = [[mpmath.mpf(float(v)) for v in row] for row in X]
            m, h, t = (a + d) / 2, (a - d) / 2, mpmath.mpf(u)
            # exp(tX) = e^(mt) (cosh(wt) I + sinh(wt)/w Y) with a complex square root, at 60 digits
            w = mpmath.sqrt(mpmath.mpc(h * h + b * c))
            C, S = mpmath.cosh(w * t), mpmath.sinh(w * t) / w if w else t
            exact = np.array([[complex(mpmath.exp(m * t) * v) for v in row]
                              for row in ((C + S * h, S * b), (S * c, C - S * h))]).real
            worst = max(worst, np.abs(data.transport_2x2(X, u) - exact).max() / np.abs(exact).max())
    assert worst < 1e-13


def test_transport_keeps_the_small_entry():
    assert data.transport_2x2([[2, 0], [0, -2]], 20)[1, 1] == pytest.approx(math.exp(-40), rel=1e-14)
    assert data.transport_2x2([[-2, 0], [0, 2]], 20)[0, 0] == pytest.approx(math.exp(-40), rel=1e-14)


@pytest.mark.parametrize("step", [1, 0.05])
def test_classes_agree_with_classify(step):
    rng = np.random.default_rng(3)
    entries = [-2, -1, 0, 1, 2]
    matrices = [np.reshape(m, (2, 2)) for m in itertools.product(entries, repeat=4)]
    picked = [matrices[i] for i in rng.choice(len(matrices), 150, replace=False)]
    seen = set()
    for X in [np.array(X, float) for X, _, _ in PRINTED.values()] + [np.round(m * step, 2) for m in picked]:
        answer, mine = pe.classify(X), data.behaviour(X)
        seen.add(mine)
        if answer.row == "beyond":
            assert mine == "fading slide" and set(answer.kinds) == {"fading slide"}
        else:
            assert mine == answer.row, X.tolist()
        assert (mine in ("explode", "mixed")) == answer.forbidden
    assert seen == set(data.KINDS)


def test_the_class_is_decided_in_decimals():
    for X, kind, value in (([[0.3, 0.1], [-0.9, -0.3]], "slide", 0),
                           ([[0.2, 0.1], [-0.9, -0.4]], "fading slide", -0.1)):
        (a, b), (c, d) = X
        assert ((a - d) / 2) ** 2 + b * c != 0, "in floating point the eigenvalues come apart"
        shown = data.generator(X, 1)
        assert shown.kind == kind and shown.eigenvalues == (value, value) and len(shown.directions) == 1
    assert data.behaviour([[0.1, 0.2], [0.2, 0.4]]) == "explode"     # det is 0, not 7e-18
    assert data.eigenvalues([[0.1, 0.2], [0.2, 0.4]]) == (0.5, 0)


def test_eigenvalues_against_numpy():
    shown = data.generator([[0, 1], [-2, 2.5]])
    assert shown.numbers()["eigenvalues"][1] == "1.2500 ± 0.6614 i"
    for X, _ in generators(5)[:200]:
        mine = np.array(data.eigenvalues(X))
        np.testing.assert_allclose(np.sort_complex(mine), np.sort_complex(np.linalg.eigvals(X)), atol=1e-12)
        for direction in data.directions(X) or []:
            image = X @ direction
            assert min(np.abs(image - value.real * np.array(direction)).max() for value in mine) < 1e-12
            assert math.hypot(*direction) == pytest.approx(1)


@pytest.mark.parametrize("value, text", [
    (0, "0.0000"), (-0.0, "0.0000"), (1, "1.0000"), (-0.5, "−0.5000"), (0.01, "0.0100"),
    (0.03125, "0.0313"),
    (0.0099996, "0.01000"), (0.00031622776, "0.0003162"), (1e-6, "0.000001000"), (-9.87654e-9, "−9.877e−9"),
    (99999.99, "99999.9900"), (123456, "1.235e5"), (2.3538526683702e17, "2.354e17"),
    (9.9999e-7, "0.000001000"),
])
def test_decimals(value, text):
    assert data.decimals(value) == text


def test_decimals_lose_less_than_half_a_unit():
    for value in np.random.default_rng(0).choice([-1, 1], 300) * 10.0 ** np.linspace(-30, 30, 300):
        text = data.decimals(value).replace(data.MINUS, "-")
        unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3) if not 0.01 <= abs(value) < 1e5 else 1e-4
        assert abs(float(text) - value) <= unit * 0.50001


def test_the_point_solves_the_equation():
    for X, u, _ in PRINTED.values():
        ahead, behind = (data.generator(X, u + h).point for h in (1e-5, -1e-5))
        here = data.generator(X, u)
        np.testing.assert_allclose((ahead - behind) / 2e-5, np.array(X) @ here.point, rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(here.trail[0], data.START)
        np.testing.assert_allclose(here.trail[-1], here.point)
        np.testing.assert_allclose(here.square[2], here.point)
        np.testing.assert_allclose(here.square[1], here.A[:, 0])
        assert here.det_A == pytest.approx(np.linalg.det(here.A), rel=1e-9, abs=1e-12)


MORE = [[[-1, 0.5], [0, 0]], [[1, 0], [0, 0]], [[-1, 0.8], [0.3, -0.5]], [[-0.1, 2], [0, -0.3]],
        [[1, 1], [0, 1]], [[0, 1], [-0.05, 0]], [[-0.05, 1], [-1, -0.05]], [[-0.01, 1], [-1, 0]],
        [[2, 2], [2, 2]], [[1, 2], [3, -1]]]


@pytest.mark.parametrize("X", [X for X, _, _ in PRINTED.values()] + MORE, ids=str)
def test_trajectories_follow_the_flow(X):
    X = np.array(X, float)
    curves = trajectories.flow(X)
    assert bool(curves) == X.any()
    for curve in curves:
        steps, middles = np.diff(curve, axis=0), (curve[1:] + curve[:-1]) / 2
        speeds = middles @ X.T
        moving = (np.linalg.norm(steps, axis=1) > 1e-9) & (np.linalg.norm(speeds, axis=1) > 1e-9)
        cosines = (steps * speeds).sum(1) / np.linalg.norm(steps, axis=1).clip(1e-12) / np.linalg.norm(
            speeds, axis=1).clip(1e-12)
        assert moving.any() and cosines[moving].min() > 0.99, "a curve leaves the flow or runs against time"
    marks = trajectories.heads(curves)
    assert np.abs(marks[:, :2]).max(initial=0) <= trajectories.FRAME
    assert len(marks) >= 8 or not curves
    for x, y, angle in marks:
        v = X @ (x, y)
        assert v @ (math.cos(angle), math.sin(angle)) > 0.95 * np.linalg.norm(v) - 1e-9
    np.testing.assert_allclose(trajectories.still(X) @ X.T, 0, atol=1e-12)


def test_a_turn_closes_its_loops():
    for X in ([[0, -1], [1, 0]], [[0.5, -1.25], [1, -0.5]]):
        for curve in trajectories.flow(X):
            np.testing.assert_allclose(curve[0], curve[-1], atol=1e-12)


@pytest.mark.parametrize("X, u, message", [
    ([[1, 2, 3]], 1, r"X must have shape \(2, 2\), got \(1, 3\)"),
    ([[math.nan, 0], [0, 0]], 1, "X must be finite"),
    ([[1, 0], [0, 1]], math.inf, "u must be finite and at most 2\\^53 in size; got inf"),
    ([[1, 0], [0, 1]], 800, "leaves float64 at u = 800"),
])
def test_bad_input(X, u, message):
    with pytest.raises(ValueError, match=message):
        data.generator(X, u)


@pytest.mark.parametrize("X, u, message", [
    ("x", 1, r"X is 'x'; expected a matrix \(2, 2\) of numbers"),
    ([["a", 1], [2, 3]], 1, r"X is \[\['a', 1\], \[2, 3\]\]; expected a matrix"),
    ([[0, 1j], [0, 0]], 1, "X is "), ([[1, 0], [0]], 1, "X is "),
    ([[1, 0], [0, 1]], "x", "u must be a number; got 'x'"),
])
def test_what_is_no_number_is_named(X, u, message):
    with pytest.raises(TypeError, match=message):
        data.generator(X, u)
