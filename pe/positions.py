"""Positions of the tokens of grids, padded batches and packed rows, and what is computed from them alone."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._check.arrays import to_array, values
from ._check.positions import LIMIT, is_scalar, numbers
from ._keywords import explain_keywords
from ._scalars import amount, integer, positive, shown
from ._shapes import MAX_AXES, refuse_too_many_axes
from .ops._plain import run
from .rope import geometric_freqs

__all__ = ["clock", "grid_positions", "positions_from_lengths", "positions_from_mask", "sinusoidal"]


@explain_keywords
def grid_positions(height: int, width: int, *more: int, prefix: int = 0) -> tuple[NDArray[np.int64], ...]:
    """Return the coordinates of every token of a flattened grid, for `pe.apply_rope_2d`.

    The grid is flattened row by row, the last axis fastest. The coordinate of the last axis comes first: x is
    the column and y the row, as in rope-vit and SAM 2. (Some texts call the row x: swap the two to
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
    Heo, B. et al. (2024). Rotary Position Embedding for Vision Transformer. arXiv:2403.13298.
    Transformer Upgrade Path 4: Two-Dimensional Rotary Position Embedding.

    Examples
    --------
    >>> from pe import grid_positions
    >>> x, y = grid_positions(2, 3, prefix=1)
    >>> x.tolist(), y.tolist()
    ([0, 0, 1, 2, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1])
    """
    sizes = {"height": height, "width": width, **{f"axis {i}": n for i, n in enumerate(more, 2)}}
    shape = tuple(integer(name, n, 0) for name, n in sizes.items())
    if len(shape) >= MAX_AXES:                              # np.indices adds one
        raise ValueError(f"a grid has at most {MAX_AXES - 1} axes; got {len(shape)}")
    axes = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
    front = np.zeros(integer("prefix", prefix, 0), np.int64)
    return tuple(np.concatenate([front, axis]) for axis in axes[::-1])


@explain_keywords
def positions_from_mask(mask: ArrayLike) -> NDArray[np.int64]:
    """Return positions that count the tokens of each padded sequence from 0, wherever the padding is.

    A decoder's batch is padded on the left; without this the first token of a short sequence would stand at
    its column, not at 0. Scores under RoPE, ALiBi or decay see gaps alone, so a shift common to queries *and*
    cached keys changes nothing, but one between them does.

    Parameters
    ----------
    mask : array_like of bool, shape (..., T)
        True for a token, False for padding.

    Returns
    -------
    ndarray of int64, shape (..., T)
        0, 1, 2, ... over the tokens of each row; 0 on padding, which the caller hides (``mask=``).

    Raises
    ------
    TypeError
        A mask that is not bool.
    ValueError
        A single value.

    See Also
    --------
    positions_from_lengths : for sequences packed one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> mask = np.array([[False, False, True, True], [True, True, True, True]])
    >>> positions = pe.positions_from_mask(mask)
    >>> positions.tolist()
    [[0, 0, 0, 1], [0, 1, 2, 3]]
    >>> q = k = v = np.ones((2, 8, 4, 16))                              # batch, heads, rows, width
    >>> p, rope = positions[:, None, :], pe.Rope(16)
    >>> pe.attention(q, k, v, causal=True, mask=mask[:, None, None], rope=rope,
    ...              q_positions=p, k_positions=p).shape
    (2, 8, 4, 16)
    """
    result = _core.positions_from_mask(mask)
    return cast("NDArray[np.int64]", _from_mask(mask) if result is NotImplemented else result)


def _from_mask(mask: ArrayLike) -> object:
    array = to_array("mask", mask)
    if array.dtype != np.bool_:
        binary = array.dtype.kind in "iuf" and bool(((array == 0) | (array == 1)).all())
        hint = "; it holds only 0 and 1: mask.astype(bool)" if binary else ""
        raise TypeError(f"mask has dtype {array.dtype}; expected bool, True for a token{hint}")
    if array.ndim == 0:
        raise ValueError("mask is a single value; expected shape (..., T)")
    return run(_core.positions_from_mask, (array,))


@explain_keywords
def positions_from_lengths(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return positions that start again at 0 in every sequence of a packed row.

    Parameters
    ----------
    lengths : array_like of int, shape (S,)
        Tokens in each sequence. Offsets, as kernels for packed rows take them (0, 3, 5), are
        ``np.diff(offsets)``.

    Returns
    -------
    ndarray of int64, shape (sum of lengths,)
        0..lengths[0]-1, 0..lengths[1]-1, and so on.

    Raises
    ------
    TypeError
        Lengths that are no integers.
    ValueError
        Lengths below 0, or not of shape (S,).

    See Also
    --------
    positions_from_mask : for padded batches.

    Examples
    --------
    >>> import pe
    >>> pe.positions_from_lengths([3, 2]).tolist()
    [0, 1, 2, 0, 1]
    """
    result = _core.positions_from_lengths(lengths)
    return cast("NDArray[np.int64]", _from_lengths(lengths) if result is NotImplemented else result)


def _from_lengths(lengths: ArrayLike) -> object:
    array = to_array("lengths", lengths)
    if array.ndim != 1:
        raise ValueError(f"lengths has shape {array.shape}; expected (S,), one length for each sequence")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"lengths has dtype {array.dtype}; expected integers")
    if (array < 0).any():
        raise ValueError(f"lengths has {array.min()}; expected integers >= 0. Are these offsets? pass "
                         f"np.diff(offsets)")
    if (array > LIMIT).any():
        raise ValueError(f"lengths has {array.max()}; expected at most 2^53 tokens")
    return run(_core.positions_from_lengths, (array.astype(np.int64),))


