"""Look at attention: its scores and weights, written out."""

from __future__ import annotations

from typing import Any, cast

from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from ..rope import Rope
from ._plain import plain_first, run


@plain_first
def attention_weights(q: ArrayLike, k: ArrayLike, *, scale: float | None = None, causal: bool = False,
                      window: int | tuple[float | None, float | None] | None = None,
                      mask: ArrayLike | None = None, bias: ArrayLike | None = None,
                      alibi_slopes: ArrayLike | None = None, decay_rate: ArrayLike | None = None,
                      clock: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
                      softcap: float | None = None, sinks: ArrayLike | None = None,
                      segments: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
                      rope: Rope | None = None, q_positions: ArrayLike | None = None,
                      k_positions: ArrayLike | None = None, kv_lengths: ArrayLike | None = None,
                      stage: str = "weights") -> NDArray[Any]:
    """Return the weights by which `attention` means its values, or the scores on the way to them.

    For looking at, not for computing with: M x N numbers a head are written out. `attention` with the same
    keywords never forms them.

    Parameters
    ----------
    q : array_like, shape (..., H, M, D), or (M, D) for one head
        Queries.
    k : array_like, shape (..., K, N, D), or (N, D)
        Keys; query head h reads key head h // (H/K).
    scale, causal, window, mask, bias, alibi_slopes, decay_rate, clock, softcap, sinks, segments, rope, \
q_positions, k_positions, kv_lengths
        As in `attention`.
    stage : {"weights", "scores", "softcapped", "biased"}, default "weights"
        What to return: "scores" are scaled products of the (turned) queries and keys; "softcapped", those
        after the cap; "biased", these with bias, ALiBi and decay added and -inf where a key is hidden, as
        they enter the softmax; "weights", what leaves it. A row of weights sums to 1, to less with a sink,
        and to 0 where no key is visible.

    Returns
    -------
    ndarray, shape (..., H, M, N), or (M, N) for one head
        In the promotion of q and k; 16-bit values are computed in float32 and rounded once.

    Raises
    ------
    TypeError, ValueError
        As `attention` does; and for a stage that is none.

    See Also
    --------
    attention : ``attention_weights(q, k, ...) @ v``, v repeated for grouped heads, without the M x N array.

    References
    ----------
    Vaswani, A. et al. (2017). Attention Is All You Need. arXiv:1706.03762, equation 1; for each keyword,
    those of `attention`.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> q = k = np.zeros((3, 1))
    >>> pe.attention_weights(q, k, causal=True).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.5  , 0.5  , 0.   ],
           [0.333, 0.333, 0.333]])
    >>> pe.attention_weights(q, k, causal=True, alibi_slopes=0.5, stage="biased")
    array([[ 0. , -inf, -inf],
           [-0.5,  0. , -inf],
           [-1. , -0.5,  0. ]])
    """
    arguments = _check.attention_weights(q, k, stage, scale, causal, window, mask, bias, alibi_slopes,
                                         decay_rate, clock, softcap, sinks, segments, rope, q_positions,
                                         k_positions, kv_lengths)
    return cast("NDArray[Any]", run(_core.attention_weights, arguments))
