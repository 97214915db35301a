"""The tour's text layer: 80 columns, colours only on a terminal, and every part kept for the page."""

from __future__ import annotations

import os
import re
import textwrap

from ..explore.host import is_number, paint_behaviours

__all__ = ["WIDTH", "Script"]

WIDTH = 80
STYLES = {"bold": "1", "dim": "2", "turn": "34", "fade": "33", "slide": "32", "explode": "35"}
GLUE = "\u00a0"  # a space where no line breaks
ASCII = {"─": "-", "█": "#", "±": "+-"}


class Script:
    """What a chapter says: printed while it is said, and kept in `parts` as `pe.explore.page` takes it.

    Parameters
    ----------
    stream : text file
        Where to print. Colours are used if it is a terminal, unless NO_COLOR is set or TERM is "dumb".
    """

    def __init__(self, stream):
        self.stream = stream
        self.number = 0  # of the chapter being told
        self.parts = []
        self.color = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        try:
            "".join(ASCII).encode(getattr(stream, "encoding", None) or "utf-8")
            self.letters = {}
        except UnicodeEncodeError:
            self.letters = str.maketrans(ASCII)

    def chapter(self, title: str, question: str) -> None:
        """Open chapter `number` with the question it answers."""
        title, question = f"{self.number}. {title}", _set(question)
        self._print()
        self._print(self._paint(title, "bold"))
        self._print(self._paint("─" * WIDTH, "dim"))
        self._wrap(question)
        self.parts += [("heading", title), ("text", _minus(question))]

    def text(self, text: str) -> None:
        """Say a paragraph."""
        text = _set(text)
        self._print()
        self._wrap(text)
        self.parts.append(("text", _minus(text)))

    def notice(self, text: str) -> None:
        """Say what to notice."""
        self._label("Notice", text)

    def careful(self, text: str) -> None:
        """Say where the story is looser than the facts."""
        self._label("Careful", text)

    def table(self, header, rows) -> None:
        """Show a table; columns that hold numbers stand right."""
        rows = [[str(cell) for cell in row] for row in rows]
        self.parts.append(("table", list(header), rows))
        rows = [[cell.translate(self.letters) for cell in row] for row in rows]
        columns = list(zip(header, *rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        right = [all(map(is_number, column[1:])) for column in columns]
        self._print()
        for i, row in enumerate([header, *rows]):
            cells = [cell.rjust(width) if numbers else cell.ljust(width)
                     for cell, width, numbers in zip(row, widths, right, strict=True)]
            cells[-1] = cells[-1].rstrip()
            if i == 0:
                self._print(self._paint(("  " + "  ".join(cells)).rstrip(), "dim"))
            else:
                self._print("  " + "  ".join(paint_behaviours(cell, self._paint) for cell in cells).rstrip())

    def bars(self, header, rows, top: float) -> None:
        """Show labels and numbers, each with a bar behind it; the number `top` fills the line."""
        labels, numbers = [[str(row[i]) for row in rows] for i in (0, 1)]
        self.parts.append(("bars", list(header), list(zip(labels, numbers, strict=True)), top))
        left, right = (max(map(len, column)) for column in ([header[0], *labels], [header[1], *numbers]))
        room = WIDTH - 2 - left - 2 - right - 2
        self._print()
        self._print(self._paint(f"  {header[0]:>{left}}  {header[1]:>{right}}", "dim"))
        for label, number in zip(labels, numbers, strict=True):
            bar = "█" * round(room * float(number) / top)
            self._print(f"  {label:>{left}}  {number:>{right}}  {bar}".rstrip())

    def line(self, text: str = "") -> None:
        """Print one line as it stands; it does not go to the page."""
        self._print(text)

    def _label(self, label, text):
        text = _set(text)
        self._print()
        lines = textwrap.wrap(f"{label}: {text}", WIDTH - 2, break_on_hyphens=False)
        style = "bold" if label == "Notice" else "dim"
        for i, line in enumerate(lines):
            head = self._paint(label + ":", style) if i == 0 else ""
            self._print("  " + head + (line[len(label) + 1:] if i == 0 else line))
        self.parts.append(("note", label, _minus(text)))

    def _wrap(self, text):
        for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False):
            self._print(line)

    def _paint(self, text, style):
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.color else text

    def _print(self, line=""):
        print(line.translate(self.letters).replace(GLUE, " "), file=self.stream, flush=True)


def _set(text):
    """Make a paragraph one line (in the source it stands indented) that never breaks inside a formula."""
    text = " ".join(text.split())
    text = re.sub(r" ([-+=<*]|(?<=\d )x(?= \d)) (?=\S)", rf"{GLUE}\1{GLUE}", text)
    formula = r"\^\([^)]*\)|\([-+][^ )]* [^ )]*\)|\([^ ()]+, [^ ()]+\)|R\([^)]*\)"  # e^(-g u), (5, 3)
    return re.sub(formula, lambda m: m[0].replace(" ", GLUE), text)


def _minus(text):
    """Give the page real minus signs: a browser may break the line after a hyphen."""
    return re.sub(rf"(?<![\w)\]-])-(?=[\w|(])|(?<={GLUE})-(?={GLUE})", "\u2212", text)
