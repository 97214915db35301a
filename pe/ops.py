"""The ops: apply a rotation, write down a bias, attend.

Each function recognises a plain call and hands it to the C core as it is; whatever is not plain goes through
`pe._check`, which makes it so or says what is wrong before anything is written.

Letters: B batch, H query heads, K key heads, M queries, N keys, D head width, V value width, L planes, T
rows, t query position, s key position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _check, _core
from ._check.keywords import explain_keywords
from .rope import Rope, canonical_layout

__all__ = ["alibi_bias", "apply_rope", "apply_rope_2d", "attention", "decay_bias"]

_ndarray = np.ndarray


@explain_keywords
def apply_rope(x: ArrayLike, cos: ArrayLike | None = None, sin: ArrayLike | None = None, *,
               positions: ArrayLike | None = None, rope: Rope | None = None, freqs: ArrayLike | None = None,
               base: float | None = None, layout: str | None = None, rotary_dim: int | None = None,
               inverse: bool = False, out: NDArray[Any] | None = None,
               num_threads: int | None = None) -> NDArray[Any]:
    """Turn every pair of coordinates of x by its position: rotary position embedding.

    Plane l of a row at position p turns counter-clockwise by the angle p*w_l,
    ``(a, b) -> (a cos - b sin, a sin + b cos)``. Queries and keys are turned alike, so that their product
    depends on positions through the gap t - s alone.

    Call it as ``apply_rope(x, cos, sin)`` with ready tables or as ``apply_rope(x, positions=...)``.

    Parameters
    ----------
    x : array_like, shape (..., T, D) or (D,)
        Queries or keys: float16, bfloat16, float32 or float64; integers are read as float64.
    cos, sin : array_like, shape (T, L), or as many axes as x, each equal to x's or 1 but the last, L
        Tables, one column a plane, such as ``build_rope_cache(T, D)``. The first 2L coordinates turn, the
        rest is copied. A cache is cut to the rows in use by the caller: ``cos[p:p + T]``.
    positions : array_like, shape (T,), or as many axes as x without its last, each equal to x's or 1
        Any finite numbers up to 2^53: integers, float32 or float64; negative, fractional, different for each
        sequence. Nothing is added on the left: for x (B, H, T, D), positions (B, T) go in as
        ``positions[:, None, :]``. Angles are formed in float64, whatever x is. With a rope of several axes, a
        last axis of n_axes coordinates follows.
    rope : Rope, optional
        Frequencies, layout, rotary_dim and amplitude in one object; at most one of rope, freqs and base.
    freqs : array_like, shape (L,), optional
        Angular frequencies w_l in radians a position, fastest first; they turn the first 2L coordinates.
    base : float, default 10000.0
        ``w_l = base**(-2 l / rotary_dim)``.
    layout : {"interleaved", "half"}, default "interleaved"
        Plane l is the pair (2l, 2l+1), as in RoFormer and GPT-J, or (l, l+L), as in Hugging Face Llama, Qwen
        and GPT-NeoX. Aliases: "adjacent", "gptj", "traditional"; "neox", "rotate_half", "split".
    rotary_dim : int, default D
        Turn only the first `rotary_dim` coordinates and copy the rest bit for bit.
    inverse : bool, default False
        Undo the same call without it (an amplitude is divided out).
    out : ndarray, shape of x, optional
        Written and returned. ``out=x`` turns x in place; any other overlap is safe.
    num_threads : int, optional
        Upper bound on the threads of this call.

    Returns
    -------
    ndarray, shape of x
        In the dtype of x (float64 for integers), or `out`.

    Raises
    ------
    TypeError
        Neither tables nor positions, or both; a dtype that is no number; positions that are no sequence.
    ValueError
        Shapes that do not fit, positions that are not finite, D that does not divide into pairs.

    References
    ----------
    Su, J. et al. (2021). RoFormer: Enhanced Transformer with Rotary Position Embedding. arXiv:2104.09864.
    Source document 1 (The Dog, the Man, and the Clock), "RoPE in code", gives the form with tables.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> pe.apply_rope([[1, 2, 3, 4]], positions=[1]).round(6)
    array([[-1.14264 ,  1.922076,  2.959851,  4.0298  ]])
    >>> pe.apply_rope([[1, 2, 3, 4]], positions=[1], layout="half").round(6)
    array([[-1.984111,  1.959901,  2.462378,  4.0198  ]])

    Scores depend on the gap alone:

    >>> q, k = np.tile([1.0, 0.0], (2, 8))
    >>> for t in (3, 1003):
    ...     score = pe.apply_rope(q, positions=[t]) @ pe.apply_rope(k, positions=[t - 3])
    ...     print(round(float(score), 6))
    5.543101
    5.543101

    A tutorial's tables, and one row of a decoder at position 5:

    >>> x = np.random.default_rng(0).normal(size=(1, 2, 6, 8))
    >>> cos, sin = pe.build_rope_cache(6, 8)
    >>> whole, row = pe.apply_rope(x, cos, sin), pe.apply_rope(x[:, :, 5:], positions=[5])
    >>> bool(np.allclose(row, whole[:, :, 5:]))
    True
    """
    if type(x) is _ndarray and x.ndim and freqs is rotary_dim is None and _is_plain(inverse, num_threads):
        result: Any = NotImplemented
        if cos is sin is None:
            plan = _quick_plan(x.shape[-1], rope, base, layout)
            if plan is not None:
                result = _core.apply_rope(x, (positions,), plan, inverse, out, num_threads)
        elif (positions is rope is base is None
              and type(cos) is type(sin) is _ndarray and cos.shape == sin.shape):
            half = int(canonical_layout(layout) == "half")
            result = _core.apply_rope_tables(x, cos, sin, half, inverse, out, num_threads)
        if result is not NotImplemented:
            return result
    name, arguments, target = _check.apply_rope(x, cos, sin, positions, rope, freqs, base, layout, rotary_dim,
                                                inverse, out, num_threads)
    return target.deliver(_run(getattr(_core, name), arguments))


@explain_keywords
def apply_rope_2d(x: ArrayLike, pos_x: ArrayLike, pos_y: ArrayLike, *, freqs: ArrayLike | None = None,
                  base: float | None = None, layout: str | None = None, inverse: bool = False,
                  out: NDArray[Any] | None = None, num_threads: int | None = None) -> NDArray[Any]:
    """Turn one half of the coordinates of x by pos_x, the other by pos_y: rotary embedding in two dimensions.

    The first D/2 coordinates are `apply_rope` at positions `pos_x`, the last D/2 at `pos_y`, each with D/4
    planes of its own. Scores then depend on the two gaps alone, and different places never look the same.

    Parameters
    ----------
    x : array_like, shape (..., T, D), D a multiple of 4
        Queries or keys, one row a patch.
    pos_x, pos_y : array_like, shape (T,), or as many axes as x without its last, each equal to x's or 1
        Where each row stands; `pe.grid_positions` gives both for a flattened image, x the column and y the
        row. (Source document 2 calls the row x: swap the two to follow it.)
    freqs : array_like, shape (D/4,) or (2, D/4), optional
        Angular frequencies for both axes, or a row for each.
    base : float, default 10000.0
        ``w_l = base**(-4 l / D)`` for both axes; not together with freqs.
    layout : {"interleaved", "half"}, default "interleaved"
        How each half is paired into planes, as in `apply_rope`.
    inverse, out, num_threads
        As in `apply_rope`.

    Returns
    -------
    ndarray, shape of x
        In the dtype of x (float64 for integers), or `out`.

    Raises
    ------
    TypeError
        Both freqs and base; a dtype that is no number.
    ValueError
        D that is no multiple of 4; shapes that do not fit; positions that are not finite.

    References
    ----------
    Source document 2 (Transformer Upgrade Path 4: Two-Dimensional Rotary Position Embedding).
    Heo, B. et al. (2024). Rotary Position Embedding for Vision Transformer. arXiv:2403.13298.

    Examples
    --------
    >>> import pe
    >>> pe.apply_rope_2d([[1, 0, 1, 0]], [3], [5]).round(6)                # cos 3, sin 3, cos 5, sin 5
    array([[-0.989992,  0.14112 ,  0.283662, -0.958924]])
    >>> import numpy as np
    >>> image = np.ones((2 * 3, 8), np.float32)                             # 2 rows of 3 patches
    >>> pe.apply_rope_2d(image, *pe.grid_positions(2, 3)).shape
    (6, 8)
    """
    arguments, target = _check.apply_rope_2d(x, pos_x, pos_y, freqs, base, layout, inverse, out, num_threads)
    return target.deliver(_run(_core.apply_rope, arguments))


@explain_keywords
def decay_bias(q_positions: int | ArrayLike, k_positions: int | ArrayLike | None = None, *,
               rate: ArrayLike | None = None, half_life: ArrayLike | None = None,
               multiplier: ArrayLike | None = None, causal: bool = True, dtype: DTypeLike | None = None,
               out: NDArray[Any] | None = None, num_threads: int | None = None) -> NDArray[Any]:
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
        Fall of the logit a position, finite and >= 0; source document 1's gamma. Exactly one of rate,
        half_life and multiplier.
    half_life : array_like, shape (...)
        Positions until a weight is halved: ln 2 / rate, > 0.
    multiplier : array_like, shape (...)
        Factor on a weight for each position: e^-rate, in (0, 1]; RetNet's gamma.
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
        Its leading axes are those of the rate broadcast with those of the positions: rates (H,) give (H, M,
        N). Where both have leading axes they must be equally many.

    Raises
    ------
    TypeError
        No rate, half_life or multiplier, or more than one.
    ValueError
        A negative rate or a multiplier above 1, which explode; positions that are not finite; leading axes
        that do not fit.

    References
    ----------
    Source document 1 (The Dog, the Man, and the Clock), the fade e^(-gamma u).
    Sun, Y. et al. (2023). Retentive Network: A Successor to Transformer for Large Language Models.
    arXiv:2307.08621 (the multiplier).

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
    arguments, target = _check.decay(q_positions, k_positions, rate, half_life, multiplier, causal, dtype,
                                     out, num_threads)
    return target.deliver(_run(_core.bias, arguments))


@explain_keywords
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
        document 1 writes the bias as +m(t - s), which is a penalty only for m < 0: pass ``slopes=-m``.
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
    return target.deliver(_run(_core.bias, arguments))


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
    plan = _one_axis_plan(rope, q.shape[-1]) if rope is not None and type(q) is _ndarray and q.ndim else None
    if (alibi_slopes is decay_rate is None and (plan is not None or rope is None)
            and _is_plain(causal, num_threads) and (return_lse is False or return_lse is True)):
        result = _core.attention(q, k, v, scale, causal, mask, bias, None, plan, q_positions, k_positions,
                                 return_lse, out, num_threads)
        if result is not NotImplemented:
            return result
    if isinstance(rope, Rope) and len(rope.freqs) > 1:
        turn_q, turn_k, v, dtype = _check.turns(q, k, v, rope, q_positions, k_positions, num_threads)
        q, k = _run(_core.apply_rope, turn_q), _run(_core.apply_rope, turn_k)
        result = attention(q, k, v, scale=scale, causal=causal, mask=mask, bias=bias,
                           alibi_slopes=alibi_slopes, decay_rate=decay_rate, return_lse=return_lse, out=out,
                           num_threads=num_threads)
        result, *lse = result if return_lse else (result,)
        result = result.astype(dtype, copy=False) if out is None else out
        return (result, *lse) if return_lse else result
    arguments, target = _check.attention(q, k, v, scale, causal, mask, bias, alibi_slopes, decay_rate, rope,
                                         q_positions, k_positions, return_lse, out, num_threads)
    result = _run(_core.attention, arguments)
    return (target.deliver(result[0]), result[1]) if return_lse else target.deliver(result)


def _run(kernel, arguments):
    result = kernel(*arguments)
    if result is NotImplemented:
        raise RuntimeError(f"{kernel.__name__} refused arguments that pe._check had passed, a defect of pe "
                           f"and not of the call; please report it with the shapes and dtypes")
    return result


def _is_plain(switch, num_threads):
    return ((switch is False or switch is True)
            and (num_threads is None or (type(num_threads) is int and 0 < num_threads < 2**31)))


def _quick_plan(width, rope, base, layout):
    """Return the plan of a call that names a rope, or a base and a layout at most, or None for the checks."""
    if rope is not None:
        return _one_axis_plan(rope, width) if base is layout is None else None
    usual = (layout is None or type(layout) is str) and (base is None or type(base) in (int, float))
    return _check.plan_1d(width, base, layout, None) if usual and width and width % 2 == 0 else None


def _one_axis_plan(rope, width):
    return rope._plan if type(rope) is Rope and rope.dim == width and len(rope.freqs) == 1 else None
