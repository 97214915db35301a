"""The fence: what a score must be to come from a generator, tried on anybody's score(q, k, t, s)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._scalars import shown
from .classification import Classification
from .classify import classify
from .fit import Realisation, generator_from, realise
from .transport import transport

GAPS = 40
"""Gaps at which the score is sampled, STEP apart ..."""

STEP = 0.25
"""... in positions, so that a turn is not aliased below 4 pi."""

CLOSE = 1e-6
"""Relative difference up to which two scores are the same."""

REACH = 12
"""Positions up to which every score is tried; beyond, only where it and its generator stay finite ..."""

TRIED = (0.1, -0.25, -1.0, 5.3, -7.7, 12.0, -20.3, 33.0, 64.7, -130.0, 257.0, -520.3, 1031.0)
"""... at these gaps, which were no samples."""

WIDTHS = (8, 4, 2, 1, 16, 32, 64, 128)
"""Head widths that are tried on the score."""


@dataclass(frozen=True, eq=False, repr=False)
class EncodingReport:
    """Which assumptions of the theorem a score keeps.

    Attributes
    ----------
    linear : bool
        The score is linear in the query and in the key, up to a bias: q^T M(t, s) k + b(t, s); and M and b
        come from finitely many coordinates, as a map of the query times a map of the key.
    relative : bool
        It depends on the gap t - s only. False also where it was not reached, because an earlier one failed.
    continuous : bool
        It exists at fractions of a position and has no jumps.
    generator : ndarray or None
        X, if all three hold. The score is that of exp((t - s) X) between spare or given coordinates.
    classification : Classification or None
        The names of X.
    breaks : str
        The assumption that fails, in words; empty if the score is inside the fence.
    counterexample : dict
        The smallest values found that show it.
    width : int
        Head width that was used.
    """

    linear: bool
    relative: bool
    continuous: bool
    generator: np.ndarray | None
    classification: Classification | None
    breaks: str
    counterexample: dict
    width: int

    @property
    def inside(self) -> bool:
        """Whether the score comes from a generator."""
        return self.generator is not None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        if self.classification is not None:
            return f"inside the fence\n{self.classification.summary()}"
        shown = "\n".join(f"  {name} = {value}" for name, value in self.counterexample.items())
        return f"outside the fence: {self.breaks}\n{shown}"


class _Outside(Exception):
    """An assumption fails: which one, why, and the values that show it."""

    def __init__(self, assumption, breaks, **counterexample):
        super().__init__(breaks)
        self.assumption, self.breaks, self.counterexample = assumption, breaks, counterexample


def check_encoding(score: Callable, *, dim: int | None = None) -> EncodingReport:
    """Find the generator behind a score, or the assumption that it breaks.

    Linear, relative and continuous encodings are exp(uX); this tries the three on values, in that order,
    and then recovers X. A finding "inside" is up to what was tried: gaps of both signs, all scales up to 12
    positions and seven further ones up to 1031. Whatever happens only between or beyond those is not seen.

    Parameters
    ----------
    score : callable
        score(q, k, t, s) -> float, for q and k of shape (dim,), t and s numbers (integers come as int). It
        may raise for fractions of positions, as a learned table does; that is then the counterexample.
    dim : int, optional
        Head width. Default: the first of 8, 4, 2, 1, 16, 32, 64, 128 that the score accepts.

    Returns
    -------
    EncodingReport

    Raises
    ------
    TypeError
        score is not callable, or does not return a real number.
    ValueError
        score accepts none of the widths at integer positions.

    Notes
    -----
    An additive bias counts: a bias b(u) is a score of two or more spare coordinates (ALiBi: the slide).
    What no finite number of coordinates gives, such as log distance, breaks linearity in that sense. -|t -
    s| is two half-lines glued at 0: its causal half is a slide, both together are not in the family. Gates
    that depend on the content are outside, but a clock that they move (t as a running sum of steps) is not.

    Examples
    --------
    >>> from pe.generators import check_encoding
    >>> report = check_encoding(lambda q, k, t, s: q @ k - 0.5 * (t - s))
    >>> report.inside, dict(report.classification.kinds)
    (True, {'slide': 1, 'nothing': 8})
    >>> import numpy as np
    >>> table = np.sin(np.arange(100.0)[:, None] ** 2 + np.arange(8))
    >>> report = check_encoding(lambda q, k, t, s: (q + table[t]) @ (k + table[s]))
    >>> report.linear, report.relative, sorted(report.counterexample)
    (True, False, ['at t, s', 'k', 'q', 'scores', 'shifted to'])
    """
    if not callable(score):
        raise TypeError(f"score is {shown(score)}; expected a function score(q, k, t, s)")
    probe = _Probe(score, dim)
    kept = {"linear": False, "relative": False, "continuous": False}
    try:
        for assumption, check in (("linear", _linear), ("relative", _relative), ("continuous", _continuous)):
            check(probe)
            kept[assumption] = True
        generator = _recover(probe)
    except _Outside as found:
        kept[found.assumption] = False
        return EncodingReport(
            **kept,
            generator=None,
            classification=None,
            breaks=found.breaks,
            counterexample=found.counterexample,
            width=probe.dim,
        )
    answer = classify(generator, rtol=1e-7, horizon=GAPS * STEP)
    return EncodingReport(
        **kept, generator=generator, classification=answer, breaks="", counterexample={}, width=probe.dim
    )


class _Probe:
    """The score at a head width that it accepts, and the forms that its values give."""

    def __init__(self, score, dim):
        self.score = score
        self.rng = np.random.default_rng(0)
        errors = []
        for width in WIDTHS if dim is None else (dim,):
            self.dim = width
            try:
                self(np.ones(width), np.ones(width), 1, 0)
            except TypeError:
                raise
            except Exception as error:
                errors.append(f"{width}: {error}")
            else:
                return
        raise ValueError("score accepts no head width at t = 1, s = 0; pass dim=. " + "; ".join(errors[:2]))

    def __call__(self, q, k, t, s) -> float:
        returned = np.asarray(self.score(q.copy(), k.copy(), t, s))
        if returned.dtype.kind not in "iuf" or returned.size != 1:
            raise TypeError(f"score returned {returned!r}; expected one real number")
        value = float(returned.reshape(()))
        if not np.isfinite(value):
            raise ValueError(
                f"score is {value} at t = {t}, s = {s}; expected finite scores: leave out the mask"
            )
        return value

    def vectors(self, count):
        """Random queries and keys."""
        return self.rng.standard_normal((count, 2, self.dim)) * np.arange(1, count + 1)[:, None, None]

    def form(self, t, s) -> np.ndarray:
        """Read off the matrix between (q, 1) and (k, 1), if the score is linear."""
        n = self.dim
        unit, zero = np.eye(n), np.zeros(n)
        out = np.empty((n + 1, n + 1))
        out[n, n] = self(zero, zero, t, s)
        for i in range(n):
            out[i, n] = self(unit[i], zero, t, s) - out[n, n]
            out[n, i] = self(zero, unit[i], t, s) - out[n, n]
        for i in range(n):
            for j in range(n):
                out[i, j] = self(unit[i], unit[j], t, s) - out[i, n] - out[n, j] - out[n, n]
        return out


def _differ(a, b) -> bool:
    return not abs(a - b) <= CLOSE * max(1.0, abs(a), abs(b))


def _linear(probe):
    n = probe.dim
    small = [(a * np.eye(n)[0], b * np.eye(n)[0]) for a, b in ((1, 2), (2, 1), (-1, 1), (2, 2), (3, 3))]
    for t, s in ((1, 0), (3, 1), (7, 2), (2, 5)):
        M = probe.form(t, s)
        for q, k in [*small, *probe.vectors(4)]:
            expected, value = float(np.append(q, 1) @ M @ np.append(k, 1)), probe(q, k, t, s)
            if _differ(expected, value):
                raise _Outside(
                    "linear",
                    "not linear in query and key: the parts do not add up to the whole",
                    q=q.tolist(),
                    k=k.tolist(),
                    **{"t, s": (t, s), "score": value, "sum of parts": expected},
                )


def _relative(probe):
    n = probe.dim
    for t, s in ((0, 0), (1, 0), (0, 1), (2, 0), (5, 2)):
        for shift in (1, 2, 7, 31):
            for q, k in [(np.eye(n)[0], np.eye(n)[0]), *probe.vectors(1)]:
                _same_gap(probe, q, k, (t, s), (t + shift, s + shift))


def _same_gap(probe, q, k, here, there):
    first, second = probe(q, k, *here), probe(q, k, *there)
    if _differ(first, second):
        raise _Outside(
            "relative",
            "not relative: the same gap elsewhere gives another score",
            q=q.tolist(),
            k=k.tolist(),
            **{"at t, s": here, "shifted to": there, "scores": (first, second)},
        )


def _continuous(probe):
    ((q, k),) = probe.vectors(1)
    grid = np.linspace(-12.0, 12.0, 193)

    def at(u):
        try:
            return probe(q, k, float(u), 0.0)
        except Exception as error:
            text = f"not continuous: no score at a fraction of a position ({type(error).__name__}: {error})"
            raise _Outside("continuous", text, gap=float(u)) from None

    grid = np.concatenate([[0.5], grid])  # the plainest fraction first, for the counterexample
    values = np.array([at(u) for u in grid])[1:]
    grid = grid[1:]
    steps = np.abs(np.diff(values))
    for i in sorted(np.argsort(-steps)[:48], key=lambda i: abs(grid[i])):  # the jump of the smallest gap
        (low, high), (left, right) = grid[i : i + 2], values[i : i + 2]
        first = abs(right - left)
        for _ in range(40):
            middle = (low + high) / 2
            value = at(middle)
            if abs(value - left) > abs(right - value):
                high, right = middle, value
            else:
                low, left = middle, value
        if abs(right - left) > max(0.1 * first, 1e-4 * (1 + abs(left))):
            raise _Outside(
                "continuous",
                "not continuous: the score jumps",
                gap=round(float(high), 9),
                jump=float(right - left),
            )
    for u in (0.3, 1.7, 4.1):  # still relative at fractions?
        _same_gap(probe, q, k, (u, 0.0), (u + 0.6, 0.6))


def _recover(probe) -> np.ndarray:
    """X from the forms at equally spaced gaps; raises if no finite number of coordinates gives them."""
    samples = np.array([probe.form(u * STEP, 0.0) for u in range(GAPS)])
    if not np.any(samples):
        return np.zeros((1, 1))
    found = realise(samples)
    if not found.reason:
        try:
            generator = generator_from(found.A) / STEP
        except ValueError as error:
            raise _Outside("linear", f"no exp(uX) gives it: {error}", order=found.order) from None
        _compare(probe, found, generator)
        return _in_own_coordinates(found, generator, probe.dim)
    worst = _bias_error(found, samples)
    raise _Outside(
        "linear",
        "no finite number of coordinates gives this dependence on the gap, so that it is no map of the query "
        "times a map of the key",
        **{"coordinates tried": found.order, "relative error left": worst},
    )


def _compare(probe, found: Realisation, generator):
    """Try the generator, which was found at gaps from 0 on, at others."""
    for u in TRIED:
        far = abs(u) > REACH
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly dependent eigenvectors
            carried = transport(generator, u)
        if far and not np.max(np.abs(carried)) <= 1e6:
            continue  # what grows so far magnifies the error of X
        expected = found.C @ carried @ found.B
        try:
            value = probe.form(u, 0.0)
        except Exception:
            if far:
                continue  # a finite table may end, an exponential overflow
            raise
        size = max(1.0, float(np.max(np.abs(value))), float(np.max(np.abs(expected))))
        if np.max(np.abs(expected - value)) > 1e-5 * size * max(1.0, abs(u) / REACH):
            if far:
                breaks = "the one for near keys fails further on"
            elif u < 0:
                breaks = "the one for keys behind fails ahead of the query (two half-lines glued at 0)"
            else:
                breaks = "the one for keys behind fails between the samples"
            raise _Outside(
                "linear",
                f"no one generator serves all gaps: {breaks}",
                gap=u,
                difference=float(np.max(np.abs(expected - value))),
            )


def _in_own_coordinates(found: Realisation, generator, n) -> np.ndarray:
    """In the coordinates of the head, where M(0) is the identity on it; otherwise as it was found."""
    C, B = found.C[:n], found.B[:, :n]
    if found.order == n and np.allclose(C @ B, np.eye(n), atol=1e-8):
        return C @ generator @ B
    return generator


def _bias_error(found: Realisation, samples) -> float:
    state, worst = found.B, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for sample in samples:
            worst = max(worst, float(np.max(np.abs(found.C @ state - sample))))
            state = found.A @ state
    return worst / float(np.max(np.abs(samples)))
