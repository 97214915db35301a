"""Checks of single numbers and the wording of messages, shared by the Python-only parts."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


def integer(name: str, value: Any, least: int, most: float = 2**53) -> int:
    """Return value as an int, or raise if it is no integer, below `least` or above `most`."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {shown(value)} of type "
                        f"{type(value).__name__}") from None
    if n < least:
        raise ValueError(f"{name} must be at least {least}; got {shown(n)}")
    if n > most:
        raise ValueError(f"{name} must be at most {most}; got {shown(n)}")
    return n


def positive(name: str, value: Any) -> float:
    """Return value as a float, or raise if it is no finite number above 0."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError(f"{name} must be a number; got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number; got {shown(value)} of type "
                        f"{type(value).__name__}") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number above 0; got {shown(value)}")
    return number


def shown(value: Any) -> str:
    """Return how a message, which has one line, shows a value that is no scalar, or the wrong one."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"an array of shape {shape}"
    if isinstance(value, int) and value.bit_length() > 250:     # Python refuses to write the longest
        return f"an int of {value.bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:60]} ... {text[-15:]}"


def amount(n: int, one: str, more: str = "") -> str:
    """Return "1 head" or "2 heads"."""
    return f"{n} {one if n == 1 else more or one + 's'}"
