"""Attend: scores, softmax and the mean of values, tile by tile."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from ..rope import Rope
from ._plain import plain_first, run


@plain_first
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = None, causal: bool = False,
              window: int | tuple[float | None, float | None] | None = None, mask: ArrayLike | None = None,
              bias: ArrayLike | None = None, alibi_slopes: ArrayLike | None = None,
              decay_rate: ArrayLike | None = None,
              clock: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None, softcap: float | None = None,
              sinks: ArrayLike | None = None,
              segments: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None, rope: Rope | None = None,
              q_positions: ArrayLike | None = None, k_positions: ArrayLike | None = None,
              kv_lengths: ArrayLike | None = None, return_lse: bool = False, out: NDArray[Any] | None = None,
              num_threads: int | None = None) -> Any:
    """Return softmax(scale q k^T + bias - slope*|t - s|) v over the keys each query may see.

    The M x N scores never exist: keys are walked in tiles under a running softmax, whatever the keywords. The
    order is scale, softcap, then bias, ALiBi and decay, then all that hides (mask, causal, window, segments,
    kv_lengths: a key is seen if every one of them allows it), then the softmax with its sink, then v.

    Parameters
    ----------
    q : array_like, shape (..., H, M, D), or (M, D) for one head
        Queries. The dtype of q, k and v is their promotion: float16, bfloat16, float32 or float64; integers
        are read as float64. Arrays (..., M, H, D) mostly give no error, and a result in which the heads of
        each row attend to one another: pass ``q.swapaxes(-3, -2)``, k and v alike.
    k, v : array_like, shape (..., K, N, D) and (..., K, N, V)
        Keys and values. K divides H, and query head h reads key head h // (H/K); nothing is repeated in
        memory. Leading axes broadcast.
    scale : float, default 1/sqrt(D)
        Factor on the products of queries and keys. The default takes the softmax_scale of a rope.
    causal : bool, default False
        Let a query see keys at positions <= its own. With default positions the last query stands at the last
        key, so that a decoder's few queries see the whole cache.
    window : int or (left, right), optional
        With an int w, let a query see keys with t - s < w: its own and the w - 1 before it; only causal hides
        the right side. A pair lets it see t - left <= s <= t + right, None being no bound.
    mask : array_like of bool, shape (N,), (M, N) or (..., H, M, N), each axis equal or 1
        True = may attend. A row that may attend to nothing gives 0.
    bias : array_like, broadcastable to (..., H, M, N)
        Added to the scaled scores; -inf hides a key. Integers are read as float64, in a copy of what does not
        repeat.
    alibi_slopes, decay_rate : float or array_like, shape (H,)
        Penalty on |t - s|, finite and >= 0, one for each query head. One number is the slope of all heads and
        not how many these are; the usual slopes are ``pe.alibi_slopes(H)``. The two are the same thing under
        two names and add up, unless there is a clock; see `alibi_bias` and `decay_bias`.
    clock : array_like, shape (N,) or (..., H, N), or a tuple of two, for queries (..., M) and keys (..., N)
        Learned time for decay_rate, which then defaults to 1: the penalty is rate*|t - s| of the clock. It
        never runs back along its last axis. One for keys serves queries as the last M of the N (with
        kv_lengths, of the keys in use). Causality, window, ALiBi and rope stay with positions.
    softcap : float, optional
        Bend scaled scores to ``softcap * tanh(score / softcap)``.
    sinks : float or array_like, shape (H,)
        One more logit in the softmax of each query head, with no value: it takes weight away, is neither
        scaled nor capped, and counts in lse. -inf is none. Merging parts over keys, give it to one of them.
        The sinks of StreamingLLM are not these but its first keys, which a window leaves in sight: say
        ``mask=(t - s < w) | (s < n)`` in place of window=.
    segments : array_like of int, shape (M,) with M = N, or a tuple of two, shapes (M,) and (N,)
        Let a query see only keys of equal number, as for texts packed into one row. Either may have as many
        axes as q (or k) without its last, each equal or 1: ids (B, T) go in as ``ids[:, None]``.
    rope : Rope, optional
        Turn queries and keys inside. Both come in *unrotated*; a cache is better turned once, when it is
        written, and rope= left out: then pass ``scale=rope.softmax_scale / np.sqrt(D)``, which differs from
        the default where YaRN comes with mscale_all_dim (DeepSeek).
    q_positions, k_positions : array_like, shape (M,) and (N,), or as many axes as q (or k) without its last
        Any finite numbers, for causality, window, slopes and rope alike. Default: keys at 0..N-1, queries at
        n-M..n-1, n being kv_lengths or N. A rope of several axes takes (..., M, n_axes) and (..., N, n_axes);
        these feed the rope alone, and everything else uses the default. -1 is a position like any other: rows
        of a cache that hold no key yet are hidden by mask= or kv_lengths=.
    kv_lengths : int or array_like of int, the batch axes alone, such as (B,)
        How many keys of a padded cache are in use, 0 to N; the rest is never looked at. The last query then
        stands at the last key in use, as in decoding; to prefill a batch padded on the right pass
        ``q_positions=np.arange(M)`` too.
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
        Or `out`. 16-bit values are computed in float32 and rounded once. Where `pe.isa` is "avx512bf16",
        bfloat16 weights are rounded too (an error of at most 2^-8 times the largest value seen), values below
        2^-126 count as 0, and a product q . k must be below 3.4e38 before it is scaled; few queries against a
        cache, rotations inside, unsorted positions and odd head widths are always computed in float32.
    lse : ndarray, shape (..., H, M)
        With return_lse=True: natural logarithm, float64 for float64 values, else float32; -inf (or the sink)
        for a row that sees nothing.

    Raises
    ------
    TypeError
        A mask that is not bool, a dtype that is no number, float16 with bfloat16, a rope of several axes
        without positions.
    ValueError
        Shapes that do not fit, K that does not divide H, negative slopes, positions that are not finite, a
        window below 1, a clock that runs back.

    References
    ----------
    Vaswani, A. et al. (2017). Attention Is All You Need. arXiv:1706.03762.
    Milakov, M., Gimelshein, N. (2018). Online normalizer calculation for softmax. arXiv:1805.02867.
    Dao, T. et al. (2022). FlashAttention. arXiv:2205.14135 (tiles).
    Ainslie, J. et al. (2023). GQA. arXiv:2305.13245 (shared key heads).
    Gemma Team (2024). Gemma 2. arXiv:2408.00118 (softcap, windows); OpenAI (2025). gpt-oss model card.
    arXiv:2508.10925 (sinks); Lin, Z. et al. (2025). Forgetting Transformer. arXiv:2503.02130 (clock).

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

    A window of two keys, two packed texts, a cache of five of which three are in use, and a sink:

    >>> q = np.zeros((5, 1))
    >>> pe.attention(q, k, v, causal=True, window=2).ravel()
    array([1. , 1.5, 2.5, 3.5, 4.5])
    >>> pe.attention(q, k, v, causal=True, segments=[0, 0, 1, 1, 1]).ravel()
    array([1. , 1.5, 3. , 3.5, 4. ])
    >>> pe.attention(q[:2], k, v, causal=True, kv_lengths=3).ravel()
    array([1.5, 2. ])
    >>> pe.attention(q[:1], k, v, sinks=np.log(5)).ravel()               # as heavy as all five keys
    array([1.5])

    Gates of a forgetting attention, the last of which halves all that came before it:

    >>> clock = -np.cumsum(np.log([1, 1, 1, 1, 0.5]))
    >>> pe.attention(q[:1], k, np.eye(5), causal=True, clock=clock).round(4)
    array([[0.1667, 0.1667, 0.1667, 0.1667, 0.3333]])

    Eight query heads on two key heads, turned inside:

    >>> rng = np.random.default_rng(0)
    >>> q = rng.normal(size=(1, 8, 4, 16)).astype(np.float32)
    >>> k, v = rng.normal(size=(2, 1, 2, 4, 16)).astype(np.float32)
    >>> pe.attention(q, k, v, causal=True, rope=pe.Rope(16)).shape
    (1, 8, 4, 16)
    """
    arguments, target = _check.attention(q, k, v, scale, causal, window, mask, bias, alibi_slopes, decay_rate,
                                         clock, softcap, sinks, segments, rope, q_positions, k_positions,
                                         kv_lengths, return_lse, out, num_threads)
    result = run(_core.attention, arguments)
    return (target.deliver(result[0]), result[1]) if return_lse else target.deliver(result)
