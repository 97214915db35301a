"""The tour: from "the dog bit the man" to attention under every encoding, computed as it is printed."""

from __future__ import annotations

from . import axes, back, gaps, groups, order, rope, rows, slide, speed
from .page import check_writable, write
from .text import Script

__all__ = ["CHAPTERS", "take"]

CHAPTERS = (
    order.order_blindness,
    groups.clock, groups.slide_rule, groups.group_law,
    gaps.lookup, gaps.fade,
    rows.six_rows,
    rope.three_levels, rope.same_gap, rope.far_away,
    slide.alibi,
    axes.two_axes, axes.quaternions,
    back.way_back, back.fence,
    speed.attention_timed,
)

NEXT = """
What to try next
  Open that page in a browser and change the numbers of X: watch its class.
  python -m pe tour --chapter 7
      One chapter again.
  python -m pe generate stories260K.bin --tokenizer tok512.bin
      A real language model on these ops (both files: karpathy/tinyllamas on
      Hugging Face, folder stories260K).
  python -m pe info
      What this build runs on.
  In Python, change a number and ask again:
      >>> import numpy as np, pe
      >>> pe.classify([[0, 1], [0, 0]]).row
      >>> x = np.random.default_rng(0).standard_normal((1, 1, 5, 16))
      >>> pe.attention(x, x, x, causal=True, rope=pe.Rope(16))
"""


def take(stream, chapter: int | None = None) -> None:
    """Tell one chapter, or all of them and write the page into the current folder.

    Parameters
    ----------
    stream : text file
        Where to print.
    chapter : int, optional
        Number of the only chapter to tell, from 1; then no file is written.

    Raises
    ------
    OSError
        The current folder cannot be written to; raised before the first chapter.
    """
    say = Script(stream)
    if chapter is None:
        check_writable()
        say.text(f"""What can a positional encoding be? {len(CHAPTERS)} short chapters lead from a sentence to
            the complete list. Every number is computed as you read, by the calls
            named.""")
    for number, tell in enumerate(CHAPTERS, 1):
        if chapter in (None, number):
            say.number = number
            tell(say)
    if chapter is None:
        page = write(say.parts)
        say.line()
        say.line("The tour as a page, with a figure to play with, is now in")
        say.line(f"  {page}")
        say.line(NEXT.rstrip())
