"""The Jordan structure of a real matrix in floating point, without an epsilon on eigenvalues.

A double eigenvalue of a rounded matrix comes back split by the square root of the rounding, a triple one by
its cube root; but the mean of such a cluster stays right, and so do the ranks of the powers of X - mean. So:

1. one real Schur form, made triangular by 2 x 2 unitary steps, so that eigenvalues are exact conjugates;
2. the single-linkage tree of the eigenvalues, whose leaves LAPACK trexc (the swap that trsen repeats) puts
   side by side, so that every cluster of the tree is a diagonal block;
3. from the largest cluster down: subtract the mean, and deflate null vectors (the staircase). If it ends in a
   nilpotent staircase after dropping singular values of total size at most the tolerance, the cluster is one
   eigenvalue, and the matrix X + E has exactly that structure with ||E|| = what was dropped. A cluster that
   is refused at a tolerance is not tried again at smaller ones, so the largest comes first.

Working on diagonal blocks of one Schur form is enough: blocks with disjoint spectra decouple by a similarity
that leaves them as they are, and all the E are found in one and the same basis, so they add up.

References
----------
Kagstrom and Ruhe, An algorithm for numerical computation of the Jordan normal form (ACM TOMS 6, 1980).
Zeng and Li, A numerical method for computing the Jordan canonical form (arXiv:2103.02086): of all structures
within the tolerance take the most degenerate one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.linalg import lapack, schur
from scipy.spatial.distance import pdist

SLACK = 2.0
"""Room for rounding in a bound that would hold without it."""


class Node(NamedTuple):
    """A cluster of the eigenvalue tree: positions start..stop-1 of the ordered Schur form."""

    start: int
    stop: int
    children: tuple[Node, ...]


class Values(NamedTuple):
    """Singular values, falling, of T - mean on positions start..stop-1."""

    start: int
    stop: int
    mean: complex
    sigma: np.ndarray

    def dropped_within(self, node: Node, mean: complex, tolerance: float) -> float:
        """Lower bound on the size of the singular values <= tolerance of T - mean on a part of the positions.

        Without d rows and d columns the i-th value is between the old i-th and (i + 2d)-th (Cauchy's
        interlacing), and another mean moves it by no more than the means differ (Weyl).
        """
        kept = node.stop - node.start
        gap, moved = len(self.sigma) - kept, abs(mean - self.mean)
        small = int(np.count_nonzero(self.sigma[:kept] + moved <= tolerance))
        return float(np.linalg.norm(np.maximum(self.sigma[kept - small + 2 * gap :] - moved, 0.0)))


class Cluster(NamedTuple):
    """Positions start..stop-1 read as one eigenvalue; weyr[j] null vectors at step j of the staircase."""

    start: int
    stop: int
    weyr: tuple[int, ...]
    dropped: float
    real: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Jordan block sizes (the Segre characteristic), the conjugate partition of `weyr`."""
        return tuple(sum(1 for k in self.weyr if k > i) for i in range(self.weyr[0])) if self.weyr else ()


class Staircase(NamedTuple):
    """Weyr characteristic of a nilpotent matrix, how far it is, and the largest singular value dropped."""

    weyr: tuple[int, ...]
    dropped: float
    largest: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Ordered complex Schur form X = Z T Z^H of a real X, its eigenvalues in conjugates, and their tree.

    Three things are remembered, for a matrix is read at several tolerances: up to which one a cluster was
    found not to be one eigenvalue, from and up to which one its staircase is the same, and the columns that
    decouple it from what stands before it.
    """

    T: np.ndarray
    Z: np.ndarray
    eigenvalues: np.ndarray
    mirror: np.ndarray
    tree: Node
    refused: dict[tuple[int, int], float] = field(default_factory=dict)
    accepted: dict[tuple[int, int], tuple[float, float, Staircase]] = field(default_factory=dict)
    columns: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def is_real(self, node: Node | Cluster) -> bool:
        """Whether the cluster is its own complex conjugate."""
        return node.start <= self.mirror[node.start] < node.stop

    def mirrored(self, cluster: Cluster) -> Cluster:
        """Return the cluster of the conjugate eigenvalues."""
        positions = self.mirror[cluster.start : cluster.stop]
        return cluster._replace(start=int(positions.min()), stop=int(positions.max()) + 1)

    def mean(self, node: Node | Cluster) -> complex:
        """Mean eigenvalue of a cluster: accurate where the single eigenvalues are not."""
        mu = complex(np.mean(self.T.diagonal()[node.start : node.stop]))
        return complex(mu.real) if self.is_real(node) else mu


def real_schur(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Real Schur form (T, Z) and the eigenvalues in diagonal order, +theta before -theta."""
    T, Z = schur(X, output="real")
    return T, Z, _standard_eigenvalues(T)


