"""What a query of attention may see: mask, window, segments and lengths as the C core takes them."""

from __future__ import annotations

import math

import numpy as np

from .._scalars import amount, integer, shown
from . import options
from .arrays import fitting_index, is_value_dtype, keys_index, on_scores, plain, to_array
from .positions import fitted, is_scalar

_INT64 = np.dtype(np.int64)


def mask(mask, scores):
    """Return a mask of bool with one axis, two, or those of the scores, each equal or 1."""
    if isinstance(mask, str):
        raise TypeError(f"mask is {shown(mask)}; expected an array of bool, True = may attend, or "
                        f"causal=True")
    array = to_array("mask", mask)
    if array.dtype != np.bool_:
        raise TypeError(_mask_dtype(array, scores))
    shape = array.shape
    aligned = scores[len(scores) - len(shape):]
    if len(shape) in (1, 2, len(scores)) and all(n in (1, m) for n, m in zip(shape, aligned, strict=True)):
        return array
    raise ValueError(on_scores("mask", shape, scores))


def _mask_dtype(array, scores):
    """Say what to type instead of a mask that is not bool."""
    rule = f"mask has dtype {array.dtype}; expected bool, True = may attend"
    if not (array.dtype.kind in "iuf" or is_value_dtype(array.dtype)):
        return rule
    if not ((array == 0) | (array == 1)).all():
        return f"{rule}; additive masks go to bias="
    shape, index = array.shape, ""
    if not 0 < len(shape) <= len(scores):
        return f"{rule}; it holds only 0 and 1: mask.astype(bool)"
    aligned = all(n in (1, m) for n, m in zip(shape, scores[len(scores) - len(shape):], strict=True))
    if not (aligned and len(shape) in (1, 2, len(scores))):
        index = keys_index(shape, scores)
    return f"{rule}; it holds only 0 and 1: mask.astype(bool){index}, if 1 means may attend"


def window(window):
    """Return (left, open, right): in reach is t - s <= left, or < left if open, and s - t <= right."""
    if window is None:
        return None, False, None
    if isinstance(window, tuple | list):
        if len(window) != 2:
            raise ValueError(f"window has {amount(len(window), 'entry', 'entries')}; expected an int, or a "
                             f"pair (left, right)")
        ends = zip(("window[0]", "window[1]"), window, strict=True)
        left, right = (None if end is None else _distance(name, end) for name, end in ends)
        return left, False, right
    try:
        count = integer("window", window, 1, math.inf)
    except TypeError:
        raise TypeError(f"window is {shown(window)}; expected an int, the number of keys in reach "
                        f"with the query's own, or a pair (left, right) of distances") from None
    except ValueError:
        raise ValueError(f"window is {shown(window)}; expected at least 1, the query's own key, or None for "
                         f"no window") from None
    return float(min(count, 2**62)), True, None


def _distance(name, value):
    distance = options.number(name, value)
    if distance < 0:
        raise ValueError(f"{name} is {shown(value)}; expected a distance >= 0 (None: no bound on "
                         f"this side)")
    return distance


def segments(segments, q_lead, k_lead):
    """Return segments of queries and of keys, each 1-D or with the axes of its operand but the last."""
    if isinstance(segments, tuple):
        if len(segments) != 2:
            raise ValueError(f"segments is a tuple of {len(segments)}; expected a pair (of queries, of keys) "
                             f"or one array for both")
        of_q, of_k = (integers(f"segments[{i}]", part) for i, part in enumerate(segments))
        names = "segments[0]", "segments[1]"
    else:
        of_q = of_k = integers("segments", segments)
        names = "segments", "segments"
        if q_lead[-1] != k_lead[-1]:
            raise ValueError(f"segments is one array, while q has {amount(q_lead[-1], 'row')} and k has "
                             f"{k_lead[-1]}; expected a pair (of queries, of keys)")
    for name, part, of, lead in ((names[0], of_q, "q", q_lead), (names[1], of_k, "k", k_lead)):
        if part.ndim == 0:
            raise TypeError(f"{name} is a single number; expected one for each row")
        fitted(name, part, of, lead)
    return plain(of_q, _INT64), plain(of_k, _INT64)


def lengths(lengths, batch, N):
    """Return kv_lengths as int64 with exactly the batch axes, each equal or 1."""
    array = integers("kv_lengths", lengths)
    one = array.ndim == 0
    if one:
        array = array.reshape((1,) * len(batch))
    shape = array.shape
    if len(shape) != len(batch) or not all(n in (1, m) for n, m in zip(shape, batch, strict=True)):
        expected = f"{batch}, the batch axes alone, each equal or 1" if batch else "one int, without a batch"
        index = fitting_index(shape, batch)
        raise ValueError(f"kv_lengths has shape {shape}; expected {expected}"
                         + (f": kv_lengths{index} fits" if index else ""))
    wrong = (array < 0) | (array > N)
    if wrong.any():
        where = [int(i) for i in np.argwhere(wrong)[0]]
        raise ValueError(f"kv_lengths{'' if one else where} is {array[tuple(where)]}; "
                         f"expected 0 to N = {amount(N, 'key')}")
    return plain(array, _INT64)


def integers(name, value):
    """Return integers of any kind as native int64; an empty list has none that could be anything else."""
    array = np.asarray(value) if is_scalar(value) else to_array(name, value)
    if array.dtype.kind not in "iu" and not (array.size == 0 and isinstance(value, list)):
        fix = f": {name}.astype(np.int64), if they are whole" if array.dtype.kind == "f" else ""
        raise TypeError(f"{name} has dtype {array.dtype}; expected integers{fix}")
    if array.dtype == np.uint64 and (array > np.iinfo(np.int64).max).any():
        raise ValueError(f"{name} has {array.max()}; expected integers within int64")
    return array.astype(np.int64, copy=False)
