"""From a classified generator to what the kernels need, so that any X runs on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Ops:
    """A generator in the form of `pe.apply_rope_nd`: queries and keys whose inner product is the score.

    In the coordinates of its Jordan basis every block turns and fades, one plane for each of its vectors, and
    a slide mixes the vectors of its chain by a polynomial in the position. Both are split between query and
    key.

    Attributes
    ----------
    query_basis, key_basis : ndarray, shape (n, width)
        Change of basis, q @ query_basis and k @ key_basis: P and the inverse transpose of P, with zeros where
        a line needs a plane to fade in.
    freqs, rate : ndarray, shape (1, L)
        For `pe.apply_rope_nd`: the first 2L coordinates turn and fade; queries take +rate, keys -rate.
    slides : tuple of ndarray, shape (size, 1 or 2)
        The slots of each chain: positions in `width` of its vectors, the one that stays first.

    Notes
    -----
    A fading key is written down larger by e^(gamma s), so that positions are best counted from nearby: see
    `Encoding.reach`. A slide in this form loses digits where t and s are large and t - s is not;
    `pe.alibi_bias` and `alibi_slopes` in `pe.attention`, which see only the gap, do not.
    """

    query_basis: np.ndarray
    key_basis: np.ndarray
    freqs: np.ndarray
    rate: np.ndarray
    slides: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return (
            f"<Ops {len(self.query_basis)} coordinates in {self.width}: {self.freqs.shape[1]} planes, "
            f"{len(self.slides)} slides>"
        )

    @property
    def width(self) -> int:
        """Coordinates of an encoded query or key."""
        return self.query_basis.shape[1]

    def queries(self, q, positions) -> np.ndarray:
        """Encode queries (..., T, n) at positions (T,): shape (..., T, width)."""
        return self._encode(np.asarray(q) @ self.query_basis, positions, 1)

    def keys(self, k, positions) -> np.ndarray:
        """Encode keys (..., T, n) at positions (T,): shape (..., T, width)."""
        return self._encode(np.asarray(k) @ self.key_basis, positions, -1)

    def scores(self, q, k, q_positions, k_positions) -> np.ndarray:
        """Scores (..., M, N) of all queries and keys: those of `encoding(X)`, through the kernel.

        They are what `pe.attention` forms of `queries` and `keys`, with scale=1.
        """
        return self.queries(q, q_positions) @ np.swapaxes(self.keys(k, k_positions), -1, -2)

    def _encode(self, x, positions, sign):
        from pe import apply_rope_nd

        times = np.asarray(positions, dtype=np.float64)
        if times.ndim != 1 or x.ndim < 2 or len(times) != x.shape[-2]:
            raise ValueError(
                f"positions has shape {times.shape}; expected ({x.shape[-2]},), one for each row"
            )
        for slots in self.slides:
            x = _slid(x, slots, times, sign)
        if not self.freqs.size:
            return x
        return apply_rope_nd(x, times[:, None], self.freqs, rate=sign * self.rate)


def _slid(x, slots, times, sign):
    """exp(t N^T) on queries, exp(-s N) on keys: sums of t^r / r! times vectors r further along the chain."""
    out, size = x.copy(), len(slots)
    for i in range(size):
        for r in range(1, size):
            j = i - sign * r
            if 0 <= j < size:
                weight = (sign * times) ** r / factorial(r)
                out[..., slots[i]] += weight[:, None] * x[..., slots[j]]
    return out


def to_ops(answer) -> Ops:
    """Lay out the blocks of a Classification: planes for what turns or fades, then the rest.

    Raises ValueError where P J P^-1 is not X in float64: the planes would give another score.
    """
    P = answer.basis
    if not np.all(np.isfinite(P)):
        raise ValueError("the basis of this answer is not readable in float64")
    inverse = np.linalg.inv(P) if P.size else P
    size = float(np.linalg.norm(answer.generator))
    miss = float(np.linalg.norm(P @ answer.jordan @ inverse - answer.generator))
    if miss > max(1e-6, 10 * answer.rtol) * size:
        raise ValueError(
            f"the blocks found miss X by {miss / size:.1e} of its norm in this basis, whose condition number "
            f"is {answer.cond:.1e}: no planes and slides give its score in float64"
        )
    chains = [np.array(b.indices).reshape(b.size, -1) for b in answer.blocks]
    moving = [bool(b.theta or b.gamma) for b in answer.blocks]
    planes = [
        (b, column)
        for b, chain, moves in zip(answer.blocks, chains, moving, strict=True)
        if moves
        for column in chain
    ]
    still = [i for chain, moves in zip(chains, moving, strict=True) if not moves for i in chain.ravel()]
    width = 2 * len(planes) + len(still)
    query, key = np.zeros((len(P), width)), np.zeros((len(P), width))
    slot = {}
    for plane, (_, columns) in enumerate(planes):
        slot.update({int(c): 2 * plane + side for side, c in enumerate(columns)})
    slot.update({int(c): 2 * len(planes) + place for place, c in enumerate(still)})
    for column, place in slot.items():
        query[:, place], key[:, place] = P[:, column], inverse[column]
    return Ops(
        query,
        key,
        # The kernel's score turns by -u w and a block by +u theta.
        -np.array([[b.theta for b, _ in planes]]) + 0.0,
        np.array([[b.gamma for b, _ in planes]]) + 0.0,
        tuple(np.vectorize(slot.get)(chain) for chain in chains if len(chain) > 1),
    )
