"""`Description`: the fields of a `Rope`, compared by what they do, pickled with how they came about."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .provenance import ROFORMER, Provenance

if TYPE_CHECKING:
    from ..scaling import Scaling


class Description:
    """What a `Rope` holds; `fill` sets it, once."""

    __slots__ = ("_origin", "_plan", "amplitude", "base", "dim", "freqs", "layout", "rotary_dim",
                 "rotary_offset", "scaling", "softmax_scale", "unscaled")

    dim: int
    layout: str
    rotary_dim: int
    rotary_offset: int
    amplitude: float
    softmax_scale: float
    base: float | None
    scaling: Scaling | None
    freqs: NDArray[np.float64]
    unscaled: NDArray[np.float64]
    _origin: Provenance | None
    _plan: tuple[NDArray[np.float64], int, int, float, int]     # freqs, half, blocks, amplitude, offset

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Positions per full turn of each plane, 2 pi / w_l, (n_axes, L); inf where a plane stands still.

        Examples
        --------
        >>> from pe import Rope
        >>> Rope(16).wavelengths[0].round(1).tolist()
        [6.3, 19.9, 62.8, 198.7, 628.3, 1986.9, 6283.2, 19869.2]
        """
        with np.errstate(divide="ignore"):
            return 2 * math.pi / np.abs(self.freqs)

    @property
    def provenance(self) -> Provenance:
        """Whose encoding this is: the model family, the formula of the frequencies, where it is published.

        Examples
        --------
        >>> from pe import Rope
        >>> Rope.from_hf({"model_type": "qwen3", "head_dim": 128, "rope_theta": 1000000}).provenance.family
        'qwen3'
        """
        if self._origin is not None:
            return self._origin
        if self.base is None:
            return Provenance("", "frequencies as given", "")
        formula = f"w_l = base^(-2l/{self.rotary_dim}), base {self.base:.10g}"
        if self.scaling is None:
            return Provenance("", formula, ROFORMER)
        return Provenance("", f"{formula}, {self.scaling!r}", self.scaling.paper)

    def _key(self) -> tuple[Any, ...]:
        return (self.dim, self.layout, self.rotary_offset, self.amplitude, self.softmax_scale,
                len(self.freqs), self.freqs.tobytes())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Description) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        unscaled = None if self.unscaled is self.freqs else self.unscaled.tobytes()
        return _restore, (type(self), *self._key(), unscaled, self.base, self.scaling, self._origin)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Rope is frozen: cannot set {name}; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Rope is frozen: cannot delete {name}")

    def __repr__(self) -> str:
        turns = [np.array2string(row, threshold=6, edgeitems=3, separator=", ", max_line_width=10000,
                                 formatter={"float_kind": "{:.4g}".format}) for row in self.wavelengths]
        base = "" if self.base in (None, 10000.0) else f", base={self.base:.15g}"
        part = "" if self.rotary_dim == self.dim else f", rotary_dim={self.rotary_dim}"
        at = f", rotary_offset={self.rotary_offset}" if self.rotary_offset else ""
        scaled = "" if self.scaling is None else f", scaling={self.scaling!r}"
        gain = "" if self.amplitude == 1 else f", amplitude={self.amplitude:g}"
        gain += "" if self.softmax_scale == 1 else f", softmax_scale={self.softmax_scale:g}"
        return (f"Rope({self.dim}{base}, layout={self.layout!r}{part}{at}{scaled}{gain}, "
                f"wavelengths={', '.join(turns)})")


def fill(rope: Description, *, dim: int, layout: str, rotary_offset: int, amplitude: float,
         softmax_scale: float, freqs: NDArray[np.float64], unscaled: NDArray[np.float64],
         base: float | None = None, scaling: Scaling | None = None, origin: Provenance | None = None
         ) -> None:
    """Set every field of a new rope; the arrays, (n_axes, L), are copied to where nobody can write."""
    same, freqs = unscaled is freqs, _frozen(freqs)
    unscaled = freqs if same else _frozen(unscaled)
    values = {"dim": dim, "layout": layout, "rotary_dim": 2 * freqs.shape[1], "rotary_offset": rotary_offset,
              "amplitude": amplitude, "softmax_scale": softmax_scale, "freqs": freqs, "unscaled": unscaled,
              "base": base, "scaling": scaling, "_origin": origin,
              "_plan": (freqs, int(layout == "half"), 1, amplitude, rotary_offset)}
    for name, value in values.items():
        object.__setattr__(rope, name, value)


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy in memory of bytes, whose flag writeable cannot be set again."""
    return np.frombuffer(array.tobytes()).reshape(array.shape)


def _restore(cls: type[Description], dim: int, layout: str, rotary_offset: int, amplitude: float,
             softmax_scale: float, n_axes: int, freqs: bytes, unscaled: bytes | None, base: float | None,
             scaling: Scaling | None, origin: Provenance | None) -> Description:
    rope = cls.__new__(cls)
    w = np.frombuffer(freqs).reshape(n_axes, -1)
    before = w if unscaled is None else np.frombuffer(unscaled).reshape(n_axes, -1)
    fill(rope, dim=dim, layout=layout, rotary_offset=rotary_offset, amplitude=amplitude,
         softmax_scale=softmax_scale, freqs=w, unscaled=before, base=base, scaling=scaling, origin=origin)
    return rope
