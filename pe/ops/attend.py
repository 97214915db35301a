"""Attend: scores, softmax and the mean of values, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from .._check.keywords import explain_keywords
from ..rope import Rope
from ._plain import is_plain, one_axis_plan, run

_ndarray = np.ndarray


@explain_keywords
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = None, causal: bool = False,
              mask: ArrayLike | None = None, bias: ArrayLike | None = None,
              alibi_slopes: ArrayLike | None = None, decay_rate: ArrayLike | None = None,
              rope: Rope | None = None, q_positions: ArrayLike | None = None,
              k_positions: ArrayLike | None = None, return_lse: bool = False, out: NDArray[Any] | None = None,
              num_threads: int | None = None) -> Any:
    """Return softmax(scale q k^T + bias - slope*|t - s|) v over the keys each query may see.

    The M x N scores never exist: keys are walked in tiles under a running softmax, whatever the keywords. The
    order is scale, then bias, ALiBi and decay, then mask and causality, then the softmax, then v.

    Parameters
    ----------
    q : array_like, shape (..., H, M, D), or (M, D) for one head
        Queries. The dtype of q, k and v is their promotion: float16, bfloat16, float32 or float64; integers
        are read as float64.
    k, v : array_like, shape (..., K, N, D) and (..., K, N, V)
        Keys and values. K divides H, and query head h reads key head h // (H/K); nothing is repeated in
        memory. Leading axes broadcast.
    scale : float, default 1/sqrt(D)
        Factor on the products of queries and keys.
    causal : bool, default False
        Let a query see keys at positions <= its own. With default positions the last query stands at the last
        key, so that a decoder's few queries see the whole cache.
    mask : array_like of bool, shape (N,), (M, N) or (..., H, M, N), each axis equal or 1
        True = may attend. A row that may attend to nothing gives 0.
    bias : array_like, broadcastable to (..., H, M, N)
        Added to the scaled scores; -inf hides a key.
    alibi_slopes, decay_rate : float or array_like, shape (H,)
        Penalty on |t - s|, finite and >= 0, one for each query head. The two are the same thing under two
        names and add up; see `alibi_bias` and `decay_bias`.
    rope : Rope, optional
        Turn queries and keys inside. Both come in *unrotated*; a cache is better turned once, when it is
        written, and rope= left out.
    q_positions, k_positions : array_like, shape (M,) and (N,), or as many axes as q (or k) without its last
        Any finite numbers, for causality, slopes and rope alike. Default: keys at 0..N-1, queries at
        N-M..N-1. A rope of several axes takes (..., M, n_axes) and (..., N, n_axes); these feed the rope
        alone.
    return_lse : bool, default False
        Also return the logarithm of the softmax's normaliser.
    out : ndarray, shape of the result, optional
        Written and returned. ``out=q`` works in place where V = D and q has all batch axes; any other overlap
        is safe.
    num_threads : int, optional
        Upper bound on the threads of this call. It never changes a bit of the result.

    Returns
    -------
    result : ndarray, shape (..., H, M, V)
        Or `out`. 16-bit values are computed in float32 and rounded once.
    lse : ndarray, shape (..., H, M)
        With return_lse=True: natural logarithm, float64 for float64 values, else float32; -inf for a row that
        sees nothing.

    Raises
    ------
    TypeError
        A mask that is not bool, a dtype that is no number, float16 with bfloat16.
    ValueError
        Shapes that do not fit, K that does not divide H, negative slopes, positions that are not finite.

    References
    ----------
    Vaswani, A. et al. (2017). Attention Is All You Need. arXiv:1706.03762.
    Milakov, M., Gimelshein, N. (2018). Online normalizer calculation for softmax. arXiv:1805.02867.
    Dao, T. et al. (2022). FlashAttention. arXiv:2205.14135 (tiles).
    Ainslie, J. et al. (2023). GQA. arXiv:2305.13245 (shared key heads).

    Examples
    --------
    Queries of zeros weigh all visible keys alike; two queries stand at the last two of five keys:

    >>> import numpy as np
    >>> import pe
    >>> q, k, v = np.zeros((2, 1)), np.zeros((5, 1)), np.arange(1.0, 6.0)[:, None]
    >>> pe.attention(q, k, v, causal=True).ravel()
    array([2.5, 3. ])
    >>> out, lse = pe.attention(q, k, v, mask=[True, True, False, False, False], return_lse=True)
    >>> out.ravel(), lse.round(4)
    (array([1.5, 1.5]), array([0.6931, 0.6931]))
    >>> pe.attention(q, k, v, causal=True, alibi_slopes=0.5).ravel().round(6)
    array([3.084576, 3.905633])

    Eight query heads on two key heads, turned inside:

    >>> rng = np.random.default_rng(0)
    >>> q = rng.normal(size=(1, 8, 4, 16)).astype(np.float32)
    >>> k, v = rng.normal(size=(2, 1, 2, 4, 16)).astype(np.float32)
    >>> pe.attention(q, k, v, causal=True, rope=pe.Rope(16)).shape
    (1, 8, 4, 16)
    """
    plan = one_axis_plan(rope, q.shape[-1]) if rope is not None and type(q) is _ndarray and q.ndim else None
    if (alibi_slopes is decay_rate is None and (plan is not None or rope is None)
            and is_plain(causal, num_threads) and (return_lse is False or return_lse is True)):
        result = _core.attention(q, k, v, scale, causal, mask, bias, None, plan, q_positions, k_positions,
                                 return_lse, out, num_threads)
        if result is not NotImplemented:
            return result
    if isinstance(rope, Rope) and len(rope.freqs) > 1:
        turn_q, turn_k, v, dtype = _check.turns(q, k, v, rope, q_positions, k_positions, num_threads)
        q, k = run(_core.apply_rope, turn_q), run(_core.apply_rope, turn_k)
        result = attention(q, k, v, scale=scale, causal=causal, mask=mask, bias=bias,
                           alibi_slopes=alibi_slopes, decay_rate=decay_rate, return_lse=return_lse, out=out,
                           num_threads=num_threads)
        result, *lse = result if return_lse else (result,)
        result = result.astype(dtype, copy=False) if out is None else out
        return (result, *lse) if return_lse else result
    arguments, target = _check.attention(q, k, v, scale, causal, mask, bias, alibi_slopes, decay_rate, rope,
                                         q_positions, k_positions, return_lse, out, num_threads)
    result = run(_core.attention, arguments)
    return (target.deliver(result[0]), result[1]) if return_lse else target.deliver(result)
