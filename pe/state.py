"""What retention remembers of the rows behind it, so that a call can go on where another stopped."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray


class RetentionState(NamedTuple):
    """The decayed sum of all k v^T so far, as of the last row.

    Parameters
    ----------
    S : ndarray, shape (..., K, D, V), or (..., H, D, V) where rates differ within a group of query heads
        ``sum_s e^(-rate*(t - s)) k_s v_s^T``, t the last row's position: of turned keys if they were turned,
        and without the scale. float64 for float64 values, else float32.
    position : number or ndarray, shape of the positions without their last axis, default -1
        Where the last row stands; default positions of the next call go on from there.
    clock : number or ndarray, shape of the clock without its last axis, optional
        What the clock showed at the last row; None without a clock.

    Examples
    --------
    An array that another library kept, one state a head, before the first row of a call:

    >>> import numpy as np
    >>> import pe
    >>> state = pe.RetentionState(np.ones((1, 2, 2)))
    >>> q = k = v = np.zeros((1, 1, 2))
    >>> out, state = pe.retention(q, k, v, multiplier=0.5, state=state, return_state=True)
    >>> state.S, state.position
    (array([[[0.5, 0.5],
            [0.5, 0.5]]]), 0)
    """

    S: NDArray[Any]
    position: Any = -1
    clock: Any = None
