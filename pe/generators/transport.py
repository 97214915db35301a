"""transport: exp(tX) for many t, in closed form."""

from __future__ import annotations

import warnings

import numpy as np

from .._shapes import broadcast, refuse_too_many_axes
from ._matrix import as_generator
from .classify import scale_by_power_of_two
from .closed_form import ByExpm, closed_forms, grown

CHUNK = 2**17
"""Numbers worked on at a time, so that what comes between stays in the cache."""

DEPENDENT = (
    "the eigenvectors of X are nearly dependent, so exp(tX) comes from expm, one t at a time; no digit of it "
    "is certain"
)


def transport(X, t, *, v=None) -> np.ndarray:
    """Carry forward by t: the matrices exp(tX), or vectors carried by them.

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
    v : array_like, shape (..., n), optional
        Vectors to carry; their leading axes broadcast against those of t.

    Returns
    -------
    ndarray of float64, shape t.shape + (n, n)
        exp(tX). With v: exp(tX) v, shape (..., n), and no matrix is formed. Entries too large for float64 are
        inf with their sign, never NaN.

    Raises
    ------
    ValueError
        X is not one square finite matrix, t or v is not finite, or v has another width than X.
    TypeError
        X, t or v is not real numbers.

    Warns
    -----
    RuntimeWarning
        The eigenvectors of X are too nearly dependent for the closed form; then each exp(tX) comes from
        SciPy's expm, whose error grows with ||tX||: where the eigenvectors are dependent to 1e-7 there may
        be no correct digit.

    Notes
    -----
    In the coordinates of the blocks a t costs n exponentials, sines and cosines and a few n products. Where X
    is blocks already, as the published generators are, that is all besides writing the result down. Another
    basis costs n^2 products for each vector and n^3 for each matrix, but nothing for a score
    (`Encoding.score`).

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
    times = _as_numbers(t, "t")
    carrier = Carrier(matrix, unit)
    if v is None:
        refuse_too_many_axes("t", times.ndim, 2)
    if not carrier.certain and times.size:
        warnings.warn(DEPENDENT, RuntimeWarning, stacklevel=2)
    return carrier.matrices(times) if v is None else carrier.vectors(times, _as_vectors(v, len(matrix)))


class Carrier:
    """A generator taken apart once, to carry by any t: components and their closed forms."""

    def __init__(self, X: np.ndarray, unit: float):
        scaled, self.exponent = scale_by_power_of_two(X)
        self.size = len(X)
        tolerance = 10 * len(X) * unit * (float(np.linalg.norm(scaled, 2)) if X.size else 0.0)
        self.parts = closed_forms(scaled, tolerance)

    @property
    def certain(self) -> bool:
        """Whether every component has a closed form."""
        return not any(isinstance(part, ByExpm) for part in self.parts)

    def matrices(self, times: np.ndarray) -> np.ndarray:
        """exp(tX), shape t.shape + (n, n)."""
        ticks = self._ticks(times.ravel())
        out = np.zeros((len(ticks), self.size, self.size))
        for rows in _chunks(len(ticks), self.size**2):
            for part in self.parts:
                part.fill(out[rows], ticks[rows])
        return out.reshape(*times.shape, self.size, self.size)

    def vectors(self, times: np.ndarray, v: np.ndarray) -> np.ndarray:
        """exp(tX) v, the leading axes of v broadcast against t."""
        try:
            shape = broadcast(times.shape, v.shape[:-1])
        except ValueError:
            raise ValueError(
                f"v has shape {v.shape}; expected leading axes that broadcast against t, {times.shape}"
            ) from None
        ticks = self._ticks(np.broadcast_to(times, shape).ravel())
        if v.ndim > 1:
            v = np.broadcast_to(v, (*shape, self.size)).reshape(len(ticks), self.size)
        out = np.empty((len(ticks), self.size))
        for rows in _chunks(len(ticks), self.size):
            own = v if v.ndim == 1 else v[rows]
            for part in self.parts:
                out[rows, part.where] = part.vectors(ticks[rows], own[..., part.where])
        return out.reshape(*shape, self.size)

    def scores(self, times: np.ndarray, which: np.ndarray, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """q^T exp(t X) k for rows q and k in the coordinates of `covectors` and `into`, at times[which]."""
        ticks, total = self._ticks(times), np.zeros(len(which))
        for part in self.parts:
            weights = [weight[which] for weight in part.weights(ticks)]
            products = q[:, part.where] * part.move(weights, np.ascontiguousarray(k[:, part.where]))
            growth = part.growth(ticks)[which]
            if growth.shape[-1] == 1:
                products = np.sum(products, axis=-1, keepdims=True)
            total += np.sum(grown(products, growth), axis=-1)
        return total

    def covectors(self, q: np.ndarray) -> np.ndarray:
        """Queries (..., n) in the coordinates where `scores` takes them."""
        return self._in_parts(q, lambda part, own: part.covectors(own))

    def into(self, k: np.ndarray) -> np.ndarray:
        """Keys (..., n) in the coordinates where `scores` takes them."""
        return self._in_parts(k, lambda part, own: part.into(own))

    def _in_parts(self, x, change):
        out = np.empty(x.shape)
        for part in self.parts:
            out[..., part.where] = change(part, x[..., part.where])
        return out

    def _ticks(self, times):
        with np.errstate(over="ignore"):
            # Not inf, so that the zeros of X keep what they multiply at zero.
            return np.nan_to_num(np.ldexp(times, self.exponent))


def _chunks(count: int, size: int):
    step = max(1, CHUNK // max(1, size))
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def _as_numbers(values, name: str) -> np.ndarray:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiu":
        raise TypeError(f"{name} has dtype {numbers.dtype}; expected real numbers")
    numbers = numbers.astype(np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} has NaN or infinite entries; expected finite numbers")
    return numbers


def _as_vectors(v, size: int) -> np.ndarray:
    vectors = _as_numbers(v, "v")
    if vectors.ndim == 0 or vectors.shape[-1] != size:
        raise ValueError(f"v has shape {vectors.shape}; expected (..., {size}) for this generator")
    return vectors
