"""The way back: from one transport matrix, or from measured scores, to the generator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import logm

from ._matrix import as_generator
from .classification import Classification
from .classify import classify
from .transport import transport

CLEAR = 100.0
"""The order of a fit is where the singular values fall by this factor at once. Measured on 64 to 256 samples:
sums of turns, fades and slides fall by 300 and more at their order, log distance, 1 / (1 + u) and square
roots never by more than 20."""

EVEN = 1.5
"""Steps between singular values are even if the largest is at most this times the smallest. Three even steps
down to the last one are no cliff but the geometric fall of a function with a singularity (log distance, 1 /
(1 + u)) seen from far; sums of slow turns, which have none, fall ever faster."""

FLOOR = 1e-15
"""Singular values below this part of the largest are rounding."""

MANY = 16
"""An approximation of more terms than this explains nothing; its generator is not looked for."""

NOISE = 1e-3
"""Scores with more than this relative noise are not said to be inside."""


def generator_of(A, step: float = 1.0) -> np.ndarray:
    """Recover X from A(step) = exp(step X): the logarithm, and what it cannot know.

    Parameters
    ----------
    A : array_like, shape (n, n), or callable
        The transport over one step; or the function t -> A(t), which is then also checked at t = 0 and for
        the group law, and asked at smaller steps until turns cannot hide.
    step : float, default 1
        The gap at which A was taken.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Raises
    ------
    ValueError
        A is singular (an exponential never is); A flips, so that its powers exist for integers only; A
        turns by half a turn, which both directions explain; or the function A is not a one-parameter group.

    Notes
    -----
    A matrix shows a turn only up to whole turns (aliasing): of all frequencies theta + 2 pi k / step the
    one with |theta| step < pi is returned. cos 7u and cos (7 - 2 pi) u agree at every integer. Exactly one
    X belongs to the whole family A(t), not to one step.

    Examples
    --------
    >>> from pe.generators import generator_of, transport, turn
    >>> generator_of(transport(turn(0.5), 2.0), step=2.0).round(12)
    array([[ 0. , -0.5],
           [ 0.5,  0. ]])

    A step too long for the turn, and the same turn as a function:

    >>> float(generator_of(transport(turn(7.0), 1.0))[1, 0].round(4))
    0.7168
    >>> float(generator_of(lambda t: transport(turn(7.0), t))[1, 0].round(4))
    7.0

    References
    ----------
    Hall, Lie Groups, Lie Algebras, and Representations, chapter 2. Higham, Functions of Matrices, chapter
    11 (the principal logarithm).
    """
    if isinstance(step, bool) or not isinstance(step, (int, float, np.integer, np.floating)):
        raise TypeError(f"step is {step!r}; expected a positive number")
    if not 0 < step < np.inf:
        raise ValueError(f"step is {step!r}; expected a positive number")
    if callable(A):
        return _generator_of_family(A, float(step))
    return generator_from(as_generator(A, "A")[0]) / float(step)


def generator_from(A: np.ndarray) -> np.ndarray:
    """Return the real principal logarithm of A, or raise a ValueError that says why there is none."""
    if not len(A):
        return A
    # Not by the eigenvalues: those of a nilpotent part are far from 0 after rounding.
    sigma = np.linalg.svd(A, compute_uv=False)
    if sigma[-1] <= 10 * len(A) * np.finfo(float).eps * sigma[0]:
        raise ValueError("A is singular: it squashes something flat, which no exp(X) does")
    eigenvalues = np.linalg.eigvals(A)
    backward = (eigenvalues.real < 0) & (np.abs(eigenvalues.imag) <= 1e-7 * np.abs(eigenvalues))
    if np.count_nonzero(backward) % 2:
        raise ValueError(
            f"A has the eigenvalue {eigenvalues[backward][0].real:.6g}: a flip, integers only. Its powers "
            "are a relative encoding of integers, but no real generator lies behind them"
        )
    if np.any(backward):
        raise ValueError(
            "A turns by half a turn per step, forward or backward alike: take a smaller step to tell which"
        )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        X = logm(A)
    X = np.ascontiguousarray(X.real)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        miss = (
            float(np.linalg.norm(transport(X, 1.0) - A) / np.linalg.norm(A))
            if np.all(np.isfinite(X))
            else np.inf
        )
    if not miss < 1e-6:
        raise ValueError(f"A has no readable logarithm: its exponential misses A by {miss:.3g}")
    return X


def _generator_of_family(A: Callable, step: float) -> np.ndarray:
    def at(t):
        return as_generator(A(t), f"A({t:g})")[0]

    start = at(0.0)
    if np.linalg.norm(start - np.eye(len(start))) > 1e-9 * np.sqrt(len(start)):
        raise ValueError("A(0) is not the identity, so A is no one-parameter group")
    reason = ""
    # Gaps that no common step divides: two turns that agree at all of them are one.
    gaps = (step * np.array([0.5, np.sqrt(2), np.pi / 10, 3.0])).tolist()
    measured = [at(t) for t in gaps]
    for _ in range(20):
        try:
            X = generator_from(at(step)) / step
        except ValueError as error:
            reason = str(error)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nearly dependent eigenvectors: what misses is not accepted
                expected = transport(X, gaps)
            if all(
                np.linalg.norm(E - M) <= 1e-8 * max(1.0, float(np.linalg.norm(E)))
                for E, M in zip(expected, measured, strict=True)
            ):
                return X
            reason = "A(t) is not exp(tX) for any X: it breaks the group law or jumps"
        step /= 2
    raise ValueError(reason)


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Scores as query^T exp(uX) key.

    Attributes
    ----------
    generator : ndarray, shape (order, order), or None
        X; None if the best recurrence found has no real generator (flips, or a squash to zero).
    query, key : ndarray, shape (order,)
        The contents in its coordinates: the score at gap u is query @ exp(uX) @ key.
    order : int
        Coordinates used.
    residual : float
        Largest error at the samples, relative to the largest score.
    inside : bool
        Whether the samples are those of the family, up to the noise that they show.
    classification : Classification or None
        The names of X.
    reason : str
        Why they are not inside; empty if they are.
    """

    generator: np.ndarray | None
    query: np.ndarray
    key: np.ndarray
    order: int
    residual: float
    inside: bool
    classification: Classification | None
    reason: str = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        head = "inside the family" if self.inside else f"outside the family ({self.reason})"
        lines = [f"{head}: order {self.order}, residual {self.residual:.3g}"]
        if self.classification is not None:
            lines.append(self.classification.summary())
        return "\n".join(lines)


