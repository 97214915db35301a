"""What classify returns: blocks, and what follows from them for the whole matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np

from .defect import distance_to_defective
from .names import ROWS, overall_row, row_of, shipped_in, sources_of
from .to_ops import Ops, to_ops

MOST_ROWS = 12
"""Lines of the table up to which every pair of gamma and theta has its own; else a kind shares one."""

NEAR_DEFECT = 32
"""Size up to which the views tell the distance to defective, which costs n^2 searches."""


@dataclass(frozen=True)
class Block:
    """One real Jordan block: the eigenvalue -gamma + i theta (theta >= 0) with a chain of `size` vectors.

    Attributes
    ----------
    kind : str
        "nothing", "fade", "turn", "turn+fade", "slide", "fading slide", "rotating slide", "damped rotating
        slide", "explode" or "turn+explode".
    eigenvalue : complex
        The one with theta >= 0; a turning block holds its conjugate as well.
    gamma, theta : float
        Rate of fade and angular frequency per position.
    size : int
        Length of the Jordan chain; a slide has degree size - 1 in the gap.
    indices : tuple of int
        The block's columns of `Classification.basis`: `size` of them, twice as many if it turns.
    radius : float
        How far an error of the tolerance's size can move the eigenvalue. Parts below it were taken for zero.
    certain : bool
        False where rounding could have changed the name.
    alternatives : tuple of str
        Other kinds that the block could be, where they are known.
    """

    kind: str
    eigenvalue: complex
    gamma: float
    theta: float
    size: int
    indices: tuple[int, ...]
    radius: float
    certain: bool
    alternatives: tuple[str, ...]

    @property
    def half_life(self) -> float:
        """Positions after which half is left, ln 2 / gamma; inf for what does not fade."""
        return float(np.log(2) / self.gamma) if self.gamma > 0 else np.inf

    @property
    def wavelength(self) -> float:
        """Positions per full turn, 2 pi / theta; inf for what does not turn."""
        return float(2 * np.pi / self.theta) if self.theta else np.inf

    @property
    def row(self) -> str:
        """The row of the list of six, or "beyond"."""
        return row_of(self.kind)


@dataclass(frozen=True, eq=False)
class Classification:
    """The names of what exp(uX) does, with the evidence.

    Attributes
    ----------
    blocks : tuple of Block
        Fastest turn first, then by rate of fade, then by size.
    basis, jordan : ndarray, shape (n, n)
        X basis = basis jordan, the real Jordan form. NaN in an exact answer whose chains float64 cannot show.
    residual : float
        ||X P - P J|| / (||X|| ||P||), Frobenius norms but for the spectral norm of X.
    cond : float
        Condition number of the basis.
    backward_error : float
        ||E|| / ||X|| for the E with which X + E has exactly this structure (Jordan sizes, before parts of
        eigenvalues within their radius were taken for zero).
    scaling_sensitive : bool
        Another choice of units for single coordinates changes the answer.
    is_normal, is_skew : bool
        Within the tolerance.
    spectral_abscissa, numerical_abscissa : float
        Largest real part of an eigenvalue: the growth in the long run; largest eigenvalue of (X + X^T) / 2:
        the growth at the start, which for a non-normal fade may be positive (a hump before the fade).
    rtol : float
        The relative tolerance used; 0 if the answer is exact.
    generator : ndarray, shape (n, n)
        X, in float64.
    """

    blocks: tuple[Block, ...]
    basis: np.ndarray
    jordan: np.ndarray
    residual: float
    cond: float
    backward_error: float
    scaling_sensitive: bool
    is_normal: bool
    is_skew: bool
    spectral_abscissa: float
    numerical_abscissa: float
    rtol: float
    generator: np.ndarray

    @property
    def kinds(self) -> Counter:
        """How many blocks there are of each kind."""
        return Counter(block.kind for block in self.blocks)

    @property
    def row(self) -> str:
        """One word: a row of the list, "mixed" for several, "beyond" for slides that also fade or turn.

        Plain coordinates ("nothing") do not count unless there is nothing else.
        """
        return overall_row(self.kinds)

    @property
    def segre(self) -> tuple[int, ...]:
        """Sizes of the Jordan blocks in the order of `blocks`, the Segre characteristic."""
        return tuple(block.size for block in self.blocks)

    @property
    def is_defective(self) -> bool:
        """Whether there are too few eigenvectors for a basis."""
        return any(block.size > 1 for block in self.blocks)

    @property
    def forbidden(self) -> bool:
        """Whether something grows exponentially with the gap."""
        return any(block.gamma < 0 for block in self.blocks)

    @property
    def stability(self) -> str:
        """Bounded both ways, bounded forward, polynomial growth or exponential growth."""
        if self.forbidden:
            return "exponential growth"
        if any(block.size > 1 and block.gamma == 0 for block in self.blocks):
            return "polynomial growth"
        return "bounded forward" if any(block.gamma > 0 for block in self.blocks) else "bounded both ways"

    @property
    def bounded(self) -> bool:
        """Whether the largest singular value of exp(uX) stays finite for all u >= 0."""
        return self.stability.startswith("bounded")

    @property
    def information_preserving(self) -> bool:
        """Whether the smallest singular value of exp(uX) stays away from 0 for all u >= 0.

        The phrase has two meanings. Every exp(uX) can be undone, and in that sense nothing is ever lost; but
        what fades or slides is drowned by rounding in the end. Only turns and nothing keep all *and* stay
        bounded.
        """
        return not any(b.gamma > 0 or (b.gamma == 0 and b.size > 1) for b in self.blocks)

    @cached_property
    def distance_to_defective(self) -> float:
        """How small a change of X (in the spectral norm) can make it defective, from above; inf for n < 2.

        On the way two eigenvalues have to meet: the least, over pairs, of the largest distance on the line
        between them at which X - zI stays from singular.
        """
        return 0.0 if self.is_defective else distance_to_defective(self.generator)

    @property
    def ambiguous(self) -> bool:
        """Whether some block has no readable answer at this tolerance; its `certain` is False."""
        return not all(block.certain for block in self.blocks)

    @property
    def shipped_in(self) -> tuple[str, ...]:
        """Models with these rows, as the list of six names them."""
        return shipped_in(self.kinds)

    @property
    def sources(self) -> tuple[str, ...]:
        """Where to read more."""
        return sources_of(self.kinds)

    def to_ops(self) -> Ops:
        """What the kernels need to run this generator: bases for queries and keys, freqs, rates, slots.

        Returns
        -------
        Ops
            With queries(q, positions), keys(k, positions) and scores(...), which are those of `encoding(X)`,
            and the arrays that go into `pe.apply_rope_nd`.

        Raises
        ------
        ValueError
            The basis is too nearly singular: in float64 its blocks are not X (from condition 1e6 to 1e7 on).

        Examples
        --------
        >>> from pe.generators import classify, encoding
        >>> X = [[-0.1, -1, 0, 0], [1, -0.1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
        >>> q, k = np.random.default_rng(0).standard_normal((2, 1, 4))
        >>> ops = classify(X).to_ops()
        >>> score = ops.scores(q, k, [7.0], [3.0])
        >>> bool(np.allclose(score, encoding(X).score(q, k, 7.0, 3.0), rtol=1e-13))
        True
        """
        return to_ops(self)

    def summary(self) -> str:
        """Table of the blocks, equal ones once, and what follows from them.

        Where that is more than a screen, the blocks of a kind and size share a line with the range of each
        number; `blocks` has them all.
        """
        header = ("count", "kind", "gamma", "theta", "size", "half-life", "wavelength", "")
        table = [header, *self._rows()]
        widths = [max(len(line[i]) for line in table) for i in range(len(header))]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table
        ]
        return "\n".join([self._headline(), *lines, *self._remarks()])

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "no blocks"
        return (
            f"<Classification {self.row}: {kinds}; {self.stability}{'; ambiguous' if self.ambiguous else ''}>"
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{escape(name)}</th>"
            for name in ("count", "kind", "&gamma;", "&theta;", "size", "half-life", "wavelength", "")
        ).replace("&amp;", "&")
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        remarks = "".join(f"<p>{escape(line)}</p>" for line in self._remarks())
        return (
            f"<p><strong>{escape(self._headline())}</strong></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{remarks}"
        )

    def _headline(self) -> str:
        name = f"{self.row} ({ROWS[self.row].encoding})" if self.row in ROWS else self.row
        return f"{'ambiguous, read as ' * self.ambiguous}{name}: {self.stability}"

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(len(alike)),
                alike[0].kind,
                span(b.gamma for b in alike),
                span(b.theta for b in alike),
                str(alike[0].size),
                span(b.half_life for b in alike),
                span(b.wavelength for b in alike),
                _doubt(alike[0]),
            )
            for alike in grouped(self.blocks)
        ]

    def _remarks(self) -> list[str]:
        remarks = []
        if self.forbidden:
            worst = max(-block.gamma for block in self.blocks)
            remarks.append(f"warning: explodes forward, by exp({worst:.6g} u) over a gap u; forbidden")
        if any(block.gamma > 0 for block in self.blocks):
            worst = max(block.gamma for block in self.blocks)
            remarks.append(
                f"note: a key ahead of the query (negative gap) explodes, by exp({worst:.6g} |u|): mask it"
            )
        if self.ambiguous:
            doubtful = sum(not block.certain for block in self.blocks)
            remarks.append(
                f"ambiguous: rounding could change the name of {doubtful} of {len(self.blocks)} blocks"
            )
        if self.scaling_sensitive:
            remarks.append("scaling sensitive: other units for single coordinates change the answer")
        if self.rtol:
            remarks.append(f"read to {self.rtol:.1e} of ||X||; backward error {self.backward_error:.2g}")
        if 2 <= len(self.generator) <= NEAR_DEFECT and not self.is_defective:
            remarks.append(f"the nearest defective matrix is at most {self.distance_to_defective:.2g} away")
        if self.shipped_in and not self.ambiguous:
            remarks.append("shipped in: " + ", ".join(self.shipped_in))
        return remarks


def grouped(blocks) -> list[list[Block]]:
    """Blocks that share a line, in order: equal to six digits or, if those are many, of a kind and size."""
    equal: dict[tuple, list[Block]] = {}
    alike: dict[tuple, list[Block]] = {}
    for b in blocks:
        same = b.kind, b.size, _doubt(b)
        equal.setdefault((*same, f"{b.gamma:.6g}", f"{b.theta:.6g}"), []).append(b)
        alike.setdefault(same, []).append(b)
    return list((alike if len(equal) > MOST_ROWS else equal).values())


def span(values) -> str:
    """One number, or the range of several."""
    values = sorted(values)
    low, high = f"{values[0]:.6g}", f"{values[-1]:.6g}"
    return low if low == high else f"{values[0]:.4g} to {values[-1]:.4g}"


def _doubt(block: Block) -> str:
    if block.certain:
        return ""
    return "uncertain" + (": or " + ", ".join(block.alternatives) if block.alternatives else "")
