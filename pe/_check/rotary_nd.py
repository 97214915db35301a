"""apply_rope_nd: frequencies for several axes and heads, and rates that stay within the compute type."""

from __future__ import annotations

import numpy as np

from .. import _core
from .._scalars import amount
from .._shapes import broadcast
from ..rope import MAX_AXES, canonical_layout
from . import options
from .arrays import coefficients, plain, values
from .out import target
from .positions import per_row

_LIMITS = {kind: -np.log(np.finfo(kind).tiny) for kind in (np.float32, np.float64)}


def apply_rope_nd(x, positions, freqs, layout, rate, inverse, out, num_threads):
    """Return the arguments of the kernel apply_rope, and the target of the result."""
    x = plain(values("x", x))
    if x.ndim == 0:
        raise ValueError("x is a single number; expected shape (..., D)")
    inverse, num_threads = options.flag("inverse", inverse), options.threads(num_threads)
    half = int(canonical_layout(layout) == "half")
    freqs = _freqs(freqs, x.shape)
    axes, planes = freqs.shape[0], freqs.shape[-1]
    points = per_row("positions", positions, "x", x.shape[:-1], axes, nd=True)
    plan = freqs, half, 1, 1.0, 0
    if rate is not None:
        rate = _rate(rate, axes, planes)
        _stay_finite(rate, points, x.dtype)
        plan = *plan, rate
    goal = target(out, x.shape, x.dtype, points, in_place=x)
    return (x, points, plan, inverse, goal.direct, num_threads), goal


def _freqs(freqs, shape):
    """Return (n_axes, L), or (n_axes, H, L) with the heads of x, in float64 and C order."""
    array = coefficients("freqs", freqs)
    if array.ndim not in (2, 3):
        hint = ": freqs[None] has one axis of positions" if array.ndim == 1 else ""
        raise ValueError(f"freqs has shape {array.shape}; expected (n_axes, L), or (n_axes, H, L) for heads "
                         f"that differ{hint}")
    if not 1 <= len(array) <= MAX_AXES:
        raise ValueError(f"freqs has {len(array)} axes of positions (shape {array.shape}); expected 1 to "
                         f"{MAX_AXES}")
    if 2 * array.shape[-1] > shape[-1]:
        planes = amount(array.shape[-1], "plane")
        raise ValueError(f"freqs has L = {planes} (shape {array.shape}), which turn "
                         f"{2 * array.shape[-1]} coordinates; x has D = {shape[-1]}")
    if array.ndim == 3 and array.shape[1] == 1:
        array = array[:, 0]                                     # one row for all heads
    if array.ndim == 3 and array.shape[1:2] != shape[-3:-2]:
        raise ValueError(f"freqs has H = {array.shape[1]} heads (shape {array.shape}); x has shape {shape}, "
                         f"expected (..., {array.shape[1]}, T, D)")
    if not np.isfinite(array).all():
        raise ValueError(f"freqs has {array[~np.isfinite(array)][0]}; expected finite numbers")
    return np.ascontiguousarray(array, np.float64)


def _rate(rate, axes, planes):
    """Return (n_axes, L) in float64 and C order."""
    array = coefficients("rate", rate)
    if array.shape != (axes, planes) and not (axes == 1 and array.shape == (planes,)):
        one = f" or ({planes},)" if axes == 1 else ""
        raise ValueError(f"rate has shape {array.shape}; expected ({axes}, {planes}){one}, a rate for each "
                         f"row of freqs, {axes} x {planes}")
    if not np.isfinite(array).all():
        raise ValueError(f"rate has {array[~np.isfinite(array)][0]}; expected finite numbers")
    return np.ascontiguousarray(array.reshape(axes, planes), np.float64)


def _stays_normal(rate, points, dtype):
    """Say whether a bound on rate times positions, which most calls keep, shows e^(-rate.p) to be normal."""
    return _core.fade_reach(rate, points) <= _LIMITS[_compute(dtype)]


def _compute(dtype):
    return np.float64 if dtype == np.float64 else np.float32


def _stay_finite(rate, points, dtype):
    """Refuse e^(-rate.p) that is 0, subnormal or inf in the compute type."""
    if rate.size == 0 or any(p.size == 0 for p in points) or _stays_normal(rate, points, dtype):
        return
    limit = _LIMITS[_compute(dtype)]
    shape = broadcast(*(p.shape for p in points))
    p = np.stack([np.broadcast_to(p, shape) for p in points], axis=-1).astype(np.float64)
    exponents = p @ rate
    worst = exponents.flat[np.abs(exponents).argmax()]
    if abs(worst) > limit:
        compute = np.dtype(_compute(dtype))
        raise ValueError(f"rate times positions reaches {worst:.6g}, and e^{-worst:.6g} leaves "
                         f"{compute}; expected at most {limit:.1f} in size. Only gaps count: "
                         f"positions nearer to 0 (the same shift for queries and keys) give the same scores")
