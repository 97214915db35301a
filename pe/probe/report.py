"""`RopeReport`: what a rotary function does, what is wrong with it, and the values that show it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(eq=False, repr=False)
class RopeReport:
    """What `check_rope` found; `print` shows it on one screen.

    What could not be read because an earlier step failed is None.

    Attributes
    ----------
    head_dim : int
        Width of the heads that were tried.
    is_rotation : bool
        Every plane is turned, times one amplitude: lengths and angles between vectors are kept.
    is_relative : bool
        A score depends on the gap of the positions alone, wherever it was tried.
    layout : str or None
        "interleaved" or "half", or "interleaved to half" where pairs are read adjacent and written apart.
    base : float or None
        Of ``w_l = base**(-2 l / rotary_dim)``; None where the frequencies follow no such law.
    freqs : ndarray of float64, shape (n_axes, L), or None
        Angular frequencies, negative where a plane turns clockwise; exact where their law is known.
    direction : int or None
        1 counter-clockwise, (a, b) -> (a cos - b sin, a sin + b cos); -1 clockwise; 0 for some of each.
    rotary_dim, rotary_offset : int or None
        Width of the turned part of a head, and the coordinates before it.
    amplitude : float or None
        Factor on cos and sin.
    position_origin : float or tuple of float or None
        What is added to a position before it is multiplied: 0 if position 0 does not turn, 1 for functions
        that count from 1; one for each axis of positions if there are several.
    axis_order : tuple of str or None
        Axes of positions in the order of the planes that they turn; None with one axis.
    angle_errors : dict of int to float
        Largest distance of cos and sin from exact ones, by position, for the widest dtype of x.
    causes : tuple of str
        What is wrong, the likeliest cause of it first; empty for a correct function.
    notes : tuple of str
        What is true of the function, and no fault: limits, and what was not tried.
    counterexample : dict
        The smallest values that show the first cause; empty for a correct function.
    """

    head_dim: int
    is_rotation: bool = False
    is_relative: bool = False
    layout: str | None = None
    base: float | None = None
    freqs: NDArray[np.float64] | None = None
    direction: int | None = None
    rotary_dim: int | None = None
    rotary_offset: int | None = None
    amplitude: float | None = None
    position_origin: float | tuple[float, ...] | None = None
    axis_order: tuple[str, ...] | None = None
    angle_errors: dict[int, float] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counterexample: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.causes

    def blame(self, cause: str, **counterexample: Any) -> None:
        """Add a cause; the values that show the first one are kept."""
        if cause not in self.causes:
            self.counterexample = self.counterexample or counterexample
            self.causes = (*self.causes, cause)

    def remark(self, note: str) -> None:
        """Add a note."""
        if note not in self.notes:
            self.notes = (*self.notes, note)

    def __repr__(self) -> str:
        return f"<RopeReport {self._verdict()}{f': {self.causes[0]}' if self.causes else ''}>"

    def __str__(self) -> str:
        lines = [self._verdict(), *(f"  {name:<10} {text}" for name, text in self._facts())]
        lines += [_wrapped("cause", cause) for cause in self.causes]
        lines += [f"    {name} = {_short(value)}" for name, value in self.counterexample.items()]
        lines += [_wrapped("note", note) for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [*self._facts(), *(("cause", cause) for cause in self.causes),
                *((name, _short(value)) for name, value in self.counterexample.items()),
                *(("note", note) for note in self.notes)]
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
        return f"<p><strong>{escape(self._verdict())}</strong></p><table><tbody>{cells}</tbody></table>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("RopeReport(...)" if cycle else str(self))

    def _verdict(self) -> str:
        n = len(self.causes)
        return "a correct rotary encoding" if not n else f"{n} fault{'s' if n > 1 else ''} found"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("rotation", f"{_yes(self.is_rotation)}; relative: {_yes(self.is_relative)}")]
        if self.layout is not None:
            where = f" from coordinate {self.rotary_offset} on" if self.rotary_offset else ""
            width = f"{self.rotary_dim} of {self.head_dim} coordinates{where}"
            facts.append(("layout", f"{self.layout}, {width}"))
        if self.freqs is not None:
            law = f"base {self.base:g}" if self.base else "no base"
            size = np.abs(self.freqs).max(axis=0)
            facts.append(("frequency", f"{law}; from {size.max():.6g} to {size.min():.6g}"))
        if self.direction is not None:
            turning = {1: "counter-clockwise", -1: "clockwise", 0: "some planes each way"}[self.direction]
            origin = "unknown" if self.position_origin is None else self.position_origin
            facts.append(("turning", f"{turning}; amplitude {self.amplitude:g}; positions from {origin}"))
        if self.axis_order is not None:
            facts.append(("axes", ", then ".join(self.axis_order)))
        if self.angle_errors:
            worst = sorted(self.angle_errors, key=lambda p: (-self.angle_errors[p], p))[0]
            chosen = sorted({min(self.angle_errors), worst, max(self.angle_errors)})
            facts.append(("error", ", ".join(f"{self.angle_errors[p]:.1e} at {p}" for p in chosen)))
        return facts


def _wrapped(name: str, text: str) -> str:
    return textwrap.fill(text, 100, initial_indent=f"  {name:<10} ", subsequent_indent=" " * 13)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | list):
        flat = np.asarray(value).ravel()
        if flat.dtype.kind == "f":
            shown = ", ".join(f"{number:.6g}" for number in flat[:8])
            return f"[{shown}{', ...' if len(flat) > 8 else ''}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