@explain_keywords
def clock(log_gates: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Return learned time: minus the running sum of the logarithms of gates, for clock= of the ops.

    Where every token decides how much of the past it keeps, a gate g in (0, 1], a key's weight after the
    tokens s+1..t is the product of their gates, ``e^-(c_t - c_s)`` with this clock c: a decay whose time runs
    fast at tokens that forget. All gates alike, ``log g = -rate``, is the ordinary decay at that rate.

    Parameters
    ----------
    log_gates : array_like of float, any shape with an axis of tokens
        log g <= 0. Below -1000 a gate counts as closed, -1000, so that -inf stays finite: e^-1000 is 0 in any
        dtype here.
    axis : int, default -1
        The axis of tokens.

    Returns
    -------
    ndarray of float64, shape of log_gates
        Non-decreasing along `axis`. Keys read it with the axis of tokens last: (..., H, N).

    Raises
    ------
    TypeError
        Gates that are no real numbers.
    ValueError
        A gate above 1 (log g > 0), NaN, a single value, an axis that is not there.

    References
    ----------
    Dao, T., Gu, A. (2024). Transformers are SSMs. arXiv:2405.21060 (segment sums of log gates).
    Lin, Z. et al. (2025). Forgetting Transformer. arXiv:2503.02130 (the same sum as a bias of the softmax).

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> gates = np.array([0.5, 1.0, 0.5, 0.25])
    >>> c = pe.clock(np.log(gates))
    >>> (c / np.log(2)).tolist()
    [1.0, 1.0, 2.0, 4.0]
    >>> round(float(np.exp(c[0] - c[3])), 6)                             # 1 * 1/2 * 1/4
    0.125
    """
    result = _core.clock(log_gates, axis)
    return cast("NDArray[np.float64]", _clock(log_gates, axis) if result is NotImplemented else result)


def _clock(log_gates: ArrayLike, axis: int) -> object:
    gates = values("log_gates", log_gates)
    if gates.ndim == 0:
        raise ValueError("log_gates is a single number; expected an axis of tokens")
    axis = integer("axis", axis, -gates.ndim)
    if axis >= gates.ndim:
        raise ValueError(f"axis is {axis}; log_gates has {amount(gates.ndim, 'axis', 'axes')} (shape "
                         f"{gates.shape})")
    if not (gates <= 0).all():
        bad = gates[~(gates <= 0)][0]
        why = "" if np.isnan(bad) else ": a gate above 1 explodes. Are these gates? pass np.log(gates)"
        raise ValueError(f"log_gates has {bad}; expected numbers <= 0{why}")
    return run(_core.clock, (gates.astype(np.float64), axis))


@explain_keywords
def sinusoidal(positions: ArrayLike, dim: int, *, base: float = 10000.0) -> NDArray[np.float64]:
    """Return the sinusoidal encoding of the first Transformer, which is *added* to a token's vector.

    ``(sin(p w_l), cos(p w_l))`` stand at coordinates (2l, 2l+1), w_l = base^(-2l/dim). The table turns as
    `apply_rope` does, but as a vector added to content: a score then holds content times position, and
    depends on where the two tokens stand, not on their gap alone. It is here for that comparison.

    Parameters
    ----------
    positions : array_like, shape (...)
        Any finite numbers up to 2^53, integers, float32 or float64.
    dim : int
        Width, even.
    base : float, default 10000.0
        Ratio between the fastest and (nearly) the slowest frequency.

    Returns
    -------
    ndarray of float64, shape (..., dim)
        Values in [-1, 1].

    Raises
    ------
    TypeError
        A bare number as positions.
    ValueError
        An odd width, positions that are not finite.

    References
    ----------
    Vaswani, A. et al. (2017). Attention Is All You Need. arXiv:1706.03762, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> pe.sinusoidal([0, 1], 4).round(6)
    array([[0.      , 1.      , 0.      , 1.      ],
           [0.841471, 0.540302, 0.01    , 0.99995 ]])

    Alone it is relative, the product of two rows depends on the gap; added to content it is not:

    >>> p = pe.sinusoidal([3, 0, 103, 100], 16)
    >>> [round(float(p[i] @ p[i + 1]), 4) for i in (0, 2)]
    [5.5431, 5.5431]
    >>> x = p + np.tile([1.0, 0.0], 8)
    >>> [round(float(x[i] @ x[i + 1]), 4) for i in (0, 2)]
    [14.9305, 15.929]
    """
    if is_scalar(positions):
        raise TypeError(f"positions is {shown(positions)}; expected np.arange(n) for n positions, [p] "
                        f"for one")
    usual = type(dim) is int and type(base) is float
    plan = (_plan if usual else _plan.__wrapped__)(dim, base)
    result = _core.rope_tables(positions, plan, True)
    if result is NotImplemented:
        array = numbers("positions", positions)
        refuse_too_many_axes("positions", array.ndim, 1)
        result = run(_core.rope_tables, (array, plan, True))
    return cast("NDArray[np.float64]", result)


@lru_cache(maxsize=64)
def _plan(dim: int, base: float) -> tuple[NDArray[np.float64], int, int, float, int]:
    """Return the frequencies as the core takes them, which turn nothing here."""
    width = integer("dim", dim, 2)
    if width % 2:
        raise ValueError(f"dim is {dim}; expected an even width, a sine and a cosine for each frequency")
    return geometric_freqs(width, positive("base", base))[None], 0, 1, 1.0, 0
