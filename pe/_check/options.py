"""Scalars and switches of the ops: one small check each."""

from __future__ import annotations

import math

import numpy as np

from .._scalars import integer, shown
from .arrays import coefficients


def flag(name, value):
    """Return a switch as a bool: True or False, nothing that merely looks like it."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} is {shown(value)}; expected True or False")


def threads(num_threads):
    """Return an upper bound on the threads of one call, or None."""
    return None if num_threads is None else min(integer("num_threads", num_threads, 1, math.inf), 2**31 - 1)


def number(name, value):
    """Return one finite real number as a float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        held = getattr(value, "ndim", None) == 0 and not isinstance(value, np.generic)
        raise TypeError(f"{name} is {shown(value)}; expected one real number"
                        + (f": float({name})" if held else ""))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; expected a finite number")
    return number


def cap(value):
    """Return a softcap > 0, or None for none."""
    if value is None:
        return None
    cap = number("softcap", value)
    if cap <= 0:
        raise ValueError(f"softcap is {cap}; expected a number > 0 (None: no cap)")
    return cap


def logits(name, value):
    """Return logits that take part in a softmax as they are; -inf counts for nothing."""
    array = coefficients(name, value)
    good = array < np.inf
    if not good.all():
        raise ValueError(f"{name} has {array[~good].flat[0]}; expected numbers below inf (-inf: none)")
    return array


def slopes(name, value, heads):
    """Return slopes as they came, unless they are a switch or a function where numbers belong."""
    if callable(value):
        raise TypeError(f"{name} is a function; expected numbers, one slope for each query head: call it, "
                        f"pe.alibi_slopes({heads})")
    if isinstance(value, bool | np.bool_ | str):
        raise TypeError(f"{name} is {shown(value)}; expected numbers, one slope for each query head: "
                        f"pe.alibi_slopes({heads})")
    return value


def penalties(name, value, reason):
    """Return slopes or rates, finite and >= 0, in the dtype they came in (integers: float64).

    reason says what a negative one does; it may speak of {name}.
    """
    array = coefficients(name, value)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        bad = array[~good].flat[0]
        why = f": {reason.format(name=name)}" if bad < 0 else ""
        raise ValueError(f"{name} has {bad}; expected finite numbers >= 0{why}")
    return array
