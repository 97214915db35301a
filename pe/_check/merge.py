"""merge_attention: parts that fit each other, each with the logarithm of its own normaliser."""

from __future__ import annotations

import numpy as np

from .._scalars import amount
from .arrays import coefficients, common_dtype, to_array, values


def merge(outs, lses):
    """Return the arguments of the kernel: outs of one dtype and float64 lses, all in C order."""
    outs = [values(f"outs[{i}]", out) for i, out in enumerate(_parts("outs", outs))]
    lses = [coefficients(f"lses[{i}]", lse) for i, lse in enumerate(_parts("lses", lses))]
    if len(outs) != len(lses):
        raise ValueError(f"outs has {amount(len(outs), 'part')} and lses has {len(lses)}; expected equally "
                         f"many")
    shape = outs[0].shape
    if not shape:
        raise ValueError("outs[0] is a single number; expected (..., H, M, V)")
    for i, (out, lse) in enumerate(zip(outs, lses, strict=True)):
        if out.shape != shape:
            raise ValueError(f"outs[{i}] has shape {out.shape} and outs[0] has {shape}; expected one shape")
        if lse.shape != shape[:-1]:
            raise ValueError(f"lses[{i}] has shape {lse.shape} and outs[{i}] has {shape}; expected "
                             f"{shape[:-1]}, one for each row")
    dtype = common_dtype({f"outs[{i}]": out for i, out in enumerate(outs)})
    return ([np.require(out, dtype, "C") for out in outs], [np.require(lse, np.float64, "C") for lse in lses])


def _parts(name, parts):
    """Return a list of parts: of a list or tuple its elements, of an array its first axis."""
    if not isinstance(parts, list | tuple):
        array = to_array(name, parts)
        if array.ndim == 0:
            raise TypeError(f"{name} is a {type(parts).__name__}; expected a list of arrays, or parts "
                            f"stacked along the first axis")
        parts = list(array)
    if len(parts) == 0:
        raise ValueError(f"{name} has no parts; expected at least one")
    return parts
