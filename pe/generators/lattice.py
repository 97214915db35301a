"""Whether integers can bring every hand of a clock back to the top at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

BITS = 39
"""A float has 53 bits. Of the N^(k+1) relations of k numbers with coefficients below N, some hold to rounding
by accident once N^(k+1) nears 2^52; below 2^39 that is one chance in thousands."""


def has_period(turns: np.ndarray) -> bool:
    """Tell whether some integer vector p, not 0, makes every p @ turns[:, l] whole, to rounding.

    Parameters
    ----------
    turns : ndarray, shape (n_axes, L)
        Turns per position, of each axis on each plane.

    Notes
    -----
    One plane after the other leaves a coarser lattice of periods; its basis comes from the short vectors of a
    lattice in which a large weight makes every turn that is not whole long (Lenstra, Lenstra and Lovasz
    1982).
    """
    periods = [[int(i == a) for i in range(len(turns))] for a in range(len(turns))]
    reach = 2.0 ** (BITS / (len(turns) + 1))
    for plane in np.asarray(turns, dtype=np.float64).T:
        numbers = [float(np.dot(p, plane)) for p in periods]
        relations = _relations(numbers, [max(abs(x) for x in p) for p in periods], plane, reach)
        periods = [
            [sum(c * p[a] for c, p in zip(relation, periods, strict=True)) for a in range(len(turns))]
            for relation in relations
        ]
        periods = [p for p in periods if 0 < max(map(abs, p)) <= reach]
        if not periods:
            return False
    return bool(periods)


def _relations(numbers, sizes, plane, reach):
    """Integer vectors c with sum_i c_i numbers_i whole, to the rounding of the numbers."""
    weight = 2**52
    rows = []
    for i, (number, size) in enumerate(zip(numbers, sizes, strict=True)):
        rows.append(
            [size * (i == j) for j in range(len(numbers))] + [round(weight * (number - round(number)))]
        )
    rows.append([0] * len(numbers) + [weight])
    found = []
    for row in _short_basis(rows):
        coefficients = [entry // size for entry, size in zip(row, sizes, strict=False)]
        length = max(map(abs, row[:-1]))
        error = 8 * length * max(1.0, float(np.max(np.abs(plane))))
        if 0 < length <= reach and abs(row[-1]) <= error:
            found.append(coefficients)
    return found


def _short_basis(basis):
    """LLL-reduced basis of an integer lattice, by exact fractions; there are few vectors."""
    basis = [list(row) for row in basis]

    def dot(v, w):
        return sum(a * b for a, b in zip(v, w, strict=True))

    def orthogonalise():
        vectors, mu = [], [[Fraction(0)] * len(basis) for _ in basis]
        for i, row in enumerate(basis):
            v = [Fraction(x) for x in row]
            for j, w in enumerate(vectors):
                mu[i][j] = dot(row, w) / dot(w, w)
                v = [a - mu[i][j] * b for a, b in zip(v, w, strict=True)]
            vectors.append(v)
        return vectors, mu

    k = 1
    vectors, mu = orthogonalise()
    while k < len(basis):
        for j in range(k - 1, -1, -1):
            times = round(mu[k][j])
            if times:
                basis[k] = [a - times * b for a, b in zip(basis[k], basis[j], strict=True)]
                vectors, mu = orthogonalise()
        before = dot(vectors[k - 1], vectors[k - 1])
        if dot(vectors[k], vectors[k]) >= (Fraction(3, 4) - mu[k][k - 1] ** 2) * before:
            k += 1
        else:
            basis[k - 1], basis[k] = basis[k], basis[k - 1]
            vectors, mu = orthogonalise()
            k = max(k - 1, 1)
    return basis
