"""The page the tour leaves behind: the explorer of generators, then every table with its text."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["NAME", "check_writable", "write"]

NAME = "turn-fade-slide.html"


def check_writable() -> None:
    """Raise the OSError that writing the page would raise, before anybody has waited for it."""
    path = Path.cwd() / NAME
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory; the tour wants to write a file there", str(path))
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the tour writes a page there", str(path)) from None


NEXT = (
    ("heading", "What to try next"),
    ("text", f"This page is the file {NAME} in the folder where the tour was taken. It opens in any browser "
             "and needs nothing else. A page with an X of your own, from Python, and one chapter again:"),
    ("code", """import pe
pe.explore.generator(X=[[-0.1, 1], [0, -0.1]], u=10).save("mine.html")
print(pe.classify([[-0.1, 1], [0, -0.1]]).kinds)"""),
    ("code", "python -m pe tour --chapter 7"),
)


def write(parts) -> Path:
    """Write the page into the current folder and return its path."""
    from .. import explore

    path = Path.cwd() / NAME
    page = explore.page("Turn, fade, slide", [explore.generator(preset="turn"), *parts, *NEXT])
    path.write_text(page, encoding="utf-8")
    return path
