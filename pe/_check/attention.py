"""attention: values, heads, biases and positions as the C core takes them."""

from __future__ import annotations

import math

import numpy as np

from .._scalars import amount
from .._shapes import broadcast
from . import clocks, options, visibility
from .arrays import ROWS_FIRST, common_dtype, heads_behind_rows, on_scores, plain, to_array, values
from .bias import EXPLODES, REWARDS
from .out import target
from .positions import fitted, per_row
from .rotary import rope_plan

_FLOAT64 = np.dtype(np.float64)


def attention(q, k, v, scale, causal, window, mask, bias, alibi_slopes, decay_rate, clock, softcap, sinks,
              segments, rope, q_positions, k_positions, kv_lengths, return_lse, out, num_threads):
    """Return the arguments of the kernel, and the target of its result."""
    causal, return_lse = options.flag("causal", causal), options.flag("return_lse", return_lse)
    num_threads = options.threads(num_threads)
    q, k, v = _operands(q, k, v)
    batch, heads, scores, shape = _shapes(q.shape, k.shape, v.shape)
    dim = q.shape[-1]
    plan = None if rope is None else rope_plan(rope, dim)
    if scale is not None:
        scale = options.number("scale", scale)
    elif dim == 0 and 0 not in shape:
        raise ValueError("q and k have D = 0, for which 1/sqrt(D) is undefined; pass scale=")
    else:
        scale = 1 / math.sqrt(dim) if dim else 1.0          # to the bit what the core takes by itself
        if plan is not None and rope.softmax_scale != 1:
            scale = rope.softmax_scale / math.sqrt(dim)
    left, left_open, right = visibility.window(window)
    mask = None if mask is None else visibility.mask(mask, scores)
    bias = None if bias is None else _bias(bias, scores)
    slopes = None
    if alibi_slopes is not None:
        numbers = options.slopes("alibi_slopes", alibi_slopes, heads)
        slopes = _penalties(q.shape, "alibi_slopes", numbers, REWARDS)
    rates = None if decay_rate is None else _penalties(q.shape, "decay_rate", decay_rate, EXPLODES)
    softcap = options.cap(softcap)
    sinks = None if sinks is None else _each_head("sinks", options.logits("sinks", sinks), q.shape)
    of_q = of_k = None
    if segments is not None:
        of_q, of_k = visibility.segments(segments, q.shape[:-1], k.shape[:-1])
    lengths = None if kv_lengths is None else visibility.lengths(kv_lengths, batch, k.shape[-2])
    axes = 1 if plan is None else len(plan[0])
    t, s = _positions("q", q_positions, q, axes), _positions("k", k_positions, k, axes)
    q_clock = k_clock = None
    if clock is not None:
        q, q_clock, k_clock = _clocks(clock, q, k, scores, lengths)
        t, of_q = _with_axes(t, q.ndim - (axes == 1)), _with_axes(of_q, q.ndim - 1)
        rates = np.ones(heads) if rates is None else rates
    elif rates is not None:                                 # without a clock a rate is a slope
        slopes, rates = rates if slopes is None else slopes + rates, None

    if len(scores) > 2:
        q, k, v = (a[None] if a.ndim == 2 else a for a in (q, k, v))
    arrays = mask, bias, slopes, rates, q_clock, k_clock, sinks, of_q, of_k, lengths, t, s
    goal = target(out, shape, q.dtype, (k, v, *arrays), in_place=q)
    chosen = (scale, causal, left, left_open, right, mask, bias, slopes, rates, q_clock, k_clock, softcap,
              sinks, of_q, of_k, lengths, plan, t, s, return_lse)
    return (q, k, v, chosen, goal.direct, num_threads), goal


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
        raise ValueError(f"v has {amount(v[-2], 'row')} (shape {v}), k has {k[-2]} (shape {k}); expected "
                         f"equally many")
    heads, key_heads, value_heads = (shape[-3] if len(shape) > 2 else 1 for shape in (q, k, v))
    if value_heads != key_heads:
        raise ValueError(f"v has {amount(value_heads, 'head')} (shape {v}), k has {key_heads} (shape {k}); "
                         f"expected equally many")
    if heads != key_heads and (key_heads == 0 or heads % key_heads):
        raise ValueError(f"q has H = {amount(heads, 'head')} (shape {q}), k has K = {key_heads} (shape {k}); "
                         f"K must divide H{_other_axes(q, k, v)}")
    try:
        lead = broadcast(q[:-3], k[:-3], v[:-3])
    except ValueError:
        raise ValueError(f"the batch axes of q {q[:-3]}, k {k[:-3]} and v {v[:-3]} do not broadcast; "
                         f"expected each equal or 1") from None
    if len(q) == len(k) == len(v) == 2:
        return (), 1, (q[0], k[0]), (q[0], v[1])
    return lead, heads, (*lead, heads, q[-2], k[-2]), (*lead, heads, q[-2], v[-1])


