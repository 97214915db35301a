"""Published encodings of images and videos, each a `Rope` with several axes, and the positions they expect.

Grids are row-major: patch (row, column) is row number ``row * width + column``. A preset fixes frequencies,
the order of axes and the layout; how positions are counted differs from model to model, so each page says it,
and a function makes them where a grid alone will not do.

>>> import numpy as np
>>> import pe
>>> rope, x = pe.presets.pixtral(64), np.ones((2, 15, 64))
>>> columns, rows = pe.grid_positions(3, 5)
>>> pe.apply_rope(x, positions=np.stack([rows, columns], axis=-1), rope=rope).shape
(2, 15, 64)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._keywords import explain_keywords, unknown_name
from ._scalars import integer, positive, shown
from .positions import grid_positions
from .rope.frequencies import geometric_freqs
from .rope.huggingface import axes_of
from .rope.provenance import Provenance
from .rope.rope import Rope, described

__all__ = ["dinov3", "dinov3_positions", "llama4_vision", "llama4_vision_positions", "pixtral", "qwen2_vl",
           "qwen2_vl_vision", "qwen2_vl_vision_positions", "rope_vit_axial", "sam2"]


def __getattr__(name: str) -> None:
    raise unknown_name(__name__, name, __all__)


@explain_keywords
def rope_vit_axial(dim: int, *, base: float = 100.0) -> Rope:
    """Return the axial encoding of RoPE-ViT: the first half of the planes turns by x, the last by y.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 100.0
        Either half has frequencies ``base**(-4 j / dim)``.

    Returns
    -------
    Rope
        Two axes (x, y) = (column, row), counted from 0; class tokens stand at (0, 0), which turns nothing:
        ``np.stack(pe.grid_positions(height, width, prefix=1), axis=-1)``.

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Heo, B. et al. (2024). Rotary Position Embedding for Vision Transformer. arXiv:2403.13298.

    Examples
    --------
    >>> import pe
    >>> pe.presets.rope_vit_axial(8).freqs.tolist()
    [[1.0, 0.1, 0.0, 0.0], [0.0, 0.0, 1.0, 0.1]]
    """
    return _halves(dim, base, "interleaved", Provenance("rope_vit", "x, then y: base^(-4j/d) each",
                                                        "Heo et al. (2024), arXiv:2403.13298"))


@explain_keywords
def sam2(dim: int, *, base: float = 10000.0) -> Rope:
    """Return the encoding of SAM 2's memory attention and of SAM 3's image encoder: `rope_vit_axial`, slower.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 10000.0
        Either half has frequencies ``base**(-4 j / dim)``.

    Returns
    -------
    Rope
        Two axes (x, y) = (column, row), counted from 0; ``pe.apply_rope_2d`` with its defaults is the same.
        Keys from several frames repeat the grid, and object pointers behind them stand at (0, 0). Global
        layers of SAM 3 multiply positions by window over grid.

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Ravi, N. et al. (2024). SAM 2: Segment Anything in Images and Videos. arXiv:2408.00714.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> x, (column, row) = np.random.default_rng(0).normal(size=(15, 32)), pe.grid_positions(3, 5)
    >>> turned = pe.presets.sam2(32).apply(x, np.stack([column, row], axis=-1))
    >>> bool(np.allclose(turned, pe.apply_rope_2d(x, column, row)))
    True
    """
    return _halves(dim, base, "interleaved", Provenance("sam2", "x, then y: base^(-4j/d) each",
                                                        "Ravi et al. (2024), SAM 2, arXiv:2408.00714"))


@explain_keywords
def llama4_vision(dim: int, *, base: float = 10000.0) -> Rope:
    """Return the encoding of Llama 4's vision tower: x, then y, counted from 1.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 10000.0
        Either half has frequencies ``base**(-4 j / dim)``.

    Returns
    -------
    Rope
        Two axes (x, y) = (column, row); `llama4_vision_positions` makes the positions.

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Meta (2025). Llama 4, reference implementation; transformers, models/llama4.

    Examples
    --------
    >>> import pe
    >>> pe.presets.llama4_vision(88).freqs[:, [0, 22]].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _halves(dim, base, "interleaved", Provenance("llama4_vision_model", "x, then y: base^(-4j/d) each",
                                                        "Meta (2025), Llama 4, reference implementation"))


