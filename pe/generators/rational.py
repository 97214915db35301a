"""classify without rounding: the Jordan structure of a rational matrix.

No root is needed for the structure. The characteristic polynomial splits into square-free factors; for such
a factor g the null spaces of g(X)^j, and on each the characteristic polynomial once more, tell for every
root how many chains reach grade j. Roots of one structure stay together in one polynomial, whether it is
irreducible or not.

Only then come the numbers. How many roots are zero, real or imaginary is counted (Sturm), so that the
computed roots need just be good enough to tell which; gamma and theta are right to the last bit of a float.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .exact import (
    at_matrix,
    characteristic_polynomial,
    common_divisor,
    count_imaginary_roots,
    count_real_roots,
    derivative,
    divide,
    null_space,
    restrict,
    square_free,
    trim,
)
from .jordan import Cluster, chains, invariant_subspaces, real_schur, spectrum

WIDEST = 8192
"""Bits after which roots that lie even closer together are given up."""


class Root(NamedTuple):
    """One eigenvalue, imaginary part >= 0, parts rounded once, exact zeros exact; weyr as in `jordan`."""

    value: complex
    weyr: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Jordan block sizes, the conjugate partition of `weyr`."""
        return tuple(sum(1 for k in self.weyr if k > i) for i in range(self.weyr[0]))


def exact_roots(A: np.ndarray) -> list[Root]:
    """Eigenvalues of a matrix of Fractions, exactly grouped and named."""
    return [
        Root(value, weyr)
        for factor, multiplicity in square_free(characteristic_polynomial(A))
        for part, weyr in _by_structure(A, factor, multiplicity)
        for value in roots(part)
    ]


def _by_structure(A, g, multiplicity):
    """Split g, whose roots all have this multiplicity, by the Weyr characteristic of its roots."""
    if multiplicity == 1:
        return [(g, (1,))]
    step = at_matrix(g, A)
    power, before, parts = step, [Fraction(1)], [(g, ())]
    while True:
        space = null_space(power)
        here = characteristic_polynomial(restrict(A, space))
        grade = square_free(divide(here, before)[0])
        refined = []
        for part, weyr in parts:
            for factor, count in grade:
                common = common_divisor(part, factor)
                if len(common) > 1:
                    refined.append((common, (*weyr, count)))
                    part = divide(part, common)[0]
            if len(part) > 1:
                refined.append((part, weyr))
        parts, before = refined, here
        if len(space) == multiplicity * (len(g) - 1):
            return parts
        power = power @ step


def roots(g) -> list[complex]:
    """Roots with imaginary part >= 0 of a square-free polynomial, rounded once; exact zeros are exact."""
    g = trim(g)
    found = [0j] if not g[0] else []
    g = g if g[0] else g[1:]
    if len(g) == 1:
        return found
    if len(g) == 2:
        return [*found, complex(float(-g[0] / g[1]))]
    real, imaginary = count_real_roots(g), 2 * count_imaginary_roots(g)
    bits = 256
    while bits <= WIDEST:
        z = _aberth(g, bits)
        if z is not None:
            unreal = _smallest([abs(im) for _, im in z], z, real, bits)
            unturned = _smallest([abs(re) for re, _ in z], z, imaginary, bits)
            if unreal is not None and unturned is not None:
                one = 1 << bits
                for i, (re, im) in enumerate(z):
                    re = 0 if i in unturned else re
                    im = 0 if i in unreal else im
                    if im >= 0:
                        found.append(complex(float(Fraction(re, one)), float(Fraction(im, one))))
                return found
        bits *= 2
    raise ArithmeticError("the characteristic polynomial has roots too close together to tell apart")


