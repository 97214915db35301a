"""attention: values, heads, masks, biases and positions as the C core takes them."""

from __future__ import annotations

import math

import numpy as np

from . import options
from .arrays import common_dtype, fitting_index, is_value_dtype, plain, to_array, values
from .bias import EXPLODES, REWARDS
from .out import target
from .positions import per_row
from .rotary import rope_plan


def attention(q, k, v, scale, causal, mask, bias, alibi_slopes, decay_rate, rope, q_positions, k_positions,
              return_lse, out, num_threads):
    """Return the arguments of the kernel, and the target of its result."""
    causal, return_lse = options.flag("causal", causal), options.flag("return_lse", return_lse)
    num_threads = options.threads(num_threads)
    q, k, v = _operands(q, k, v)
    lead, heads, scores, shape = _shapes(q.shape, k.shape, v.shape)
    dim = q.shape[-1]
    if scale is not None:
        scale = options.number("scale", scale)
    elif dim == 0 and 0 not in shape:
        raise ValueError("q and k have D = 0, for which 1/sqrt(D) is undefined; pass scale=")
    else:
        scale = 1 / math.sqrt(dim) if dim else 1.0          # to the bit what the core takes by itself
    mask = None if mask is None else _mask(mask, scores)
    bias = None if bias is None else _bias(bias, scores)
    slopes = _slopes(heads, alibi_slopes=alibi_slopes, decay_rate=decay_rate)
    plan = None if rope is None else rope_plan(rope, dim)
    t = None if q_positions is None else _positions("q_positions", q_positions, "q", q)
    s = None if k_positions is None else _positions("k_positions", k_positions, "k", k)
    if max(q.ndim, k.ndim, v.ndim) > 2:
        q, k, v = (a[None] if a.ndim == 2 else a for a in (q, k, v))
    goal = target(out, shape, q.dtype, (k, v, mask, bias, slopes, t, s), in_place=q)
    arguments = q, k, v, scale, causal, mask, bias, slopes, plan, t, s, return_lse, goal.direct, num_threads
    return arguments, goal


def turns(q, k, v, rope, q_positions, k_positions, num_threads):
    """Return the arguments of the kernel apply_rope for q and k, v, and the dtype: a rope of several axes.

    Its positions have several coordinates and drive nothing else, so q and k turn before attention sees them;
    in the compute type, so that 16-bit values are rounded no more often than under a rope of one axis.
    """
    q, k, v = _operands(q, k, v)
    plan, num_threads = rope_plan(rope, q.shape[-1]), options.threads(num_threads)
    wide = np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    calls = []
    for of, array, points in (("q", q, q_positions), ("k", k, k_positions)):
        if points is None:
            raise TypeError(f"rope has {len(plan[0])} axes and {of}_positions is missing; expected an array "
                            f"({array.shape[-2]}, {len(plan[0])})")
        points = per_row(f"{of}_positions", points, of, array.shape[:-1], len(plan[0]))
        calls.append((plain(array, wide), points, plan, False, None, num_threads))
    return *calls, plain(v, wide), q.dtype


def _operands(q, k, v):
    named = {"q": values("q", q), "k": values("k", k), "v": values("v", v)}
    for name, array in named.items():
        if array.ndim < 2:
            raise ValueError(f"{name} has shape {array.shape}; expected (rows, width) for one head, or "
                             f"(..., heads, rows, width)")
    dtype = common_dtype(named)
    return [plain(array, dtype) for array in named.values()]


def _shapes(q, k, v):
    """Return batch axes, heads, and the shapes of scores and result, from the shapes of q, k and v."""
    if k[-1] != q[-1]:
        raise ValueError(f"k has width {k[-1]} (shape {k}), q has width {q[-1]} (shape {q}); expected one D")
    if v[-2] != k[-2]:
        raise ValueError(f"v has {v[-2]} rows (shape {v}), k has {k[-2]} (shape {k}); expected equally many")
    heads, key_heads, value_heads = (shape[-3] if len(shape) > 2 else 1 for shape in (q, k, v))
    if value_heads != key_heads:
        raise ValueError(f"v has {value_heads} heads (shape {v}), k has {key_heads} (shape {k}); "
                         f"expected equally many")
    if heads != key_heads and (key_heads == 0 or heads % key_heads):
        raise ValueError(f"q has H = {heads} heads (shape {q}), k has K = {key_heads} (shape {k}); K must "
                         f"divide H. Heads come before rows, (..., H, M, D): do you want a.swapaxes(-3, -2)?")
    try:
        lead = np.broadcast_shapes(q[:-3], k[:-3], v[:-3])
    except ValueError:
        raise ValueError(f"the batch axes of q {q[:-3]}, k {k[:-3]} and v {v[:-3]} do not broadcast; "
                         f"expected each equal or 1") from None
    if len(q) == len(k) == len(v) == 2:
        return (), 1, (q[0], k[0]), (q[0], v[1])
    return lead, heads, (*lead, heads, q[-2], k[-2]), (*lead, heads, q[-2], v[-1])


def _mask(mask, scores):
    if isinstance(mask, str):
        raise TypeError(f"mask is {mask!r}; expected an array of bool, True = may attend, or causal=True")
    array = to_array("mask", mask)
    if array.dtype != np.bool_:
        raise TypeError(_mask_dtype(array, scores))
    shape = array.shape
    aligned = scores[len(scores) - len(shape):]
    if len(shape) in (1, 2, len(scores)) and all(n in (1, m) for n, m in zip(shape, aligned, strict=True)):
        return array
    index = fitting_index(shape, scores, trim=True)
    raise ValueError(f"mask has shape {shape} and the scores have shape {scores}; expected {scores[-1:]}, "
                     f"{scores[-2:]} or {scores}, any axis being 1" + (f": mask{index}" if index else ""))


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
        index = fitting_index(shape, scores, trim=True)
    return f"{rule}; it holds only 0 and 1: mask.astype(bool){index}, if 1 means may attend"


def _bias(bias, scores):
    if to_array("bias", bias).dtype == np.bool_:
        raise TypeError("bias has dtype bool; a bool mask, True = may attend, goes to mask=")
    array = values("bias", bias)
    shape = array.shape
    aligned = scores[len(scores) - len(shape):]
    if len(shape) > len(scores) or not all(n in (1, m) for n, m in zip(shape, aligned, strict=True)):
        index = fitting_index(shape, scores, trim=True)
        raise ValueError(f"bias has shape {shape}, which does not broadcast to the scores {scores}"
                         + (f"; bias{index} does" if index else ""))
    return plain(array if shape else array[None])


def _slopes(heads, **given):
    """Return the sum of the penalties a position back, (H,) or (1,) float64; None if there are none."""
    total = None
    for name, value in given.items():
        if value is None:
            continue
        array = options.penalties(name, value, REWARDS if name == "alibi_slopes" else EXPLODES)
        if array.shape not in ((), (heads,)):
            raise ValueError(f"{name} has shape {array.shape}; expected ({heads},), one for each query head, "
                             f"or one number")
        full = np.broadcast_to(array.astype(np.float64), (heads,))
        total = full if total is None else total + full
    return None if total is None else np.ascontiguousarray(total)


def _positions(name, value, of, array):
    (positions,) = per_row(name, value, of, array.shape[:-1])
    return plain(positions, np.dtype(np.float64))