def llama4_vision_positions(height: int, width: int) -> NDArray[np.int64]:
    """Return the positions of a grid of patches and of the class token behind them.

    Parameters
    ----------
    height, width : int
        Rows and columns of patches.

    Returns
    -------
    ndarray of int64, shape (height * width + 1, 2)
        (column, row) from 1 on; the class token, last, at (0, 0).

    Raises
    ------
    ValueError
        A negative side.

    Examples
    --------
    >>> import pe
    >>> pe.presets.llama4_vision_positions(2, 2).tolist()
    [[1, 1], [2, 1], [1, 2], [2, 2], [0, 0]]
    """
    patches = np.stack(grid_positions(height, width), axis=-1) + 1
    return np.concatenate([patches, np.zeros((1, 2), np.int64)])


@explain_keywords
def pixtral(dim: int, *, base: float = 10000.0) -> Rope:
    """Return the encoding of Pixtral: rows take the even frequencies of one spectrum, columns the odd ones.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 10000.0
        Of the spectrum ``base**(-2 l / dim)``: l even for rows, l odd for columns.

    Returns
    -------
    Rope
        Two axes (row, column), counted from 0, rows first, in the half layout (of transformers; Mistral's own
        code has the planes interleaved).

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Agrawal, P. et al. (2024). Pixtral 12B. arXiv:2410.07073.

    Examples
    --------
    >>> import pe
    >>> pe.presets.pixtral(8).freqs.round(6).tolist()
    [[1.0, 0.01, 0.0, 0.0], [0.0, 0.0, 0.1, 0.001]]
    """
    spectrum = geometric_freqs(_fourfold(dim), _base(base))
    return _axial(dim, spectrum[::2], spectrum[1::2], "half", base,
                  Provenance("pixtral", "rows base^(-2l/d), l even; columns, l odd",
                             "Agrawal et al. (2024), Pixtral 12B, arXiv:2410.07073"))


@explain_keywords
def qwen2_vl_vision(dim: int, *, base: float = 10000.0) -> Rope:
    """Return the encoding of the vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: rows, then columns.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 10000.0
        Either half has frequencies ``base**(-4 j / dim)``.

    Returns
    -------
    Rope
        Two axes (row, column) in the half layout; `qwen2_vl_vision_positions` makes the positions.

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Wang, P. et al. (2024). Qwen2-VL. arXiv:2409.12191.

    Examples
    --------
    >>> import pe
    >>> pe.presets.qwen2_vl_vision(80).layout
    'half'
    """
    return _halves(dim, base, "half", Provenance("qwen2_vl_vision", "rows, then columns: base^(-4j/d) each",
                                                 "Wang et al. (2024), Qwen2-VL, arXiv:2409.12191"))


