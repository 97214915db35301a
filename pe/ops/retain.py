"""Retain: linear attention with a decay, its past in a state of fixed size."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from ..rope import Rope
from ..state import RetentionState
from ._plain import plain_first, run


@plain_first
def retention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, rate: ArrayLike | None = None,
              multiplier: ArrayLike | None = None, clock: ArrayLike | None = None, rope: Rope | None = None,
              positions: ArrayLike | None = None, scale: float | None = None,
              state: RetentionState | None = None, return_state: bool = False,
              out: NDArray[Any] | None = None, num_threads: int | None = None) -> Any:
    """Return scale * sum_s e^(-rate*(t - s)) (q_t . k_s) v_s over a row and all rows before it.

    Attention without a softmax: weights are the scores themselves, faded by the gap, and may be negative. All
    that a row must know of its past is then one D x V sum, S <- e^-rate S + k v^T, so time grows with T and
    not with its square. Rows are taken in chunks; chunks, single steps and whole calls agree to rounding.

    Nothing is normalised. RetNet divides by row sums and normalises each head afterwards; do that to the
    result.

    Parameters
    ----------
    q : array_like, shape (..., H, T, D), or (T, D) for one head
        Queries. The dtype of q, k and v is their promotion: float16, bfloat16, float32 or float64; integers
        are read as float64. For arrays (..., T, H, D) pass ``q.swapaxes(-3, -2)``, k and v alike.
    k, v : array_like, shape (..., K, T, D) and (..., K, T, V)
        Keys and values of the same rows. K divides H, and query head h reads key head h // (H/K). Leading
        axes broadcast.
    rate : float or array_like, shape (K,) or (H,)
        Decay of a score a position, finite and >= 0; 0 is plain linear attention. Exactly one of rate and
        multiplier, but for a clock, with which rate defaults to 1.
    multiplier : float or array_like, shape (K,) or (H,)
        Factor on a score for each position: e^-rate, in (0, 1]; RetNet's gamma.
    clock : array_like, shape (T,), or as many axes as the result without its last, each equal or 1
        Learned time in place of positions for the decay, never falling, one for each query head if wanted:
        ``pe.clock(log_gates)``.
    rope : Rope, optional
        Turn queries and keys inside. Fade times turn is damped RoPE.
    positions : array_like, shape (T,), or (..., K, T) with the result's batch axes, each equal or 1
        Never falling; they drive the rope, and the decay where there is no clock. Default: onwards from the
        state's position, 0..T-1 without a state. A rope of several axes takes (..., T, n_axes), which feed
        the rope alone.
    scale : float, default 1/sqrt(D)
        Factor on the result.
    state : RetentionState, optional
        What an earlier call with return_state=True remembers. No position, and no clock, may lie before its
        own.
    return_state : bool, default False
        Also return what this call remembers.
    out : ndarray, shape of the result, optional
        Written and returned; any overlap is safe.
    num_threads : int, optional
        Upper bound on the threads of this call. It never changes a bit of the result.

    Returns
    -------
    result : ndarray, shape (..., H, T, V)
        Or `out`. 16-bit values are computed in float32, as is their state, and rounded once.
    state : RetentionState
        With return_state=True: S, of shape (..., K, D, V), or (..., H, D, V) where rates or clocks differ
        within a group of query heads, and the position (and clock) at which the next call goes on.

    Raises
    ------
    TypeError
        No decay, or rate and multiplier both; a dtype that is no number; a state that is no RetentionState.
    ValueError
        Shapes that do not fit; a negative rate or a multiplier above 1, which explode; positions that fall.

    See Also
    --------
    decay_bias : the same factor under a softmax, and how the two differ.

    References
    ----------
    Katharopoulos, A. et al. (2020). Transformers are RNNs. arXiv:2006.16236 (rate 0).
    Sun, Y. et al. (2023). Retentive Network. arXiv:2307.08621 (parallel, recurrent and chunked forms).
    The Dog, the Man, and the Clock: the fade e^(-gamma u) as a factor on the score.

    Examples
    --------
    Ones throughout, halved a step: each row sums 1 + 1/2 + 1/4 + ... over its past.

    >>> import numpy as np
    >>> import pe
    >>> ones = np.ones((4, 1))
    >>> pe.retention(ones, ones, ones, multiplier=0.5).ravel()
    array([1.   , 1.5  , 1.75 , 1.875])

    The same in two calls; the state carries S and the position:

    >>> first, state = pe.retention(ones[:3], ones[:3], ones[:3], multiplier=0.5, return_state=True)
    >>> state.position, state.S
    (2, array([[1.75]]))
    >>> pe.retention(ones[3:], ones[3:], ones[3:], multiplier=0.5, state=state)
    array([[1.875]])

    RetNet's rates, a head each, and turned inside:

    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 1, 8, 100, 16)).astype(np.float32)
    >>> rate = -np.log1p(-2.0 ** -np.arange(5, 13))
    >>> pe.retention(q, k, v, rate=rate, rope=pe.Rope(16)).shape
    (1, 8, 100, 16)
    """
    arguments, target, after = _check.retention(q, k, v, rate, multiplier, clock, rope, positions, scale,
                                                state, return_state, out, num_threads)
    result = run(_core.retention, arguments)
    if not return_state:
        return target.deliver(result)
    return target.deliver(result[0]), RetentionState(result[1], *after)
