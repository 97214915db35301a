"""`Scaling`, what every scaling has, and the checks they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from .._keywords import explain_keywords
from .._scalars import amount, integer, positive, shown

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Scaling:
    """What every scaling has: a map of frequencies, and factors for scores.

    Attributes
    ----------
    amplitude : float
        Factor on cos and sin, 1 where the scaling leaves lengths alone. Scores gain its square.
    softmax_scale : float
        Factor on attention's default scale.
    context : float or None
        The number of positions it is meant for, where its parameters tell.
    needs_base : bool
        Whether frequencies alone are not enough.
    blends : bool
        Whether planes between the kept and the divided ones are a mixture of both.
    paper : str
        Where it is published.
    """

    needs_base: ClassVar[bool] = False
    blends: ClassVar[bool] = False
    named: ClassVar[tuple[str, ...]] = ()                       # shown even where they are the defaults
    paper: ClassVar[str] = ""

    @property
    def amplitude(self) -> float:
        return 1.0

    @property
    def softmax_scale(self) -> float:
        return 1.0

    @property
    def context(self) -> float | None:
        return None

    def scale(self, w: Array, base: float | None = None) -> Array:
        """Return the scaled frequencies of planes that turn by w (..., L), which come from this base."""
        raise TypeError("Scaling is what the scalings share, and scales nothing; take one of pe.scaling")

    def __repr__(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self)
                 if field.name in self.named or getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in given)})"


_Scaling = TypeVar("_Scaling", bound=Scaling)


@dataclass_transform(frozen_default=True)
def record(cls: type[_Scaling]) -> type[_Scaling]:
    """Make a scaling a frozen dataclass, whose TypeErrors about keywords say what to type."""
    made = dataclass(frozen=True, repr=False)(cls)
    made.__init__ = explain_keywords(made.__init__)  # type: ignore[method-assign]
    return made


def set_fields(scaling: Scaling, **values: Any) -> None:
    """Set fields of a frozen record while it is made."""
    for name, value in values.items():
        object.__setattr__(scaling, name, value)


def checked_factor(value: Any) -> float:
    """Return s, at least 1, or raise."""
    if isinstance(value, Mapping):
        raise TypeError(f"factor must be a number; got {shown(value)}, a dict; a whole config goes to "
                        f"pe.Rope.from_hf")
    factor = positive("factor", value)
    if factor < 1:
        raise ValueError(f"factor must be at least 1, as frequencies are divided by it; got {factor:g}")
    return factor


def checked_context(value: Any) -> int:
    """Return L0, or raise."""
    return integer("original_max_position_embeddings", value, 2)


def checked_length(seq_len: Any) -> int | None:
    """Return the length a table is chosen by, or None."""
    return None if seq_len is None else integer("seq_len", seq_len, 1)


def checked_divisors(name: str, values: Any) -> tuple[float, ...]:
    """Return a list of positive numbers as a tuple, or raise."""
    if isinstance(values, str | bytes | Mapping | np.ma.MaskedArray) or not (
            hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise TypeError(f"{name} must be a list of numbers, one for each plane; got {shown(values)}")
    return tuple(positive(f"{name}[{i}]", value) for i, value in enumerate(values))


def checked_base(scaling: Scaling, base: float | None) -> float:
    """Return the base, or say that this scaling cannot do without."""
    if base is None:
        raise TypeError(f"{type(scaling).__name__} works on a base; got frequencies without one")
    return base


def rebased(scaling: Scaling, w: Array, base: float | None, growth: float) -> Array:
    """Return the frequencies that a base growth^(d/(d-2)) times as large would give."""
    checked_base(scaling, base)
    planes = w.shape[-1]
    if planes < 2:
        raise ValueError(f"{type(scaling).__name__} needs at least 2 planes, as its base grows by a power "
                         f"d/(d-2); got {amount(planes, 'plane')}, width d = {2 * planes}")
    return w * np.power(growth, -np.arange(planes) / (planes - 1))


def blended(w: Array, factor: float, kept: Array) -> Array:
    """Return w of which this part is kept and the rest divided; a factor of 1 changes no bit."""
    return w if factor == 1 else w * kept + w / factor * (1 - kept)


def _short(value: Any) -> str:
    """Show long lists by their ends."""
    if isinstance(value, tuple) and len(value) > 4:
        return f"({value[0]:g}, {value[1]:g}, ... {value[-1]:g}; {len(value)} numbers)"
    return repr(value)