def qwen2_vl_vision_positions(height: int, width: int, *, merge: int = 2) -> NDArray[np.int64]:
    """Return the positions of a grid whose patches stand in the order in which windows are merged.

    Parameters
    ----------
    height, width : int
        Rows and columns of patches, multiples of `merge`.
    merge : int, default 2
        Side of a window whose patches follow each other.

    Returns
    -------
    ndarray of int64, shape (height * width, 2)
        (row, column) from 0 on. Frames of a video repeat them.

    Raises
    ------
    ValueError
        A side that is no multiple of `merge`.

    Examples
    --------
    >>> import pe
    >>> pe.presets.qwen2_vl_vision_positions(2, 4).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    """
    merge = integer("merge", merge, 1)
    for name, side in (("height", height), ("width", width)):
        if integer(name, side, 0) % merge:
            raise ValueError(f"{name} must be a multiple of merge={merge}; got {side}")
    column, row = (p.reshape(height // merge, merge, width // merge, merge).swapaxes(1, 2).ravel()
                   for p in grid_positions(height, width))
    return np.stack([row, column], axis=-1)


@explain_keywords
def qwen2_vl(dim: int = 128, *, base: float = 1e6, sections: tuple[int, int, int] = (16, 24, 24)) -> Rope:
    """Return the M-RoPE of Qwen2-VL's text model: one spectrum, its planes shared by time, rows and columns.

    Parameters
    ----------
    dim : int, default 128
        Width D of a head.
    base : float, default 1e6
        Of the spectrum ``base**(-2 l / dim)``.
    sections : tuple of int, default (16, 24, 24)
        How many planes, in order, turn by time, by row and by column; D/2 together.

    Returns
    -------
    Rope
        Three axes (time, row, column) in the half layout. A text token stands at (p, p, p), where it is plain
        RoPE; patches of an image share their time, and the text behind goes on from the largest coordinate.

    Raises
    ------
    ValueError
        Sections that do not add up to D/2.

    References
    ----------
    Wang, P. et al. (2024). Qwen2-VL. arXiv:2409.12191, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> x, p = np.random.default_rng(0).normal(size=(3, 128)), np.arange(3)
    >>> turned = pe.presets.qwen2_vl().apply(x, np.stack([p, p, p], axis=-1))
    >>> bool(np.allclose(turned, pe.apply_rope(x, positions=p, base=1e6, layout="half")))
    True
    """
    dim = integer("dim", dim, 2)
    if not isinstance(sections, tuple | list):
        raise TypeError(f"sections must be three counts of planes, such as (16, 24, 24); got "
                        f"{shown(sections)}")
    counts = tuple(integer("sections", count, 0) for count in sections)
    if len(counts) != 3 or 2 * sum(counts) != dim:
        raise ValueError(f"sections must be three counts of planes that add up to D/2 = {dim / 2:g}; got "
                         f"{sections}")
    table = geometric_freqs(dim, _base(base)) * (axes_of("chunked", counts) == np.arange(3)[:, None])
    return described(dim, table, layout="half", base=float(base),
                     origin=Provenance("qwen2_vl", f"time, rows, columns: planes {counts} of base^(-2l/d)",
                                       "Wang et al. (2024), Qwen2-VL, arXiv:2409.12191"))


@explain_keywords
def dinov3(dim: int, *, base: float = 100.0) -> Rope:
    """Return the encoding of DINOv3: whole turns over an image whatever its size, rows, then columns.

    Parameters
    ----------
    dim : int
        Width D of a head, a multiple of 4.
    base : float, default 100.0
        Plane j has the period ``base**(4 j / dim)`` in coordinates that run from -1 to 1.

    Returns
    -------
    Rope
        Two axes (row, column) in the half layout; `dinov3_positions` makes the positions.

    Raises
    ------
    ValueError
        A width that is no multiple of 4, a base below 1.

    References
    ----------
    Simeoni, O. et al. (2025). DINOv3. arXiv:2508.10104.

    Examples
    --------
    >>> import pe
    >>> pe.presets.dinov3(8).wavelengths[0, :2].round(6).tolist()
    [1.0, 10.0]
    """
    half = 2 * math.pi * geometric_freqs(_fourfold(dim) // 2, _base(base))
    return _axial(dim, half, half, "half", base,
                  Provenance("dinov3_vit", "rows, then columns: 2 pi base^(-4j/d) each, in [-1, 1]",
                             "Simeoni et al. (2025), DINOv3, arXiv:2508.10104"))


def dinov3_positions(height: int, width: int, *, prefix: int = 0) -> NDArray[np.float64]:
    """Return the centres of patches in coordinates that run from -1 to 1 along either side.

    Parameters
    ----------
    height, width : int
        Rows and columns of patches.
    prefix : int, default 0
        Class and register tokens in front, which stand at (0, 0) and turn by nothing.

    Returns
    -------
    ndarray of float64, shape (prefix + height * width, 2)
        (row, column), ``2 (i + 1/2) / n - 1``.

    Raises
    ------
    ValueError
        A negative side or prefix.

    Examples
    --------
    >>> import pe
    >>> pe.presets.dinov3_positions(1, 2, prefix=1).tolist()
    [[0.0, 0.0], [0.0, -0.5], [0.0, 0.5]]
    """
    column, row = grid_positions(height, width)
    patches = np.stack([2 * (row + 0.5) / height - 1, 2 * (column + 0.5) / width - 1], axis=-1)
    return np.concatenate([np.zeros((integer("prefix", prefix, 0), 2)), patches])


def _halves(dim: int, base: float, layout: str, origin: Provenance) -> Rope:
    half = geometric_freqs(_fourfold(dim) // 2, _base(base))
    return _axial(dim, half, half, layout, base, origin)


def _axial(dim: int, first: NDArray[np.float64], second: NDArray[np.float64], layout: str, base: float,
           origin: Provenance) -> Rope:
    """The first half of the planes turns by the first axis, the second half by the second."""
    still = np.zeros_like(first)
    return described(dim, np.array([[*first, *still], [*still, *second]]), layout=layout, base=float(base),
                     origin=origin)


def _fourfold(dim: int) -> int:
    dim = integer("dim", dim, 4)
    if dim % 4:
        raise ValueError(f"dim must be a multiple of 4, planes for two axes; got {dim}")
    return dim


def _base(base: float) -> float:
    base = positive("base", base)
    if base < 1:
        raise ValueError(f"base must be at least 1; got {base:g}")
    return base
