"""The tour's text layer: 80 columns, colours only on a terminal, and every part kept for the page."""

from __future__ import annotations

import os
import re
import textwrap

__all__ = ["WIDTH", "Script"]

WIDTH = 80
STYLES = {"bold": "1", "dim": "2", "turn": "34", "fade": "33", "slide": "32", "explode": "35"}
# A behaviour keeps its colour through the whole package: its name is painted wherever it stands.
BEHAVIOUR = re.compile(r"\b(turn|fade|slide|explode)s?\b")


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

    def chapter(self, title: str, question: str) -> None:
        """Open chapter `number` with the question it answers."""
        title, question = f"{self.number}. {title}", _squeeze(question)
        self._print()
        self._print(self._paint(title, "bold"))
        self._print(self._paint("─" * WIDTH, "dim"))
        self._wrap(question)
        self.parts += [("heading", title), ("text", question)]

    def text(self, text: str) -> None:
        """Say a paragraph."""
        text = _squeeze(text)
        self._print()
        self._wrap(text)
        self.parts.append(("text", text))

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
        columns = list(zip(header, *rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        right = [all(_is_number(cell) for cell in column[1:]) for column in columns]
        self._print()
        for i, row in enumerate([header, *rows]):
            cells = [cell.rjust(width) if numbers else cell.ljust(width)
                     for cell, width, numbers in zip(row, widths, right, strict=True)]
            line = ("  " + "  ".join(cells)).rstrip()
            self._print(self._paint(line, "dim") if i == 0 else self._behaviours(line))

    def bars(self, header, rows, top: float) -> None:
        """Show labels and numbers, each with a bar behind it; the number `top` fills the line."""
        labels, numbers = [[str(row[i]) for row in rows] for i in (0, 1)]
        self.parts.append(("table", list(header), [list(pair) for pair in zip(labels, numbers, strict=True)]))
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
        text = _squeeze(text)
        self._print()
        lines = textwrap.wrap(f"{label}: {text}", WIDTH - 2, break_on_hyphens=False)
        style = "bold" if label == "Notice" else "dim"
        for i, line in enumerate(lines):
            head = self._paint(label + ":", style) if i == 0 else ""
            self._print("  " + head + self._behaviours(line[len(label) + 1:] if i == 0 else line))
        self.parts.append(("text", f"{label}: {text}"))

    def _wrap(self, text):
        for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False):
            self._print(self._behaviours(line))

    def _behaviours(self, line):
        return BEHAVIOUR.sub(lambda m: self._paint(m[0], m[1]), line)

    def _paint(self, text, style):
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.color else text

    def _print(self, line=""):
        print(line, file=self.stream, flush=True)


def _squeeze(text):
    """Make a paragraph one line: in the source it stands indented."""
    return " ".join(text.split())


def _is_number(cell):
    return not cell or bool(re.fullmatch(r"[-+]?[\d ,.]+(e[-+]?\d+)?(i| ms| x| %)?|[-+]?inf|-", cell))
