"""Turn queries and keys by their positions."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from .. import _check, _core
from ..rope import Rope
from ._plain import plain_first, run


@plain_first
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
        Queries or keys: float16, bfloat16, float32 or float64; integers are read as float64. If heads stand
        behind rows, (B, T, H, D), pass ``x.swapaxes(-3, -2)``, or positions as ``positions[None, :, None]``.
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

    Notes
    -----
    Up to 512 positions of 32 planes (64 KiB of cos, as much of sin) a thread keeps the angles of its last
    call, with copies of the positions and frequencies that they are of. Calls with the same, as for q, then
    k, then the next layer, turn as fast as by ready tables, to the same bits; all else is made anew.

    References
    ----------
    Su, J. et al. (2021). RoFormer: Enhanced Transformer with Rotary Position Embedding. arXiv:2104.09864.
    The Dog, the Man, and the Clock, "RoPE in code", gives the form with tables.

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
    name, arguments, target = _check.apply_rope(x, cos, sin, positions, rope, freqs, base, layout, rotary_dim,
                                                inverse, out, num_threads)
    return target.deliver(run(getattr(_core, name), arguments))


@plain_first
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
        row. (Some texts call the row x: swap the two to follow it.)
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
    Transformer Upgrade Path 4: Two-Dimensional Rotary Position Embedding.
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
    return target.deliver(run(_core.apply_rope, arguments))


@plain_first
def apply_rope_nd(x: ArrayLike, positions: ArrayLike, freqs: ArrayLike, *, layout: str | None = None,
                  rate: ArrayLike | None = None, inverse: bool = False, out: NDArray[Any] | None = None,
                  num_threads: int | None = None) -> NDArray[Any]:
    """Turn planes of x by positions with any number of coordinates: the map beneath all rotary encodings.

    Plane l turns by ``sum_a positions[..., a] * freqs[a, l]``. Rows of freqs with zeros give each axis planes
    of its own, as in axial encodings and in the three axes (time, height, width) of vision-language models;
    without zeros all axes turn all planes, as in mixed encodings of images. Scores depend on the gap along
    every axis and on nothing else.

    Parameters
    ----------
    x : array_like, shape (..., H, T, D), (T, D) or (D,)
        Queries or keys.
    positions : array_like, shape (T, n_axes), or as many axes as x, each equal to x's or 1 but the last
        The coordinates of each row. For x (B, H, T, D), positions (B, T, n_axes) go in as
        ``positions[:, None, :, :]``.
    freqs : array_like, shape (n_axes, L), or (n_axes, H, L) for heads that differ
        Angular frequencies in radians a position, of any sign and order. The first 2L coordinates turn, the
        rest is copied bit for bit.
    layout : {"interleaved", "half"}, default "interleaved"
        Plane l is the pair (2l, 2l+1) or (l, l+L), as in `apply_rope`.
    rate : array_like, shape (n_axes, L), or (L,) with one axis
        Multiply plane l by ``exp(-sum_a rate[a, l] * positions[..., a])``: damped RoPE. Queries take +rate
        and keys -rate, so that a score fades by e^(-rate*(t - s)): turn and fade, as in xPos.
    inverse, out, num_threads
        As in `apply_rope`; inverse undoes the rate, too.

    Returns
    -------
    ndarray, shape of x
        In the dtype of x (float64 for integers), or `out`.

    Raises
    ------
    TypeError
        A dtype that is no number; positions that are no sequence.
    ValueError
        Shapes that do not fit; positions, freqs or rates that are not finite; rate times position beyond what
        float32 holds (87.3; 708.4 for float64 values). Far from 0, subtract a common position first.

    See Also
    --------
    Rope : freqs, layout and width in one object, for several axes too.
    decay_bias : three things called fade, told apart. This one damps a logit, which forgets nothing.

    References
    ----------
    Heo, B. et al. (2024). Rotary Position Embedding for Vision Transformer. arXiv:2403.13298 (mixed axes).
    Wang, P. et al. (2024). Qwen2-VL. arXiv:2409.12191 (time, height, width).
    Sun, Y. et al. (2022). A Length-Extrapolatable Transformer. arXiv:2212.10554 (xPos).
    The Dog, the Man, and the Clock, turn + fade.

    Examples
    --------
    Two planes, the first for the column and the second for the row of a patch at (3, 5):

    >>> import numpy as np
    >>> import pe
    >>> freqs = [[1.0, 0.0], [0.0, 1.0]]
    >>> pe.apply_rope_nd([[1, 0, 1, 0]], [[3, 5]], freqs).round(6)        # cos 3, sin 3, cos 5, sin 5
    array([[-0.989992,  0.14112 ,  0.283662, -0.958924]])

    Damped RoPE: the score of equal vectors over a gap u is e^(-u/10) cos u, wherever the two stand:

    >>> q = k = [[1.0, 0.0]]
    >>> for t, s in ((3, 0), (103, 100)):
    ...     a = pe.apply_rope_nd(q, [[t]], [[1.0]], rate=[[0.1]])
    ...     b = pe.apply_rope_nd(k, [[s]], [[1.0]], rate=[[-0.1]])
    ...     print(round(float((a @ b.T)[0, 0]), 6))
    -0.733404
    -0.733404
    >>> round(float(np.exp(-0.3) * np.cos(3)), 6)
    -0.733404
    """
    arguments, target = _check.apply_rope_nd(x, positions, freqs, layout, rate, inverse, out, num_threads)
    return target.deliver(run(_core.apply_rope, arguments))


# A rope turns rows the same way; its class is there before the ops are.
Rope.apply = plain_first(Rope.apply)  # type: ignore[method-assign]
