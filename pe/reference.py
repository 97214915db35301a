"""The NumPy twin of every op: the same signature, dense, in float64, short enough to read at one sitting.

Each twin is the definition of its op. It widens the values to float64, computes without a thought for memory
or speed, and rounds once to the dtype the op returns, so it is also what the tests hold the C core against.

Letters: B batch, H query heads, K key heads, M queries, N keys, D head width, V value width, L planes,
t query position, s key position, u = t - s the gap. Checks are NumPy's own: the ops explain mistakes, the
twins do not. ``num_threads`` is accepted and means nothing here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .rope import canonical_layout
from .state import RetentionState

__all__ = ["alibi_bias", "apply_rope", "apply_rope_2d", "apply_rope_nd", "attention", "attention_weights",
           "clock", "decay_bias", "merge_attention", "positions_from_lengths", "positions_from_mask",
           "retention", "shift", "sinusoidal"]


def apply_rope(x, cos=None, sin=None, *, positions=None, rope=None, freqs=None, base=None, layout=None,
               rotary_dim=None, inverse=False, out=None, num_threads=None):
    """Turn plane l of x (..., D) by the angle p*w_l; twin of `pe.apply_rope`."""
    (x,), dtype = _widen(x)
    amplitude, offset = 1.0, 0
    if rope is not None:
        freqs, layout, amplitude, offset = rope.freqs, rope.layout, rope.amplitude, rope.rotary_offset
    elif freqs is None:
        freqs = _geometric(x.shape[-1] if rotary_dim is None else rotary_dim, base)
    if positions is not None:
        angle = _angles(positions, freqs)                                   # (..., T, L)
        cos, sin = amplitude * np.cos(angle), amplitude * np.sin(angle)
    return _finish(_turn(x, cos, sin, layout, inverse, offset), dtype, out)


def apply_rope_2d(x, pos_x, pos_y, *, freqs=None, base=None, layout=None, inverse=False, out=None,
                  num_threads=None):
    """Turn the first D/2 coordinates by pos_x, the last D/2 by pos_y; twin of `pe.apply_rope_2d`."""
    (x,), dtype = _widen(x)
    if freqs is None:
        freqs = _geometric(x.shape[-1] // 2, base)
    freqs = np.broadcast_to(freqs, (2, np.shape(freqs)[-1]))                # one row for each axis
    halves = [apply_rope(part, positions=p, freqs=w, layout=layout, inverse=inverse)
              for part, p, w in zip(np.split(x, 2, axis=-1), (pos_x, pos_y), freqs, strict=True)]
    return _finish(np.concatenate(halves, axis=-1), dtype, out)


def apply_rope_nd(x, positions, freqs, *, layout=None, rate=None, inverse=False, out=None, num_threads=None):
    """Turn plane l of x by the angle p @ w_l, p with several coordinates; twin of `pe.apply_rope_nd`."""
    (x,), dtype = _widen(x)
    p, w = np.asarray(positions, np.float64), np.asarray(freqs, np.float64)
    p = -p if inverse else p
    angle = p @ (np.moveaxis(w, 1, 0) if w.ndim == 3 else w)                # (..., T, L) or (..., H, T, L)
    fade = 1.0 if rate is None else np.exp(-p @ np.reshape(rate, (len(w), -1)))
    return _finish(_turn(x, fade * np.cos(angle), fade * np.sin(angle), layout, False), dtype, out)


def shift(rope, k, delta, *, out=None, num_threads=None):
    """Turn k by delta more, its amplitude left as it is; twin of `pe.Rope.shift`."""
    tail = () if len(rope.freqs) == 1 else (len(rope.freqs),)
    moves = np.zeros((*np.shape(k)[:-1], *tail)) + delta                    # one for every row
    (k,), dtype = _widen(k)
    angle = _angles(moves, rope.freqs)
    turned = _turn(k, np.cos(angle), np.sin(angle), rope.layout, False, rope.rotary_offset)
    return _finish(turned, dtype, out)


def decay_bias(q_positions, k_positions=None, *, rate=None, half_life=None, multiplier=None, clock=None,
               causal=True, dtype=None, out=None, num_threads=None):
    """-rate*(t - s), the logarithm of a decay e^(-rate*u); twin of `pe.decay_bias`."""
    given = next((g for g in (rate, half_life, multiplier) if g is not None), 1.0)      # 1: with a clock
    dtype = _bias_dtype(given, dtype, out)
    given = np.asarray(given, np.float64)
    with np.errstate(divide="ignore"):
        rate = np.log(2) / given if half_life is not None else given if multiplier is None else -np.log(given)
    gaps = times = _gaps(q_positions, k_positions)
    if clock is not None:
        times = _clock_gaps(clock, np.arange(-gaps.shape[-2], 0))           # queries are the last M of N
    return _finish(_penalty(rate, times, hidden=causal & (gaps < 0)), dtype, out)


def alibi_bias(q_positions, k_positions=None, *, slopes, causal=True, dtype=None, out=None, num_threads=None):
    """-slope*(t - s), ALiBi's penalty on distance; twin of `pe.alibi_bias`."""
    dtype = _bias_dtype(slopes, dtype, out)
    gaps = _gaps(q_positions, k_positions)
    return _finish(_penalty(slopes, gaps, hidden=causal & (gaps < 0)), dtype, out)


