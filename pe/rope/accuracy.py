"""How far a rotated vector may be from the exact one: a bound for a position and a dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._scalars import shown

if TYPE_CHECKING:
    from .rope import Rope

# Roundings of a coordinate a cos - b sin, a^2 + b^2 = 1, in units of 2^-53 or 2^-24: cos and sin to 2.5 units
# each, times |a| + |b| <= 1.42, two products, a sum, and the amplitude.
ROUNDINGS = 7
# float64 frequencies are a power, and a scaling's few operations, away from the formula.
FORMULA = 2.0**-51
FLOATS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def error_bound(rope: Rope, position: ArrayLike, dtype: Any) -> np.float64 | np.ndarray:
    """Return the bound for a plane whose vector has length 1."""
    from .._check.positions import numbers

    name = _float_name(dtype)
    p = np.abs(numbers("position", position).astype(np.float64))
    n_axes = len(rope.freqs)
    if n_axes > 1 and (p.ndim == 0 or p.shape[-1] != n_axes):
        raise ValueError(f"position must have shape (..., {n_axes}), one coordinate for each axis of freqs; "
                         f"got shape {p.shape}")
    # A scaling mixes frequencies no larger than the unscaled ones, so its roundings are units of those.
    fastest = np.abs(rope.unscaled).max(axis=1)
    drift = p @ fastest if n_axes > 1 else p * fastest[0]
    exact = rope.base is None and rope.scaling is None          # frequencies as given
    angle = drift * (2.0**-105 if exact else FORMULA)
    compute = FLOATS["float64" if name == "float64" else "float32"]
    bound = angle + ROUNDINGS * compute + (FLOATS[name] if name.endswith("16") else 0)
    return rope.amplitude * np.minimum(bound, 2.0)


def _float_name(dtype: Any) -> str:
    """Return the name of a dtype in any of its spellings; bfloat16 may be one that NumPy does not know."""
    name = str(dtype).removeprefix("torch.") if type(dtype).__module__ == "torch" else "no dtype"
    if isinstance(dtype, str | type | np.dtype):
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = dtype if isinstance(dtype, str) else name
    if name not in FLOATS:
        raise TypeError(f"dtype must be float16, bfloat16, float32 or float64; got {shown(dtype)}")
    return name
