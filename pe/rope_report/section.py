"""One encoding told: what it is, its planes as a plot and as a table, and what is easy to get wrong."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from .._scalars import amount
from ..explore import page
from ..rope.defaults import HEADS, OWN, WIDTHS
from ..tour.text import WIDTH, Script
from .drawing import Curve, Level, in_letters, in_svg
from .encoding import Encoding
from .pitfalls import pitfalls

ROWS = 16           # of a table of planes, about
PICTURE = "\ue000{}\ue000"      # holds a picture's place among the parts of a page


class Report(Script):
    """The tour's text layer with headings without numbers, and with plots."""

    def __init__(self, stream):
        super().__init__(stream)
        self.pictures = []

    def heading(self, title: str) -> None:
        """Open a section."""
        self.parts.append(("heading", title))
        self.line()
        self.line(self._paint(title, "bold"))
        self.line(self._paint("─" * WIDTH, "dim"))

    def plot(self, curves: list[Curve], levels: list[Level], title: str) -> None:
        """Show wavelengths: letters here, an SVG picture on the page."""
        self.line()
        for line in in_letters(curves, levels):
            self.line(line)
        self.parts.append(("text", PICTURE.format(len(self.pictures))))
        self.pictures.append(in_svg(curves, levels, title))

    def page(self, title: str) -> str:
        """Return everything said as one self-contained page."""
        html = page(title, self.parts)
        for i, picture in enumerate(self.pictures):
            figure = f'<figure style="margin:16px 0">{picture}</figure>'
            html = html.replace(f"<p>{PICTURE.format(i)}</p>", figure)
        return html


def tell(report: Report, encoding: Encoding) -> None:
    """Tell one encoding."""
    rope = encoding.rope
    report.heading(encoding.name)
    report.table(["what", "value"], facts(encoding).items())
    report.text(f"Frequencies: {rope.provenance.formula}. "
                + (f"Published in {rope.provenance.paper}." if rope.provenance.paper else ""))
    curves = [Curve("each plane", "*", wavelengths(encoding))]
    if not np.array_equal(rope.freqs, rope.unscaled):
        curves = [Curve("before scaling", "o", wavelengths(encoding, scaled=False)),
                  Curve("after", "*", wavelengths(encoding))]
    report.plot(curves, levels(encoding), f"Wavelengths of {encoding.name}")
    report.table(*planes(encoding))
    for sentence in pitfalls(encoding):
        report.careful(sentence)


def facts(encoding: Encoding) -> dict[str, str]:
    """What the encoding is, as names and values."""
    rope, count = encoding.rope, encoding.rope.rotary_dim // 2
    turning = int(np.count_nonzero((rope.freqs != 0).any(axis=0)))
    pairs = f"l, l + {count}" if rope.layout == "half" else "2l, 2l + 1"
    return {"model type": rope.provenance.family or "unknown",
            "head": f"{rope.dim} coordinates, {amount(turning, 'plane')} turn{'s' if turning == 1 else ''}",
            "coordinates that turn": f"{rope.rotary_offset} to {rope.rotary_offset + rope.rotary_dim - 1}",
            "layout": f"{rope.layout}: plane l is ({pairs})",
            "layout from": encoding.layout_source,
            **_filled(encoding),
            "position axes": f"{len(rope.freqs)}",
            "base": f"{rope.base:.10g}" if rope.base else "-",
            "scaling": type(rope.scaling).__name__ if rope.scaling else "none",
            **_parameters(rope.scaling),
            "amplitude": f"{rope.amplitude:.10g}",
            "softmax scale times": f"{rope.softmax_scale:.10g}",
            "context": f"{encoding.context} ({encoding.source})" if encoding.context else "unknown"}


def _filled(encoding):
    """The sizes that no config says, as the class of the model fills them in."""
    known = any(encoding.config.get(key) is not None for key in (*OWN, "qk_rope_head_dim"))
    idle = (WIDTHS[0], HEADS[0]) if known else ()               # the width of a head needs them no more
    told = ", ".join(name if isinstance(value, dict) else f"{name} {value}"
                     for name, value in encoding.filled.items() if name not in idle)
    return {f"defaults of {encoding.rope.provenance.family}": told} if told else {}


def _parameters(scaling):
    """The numbers of a scaling under their published names; of a list its ends."""
    if scaling is None:
        return {}
    given = {field.name: getattr(scaling, field.name) for field in fields(scaling)}
    return {f"  {name}": f"{value[0]:g} ... {value[-1]:g}" if isinstance(value, tuple) else f"{value}"
            for name, value in given.items() if value is not None}


def wavelengths(encoding: Encoding, scaled: bool = True) -> np.ndarray:
    """Positions for a full turn of each plane on the axis that drives it; inf where it stands still."""
    freqs = encoding.rope.freqs if scaled else encoding.rope.unscaled
    with np.errstate(divide="ignore"):
        return 2 * np.pi / np.abs(freqs).max(axis=0)


def levels(encoding: Encoding) -> list[Level]:
    """The context, and that of training where a scaling names another."""
    original = getattr(encoding.rope.scaling, "original_max_position_embeddings", None)
    named = {"trained": original if original != encoding.context else None, "context": encoding.context}
    return [Level(name, value) for name, value in named.items() if value]


def planes(encoding: Encoding) -> tuple[list[str], list[list[str]]]:
    """The header and rows of a table of planes: the ends, every change, and even steps between."""
    rope, several = encoding.rope, len(encoding.rope.freqs) > 1
    rows = sorted(rope.explain(encoding.context).planes, key=lambda row: row.plane)
    turns = f"turns in {encoding.context}"
    header = ["plane", "coordinates", "axis", "frequency", "wavelength", turns, "scaling"]
    keep = [True, True, several, True, True, encoding.context is not None, rope.scaling is not None]
    table = []
    for row in (rows[i] for i in _shown(rows)):
        first, step = (1, rope.rotary_dim // 2) if rope.layout == "half" else (2, 1)
        a = rope.rotary_offset + first * row.plane
        change = {"divided": f"/ {row.divisor:.4g}", "blended": f"blended / {row.divisor:.4g}"}
        cells = [f"{row.plane}", f"{a}, {a + step}", f"{row.axis}", f"{row.frequency:.6g}",
                 f"{row.wavelength:.6g}", f"{row.turns or 0:.4g}", change.get(row.change, row.change)]
        table.append([cell for cell, kept in zip(cells, keep, strict=True) if kept])
    return [name for name, kept in zip(header, keep, strict=True) if kept], table


def _shown(rows):
    count = len(rows)
    chosen = {*np.linspace(0, count - 1, min(count, ROWS)).round().astype(int).tolist()}
    changes = [i for i in range(1, count) if rows[i][-1] != rows[i - 1][-1]]
    if 2 * len(changes) <= ROWS:                                # axes in turns change at every plane
        chosen |= {j for i in changes for j in (i - 1, i)}
    return sorted(chosen)
