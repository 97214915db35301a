"""One rule for all planes: positions interpolated, a larger base, or a part of the planes that turns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._scalars import integer, positive
from .common import (
    Array,
    Scaling,
    checked_factor,
    checked_length,
    rebased,
    record,
    set_fields,
)


@record
class linear(Scaling):
    """Position interpolation: w_l / s, the same as positions divided by s.

    Parameters
    ----------
    factor : float
        s, at least 1.

    Raises
    ------
    ValueError
        A factor below 1 or not finite.

    References
    ----------
    Chen, S. et al. (2023). Extending Context Window of Large Language Models via Positional Interpolation.
    arXiv:2306.15595.

    Examples
    --------
    >>> import pe
    >>> pe.Rope(4, scaling=pe.scaling.linear(4)).freqs.tolist()
    [[0.25, 0.0025]]
    """

    factor: float
    paper: ClassVar[str] = "Chen et al. (2023), Positional Interpolation, arXiv:2306.15595"

    def __post_init__(self) -> None:
        set_fields(self, factor=checked_factor(self.factor))

    def scale(self, w: Array, base: float | None = None) -> Array:
        return w / self.factor


@record
class ntk(Scaling):
    """A larger base, b s^(d/(d-2)): the fastest plane is kept, the slowest divided by exactly s.

    Parameters
    ----------
    factor : float
        s, at least 1; HunYuan calls it ``alpha``.

    Raises
    ------
    ValueError
        A factor below 1; where it is applied, a width of 2, whose exponent d/(d-2) does not exist.

    References
    ----------
    bloc97 (2023). NTK-Aware Scaled RoPE; section 3.1 of Peng et al. (2023), YaRN, arXiv:2309.00071.

    Examples
    --------
    >>> import pe
    >>> pe.Rope(6, 1000.0, scaling=pe.scaling.ntk(4)).freqs.round(6).tolist()
    [[1.0, 0.05, 0.0025]]
    """

    factor: float
    needs_base: ClassVar[bool] = True
    paper: ClassVar[str] = "Peng et al. (2023), YaRN, section 3.1, arXiv:2309.00071"

    def __post_init__(self) -> None:
        set_fields(self, factor=checked_factor(self.factor))

    def scale(self, w: Array, base: float | None = None) -> Array:
        return rebased(self, w, base, self.factor)


@record
class dynamic_ntk(Scaling):
    """NTK that grows with the text: b (1 + s (n/M - 1))^(d/(d-2)), n the larger of seq_len and M.

    The length is an explicit choice. A module that recomputes it at every call leaves cached keys turned by
    frequencies that the next query no longer uses.

    Parameters
    ----------
    factor : float
        s, at least 1.
    max_position_embeddings : int
        M, the context up to which nothing is scaled.
    seq_len : int, optional
        The length to scale for. Default: within M.

    Raises
    ------
    ValueError
        A factor below 1, a context or length below 1; where it is applied, a width of 2.

    References
    ----------
    emozilla (2023). Dynamically Scaled RoPE; section 3.3 of Peng et al. (2023), YaRN, arXiv:2309.00071.

    Examples
    --------
    >>> import pe
    >>> scaled = pe.scaling.dynamic_ntk(2.0, 2048, seq_len=4096)        # a base 3^(d/(d-2)) times as large
    >>> pe.Rope(6, 1000.0, scaling=scaled).freqs[0, -1] * 3 == pe.Rope(6, 1000.0).freqs[0, -1]
    np.True_
    """

    factor: float
    max_position_embeddings: int
    seq_len: int | None = None
    needs_base: ClassVar[bool] = True
    paper: ClassVar[str] = "Peng et al. (2023), YaRN, section 3.3, arXiv:2309.00071"

    def __post_init__(self) -> None:
        set_fields(self, factor=checked_factor(self.factor),
                   max_position_embeddings=integer("max_position_embeddings",
                                                   self.max_position_embeddings, 1),
                   seq_len=checked_length(self.seq_len))

    @property
    def context(self) -> float:
        return max(self.seq_len or 0, self.max_position_embeddings)

    def scale(self, w: Array, base: float | None = None) -> Array:
        growth = 1 + self.factor * (self.context / self.max_position_embeddings - 1)
        return rebased(self, w, base, growth)


@record
class proportional(Scaling):
    """Gemma 4: the first part of the planes turns, the rest stands still, at the full width of the head.

    Unlike a partial rotation (``rotary_dim=``), exponents are counted over the full width d, and half pairs
    are (l, l + d/2).

    Parameters
    ----------
    partial_rotary_factor : float, default 1.0
        The part r, above 0 and at most 1; floor(r d / 2) planes turn.
    factor : float, default 1.0
        s, by which they are divided, at least 1.

    Raises
    ------
    ValueError
        A part of 0, or above 1; a factor below 1.

    References
    ----------
    Gemma Team, reference implementation, ``apply_rope(..., rope_proportion=, scale_factor=)``.

    Examples
    --------
    >>> import pe
    >>> pe.Rope(8, 10000.0, scaling=pe.scaling.proportional(0.5)).freqs.tolist()
    [[1.0, 0.1, 0.0, 0.0]]
    """

    partial_rotary_factor: float = 1.0
    factor: float = 1.0
    paper: ClassVar[str] = "Gemma Team, reference implementation (rope_proportion)"

    def __post_init__(self) -> None:
        part = positive("partial_rotary_factor", self.partial_rotary_factor)
        if part > 1:
            raise ValueError(f"partial_rotary_factor must be at most 1; got {part:g}")
        set_fields(self, partial_rotary_factor=part, factor=checked_factor(self.factor))

    def scale(self, w: Array, base: float | None = None) -> Array:
        turning = int(self.partial_rotary_factor * 2 * w.shape[-1] // 2)
        return np.where(np.arange(w.shape[-1]) < turning, w / self.factor, 0.0)