def attention(q, k, v, *, scale=None, causal=False, window=None, mask=None, bias=None, alibi_slopes=None,
              decay_rate=None, clock=None, softcap=None, sinks=None, segments=None, rope=None,
              q_positions=None, k_positions=None, kv_lengths=None, return_lse=False, out=None,
              num_threads=None):
    """Mean of the values under softmax weights of the visible keys; twin of `pe.attention`."""
    (q, k, v), dtype = _widen(q, k, v)
    one_head = q.ndim == k.ndim == v.ndim == 2
    q, k, v = (a[None] if a.ndim == 2 else a for a in (q, k, v))            # now with a head axis
    stages = _stages(q, k, scale, causal, window, mask, bias, alibi_slopes, decay_rate, clock, softcap, sinks,
                     segments, rope, q_positions, k_positions, kv_lengths)
    v = np.repeat(v, q.shape[-3] // max(v.shape[-3], 1), axis=-3)
    with np.errstate(all="ignore"):
        result = _mix(stages.weights, stages.visible, v)                    # (..., H, M, V)
    lse = np.broadcast_to(stages.lse, result.shape[:-1])                    # v may have more leading axes
    if one_head:
        result, lse = result[0], lse[0]
    result = _finish(result, dtype, out)
    return (result, lse.astype(np.float64 if dtype == np.float64 else np.float32)) if return_lse else result


def attention_weights(q, k, *, scale=None, causal=False, window=None, mask=None, bias=None, alibi_slopes=None,
                      decay_rate=None, clock=None, softcap=None, sinks=None, segments=None, rope=None,
                      q_positions=None, k_positions=None, kv_lengths=None, stage="weights"):
    """One of the stages of attention, hidden keys at -inf once biased; twin of `pe.attention_weights`."""
    (q, k), dtype = _widen(q, k)
    one_head = q.ndim == k.ndim == 2
    q, k = (a[None] if a.ndim == 2 else a for a in (q, k))
    stages = _stages(q, k, scale, causal, window, mask, bias, alibi_slopes, decay_rate, clock, softcap, sinks,
                     segments, rope, q_positions, k_positions, kv_lengths)
    result = getattr(stages, stage)
    if stage == "biased":
        result = np.where(stages.visible, result, -np.inf)
    return _finish(result[0] if one_head else result, dtype, None)


class _Stages(NamedTuple):
    """What becomes of q k^T, each (..., H, M, N), and the log of the softmax's normaliser.

    biased is what the softmax sees, -inf where a key is hidden.
    """

    scores: np.ndarray
    softcapped: np.ndarray
    biased: np.ndarray
    weights: np.ndarray
    visible: np.ndarray
    lse: np.ndarray


def _stages(q, k, scale, causal, window, mask, bias, alibi_slopes, decay_rate, clock, softcap, sinks,
            segments, rope, q_positions, k_positions, kv_lengths):
    """Scale, cap, add the biases, hide, normalise: the order of attention, for q and k with a head axis."""
    (heads, M, D), (key_heads, N) = q.shape[-3:], k.shape[-3:-1]
    group = heads // max(key_heads, 1)                                      # head h reads key head h // group
    n = N if kv_lengths is None else np.asarray(kv_lengths, np.int64)[..., None, None]
    row = np.arange(M) + (n - M)                                            # the key beside each query
    t = row if q_positions is None else np.asarray(q_positions)
    s = np.arange(N) if k_positions is None else np.asarray(k_positions)
    if rope is not None:
        q = apply_rope(_spread(q, t, len(rope.freqs)), positions=t, rope=rope)
        k = apply_rope(k, positions=s, rope=rope)
        if len(rope.freqs) > 1:                                             # several axes serve rope alone
            t, s = row, np.arange(N)
    gaps = _gaps(t, _by_query_head(s, group, key_heads))

    with np.errstate(all="ignore"):
        k = np.repeat(k, group, axis=-3)
        if scale is None:
            scale = D ** -0.5 * (1.0 if rope is None else rope.softmax_scale)
        scores = scale * (q @ np.swapaxes(k, -1, -2))     # (..., H, M, N)
        capped = scores if softcap is None else softcap * np.tanh(scores / softcap)
        bias = np.zeros(()) if bias is None else np.asarray(bias, np.float64)
        biased = capped + bias
        if alibi_slopes is not None:
            biased = biased + _penalty(np.reshape(alibi_slopes, (-1,)), gaps)
        if (clock is not None or decay_rate is not None) and N:
            rate = np.reshape(1.0 if decay_rate is None else decay_rate, (-1,))
            times = gaps if clock is None else _clock_gaps(clock, np.maximum(row, 0))
            biased = biased + _penalty(rate, times)
        visible = _visible(gaps, bias, causal, window, mask)
        if kv_lengths is not None:
            visible = visible & (np.arange(N) < n[..., None])
        if segments is not None:
            of_q, of_k = segments if isinstance(segments, tuple) else (segments, segments)
            of_k = _by_query_head(np.asarray(of_k), group, key_heads)
            visible = visible & (np.asarray(of_q)[..., :, None] == of_k[..., None, :])
        biased = np.where(visible, biased, -np.inf)
        weights, lse = _softmax(biased, sinks)
    return _Stages(scores, capped, biased, weights, visible, lse)


def merge_attention(outs, lses):
    """Attention over all keys from parts over disjoint keys; twin of `pe.merge_attention`."""
    outs, dtype = _widen(*outs)
    outs, lses = np.stack(outs), np.stack([np.asarray(lse, np.float64) for lse in lses])    # parts first
    with np.errstate(all="ignore"):
        top = lses.max(axis=0)
        weights = np.where(lses == top, 1.0, np.exp(lses - top))            # inf - inf, too
        weights = np.where(lses == -np.inf, 0.0, weights)
        total = weights.sum(axis=0)
        lse = top + np.log(total)
        shares = np.where(weights == 0, 0.0, weights / total)[..., None]
        out = np.where(shares == 0, 0.0, shares * outs).sum(axis=0)
    return _finish(out, dtype, None), lse.astype(np.float64 if dtype == np.float64 else np.float32)


def retention(q, k, v, *, rate=None, multiplier=None, clock=None, rope=None, positions=None, scale=None,
              state=None, return_state=False, out=None, num_threads=None):
    """S <- e^(-rate*u) S + k v^T, then scale * q S, a row at a time; twin of `pe.retention`."""
    (q, k, v), dtype = _widen(q, k, v)
    one_head = q.ndim == k.ndim == v.ndim == 2
    batch = np.broadcast_shapes(*(a.shape[:-3] for a in (q, k, v)))
    q, k, v = (np.broadcast_to(a, (*batch, *(1, *a.shape)[-3:])) for a in (q, k, v))    # with a head axis
    (heads, T, D), key_heads = q.shape[-3:], k.shape[-3]
    group = heads // max(key_heads, 1)                                      # head h reads key head h // group

    def by_query_head(a, *rows):
        return np.repeat(np.broadcast_to(a, (*batch, key_heads, *rows)), group, axis=len(batch))

    S, at, shown = (None, -1, None) if state is None else state
    row = p = np.asarray(at, np.float64)[..., None] + np.arange(1, T + 1)
    if positions is not None:
        p = np.asarray(positions, np.float64)
        row = p if rope is None or len(rope.freqs) == 1 else row            # several axes serve rope alone
    if rope is not None:
        tail = (T, len(rope.freqs))[:1 if len(rope.freqs) == 1 else 2]
        q = apply_rope(q, positions=by_query_head(p, *tail), rope=rope)
        k = apply_rope(k, positions=p, rope=rope)
    if clock is None:
        time, before = by_query_head(row, T), by_query_head(at)
    else:
        time = np.broadcast_to(np.asarray(clock, np.float64), (*batch, heads, T))
        before = np.broadcast_to(0.0 if shown is None else shown, (*batch, heads))
    rate = 1.0 if rate is multiplier is None else -np.log(multiplier) if rate is None else rate
    rate = np.repeat(np.reshape(rate, -1).astype(np.float64), heads // max(np.size(rate), 1))
    before = time[..., :1] if S is None else before[..., None]              # nothing to fade: no gap
    fade = np.exp(-rate[:, None] * np.diff(time, axis=-1, prepend=before))

    own = bool((rate != np.repeat(rate[::max(group, 1)], group)).any()) or np.shape(clock)[-2:-1] == (heads,)
    if S is None:
        S = np.zeros((*batch, heads, D, v.shape[-1]))
    else:
        own = own or np.shape(S)[-3:-2] == (heads,)
        S = np.asarray(S, np.float64).reshape((*np.shape(S)[:-3], *(1, *np.shape(S))[-3:]))
        S = np.repeat(S, heads // max(S.shape[-3], 1), axis=-3)
    k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    result = np.zeros((*batch, heads, T, v.shape[-1]))
    for i in range(T):
        S = fade[..., i, None, None] * S + k[..., i, :, None] * v[..., i, None, :]
        result[..., i, :] = ((D ** -0.5 if scale is None else scale) * q[..., i, None, :] @ S)[..., 0, :]

    S = S if own else S[..., ::max(group, 1), :, :]                         # one for each key head will do
    result = _finish(result[0] if one_head else result, dtype, out)
    if not return_state:
        return result
    S = np.broadcast_to(S, (*batch, *S.shape[-3:])).astype(np.float64 if dtype == np.float64 else np.float32)
    reading = shown if clock is None else np.asarray(clock)[..., -1] if T else shown
    return result, RetentionState(S[0] if one_head else S, row[..., -1] if T else at, reading)


def positions_from_mask(mask):
    """Count the tokens before each token, 0 on padding; twin of `pe.positions_from_mask`."""
    token = np.asarray(mask).astype(np.int64)
    return token * (token @ np.triu(np.ones(2 * token.shape[-1:], np.int64), 1))


def positions_from_lengths(lengths):
    """0..n-1 for each length n, one after the other; twin of `pe.positions_from_lengths`."""
    return np.array([i for n in lengths for i in range(n)], np.int64)


def clock(log_gates, axis=-1):
    """c_t = -(log g_0 + ... + log g_t), a closed gate at -1000; twin of `pe.clock`."""
    gates = np.moveaxis(np.maximum(np.asarray(log_gates, np.float64), -1000.0), axis, -1)
    return np.moveaxis(-gates @ np.triu(np.ones(2 * gates.shape[-1:])), -1, axis)


def sinusoidal(positions, dim, *, base=10000.0):
    """(sin(p*w_l), cos(p*w_l)) at coordinates (2l, 2l+1); twin of `pe.sinusoidal`."""
    angle = _angles(positions, _geometric(dim, base))                       # (..., L)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(*np.shape(positions), dim)


def _geometric(width, base):
    """w_l = base^(-2l/width), the L = width/2 frequencies of RoFormer."""
    return np.power(10000.0 if base is None else base, -np.arange(0, width, 2) / width)


def _angles(positions, freqs):
    """Angle of every plane at every position: p*w_l, or p @ w when positions have several axes."""
    positions, freqs = np.asarray(positions, np.float64), np.atleast_2d(np.asarray(freqs, np.float64))
    return (positions[..., None] if len(freqs) == 1 else positions) @ freqs  # (..., n_axes) @ (n_axes, L)


def _turn(x, cos, sin, layout, inverse, offset=0):
    """Map (a, b) to (a cos - b sin, a sin + b cos) in each of the L planes from offset on; the rest stays."""
    cos, sin = np.asarray(cos, np.float64), np.asarray(sin, np.float64)
    if inverse:
        square = cos * cos + sin * sin                                      # the amplitude, squared
        cos, sin = cos / square, -sin / square
    L = cos.shape[-1]
    half = canonical_layout(layout) == "half"
    first, second = (slice(0, L), slice(L, 2 * L)) if half else (slice(0, 2 * L, 2), slice(1, 2 * L, 2))
    y = x.copy()
    turned = y[..., offset:]                                                # a view
    a, b = x[..., offset:][..., first], x[..., offset:][..., second]
    turned[..., first] = a * cos - b * sin
    turned[..., second] = a * sin + b * cos
    return y


def _spread(q, t, axes):
    """Repeat q over the batch axes that its positions have and it lacks."""
    lead = np.shape(t)[:-1] if axes > 1 else np.shape(t)
    return np.broadcast_to(q, (*np.broadcast_shapes(q.shape[:-1], lead), q.shape[-1]))


def _by_query_head(a, group, key_heads):
    """Repeat what belongs to key heads, if it does, for the query heads that read them."""
    return np.repeat(a, group, axis=-2) if a.ndim > 1 and a.shape[-2] == key_heads else a


def _gaps(t, s):
    """Form u = t - s, (..., M, N); an int n stands for 0..n-1, two ints for the last M of N."""
    s = t if s is None else s
    if np.ndim(t) == 0:
        t = np.arange(s - t, s) if np.ndim(s) == 0 else np.arange(t)
    s = np.arange(s) if np.ndim(s) == 0 else s
    return np.asarray(t, np.float64)[..., :, None] - np.asarray(s, np.float64)[..., None, :]


def _clock_gaps(clock, row):
    """Form the gaps of a learned clock; a clock of the keys alone serves queries by the key beside them."""
    if isinstance(clock, tuple):
        return _gaps(*clock)
    clock = np.asarray(clock, np.float64)
    if np.ndim(row) == 1:
        return _gaps(clock[..., row], clock)
    lead = np.broadcast_shapes(clock.shape[:-1], row.shape[:-1])
    of_q = np.take_along_axis(np.broadcast_to(clock, (*lead, clock.shape[-1])),
                              np.broadcast_to(row, (*lead, row.shape[-1])), axis=-1)
    return _gaps(of_q, clock)


def _penalty(slopes, gaps, hidden=False):
    """-slope*abs(u), and -inf where hidden; slopes lead the result's axes."""
    return np.where(hidden, -np.inf, -np.asarray(slopes, np.float64)[..., None, None] * np.abs(gaps))


def _visible(gaps, bias, causal, window, mask):
    """Which keys each query may see; the rules combine by and, and a bias of -inf hides like the mask."""
    visible = bias != -np.inf
    if causal:
        visible = visible & (gaps >= 0)
    if isinstance(window, int | np.integer):                                # counts the query's own key
        visible = visible & (gaps < window)
    elif window is not None:
        left, right = (np.inf if end is None else end for end in window)    # distances, both included
        visible = visible & (gaps <= left) & (-gaps <= right)
    return visible if mask is None else visible & mask


def _softmax(scores, sinks=None):
    """Weights that sum to 1, and the log of their normaliser; a row that sees nothing gives 0 and -inf.

    A sink is one more logit in each row of a head, which takes weight and has no value.
    """
    sinks = np.full(1, -np.inf) if sinks is None else np.reshape(np.asarray(sinks, np.float64), (-1,))
    sinks = sinks[:, None, None]
    top = np.maximum(np.max(scores, axis=-1, keepdims=True, initial=-np.inf), sinks)
    top = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sinks - top)
    return weights / np.where(total == 0, 1.0, total), (top + np.log(total))[..., 0]


def _mix(weights, visible, v):
    """Multiply weights @ v so that NaN and inf in a value reach only the queries that see its key."""
    result = weights @ np.where(np.isfinite(v), v, 0.0)
    for j in np.flatnonzero(~np.isfinite(v).all(axis=(*range(v.ndim - 2), -1))):
        value = np.where(np.isfinite(v[..., j, :]), 0.0, v[..., j, :])      # what the product above left out
        seen = np.broadcast_to(visible, weights.shape)[..., j, None] & (value[..., None, :] != 0)
        result = result + np.where(seen, weights[..., j, None] * value[..., None, :], 0.0)
    return result


def _widen(*values):
    """Return the values in float64, and the dtype of the result: their promotion, integers as float64."""
    values = [np.asarray(a) for a in values]
    dtype = np.result_type(*(np.float64 if a.dtype.kind in "iu" else a.dtype for a in values))
    return [a.astype(np.float64) for a in values], dtype.newbyteorder("=")


def _bias_dtype(slopes, dtype, out):
    """Return the dtype asked for, else out's, else that of the slopes; numbers and integers are float64."""
    if dtype is None:
        dtype = np.asarray(slopes).dtype if out is None else out.dtype
    return np.dtype(np.float64 if np.dtype(dtype).kind in "iu" else dtype).newbyteorder("=")


def _finish(result, dtype, out):
    """Round once to the result's dtype, into out if there is one."""
    with np.errstate(over="ignore"):
        result = result.astype(dtype)
    if out is None:
        return result
    out[...] = result
    return out
