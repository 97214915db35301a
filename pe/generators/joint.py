"""The planes that a commuting family of skew generators turns, and reading a position off them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._scalars import amount
from ._matrix import as_generator
from .axes import ROUNDING, at_point, commute, family_of
from .jordan import real_schur
from .lattice import has_period


@dataclass(frozen=True, eq=False, repr=False)
class JointSpectrum:
    """The planes that a commuting family turns, and how fast each axis turns them.

    B_a = basis (freqs[a, 0] J (+) freqs[a, 1] J (+) ...) basis^T. So x @ basis, turned by
    ``apply_rope_nd(x @ basis, positions, freqs)``, is R_p x in the coordinates of the planes, and scores
    are those of exp(p . B).

    Attributes
    ----------
    basis : ndarray, shape (n, n)
        Orthogonal; columns 2l and 2l + 1 span plane l. If n is odd, nothing turns the last one.
    freqs : ndarray, shape (n_axes, L)
        Angular frequencies, fastest plane first, the first that is not zero in each plane positive.
    residual : float
        Largest relative error of B_a = basis (...) basis^T; not small if the family does not commute.
    """

    basis: np.ndarray
    freqs: np.ndarray
    residual: float

    @property
    def rank(self) -> int:
        """How many combinations of the axes the planes can tell apart."""
        return int(np.linalg.matrix_rank(self.freqs)) if self.freqs.size else 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        planes, axes = amount(self.freqs.shape[1], "plane"), amount(len(self.freqs), "axis", "axes")
        lines = [f"{planes}, {axes}, rank {self.rank}"]
        if self.residual > ROUNDING:
            lines[0] += f"; the axes do not commute: residual {self.residual:.3g}"
        for plane, column in enumerate(self.freqs.T):
            lines.append(f"  plane {plane}: " + "  ".join(f"{w:.6g}" for w in column))
        return "\n".join(lines)


def joint_spectrum(Bs) -> JointSpectrum:
    """Find the common planes of a commuting skew family and its frequency matrix.

    Parameters
    ----------
    Bs : array_like, shape (n_axes, n, n)
        Skew generators that commute. If they do not, the planes are the best found and `residual` is not
        small.

    Returns
    -------
    JointSpectrum
        With basis, freqs and residual.

    Raises
    ------
    ValueError
        A generator is not skew.

    Notes
    -----
    A generic combination of the axes has the planes of all of them, so its real Schur form is the common
    basis. k independent axes need n >= 2k: that is why two axes find nothing in 3 x 3 and a solution
    in 4 x 4.

    Examples
    --------
    >>> from pe.generators import joint_spectrum, turn
    >>> joint_spectrum([turn([1, 2]), turn([0.5, -3])]).freqs
    array([[ 2. ,  1. ],
           [-3. ,  0.5]])
    """
    family = _skew_family(Bs)
    k, n = family.shape[:2]
    sizes = np.linalg.norm(family, axis=(1, 2))
    unit = family / np.where(sizes, sizes, 1.0)[:, None, None]
    found = [_planes(unit, c) for c in np.random.default_rng(0).standard_normal((4 if k > 1 else 1, k))]
    basis = min(found, key=lambda P: _leftover(unit, P)[1])
    freqs = _leftover(family, basis)[0]
    freqs[np.abs(freqs) <= n * np.finfo(float).eps * sizes[:, None]] = 0.0
    for plane in range(freqs.shape[1]):
        leading = freqs[np.argmax(np.abs(freqs[:, plane]) > ROUNDING * sizes), plane]
        if leading < 0:
            basis[:, [2 * plane, 2 * plane + 1]] = basis[:, [2 * plane + 1, 2 * plane]]
            freqs[:, plane] *= -1
    order = np.argsort(-np.linalg.norm(freqs, axis=0), kind="stable")
    columns = np.concatenate(
        [np.column_stack([2 * order, 2 * order + 1]).ravel(), np.arange(2 * len(order), n)]
    )
    basis, freqs = basis[:, columns], freqs[:, order] + 0.0
    return JointSpectrum(basis, freqs, _leftover(unit, basis)[1])


def is_injective(Bs, domain: str = "real") -> bool:
    """Whether different positions have different matrices exp(p . B), so that no position is lost.

    Parameters
    ----------
    Bs : array_like, shape (n_axes, n, n)
        One generator for each axis.
    domain : {"real", "integer"}, default "real"
        "real": positions that are close together are told apart, that is, the generators are linearly
        independent; that turns come round again, whole periods further on, does not count.
        "integer": no two integer positions coincide; skew commuting generators only.

    Returns
    -------
    bool

    Notes
    -----
    Over the integers the question is whether a vector of them makes every plane turn by whole turns. In
    floating point "whole" means to rounding, and vectors are looked for up to 2^(39 / (n_axes + 1)) an
    axis, because beyond that some vector always comes as close as rounding.

    Two axes in a plane are proportional, so x and y are lost in x + c y for real positions; for integers x
    + y loses them and x + sqrt(2) y does not.

    Examples
    --------
    >>> import numpy as np
    >>> from pe.generators import is_injective, turn
    >>> is_injective([turn(1), turn(1)]), is_injective([turn(1), turn(2**0.5)])
    (False, False)
    >>> is_injective([turn(1), turn(1)], "integer"), is_injective([turn(1), turn(2**0.5)], "integer")
    (False, True)
    >>> is_injective([turn(2 * np.pi / 8)], "integer")
    False
    """
    if domain not in ("real", "integer"):
        raise ValueError(f'domain is {domain!r}; expected "real" or "integer"')
    if domain == "real":
        family = family_of(Bs)
        sizes = np.linalg.norm(family, axis=(1, 2))
        if not np.all(sizes):
            return False
        return int(np.linalg.matrix_rank((family / sizes[:, None, None]).reshape(len(family), -1))) == len(
            family
        )
    return not has_period(_commuting(Bs).freqs / (2 * np.pi))


def position_of(R, Bs) -> np.ndarray:
    """Read the position p off R = exp(p . B), where no two positions share an R.

    Every plane is a clock hand that wraps. The slowest are read first and tell the faster ones how often
    they have wrapped, as the hour hand does for the minute hand.

    Parameters
    ----------
    R : array_like, shape (n, n)
    Bs : array_like, shape (n_axes, n, n)
        Skew generators that commute and are independent.

    Returns
    -------
    ndarray of float64, shape (n_axes,)
        The position in the range where the slowest hand of each axis has not wrapped.

    Raises
    ------
    ValueError
        The axes are not independent, do not commute, are not skew, or no position gives R.

    Examples
    --------
    >>> from pe.generators import axial, position_of, transport
    >>> axes = axial(2)
    >>> position_of(transport(1.25 * axes[0] - 3 * axes[1], 1), axes).round(12)
    array([ 1.25, -3.  ])
    """
    joint = _commuting(Bs)
    if not is_injective(Bs):
        raise ValueError(f"Bs has {len(joint.freqs)} axes of rank {joint.rank}: the position is lost in R")
    matrix, _ = as_generator(R, "R")
    if matrix.shape != joint.basis.shape:
        raise ValueError(f"R has shape {matrix.shape}; expected {joint.basis.shape} like the generators")
    turned = joint.basis.T @ matrix @ joint.basis
    even, odd = np.arange(0, len(turned) - 1, 2), np.arange(1, len(turned), 2)
    angles = np.arctan2(turned[odd, even] - turned[even, odd], turned[even, even] + turned[odd, odd])
    slowest_first = np.argsort(np.linalg.norm(joint.freqs, axis=0), kind="stable")
    freqs, angles = joint.freqs.T[slowest_first], angles[slowest_first]
    position = np.zeros(len(joint.freqs))
    for count in range(len(angles)):
        angles[count] += 2 * np.pi * np.round((freqs[count] @ position - angles[count]) / (2 * np.pi))
        position = np.linalg.lstsq(freqs[: count + 1], angles[: count + 1], rcond=1e-12)[0]
    miss = float(np.linalg.norm(at_point(family_of(Bs), position) - matrix))
    if miss > 1e-6 * np.sqrt(len(matrix)):
        raise ValueError(
            f"no position found whose matrix is R: the nearest found, {position}, misses by {miss:.3g}"
        )
    return position


def _skew_family(Bs) -> np.ndarray:
    family = family_of(Bs)
    if not len(family):
        raise ValueError("Bs is empty; expected one generator for each axis")
    for a, B in enumerate(family):
        if np.linalg.norm(B + B.T) > ROUNDING * np.linalg.norm(B):
            raise ValueError(f"Bs[{a}] is not skew (B + B^T = 0 fails by {np.linalg.norm(B + B.T):.3g})")
    return (family - family.transpose(0, 2, 1)) / 2


def _commuting(Bs) -> JointSpectrum:
    joint = joint_spectrum(Bs)
    if joint.residual > ROUNDING:
        raise ValueError(f"Bs do not commute (commute(Bs) = {commute(Bs):.3g}); expected a commuting family")
    return joint


def _planes(family, weights) -> np.ndarray:
    """Orthogonal basis of the planes of one combination, what stands still at the end."""
    T, Z, _ = real_schur(np.tensordot(weights, family, axes=1))
    pairs = np.flatnonzero(T.diagonal(-1))
    turning = np.column_stack([pairs, pairs + 1]).ravel()
    return Z[:, np.concatenate([turning, np.setdiff1d(np.arange(len(T)), turning)])]


def _leftover(family, basis) -> tuple[np.ndarray, float]:
    """Frequencies of the family in this basis, and the largest relative size of what they leave."""
    inner = basis.T @ family @ basis
    even = np.arange(0, basis.shape[1] - 1, 2)
    freqs = (inner[:, even + 1, even] - inner[:, even, even + 1]) / 2
    inner[:, even + 1, even] -= freqs
    inner[:, even, even + 1] += freqs
    sizes = np.linalg.norm(family, axis=(1, 2))
    return freqs, float(np.max(np.linalg.norm(inner, axis=(1, 2)) / np.where(sizes, sizes, 1.0), initial=0.0))
