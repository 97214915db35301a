"""pe.transport: exp(tX) in closed form, against mpmath, SciPy's expm and exact numbers."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm

import pe
from pe import generators, transport
from pe.generators import conjugate, direct_sum

EPS = np.finfo(float).eps


def exact(X, t):
    """exp(tX) with 60 digits."""
    with mpmath.workdps(60):
        A = mpmath.expm(mpmath.matrix(np.asarray(X, dtype=float).tolist()) * mpmath.mpf(float(t)))
        return np.array([[float(A[i, j]) for j in range(A.cols)] for i in range(A.rows)])


def spiral(gamma, theta):
    return np.array([[-gamma, -theta], [theta, -gamma]])


FAMILY = {
    "nothing": np.zeros((2, 2)),
    "fade": [[-0.1]],
    "explode": [[0.1]],
    "turn": spiral(0, 2),
    "turn+fade": spiral(0.1, 2),
    "slide": [[0, 1], [0, 0]],
    "slide of degree 2": np.eye(3, k=1),
    "fading slide": np.eye(4, k=1) - 0.3 * np.eye(4),
    "rotating slide": generators.jordan_rope(0.7),
    "damped rotating slide": generators.jordan_rope(0.7, 0.05, size=3),
    "near-defective fades": [[-1, 1], [0, -1 - 1e-9]],
    "three close fades": [[-1, 1, 0], [0, -1.1, 1], [0, 0, -0.9]],
    "nearly turning": [[0, 1], [-1e-14, 0]],
    "mixture": block_diag([[0]], [[-0.1]], spiral(0, 1), spiral(0.2, 0.3), np.eye(2, k=1)),
    "a hump": [[-0.1, 10], [0, -0.2]],
    "random": np.random.default_rng(3).standard_normal((6, 6)) / 2,
    "conjugated": conjugate(
        block_diag(spiral(0, 1), spiral(0.1, 0.4), np.eye(2, k=1)),
        np.random.default_rng(4).standard_normal((6, 6)),
    ),
}


@pytest.mark.parametrize("X", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("t", [0, 1, -2.5, 20])
def test_against_sixty_digits(X, t):
    expected = exact(X, t)
    np.testing.assert_allclose(transport(X, t), expected, rtol=0, atol=3e-12 * np.abs(expected).max())


@pytest.mark.parametrize("X", FAMILY.values(), ids=FAMILY)
def test_A19_zero_does_nothing_and_back_undoes_forth(X):
    n = len(X)
    np.testing.assert_allclose(transport(X, 0), np.eye(n), atol=1e-13)
    two, three, five, back = transport(X, [2, 3, 5, -3])
    scale = np.linalg.norm(two) * np.linalg.norm(three) * np.linalg.norm(back)
    np.testing.assert_allclose(two @ three, five, atol=1e-12 * scale)
    np.testing.assert_allclose(three @ back, np.eye(n), atol=1e-12 * scale)


def test_A10_the_circle():
    t = np.array([0.0, 0.3, 2, 3, 5, -7])
    A = transport(generators.turn(), t)
    np.testing.assert_allclose(A[:, 0, 0], np.cos(t), atol=1e-16)
    np.testing.assert_allclose(A[:, 1, 0], np.sin(t), atol=1e-16)
    assert np.abs(A[2] @ A[3] - A[4]).max() < 1e-15
    np.testing.assert_allclose(np.linalg.norm(A @ [3, 4], axis=-1), 5, rtol=1e-15)


def test_A11_the_fade():
    A = transport(generators.fade(0.1), [2, 3, 5]).ravel()
    assert A[0] * A[1] == pytest.approx(np.exp(-0.5), rel=1e-15) and A[2] == pytest.approx(
        np.exp(-0.5), rel=1e-15
    )


@pytest.mark.parametrize("t", [2.0, -3.0, 1e-9, 123456.75, 2.0**53])
def test_A12_the_slide_is_exact_at_any_distance(t):
    assert np.array_equal(transport(generators.slide(), t), [[1, t], [0, 1]])
    assert np.array_equal(transport(generators.slide(), t) @ [3, 2], [3 + 2 * t, 2])
    cubic = transport(np.eye(4, k=1), t)
    np.testing.assert_allclose(cubic[0], [1, t, t**2 / 2, t**3 / 6], rtol=1e-15)


def test_A13_the_generator_is_the_derivative_at_zero():
    for X in FAMILY.values():
        h = 1e-5
        slope = (transport(X, h) - transport(X, -h)) / (2 * h)
        np.testing.assert_allclose(slope, X, atol=1e-7 * max(1, np.abs(X).max()))


def test_A14_partial_sums_of_the_series_converge():
    X, t = generators.turn(), 2.0
    term, total, errors = np.eye(2), np.eye(2), []
    for k in range(1, 25):
        term = term @ X * t / k
        total = total + term
        errors.append(np.abs(total - transport(X, t)).max())
    assert errors[2] > 0.1 and errors[-1] < 1e-15
    slide = generators.slide()
    assert not (slide @ slide).any() and np.array_equal(np.eye(2) + 7 * slide, transport(slide, 7))


def test_A22_the_fade_table():
    A = transport([[-0.1]], [0, 5, 10, 25, 50, 100]).ravel()
    np.testing.assert_allclose(A, [1, 0.606531, 0.367879, 0.0820850, 0.00673795, 4.53999e-05], rtol=2e-6)


def test_A27_a_complex_pair_turns_and_fades():
    A = transport(spiral(0.2, 0.5), 3)
    rotation = np.array([[np.cos(1.5), -np.sin(1.5)], [np.sin(1.5), np.cos(1.5)]])
    np.testing.assert_allclose(A, np.exp(-0.6) * rotation, rtol=1e-15)


def test_A30_one_hand_wraps_and_a_bank_of_clocks_does_not():
    hands = generators.turn([2 * np.pi / 60, 2 * np.pi / 43200])  # a second hand and an hour hand
    ten, eleven, later = transport(hands, [36005, 39605, 36055])
    np.testing.assert_allclose(ten[:2, :2], eleven[:2, :2], atol=1e-11)
    np.testing.assert_allclose(ten[2:, 2:], later[2:, 2:], atol=0.01)
    assert np.abs(ten - eleven).max() > 0.3 and np.abs(ten - later).max() > 0.3
    theta = 0.3
    np.testing.assert_allclose(transport(generators.turn(theta), 2 * np.pi / theta), np.eye(2), atol=1e-15)


def test_A45_a_turn_keeps_all_lengths_for_a_million_positions():
    A = transport(generators.rope(64), 1e6)
    assert np.abs(A.T @ A - np.eye(64)).max() < 1e-15


def test_B11_rope_is_the_exponential_of_its_block():
    for n in (0, 1, 7):
        np.testing.assert_allclose(
            transport(np.array([[0, -1], [1, 0]]) * 0.4, n),
            [[np.cos(0.4 * n), -np.sin(0.4 * n)], [np.sin(0.4 * n), np.cos(0.4 * n)]],
            atol=1e-16,
        )


def test_B19_determinant_and_trace():
    assert np.linalg.det(transport([[1, 2], [3, 4]], 1)) == pytest.approx(148.4131591025766, rel=1e-13)


def test_B20_scipy_agrees_where_it_is_accurate():
    X = np.random.default_rng(20).standard_normal((8, 8))
    np.testing.assert_allclose(transport(X, 0.5), expm(0.5 * X), rtol=1e-12, atol=1e-13)


def test_C89_exponentials_of_defective_matrices():
    np.testing.assert_allclose(
        transport([[-2, 1], [-1, 0]], 2), np.exp(-2) * np.array([[-1, 2], [-2, 3]]), rtol=1e-15
    )
    np.testing.assert_allclose(
        transport([[3, 1], [-1, 5]], 1), np.exp(4) * np.array([[0, 1], [-1, 2]]), atol=2e-14
    )


def test_C94_finite_results_are_not_nan():
    A = transport([[-247.044225955, 0], [6283.1853, -6283.1853]], 1)
    np.testing.assert_allclose(A, [[5.12927379e-108, 0], [5.33920220e-108, 0]], rtol=1e-8)
    tree = np.zeros((7, 7))
    tree[:3, :3] = np.eye(3)
    for parent, children in enumerate([(1, 2), (3, 4), (5, 6)]):
        tree[parent, children] = -0.5
    A = transport(tree, -2000)
    np.testing.assert_allclose(A[0], [0, 0, 0, 0.25, 0.25, 0.25, 0.25], atol=1e-13)
    np.testing.assert_allclose(A[1], [0, 0, 0, 0.5, 0.5, 0, 0], atol=1e-13)


def test_C96_group_law_far_out():
    damped = spiral(0.1, 2)
    np.testing.assert_allclose(transport(damped, 3)[0], [0.711312, 0.206996], atol=5e-7)
    np.testing.assert_allclose(
        transport(generators.turn(), 1e6)[:, 0], [0.936752128, -0.349993502], atol=1e-9
    )
    for u, v in np.random.default_rng(96).uniform(-5, 5, (50, 2)):
        A, B, AB, back = transport(damped, [u, v, u + v, -u])
        np.testing.assert_allclose(A @ B, AB, rtol=0, atol=1e-10 * np.abs(AB).max())
        np.testing.assert_allclose(back @ A, np.eye(2), atol=1e-13)


@settings(max_examples=50, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_C96_group_law_of_a_turn(u, v):
    theta = 0.37
    A, B, AB = transport(generators.turn(theta), [u, v, u + v])
    bound = 1e-12 + 4 * EPS * theta * (abs(u) + abs(v))
    assert np.abs(A @ B - AB).max() <= bound


def test_C97_a_negative_gap_of_a_fade_and_overflow():
    assert transport([[-0.1]], -50)[0, 0] == pytest.approx(148.413159, rel=1e-8)
    assert transport([[0.1]], 1e5)[0, 0] == np.inf
    mixed = transport([[0.1, 1, 0], [0, -1, 1], [0, 0, -3]], 1e5)
    assert not np.isnan(mixed).any() and mixed[0, 0] == np.inf
    assert (
        np.isinf(transport([[0.1, 1], [0, 0.2]], 1e5)[1, 1])
        and transport([[0.1, 1], [0, 0.2]], 1e5)[1, 0] == 0
    )


def test_conjugated_rope_at_a_far_position():
    rng = np.random.default_rng(5)
    P = rng.standard_normal((16, 16))
    R = generators.rope(16)
    expected = P @ transport(R, 1e4) @ np.linalg.inv(P)
    np.testing.assert_allclose(transport(conjugate(R, P), 1e4), expected, atol=1e-8)


def test_many_times_at_once_equal_one_at_a_time():
    t = np.array([[0, 1, -2], [1e3, 0.25, 7]])
    for X in FAMILY.values():
        if np.linalg.eigvals(X).real.max() > 0.05:
            continue
        together = transport(X, t)
        assert together.shape == (2, 3, len(X), len(X))
        for index in np.ndindex(t.shape):
            one = transport(X, t[index])
            np.testing.assert_allclose(together[index], one, rtol=1e-13, atol=1e-15 * np.abs(one).max())


def test_nearly_dependent_eigenvectors_fall_back_and_say_so():
    # Two fades 1e-3 apart, coupled by 1e5: the eigenvectors have condition 1e8.
    X = [[-1, 1e5, 0], [0, -1 - 1e-3, 1e5], [0, 0, -2]]
    with pytest.warns(RuntimeWarning, match="nearly dependent"):
        A = transport(X, [0.5, 1.0])
    for got, t in zip(A, (0.5, 1.0), strict=True):
        expected = exact(X, t)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("X", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("leading", [(), (3,), (2, 1), (4, 2, 3)])
def test_vectors_are_carried_as_by_the_matrices(X, leading):
    t = np.array([[0, 1, -2], [3.5, 0.25, 7]])
    v = np.random.default_rng(6).standard_normal((*leading, len(X)))
    carried, expected = transport(X, t, v=v), (transport(X, t) @ v[..., None])[..., 0]
    assert carried.shape == np.broadcast_shapes(t.shape, leading) + (len(X),)
    np.testing.assert_allclose(carried, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_coordinates_may_be_interleaved():
    X = direct_sum(*(FAMILY[name] for name in ("fade", "turn", "slide", "random", "mixture", "fading slide")))
    order = np.random.default_rng(8).permutation(len(X))
    t, v = np.array([0.5, -3.0, 11.0]), np.random.default_rng(9).standard_normal(len(X))
    mixed, grid = X[np.ix_(order, order)], (slice(None), order[:, None], order)
    expected = transport(X, t)[grid]
    np.testing.assert_allclose(transport(mixed, t), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(transport(mixed, t, v=v), expected @ v, rtol=1e-12, atol=1e-10)
    scores = generators.encoding(mixed).score(v, v, t, 0.0)
    np.testing.assert_allclose(scores, v @ expected @ v, rtol=1e-12)


def test_the_group_law_holds_in_any_basis():
    rng = np.random.default_rng(10)
    for n in (4, 8, 32):
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        X = conjugate(generators.rope(n), Q @ np.diag(np.geomspace(1, 3, n)))
        for u, v in rng.uniform(-1e3, 1e3, (20, 2)):
            A, B, AB = transport(X, [u, v, u + v])
            bound = 9 * (1e-12 + 4 * EPS * (abs(u) + abs(v)) * n)  # the condition of the basis is 3
            assert np.abs(A @ B - AB).max() <= bound


def test_a_million_times_in_one_call():
    t = np.arange(1_000_000)
    A = transport(generators.turn(0.5), t)
    assert np.array_equal(A[:, 0, 0], np.cos(0.5 * t)) and np.array_equal(A[:, 1, 0], np.sin(0.5 * t))
    # Level 3 of RoPE, in another basis: eight numbers for each position instead of 64.
    Q = np.linalg.qr(np.random.default_rng(7).standard_normal((8, 8)))[0]
    hands = transport(conjugate(generators.rope(8), Q), t, v=Q @ np.tile([1.0, 0.0], 4)) @ Q
    angles = np.multiply.outer(t, 10.0 ** -np.arange(4))
    np.testing.assert_allclose(hands[:, 0::2], np.cos(angles), rtol=0, atol=2e-9)  # 1e6 roundings of Q X Q^T
    np.testing.assert_allclose(hands[:, 1::2], -np.sin(angles), rtol=0, atol=2e-9)


@pytest.mark.parametrize("X", [
    np.diag([1.0, 1, 0], 1) + np.diag([0, 0, 0, -0.1]), np.diag([1.0, 1, 1], 1) + np.diag([0, 0, 0, -0.1]),
    np.eye(3, k=1) - 0.1 * np.eye(3), np.eye(5, k=1), generators.jordan_rope(0.7, 0.05, size=3),
    generators.jordan_rope(0.7, size=4),
])  # fmt: skip
@pytest.mark.parametrize("t", [1e155, -1e155, 1e200, -1e306])
def test_nothing_is_nan_however_far(X, t):
    A = transport(X, t)
    assert not np.isnan(A).any()
    if np.max(np.linalg.eigvals(X).real * np.sign(t)) < -0.01:  # every power of t has lost to the fade
        assert not A.any()


def test_direct_sums_do_not_mix():
    A = transport(direct_sum([[710.0]], generators.slide(), [[-5.0]]), 1000.0)
    assert A[0, 0] == np.inf and np.array_equal(A[1:3, 1:3], [[1, 1000], [0, 1]]) and A[3, 3] == 0
    assert not A[0, 1:].any() and not A[1:, 0].any()


def test_shapes_and_bad_input():
    assert transport(np.zeros((0, 0)), [1, 2]).shape == (2, 0, 0)
    assert transport(generators.slide(), np.zeros((0, 3))).shape == (0, 3, 2, 2)
    assert transport(np.array([[0, 1], [0, 0]], dtype=np.int32), np.int64(3)).dtype == np.float64
    with pytest.raises(ValueError, match="t has NaN"):
        transport([[1]], [0, np.inf])
    with pytest.raises(TypeError, match="t has dtype complex128"):
        transport([[1]], 1j)
    with pytest.raises(ValueError, match=r"shape \(2, 2, 2\)"):
        transport(np.zeros((2, 2, 2)), 1)
    with pytest.raises(ValueError, match=r"v has shape \(3,\); expected \(\.\.\., 2\)"):
        transport(generators.slide(), 1, v=[1, 2, 3])
    with pytest.raises(ValueError, match="broadcast against t"):
        transport(generators.slide(), [1, 2], v=np.ones((3, 2)))
    with pytest.raises(TypeError, match="v has dtype"):
        transport(generators.slide(), 1, v=["a", "b"])
    X = generators.slide()
    transport(X, 3)
    assert np.array_equal(X, generators.slide()) and pe.transport is transport
