"""Several axes: R_p = exp(p_1 B_1 + ... + p_k B_k), one generator for each coordinate of a position.

Source document 2 asks what two coordinates need: that the product of two positions depends on their
difference (relativity), and that the position can be read back (invertibility). Relativity holds if every B
is skew and they commute; for real positions commuting is necessary as well, since the terms of second order
in x and y differ by the commutator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._matrix import as_generator, as_generators
from .exact import as_fractions, null_space
from .jordan import real_schur
from .lattice import has_period
from .transport import transport

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])

ROUNDING = 1e-9
"""Relative difference up to which a family counts as skew, as commuting, and a matrix as a member of it."""


def axial(n_axes: int, theta=1.0) -> np.ndarray:
    """Planes of its own for every axis: the block form of source document 2, in any number of dimensions.

    Parameters
    ----------
    n_axes : int
        Number of coordinates of a position.
    theta : float or array_like, shape (L,), default 1.0
        Angular frequencies of the L planes that each axis turns.

    Returns
    -------
    ndarray, shape (n_axes, n, n), n = 2 L n_axes
        exp(sum_a p_a B_a) is the block matrix R_p that the source prints for two axes.

    Examples
    --------
    >>> from pe.generators import axial, relativity_residual
    >>> x_axis, y_axis = axial(2)
    >>> y_axis.astype(int).tolist()
    [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]
    >>> bool(relativity_residual(axial(4)) < 1e-14)
    True
    """
    if isinstance(n_axes, bool) or not isinstance(n_axes, (int, np.integer)):
        raise TypeError(f"n_axes is {n_axes!r}; expected an integer")
    if n_axes < 1:
        raise ValueError(f"n_axes is {n_axes}; expected at least 1")
    frequencies = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    if frequencies.ndim != 1 or not np.all(np.isfinite(frequencies)):
        raise ValueError(f"theta is {theta!r}; expected one finite number or a list of them")
    planes = np.kron(np.diag(frequencies), TURN)
    return np.array([np.kron(np.diag(row), planes) for row in np.eye(n_axes)]) + 0.0


def complex_matrix(z) -> np.ndarray:
    """Map a + bi to [[a, -b], [b, a]]: sums and products of complex numbers become those of matrices.

    Parameters
    ----------
    z : array_like of complex, any shape

    Returns
    -------
    ndarray of float64, shape z.shape + (2, 2)

    Examples
    --------
    >>> from pe.generators import complex_matrix
    >>> (complex_matrix(1 + 2j) @ complex_matrix(3 - 1j) == complex_matrix((1 + 2j) * (3 - 1j))).all()
    np.True_
    """
    z = np.asarray(z)
    if z.dtype.kind not in "iufc":
        raise TypeError(f"z has dtype {z.dtype}; expected complex numbers")
    z = z.astype(np.complex128)
    return np.stack([z.real, -z.imag, z.imag, z.real], axis=-1).reshape(*z.shape, 2, 2) + 0.0


def quaternion_matrix(q) -> np.ndarray:
    """Map a + bi + cj + dk to the matrix that multiplies by it from the left.

    The inner product carries over, <q, k> = Re(q k*), and so do e^q and this map; what fails for two axes is
    e^p e^q = e^(p+q), because i and j do not commute.

    Parameters
    ----------
    q : array_like of real numbers, shape (..., 4)
        Coordinates (a, b, c, d).

    Returns
    -------
    ndarray, shape (..., 4, 4), of the dtype of q

    Examples
    --------
    >>> from pe.generators import quaternion_matrix
    >>> _, i, j, k = quaternion_matrix(np.eye(4, dtype=int))
    >>> (i @ j == k).all(), (j @ i == -k).all()
    (np.True_, np.True_)

    References
    ----------
    Source document 2 (Transformer Upgrade Path 4), section "A Brief Introduction to Quaternions".
    """
    q = np.asarray(q)
    if q.dtype.kind not in "iufO":
        raise TypeError(f"q has dtype {q.dtype}; expected real numbers")
    if q.ndim == 0 or q.shape[-1] != 4:
        raise ValueError(f"q has shape {q.shape}; expected (..., 4): the coordinates of 1, i, j, k")
    a, b, c, d = np.moveaxis(q, -1, 0)
    rows = [a, -b, -c, -d, b, a, -d, c, c, d, a, -b, d, -c, b, a]
    return np.stack(rows, axis=-1).reshape(*q.shape[:-1], 4, 4)


def commute(Bs) -> float:
    """Largest ||AB - BA|| / (||A|| ||B||) over all pairs (Frobenius norms); 0 means that they commute.

    Parameters
    ----------
    Bs : array_like, shape (n_axes, n, n)
        One generator for each axis.

    Returns
    -------
    float

    Examples
    --------
    >>> from pe.generators import axial, commute, quaternion_matrix
    >>> commute(axial(2)), commute(quaternion_matrix(np.eye(4)[1:3]))
    (0.0, 1.0)
    """
    family = _family(Bs)
    worst = 0.0
    for i, A in enumerate(family):
        for B in family[:i]:
            size = np.linalg.norm(A) * np.linalg.norm(B)
            if size:
                worst = max(worst, float(np.linalg.norm(A @ B - B @ A) / size))
    return worst


def relativity_residual(Bs, *, form: str = "transpose", at=None) -> float:
    """How far R_p^T R_q is from R_(q - p), R_p = exp(p . B): Frobenius norm, at worst over pairs of points.

    Parameters
    ----------
    Bs : array_like, shape (n_axes, n, n)
        One generator for each axis.
    form : {"transpose", "inverse"}, default "transpose"
        "transpose" is the relativity of source document 2 and needs skew generators; "inverse" takes R_p^-1 for
        R_p^T and needs only that they commute. They differ for a slide, whose keys go through the inverse.
    at : array_like, shape (..., 2, n_axes), optional
        Pairs of points (p, q). Default: 16 pairs scattered over the range where R turns by about 1.

    Returns
    -------
    float

    Examples
    --------
    The quaternion route e^(xi + yj) of source document 2 fails:

    >>> from pe.generators import axial, quaternion_matrix, relativity_residual
    >>> i_and_j = quaternion_matrix(np.eye(4)[1:3])
    >>> round(relativity_residual(i_and_j, at=[(0.3, 0.7), (1.1, -0.4)]), 3)
    1.438
    >>> round(relativity_residual(i_and_j, at=[(1, 2), (3, 5)]), 4)
    0.1618

    References
    ----------
    Source document 2 (Transformer Upgrade Path 4), sections "Line of Reasoning" and "Violating Relativity".
    """
    family = _family(Bs)
    if form not in ("transpose", "inverse"):
        raise ValueError(f'form is {form!r}; expected "transpose" or "inverse"')
    if at is None:
        size = max((np.linalg.norm(B, 2) for B in family), default=0.0) or 1.0
        points = np.random.default_rng(0).uniform(-2, 2, (16, 2, len(family))) / size
    else:
        points = np.asarray(at, dtype=np.float64)
        if points.ndim < 2 or points.shape[-2:] != (2, len(family)):
            raise ValueError(
                f"at has shape {points.shape}; expected pairs of points, (..., 2, {len(family)})"
            )
        if not np.all(np.isfinite(points)):
            raise ValueError("at has NaN or infinite entries; expected finite positions")
    worst = 0.0
    for p, q in points.reshape(-1, 2, len(family)):
        back = _at(family, p).T if form == "transpose" else _at(family, -p)
        worst = max(worst, float(np.linalg.norm(back @ _at(family, q) - _at(family, q - p))))
    return worst


def commutant(B, *, within=None, method: str = "auto") -> np.ndarray:
    """All skew matrices that commute with B, as a basis: the choices for a second axis beside B.

    Parameters
    ----------
    B : array_like, shape (n, n)
        The first axis.
    within : array_like, shape (m, n, n), optional
        Look only among the combinations of these matrices. Default: all skew ones.
    method : {"auto", "exact"}, default "auto"
        "exact" solves in rational numbers: for integers, Fractions, and floats as the fractions they are.

    Returns
    -------
    ndarray, shape (dimension, n, n)
        float64, orthonormal in the Frobenius product if `within` is not given; or Fractions, one free
        coefficient equal to 1 in each.

    Examples
    --------
    Three dimensions leave nothing beside B but its multiples, four leave room for a second axis:

    >>> from pe.generators import axial, commutant
    >>> len(commutant([[0, -1, 0], [1, 0, 0], [0, 0, 0]])), len(commutant(axial(2)[0]))
    (1, 2)

    References
    ----------
    Source document 2 (Transformer Upgrade Path 4), section "RoPE Emerges", whose two solves these are.
    """
    if method not in ("auto", "exact"):
        raise ValueError(f'method is {method!r}; expected "auto" or "exact"')
    exact = method == "exact"
    first = _exact_matrix(B, "B") if exact else as_generator(B, "B")[0]
    n = len(first)
    if within is None:
        span = _skew_basis(n).astype(object) if exact else _skew_basis(n) / np.sqrt(2)
    else:
        span = as_fractions(within, "within") if exact else _family(within, "within")
        if span.shape[1:] != (n, n):
            raise ValueError(f"within has shape {span.shape}; expected (m, {n}, {n}) like B")
    if not len(span):
        return span
    conditions = np.array([(first @ S - S @ first).ravel() for S in span]).T
    if exact:
        kept = null_space(conditions)
    else:
        _, sigma, Vh = np.linalg.svd(conditions, full_matrices=len(conditions) < len(span))
        small = 10 * n * np.finfo(float).eps * max(np.linalg.norm(first, 2), np.max(sigma, initial=0.0))
        kept = Vh[np.count_nonzero(sigma > small) :]
    return np.array([np.tensordot(c, span, axes=1) for c in kept]).reshape(len(kept), n, n)


@dataclass(frozen=True, eq=False)
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

    def __str__(self) -> str:
        lines = [f"{self.freqs.shape[1]} planes, {len(self.freqs)} axes, rank {self.rank}"]
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
    basis. k independent axes need n >= 2k: that is why source document 2 finds nothing in 3 x 3 and a
    solution in 4 x 4.

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
        "real": positions that are close together are told apart, that is, the generators are linearly independent;
        whole periods further on, turns of real positions always come round again, which this does not count.
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
        family = _family(Bs)
        sizes = np.linalg.norm(family, axis=(1, 2))
        if not np.all(sizes):
            return False
        return int(np.linalg.matrix_rank((family / sizes[:, None, None]).reshape(len(family), -1))) == len(
            family
        )
    return not has_period(_commuting(Bs).freqs / (2 * np.pi))


def position_of(R, Bs) -> np.ndarray:
    """Read the position p off R = exp(p . B): the invertibility of source document 2.

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
    miss = float(np.linalg.norm(_at(_family(Bs), position) - matrix))
    if miss > 1e-6 * np.sqrt(len(matrix)):
        raise ValueError(
            f"no position found whose matrix is R: the nearest found, {position}, misses by {miss:.3g}"
        )
    return position


def _family(Bs, name: str = "Bs") -> np.ndarray:
    matrices, _ = as_generators(Bs, name)
    if matrices.ndim != 3:
        raise ValueError(
            f"{name} has shape {matrices.shape}; expected one matrix for each axis, (n_axes, n, n)"
        )
    return matrices


def _exact_matrix(B, name: str) -> np.ndarray:
    as_generator(B, name)
    return as_fractions(B, name)


def _skew_family(Bs) -> np.ndarray:
    family = _family(Bs)
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


def _at(family, p) -> np.ndarray:
    return transport(np.tensordot(p, family, axes=1), 1.0)


def _skew_basis(n: int) -> np.ndarray:
    rows, columns = np.triu_indices(n, 1)
    basis = np.zeros((len(rows), n, n), dtype=np.int64)
    basis[np.arange(len(rows)), columns, rows] = 1
    basis[np.arange(len(rows)), rows, columns] = -1
    return basis


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