def _other_axes(q, k, v):
    """Say which mistake gives heads that do not fit: q and k in each other's place, or rows before heads."""
    if min(map(len, (q, k, v))) < 3:
        return ""
    (M, H), (N, K), (rows, heads) = (shape[-3:-1] for shape in (q, k, v))
    rows_first = ROWS_FIRST if N == rows and K == heads > 0 and H % K == 0 else ""
    if M and N > M and N % M == 0:
        return f": k has more heads than q; is q really the queries?{rows_first.removeprefix('.')}"
    return rows_first


def _bias(bias, scores):
    if to_array("bias", bias).dtype == np.bool_:
        raise TypeError("bias has dtype bool; a bool mask, True = may attend, goes to mask=")
    array = values("bias", bias)
    shape = array.shape
    aligned = scores[len(scores) - len(shape):]
    if len(shape) > len(scores) or not all(n in (1, m) for n, m in zip(shape, aligned, strict=True)):
        raise ValueError(on_scores("bias", shape, scores))
    if shape and array.strides[-1] == 0:                # alike for all keys: not written out for each
        array = array[..., :1]
    return plain(array if shape else array[None])


def _penalties(q, name, value, reason):
    return _each_head(name, options.penalties(name, value, reason), q)


def _each_head(name, array, q):
    """Return one number for each query head, (H,) float64, from the shape of q."""
    heads = q[-3] if len(q) > 2 else 1
    if array.shape not in ((), (heads,)):
        raise ValueError(f"{name} has shape {array.shape}; expected ({heads},), one for each query head, "
                         f"or one number{ROWS_FIRST if heads_behind_rows(array.shape, q) else ''}")
    return np.ascontiguousarray(array, np.float64) if array.shape else np.full(heads, array, np.float64)


def _positions(of, value, array, axes):
    """Return positions of the rows of q or k; under a rope of several axes coordinates come last."""
    name, lead = f"{of}_positions", array.shape[:-1]
    if value is None and axes == 1:
        return None
    if value is None:
        raise TypeError(f"rope has {axes} axes and {name} is missing; expected an array ({lead[-1]}, {axes})")
    parts = per_row(name, value, of, lead, axes)
    return plain(parts[0] if axes == 1 else np.stack(parts, axis=-1), _FLOAT64)


def _clocks(clock, q, k, scores, lengths):
    """Return q and the clocks of queries and keys, whose axis of heads counts query heads.

    A clock of the keys that serves queries too may have batch axes that q lacks: q gets them, at no cost.
    """
    (q_name, of_q), (k_name, of_k) = clocks.pair(clock)
    (M, N), many = scores[-2:], len(scores) > 2
    fitted(k_name, of_k, "k (by query heads)", (*k.shape[:-3], scores[-3], N) if many else (N,))
    if q_name is not None:
        fitted(q_name, of_q, "q", q.shape[:-1])
        return q, of_q, of_k
    if N == 0:
        return q, np.zeros(M), of_k
    of_q = clocks.last(of_k, M) if lengths is None else clocks.beside(of_k, lengths, M)
    if not many:
        return q, of_q.reshape(M), of_k
    if of_q.ndim > 1:
        q = np.broadcast_to(q, (*scores[:-1], q.shape[-1]))
    return q, _with_axes(of_q, q.ndim - 1), of_k


def _with_axes(array, ndim):
    """Put axes of length 1 in front of an array that has more than one."""
    if array is None or array.ndim == 1:
        return array
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)
