"""Positions: any finite real numbers, one for each row, never cast to the dtype of the values."""

from __future__ import annotations

import numpy as np

from .._scalars import amount, shown
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
        raise TypeError(f"{name} is {shown(value)}; expected np.arange(n) for n positions, [p] for one")
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
    if not _fits(array.shape, lead):
        raise ValueError(_misfit(name, of, array.shape, lead, tail))


def _fits(shape, lead):
    if len(shape) == 1:
        return shape[0] == (lead[-1] if lead else 1)
    return len(shape) == len(lead) and all(p in (1, n) for p, n in zip(shape, lead, strict=True))


def _misfit(name, of, shape, lead, tail):
    """Say what came and what was expected, and what to type if the sizes leave no doubt."""
    came = f"{name} has shape {(*shape, *tail)} and {of}"
    if not lead:
        return f"{came} is one row: expected {(1, *tail)}" + ("" if tail else ", [p] for position p")
    expected = f"{(lead[-1], *tail)}, one for each row"
    if name.endswith("positions") and len(shape) == 1 and not tail:
        rows = f"start, start + {lead[-1]}" if name == "q_positions" else lead[-1]
        expected += ", such as [p]" if lead[-1] == 1 else f", such as np.arange({rows})"
    if len(lead) == 1:
        return f"{came} has {amount(lead[0], 'row')}: expected {expected}"
    free = f"any of {lead}" if tail else "any axis"
    return (f"{came} has rows of shape {lead}: expected {expected}, or {(*lead, *tail)}, where {free} may "
            f"be 1{_advice(name, of, shape, lead, tail)}")


def _advice(name, of, shape, lead, tail):
    """Return the index that puts rows on rows, or else the other order of axes if that fits.

    An index that merely fits, such as one that would give each head a position, is not what was meant.
    """
    if name == "positions" and not tail and shape[:-1] == lead:
        return "; one call turns one array: queries and keys take a call each"
    index = _on_rows(shape, lead)
    if index:
        return f"; {name}{index[:-1]}, :] fits" if tail else f"; {name}{index} fits"
    if shape[:1] != lead[:1] == (1,):                           # one row of the batch for several
        wide = (*shape[:1], *lead[1:])
        index = "" if _fits(shape, wide) else _on_rows(shape, wide)
        if _fits(shape, wide) or index:
            array = of.partition(" ")[0]
            index = index and f", with {name}{index[:-1] + ', :]' if tail else index}"
            return (f". {array} has a batch of 1; for {shape[0]} pass "
                    f"np.broadcast_to({array}, ({shape[0]}, *{array}.shape[1:])){index}")
    swapped = *lead[:-2], lead[-1], lead[-2]
    if not (_fits(shape, swapped) or _on_rows(shape, swapped)):
        return ""
    array = of.partition(" ")[0]
    return f". If {array} is (..., rows, heads, D), pass {array}.swapaxes(-3, -2)"


def _on_rows(shape, lead):
    """Return the index that gives an array the axes of lead, its last on the rows; "" if there is none.

    Where each sequence has a single row, (B,) is a number for each.
    """
    if len(shape) == 1 and len(lead) > 2 and shape[0] == lead[0] != 1 == lead[-1]:
        return f"[:{', None' * (len(lead) - 1)}]"
    if len(shape) < 2 or shape[-1] != lead[-1]:
        return ""
    index = fitting_index(shape, lead)
    return index if index.endswith(":]") else ""


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
        raise ValueError(f"{name} is {shown(value)}; expected an int n >= 0 for 0..n-1, or an array of "
                         f"positions")
    if value > LIMIT:
        raise ValueError(f"{name} is {shown(value)}; expected at most 2^53 positions")
    return int(value)


def _sequence(name, value):
    array = numbers(name, value)
    if array.ndim == 0:
        raise TypeError(f"{name} is {shown(value)}; expected an int n for 0..n-1, or [p] for one position")
    return array
