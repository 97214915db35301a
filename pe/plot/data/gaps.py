"""What the figures of a gap u = t - s share: a checked number, and the row of eight equal keys."""

from __future__ import annotations

import math

import numpy as np

from pe._scalars import shown

__all__ = ["KEYS", "finite", "row_weights"]

#: Keys in the row whose attention weights a figure shows; the query stands on the last of them.
KEYS = 8


def finite(name, value):
    """Return value as a float, or raise if it is no finite number of a size that positions may have."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise TypeError(f"{name} must be a number; got {shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number; got {shown(value)} of type "
                        f"{type(value).__name__}") from None
    except OverflowError:
        number = math.inf
    if not abs(number) <= 2**53:
        raise ValueError(f"{name} must be finite and at most 2^53 in size; got {shown(value)}")
    return number


def row_weights(scores):
    """Return the softmax of a row of scores, the weights attention gives its keys.

    Examples
    --------
    >>> row_weights([0, 0, 0, 0]).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    scores = np.asarray(scores, dtype=np.float64)
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()
