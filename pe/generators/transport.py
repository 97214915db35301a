"""transport: exp(tX) for many t, in closed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import expm

from ._matrix import as_generator
from .classify import scale_by_power_of_two
from .reading import Eigenvalue, Form, components

WELL_CONDITIONED = 1e6
"""Beyond this condition number the basis costs more digits than expm does."""


def transport(X, t) -> np.ndarray:
    """Carry forward by t: the matrices exp(tX).

    One decomposition serves all t. A block fades, turns and slides by
    e^(-gamma t) R(theta t) (x) sum_r (t N)^r / r!, with angles formed in float64, so that a turn stays a turn
    and a slide a polynomial however large t is; what has one or two coordinates, or one eigenvalue, needs no
    basis at all.

    Parameters
    ----------
    X : array_like, shape (n, n)
        Real generator; never modified.
    t : array_like of real numbers, any shape
        Gaps or positions: negative, fractional, in any order.

    Returns
    -------
    ndarray of float64, shape t.shape + (n, n)
        Entries too large for float64 are inf with their sign, never NaN.

    Raises
    ------
    ValueError
        X is not one square finite matrix, or t is not finite.
    TypeError
        X or t is not real numbers.

    Warns
    -----
    RuntimeWarning
        The eigenvectors of X are too nearly dependent for the closed form; then each exp(tX) comes from
        SciPy's expm, whose error grows with ||tX||: where the eigenvectors are dependent to 1e-7 there may
        be no correct digit.

    Notes
    -----
    The group law A(u + v) = A(u) A(v) is what makes this a positional encoding; without continuity there are
    monsters that obey it: A(m + n sqrt 2) = e^m does, and is e^239 near t = -0.002. Every continuous family
    is exp(tX).

    The pictures of the tour turn by +t; RoPE's score turns a key by the gap, A(u) = R(-u w), whose
    generator is -w J: exp(pX) for it is the transpose of the R_p usually printed.

    Examples
    --------
    >>> transport([[0, 1], [0, 0]], 5)
    array([[1., 5.],
           [0., 1.]])
    >>> transport([[-0.1]], [0, 5, 10]).ravel().round(3)
    array([1.   , 0.607, 0.368])

    References
    ----------
    Hall, Lie Groups, Lie Algebras, and Representations, chapter 2: every continuous one-parameter group of
    matrices is exp(tX) for exactly one X. Higham, Functions of Matrices, chapter 1: the function of a Jordan
    block.
    """
    matrix, unit = as_generator(X)
    times = _as_times(t)
    out = np.zeros((*times.shape, *matrix.shape))
    if not out.size:
        return out
    scaled, exponent = scale_by_power_of_two(matrix)
    with np.errstate(over="ignore"):
        # Not inf, so that the zeros of X keep what they multiply at zero.
        ticks = np.nan_to_num(np.ldexp(times, exponent))
    tolerance = 10 * len(matrix) * unit * float(np.linalg.norm(scaled, 2))
    for where in components(scaled):
        out[..., where[:, None], where] = _exponential(scaled[np.ix_(where, where)], tolerance)(ticks)
    return out


def _as_times(t) -> np.ndarray:
    times = np.asarray(t)
    if times.dtype.kind not in "fiu":
        raise TypeError(f"t has dtype {times.dtype}; expected real numbers")
    times = times.astype(np.float64)
    if not np.all(np.isfinite(times)):
        raise ValueError("t has NaN or infinite entries; expected finite gaps")
    return times


def _exponential(X: np.ndarray, tolerance: float) -> Callable[[np.ndarray], np.ndarray]:
    """The function t -> exp(tX) for one connected component."""
    if len(X) == 1:
        return lambda t: _grown(np.ones((*t.shape, 1, 1)), X[0, 0] * t)
    if len(X) == 2:
        return _two_by_two(X)
    found = Form(X, tolerance).read(tolerance, basis=True)
    if len(found) == 1 and not found[0].value.imag:
        return _one_eigenvalue(X, found[0].value.real, max(found[0].sizes))
    P = np.hstack(
        [
            chain if not e.value.imag else np.concatenate([chain, chain.conj()], axis=1)
            for e in found
            for chain in e.chains
        ]
    )
    if P.shape == X.shape and np.linalg.cond(P) <= WELL_CONDITIONED:
        return _in_basis(found)
    return _by_expm(X)


def _grown(matrices, exponents):
    """Matrices times exp(exponents), where zeros stay zero and what overflows is inf."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        half = np.exp(exponents / 2)[..., None, None]
        return np.where(matrices == 0, 0.0, matrices * half * half)


