"""`Provenance`: whose encoding a `Rope` is, by what formula, and where that is published."""

from __future__ import annotations

from dataclasses import dataclass

ROFORMER = "Su et al. (2021), RoFormer, arXiv:2104.09864"


@dataclass(frozen=True)
class Provenance:
    """Where an encoding comes from; it tells readers, and takes no part in comparisons of a `Rope`.

    Attributes
    ----------
    family : str
        The model family that uses it so, such as "llama"; empty for an encoding of one's own.
    formula : str
        How its frequencies are made.
    paper : str
        Where the formula is published; empty where the frequencies were given.

    Examples
    --------
    >>> import pe
    >>> print(pe.Rope(64).provenance)
    w_l = base^(-2l/64), base 10000; Su et al. (2021), RoFormer, arXiv:2104.09864
    """

    family: str
    formula: str
    paper: str

    def __str__(self) -> str:
        return "; ".join(part for part in (self.family, self.formula, self.paper) if part)
