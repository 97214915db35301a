"""What the fade figure draws and prints: the multiplier e^(-gamma u), its half-life, and the future."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pe.plot.data.gaps import KEYS, finite, row_weights
from pe.plot.data.printed import decimals, plain

__all__ = ["FadeData", "fade"]

#: The gaps of the table in source document 1 (The Dog, the Man, and the Clock), and its key in the future.
TABLE = (5, 10, 25, 50, 100)
FUTURE = -50

#: Lamps that a figure shows at most.
LAMPS = 48


@dataclass(frozen=True)
class FadeData:
    """Everything the fade figure draws and prints.

    Attributes
    ----------
    gamma, gap, multiplier : float
        The rate per position, the chosen gap u, and e^(-gamma u).
    half_life : float or None
        ln 2 / gamma; None unless gamma > 0.
    gaps, curve : ndarray, shape (n,)
        Gaps from 0 on, and the multiplier at each.
    rulers : ndarray, shape (k, 2)
        (gap, multiplier) after one half-life, two, and so on.
    lamps : ndarray, shape (n, 2)
        (gap, multiplier) of keys at whole gaps.
    table : dict
        {gap: multiplier} at the gaps of the published table, and at 50 in the future.
    line : ndarray, shape (2, 2)
        (gap, multiplier) at the ends of the straight line on a logarithmic axis.
    weights : ndarray, shape (8,)
        What attention gives eight keys of equal content when -gamma u is added to the scores.
    """

    gamma: float
    gap: float
    multiplier: float
    half_life: float | None
    gaps: np.ndarray
    curve: np.ndarray
    rulers: np.ndarray
    lamps: np.ndarray
    table: dict
    line: np.ndarray
    weights: np.ndarray

    def numbers(self):
        """Return the printed numbers, key: (label, text)."""
        rows = {
            "gamma": ("rate γ", plain(self.gamma)),
            "half-life": ("half-life ln 2 / γ", decimals(self.half_life) if self.half_life else "none"),
        }
        for gap in TABLE:
            rows[f"gap {gap}"] = (f"multiplier at gap {gap}", decimals(self.table[gap]))
        rows["future"] = (f"at gap {plain(FUTURE)}, the future", decimals(self.table[FUTURE]))
        return rows


def fade(gamma=0.1, gap=10):
    """Compute what the fade figure shows.

    Parameters
    ----------
    gamma : float
        The rate per position. At 0 nothing fades; below 0 the past explodes.
    gap : float
        The gap to mark.

    Returns
    -------
    FadeData

    Raises
    ------
    TypeError
        If one is no number.
    ValueError
        If one is not finite, or e^(-gamma u) leaves float64 within the figure.

    References
    ----------
    The Dog, the Man, and the Clock, "Real eigenvalue: the fade": the table for gamma = 0.1, its half-life of
    about 7 tokens, and the 148 of a key 50 ahead.

    Examples
    --------
    >>> shown = fade(0.1)
    >>> round(shown.half_life, 4), round(shown.table[25], 4), round(shown.table[-50], 4)
    (6.9315, 0.0821, 148.4132)
    """
    gamma, gap = finite("gamma", gamma), finite("gap", gap)
    half_life = math.log(2) / gamma if gamma > 0 else None
    reach = 5.5 * half_life if half_life else 50.0
    ends = np.array([min(FUTURE, gap), max(100.0, gap)])
    # the largest exponents of the figure, with room for the axes around them
    if np.abs(gamma * np.append(ends, reach)).max() > 400:
        raise ValueError(f"gamma must be at most {400 / np.abs(ends).max():.4g} in size where gaps reach "
                         f"from {ends[0]:g} to {ends[1]:g}, or e^(-gamma u) leaves float64; got {gamma:g}")

    def multiplier(u):
        return np.exp(-gamma * np.asarray(u, dtype=np.float64))

    gaps = np.linspace(0, reach, 221)
    at = np.arange(0, reach, max(1.0, math.ceil(reach / LAMPS)))
    steps = np.arange(1, 6) * half_life if half_life else np.zeros(0)
    return FadeData(
        gamma=gamma, gap=gap, multiplier=float(multiplier(gap)), half_life=half_life,
        gaps=gaps, curve=multiplier(gaps), rulers=np.stack([steps, multiplier(steps)], axis=-1),
        lamps=np.stack([at, multiplier(at)], axis=-1),
        table={u: float(multiplier(u)) for u in (FUTURE, *TABLE)},
        line=np.stack([ends, multiplier(ends)], axis=-1),
        weights=row_weights(-gamma * np.arange(KEYS - 1, -1, -1.0)),
    )