def fit_generator(scores, *, order: int | None = None) -> Fit:
    """Find the generator behind scores at the gaps 0, 1, 2, ...

    Scores of the family are query^T exp(uX) key: sums of polynomials times fades times turns. As a sequence
    they obey a linear recurrence, so that the Hankel matrix of the samples has a finite rank, the order.

    Parameters
    ----------
    scores : array_like of real numbers, shape (N,), N >= 4
        The score at the gaps 0, 1, ..., N - 1 between one query and one key; or an additive bias.
    order : int, optional
        Number of coordinates of X, at most N // 2. Default: where the singular values fall off a cliff.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        Too few samples, samples that are not finite, an order that they cannot show.

    Notes
    -----
    Outside are log distance, T5's buckets, 1 / (1 + u), square roots: their singular values fall slowly and
    without end, so that every order is only an approximation, whose residual is reported. A turn much
    slower than the window looks like a constant or a slide: 64 samples of RoPE's eight planes show order 10
    and not 16. A curve so gentle that few terms give it to the last digit (log1p(0.0001 u) over 64 samples)
    is inside as far as these samples can tell. Turns are known up to aliasing, |theta| < pi.

    Examples
    --------
    >>> import numpy as np
    >>> from pe.generators import fit_generator
    >>> u = np.arange(64)
    >>> fit = fit_generator(np.exp(-0.1 * u) * np.cos(0.5 * u))
    >>> fit.inside, fit.order, fit.classification.row
    (True, 2, 'turn+fade')
    >>> fit_generator(-np.log1p(u)).inside
    False

    References
    ----------
    Ho and Kalman (1966); Kung (1978), a new identification method via singular value decomposition (the
    Hankel matrix); Hua and Sarkar (1990), the matrix pencil method.
    """
    samples = np.asarray(scores)
    if samples.dtype.kind not in "iuf":
        raise TypeError(f"scores has dtype {samples.dtype}; expected real numbers")
    if samples.ndim != 1 or len(samples) < 4:
        raise ValueError(
            f"scores has shape {samples.shape}; expected (N,) with N >= 4: gaps 0, 1, ..., N - 1"
        )
    samples = samples.astype(np.float64)
    if not np.all(np.isfinite(samples)):
        raise ValueError(f"scores[{np.flatnonzero(~np.isfinite(samples))[0]}] is not finite")
    if order is not None:
        if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
            raise TypeError(f"order is {order!r}; expected an integer")
        if not 1 <= order <= len(samples) // 2:
            raise ValueError(
                f"order is {order}; {len(samples)} samples show orders from 1 to {len(samples) // 2}"
            )
    if not np.any(samples):
        nothing = np.zeros((1, 1))
        return Fit(nothing, np.zeros(1), np.zeros(1), 1, 0.0, True, classify(nothing))
    exponent = int(np.frexp(np.max(np.abs(samples)))[1])
    samples = np.ldexp(samples, -exponent)
    found = realise(samples[:, None, None], order)
    query, key = found.C[0], np.ldexp(found.B[:, 0], exponent)
    residual = _residual(found, samples)
    reason = found.reason
    if order is not None:
        reason = "" if residual <= NOISE else f"no order {order} fits"
    elif not reason and residual > max(1e3 * found.noise, 1e-7):
        reason = "the recurrence found does not reproduce the samples"
    try:
        if found.order > MANY and reason:
            raise ValueError(reason)
        generator = generator_from(found.A)
    except ValueError as error:
        return Fit(None, query, key, found.order, residual, False, None, reason or str(error))
    tolerance = min(max(1e-7, 10 * found.noise / found.visible), 1e-3)
    answer = classify(generator, rtol=tolerance, horizon=float(len(samples)))
    return Fit(generator, query, key, found.order, residual, not reason, answer, reason)