def _standard_eigenvalues(T: np.ndarray) -> np.ndarray:
    eigenvalues = T.diagonal().astype(complex)
    for i in np.flatnonzero(T.diagonal(-1)):
        b, c = abs(T[i, i + 1]), abs(T[i + 1, i])
        theta = b if b == c else np.sqrt(b) * np.sqrt(c)
        eigenvalues[i] += 1j * theta
        eigenvalues[i + 1] -= 1j * theta
    return eigenvalues


def is_normal_schur(T: np.ndarray, tolerance: float) -> tuple[bool, float]:
    """Whether X + E is normal for some ||E|| <= tolerance, read off a real Schur form; and that ||E||."""
    departure = np.triu(T, 1)
    pairs = np.flatnonzero(T.diagonal(-1))
    departure[pairs, pairs + 1] += T[pairs + 1, pairs]
    size = float(np.linalg.norm(departure))
    return size <= tolerance, size


def spectrum(T: np.ndarray, Z: np.ndarray, eigenvalues: np.ndarray, order=None) -> Spectrum:
    """Order a real Schur form by the tree of its eigenvalues, or as told (then the tree is one leaf)."""
    T, Z = _triangular(T, Z, eigenvalues)
    order, tree = _tree(eigenvalues) if order is None else (order, Node(0, len(T), ()))
    T, Z = _reorder(T, Z, order)
    return Spectrum(T, Z, eigenvalues[order], _mirror(eigenvalues[order]), tree)


def _triangular(T, Z, eigenvalues):
    G = np.eye(len(T), dtype=complex)
    for i in np.flatnonzero(T.diagonal(-1)):
        v = np.array([T[i, i + 1], eigenvalues[i] - T[i, i]])
        v /= np.linalg.norm(v)
        G[i : i + 2, i : i + 2] = np.array([[v[0], -np.conj(v[1])], [v[1], np.conj(v[0])]])
    return np.triu(G.conj().T @ T @ G), Z @ G


def _mirror(eigenvalues):
    """Position of each eigenvalue's conjugate; equal conjugates are matched in order of appearance."""
    mirror = np.arange(len(eigenvalues))
    waiting: dict[complex, list[int]] = {}
    for i, value in enumerate(eigenvalues):
        if value.imag > 0:
            waiting.setdefault(complex(value), []).append(i)
    for i, value in enumerate(eigenvalues):
        if value.imag < 0:
            j = waiting[complex(value.conjugate())].pop(0)
            mirror[i], mirror[j] = j, i
    return mirror


def _tree(eigenvalues):
    """Single-linkage tree; merges of equal height are one node, so that it is symmetric under conjugation."""
    n = len(eigenvalues)
    if n == 1:
        return np.zeros(1, dtype=int), Node(0, 1, ())
    merges = linkage(pdist(np.column_stack([eigenvalues.real, eigenvalues.imag])), "single")
    members = [[i] for i in range(n)]
    children: list[list[int]] = [[] for _ in range(n)]
    heights = [-1.0] * n
    for left, right, height, _ in merges:
        parts = sorted((int(left), int(right)), key=lambda k: min(members[k]))
        members.append(members[parts[0]] + members[parts[1]])
        children.append([c for k in parts for c in (children[k] if heights[k] == height else [k])])
        heights.append(height)
    start_of = {leaf: position for position, leaf in enumerate(members[-1])}
    nodes: list[Node] = []
    for k in range(len(members)):
        start = start_of[members[k][0]]
        nodes.append(Node(start, start + len(members[k]), tuple(nodes[c] for c in children[k])))
    return np.array(members[-1]), nodes[-1]


