"""`convert_layout`: move arrays between the two pair layouts, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._check.arrays import to_array
from ._keywords import explain_keywords
from ._scalars import amount, integer, shown
from .rope import canonical_layout

__all__ = ["convert_layout"]


@explain_keywords
def convert_layout(a: ArrayLike, src: str, dst: str, *, axis: int = -1, head_dim: int | None = None,
                   rotary_dim: int | None = None, rotary_offset: int = 0) -> NDArray[Any]:
    """Reorder the coordinates of heads from one pair layout to the other.

    Coordinates 2l, 2l+1 of the interleaved layout become l, l+L of the half layout, and back. What is
    reordered alike gives the same scores: convert queries and keys, or the projections that make them, both
    or neither. Values, gates and output projections have no part in it.

    Parameters
    ----------
    a : array_like
        Anything with heads along one axis, of any dtype: activations and cached keys (..., D), a projection
        weight (H*D, E) or its bias (H*D,), the gain (D,) of a norm of queries or keys, quantised bytes.
    src, dst : {"interleaved", "half"}
        Layout of `a` and of the result, or an alias: "adjacent", "gptj", "traditional"; "neox",
        "rotate_half", "split".
    axis : int, default -1
        The axis of the coordinates: 0 for a weight (H*D, E) that multiplies from the left, as in torch.
    head_dim : int, optional
        Width D of a head, where several lie one after the other along `axis`: H*D for queries, K*D for keys
        of grouped heads. Default: the axis is one head, for the last axis alone. It is the width that is
        asked for, since a key matrix of fewer heads has the same one.
    rotary_dim : int, optional
        Width of the turned part of a head; the rest stays where it is. Default: all after `rotary_offset`.
    rotary_offset : int, default 0
        Coordinates of a head before its turned part.

    Returns
    -------
    ndarray, shape and dtype of a
        A new C-contiguous array, also where `src` and `dst` are the same.

    Raises
    ------
    ValueError
        An unknown layout, an axis that is not there or no multiple of `head_dim`, an odd `rotary_dim`, or one
        that reaches past the head.
    TypeError
        A layout that is no string, a width that is no integer, an array that NumPy cannot read.

    See Also
    --------
    apply_rope : Turns vectors of either layout.

    References
    ----------
    Su, J. et al. (2021). RoFormer, arXiv:2104.09864, has adjacent pairs; GPT-NeoX (Black, S. et al., 2022,
    arXiv:2204.06745) and Hugging Face Llama have halves.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> pe.convert_layout([0, 1, 2, 3, 4, 5], "interleaved", "half").tolist()
    [0, 2, 4, 1, 3, 5]

    A fused projection for 4 heads of width 16, of which 8 turn:

    >>> weight = np.random.default_rng(0).normal(size=(64, 32))
    >>> half = pe.convert_layout(weight, "interleaved", "half", axis=0, head_dim=16, rotary_dim=8)
    >>> back = pe.convert_layout(half, "half", "interleaved", axis=0, head_dim=16, rotary_dim=8)
    >>> bool((back == weight).all())
    True
    """
    source, target = _layout("src", src), _layout("dst", dst)
    array = to_array("a", a)
    if array.ndim == 0:
        raise ValueError(f"a is {shown(a)}; expected an array with heads along an axis, such as (..., D)")
    axis = integer("axis", axis, -array.ndim)
    if axis >= array.ndim:
        raise ValueError(f"axis is {axis} and a has {amount(array.ndim, 'axis', 'axes')} "
                         f"(shape {array.shape})")
    size = array.shape[axis]
    if head_dim is None and axis not in (-1, array.ndim - 1):
        raise ValueError(f"axis {axis} of a has {amount(size, 'coordinate')} (shape {array.shape}), of one "
                         f"head or several; pass head_dim=, the width of one (head_dim={size} if it is one)")
    head = size if head_dim is None else integer("head_dim", head_dim, 1)
    if head and size % head:
        raise ValueError(f"axis {axis} of a has {amount(size, 'coordinate')} (shape {array.shape}), which is "
                         f"no multiple of head_dim={head}; is axis= right?")
    order = np.arange(head)
    offset, width = _turned(head, head_dim, rotary_dim, rotary_offset)
    if source != target:
        pairs = order[offset:offset + width]
        order[offset:offset + width] = (pairs.reshape(-1, 2).T if target == "half"
                                        else pairs.reshape(2, -1).T).ravel()
    starts = np.arange(0, size, head or 1)
    return np.take(array, (starts[:, None] + order).ravel(), axis=axis)


def _layout(name: str, value: str) -> str:
    if value is None:
        raise TypeError(f'{name} is None; expected "interleaved" or "half"')
    try:
        return canonical_layout(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _turned(head: int, head_dim: int | None, rotary_dim: int | None, rotary_offset: int) -> tuple[int, int]:
    """Return where the turned part of a head starts, and its width."""
    whole = f"{'the axis of a' if head_dim is None else 'head_dim'} = {head}"
    offset = integer("rotary_offset", rotary_offset, 0)
    if offset > head:
        raise ValueError(f"rotary_offset must be at most {whole}; got {offset}")
    if rotary_dim is None:
        width = head - offset
        if width % 2:
            less = f" less rotary_offset = {offset}" if offset else ""
            raise ValueError(f"{whole}{less} is odd, and planes are pairs of coordinates; pass rotary_dim=, "
                             f"the width of the turned part")
        return offset, width
    width = integer("rotary_dim", rotary_dim, 0)
    if width % 2:
        raise ValueError(f"rotary_dim must be even, planes are pairs of coordinates; got {width}")
    if offset + width > head:
        after = f" after rotary_offset={offset}" if offset else ""
        raise ValueError(f"rotary_dim={width}{after} reaches past {whole}")
    return offset, width
