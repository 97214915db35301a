"""classify(method="exact"): the cases with exact answers, and random ones of known structure."""

from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.linalg import block_diag, companion

import pe
from pe import classify
from pe.generators import transport
from pe.generators.rational import roots


def jordan(value, size):
    return value * np.eye(size, dtype=int) + np.eye(size, k=1, dtype=int)


def spiral(gamma, theta, size=1):
    one, above = np.eye(size, dtype=int), np.eye(size, k=1, dtype=int)
    return np.kron(one, [[-gamma, -theta], [theta, -gamma]]) + np.kron(above, np.eye(2, dtype=int))


def unimodular(n, rng):
    """An integer matrix and its integer inverse."""
    P, inverse = np.eye(n, dtype=object), np.eye(n, dtype=object)
    for _ in range(2 * n):
        i, j = rng.choice(n, 2, replace=False)
        factor = int(rng.integers(-2, 3))
        P[i] += factor * P[j]
        inverse[:, j] -= factor * inverse[:, i]
    return P, inverse


def structure(answer):
    return Counter((b.kind, b.size) for b in answer.blocks)


def exact(X):
    answer = classify(X, method="exact")
    assert not answer.ambiguous and answer.rtol == 0 and answer.backward_error == 0
    assert sum(len(b.indices) for b in answer.blocks) == len(X)
    return answer


def test_case_15_a_float_is_the_fraction_that_it_is():
    X = [[-1, 1e-20], [0, -1]]
    assert classify(X).kinds == {"fade": 2} and exact(X).kinds == {"fading slide": 1}


@pytest.mark.parametrize("power", [-200, -3, 200])
def test_case_17_scale_does_not_matter(power):
    assert exact(10.0**power * jordan(0, 2)).row == "slide"
    (block,) = exact(10.0**power * spiral(0, 1)).blocks
    assert block.kind == "turn" and block.theta == 10.0**power


def test_case_27_ten_close_roots():
    answer = exact(companion(np.poly(np.arange(1, 11))))
    assert [b.gamma for b in answer.blocks] == [-10, -9, -8, -7, -6, -5, -4, -3, -2, -1]


def test_case_28():
    answer = exact([[1, 1, 1, 0], [-2, -1, 0, -1], [0, 0, -1, -1], [0, 0, 2, 1]])
    (block,) = answer.blocks
    assert block.kind == "rotating slide" and block.theta == 1.0 and block.gamma == 0.0


def test_case_29_an_irreducible_cubic():
    answer = exact([[-3, 1, 2], [1, -1, 0], [1, 0, -2]])
    assert answer.kinds == {"fade": 3}
    assert [b.gamma for b in answer.blocks] == pytest.approx([0.324869, 1.460811, 4.214320], abs=1e-6)


def test_case_30_and_34_textbook_matrices():
    frank = [[9 - max(i, j) if j >= i - 1 else 0 for j in range(9)] for i in range(9)]
    answer = exact(frank)
    assert answer.kinds == {"explode": 9} and answer.blocks[-1].gamma == pytest.approx(-0.0448, abs=1e-4)
    moler = exact([[-64, 82, 21], [144, -178, -46], [-771, 962, 248]])
    assert [b.gamma for b in moler.blocks] == [-3, -2, -1]


def test_case_31_the_corner_of_forsythe():
    corner = np.eye(6, k=1)
    corner[5, 0] = 1e-20
    answer = exact(corner)
    assert classify(corner).row == "slide" and answer.segre == (1, 1, 1, 1)
    # Its six eigenvalues, on a circle of radius 1e-20^(1/6), are one and the same to float64.
    assert max(b.gamma for b in answer.blocks) == pytest.approx(1e-20 ** (1 / 6))
    assert np.isnan(answer.basis).any()


@pytest.mark.parametrize("seed", range(6))
def test_case_36_integer_conjugates_of_known_blocks(seed):
    rng = np.random.default_rng(seed)
    X = block_diag(jordan(-1, 3), spiral(0, 2, 2), jordan(0, 2), [[0]]).astype(int)
    P, inverse = unimodular(10, rng)
    answer = exact((P @ X.astype(object) @ inverse).astype(object))
    expected = [("fading slide", 3), ("rotating slide", 2), ("slide", 2), ("nothing", 1)]
    assert structure(answer) == Counter(expected)
    assert {b.theta for b in answer.blocks} == {2.0, 0.0} and answer.residual < 1e-9