def _reorder(T, Z, order):
    T, Z = np.asfortranarray(T), np.asfortranarray(Z)
    current = list(range(len(order)))
    for position, wanted in enumerate(order):
        found = current.index(wanted, position)
        if found != position:
            T, Z, _ = lapack.ztrexc(T, Z, found + 1, position + 1, overwrite_a=True, overwrite_q=True)
            current.insert(position, current.pop(found))
    return T, Z


def read_clusters(spec: Spectrum, tolerance: float) -> list[Cluster]:
    """Read the tree from the root: the largest clusters that are one eigenvalue within the tolerance.

    Only clusters that are real or lie in the upper half plane are returned; the others are their mirror
    images.
    """
    found: list[Cluster] = []
    waiting: list[tuple[Node, Values | None]] = [(spec.tree, None)]
    while waiting:
        node, around = waiting.pop()
        real = spec.is_real(node)
        if not real and spec.eigenvalues[node.start].imag < 0:
            continue
        if not node.children:
            found.append(Cluster(node.start, node.stop, (1,), 0.0, real))
            continue
        steps, around = _steps(spec, node, tolerance, around)
        if steps is None:
            waiting.extend((child, around) for child in node.children)
        else:
            found.append(Cluster(node.start, node.stop, steps.weyr, steps.dropped, real))
    return found


def _steps(spec: Spectrum, node: Node, tolerance: float, around: Values | None):
    """Staircase of a cluster, or None, and the nearest singular values known: its own or those around it."""
    place = node.start, node.stop
    if tolerance <= spec.refused.get(place, -1.0):
        return None, around
    least, most, steps = spec.accepted.get(place, (np.inf, 0.0, None))
    if least <= tolerance <= most:
        return steps, around
    mean, steps = spec.mean(node), None
    if around is None or around.dropped_within(node, mean, tolerance) <= tolerance:
        block = spec.T[node.start : node.stop, node.start : node.stop]
        N = block - mean * np.eye(len(block))
        if not _surely_regular(N, tolerance) and not _surely_not_nilpotent(N, tolerance):
            around = Values(*place, mean, np.linalg.svd(N, compute_uv=False))
            if around.dropped_within(node, mean, tolerance) <= tolerance:
                steps = staircase(N, tolerance)
    if steps is None:
        spec.refused[place] = tolerance
    else:
        spec.accepted[place] = max(steps.largest, steps.dropped), tolerance, steps
    return steps, around


def staircase(N: np.ndarray, tolerance: float) -> Staircase | None:
    """Deflate null vectors within `tolerance` from a matrix that may be nilpotent within it.

    None when there is no such matrix: when at some step no singular value is small enough to be dropped.
    """
    weyr: list[int] = []
    dropped = largest = 0.0
    while len(N):
        if weyr and _surely_not_nilpotent(N, tolerance):
            return None
        _, sigma, Vh = np.linalg.svd(N)
        small = sigma <= tolerance
        nullity = int(np.count_nonzero(small))
        if nullity == 0 or (weyr and nullity > weyr[-1]):
            return None
        dropped = float(np.hypot(dropped, np.linalg.norm(sigma[small])))
        if dropped > tolerance:
            return None
        largest = max(largest, float(sigma[small][0]))
        weyr.append(nullity)
        V = Vh[: len(N) - nullity].conj().T
        N = V.conj().T @ N @ V
    return Staircase(tuple(weyr), dropped, largest)


