"""`Explanation`: what each plane of a `Rope` does in a context, as a table to print."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from .._scalars import amount

if TYPE_CHECKING:
    from .rope import Rope


class Plane(NamedTuple):
    """One plane on one axis of positions."""

    axis: int
    plane: int
    frequency: float
    wavelength: float
    turns: float | None     # within the context, None where none is known
    divisor: float          # frequency before the scaling over frequency after it
    change: str             # "kept", "blended", "divided", "stopped"; "" without a scaling


@dataclass(frozen=True)
class Explanation:
    """What `Rope.explain` returns: printed, a table; its parts, numbers.

    Attributes
    ----------
    rope : Rope
    context : float or None
        Positions over which turns are counted.
    planes : tuple of Plane
        With fields axis, plane, frequency, wavelength, turns, divisor, change.
    """

    rope: Rope
    context: float | None
    planes: tuple[Plane, ...]

    @property
    def incomplete(self) -> tuple[Plane, ...]:
        """The planes that turn, but never complete a turn within the context."""
        return tuple(row for row in self.planes if row.turns is not None and 0 < row.turns < 1)

    def __str__(self) -> str:
        return "\n".join([repr(self.rope), str(self.rope.provenance), *self._table(), *self._summary()])

    __repr__ = __str__

    def _table(self) -> Iterator[str]:
        several, scaled = len(self.rope.freqs) > 1, self.rope.scaling is not None
        turns = f"turns in {self.context:.10g}" if self.context else ""
        head = f"{'axis  ' if several else ''}plane    wavelength"
        yield head + (f"  {turns}" if turns else "") + ("  scaling" if scaled else "")
        for row in self.planes:
            line = f"{row.axis:>4}  " if several else ""
            line += f"{row.plane:>5}  {row.wavelength:>12.6g}"
            if row.turns is not None:
                line += f"  {row.turns:>{len(turns)}.6g}"
            if scaled:
                by = f"divided by {row.divisor:.4g}"
                line += "  " + {"blended": f"blended, {by}", "divided": by}.get(row.change, row.change)
            yield line

    def _summary(self) -> Iterator[str]:
        rope = self.rope
        if self.context:
            few = len(self.incomplete)
            yield (f"{amount(few, 'plane')} of {len(self.planes)} never complete{'s' if few == 1 else ''} a "
                   f"turn in {self.context:.10g} positions")
        if rope.scaling is not None:
            runs = groupby(self.planes, key=lambda row: (row.axis, row.change))
            parts = []
            for (axis, change), group in runs:
                rows = list(group)
                span = f"{rows[0].plane}" if len(rows) == 1 else f"{rows[0].plane}-{rows[-1].plane}"
                where = f"axis {axis} " if len(rope.freqs) > 1 else ""
                parts.append(f"{where}{span} {change}")
            yield "planes " + ", ".join(parts)
        if rope.amplitude != 1:
            yield f"scores gain amplitude^2 = {rope.amplitude**2:.6g}"
        if rope.softmax_scale != 1:
            yield f"attention's default scale is multiplied by {rope.softmax_scale:.6g}"


def explain(rope: Rope, context: float | None) -> Explanation:
    """Return a row for every plane and every axis that turns it."""
    if context is None and rope.scaling is not None:
        context = rope.scaling.context
    rows = []
    for axis, (after, before) in enumerate(zip(rope.freqs, rope.unscaled, strict=True)):
        for plane, (w, was) in enumerate(zip(after.tolist(), before.tolist(), strict=True)):
            if was == 0 and len(rope.freqs) > 1:                # this axis leaves the plane alone
                continue
            rows.append(Plane(axis, plane, w, 2 * math.pi / abs(w) if w else math.inf,
                              None if context is None else context * abs(w) / (2 * math.pi),
                              was / w if w else 1.0 if was == 0 else math.inf, _change(rope, was, w)))
    return Explanation(rope, context, tuple(rows))


def _change(rope: Rope, was: float, w: float) -> str:
    scaling = rope.scaling
    if scaling is None:
        return ""
    if w == was:
        return "kept"
    if w == 0:
        return "stopped"
    between = scaling.blends and not math.isclose(was / w, scaling.factor, rel_tol=1e-9)  # type: ignore[attr-defined]
    return "blended" if between else "divided"
