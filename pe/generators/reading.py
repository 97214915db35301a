"""One reading of a matrix at one tolerance: eigenvalues, Jordan sizes, and how far to trust each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from .jordan import (
    Spectrum,
    chains,
    invariant_subspaces,
    is_normal_schur,
    read_clusters,
    real_schur,
    spectrum,
)
from .names import kind_of

SMALL = 16
"""Up to this size boolean products find what is connected sooner than a graph search does."""


class Eigenvalue(NamedTuple):
    """One real eigenvalue, or one conjugate pair, of a reading.

    `mean` is what was computed, `value` what is reported: parts within `radius` of zero are zero. `spread` is
    how far a perturbation of the tolerance's size can tear the eigenvalues of its Jordan blocks apart,
    `coupling` the norm of what makes them Jordan blocks (inf if there is none).
    """

    mean: complex
    value: complex
    sizes: tuple[int, ...]
    radius: float
    spread: float
    coupling: float
    dropped: float
    members: frozenset[int]
    chains: tuple[np.ndarray, ...]

    @property
    def names(self) -> set[tuple[str, int]]:
        """The (kind, size) of its blocks."""
        return {(kind_of(-self.value.real, abs(self.value.imag), size), size) for size in self.sizes}


def components(X: np.ndarray) -> list[np.ndarray]:
    """Index sets of the blocks of X that no nonzero entry connects."""
    if len(X) <= SMALL:
        linked = (X != 0) | (X != 0).T | np.eye(len(X), dtype=bool)
        for _ in range(SMALL.bit_length() - 1):
            linked = linked @ linked
        first = np.argmax(linked, axis=1) if len(X) else np.zeros(0, dtype=int)
        return [np.flatnonzero(first == k) for k in np.unique(first)]
    count, label = connected_components(X != 0, directed=False)
    return [np.flatnonzero(label == k) for k in range(count)]


class Form:
    """A matrix in Schur form, ready to be read at several tolerances."""

    def __init__(self, X: np.ndarray, tolerance: float):
        self.X = X
        self.T, self.Z, self.eigenvalues = real_schur(X)
        self.spectrum: Spectrum | None = None
        self.jordan: dict[tuple[int, int, tuple[int, ...]], tuple[tuple[np.ndarray, ...], float, float]] = {}
        self.read_within(tolerance)

    def read_within(self, tolerance: float) -> None:
        """Decide anew, with this tolerance, whether X is normal."""
        self.normal, self.departure = is_normal_schur(self.T, tolerance)
        if not self.normal and self.spectrum is None:
            self.spectrum = spectrum(self.T, self.Z, self.eigenvalues)

    def refuse(self, tolerance: float) -> None:
        """Find the clusters that are not one eigenvalue within this tolerance, nor within smaller ones.

        The largest tolerance first, because then the others have little left to do.
        """
        if self.spectrum is not None:
            read_clusters(self.spectrum, tolerance)

    def read(self, tolerance: float, *, merging: float = 0.0, basis: bool = False) -> list[Eigenvalue]:
        """Eigenvalues and Jordan sizes within `tolerance` (absolute, on the norm of X); chains if asked for.

        `merging`, if larger, is the tolerance for taking several eigenvalues for one.
        """
        if self.normal or self.spectrum is None:
            return self._read_normal(tolerance)
        clusters = read_clusters(self.spectrum, max(tolerance, merging))
        found = []
        for cluster, (Q, gain) in zip(clusters, invariant_subspaces(self.spectrum, clusters), strict=True):
            mean = self.spectrum.mean(cluster)
            radius = tolerance * gain
            size = len(cluster.weyr)
            own: tuple[np.ndarray, ...] = ()
            spread, coupling = radius, np.inf
            if len(cluster.sizes) == 1 and size == 1:
                own = (_real_span(Q) if cluster.real else Q,) if basis else ()
            elif basis or size > 1:
                key = cluster.start, cluster.stop, cluster.weyr
                if key not in self.jordan:
                    self.jordan[key] = _jordan_basis(self.X, Q, mean, cluster)
                own, norm, last = self.jordan[key]
                if size > 1:
                    coupling = norm
                    broken = any(not np.any(chain[:, 0]) for chain in own)
                    spread = np.inf if broken else float((radius * last) ** (1 / size))
            found.append(
                Eigenvalue(
                    mean,
                    _snap(mean, radius),
                    cluster.sizes,
                    radius,
                    spread,
                    coupling,
                    cluster.dropped,
                    frozenset(range(cluster.start, cluster.stop)),
                    own,
                )
            )
        return found

    def _read_normal(self, tolerance):
        """Read a matrix that is never defective and whose eigenvalues move by no more than it does."""
        found = []
        for i, mean in enumerate(self.eigenvalues):
            if mean.imag < 0:
                continue
            if mean.imag > tolerance:
                plane = self.Z[:, i : i + 2]
                own, dropped = (plane @ _plane_vector(plane, self.X),), 0.0
            else:  # one real eigenvalue, or a pair that is two real ones within the tolerance
                columns = range(i, i + 2) if mean.imag else range(i, i + 1)
                own, dropped = tuple(self.Z[:, j : j + 1] for j in columns), float(mean.imag)
                mean = mean.real
            found.append(
                Eigenvalue(
                    complex(mean),
                    _snap(mean, tolerance),
                    (1,) * len(own),
                    tolerance,
                    tolerance,
                    np.inf,
                    dropped,
                    frozenset([i]),
                    own,
                )
            )
        return found


def _jordan_basis(X, Q, mean, cluster):
    """Chains of a cluster, and the norms of what makes them chains and of its last power that is not 0."""
    if cluster.real:
        Q, mean = _real_span(Q), mean.real
    N = Q.conj().T @ X @ Q - mean * np.eye(Q.shape[1])
    last = np.linalg.norm(np.linalg.matrix_power(N, len(cluster.weyr) - 1), 2)
    return tuple(Q @ chain for chain in chains(N, cluster.weyr)), float(np.linalg.norm(N, 2)), float(last)


def _snap(mean: complex, radius: float) -> complex:
    real = 0.0 if abs(mean.real) <= radius else mean.real
    imag = 0.0 if abs(mean.imag) <= radius else abs(mean.imag)
    return complex(real, imag)


def _real_span(Q):
    """Real orthonormal basis of a subspace that is its own conjugate."""
    return np.linalg.svd(np.hstack([Q.real, Q.imag]), full_matrices=False)[0][:, : Q.shape[1]]


def _plane_vector(plane, X):
    """Eigenvector, on an orthonormal plane, of a block [[a, -b], [b, a]]: for the eigenvalue a + i |b|."""
    turn = plane[:, 1] @ X @ plane[:, 0] - plane[:, 0] @ X @ plane[:, 1]
    return np.array([[1.0], [-1j if turn > 0 else 1j]]) / np.sqrt(2)
