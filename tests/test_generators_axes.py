"""Several axes: relativity, commuting, and the solves and numbers of source document 2."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import expm

import pe
from pe.generators import (
    axial,
    commutant,
    commute,
    complex_matrix,
    is_injective,
    quaternion_matrix,
    relativity_residual,
    slide,
    transport,
    turn,
)

ONE, QI, QJ, QK = quaternion_matrix(np.eye(4, dtype=int))


def skew(*below):
    """Skew matrix of source document 2: a; b, c; d, e, f below the diagonal."""
    n = {1: 2, 3: 3, 6: 4}[len(below)]
    B = np.full((n, n), Fraction(0))
    for (row, column), value in zip(((i, j) for i in range(n) for j in range(i)), below, strict=True):
        B[row, column], B[column, row] = Fraction(value), -Fraction(value)
    return B


def unit(n, index):
    return skew(*np.eye(n * (n - 1) // 2, dtype=int)[index].tolist())


def random_skew(n, rng):
    B = rng.standard_normal((n, n))
    return B - B.T


# Flattening, x + y, and the block form


def test_claim_B1_flattening_puts_neighbours_h_and_1_apart():
    h = 14
    number = np.arange(h * h).reshape(h, h)
    assert (np.diff(number, axis=0) == h).all() and (np.diff(number, axis=1) == 1).all()
    # The counterexample: ends of two rows are flattened neighbours and as far apart as a row is long.
    assert number[4, 0] - number[3, h - 1] == 1
    R = [transport(turn(0.1), float(n)) for n in (number[3, 5], number[3, 6], number[4, 5])]
    assert np.linalg.norm(R[0] - R[1]) < np.linalg.norm(R[0] - R[2])


def test_claim_B2_block_form_is_the_matrix_of_the_source_and_of_apply_rope_2d():
    x, y, theta = 3.0, -2.5, 0.7
    a, b = axial(2, theta)
    c, s = np.cos([x * theta, y * theta]), np.sin([x * theta, y * theta])
    expected = [[c[0], -s[0], 0, 0], [s[0], c[0], 0, 0], [0, 0, c[1], -s[1]], [0, 0, s[1], c[1]]]
    R = transport(x * a + y * b, 1)
    assert np.abs(R - expected).max() < 1e-15
    v = np.random.default_rng(0).standard_normal((1, 4))
    assert np.abs(pe.apply_rope_2d(v, [x], [y], freqs=[theta])[0] - R @ v[0]).max() < 1e-15


@pytest.mark.parametrize("n_axes", [1, 2, 3, 4])
@pytest.mark.parametrize("theta", [0.7, [1.0, 0.1, 0.01]])
def test_claims_B3_B18_block_forms_are_relative(n_axes, theta):
    Bs = axial(n_axes, theta)
    assert Bs.shape == (n_axes, 2 * n_axes * np.size(theta), 2 * n_axes * np.size(theta))
    assert commute(Bs) == 0.0 and is_injective(Bs)
    assert relativity_residual(Bs) < 2e-15 and relativity_residual(Bs, form="inverse") < 2e-15


def test_claim_B5_x_plus_y_is_relative_but_lossy():
    both = [turn(1.0), turn(1.0)]
    assert relativity_residual(both) < 1e-15 and not is_injective(both)
    assert np.array_equal(transport(1 * both[0] + 2 * both[1], 1), transport(2 * both[0] + 1 * both[1], 1))


def test_claim_B14_commuting_with_the_transpose_is_commuting():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, B = random_skew(4, rng), random_skew(4, rng)
        assert np.isclose(commute([A, B]), commute([A, B.T])) and commute([A, B]) > 0.01


# Complex numbers and quaternions


def test_claim_B6_complex_numbers_are_matrices():
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((2, 5)) + 1j * rng.standard_normal((2, 5))
    assert np.allclose(complex_matrix(z) @ complex_matrix(w), complex_matrix(z * w), rtol=0, atol=1e-15)
    assert np.array_equal(complex_matrix(z) + complex_matrix(w), complex_matrix(z + w))
    assert np.array_equal(complex_matrix(3 + 2j), [[3, -2], [2, 3]])


def test_claim_B7_the_table_of_quaternions():
    for unit_ in (QI, QJ, QK):
        assert np.array_equal(unit_ @ unit_, -ONE)
    for a, b, c in ((QI, QJ, QK), (QJ, QK, QI), (QK, QI, QJ)):
        assert np.array_equal(a @ b, c) and np.array_equal(b @ a, -c)
    assert quaternion_matrix([1, 2, 3, 4]).tolist() == [
        [1, -2, -3, -4], [2, 1, -4, 3], [3, 4, 1, -2], [4, -3, 2, 1]]  # fmt: skip
    p, q = np.random.default_rng(0).standard_normal((2, 4))
    product = quaternion_matrix(quaternion_matrix(p) @ q)
    assert np.allclose(quaternion_matrix(p) @ quaternion_matrix(q), product)


def test_claim_B8_the_euler_formula_of_quaternions():
    a, b, c, d = 0.3, 1.1, -0.4, 0.7
    r = np.sqrt(b * b + c * c + d * d)
    vector = np.array([b, c, d]) / r * np.sin(r)
    expected = np.exp(a) * quaternion_matrix([np.cos(r), *vector])
    assert np.allclose(expm(quaternion_matrix([a, b, c, d])), expected, rtol=0, atol=3e-15)


def test_loose_claim_d_the_inner_product_carries_over():
    q, k = np.random.default_rng(1).standard_normal((2, 4))
    conjugate = k * [1, -1, -1, -1]
    assert np.isclose((quaternion_matrix(q) @ conjugate)[0], q @ k)


def test_claim_B9_the_quaternion_route_misses_by_the_numbers_of_the_source():
    assert relativity_residual([QI, QJ], at=[(0.3, 0.7), (1.1, -0.4)]) == pytest.approx(1.438, abs=5e-4)
    assert relativity_residual([QI, QJ], at=[(1, 2), (3, 5)]) == pytest.approx(0.1618, abs=5e-5)
    assert commute([QI, QJ]) == 1.0 and relativity_residual([QI]) < 1e-15


def test_residual_agrees_with_expm():
    rng = np.random.default_rng(3)
    Bs, (p, q) = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 2))

    def R(x):
        return expm(x[0] * Bs[0] + x[1] * Bs[1])

    for form, back in (("transpose", R(p).T), ("inverse", np.linalg.inv(R(p)))):
        expected = np.linalg.norm(back @ R(q) - R(q - p))
        assert relativity_residual(Bs, form=form, at=[p, q]) == pytest.approx(expected, rel=1e-11)
    worst = relativity_residual(Bs, at=[[p, q], [p, p]])
    assert worst == max(relativity_residual(Bs, at=[p, q]), relativity_residual(Bs, at=[p, p]))


def test_the_two_forms_differ_on_a_slide():
    assert relativity_residual([slide()], form="inverse") < 1e-15
    assert relativity_residual([slide()], at=[(1.0,), (2.0,)]) > 1


def test_claim_B10_commuting_turns_products_into_sums():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, B = random_skew(4, rng) / 4, random_skew(4, rng) / 4
        assert np.linalg.norm(expm(A) @ expm(B) - expm(A + B)) > 1e-4 * commute([A, B])
    A, B = (Q := np.linalg.qr(rng.standard_normal((4, 4)))[0]) @ axial(2) @ Q.T
    assert np.allclose(expm(A) @ expm(B), expm(A + B), atol=1e-14)


def test_claim_B19_det_exp_is_exp_trace():
    A = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.linalg.det(transport(A, 1.0)) == pytest.approx(148.4131591025766, rel=1e-12)


def test_random_skew_pairs_are_only_nearly_relative():
    rng = np.random.default_rng(0)
    residuals = [relativity_residual([random_skew(8, rng), random_skew(8, rng)]) for _ in range(5)]
    assert min(residuals) > 0.05


# The solves, in exact fractions


def test_claim_B15_three_dimensions_leave_no_second_axis():
    solutions = commutant(unit(3, 0), within=[unit(3, 1), unit(3, 2)], method="exact")
    assert solutions.shape == (0, 3, 3)
    assert len(commutant(unit(3, 0))) == 1  # its own multiples


GRID = [Fraction(-2), Fraction(0), Fraction(1, 3), Fraction(3)]


@pytest.mark.parametrize(("a", "b", "c"), list(itertools.product([Fraction(1), Fraction(5, 2)], GRID, GRID)))
def test_claim_B16_four_dimensions_leave_one_second_axis(a, b, c):
    """The commutator is linear in (d, e, f) and in (a, b, c): equality on a grid is equality everywhere."""
    first = skew(a, b, c, 0, 0, 0)
    (second,) = commutant(first, within=[unit(4, k) for k in (3, 4, 5)], method="exact")
    assert np.array_equal(second, skew(0, 0, 0, c / a, -b / a, 1))
    assert not np.any(first @ second - second @ first) and not np.any(first @ second)


def test_claim_B17_the_simplest_solution_is_the_block_form():
    (second,) = commutant(unit(4, 0), within=[unit(4, k) for k in (3, 4, 5)], method="exact")
    assert np.array_equal(second.astype(float), axial(2)[1])


@pytest.mark.parametrize("method", ["auto", "exact"])
@pytest.mark.parametrize(("B", "dimension"), [
    (turn(1.0), 1), (unit(3, 0), 1), (axial(2)[0], 2), (turn([1.0, 2.0]), 2), (turn([1.0, 1.0]), 4),
    (np.zeros((3, 3)), 3), (turn([1.0, 2.0, 3.0]), 3)])  # fmt: skip
def test_commutant_is_a_basis(B, dimension, method):
    basis = commutant(B, method=method)
    assert basis.shape == (dimension, *np.shape(B))
    B, basis = np.array(B, dtype=float), basis.astype(float)
    assert np.linalg.matrix_rank(basis.reshape(dimension, -1)) == dimension
    for S in basis:
        assert np.abs(S + S.T).max() < 1e-15 and np.abs(B @ S - S @ B).max() < 1e-14
    if method == "auto":
        assert np.allclose(np.tensordot(basis, basis, axes=([1, 2], [1, 2])), np.eye(dimension), atol=1e-14)


def test_commutant_finds_the_copy_in_another_basis():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    assert len(commutant(Q @ turn([1.0, 2.0, 0.5]) @ Q.T)) == 3


# Bad input


@pytest.mark.parametrize(("call", "error", "named"), [
    (lambda: commute([[1.0, 2.0]]), ValueError, "Bs"),
    (lambda: commute(turn(1.0)), ValueError, r"\(n_axes, n, n\): for one axis \[B\]"),
    (lambda: relativity_residual([turn(1.0)], form="adjoint"), ValueError, "'adjoint'"),
    (lambda: relativity_residual([turn(1.0)], at=[(1, 2), (3, 4)]), ValueError, "at has shape"),
    (lambda: relativity_residual([turn(1.0)], at=[(1,), (np.nan,)]), ValueError, "NaN"),
    (lambda: quaternion_matrix([1, 2, 3]), ValueError, r"\(\.\.\., 4\)"),
    (lambda: quaternion_matrix("ijk"), TypeError, "real numbers"),
    (lambda: complex_matrix("i"), TypeError, "complex numbers"),
    (lambda: axial(0), ValueError, "at least 1"),
    (lambda: axial(2.0), TypeError, "integer"),
    (lambda: axial(2, np.inf), ValueError, "theta"),
    (lambda: commutant(np.zeros((2, 3))), ValueError, r"\(2, 3\)"),
    (lambda: commutant(turn(1.0), within=[np.zeros((3, 3))]), ValueError, "within"),
    (lambda: commutant(turn(1.0), method="fast"), ValueError, "'fast'"),
])  # fmt: skip
def test_bad_input_is_named(call, error, named):
    with pytest.raises(error, match=named):
        call()


def test_inputs_are_never_modified():
    Bs = axial(2)
    before = Bs.copy()
    relativity_residual(Bs), commute(Bs), commutant(Bs[0]), is_injective(Bs)
    assert np.array_equal(Bs, before)
