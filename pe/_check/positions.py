"""Positions: any finite real numbers, one for each row, never cast to the dtype of the values."""

from __future__ import annotations

import numpy as np

from .arrays import fitting_index, to_array

LIMIT = 2**53       # beyond it float64 skips integers


def numbers(name, value, kind="positions"):
    """Return positions of any shape as native int64 or float64, all finite and at most 2^53."""
    array = to_array(name, value)
    dtype = array.dtype
    if not (dtype.kind in "iu" or dtype.type in (np.float32, np.float64)):
        why = (f"; 16 bits would merge neighbouring {kind}: pass integers or float32"
               if dtype.itemsize == 2 and dtype.kind in "fV" else "")
        raise TypeError(f"{name} has dtype {dtype}; {kind} are integers, float32 or float64{why}")
    good = (array >= -LIMIT) & (array <= LIMIT)
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(f"{name}{list(where) if where else ''} is {array[where]}; expected finite numbers "
                         f"of at most 2^53 in size")
    return array.astype(np.int64 if dtype.kind in "iu" else np.float64, copy=False)


def is_scalar(value):
    """Say whether value is a bare number rather than a sequence of positions."""
    return getattr(value, "ndim", None) == 0 if hasattr(value, "ndim") else isinstance(value, (int, float))


def per_row(name, value, of, lead, axes=1, nd=False):
    """Return one position for each row of the array called `of`, whose axes but the last are `lead`.

    As a tuple of `axes` arrays, each 1-D along the last of lead or with exactly the axes of lead. With
    several axes, or one and nd, the coordinates of a position are the last axis of value.
    """
    if is_scalar(value):
        raise TypeError(f"{name} is {value!r}; expected np.arange(n) for n positions, [p] for one")
    array = numbers(name, value)
    nd = nd or axes > 1
    if nd and (array.ndim < 2 or array.shape[-1] != axes):
        raise ValueError(f"{name} has shape {array.shape}; a rope with {axes} "
                         f"{'axes' if axes > 1 else 'axis'} takes positions (..., {axes}), e.g. "
                         f"{'np.stack([x, y], axis=-1)' if axes > 1 else f'{name}[..., None]'}")
    parts = tuple(array[..., axis] for axis in range(axes)) if nd else (array,)
    fitted(name, parts[0], of, lead, (axes,) if nd else ())
    return parts


def fitted(name, array, of, lead, tail=()):
    """Raise unless an array is 1-D along the last of lead, or has exactly its axes, each equal or 1."""
    shape = array.shape
    if len(shape) == 1:
        fits = shape[0] == (lead[-1] if lead else 1)
    else:
        fits = len(shape) == len(lead) and all(p in (1, n) for p, n in zip(shape, lead, strict=True))
    if not fits:
        raise ValueError(_misfit(name, of, shape, lead, tail))


def _misfit(name, of, shape, lead, tail):
    rows = lead[-1] if lead else 1
    expected = f"{(rows, *tail)}, one for each row"
    if len(lead) > 1:
        expected += f", or {(*lead, *tail)} with any of {lead} being 1"
    index = fitting_index(shape, lead)
    if tail and index:
        index = f"{index[:-1]}, :]"
    if lead:
        came = f"{of} has rows of shape {lead}" if len(lead) > 1 else f"{of} has {rows} rows"
    else:
        came = f"{of} is one row"
    return (f"{name} has shape {(*shape, *tail)} and {came}: expected {expected}"
            + (f"; {name}{index} fits" if index else ""))


def counted(q_positions, k_positions):
    """Return query and key positions of a bias: an int n is 0..n-1, two ints M, N the last M of 0..N-1."""
    q_count, k_count = _count("q_positions", q_positions), _count("k_positions", k_positions)
    if q_count is not None:
        start = 0 if k_count is None else k_count - q_count
        queries = np.arange(start, start + q_count)
    else:
        queries = _sequence("q_positions", q_positions)
    if k_positions is None:
        keys = queries
    else:
        keys = np.arange(k_count) if k_count is not None else _sequence("k_positions", k_positions)
    return queries.astype(np.float64), keys.astype(np.float64)


def _count(name, value):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return None
    if value < 0:
        raise ValueError(f"{name} is {value}; expected an int n >= 0 for 0..n-1, or an array of positions")
    return int(value)


def _sequence(name, value):
    array = numbers(name, value)
    if array.ndim == 0:
        raise TypeError(f"{name} is {value!r}; expected an int n for 0..n-1, or [p] for one position")
    return array
