"""`build_rope_cache`: the tables of cos and sin that tutorials build."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .._keywords import explain_keywords
from .._scalars import integer
from .rope import Rope


@explain_keywords
def build_rope_cache(seq_len: int, head_dim: int, base: float = 10000.0
                     ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the tables (cos, sin) for positions 0..seq_len-1, as RoPE tutorials build them.

    Parameters
    ----------
    seq_len : int
        Number T of positions.
    head_dim : int
        Width D of a head, even.
    base : float, default 10000.0
        Frequencies are ``base**(-2 l / head_dim)``.

    Returns
    -------
    cos, sin : ndarray of float64, shape (T, D/2)
        For ``pe.apply_rope(x, cos, sin)`` with x (..., T, D). They are float64 so that late rows are right;
        they do not change the dtype of the result.

    Raises
    ------
    ValueError
        seq_len below 0, or head_dim odd.

    References
    ----------
    The Dog, the Man, and the Clock, "RoPE in code"; its own table is float32.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> x = np.random.default_rng(0).normal(size=(1, 2, 6, 8))
    >>> y = pe.apply_rope(x, *pe.build_rope_cache(6, 8))
    >>> bool(np.allclose(y, pe.apply_rope(x, positions=np.arange(6))))
    True
    """
    usual = type(head_dim) is int and type(base) is float
    rope = (_rope if usual else _rope.__wrapped__)(head_dim, base)
    rows = seq_len if type(seq_len) is int and 0 <= seq_len < 2**53 else integer("seq_len", seq_len, 0)
    return rope.cache(rows)


@lru_cache(maxsize=64)
def _rope(head_dim: int, base: float) -> Rope:
    width = integer("head_dim", head_dim, 1)
    if width % 2:
        raise ValueError(f"head_dim must be even, planes are pairs of coordinates; got {width}")
    return Rope(width, base)
