"""Rational linear algebra and polynomials: exact answers to compare with."""

from fractions import Fraction

import numpy as np
import pytest

from pe import classify
from pe.generators.exact import (
    as_fractions,
    at_matrix,
    characteristic_polynomial,
    common_divisor,
    count_imaginary_roots,
    count_real_roots,
    divide,
    is_rational,
    null_space,
    restrict,
    square_free,
)


def polynomial(*roots):
    p = [Fraction(1)]
    for root in roots:
        p = [a - root * b for a, b in zip([Fraction(0), *p], [*p, Fraction(0)], strict=True)]
    return p


def random(n, seed):
    return as_fractions(np.random.default_rng(seed).integers(-5, 6, (n, n)))


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_characteristic_polynomial_annihilates_and_has_the_eigenvalues(n):
    A = random(n, n)
    p = characteristic_polynomial(A / 3)
    assert p[-1] == 1 and len(p) == n + 1 and not np.any(at_matrix(p, A / 3))
    expected = np.poly(np.linalg.eigvals(A.astype(float) / 3)).real[::-1]
    assert np.allclose([float(c) for c in p], expected, rtol=1e-8, atol=1e-8)


def test_null_space_and_restriction():
    A = as_fractions(np.arange(9).reshape(3, 3))
    (v,) = null_space(A)
    assert v.tolist() == [1, -2, 1] and not np.any(A @ v)
    assert null_space(as_fractions(np.eye(3))).shape == (0, 3) and len(null_space(A * 0)) == 3
    N = as_fractions([[2, 1, 0], [0, 2, 0], [0, 0, 3]])
    space = null_space(at_matrix([Fraction(4), Fraction(-4), Fraction(1)], N))  # ker (N - 2)^2
    assert np.array_equal(characteristic_polynomial(restrict(N, space)), [4, -4, 1])


def test_polynomials_divide_and_split():
    p, q = polynomial(1, 1, 2, -3), polynomial(1, -3, 5)
    quotient, rest = divide(p, polynomial(1, 2))
    assert quotient == polynomial(1, -3) and rest == []
    assert common_divisor(p, q) == polynomial(1, -3)
    assert dict((k, g) for g, k in square_free(polynomial(1, 1, 1, 2, 2, 7, 8))) == {
        1: polynomial(7, 8), 2: polynomial(2), 3: polynomial(1)}  # fmt: skip


@pytest.mark.parametrize(("p", "real", "imaginary"), [
    ([-2, 0, 1], 2, 0), ([1, 0, 1], 0, 1), ([-1, 0, 0, 0, 1], 2, 1), ([1, 0, 0, 0, 1], 0, 0),
    ([4, 0, 5, 0, 1], 0, 2), ([5, 2, 1], 0, 0), ([-6, 11, -6, 1], 3, 0), ([-1, 1, -1, 1], 1, 1),
])  # fmt: skip
def test_roots_are_counted(p, real, imaginary):
    p = [Fraction(c) for c in p]
    assert count_real_roots(p) == real and count_imaginary_roots(p) == imaginary
    positive = sum(1 for z in np.roots([float(c) for c in p[::-1]]) if abs(z.imag) < 1e-9 and z.real > 0)
    assert count_real_roots(p, above=Fraction(0)) == positive


def test_every_kind_of_number_is_the_fraction_that_it_is():
    assert as_fractions([[0.1]])[0, 0] == Fraction(0.1) != Fraction(1, 10)
    assert as_fractions(np.array([[3]], dtype=np.int8))[0, 0] == 3
    assert as_fractions([[Fraction(1, 3)]])[0, 0] == Fraction(1, 3)
    assert as_fractions(np.array([[True]]))[0, 0] == 1
    assert as_fractions([[np.float32(0.1)]])[0, 0] == Fraction(float(np.float32(0.1)))
    assert is_rational([[Fraction(1), 2], [3, 4]]) and not is_rational([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="finite"):
        as_fractions([[np.inf]])
    with pytest.raises(TypeError):
        as_fractions([["a"]])
    with pytest.raises(ValueError, match="1.8e308"):
        as_fractions([[10**400]])
    with pytest.raises(ValueError, match="not 0; scale it up"):  # was called nothing
        classify([[Fraction(1, 10**400)]])


def test_rationals_of_sympy():
    sympy = pytest.importorskip("sympy", reason="SymPy is optional")
    X = np.array([[sympy.Rational(-1, 3), 1], [0, sympy.Rational(-1, 3)]], dtype=object)
    assert is_rational(X) and as_fractions(X)[0, 0] == Fraction(-1, 3)