def _surely_not_nilpotent(N, tolerance):
    """|tr N^k| > k tolerance (||N||_F + tolerance)^(k - 1) for some k: N + E nilpotent has tr (N + E)^k = 0.

    The eigenvalues of a torn Jordan block lie on a circle, where sums of their powers cancel; those of a
    cluster that is not one do not. Without this test each level of the tree would cost as many SVDs as there
    are steps until its staircase ends.
    """
    size = float(np.linalg.norm(N))

    def remains(trace, k):
        return abs(trace) > SLACK * k * tolerance * (size + tolerance) ** (k - 1)

    if remains(np.sum(N * N.T), 2):
        return True
    square = N @ N
    return remains(np.sum(square * N.T), 3) or remains(np.sum(square * square.T), 4)


def _surely_regular(N, tolerance):
    """sigma_min(N) >= 1 / ||N^-1||_F > tolerance, by one triangular inverse instead of an SVD."""
    inverse, info = lapack.ztrtri(N)
    if info:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return np.linalg.norm(inverse) * tolerance < 1.0


def invariant_subspaces(spec: Spectrum, clusters: list[Cluster]) -> list[tuple[np.ndarray, float]]:
    """For each cluster a basis (n, m) of its invariant subspace, and the norm of its spectral projector.

    That norm says how much an error in X moves the mean eigenvalue: |d mu| <= ||P|| ||dX||. It is 1 for a
    normal matrix and may reach the condition number of the basis.
    """
    n = len(spec.T)
    Y = np.eye(n, dtype=complex)
    blocks = sorted({(c.start, c.stop) for own in clusters for c in (own, spec.mirrored(own))})
    for start, stop in blocks[1:]:
        if (start, stop) not in spec.columns:
            x, scale, _ = lapack.ztrsyl(
                spec.T[:start, :start], spec.T[start:stop, start:stop], -spec.T[:start, start:stop], isgn=-1
            )
            # Where eigenvalues are all but equal, any norm beyond use will do.
            x *= min(1 / max(scale, 1e-300), 1e100 / max(np.max(np.abs(x)), 1e-200))
            spec.columns[start, stop] = x
        Y[:start, start:stop] = spec.columns[start, stop]
    R = spec.Z @ Y
    L = lapack.ztrtri(Y, unitdiag=1)[0] @ spec.Z.conj().T
    spaces = []
    for c in clusters:
        Q, S = np.linalg.qr(R[:, c.start : c.stop])
        projector = S @ L[c.start : c.stop]
        norm = float(np.linalg.norm(projector, 2)) if np.all(np.isfinite(projector)) else np.inf
        spaces.append((Q, max(1.0, norm)))
    return spaces


def chains(N: np.ndarray, weyr: tuple[int, ...]) -> list[np.ndarray]:
    """Jordan chains of N, forced to be nilpotent with the given Weyr characteristic.

    Returns one array (m, size) per block, largest first, with N @ chain[:, j] = chain[:, j - 1].
    """
    m = len(N)
    W, B, offsets, start = np.eye(m, dtype=N.dtype), np.array(N), [], 0
    for nullity in weyr:
        _, _, Vh = np.linalg.svd(B[start:, start:])
        V = Vh[::-1].conj().T  # null vectors first
        W[:, start:] = W[:, start:] @ V
        B[:, start:] = B[:, start:] @ V
        B[start:, :] = V.conj().T @ B[start:, :]
        B[start:, start : start + nullity] = 0
        offsets.append(start)
        start += nullity
    growing: list[list[np.ndarray]] = []
    for grade in range(len(weyr) - 1, -1, -1):
        rows = slice(offsets[grade], offsets[grade] + weyr[grade])
        for chain in growing:
            chain.append(B @ chain[-1])
        heads = np.eye(weyr[grade], dtype=N.dtype)
        if growing:
            carried = np.array([chain[-1][rows] for chain in growing]).T
            heads = np.linalg.qr(carried, mode="complete")[0][:, len(growing) :]
        for j in range(heads.shape[1]):
            head = np.zeros(m, dtype=N.dtype)
            head[rows] = heads[:, j]
            growing.append([head])
    return [W @ np.array(chain[::-1]).T for chain in growing]
