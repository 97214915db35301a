"""How a check speaks: `exercise` turns a function that raises `Hint` into one that prints tick or hint."""

from __future__ import annotations

import functools
import numbers
import reprlib
import textwrap
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

BLANK = "This one waits for you: put your answer in the place of the three dots and run the cell again."


class Hint(Exception):
    """What an answer gets wrong, said so that the reader can find the right one."""


def exercise(check: Callable[[Any], str]) -> Callable[[Any], None]:
    """Turn a check that returns praise or raises `Hint` into the public one, of the same documentation."""

    @functools.wraps(check)
    def checked(answer: Any) -> None:
        try:
            if answer is ... or answer is None:
                raise Hint(BLANK)
            sign, message = "✓", check(answer)
        except Hint as hint:
            sign, message = "→", str(hint)
        print(textwrap.fill(f"{sign} {message}", width=100, subsequent_indent="  "))

    return checked


def call(function: Any, *arguments: Any) -> Any:
    """Call the reader's function; an error inside it becomes a hint, and three dots from it are a blank."""
    if not callable(function):
        raise Hint(f"Give the function itself here, its name without brackets; got {show(function)}.")
    try:
        value = function(*arguments)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:2]  # the reader's function, if entered
        where = f" in the line `{frames[0].line}`" if frames and frames[0].line else ""
        words = f"{type(error).__name__}: {error}".rstrip(" .:")
        raise Hint(f"Your function stopped{where} with {words}.") from error
    if value is ...:
        raise Hint(BLANK)
    if value is None:
        raise Hint("Your function gives nothing back: does it end in return?")
    return value


def number(value: Any) -> float | None:
    """Return a real, finite number as a float, and None for anything else; True and False are no numbers."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return None
    try:
        real = float(value)
    except OverflowError:
        return None
    return real if np.isfinite(real) else None


def show(value: Any) -> str:
    """Return a short text for whatever the reader gave."""
    return reprlib.repr(value)
