"""The vocabulary: what one Jordan block is called, and which row of the list it belongs to."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One row of the list of six."""

    behaviour: str
    picture: str
    encoding: str
    shipped_in: tuple[str, ...]


ROWS = {
    "explode": Row("explodes", "none", "forbidden", ()),
    "nothing": Row("does nothing", "none", "NoPE", ("some decoders",)),
    "fade": Row("fades", "fade", "decay", ("linear attention", "state space models")),
    "turn": Row("spins", "circle", "RoPE", ("Llama", "Qwen", "Mistral")),
    "turn+fade": Row("spins and fades", "circle and fade", "damped RoPE", ("RetNet", "Mamba-3")),
    "slide": Row("grows linearly with the gap", "slide", "ALiBi", ("BLOOM", "MPT")),
}
"""The six rows, in the order of the source: row name -> behaviour, picture, encoding, models."""

_HALL = "Hall, Lie Groups, Lie Algebras, and Representations, chapter 2 (A(u) = exp(uX))"
_FAMILY = "Puranik, Using group theory to explore the space of positional encodings (Jane Street blog)"
_JORDAN_ROPE = "Jordan-RoPE (arXiv:2605.04217)"

_KIND_SOURCES = {
    "turn": ("Su et al., RoFormer (arXiv:2104.09864)",),
    "fade": ("Sun et al., Retentive Network (arXiv:2307.08621)",),
    "turn+fade": ("Sun et al., Retentive Network (arXiv:2307.08621)", "Mamba-3 (arXiv:2603.15569)"),
    "slide": (
        "Press et al., Train Short, Test Long (arXiv:2108.12409)",
        "Zhang et al., GRAPE (arXiv:2512.07805)",
    ),
    "fading slide": (_JORDAN_ROPE,),
    "rotating slide": (_JORDAN_ROPE,),
    "damped rotating slide": (_JORDAN_ROPE,),
}


def kind_of(gamma: float, theta: float, size: int) -> str:
    """Name one block from its rate of fade, angular frequency and Jordan size."""
    if gamma < 0:
        return "turn+explode" if theta else "explode"
    if size == 1:
        return {(0, 0): "nothing", (1, 0): "fade", (0, 1): "turn", (1, 1): "turn+fade"}[gamma > 0, theta > 0]
    return {
        (0, 0): "slide",
        (1, 0): "fading slide",
        (0, 1): "rotating slide",
        (1, 1): "damped rotating slide",
    }[gamma > 0, theta > 0]


def row_of(kind: str) -> str:
    """Row of a kind: one of `ROWS`, or "beyond" for the slides that fade or rotate."""
    if kind == "turn+explode":
        return "explode"
    return kind if kind in ROWS else "beyond"


def overall_row(kinds) -> str:
    """One row for a whole matrix: plain coordinates ("nothing") count only when there is nothing else."""
    rows = {row_of(kind) for kind in kinds} - {"nothing"}
    if not rows:
        return "nothing"
    return rows.pop() if len(rows) == 1 else "mixed"


def shipped_in(kinds) -> tuple[str, ...]:
    """Models that use the rows of these kinds ("nothing" again only when there is nothing else)."""
    rows = {row_of(kind) for kind in kinds} - {"nothing"} or {"nothing"}
    return tuple(model for name, row in ROWS.items() if name in rows for model in row.shipped_in)


def sources_of(kinds) -> tuple[str, ...]:
    """Where to read about these kinds."""
    own = dict.fromkeys(source for kind in kinds for source in _KIND_SOURCES.get(kind, ()))
    return (_HALL, _FAMILY, *own)
