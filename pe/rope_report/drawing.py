"""Wavelength against plane on a logarithmic scale: as lines of letters, and as an SVG picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from .._scalars import amount
from ..tour.text import WIDTH as LINE

COLUMNS, ROWS, MARGIN = 72, 16, 9
"""At most, of letters, and what stands to their left; with the notes to their right a line fits in LINE."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 400, 62, 170, 36, 44


@dataclass(frozen=True)
class Curve:
    """One wavelength for each plane, with the name and the letter it is drawn under."""

    name: str
    letter: str
    wavelength: NDArray[np.float64]


@dataclass(frozen=True)
class Level:
    """A number of positions to compare wavelengths with, such as a context."""

    name: str
    positions: float


def in_letters(curves: list[Curve], levels: list[Level]) -> list[str]:
    """Draw curves with their letters and levels as lines; of two at one place the later is seen."""
    low, high = _decades(curves, levels)
    count = max(len(curve.wavelength) for curve in curves)
    notes = [""] * ROWS

    def row(value):
        return ROWS - 1 - round((math.log10(value) - low) / (high - low) * (ROWS - 1))

    for level in levels:
        at = row(level.positions)
        notes[at] = ", ".join(filter(None, [notes[at], f"{level.positions:g}"]))
    room = min(COLUMNS, LINE - MARGIN - 1 - max(map(len, notes)))
    columns = min(room, max(count, 2) * max(1, min(4, room // max(count, 2))))
    paper = [["─" if note else " "] * columns for note in notes]
    for curve in curves:
        for i, value in enumerate(curve.wavelength):
            if math.isfinite(value):
                paper[row(value)][round(i * (columns - 1) / max(count - 1, 1))] = curve.letter
    labels = {row(10.0**e): f"1e{e}" for e in range(math.ceil(low), math.floor(high) + 1)}
    lines = [f"  {labels.get(i, ''):>5} |{''.join(line)} {note}".rstrip()
             for i, (line, note) in enumerate(zip(paper, notes, strict=True))]
    end = f"plane {count - 1}"
    return [*lines, f"  {'':>5} +{'-' * columns}",
            f"  {'':>5}  plane 0{end:>{max(columns - 7, len(end) + 1)}}",
            "  wavelength in positions: " + ", ".join(f"{curve.letter} {curve.name}" for curve in curves),
            *(f"  line at {level.positions:g}: {level.name}" for level in levels)]


def in_svg(curves: list[Curve], levels: list[Level], title: str) -> str:
    """Draw the same as an <svg> in the colours of the page, with its title and a description for readers."""
    low, high = _decades(curves, levels)
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM
    count = max(len(curve.wavelength) for curve in curves)

    def x(i):
        return LEFT + (right - LEFT) * i / max(count - 1, 1)

    def y(value):
        return foot - (foot - TOP) * (math.log10(value) - low) / (high - low)

    parts = ['<text x="14" y="22">wavelength in positions</text>']
    for e in range(math.ceil(low), math.floor(high) + 1):
        at = y(10.0**e)
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--grid)"/>'
                     f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">1e{e}</text>')
    for level in levels:
        at = y(level.positions)
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--ink)" '
                     f'stroke-dasharray="6 4"/>')
    marks = [(y(level.positions), f"{level.name} {level.positions:g}", "var(--ink)") for level in levels]
    for curve, colour, filled in zip(curves, ("turn", "fade"), (False, True), strict=False):
        ink = f"var(--{colour})"
        points = [(x(i), y(value)) for i, value in enumerate(curve.wavelength) if math.isfinite(value)]
        fill = ink if filled or len(curves) == 1 else "none"
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{fill}" stroke="{ink}"/>'
                  for a, b in points]
        if points:
            marks.append((points[-1][1], curve.name, ink))
    for at, words, ink in _apart(marks):
        parts.append(f'<text x="{right + 8}" y="{at + 4:.1f}" fill="{ink}">{escape(words)}</text>')
    for i in sorted({0, count // 2, count - 1}):
        parts.append(f'<text x="{x(i):.1f}" y="{foot + 18}" text-anchor="middle">{i}</text>')
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{foot + 36}" text-anchor="middle">plane</text>')
    spans = "; ".join(_span(curve) for curve in curves)
    lines = "; ".join(f"{level.name} {level.positions:g}" for level in levels) or "none"
    return (f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'style="max-width:100%;height:auto;background:var(--panel);font-size:12px" fill="var(--ink)">'
            f"<title>{escape(title)}</title><desc>Wavelength in positions for each plane, on a logarithmic "
            f"scale. {escape(spans)}. Lines: {escape(lines)}.</desc>{''.join(parts)}</svg>")


def _decades(curves, levels):
    """The range of exponents drawn, with a little room, so that nothing lies on the border."""
    values = [v for curve in curves for v in curve.wavelength if math.isfinite(v)]
    values += [level.positions for level in levels]
    exponents = [math.log10(value) for value in values] or [0.0]
    return min(exponents) - 0.1, max(exponents) + 0.1


def _span(curve):
    finite = curve.wavelength[np.isfinite(curve.wavelength)]
    still = len(curve.wavelength) - len(finite)
    ends = f"from {finite.min():.4g} to {finite.max():.4g}" if len(finite) else "no plane turns"
    return f"{curve.name}: {ends}" + (f", {amount(still, 'plane')} still" if still and len(finite) else "")


def _apart(marks, step=16):
    """Labels from the top down, moved so far that they do not cover each other."""
    placed, last = [], -math.inf
    for at, words, ink in sorted(marks):
        last = max(at, last + step)
        placed.append((last, words, ink))
    return placed