def _smallest(parts, z, count, bits):
    """Which `count` of the parts are zero; None if they do not stand apart from the others."""
    order = sorted(range(len(z)), key=lambda i: parts[i])
    sizes = [max(map(abs, pair)) for pair in z]
    zero = order[:count]
    near = all(parts[i] << (bits // 2) <= sizes[i] for i in zero)
    far = all(parts[i] << (bits // 3) > sizes[i] for i in order[count:])
    return set(zero) if near and far else None


def _aberth(g, bits):
    """All roots at once in fixed point (Aberth 1973); None if they do not settle."""
    lead = g[-1]
    radius = max(abs(float(c / lead)) ** (1 / (len(g) - 1 - k)) for k, c in enumerate(g[:-1]) if c)
    unit = Fraction(radius)
    monic = [c / lead / unit ** (len(g) - 1 - k) for k, c in enumerate(g)]  # roots within 2
    one = 1 << bits
    p = [round(c * one) for c in monic]
    slope = [round(c * one) for c in derivative(monic)]
    # Starts without symmetry: conjugate starts would stay conjugate and miss two real roots.
    noise = np.random.default_rng(0).standard_normal((2, len(g) - 1)) * 1e-3
    start = np.roots([float(c) for c in reversed(monic)]) + noise[0] + 1j * noise[1]
    z = [(int(w.real * 2**52) << (bits - 52), int(w.imag * 2**52) << (bits - 52)) for w in start]

    def value(coefficients, x):
        re, im = 0, 0
        for c in reversed(coefficients):
            re, im = ((re * x[0] - im * x[1]) >> bits) + c, (re * x[1] + im * x[0]) >> bits
        return re, im

    def over(a, b):
        size = b[0] * b[0] + b[1] * b[1]
        if not size:
            return (0, 0)
        return (
            ((a[0] * b[0] + a[1] * b[1]) << bits) // size,
            ((a[1] * b[0] - a[0] * b[1]) << bits) // size,
        )

    for _ in range(bits):  # two roots 2^-k apart are approached by half their distance a step, for k steps
        moved = 0
        for i, x in enumerate(z):
            newton = over(value(p, x), value(slope, x))
            others = [over((one, 0), (x[0] - y[0], x[1] - y[1])) for j, y in enumerate(z) if j != i]
            re, im = sum(o[0] for o in others), sum(o[1] for o in others)
            shared = ((newton[0] * re - newton[1] * im) >> bits, (newton[0] * im + newton[1] * re) >> bits)
            step = over(newton, (one - shared[0], -shared[1]))
            z[i] = (x[0] - step[0], x[1] - step[1])
            moved = max(moved, abs(step[0]), abs(step[1]))
        if moved.bit_length() <= bits // 4:
            scale = Fraction(radius)
            return [(round(re * scale), round(im * scale)) for re, im in z]
    return None


def float_chains(X: np.ndarray, found: list[Root]) -> list[list[np.ndarray]] | None:
    """Jordan chains of the float matrix X for each root; None if its eigenvalues do not go with the roots."""
    T, Z, eigenvalues = real_schur(X)
    targets, owner = [], []
    for i, root in enumerate(found):
        for value, sign in ((root.value, 1), (root.value.conjugate(), -1)):
            if sign > 0 or value.imag:
                targets += [value] * sum(root.weyr)
                owner += [(i, sign)] * sum(root.weyr)
    rows, columns = linear_sum_assignment(np.abs(eigenvalues[:, None] - np.array(targets)[None, :]))
    own = [owner[c] for _, c in sorted(zip(rows, columns, strict=True))]
    order = np.array(sorted(range(len(own)), key=lambda k: own[k]))
    labels = [own[k] for k in order]
    spec = spectrum(T, Z, eigenvalues, order)
    clusters = []
    for i, root in enumerate(found):
        start = labels.index((i, 1))
        stop = start + sum(root.weyr)
        cluster = Cluster(start, stop, root.weyr, 0.0, not root.value.imag)
        mirror = {labels[k] for k in spec.mirror[start:stop]}
        if mirror != {(i, -1 if root.value.imag else 1)}:
            return None
        clusters.append(cluster)
    found_chains: list[list[np.ndarray]] = []
    for root, cluster, (Q, _) in zip(found, clusters, invariant_subspaces(spec, clusters), strict=True):
        if not np.all(np.isfinite(Q)):
            return None
        if cluster.real:
            Q = np.linalg.svd(np.hstack([Q.real, Q.imag]), full_matrices=False)[0][:, : Q.shape[1]]
        shift = root.value if root.value.imag else root.value.real
        N = Q.conj().T @ X @ Q - shift * np.eye(Q.shape[1])
        found_chains.append([Q @ chain for chain in chains(N, root.weyr)])
    return found_chains