def _two_by_two(X):
    """exp(t(m + N)) with N^2 = d: e^(mt) (cosh I + sinh/sqrt(d) N), one formula for turns, slides and fades.

    The growth is taken out of cosh and sinh, which would overflow where the product is small.
    """
    mean, half = (X[0, 0] + X[1, 1]) / 2, (X[0, 0] - X[1, 1]) / 2
    N = np.array([[half, X[0, 1]], [X[1, 0], -half]])
    square = half * half + X[0, 1] * X[1, 0]
    root = np.sqrt(abs(square))

    def at(t):
        if square < 0:
            even, odd, growth = np.cos(root * t), np.sin(root * t) / root, mean * t
        elif square == 0:
            even, odd, growth = np.ones_like(t), t, mean * t
        else:
            shrink = np.expm1(-2 * root * np.abs(t))
            even, odd = 1 + shrink / 2, -np.sign(t) * shrink / (2 * root)
            growth = mean * t + root * np.abs(t)
        return _grown(even[..., None, None] * np.eye(2) + odd[..., None, None] * N, growth)

    return at


def _one_eigenvalue(X, value, size):
    """e^(value t) times the polynomial that the nilpotent part leaves of the exponential series."""
    N = X - value * np.eye(len(X))
    powers = [np.eye(len(X))]
    for r in range(1, size):
        powers.append(powers[-1] @ N / r)

    def at(t):
        total = np.zeros((*t.shape, *N.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for r, power in enumerate(powers):
                total += np.where(power == 0, 0.0, t[..., None, None] ** r * power)
        return _grown(total, value * t)

    return at


def _in_basis(found: list[Eigenvalue]):
    """P exp(tJ) P^-1 over the complex chains; conjugate pairs give twice the real part of one of them."""
    chains = [(e.value, chain) for e in found for chain in e.chains]
    columns = [
        np.concatenate([chain, chain.conj()], axis=1) if value.imag else chain for value, chain in chains
    ]
    inverse, start, parts = np.linalg.inv(np.hstack(columns)), 0, []
    for (value, chain), own in zip(chains, columns, strict=True):
        parts.append((value, inverse[start : start + chain.shape[1]] * (2.0 if value.imag else 1.0)))
        start += own.shape[1]
    P = np.hstack([chain for _, chain in chains])
    fastest = max(value.real for value, _ in parts)
    slowest = min(value.real for value, _ in parts)

    def at(t):
        growth = np.where(t >= 0, fastest, slowest) * t
        carried, start = np.zeros((*t.shape, P.shape[1], len(P)), dtype=np.complex128), 0
        for value, rows in parts:
            weight = np.exp(value.real * t - growth) * np.exp(1j * (value.imag * t))
            for r in range(len(rows)):  # chain vector j goes to j - r with t^r / r!
                if r:
                    weight = weight * t / r
                carried[..., start : start + len(rows) - r, :] += weight[..., None, None] * rows[r:]
            start += len(rows)
        return _grown((P @ carried).real, growth)

    return at


def _by_expm(X):
    def at(t):
        warnings.warn(
            "the eigenvectors of X are nearly dependent, so exp(tX) comes from expm, one t at a time; "
            "no digit of it is certain",
            RuntimeWarning,
            stacklevel=3,
        )
        # Never one batched call: in SciPy 1.18.0 the scaling of a slice leaks into the next (scipy #25924).
        flat = [expm(X * time) for time in t.ravel()]
        return np.array(flat).reshape(*t.shape, *X.shape)

    return at
