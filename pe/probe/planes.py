"""From the matrices of a function at some positions to its planes: which coordinates pair, how they turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COUPLED = 3e-7
"""Entries above this share of the largest one join two coordinates: rounding in float32 stays below it."""

ROTATION = 5e-3
"""How far a block may be from an amplitude times a rotation: tables in bfloat16 are 4e-3 off."""


@dataclass(frozen=True)
class Planes:
    """Pairs of coordinates (first[l], second[l]) that a function mixes, in the order of a known layout."""

    first: np.ndarray
    second: np.ndarray
    layout: str
    blocks: int
    offset: int
    deinterleaved: bool

    @property
    def width(self):
        """The number of coordinates that turn."""
        return 2 * len(self.first)

    @property
    def written(self):
        """Where the two coordinates of each plane come out."""
        if not self.deinterleaved:
            return self.first, self.second
        plane = np.arange(len(self.first))
        return self.offset + plane, self.offset + len(plane) + plane

    def blocks_of(self, maps):
        """The 2 x 2 blocks (..., L, 2, 2) of matrices (..., D, D)."""
        pair = np.stack([self.first, self.second], axis=-1)
        return maps[..., pair[:, :, None], pair[:, None, :]]


def find_planes(maps):
    """Return (planes, maps), or (None, maps) where coordinates do not mix in pairs of a known layout.

    Rows of a function that reads adjacent pairs and writes halves are put back in their place first.
    """
    planes = _paired(maps, False)
    if planes is None and _mixed(maps).any():
        dim = maps.shape[-1]
        for width in range(4, dim + 1, 2):          # the part that turns may stand at either end of the head
            for offset in {0, dim - width}:
                order = np.arange(dim)
                order[offset:offset + width] = offset + np.arange(width).reshape(2, -1).T.ravel()
                planes = _paired(maps[..., order, :], True)
                if planes is not None and planes.layout == "interleaved":
                    return planes, maps[..., order, :]
    return planes, maps


def _mixed(maps):
    """Say which coordinates (D, D) a function joins."""
    size = np.abs(maps).max(axis=0)
    mixed = size > COUPLED * size.max()
    mixed |= mixed.T
    np.fill_diagonal(mixed, False)
    return mixed


def _paired(maps, deinterleaved):
    """Return the planes of matrices (T, D, D) whose coordinates mix in pairs alone, or None."""
    mixed = _mixed(maps)
    if not mixed.any() or (mixed.sum(axis=0) > 1).any():
        return None
    first = np.flatnonzero(np.triu(mixed).any(axis=1))
    second = mixed[first].argmax(axis=1)
    offset, gaps = int(first[0]), np.unique(second - first)
    if len(gaps) != 1:
        return None
    gap = int(gaps[0])
    within = (first - offset) % (2 * gap)
    if (within >= gap).any():
        return None
    blocks = (int(first[-1]) - offset) // (2 * gap) + 1
    # Planes that stand still keep their place among those that turn.
    whole = np.arange(blocks)[:, None] * 2 * gap + offset + np.arange(gap)
    whole = whole[whole + gap < maps.shape[-1]].ravel()
    while gap == 1 and _slow(maps, whole[-1] + 2):
        whole = np.append(whole, whole[-1] + 2)
    layout = "interleaved" if gap == 1 else "half"
    return Planes(whole, whole + gap, layout, 1 if gap == 1 else blocks, offset, deinterleaved)


def _slow(maps, first):
    """Say whether a coordinate and the next one are a plane, too slow for its entries to stand out."""
    if first + 1 >= maps.shape[-1]:
        return False
    up, down = maps[:, first, first + 1], maps[:, first + 1, first]
    return bool(up.any() and np.abs(up + down).max() <= 1e-3 * np.abs(up).max())


@dataclass(frozen=True)
class Turns:
    """How planes turn at points: cos, sin (T, L) with the amplitude, and how far blocks are from that."""

    cos: np.ndarray
    sin: np.ndarray
    residual: np.ndarray

    @property
    def length(self):
        """The amplitude, (T, L)."""
        return np.hypot(self.cos, self.sin)

    @property
    def phase(self):
        """e^(i angle), (T, L)."""
        length = self.length
        return (self.cos + 1j * self.sin) / np.where(length > 0, length, 1)


def turns_of(blocks):
    """Read blocks (T, L, 2, 2) as amplitude times rotation."""
    cos = (blocks[..., 0, 0] + blocks[..., 1, 1]) / 2
    sin = (blocks[..., 1, 0] - blocks[..., 0, 1]) / 2
    residual = np.maximum(np.abs(blocks[..., 0, 0] - cos), np.abs(blocks[..., 1, 0] - sin))
    return Turns(cos, sin, residual / max(float(np.abs(blocks).max()), 1e-300))


def why_no_rotation(planes, blocks):
    """Name what is wrong with blocks (T, L, 2, 2) that are no rotations."""
    (a, b), (c, d) = np.moveaxis(blocks, (-2, -1), (0, 1))
    size = float(np.abs(blocks).max())

    def equal(x, y):
        return bool(np.abs(x - y).max() <= ROTATION * size)

    if equal(b, 0) or equal(c, 0):
        line = "first" if equal(b, 0) else "second"
        return f"the sine is missing from the {line} of the two lines of a plane"
    if equal(a, d) and equal(b, c):
        return "both sines have the same sign: (a cos + b sin, a sin + b cos) grows instead of turning"
    if equal(a, -d) and equal(b, c):
        return "a plane is reflected, not turned: one of the two lines has the wrong sign"
    if equal(c, -a * b) and equal(d, a - b * b):
        return ("the second coordinate is made from the first after that was overwritten: the turn is in "
                "place without a copy")
    first, second = np.arctan2(-b, a), np.arctan2(c, d)
    if equal(np.hypot(a, b), np.hypot(c, d)):
        angles = np.empty((len(blocks), 2 * blocks.shape[1]))
        order = planes.first - planes.offset, planes.second - planes.offset
        angles[:, order[0]], angles[:, order[1]] = first, second
        half, table = angles.shape[1] // 2, np.exp(1j * angles)
        if planes.layout == "interleaved" and equal(table[:, :half], table[:, half:]):
            return ("table in the wrong layout: its columns are [w, w], made for pairs (l, l+L), and the "
                    "pairs are adjacent, (2l, 2l+1); repeat each column twice in place")
        if planes.layout == "half" and equal(table[:, ::2], table[:, 1::2]):
            return ("table in the wrong layout: every column stands twice in place, made for adjacent pairs "
                    "(2l, 2l+1), and the pairs are (l, l+L); concatenate the columns with themselves")
        return "the two coordinates of a plane turn by different angles"
    return "a plane is mixed by a matrix that is no rotation"
