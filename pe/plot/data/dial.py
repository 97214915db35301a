"""What the turn figure draws and prints: a bank of clock hands, and a score that knows the gap alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pe.plot.data.gaps import KEYS, finite, row_weights
from pe.plot.data.printed import decimals, plain

__all__ = ["TurnData", "turn"]

#: Dials that a figure shows at most; of more planes, evenly spread ones with the first and the last.
DIALS = 8

#: How far both positions move for the scores that must not change: (5, 2) to (13, 10) and (103, 100).
SHIFTS = (8, 98)


@dataclass(frozen=True)
class TurnData:
    """Everything the turn figure draws and prints.

    Attributes
    ----------
    t, s, gap : float
        Positions of query and key, and t - s.
    freqs, wavelengths : ndarray, shape (L,)
        Radians per position, and positions per full turn, 2 pi / w; inf where a plane stands still.
    query, key : ndarray, shape (L, 2)
        The hands: unit vectors turned by t w and s w from where the content points.
    angles : ndarray, shape (L,)
        From key to query: w (t - s), and the angle between the contents.
    score, moved, other : float, dict, float
        The product of all hands; the same at positions moved together, {(t, s): score}; and with the query
        alone moved on by 4.
    gaps, curve : ndarray, shape (n,)
        Twenty gaps around the chosen one, finely, and the score at each.
    weights : ndarray, shape (8,)
        What attention gives eight keys of equal content, the query on the last: the softmax of the scores
        over sqrt(2 L).
    dials : ndarray of int
        The planes that are drawn.
    """

    t: float
    s: float
    gap: float
    freqs: np.ndarray
    wavelengths: np.ndarray
    query: np.ndarray
    key: np.ndarray
    angles: np.ndarray
    score: float
    moved: dict
    other: float
    gaps: np.ndarray
    curve: np.ndarray
    weights: np.ndarray
    dials: np.ndarray

    def captions(self):
        """Return what stands under each dial: frequency, period, and the plane's share of the score."""
        turns = ["T ∞" if np.isinf(period) else f"T {plain(period)}" for period in self.wavelengths]
        return [(f"w {decimals(self.freqs[k])}", turns[k], f"cos {decimals(math.cos(self.angles[k]))}")
                for k in self.dials]

    def numbers(self):
        """Return the printed numbers, key: (label, text)."""
        def at(t, s):
            return f"score at ({plain(t)}, {plain(s)})"

        first, second = self.moved.items()
        return {
            "gap": ("gap u = t − s", plain(self.gap)),
            "angle": ("angle in the fastest plane", decimals(self.angles[0])),
            "score": (at(self.t, self.s), decimals(self.score)),
            "moved": (at(*first[0]), decimals(first[1])),
            "far": (at(*second[0]), decimals(second[1])),
            "other": (f"{at(self.t + 4, self.s)}, gap {plain(self.gap + 4)}", decimals(self.other)),
        }


def turn(t=5, s=2, *, freqs=None, alpha=0.0, beta=0.0):
    """Compute what the turn figure shows.

    Parameters
    ----------
    t, s : float
        Positions of the query and of the key.
    freqs : float or array_like, shape (L,) or (1, L), optional
        Radians per position of each plane, such as ``Rope.freqs``. Default: ``pe.Rope(16).freqs``.
    alpha, beta : float
        Where the content of query and key points in every plane, in radians.

    Returns
    -------
    TurnData

    Raises
    ------
    TypeError
        If a position or an angle is no number.
    ValueError
        If one is not finite, or freqs are not finite, non-negative and of one axis.

    References
    ----------
    The Dog, the Man, and the Clock, "RoPE, written three ways": the table of w_k for d = 16, and the score
    5.543 at (5, 2), (13, 10) and (103, 100).

    Examples
    --------
    >>> shown = turn(5, 2)
    >>> round(shown.score, 4), [round(score, 4) for score in shown.moved.values()], round(shown.other, 4)
    (5.5431, [5.5431, 5.5431], 5.8922)
    """
    t, s = finite("t", t), finite("s", s)
    alpha, beta = finite("alpha", alpha), finite("beta", beta)
    w = _frequencies(freqs)

    def hands(content, position):
        angle = content + position * w
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)

    def score(t, s):
        return float((hands(alpha, t) * hands(beta, s)).sum())

    def of_gap(u):
        return np.cos(alpha - beta + np.multiply.outer(u, w)).sum(-1)

    gap = t - s
    low = 0.0 if 0 <= gap <= 20 else math.floor(gap) - 10.0
    gaps = np.linspace(low, low + 20, 401)
    with np.errstate(divide="ignore"):
        wavelengths = 2 * math.pi / w
    back = np.arange(KEYS - 1, -1, -1.0)
    return TurnData(
        t=t, s=s, gap=gap, freqs=w, wavelengths=wavelengths, query=hands(alpha, t), key=hands(beta, s),
        angles=alpha - beta + w * gap, score=score(t, s),
        moved={(t + by, s + by): score(t + by, s + by) for by in SHIFTS}, other=score(t + 4, s),
        gaps=gaps, curve=of_gap(gaps), weights=row_weights(of_gap(back) / math.sqrt(2 * len(w))),
        dials=np.unique(np.linspace(0, len(w) - 1, DIALS).round().astype(int)),
    )


def _frequencies(freqs):
    if freqs is None:
        from pe.rope import Rope

        freqs = Rope(16).freqs
    w = np.array(freqs, dtype=np.float64)
    if w.ndim == 2 and len(w) == 1:
        w = w[0]
    w = np.atleast_1d(w)
    if w.ndim != 1 or not w.size:
        raise ValueError(f"freqs must have shape (L,) or (1, L), one position axis; got shape {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any():
        bad = w[~(np.isfinite(w) & (w >= 0))][0]
        raise ValueError(f"freqs must be finite and not negative; got {bad}")
    return w
