"""Scalars and switches of the ops: one small check each."""

from __future__ import annotations

import math

import numpy as np

from .._scalars import integer
from .arrays import coefficients


def flag(name, value):
    """Return a switch as a bool: True or False, nothing that merely looks like it."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} is {_shown(value)}; expected True or False")


def threads(num_threads):
    """Return an upper bound on the threads of one call, or None."""
    return None if num_threads is None else min(integer("num_threads", num_threads, 1), 2**31 - 1)


def number(name, value):
    """Return one finite real number as a float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise TypeError(f"{name} is {_shown(value)}; expected one real number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; expected a finite number")
    return number


def penalties(name, value, reason):
    """Return slopes or rates, finite and >= 0, in the dtype they came in (integers: float64)."""
    array = coefficients(name, value)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        bad = array[~good].flat[0]
        why = f": {reason}" if bad < 0 else ""
        raise ValueError(f"{name} has {bad}; expected finite numbers >= 0{why}")
    return array


def _shown(value):
    shape = getattr(value, "shape", None)
    return f"an array of shape {shape}" if shape else repr(value)
