"""Linear algebra and polynomials over the rational numbers, without rounding.

Polynomials are lists of Fractions, constant term first, without zeros at the end; [] is zero. Matrices are
object arrays of Fractions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ._matrix import as_generators


def is_rational(X) -> bool:
    """Whether X is an array, or nested lists, of Fractions or of rationals of SymPy (integers among them)."""
    entries = np.asarray(X)
    return entries.dtype.kind == "O" and all(
        isinstance(x, (int, Fraction)) or getattr(x, "is_Rational", False) for x in entries.ravel()
    )


def as_fractions(X, name: str = "X") -> np.ndarray:
    """Return matrices of ints, Fractions, rationals of SymPy, or floats (each is a fraction) as Fractions."""
    as_generators(X, name)
    entries = np.asarray(X)
    if entries.dtype.kind == "c":
        entries = entries.real
    if entries.dtype.kind not in "Oiub":
        entries = entries.astype(np.float64)
    out = np.empty(entries.shape, dtype=object)
    for where, entry in np.ndenumerate(entries.astype(object)):
        out[where] = _fraction(entry, f"{name}{list(where)}")
    return out


def _fraction(entry, where: str) -> Fraction:
    try:
        if getattr(entry, "is_Rational", False):  # SymPy
            return Fraction(int(entry.p), int(entry.q))
        return Fraction(entry)
    except (TypeError, ValueError):
        raise TypeError(f"{where} is {entry!r}; expected an integer or a fraction") from None


def null_space(A: np.ndarray) -> np.ndarray:
    """Basis, as rows, of the null space of a matrix of Fractions: one free coordinate of each is 1."""
    rows, (_, n) = [list(row) for row in A], A.shape
    pivots: list[int] = []
    for column in range(n):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        pivot = rows[top][column]
        rows[top] = [x / pivot if x else x for x in rows[top]]
        for i, row in enumerate(rows):
            if i != top and (factor := row[column]):
                rows[i] = [x - factor * y if y else x for x, y in zip(row, rows[top], strict=True)]
        pivots.append(column)
    basis = []
    for free in (j for j in range(n) if j not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for i, pivot in enumerate(pivots):
            vector[pivot] = -rows[i][free]
        basis.append(vector)
    return np.array(basis, dtype=object).reshape(len(basis), n)


def restrict(A: np.ndarray, space: np.ndarray) -> np.ndarray:
    """Matrix of A on an invariant space whose basis, as rows, came from `null_space`."""
    free = [next(j for j in range(len(A) - 1, -1, -1) if row[j]) for row in space]
    return (A @ space.T)[free]


def characteristic_polynomial(A: np.ndarray) -> list[Fraction]:
    """det(xI - A) by the recursion of Faddeev and LeVerrier, in integers."""
    n = len(A)
    common = int(np.lcm.reduce([x.denominator for x in A.ravel()], dtype=object)) if n else 1
    whole = np.array([[int(x * common) for x in row] for row in A], dtype=object).reshape(n, n)
    identity = np.array([[int(i == j) for j in range(n)] for i in range(n)], dtype=object).reshape(n, n)
    coefficients, M = [Fraction(1)], identity * 0
    for k in range(1, n + 1):
        M = whole @ M + int(coefficients[-1]) * identity
        coefficients.append(Fraction(-np.trace(whole @ M) // k))
    return [c / Fraction(common) ** k for k, c in enumerate(coefficients)][::-1]


# Polynomials


def trim(p: list) -> list[Fraction]:
    """Drop zeros at the end."""
    p = list(p)
    while p and not p[-1]:
        p.pop()
    return p


def derivative(p):
    """Return the derivative of p."""
    return [k * c for k, c in enumerate(p)][1:]


def divide(p, q):
    """Quotient and remainder."""
    rest, quotient = trim(p), [Fraction(0)] * max(0, len(p) - len(q) + 1)
    while len(rest) >= len(q):
        factor, shift = rest[-1] / q[-1], len(rest) - len(q)
        quotient[shift] = factor
        for i, c in enumerate(q):
            rest[shift + i] -= factor * c
        rest = trim(rest[:-1])
    return trim(quotient), rest


def common_divisor(p, q):
    """Monic greatest common divisor; [1] if there is none but constants."""
    p, q = trim(p), trim(q)
    while q:
        p, q = q, divide(p, q)[1]
        q = [c / q[-1] for c in q]
    return [c / p[-1] for c in p]


def square_free(p) -> list[tuple[list, int]]:
    """Split p into factors without double roots, each with its multiplicity (Yun 1976)."""
    found, power = [], 1
    repeated = common_divisor(p, derivative(p)) if len(p) > 1 else [Fraction(1)]
    simple = divide(p, repeated)[0]
    while len(simple) > 1:
        again = common_divisor(simple, repeated)
        factor = divide(simple, again)[0]
        if len(factor) > 1:
            found.append(([c / factor[-1] for c in factor], power))
        simple, repeated, power = again, divide(repeated, again)[0], power + 1
    return found


def at_matrix(p, A: np.ndarray) -> np.ndarray:
    """p(A) by Horner's rule."""
    identity = np.array([[Fraction(int(i == j)) for j in range(len(A))] for i in range(len(A))], dtype=object)
    value = identity * Fraction(0)
    for c in reversed(p):
        value = value @ A + c * identity
    return value


def count_real_roots(p, above=None) -> int:
    """How many different real roots p has, in all or above a number: Sturm's theorem."""
    chain = [trim(p), derivative(p)]
    while chain[-1]:
        rest = divide(chain[-2], chain[-1])[1]
        chain.append([-c / abs(rest[-1]) for c in rest])
    chain = [q for q in chain if q]

    def changes(signs):
        signs = [s for s in signs if s]
        return sum(a * b < 0 for a, b in zip(signs, signs[1:], strict=False))

    far = changes([_sign(q[-1]) for q in chain])
    if above is None:
        return changes([_sign(q[-1]) * (-1) ** (len(q) - 1) for q in chain]) - far
    return changes([_sign(sum(c * above**k for k, c in enumerate(q))) for q in chain]) - far


def count_imaginary_roots(p) -> int:
    """How many pairs of roots +-i theta, theta > 0, p has."""
    # p(iy) = even(y^2) + i y odd(y^2): both vanish at y^2 = theta^2.
    even = trim([(-1) ** k * c for k, c in enumerate(p[0::2])])
    odd = trim([(-1) ** k * c for k, c in enumerate(p[1::2])])
    both = common_divisor(even, odd) if even and odd else even or odd
    return count_real_roots(both, above=Fraction(0)) if len(both) > 1 else 0


def _sign(x) -> int:
    return (x > 0) - (x < 0)
