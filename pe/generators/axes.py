"""Several axes: R_p = exp(p_1 B_1 + ... + p_k B_k), one generator for each coordinate of a position.

The question is what two coordinates need: that the product of two positions depends on their
difference (relativity), and that the position can be read back (invertibility). Relativity holds if every B
is skew and they commute; for real positions commuting is necessary as well, since the terms of second order
in x and y differ by the commutator.
"""

from __future__ import annotations

import numpy as np

from ._matrix import as_generator, as_generators
from .exact import as_fractions, null_space
from .transport import transport

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])

ROUNDING = 1e-9
"""Relative difference up to which a family counts as skew, as commuting, and a matrix as a member of it."""


def axial(n_axes: int, theta=1.0) -> np.ndarray:
    """Planes of its own for every axis: the block form, in any number of dimensions.

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
    >>> import numpy as np
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
    >>> import numpy as np
    >>> from pe.generators import quaternion_matrix
    >>> _, i, j, k = quaternion_matrix(np.eye(4, dtype=int))
    >>> (i @ j == k).all(), (j @ i == -k).all()
    (np.True_, np.True_)

    References
    ----------
    Transformer Upgrade Path 4, section "A Brief Introduction to Quaternions".
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
    >>> import numpy as np
    >>> from pe.generators import axial, commute, quaternion_matrix
    >>> commute(axial(2)), commute(quaternion_matrix(np.eye(4)[1:3]))
    (0.0, 1.0)
    """
    family = family_of(Bs)
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
        "transpose" is relativity as rotations have it and needs skew generators; "inverse" takes R_p^-1
        for R_p^T and needs only that they commute. They differ for a slide, whose keys go through the
        inverse.
    at : array_like, shape (..., 2, n_axes), optional
        Pairs of points (p, q). Default: 16 pairs scattered over the range where R turns by about 1.

    Returns
    -------
    float

    Examples
    --------
    The quaternion route e^(xi + yj) fails:

    >>> import numpy as np
    >>> from pe.generators import axial, quaternion_matrix, relativity_residual
    >>> i_and_j = quaternion_matrix(np.eye(4)[1:3])
    >>> round(relativity_residual(i_and_j, at=[(0.3, 0.7), (1.1, -0.4)]), 3)
    1.438
    >>> round(relativity_residual(i_and_j, at=[(1, 2), (3, 5)]), 4)
    0.1618

    References
    ----------
    Transformer Upgrade Path 4, sections "Line of Reasoning" and "Violating Relativity".
    """
    family = family_of(Bs)
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
        back = at_point(family, p).T if form == "transpose" else at_point(family, -p)
        worst = max(worst, float(np.linalg.norm(back @ at_point(family, q) - at_point(family, q - p))))
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
    Transformer Upgrade Path 4, section "RoPE Emerges", whose two solves these are.
    """
    if method not in ("auto", "exact"):
        raise ValueError(f'method is {method!r}; expected "auto" or "exact"')
    exact = method == "exact"
    first = _exact_matrix(B, "B") if exact else as_generator(B, "B")[0]
    n = len(first)
    if within is None:
        span = _skew_basis(n).astype(object) if exact else _skew_basis(n) / np.sqrt(2)
    else:
        span = as_fractions(within, "within") if exact else family_of(within, "within")
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


def family_of(Bs, name: str = "Bs") -> np.ndarray:
    """Return one float64 matrix for each axis, checked."""
    matrices, _ = as_generators(Bs, name)
    if matrices.ndim != 3:
        raise ValueError(
            f"{name} has shape {matrices.shape}; expected one matrix for each axis, (n_axes, n, n)"
            + (": for one axis [B]" if matrices.ndim == 2 else "")
        )
    return matrices


def _exact_matrix(B, name: str) -> np.ndarray:
    as_generator(B, name)
    return as_fractions(B, name)


def at_point(family, p) -> np.ndarray:
    """R_p = exp(p . B)."""
    return transport(np.tensordot(p, family, axes=1), 1.0)


def _skew_basis(n: int) -> np.ndarray:
    rows, columns = np.triu_indices(n, 1)
    basis = np.zeros((len(rows), n, n), dtype=np.int64)
    basis[np.arange(len(rows)), columns, rows] = 1
    basis[np.arange(len(rows)), rows, columns] = -1
    return basis
