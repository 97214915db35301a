"""exp(tX) in closed form: few functions of t, on top of matrices that are worked out once.

X falls into components that no entry connects. Those of one coordinate are taken together, and those of two;
they need no basis, and neither does a component with one eigenvalue. The others take their Jordan basis, or
SciPy's expm where that basis has too few digits. Growth is kept apart as an exponent: what overflows is inf,
and what is zero stays zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import factorial

import numpy as np
from scipy.linalg import expm

from .._shapes import broadcast
from .reading import Eigenvalue, Form, components

WELL_CONDITIONED = 1e6
"""Beyond this condition number the basis costs more digits than expm does."""

LARGE = 1e300
"""Where powers of t would be larger than this, they are kept as logarithms."""


class Part(ABC):
    """exp(tX) v = e^growth(t) back(move(weights(t), into(v))) on the coordinates `where` of X.

    Vectors are rows (..., size). t has any shape that broadcasts against (...); weights and growth, which is
    for each coordinate or, with one entry, for all, have axes of their own after those of t.
    """

    where: np.ndarray | slice
    size: int

    def growth(self, t):
        """Exponent that the weights leave out."""
        return np.zeros((*t.shape, 1))

    @abstractmethod
    def weights(self, t) -> tuple[np.ndarray, ...]:
        """Functions of t."""

    @abstractmethod
    def move(self, weights, v) -> np.ndarray:
        """Vectors moved by them, in own coordinates."""

    def into(self, v):
        """Vectors in own coordinates."""
        return v

    def back(self, v):
        """Vectors from own coordinates."""
        return v

    def covectors(self, q):
        """Own coordinates of what the inner product is taken with."""
        return q

    def vectors(self, t, v):
        """exp(tX) v."""
        return grown(self.back(self.move(self.weights(t), self.into(v))), self.growth(t))

    def fill(self, out, t):
        """Write exp(tX), column by column, into its place in matrices (..., n, n)."""
        columns = self.vectors(t[:, None], np.eye(self.size))
        grid = (self.where,) * 2 if isinstance(self.where, slice) else np.ix_(self.where, self.where)
        out[(slice(None), *grid)] = np.swapaxes(columns, -1, -2)


def grown(values, exponents):
    """Values times exp(exponents), where zeros stay zero and what overflows is inf."""
    if not np.any(exponents):
        return values
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        half = np.exp(exponents / 2)
        return np.where(values == 0, 0.0, values * half * half)


class Lines(Part):
    """All single coordinates: e^(value t)."""

    def __init__(self, X, where):
        self.where, self.size, self.values = as_slice(where), len(where), X[where, where]

    def growth(self, t):
        return t[..., None] * self.values

    def weights(self, t):
        return (np.ones((*t.shape, 1)),)

    def move(self, weights, v):
        return weights[0] * v

    def fill(self, out, t):
        at = np.arange(out.shape[-1])[self.where]
        out[:, at, at] = grown(np.ones(1), self.growth(t))


class Planes(Part):
    """All pairs: exp(t(m + N)) with N^2 = d is e^(mt) (cosh I + sinh/sqrt(d) N), for turns, slides and fades.

    The growth is taken out of cosh and sinh, which would overflow where the product is small.
    """

    def __init__(self, X, where):
        self.pairs, self.where, self.size = where, as_slice(where.ravel()), where.size
        a, b, c, d = (X[where[:, i], where[:, j]] for i in (0, 1) for j in (0, 1))
        self.mean, half = (a + d) / 2, (a - d) / 2
        self.N = np.array([[half, b], [c, -half]])
        square = half * half + b * c
        self.root, self.turns, self.fades = np.sqrt(np.abs(square)), square < 0, square > 0

    def growth(self, t):
        t = t[..., None]
        return np.repeat(self.mean * t + np.where(self.fades, self.root, 0.0) * np.abs(t), 2, axis=-1)

    def weights(self, t):
        t = t[..., None]
        even = np.ones((*t.shape[:-1], len(self.root)))
        odd = even * t
        for planes, functions in ((self.turns, _turning), (self.fades, _fading)):
            if np.any(planes):
                at = slice(None) if np.all(planes) else planes
                even[..., at], odd[..., at] = functions(self.root[at], t)
        return even, odd

    def move(self, weights, v):
        even, odd = weights
        v = v.reshape(*v.shape[:-1], -1, 2)
        x, y = v[..., 0], v[..., 1]
        moved = np.empty((*broadcast(even.shape, x.shape), 2))
        (a, b), (c, d) = self.N
        moved[..., 0] = even * x + odd * (a * x + b * y)
        moved[..., 1] = even * y + odd * (c * x + d * y)
        return moved.reshape(*moved.shape[:-2], self.size)

    def fill(self, out, t):
        for j, unit in enumerate(np.eye(2)):
            columns = self.vectors(t, np.tile(unit, len(self.pairs)))
            for i in (0, 1):
                out[:, self.pairs[:, i], self.pairs[:, j]] = columns[..., i::2]


def _turning(root, t):
    return np.cos(root * t), np.sin(root * t) / root


def _fading(root, t):
    shrink = np.expm1(-2 * root * np.abs(t))
    return 1 + shrink / 2, -np.sign(t) * shrink / (2 * root)


class OneEigenvalue(Part):
    """e^(value t) times the polynomial that the nilpotent part leaves of the exponential series."""

    def __init__(self, X, where, value, degree):
        self.where, self.size, self.value = as_slice(where), len(where), value
        N = X - value * np.eye(self.size)
        self.powers = [np.eye(self.size)]
        for _ in range(degree):
            self.powers.append(self.powers[-1] @ N)

    def growth(self, t):
        return np.where(self._far(t), 0.0, self.value * t)[..., None]

    def weights(self, t):
        # Far out t^r overflows where e^(value t) is zero; neither may be formed alone.
        far = self._far(t)
        logarithm, start = np.log(np.where(far, np.abs(t), 1.0)), np.where(far, self.value * t, 0.0)
        t = np.where(far, np.sign(t), t)
        with np.errstate(over="ignore", under="ignore"):
            degrees = range(len(self.powers))
            return tuple(t**r * np.exp(start + r * logarithm) / factorial(r) for r in degrees)

    def move(self, weights, v):
        total = np.zeros(1)
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, power in zip(reversed(weights), reversed(self.powers), strict=True):
                image = v @ power.T
                term = np.where(image == 0, 0.0, weight[..., None] * image)
                total = np.where(np.isinf(total), total, total + term)  # the highest power decides
        return total

    def _far(self, t):
        """Tell where the highest power of t is too large a number."""
        degree = len(self.powers) - 1
        return (np.abs(t) > LARGE ** (1 / degree)) & (self.value != 0)


class InBasis(Part):
    """P exp(tJ) P^-1: between the basis changes a vector costs a few products for each of its entries.

    A vector is Re(C y) over the chains C of the conjugate pairs, and y turns as a complex number; pairs come
    first, as (real, imaginary), and then the coordinates of real eigenvalues.
    """

    def __init__(self, where, found: list[Eigenvalue]):
        self.where = as_slice(where)
        chains = [(e.value, chain) for e in found for chain in e.chains]
        chains.sort(key=lambda own: not own[0].imag)
        self.P = np.hstack([_real_columns(chain) if value.imag else chain.real for value, chain in chains])
        self.size = len(self.P)
        each = np.array([value for value, chain in chains for _ in range(chain.shape[1])])
        self.pairs, self.lines = each[each.imag > 0], each[each.imag == 0].real
        self.fastest, self.slowest = float(np.max(each.real)), float(np.min(each.real))
        self.shifts = _shifts([(chain.shape[1], 2 if value.imag else 1) for value, chain in chains])
        square = self.P.shape == (self.size, self.size)
        self.usable = square and bool(np.linalg.cond(self.P) <= WELL_CONDITIONED)
        self.inverse = np.linalg.inv(self.P) if self.usable else None

    def growth(self, t):
        return (np.where(t >= 0, self.fastest, self.slowest) * t + self._far(t))[..., None]

    def into(self, v):
        return v @ self.inverse.T

    def back(self, v):
        return (v.reshape(-1, self.size) @ self.P.T).reshape(v.shape)

    def covectors(self, q):
        return q @ self.P

    def weights(self, t):
        growth = np.where(t >= 0, self.fastest, self.slowest) * t
        spin = np.empty((*t.shape, len(self.pairs)), dtype=np.complex128)
        angle = t[..., None] * self.pairs.imag
        shrink = np.exp(t[..., None] * self.pairs.real - growth[..., None])
        np.multiply(np.cos(angle), shrink, out=spin.real)
        np.multiply(np.sin(angle), shrink, out=spin.imag)
        fade = np.exp(t[..., None] * self.lines - growth[..., None])
        degree, logarithm = len(self.shifts), self._far(t)
        if not degree:
            return spin, fade
        t, reach = np.where(logarithm > 0, np.sign(t), t), np.where(logarithm > 0, np.abs(t), 1.0)
        with np.errstate(under="ignore"):
            powers = [t**r / factorial(r) * reach ** float(r - degree) for r in range(degree + 1)]
        return spin, fade, *powers

    def move(self, weights, v):
        spin, fade, *powers = weights
        turning = 2 * len(self.pairs)
        moved = np.empty((*broadcast(spin.shape[:-1], v.shape[:-1]), self.size))
        turned = moved[..., :turning].view(np.complex128)
        np.multiply(spin, v[..., :turning].view(np.complex128), out=turned)
        np.multiply(fade, v[..., turning:], out=moved[..., turning:])
        if not powers:
            return moved
        slid = powers[0][..., None] * moved
        for power, (to, source) in zip(powers[1:], self.shifts, strict=True):
            slid[..., to] += power[..., None] * moved[..., source]
        return slid

    def _far(self, t):
        """Logarithm of the highest power of t, where that is too large a number, else 0."""
        degree = len(self.shifts)
        if not degree:
            return np.zeros_like(t)
        far = np.abs(t) > LARGE ** (1 / degree)
        return degree * np.log(np.where(far, np.abs(t), 1.0))


def _real_columns(chain):
    """Columns (Re c, -Im c) for each vector of a chain, so that they map (Re y, Im y) to Re(c y)."""
    return np.stack([chain.real, -chain.imag], axis=-1).reshape(len(chain), -1)


def _shifts(chains):
    """For r = 1, 2, ...: where t^r / r! carries coordinates to and from, r vectors along their chain."""
    longest = max(size for size, _ in chains)
    shifts: list[tuple[list[int], list[int]]] = [([], []) for _ in range(1, longest)]
    start = 0
    for size, width in chains:
        for r in range(1, size):
            shifts[r - 1][0].extend(range(start, start + (size - r) * width))
            shifts[r - 1][1].extend(range(start + r * width, start + size * width))
        start += size * width
    return shifts


class ByExpm(Part):
    """SciPy's expm, one t at a time: the weights are the matrices."""

    def __init__(self, X, where):
        self.X, self.where, self.size = X, as_slice(where), len(where)

    def weights(self, t):
        # Never one batched call: in SciPy 1.18.0 the scaling of a slice leaks into the next (scipy #25924).
        flat = [expm(self.X * time) for time in t.ravel()]
        return (np.array(flat).reshape(*t.shape, *self.X.shape),)

    def move(self, weights, v):
        return (weights[0] @ v[..., None])[..., 0]


def closed_forms(X: np.ndarray, tolerance: float) -> list[Part]:
    """Take X apart; `tolerance` is absolute."""
    found = components(X)
    singles = [where for where in found if len(where) == 1]
    pairs = [where for where in found if len(where) == 2]
    parts: list[Part] = [Lines(X, np.concatenate(singles))] if singles else []
    parts += [Planes(X, np.array(pairs))] if pairs else []
    return parts + [_larger(X[np.ix_(where, where)], where, tolerance) for where in found if len(where) > 2]


def _larger(X, where, tolerance) -> Part:
    found = Form(X, tolerance).read(tolerance, basis=True)
    if len(found) == 1 and not found[0].value.imag:
        return OneEigenvalue(X, where, found[0].value.real, max(found[0].sizes) - 1)
    basis = InBasis(where, found)
    return basis if basis.usable else ByExpm(X, where)


def as_slice(where: np.ndarray) -> np.ndarray | slice:
    """Indices as a slice, where they are one: that makes views."""
    start, stop = int(where[0]), int(where[-1]) + 1
    return slice(start, stop) if np.array_equal(where, np.arange(start, stop)) else where
