"""Shapes: NumPy's rule of broadcasting for all the axes an array may have, and how many these are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

MAX_AXES = 64       # of an array in NumPy 2; np.broadcast_shapes stops at half of them


def broadcast(*shapes: Iterable[int]) -> tuple[int, ...]:
    """Return the shape that all of these broadcast to; ValueError if there is none."""
    result = []
    for sizes in zip_longest(*(tuple(shape)[::-1] for shape in shapes), fillvalue=1):
        wide = set(sizes) - {1}
        if len(wide) > 1:
            raise ValueError(f"axes of {' and '.join(map(str, sorted(wide)))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result[::-1])


def refuse_too_many_axes(name: str, axes: int, more: int) -> None:
    """Raise if an argument with so many axes leaves no room for those that the result has behind them."""
    if axes + more > MAX_AXES:
        raise ValueError(f"{name} has {axes} axes and the result has {more} more; expected at most "
                         f"{MAX_AXES - more}, as an array of NumPy has at most {MAX_AXES}")
