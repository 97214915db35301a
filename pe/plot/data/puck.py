"""What the slide figure draws and prints: a puck on ice, and the bias of ALiBi that reads its position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pe.plot.data.gaps import KEYS, finite, row_weights
from pe.plot.data.portrait import transport_2x2
from pe.plot.data.printed import decimals, plain
from pe.slopes import alibi_slopes

__all__ = ["SlideData", "slide"]

#: Longest gap a figure counts out in ticks.
LONGEST = 200


@dataclass(frozen=True)
class SlideData:
    """Everything the slide figure draws and prints.

    Attributes
    ----------
    m, t, s, gap : float
        The query's coefficient, the positions of query and key, and t - s.
    A : ndarray, shape (2, 2)
        A(u) = [[1, u], [0, 1]] at that gap.
    key, carried : ndarray, shape (2,)
        The key's two slots (0, 1), a puck at 0 with speed 1, and A(u) times them.
    bias : float
        (m, 0) A(u) (0, 1)^T, which is m u.
    ticks : ndarray, shape (n, 2)
        The puck after each whole tick on its way, and where it stops.
    square : ndarray, shape (4, 2)
        A(u) times the corners of the unit square.
    span : tuple of float
        The gaps shown, which are the puck's positions too.
    slopes, fan : ndarray, shapes (8,) and (8, 2)
        ALiBi's slopes for eight heads, and their bias at both ends of the span.
    line : ndarray, shape (2, 2)
        (gap, m gap) at both ends of the span.
    weights : ndarray, shape (8,)
        What attention gives eight keys of equal content when m u is added to the scores.
    """

    m: float
    t: float
    s: float
    gap: float
    A: np.ndarray
    key: np.ndarray
    carried: np.ndarray
    bias: float
    ticks: np.ndarray
    square: np.ndarray
    span: tuple[float, float]
    slopes: np.ndarray
    fan: np.ndarray
    line: np.ndarray
    weights: np.ndarray

    def numbers(self):
        """Return the printed numbers, key: (label, text)."""
        (a, b), (c, d) = self.A
        x, y = self.carried
        return {
            "gap": ("gap u = t − s", plain(self.gap)),
            "A": ("A(u) = exp(uX)", " ".join(map(decimals, (a, b, c, d)))),
            "puck": ("A(u) (0, 1), the puck", f"{decimals(x)}, {decimals(y)}"),
            "bias": ("(m, 0) A(u) (0, 1), the bias", decimals(self.bias)),
            "slope": ("slope of ALiBi, −m", plain(-self.m) if self.m < 0 else "none"),
            "half": ("weight halves every", decimals(math.log(2) / -self.m) if self.m < 0 else "never"),
        }


def slide(m=-0.5, t=7, s=4):
    """Compute what the slide figure shows.

    Parameters
    ----------
    m : float
        What the query multiplies the puck's position with. A penalty for distance needs m < 0: m = -slope.
    t, s : float
        Positions of the query and of the key, at most 200 apart.

    Returns
    -------
    SlideData

    Raises
    ------
    TypeError
        If one is no number.
    ValueError
        If one is not finite, or the positions lie more than 200 apart.

    References
    ----------
    The Dog, the Man, and the Clock, "Defective: the slide": the query's slots (m, 0) and the key's (0, 1).
    Slopes: Press, O. et al. (2022), Train Short, Test Long, arXiv:2108.12409.

    Examples
    --------
    >>> shown = slide(-0.5, 7, 4)
    >>> shown.carried.tolist(), shown.bias, shown.weights[-1].round(4).item()
    ([3.0, 1.0], -1.5, 0.4008)
    """
    m, t, s = finite("m", m), finite("t", t), finite("s", s)
    gap = t - s
    if abs(gap) > LONGEST:
        raise ValueError(f"t and s must lie at most {LONGEST} apart; got t={t:g} and s={s:g}")
    key, corners = np.array([0.0, 1.0]), np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    A = transport_2x2([[0, 1], [0, 0]], gap)
    whole = math.copysign(1, gap) * np.arange(math.floor(abs(gap)) + 1)
    times = np.append(whole[whole != gap], gap)
    span = (min(-0.4, gap - 1.5), max(KEYS + 0.5, gap + 2.5))
    slopes, ends = alibi_slopes(KEYS), np.array(span)
    return SlideData(
        m=m, t=t, s=s, gap=gap, A=A, key=key, carried=A @ key, bias=float([m, 0] @ A @ key),
        ticks=np.stack([times, np.ones_like(times)], axis=-1), square=corners @ A.T, span=span,
        slopes=slopes, fan=-slopes[:, None] * ends, line=np.stack([ends, m * ends], axis=-1),
        weights=row_weights(m * np.arange(KEYS - 1, -1, -1.0)),
    )
