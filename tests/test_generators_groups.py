"""pe.check_group_axioms, pe.homomorphism_defect and pe.group_law_residual, tried on source document 1."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.linalg import expm

import pe
from pe import check_group_axioms, generators, group_law_residual, homomorphism_defect


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def add(a, b):
    return a + b


def multiply(a, b):
    return a @ b


DOUBLE, QUARTER, SAME, SQUASH = 2 * np.eye(2), np.array([[0.0, -1], [1, 0]]), np.eye(2), np.diag([1.0, 0])


def test_A2_the_clock_is_a_group_by_all_144_products_and_1728_triples():
    def op(a, b):
        return (a + b) % 12

    report = check_group_axioms(range(12), op)
    assert report.is_group and report.commutative and report.exhaustive and not report.witness
    assert (op(5, 4), op(7, 8), op(5, 7)) == (9, 3, 0)
    assert "a group: 12 elements (all), 144 products, 1728 triples" in str(report)
    assert str(report).count("  yes") == 5


def test_A3_more_groups():
    integers = check_group_axioms(range(-5, 6), add, contains=lambda x: isinstance(x, int))
    assert integers.is_group and not integers.exhaustive
    square = check_group_axioms([rotation(k * np.pi / 2) for k in range(4)], multiply)
    assert square.is_group and square.commutative
    slides = check_group_axioms([0.0, 2.5, 1.5, 3.0, -3.0], add, contains=np.isfinite, inverse=lambda x: -x)
    assert slides.is_group
    shuffles = list(itertools.permutations(range(3)))
    deck = check_group_axioms(shuffles, lambda a, b: tuple(a[i] for i in b))
    assert deck.is_group and not deck.commutative


def test_A4_two_things_that_are_no_groups():
    positive = check_group_axioms(range(1, 6), add, contains=lambda x: x > 0)
    assert not positive.is_group and set(positive.witness) == {"identity", "inverses"}
    assert positive.closure and positive.associativity
    matrices = check_group_axioms(
        [SAME, DOUBLE, QUARTER, SQUASH], multiply, contains=lambda X: X.shape == (2, 2), inverse=np.linalg.inv
    )
    assert set(matrices.witness) == {"inverses"}
    assert np.array_equal(matrices.witness["inverses"][0], SQUASH)
    assert "NO   inverses fails for" in str(matrices)


def test_each_axiom_can_fail_and_its_witness_shows_it():
    open_set = check_group_axioms([0, 1], add)
    assert open_set.witness["closure"] == (1, 1)
    minus = check_group_axioms(range(3), lambda a, b: (a - b) % 3)
    a, b, c = minus.witness["associativity"]
    assert ((a - b) - c) % 3 != (a - (b - c)) % 3
    assert not minus.identity
    given = check_group_axioms([0, 1, 2], lambda a, b: (a + b) % 3, identity=1)
    assert given.witness["identity"] == (1,)


def test_A5_a_matrix_is_a_verb():
    np.testing.assert_allclose([np.linalg.det(M) for M in (DOUBLE, QUARTER, SAME, SQUASH)], [4, 1, 1, 0])
    assert np.array_equal(SQUASH @ [5, 3], SQUASH @ [5, 99])


def test_A6_the_invertible_matrices_are_a_group():
    rng = np.random.default_rng(6)
    sample = [SAME, DOUBLE, QUARTER, *rng.standard_normal((4, 2, 2))]
    report = check_group_axioms(
        sample, multiply, contains=lambda X: abs(np.linalg.det(X)) > 1e-9, inverse=np.linalg.inv
    )
    assert report.is_group and not report.commutative


def test_A7_the_slide_rule():
    a, b = np.meshgrid([0.1, 1.0, 2.0, 7.5], [0.3, 4.0, 9.0])
    assert homomorphism_defect(np.log, a, b, op_in=np.multiply) <= 4 * np.finfo(float).eps * 4
    assert homomorphism_defect(np.exp, a, b, op_out=np.multiply) <= 8 * np.finfo(float).eps * np.exp(16.5)


def test_A8_squaring_leaves_the_cross_term():
    assert homomorphism_defect(np.square, 2, 3) == 12.0
    assert homomorphism_defect(np.square, [1, 2], [5, -4]) == 16.0


def test_A9_a_one_parameter_group_and_a_fake():
    rope = generators.rope(16)
    times = [-2.0, 0.5, 3.0, 11.0]
    assert group_law_residual(lambda t: pe.transport(rope, t), times) < 1e-15
    assert group_law_residual(lambda t: rotation(0.01 * t * t), times) > 0.1
    assert group_law_residual(lambda t: np.exp(-0.1 * t), times) < 1e-15
    assert group_law_residual(lambda t: 2 * rotation(t), times) == pytest.approx(1.0)


def test_the_reals_without_continuity():
    root = np.sqrt(2)
    monster = {(m, n): np.exp(float(m)) for m in range(-3, 4) for n in range(-3, 4)}
    for (m, n), (k, j) in itertools.product(monster, repeat=2):
        if (m + k, n + j) in monster:
            assert monster[m + k, n + j] == pytest.approx(monster[m, n] * monster[k, j], rel=1e-14)
    assert 239 - 169 * root == pytest.approx(-0.002092, abs=1e-6)  # next to 0, where the monster is e^239
    assert group_law_residual(lambda t: np.exp(np.rint(t)), [0.3, 0.4]) > 0.1


def test_B6_complex_numbers_are_matrices():
    def matrix(z):
        return np.array([[z.real, -z.imag], [z.imag, z.real]])

    for a, b in ((2 + 3j, -1 + 0.5j), (1j, 1j), (0.3 - 2j, 4 + 1j)):
        assert homomorphism_defect(lambda z: matrix(complex(z)), a, b) == 0
        product = homomorphism_defect(lambda z: matrix(complex(z)), a, b, op_in=np.multiply, op_out=np.matmul)
        assert product <= 1e-15


def quaternion(a, b, c, d):
    return np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]], dtype=float)


QI, QJ, QK = quaternion(0, 1, 0, 0), quaternion(0, 0, 1, 0), quaternion(0, 0, 0, 1)


def test_B7_the_eight_quaternion_units_are_a_group_that_does_not_commute():
    one = np.eye(4)
    report = check_group_axioms([one, -one, QI, -QI, QJ, -QJ, QK, -QK], multiply)
    assert report.is_group and not report.commutative
    assert np.array_equal(QI @ QJ, QK) and np.array_equal(QJ @ QI, -QK)


def test_B8_euler_for_quaternions():
    a, b, c, d = 0.2, 0.3, -0.5, 0.7
    r = np.sqrt(b * b + c * c + d * d)
    by_hand = np.exp(a) * (np.cos(r) * np.eye(4) + np.sin(r) / r * quaternion(0, b, c, d))
    np.testing.assert_allclose(pe.transport(quaternion(a, b, c, d), 1), by_hand, atol=2e-15)


@pytest.mark.parametrize("p, q, residual", [((1, 2), (3, 5), 0.1618), ((0.3, 0.7), (1.1, -0.4), 1.438)])
def test_B9_the_quaternion_route_is_not_relative(p, q, residual):
    def R(x, y):
        return pe.transport(x * QI + y * QJ, 1)

    off = R(*p).T @ R(*q) - R(q[0] - p[0], q[1] - p[1])
    assert np.linalg.norm(off) == pytest.approx(residual, abs=1e-3)


def test_B10_commuting_is_enough_for_products_of_exponentials():
    A = np.random.default_rng(10).standard_normal((4, 4))
    B = A @ A - 2 * A
    np.testing.assert_allclose(pe.transport(A, 1) @ pe.transport(B, 1), expm(A + B), rtol=1e-10)
    assert np.abs(pe.transport(QI, 1) @ pe.transport(QJ, 1) - expm(QI + QJ)).max() > 0.1


def test_B13_a_flip_obeys_the_law_on_integers_only():
    flip = np.diag([1.0, -1.0])
    assert group_law_residual(lambda n: np.linalg.matrix_power(flip, int(n)), range(-4, 5)) == 0
    # No exp(X) of a real X has a negative determinant.
    assert (
        np.linalg.det(flip)
        < 0
        < np.linalg.det(pe.transport(np.random.default_rng(0).standard_normal((2, 2)), 1))
    )


def test_bad_input():
    with pytest.raises(TypeError, match="op is 3"):
        check_group_axioms([1], 3)
    with pytest.raises(TypeError, match="elements is 3; expected a list"):
        check_group_axioms(3, add)
    with pytest.raises(TypeError, match="ts is 'often'; expected times"):
        group_law_residual(np.exp, "often")
    with pytest.raises(ValueError, match="no elements|empty"):
        check_group_axioms([], add)
    with pytest.raises(TypeError, match="A is ndarray"):
        group_law_residual(np.eye(2), [1])
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        group_law_residual(lambda t: np.zeros((2, 3)), [1])
    with pytest.raises(ValueError, match="ts"):
        group_law_residual(np.exp, [np.nan])


def test_reports_pickle():
    report = check_group_axioms([0], add)
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_table_that_is_not_closed_is_no_traceback():
    table = np.add.outer(np.arange(3), np.arange(3))
    report = check_group_axioms(range(3), table.item)           # item(4, 0) is an IndexError
    assert not report.closure and report.witness["closure"] == (1, 2) and report.identity
    with pytest.raises(ZeroDivisionError):                      # an error within the set stays one
        check_group_axioms([0, 1], lambda a, b: a // b)


def test_what_is_no_function_is_said():
    with pytest.raises(TypeError, match="op is a table; expected a function: pass op.item"):
        check_group_axioms(range(2), np.eye(2))
    for name in ("f", "op_in", "op_out"):
        with pytest.raises(TypeError, match=f"{name} is 3; expected a function"):
            homomorphism_defect(**{"f": np.exp, "a": 1, "b": 2} | {name: 3})