def test_roots_of_one_multiplicity_and_other_structures_are_told_apart():
    X = block_diag(jordan(0, 2), jordan(0, 2), jordan(1, 2), jordan(1, 1), jordan(1, 1), jordan(2, 3), [[2]])
    assert sorted((b.gamma + 0.0, b.size) for b in exact(X).blocks) == [
        (-2, 1), (-2, 3), (-1, 1), (-1, 1), (-1, 2), (0, 2), (0, 2)]  # fmt: skip
    conjugate_pairs = block_diag(spiral(0, 1, 2), spiral(0, 2), spiral(0, 2))
    assert structure(exact(conjugate_pairs)) == {("rotating slide", 2): 1, ("turn", 1): 2}


@pytest.mark.parametrize("seed", range(30))
def test_random_structures_are_always_right(seed):
    rng = np.random.default_rng(seed)
    blocks, expected = [], Counter()
    while len(expected) < 1 or sum(map(len, blocks)) < 5:
        gamma, theta, size = int(rng.integers(-1, 3)), int(rng.integers(0, 3)), int(rng.integers(1, 4))
        blocks.append(spiral(gamma, theta, size) if theta else jordan(-gamma, size))
        expected[float(gamma), float(theta), size] += 1
    X = block_diag(*blocks).astype(int).astype(object)
    P, inverse = unimodular(len(X), rng)
    answer = exact(P @ X @ inverse)
    assert Counter((b.gamma, b.theta, b.size) for b in answer.blocks) == expected


@pytest.mark.parametrize("n", [3, 8, 16])
def test_random_integers_agree_with_mpmath(n):
    X = np.random.default_rng(n).integers(-9, 10, (n, n))
    answer = exact(X)
    found = sorted((b.eigenvalue for b in answer.blocks), key=lambda z: (z.real, z.imag))
    with mpmath.workdps(40):
        values = [complex(z) for z in mpmath.eig(mpmath.matrix(X.tolist()), left=False, right=False)]
    expected = sorted((z for z in values if z.imag > -1e-12), key=lambda z: (z.real, z.imag))
    assert np.allclose(found, expected, rtol=0, atol=1e-13)
    assert answer.residual < 1e-13


def test_the_float_basis_shows_the_exact_structure():
    X = block_diag(jordan(-1, 3), spiral(1, 2, 2), [[0]])
    Q = np.array([[1, 1, 0, 0, 0, 0, 0, 0]]).T @ np.array([[0, 0, 1, 0, 0, 1, 0, 1]]) + np.eye(8, dtype=int)
    inverse = np.eye(8, dtype=int) - (Q - np.eye(8, dtype=int))  # the product squares to zero
    assert np.array_equal(Q @ inverse, np.eye(8))
    Y = Q @ X @ inverse
    answer = exact(Y)
    rebuilt = answer.basis @ answer.jordan @ np.linalg.inv(answer.basis)
    assert np.allclose(rebuilt, Y, atol=1e-10)
    u = 0.7
    A = answer.basis @ transport(answer.jordan, u) @ np.linalg.inv(answer.basis)
    assert np.allclose(A, transport(Y, u), atol=1e-10)


def test_fractions_are_answered_exactly_by_default():
    X = np.array([[Fraction(-1, 3), Fraction(1, 10**20)], [0, Fraction(-1, 3)]], dtype=object)
    assert classify(X).row == "beyond" and classify(X).rtol == 0
    assert classify(X.astype(float)).kinds == {"fade": 2}
    assert classify(X, rtol=1e-12).kinds == {"fade": 2}


def test_stacks_and_small_sizes():
    answers = classify(np.array([pe.generators.slide(), pe.generators.turn(1.0)]), method="exact")
    assert answers.shape == (2,) and [a.row for a in answers] == ["slide", "turn"]
    assert exact(np.zeros((0, 0))).blocks == () and exact(np.zeros((3, 3))).kinds == {"nothing": 3}
    assert exact([[0, -1], [1, 0]]).is_skew and exact([[1, 2], [2, 1]]).is_normal


def test_roots_are_right_to_the_last_bit():
    # (x^2 - 2)(x^2 + x + 1)(x - 10^-9)
    two, three, tiny = ([Fraction(c) for c in p] for p in ([-2, 0, 1], [1, 1, 1], [-1, 10**9]))
    product = np.polynomial.polynomial.polymul(np.polynomial.polynomial.polymul(two, three), tiny)
    found = sorted(roots(list(product)), key=lambda z: (z.imag, z.real))
    assert found == [-(2**0.5), 1e-9, 2**0.5, complex(-0.5, 3**0.5 / 2)]


def test_close_roots_take_more_bits():
    gap = Fraction(1, 2**200)
    p = [(1 + gap) * 1, -(2 + gap), Fraction(1)]  # 1 and 1 + gap
    assert roots(p) == [1.0, 1.0]
    far = [p[0] * 5, p[0] + p[1] * 5, p[1] + 5, Fraction(1)]
    assert sorted(z.real for z in roots(far)) == [-5.0, 1.0, 1.0]
