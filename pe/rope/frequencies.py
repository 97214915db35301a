"""How fast the planes turn: frequencies from a base, and a check of those that are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_AXES = 8        # coordinates of a position that the C core takes


def geometric_freqs(width: int, base: float = 10000.0) -> NDArray[np.float64]:
    """Return w_l = base^(-2l/width) for the width/2 planes of a rotary encoding."""
    return np.power(base, -np.arange(0, width, 2) / width)


def checked_freqs(freqs: ArrayLike) -> NDArray[np.float64]:
    """Return angular frequencies as a new (n_axes, L) float64 array, or raise."""
    from .._check.arrays import to_array

    given = to_array("freqs", freqs)
    if given.dtype.type is np.uint16:
        raise TypeError("freqs has dtype uint16; bfloat16 bits? pass freqs.view(ml_dtypes.bfloat16), or "
                        "freqs.astype(np.float64) for numbers")
    if given.dtype.kind not in "iuf":
        raise TypeError(f"freqs must be real numbers; got dtype {given.dtype}")
    if given.ndim not in (1, 2) or given.size == 0:
        raise ValueError(f"freqs must have shape (L,) or (n_axes, L), neither empty; got shape {given.shape}")
    if given.ndim == 2 and len(given) > MAX_AXES:
        raise ValueError(f"freqs has {len(given)} axes of positions (shape {given.shape}); expected at most "
                         f"{MAX_AXES}")
    w = np.array(np.atleast_2d(given), dtype=np.float64, order="C") + 0.0       # + 0.0: no negative zeros
    if not np.isfinite(w).all():
        raise ValueError(f"freqs must be finite; got {w[~np.isfinite(w)][0]}")
    # One axis only: in a table of several axes a row may well start with the zeros of another axis.
    if len(w) == 1 and (np.diff(w[0]) >= 0).all() and w[0, -1] > w[0, 0]:
        raise ValueError(f"freqs rise, from {w[0, 0]:.6g} to {w[0, -1]:.6g}; expected radians per position, "
                         "fastest plane first. Are these periods? pass 1/freqs")
    return w