@dataclass(frozen=True, eq=False)
class Realisation:
    """M(u) = C A^u B at u = 0, 1, ...; `visible` and `noise` are the singular values at the order's cliff."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    order: int
    noise: float
    visible: float
    reason: str


def realise(samples: np.ndarray, order: int | None = None) -> Realisation:
    """Smallest (A, B, C) with samples[u] = C A^u B, from the singular values of the block Hankel matrix.

    Parameters
    ----------
    samples : ndarray, shape (N, p, q)
    order : int, optional
        Size of A. Default: the last cliff of the singular values.
    """
    N, p, q = samples.shape
    rows = min(N // 2, 256)
    hankel = np.array([samples[i : i + N - rows] for i in range(rows + 1)])  # (rows + 1, columns, p, q)
    columns = hankel.shape[1]
    hankel = hankel.transpose(0, 2, 1, 3).reshape((rows + 1) * p, columns * q)
    now, later = hankel[:-p], hankel[p:]
    U, sigma, Vh = np.linalg.svd(now, full_matrices=False)
    scale = float(sigma[0])
    sigma, reason = sigma / scale, ""
    if order is None:
        order, reason = _order(sigma)
    root = np.sqrt(sigma[:order] * scale)
    A = (U[:, :order] / root).T @ later @ (Vh[:order].T / root)
    B, C = root[:, None] * Vh[:order, :q], U[:p, :order] * root
    noise = float(max(sigma[order], FLOOR)) if order < len(sigma) else FLOOR
    return Realisation(A, B, C, order, noise, float(sigma[order - 1]), reason)


def _order(sigma: np.ndarray) -> tuple[int, str]:
    """Find the last cliff; and why it is none."""
    floored = np.maximum(sigma, FLOOR)
    cliffs = np.flatnonzero(floored[:-1] >= CLEAR * floored[1:])
    cliffs = cliffs[cliffs < 2 * len(sigma) / 3]
    if len(cliffs):
        order = int(cliffs[-1]) + 1
        tail = floored[order:]
        flat = tail[0] <= 100 * FLOOR or np.median(tail) >= tail[0] / 30
        if flat and floored[order] <= NOISE and not _even(floored[: order + 1]):
            return order, ""
    approximate = int(np.count_nonzero(sigma > NOISE))
    if approximate >= max(4, len(sigma) // 3):
        return max(1, len(sigma) // 4), "no recurrence of few terms: noise, a table, or jumps"
    return approximate, "singular values fall without end: every order is an approximation"


def _even(sigma: np.ndarray) -> bool:
    """Whether the singular values step down evenly to the end; the last step may be cut short by rounding."""
    steps = sigma[:-1] / sigma[1:]
    return any(
        len(last) == 3 and np.max(last) <= EVEN * np.min(last)
        for last in (steps[-3:], steps[-4:-1] if len(steps) > 3 and steps[-1] <= steps[-2] else steps[:0])
    )


def _residual(found: Realisation, samples: np.ndarray) -> float:
    state, worst = found.B[:, 0], 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for sample in samples:
            worst = max(worst, abs(float(found.C[0] @ state) - sample))
            state = found.A @ state
    return worst / float(np.max(np.abs(samples))) if np.isfinite(worst) else np.inf
