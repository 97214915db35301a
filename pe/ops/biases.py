"""Write down the bias that a decay or ALiBi adds to scores."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, DTypeLike, NDArray

from .. import _check, _core
from ._plain import plain_first, run


@plain_first
def decay_bias(q_positions: int | ArrayLike, k_positions: int | ArrayLike | None = None, *,
               rate: ArrayLike | None = None, half_life: ArrayLike | None = None,
               multiplier: ArrayLike | None = None,
               clock: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None, causal: bool = True,
               dtype: DTypeLike | None = None, out: NDArray[Any] | None = None,
               num_threads: int | None = None) -> NDArray[Any]:
    """Return -rate*(t - s), the logarithm of a decay with the gap, to be added to scores before the softmax.

    Three different things are called fade. This is the first: added to logits, it multiplies the *weight* of
    a key u positions back by e^(-rate*u), and equals `alibi_bias` with slope = rate. In retention the same
    factor multiplies scores that see no softmax. A factor on the logit itself is a third thing: it forgets
    nothing, as a logit pulled to 0 still weighs e^0 = 1, and a negative one even gains (see the example).

    Parameters
    ----------
    q_positions, k_positions : int or array_like, shape (..., M) and (..., N)
        Positions of queries and keys; k_positions defaults to q_positions. An int n stands for 0..n-1; of two
        ints M and N the queries are the last M of the N positions.
    rate : array_like, shape (...)
        Fall of the logit a position, finite and >= 0; gamma in e^(-gamma u). Exactly one of rate,
        half_life and multiplier; with a clock, rate defaults to 1.
    half_life : array_like, shape (...)
        Positions until a weight is halved: ln 2 / rate, > 0.
    multiplier : array_like, shape (...)
        Factor on a weight for each position: e^-rate, in (0, 1]; RetNet's gamma.
    clock : array_like, shape (..., N), or a tuple of two, shapes (..., M) and (..., N)
        Learned time, which never runs back, to be put in place of t and s: the bias is -rate*|t - s| of the
        clock. One for keys serves queries as its last M; a tuple holds that of queries and that of keys. What
        is hidden as future is still decided by positions.
    causal : bool, default True
        Put -inf where s > t. Otherwise the bias is -rate*|t - s|, the same on both sides.
    dtype : dtype, optional
        Of the result. Default: that of out, else that of the rate (float64 for Python numbers and integers).
    out : ndarray, shape of the result, optional
        Written and returned.
    num_threads : int, optional
        Upper bound on the threads of this call.

    Returns
    -------
    ndarray, shape (..., M, N)
        Its leading axes are those of the rate broadcast with those of the positions and clocks: rates (H,)
        give (H, M, N). Where several have leading axes they must be equally many.

    Raises
    ------
    TypeError
        No rate, half_life or multiplier, or more than one.
    ValueError
        A negative rate or a multiplier above 1, which explode; positions that are not finite; a clock that
        runs back; leading axes that do not fit.

    References
    ----------
    The Dog, the Man, and the Clock, the fade e^(-gamma u).
    Sun, Y. et al. (2023). Retentive Network: A Successor to Transformer for Large Language Models.
    arXiv:2307.08621 (the multiplier).
    Lin, Z. et al. (2025). Forgetting Transformer. arXiv:2503.02130 (gates as a clock).

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> pe.decay_bias(3, rate=0.5)
    array([[ 0. , -inf, -inf],
           [-0.5,  0. , -inf],
           [-1. , -0.5,  0. ]])
    >>> np.exp(pe.decay_bias(1, 4, multiplier=0.5))                         # one query, the last of four
    array([[0.125, 0.25 , 0.5  , 1.   ]])

    Gates of a forgetting attention: each token multiplies what came before it, the third by a half.

    >>> clock = -np.cumsum(np.log([1.0, 1.0, 0.5, 1.0]))
    >>> np.exp(pe.decay_bias(4, clock=clock))
    array([[1. , 0. , 0. , 0. ],
           [1. , 1. , 0. , 0. ],
           [0.5, 0.5, 1. , 0. ],
           [0.5, 0.5, 1. , 1. ]])

    The three fades, for keys 20, 10 and 0 positions back that all score -2, at rate 0.5:

    >>> score, u = -2.0, np.array([20, 10, 0])
    >>> fade = np.exp(-0.5 * u)
    >>> softmax = lambda z: np.exp(z) / np.exp(z).sum()
    >>> softmax(score + np.log(fade)).round(3)                            # this bias: far keys are forgotten
    array([0.   , 0.007, 0.993])
    >>> (score * fade).round(3)                                           # retention: no softmax
    array([-0.   , -0.013, -2.   ])
    >>> softmax(score * fade).round(3)                                    # damped logit: far keys win
    array([0.471, 0.465, 0.064])
    """
    arguments, target = _check.decay(q_positions, k_positions, rate, half_life, multiplier, clock, causal,
                                     dtype, out, num_threads)
    return target.deliver(run(_core.bias, arguments))


@plain_first
def alibi_bias(q_positions: int | ArrayLike, k_positions: int | ArrayLike | None = None, *, slopes: ArrayLike,
               causal: bool = True, dtype: DTypeLike | None = None, out: NDArray[Any] | None = None,
               num_threads: int | None = None) -> NDArray[Any]:
    """Return -slope*(t - s), ALiBi's penalty on distance, to be added to scores before the softmax.

    Parameters
    ----------
    q_positions, k_positions : int or array_like, shape (..., M) and (..., N)
        Positions of queries and keys; k_positions defaults to q_positions. An int n stands for 0..n-1; of two
        ints M and N the queries are the last M of the N positions.
    slopes : array_like, shape (...)
        Penalty for each position of distance, finite and >= 0, usually ``pe.alibi_slopes(H)``. Source
        document 1 writes the bias as +m(t - s), which is a penalty only for m < 0: pass ``slopes=-m``. One
        number is one slope, not a count of heads.
    causal : bool, default True
        Put -inf where s > t. Otherwise the bias is -slope*|t - s|, the same on both sides.
    dtype : dtype, optional
        Of the result. Default: that of out, else that of the slopes (float64 for Python numbers and
        integers).
    out, num_threads
        As in `decay_bias`.

    Returns
    -------
    ndarray, shape (..., M, N)
        Its leading axes are those of the slopes broadcast with those of the positions: (H,) gives (H, M, N).

    Raises
    ------
    ValueError
        A negative slope, which would reward distance; positions that are not finite; leading axes that do not
        fit.

    See Also
    --------
    attention : computes the same bias tile by tile from alibi_slopes=, without the M x N array.

    References
    ----------
    Press, O., Smith, N. A., Lewis, M. (2022). Train Short, Test Long: Attention with Linear Biases Enables
    Input Length Extrapolation. arXiv:2108.12409.

    Examples
    --------
    >>> import pe
    >>> pe.alibi_bias(1, 5, slopes=0.5)
    array([[-2. , -1.5, -1. , -0.5,  0. ]])
    >>> pe.alibi_bias(3, slopes=0.5, causal=False)
    array([[ 0. , -0.5, -1. ],
           [-0.5,  0. , -0.5],
           [-1. , -0.5,  0. ]])
    >>> pe.alibi_bias(16, slopes=pe.alibi_slopes(8)).shape
    (8, 16, 16)
    """
    arguments, target = _check.alibi(q_positions, k_positions, slopes, causal, dtype, out, num_threads)
    return target.deliver(run(_core.bias, arguments))
