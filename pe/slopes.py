"""ALiBi slopes: one penalty rate for each head."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._keywords import explain_keywords
from ._scalars import integer, positive, shown

__all__ = ["alibi_slopes"]


@explain_keywords
def alibi_slopes(n_heads: int, *, max_bias: float = 8.0, recipe: str = "press") -> NDArray[np.float64]:
    """Return the ALiBi slopes of n_heads heads, positive penalties in head order.

    For a power of two they run geometrically from 2^(-max_bias/H) to 2^-max_bias. For other head counts the
    published models do not agree with the published text:

    - "press": the slopes of the largest power of two P up to H, then, for the remaining heads, every other
      slope of 2P. The order is that of the models, not sorted: head 8 of 12 is the steepest. BLOOM, MPT and
      ggml compute the same numbers in the same order.
    - "smooth": 2^(-max_bias (h+1)/H) throughout, equal to the above for powers of two only.

    Parameters
    ----------
    n_heads : int
        Number H of query heads.
    max_bias : float, default 8.0
        Exponent of the flattest slope (MPT's alibi_bias_max).
    recipe : {"press", "smooth"}, default "press"
        What to do where H is no power of two.

    Returns
    -------
    ndarray of float64, shape (H,)
        Slopes for `pe.attention` (alibi_slopes=) and `pe.alibi_bias` (slopes=), where a key u positions back
        costs slope * u.

    Raises
    ------
    ValueError
        n_heads below 1, max_bias not above 0, an unknown recipe.
    TypeError
        n_heads that is no integer, max_bias that is no number.

    References
    ----------
    Press, O., Smith, N. A., Lewis, M. (2022). Train Short, Test Long: Attention with Linear Biases Enables
    Input Length Extrapolation. arXiv:2108.12409, and the slopes of the authors' published model code. Source
    document 1 (The Dog, the Man, and the Clock) writes the bias as +m(t-s), which is a penalty only for m <
    0.

    Examples
    --------
    >>> from pe import alibi_slopes
    >>> alibi_slopes(6).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    >>> alibi_slopes(6, recipe="smooth").round(4).tolist()
    [0.3969, 0.1575, 0.0625, 0.0248, 0.0098, 0.0039]
    """
    heads = integer("n_heads", n_heads, 1)
    max_bias = min(positive("max_bias", max_bias), 2.0**1000)       # products with it stay finite
    if not isinstance(recipe, str):
        raise TypeError(f'recipe must be "press" or "smooth"; got {shown(recipe)}')
    if recipe == "smooth":
        return _geometric(max_bias, np.arange(1, heads + 1), heads)
    if recipe == "press":
        power = 1 << (heads.bit_length() - 1)
        return np.concatenate([_geometric(max_bias, np.arange(1, power + 1), power),
                               _geometric(max_bias, np.arange(1, 2 * (heads - power), 2), 2 * power)])
    raise ValueError(f'recipe must be "press" or "smooth"; got {shown(recipe)}')


def _geometric(max_bias: float, steps: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """2^(-max_bias*steps/count); whole powers are split off, so that rounding the exponent costs nothing."""
    whole, rest = np.divmod(max_bias * steps, count)
    return np.ldexp(np.exp2(-rest / count), -np.minimum(whole, 2000).astype(np.int64))     # 2^-2000 is 0
