"""By how often a plane turns within the context of training: YaRN and Llama 3 keep, blend or divide it."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .._scalars import positive, shown
from .common import Array, Scaling, blended, checked_base, checked_context, checked_factor, record, set_fields


@record
class yarn(Scaling):
    """YaRN: planes that turn often within L0 are kept, those that hardly turn divided by s, a ramp between.

    Plane l is blended by r_l = clamp((l - lo) / (hi - lo), 0, 1): w_l (1 - r_l) + r_l w_l / s, where lo and
    hi are the planes that turn `beta_fast` and `beta_slow` times within L0. With m(k) = 0.1 k ln s + 1, cos
    and sin are multiplied by m(1), or by m(mscale) / m(mscale_all_dim) where both are given; scores gain the
    square.

    Parameters
    ----------
    factor : float
        s, at least 1.
    original_max_position_embeddings : int
        L0.
    beta_fast, beta_slow : float, default 32 and 1
        Turns within L0 above which a plane is kept, and below which it is divided by s.
    attention_factor : float, optional
        The amplitude itself, in place of the formula.
    mscale, mscale_all_dim : float, optional
        DeepSeek's coefficients. The second also multiplies attention's default scale by
        m(mscale_all_dim)^2 (`softmax_scale`): DeepSeek moves its share from the tables to the softmax. One
        without the other leaves the amplitude m(1).
    truncate : bool, default True
        Round lo down and hi up to whole planes; gpt-oss does not.

    Raises
    ------
    ValueError
        A factor below 1, beta_fast below beta_slow, a number that is not positive; base 1, where it is
        applied.
    TypeError
        A truncate that is neither True nor False.

    References
    ----------
    Peng, B. et al. (2023). YaRN: Efficient Context Window Extension of Large Language Models.
    arXiv:2309.00071.
    DeepSeek-AI (2024). DeepSeek-V3 Technical Report. arXiv:2412.19437 (mscale, mscale_all_dim).

    Examples
    --------
    >>> import pe
    >>> deepseek = pe.scaling.yarn(40, 4096, mscale=1.0, mscale_all_dim=1.0)
    >>> deepseek.amplitude, round(deepseek.softmax_scale, 6)
    (1.0, 1.873854)
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    needs_base: ClassVar[bool] = True
    blends: ClassVar[bool] = True
    paper: ClassVar[str] = "Peng et al. (2023), YaRN, arXiv:2309.00071"

    def __post_init__(self) -> None:
        set_fields(self, factor=checked_factor(self.factor),
                   original_max_position_embeddings=checked_context(self.original_max_position_embeddings),
                   beta_fast=positive("beta_fast", self.beta_fast),
                   beta_slow=positive("beta_slow", self.beta_slow))
        for name in ("attention_factor", "mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                set_fields(self, **{name: positive(name, getattr(self, name))})
        if self.beta_fast < self.beta_slow:
            raise ValueError(f"beta_fast must be at least beta_slow, as it counts turns of faster planes; "
                             f"got beta_fast={self.beta_fast:g} and beta_slow={self.beta_slow:g}")
        if not isinstance(self.truncate, bool | np.bool_):
            raise TypeError(f"truncate must be True or False; got {shown(self.truncate)}")
        set_fields(self, truncate=bool(self.truncate))

    @property
    def amplitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale is not None and self.mscale_all_dim is not None:
            return self._m(self.mscale) / self._m(self.mscale_all_dim)
        return self._m(1.0)

    @property
    def softmax_scale(self) -> float:
        share = 1.0 if self.mscale_all_dim is None else self._m(self.mscale_all_dim)
        return share * share

    @property
    def context(self) -> float:
        return self.factor * self.original_max_position_embeddings

    def scale(self, w: Array, base: float | None = None) -> Array:
        d, log_base = 2 * w.shape[-1], math.log(checked_base(self, base))
        if log_base == 0:
            raise ValueError("yarn needs a base above 1; got base 1, at which every plane turns alike")
        lo, hi = (d * math.log(self.original_max_position_embeddings / (2 * math.pi * turns)) / (2 * log_base)
                  for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            lo, hi = math.floor(lo), math.ceil(hi)
        lo, hi = max(lo, 0), min(hi, d - 1)
        if lo == hi:
            hi += 0.001                                         # as published: a step, not a division by zero
        return blended(w, self.factor, np.clip((hi - np.arange(d // 2)) / (hi - lo), 0, 1))

    def _m(self, coefficient: float) -> float:
        return 0.1 * coefficient * math.log(self.factor) + 1


@record
class llama3(Scaling):
    """Llama 3.1: wavelengths below L0/high are kept, those above L0/low divided by s, and blended between.

    Between them w_l ((1 - g)/s + g) with g = (L0/wavelength - low) / (high - low).

    Parameters
    ----------
    factor : float, default 8.0
        s, at least 1.
    low_freq_factor, high_freq_factor : float, default 1.0 and 4.0
        low and high, turns within L0. high must be above low, or both 1: a step at the wavelength L0, as in
        Llama 4.
    original_max_position_embeddings : int, default 8192
        L0.

    Raises
    ------
    ValueError
        A factor below 1; high below low, or equal to it and not 1.

    References
    ----------
    Llama Team (2024). The Llama 3 Herd of Models. arXiv:2407.21783; its reference code has the formula.

    Examples
    --------
    >>> import pe
    >>> rope = pe.Rope(128, 500000.0, scaling=pe.scaling.llama3())
    >>> (rope.unscaled / rope.freqs)[0, [28, 29, 34, 35]].round(3).tolist()
    [1.0, 1.207, 5.257, 8.0]
    """

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192
    named: ClassVar[tuple[str, ...]] = ("factor", "original_max_position_embeddings")
    blends: ClassVar[bool] = True
    paper: ClassVar[str] = "Llama Team (2024), The Llama 3 Herd of Models, arXiv:2407.21783"

    def __post_init__(self) -> None:
        low = positive("low_freq_factor", self.low_freq_factor)
        high = positive("high_freq_factor", self.high_freq_factor)
        if high < low or (high == low and high != 1):
            raise ValueError(f"high_freq_factor must be above low_freq_factor, or both 1 for a step at the "
                             f"original context; got high_freq_factor={high:g} and low_freq_factor={low:g}")
        set_fields(self, factor=checked_factor(self.factor), low_freq_factor=low, high_freq_factor=high,
                   original_max_position_embeddings=checked_context(self.original_max_position_embeddings))

    @property
    def context(self) -> float:
        return self.factor * self.original_max_position_embeddings

    def scale(self, w: Array, base: float | None = None) -> Array:
        turns = self.original_max_position_embeddings * np.abs(w) / (2 * math.pi)       # within L0
        width = self.high_freq_factor - self.low_freq_factor
        if width == 0:
            kept = (turns >= self.low_freq_factor).astype(np.float64)
        else:
            kept = np.clip((turns - self.low_freq_factor) / width, 0, 1)
        return blended(w, self.factor, kept)
