"""A divisor for each plane from a list: LongRoPE."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .._scalars import amount, integer, positive
from .common import (
    Array,
    Scaling,
    checked_context,
    checked_divisors,
    checked_length,
    record,
    set_fields,
)


@record
class longrope(Scaling):
    """LongRoPE: every plane divided by a factor of its own, from a list for short texts or one for long.

    The list is chosen here, once, by `seq_len`: keys that were cached under the other list would be turned by
    other frequencies than the queries that meet them.

    Parameters
    ----------
    short_factor, long_factor : sequence of float, length L
        Divisors of the frequencies, for texts within L0 and beyond.
    original_max_position_embeddings : int
        L0.
    factor : float, optional
        s, for the amplitude sqrt(1 + ln s / ln L0) (1 for s up to 1). Default:
        `max_position_embeddings` / L0.
    max_position_embeddings : int, optional
        The extended context.
    attention_factor : float, optional
        The amplitude itself; it beats the formula.
    short_mscale, long_mscale : float, optional
        Amplitudes that belong to the lists (Phi-3.5-MoE); they beat both.
    seq_len : int, optional
        The length to serve: above L0 the long list is taken. Default: within L0.

    Raises
    ------
    ValueError
        Lists of different lengths or, where they are applied, of another length than there are planes;
        nothing that gives an amplitude.
    TypeError
        A list that is none.

    References
    ----------
    Ding, Y. et al. (2024). LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens. arXiv:2402.13753.

    Examples
    --------
    >>> import pe
    >>> lists = {"short_factor": [1.0, 1.0], "long_factor": [1.0, 8.0], "factor": 4.0}
    >>> for n in (1024, 1025):
    ...     scaled = pe.scaling.longrope(**lists, original_max_position_embeddings=1024, seq_len=n)
    ...     print(pe.Rope(4, scaling=scaled).freqs.tolist(), round(scaled.amplitude, 6))
    [[1.0, 0.01]] 1.095445
    [[1.0, 0.00125]] 1.095445
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float | None = None
    max_position_embeddings: int | None = None
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None
    seq_len: int | None = None
    paper: ClassVar[str] = "Ding et al. (2024), LongRoPE, arXiv:2402.13753"

    def __post_init__(self) -> None:
        set_fields(self, short_factor=checked_divisors("short_factor", self.short_factor),
                   long_factor=checked_divisors("long_factor", self.long_factor),
                   original_max_position_embeddings=checked_context(self.original_max_position_embeddings),
                   seq_len=checked_length(self.seq_len))
        if len(self.short_factor) != len(self.long_factor):
            raise ValueError(f"short_factor has {amount(len(self.short_factor), 'number')} and long_factor "
                             f"has {len(self.long_factor)}; expected one for each plane in both")
        for name in ("factor", "attention_factor", "short_mscale", "long_mscale"):
            if getattr(self, name) is not None:
                set_fields(self, **{name: positive(name, getattr(self, name))})
        if self.max_position_embeddings is not None:
            longest = integer("max_position_embeddings", self.max_position_embeddings, 1)
            set_fields(self, max_position_embeddings=longest)
        if (self.short_mscale is None) != (self.long_mscale is None):
            raise ValueError("longrope got one of short_mscale and long_mscale; expected both or neither")
        if all(value is None for value in (self.factor, self.max_position_embeddings, self.attention_factor,
                                           self.short_mscale)):
            raise ValueError("longrope needs factor= or max_position_embeddings= for its amplitude, or the "
                             "amplitude itself as attention_factor=")

    @property
    def long(self) -> bool:
        """Whether the long list is in use."""
        return self.seq_len is not None and self.seq_len > self.original_max_position_embeddings

    @property
    def amplitude(self) -> float:
        if self.short_mscale is not None and self.long_mscale is not None:
            return self.long_mscale if self.long else self.short_mscale
        if self.attention_factor is not None:
            return self.attention_factor
        s = self._extension()
        return 1.0 if s <= 1 else math.sqrt(1 + math.log(s) / math.log(self.original_max_position_embeddings))

    @property
    def context(self) -> float:
        return max(self.max_position_embeddings or self._extension() * self.original_max_position_embeddings,
                   self.seq_len or 0)

    def scale(self, w: Array, base: float | None = None) -> Array:
        name = "long_factor" if self.long else "short_factor"
        divisors = getattr(self, name)
        if len(divisors) != w.shape[-1]:
            raise ValueError(f"{name} has {amount(len(divisors), 'number')}; expected L = {w.shape[-1]}, one "
                             f"for each plane")
        return w / np.array(divisors)

    def _extension(self) -> float:
        longest = self.max_position_embeddings or self.original_max_position_embeddings
        return self.factor or longest / self.original_max_position_embeddings
