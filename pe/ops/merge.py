"""Put attention over parts of the keys together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from ._plain import plain_first, run


@plain_first
def merge_attention(outs: Sequence[ArrayLike] | ArrayLike, lses: Sequence[ArrayLike] | ArrayLike
                    ) -> tuple[NDArray[Any], NDArray[Any]]:
    """Merge attention over disjoint sets of keys into attention over all of them.

    A part counts by its normaliser e^lse: ``out = sum_i e^(lse_i - lse) out_i`` with ``lse = log sum_i
    e^lse_i``. So a long cache can be read in pieces, or a shared prefix once for many queries.

    Parameters
    ----------
    outs : sequence of array_like, or parts stacked along the first axis, each of shape (..., H, M, V)
        The first results of ``attention(..., return_lse=True)``. Parts need not follow each other in
        position; each call says where its keys stand (k_positions). A part that saw no key changes nothing.
    lses : sequence of array_like, or stacked, each of shape (..., H, M)
        The second results: natural logarithms. Where heads have sinks, give them to one part alone. Where
        some are +inf, these parts alone count, and alike.

    Returns
    -------
    out : ndarray, shape (..., H, M, V)
        In the promotion of the parts. Parts are added in their order, in float64 or float32, and the sum is
        rounded once.
    lse : ndarray, shape (..., H, M)
        float64 for float64 values, else float32; -inf, beside 0 in out, where no part saw a key.

    Raises
    ------
    TypeError
        Values that are no numbers, float16 with bfloat16, parts that are no sequence.
    ValueError
        No parts, parts of different shapes, lses that do not fit.

    See Also
    --------
    attention : makes the parts.

    References
    ----------
    Milakov, M., Gimelshein, N. (2018). Online normalizer calculation for softmax. arXiv:1805.02867.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.normal(size=(3, 1, 2, 10, 8))
    >>> near, far = slice(6, 10), slice(0, 6)
    >>> parts = [pe.attention(q, k[:, :, part], v[:, :, part], return_lse=True) for part in (near, far)]
    >>> out, lse = pe.merge_attention(*zip(*parts))
    >>> bool(np.allclose(out, pe.attention(q, k, v)))
    True
    """
    return cast("tuple[NDArray[Any], NDArray[Any]]", run(_core.merge_attention, _check.merge(outs, lses)))
