"""Positions of the tokens of a grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._scalars import integer

__all__ = ["grid_positions"]


def grid_positions(height: int, width: int, *more: int, prefix: int = 0) -> tuple[NDArray[np.int64], ...]:
    """Return the coordinates of every token of a flattened grid, for `pe.apply_rope_2d`.

    The grid is flattened row by row, the last axis fastest. The coordinate of the last axis comes first: x is
    the column and y the row, as in rope-vit and SAM 2. (Source document 2 calls the row x: swap the two to
    follow it.)

    Parameters
    ----------
    height, width : int
        Rows and columns.
    *more : int
        Further axes: ``grid_positions(frames, height, width)`` returns ``(x, y, frame)``.
    prefix : int, default 0
        Number of tokens in front of the grid that have no place in it, such as a class token. They stand at
        (0, 0), where a rotary encoding is the identity.

    Returns
    -------
    pos_x, pos_y, ... : ndarray of int64, shape (prefix + height * width * ...,)
        One array for each axis, the last axis first.

    Raises
    ------
    ValueError
        A size or prefix below 0.
    TypeError
        A size or prefix that is no integer.

    References
    ----------
    Heo, B. et al. (2024). Rotary Position Embedding for Vision Transformer. arXiv:2403.13298. Source document
    2 (Transformer Upgrade Path 4: Two-Dimensional Rotary Position Embedding).

    Examples
    --------
    >>> from pe import grid_positions
    >>> x, y = grid_positions(2, 3, prefix=1)
    >>> x.tolist(), y.tolist()
    ([0, 0, 1, 2, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1])
    """
    sizes = {"height": height, "width": width, **{f"axis {i}": n for i, n in enumerate(more, 2)}}
    shape = tuple(integer(name, n, 0) for name, n in sizes.items())
    axes = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
    front = np.zeros(integer("prefix", prefix, 0), np.int64)
    return tuple(np.concatenate([front, axis]) for axis in axes[::-1])
