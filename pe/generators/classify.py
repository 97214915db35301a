"""classify: from a matrix to the names of what it does."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.linalg import matrix_balance

from ._matrix import as_generators
from .classification import Block, Classification
from .deferred import Deferred
from .exact import as_fractions, is_rational
from .names import kind_of
from .rational import exact_roots, float_chains
from .reading import Eigenvalue, Form, components

MARGIN = 10.0
"""A name is certain only if it also comes out at MARGIN times the tolerance, ...

These numbers were chosen on random constructions in bases of condition 1 to 1e12: at 1e3, 99.5 % of the names
were right and certain, and up to 1e5 no wrong name was certain."""

NEGLIGIBLE = 0.2
"""... and if what was neglected for it is below this part of the tolerance, ..."""

STRUCTURE = 1000.0
"""... and if no more eigenvalues merge at STRUCTURE times the tolerance."""

WIDENINGS = (1, 10, 100, 1000)
"""A matrix in a basis of condition kappa carries kappa roundings: if the default tolerance gives no certain
answer, wider ones are tried in turn."""

WIDEST = 1e5
"""The widest of them, in roundings: condition 1000, with room for sums of a hundred terms."""

READABLE = 1e-5
"""A zero is readable if the uncertainty of the eigenvalue is below this part of the fastest rate present; a
nearly double real eigenvalue, if what makes it turn or slide is not below this part of it."""

TORN = 0.2
"""A Jordan block is readable if rounding tears its eigenvalue apart by less than this part of it."""

SMALL = 32
"""Up to this size arrays of Fractions are answered exactly without being asked; the cost grows as n^4."""

BASIS = 1e6
"""A slide is told from a turn by its norm / BASIS in a basis of this condition, or it is not certain. In
float32 they are the same matrix."""

EFFECT = 1e-6
"""A rate is visible over a horizon if it changes A(u) by this much."""

UNBALANCED = 1e-5
"""A diagonal scaling that shrinks the norm by this factor makes a normwise tolerance meaningless."""


def classify(X, *, rtol: float | None = None, horizon: float | None = None, method: str = "auto"):
    """Name what exp(uX) does: explode, nothing, fade, turn, turn+fade, slide, and their Jordan mixtures.

    Every linear, relative, continuous positional encoding carries a key forward over a gap u by A(u) =
    exp(uX) for one real matrix X, its generator, and a fixed change of basis of X does not count. What
    survives a change of basis is the Jordan structure: eigenvalues *and* block sizes (eigenvalues alone do
    not tell: 0 and [[0, 1], [0, 0]] share theirs, and one does nothing, the other slides). "The weights
    absorb it" means q' = P^T q and k' = P^-1 k, which normalised or tied queries and keys cannot do.

    Parameters
    ----------
    X : array_like, shape (..., n, n)
        Real and finite; never modified. A stack gives an object array of answers with the stack's shape, each
        worked out when it is first looked at.
    rtol : float, optional
        Relative backward error on the spectral norm of X. The answer is the most degenerate structure that
        some X + E with ||E|| <= rtol ||X|| has exactly. Default 10 n eps of the dtype X came in; if that
        gives no certain answer, up to 1000 times as much is tried, since a basis of condition kappa costs
        kappa roundings. `Classification.rtol` says which was used.
    horizon : float, optional
        A span of positions; matrices closer than 1e-6 / horizon are then one and the same, so that rates
        without a visible effect over the span are "nothing". A relative tolerance cannot see scale:
        [[1e-16]] explodes, unless the horizon says that nobody will see it.
    method : {"auto", "exact"}, default "auto"
        "exact" takes every entry as the rational number that it is - integers, Fractions, rationals of SymPy,
        and floats too, which truthfully makes [[-1, 1e-20], [0, -1]] a fading slide - and decides without
        rounding. It takes no tolerance. "auto" does so for arrays of Fractions, if no tolerance is given
        and n <= 32.

    Returns
    -------
    Classification

    Raises
    ------
    ValueError
        X is not square, not finite, rtol is not between 0 and 1, horizon is not positive and finite, or
        method is unknown.
    TypeError
        X is not real numbers (for "exact": not rational ones), or "exact" is given a tolerance.

    Notes
    -----
    Eigenvalues are never compared with an epsilon: see `pe.generators.jordan`. An answer that rounding
    could have changed is marked `certain=False` on its block and `ambiguous` on the whole.

    |t - s| (ALiBi and decay without a causal mask) is not in the family: it is two half-line groups glued at
    0.

    Examples
    --------
    >>> classify([[0, 1], [0, 0]]).row
    'slide'
    >>> answer = classify([[-0.1, -2, 0], [2, -0.1, 0], [0, 0, -0.5]])
    >>> answer.row, dict(answer.kinds)
    ('mixed', {'turn+fade': 1, 'fade': 1})
    >>> round(answer.blocks[0].half_life, 3)
    6.931

    References
    ----------
    The Dog, the Man, and the Clock, section "The list".
    Zeng and Li, A numerical method for computing the Jordan canonical form (arXiv:2103.02086).
    """
    if method not in ("auto", "exact"):
        raise ValueError(f'method is {method!r}; expected "auto" or "exact"')
    if method == "exact" and (rtol is not None or horizon is not None):
        raise TypeError('method="exact" takes no rtol and no horizon: nothing is rounded')
    matrices, unit = as_generators(X)
    n = matrices.shape[-1]
    if method == "exact" or (rtol is None and horizon is None and n <= SMALL and is_rational(X)):
        return _each(as_fractions(X), _classify_exact)
    if rtol is None:
        default = 10 * n * unit
        tolerances = [default * k for k in WIDENINGS if k == 1 or default * k <= WIDEST * unit]
    else:
        tolerances = [_between(rtol, "rtol", 1.0)]
    resolution = 0.0 if horizon is None else EFFECT / _between(horizon, "horizon", np.inf)
    return _each(matrices, lambda matrix: _first_certain(matrix, tolerances, resolution))


def _each(matrices: np.ndarray, answer_for):
    """The answer for one matrix, or for a stack an object array of answers still to be worked out."""
    if matrices.ndim == 2:
        return answer_for(matrices)
    answers = np.empty(matrices.shape[:-2], dtype=object)
    flat = matrices.reshape(answers.size, *matrices.shape[-2:])
    answers.ravel()[:] = [Deferred(answer_for, matrix) for matrix in flat]
    return answers


def _between(value, name, limit):
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} is {value!r}; expected a positive number")
    if not 0 < value < limit:
        raise ValueError(f"{name} is {value!r}; expected a number above 0 and below {limit:g}")
    return float(value)


def _first_certain(X: np.ndarray, tolerances: list[float], resolution: float) -> Classification:
    """Answer at the first tolerance where it is certain, else at the first tolerance."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled, exponent = scale_by_power_of_two(X)
        norm = float(np.linalg.norm(scaled, 2)) if scaled.size else 0.0
        every = [Limits(rtol, norm, float(np.ldexp(resolution, -exponent))) for rtol in tolerances]
        parts = [
            (where, Form(scaled[np.ix_(where, where)], every[0].tolerance)) for where in components(scaled)
        ]
        for _, form in parts:
            form.refuse(every[-1].merging)
        first = answer = _classify(X, scaled, exponent, parts, every[0])
        for limits in every[1:]:
            if not answer.ambiguous or first.scaling_sensitive:
                break
            answer = _classify(X, scaled, exponent, parts, limits)
    return first if answer.ambiguous else answer


def _classify(X, scaled, exponent: int, parts: list[tuple[np.ndarray, Form]], limits: Limits):
    norm = limits.norm
    for _, form in parts:
        form.read_within(limits.tolerance)
    readings = [form.read(limits.tolerance, basis=True) for _, form in parts]
    fastest = max((abs(e.value) for found in readings for e in found), default=0.0)

    blocks, columns, scaling_sensitive, error = [], [], False, 0.0
    for (where, form), found in zip(parts, readings, strict=True):
        other = _reading_by_own_scale(form, limits, norm)
        differs = other is not None and other != _names(found)
        scaling_sensitive |= differs
        wider = form.read(limits.wider, merging=limits.merging)
        error = np.hypot(error, form.departure if form.normal else np.linalg.norm([e.dropped for e in found]))
        for e in found:
            alternatives = _alternatives(e, wider)
            certain = not alternatives and limits.supports(e, fastest)
            if differs:
                alternatives |= {kind for kind, _ in other or ()}
                certain = False
            for chain, size in zip(e.chains, e.sizes, strict=True):
                for value, vectors in _real_chains(e.value, chain):
                    blocks.append(_block(value, size, e.radius, exponent, certain, alternatives))
                    columns.append(_scaled_chain(vectors, where, len(X), size, exponent))
    normal = all(form.normal for _, form in parts)
    return _assemble(X, scaled, exponent, norm, blocks, columns, limits, error, scaling_sensitive, normal)


def _classify_exact(A: np.ndarray) -> Classification:
    X = A.astype(np.float64)
    scaled, exponent = scale_by_power_of_two(X)
    unit = Fraction(2) ** exponent
    found = exact_roots(A / unit) if A.size else []
    own = float_chains(scaled, found) if found else []
    blocks, columns = [], []
    for i, root in enumerate(found):
        for j, size in enumerate(root.sizes):
            blocks.append(_block(root.value, size, 0.0, exponent, True, set()))
            if own is None:
                columns.append(np.full((len(X), size * (2 if root.value.imag else 1)), np.nan))
                continue
            ((_, vectors),) = _real_chains(root.value, own[i][j])
            columns.append(_scaled_chain(vectors, np.arange(len(X)), len(X), size, exponent))
    normal = bool(np.all(A @ A.T == A.T @ A))
    norm = float(np.linalg.norm(scaled, 2)) if scaled.size else 0.0
    return _assemble(X, scaled, exponent, norm, blocks, columns, None, 0.0, False, normal)


def scale_by_power_of_two(X: np.ndarray) -> tuple[np.ndarray, int]:
    """X / 2**e, exactly, with entries at most 1; so that 1e-200 and 1e200 are read alike."""
    largest = float(np.max(np.abs(X), initial=0.0))
    exponent = int(np.frexp(largest)[1]) if largest else 0
    return np.ldexp(X, -exponent), exponent


class Limits:
    """The tolerance and its two neighbours, absolute, for one matrix."""

    def __init__(self, rtol: float, norm: float, resolution: float):
        self.rtol, self.norm, self.resolution = rtol, norm, resolution
        self.rounding = rtol * norm
        self.tolerance = self.at(norm)
        self.wider = max(MARGIN * self.rounding, resolution)
        self.merging = max(STRUCTURE * self.rounding, resolution)

    def at(self, norm: float) -> float:
        """Tolerance for a part of the matrix with this norm."""
        return max(self.rtol * norm, self.resolution)

    def supports(self, e: Eigenvalue, fastest: float) -> bool:
        """Tell whether what was neglected for the name of `e` is small and what was kept is not.

        `fastest` is the largest rate of the whole matrix, 0 if there is none.
        """
        if e.mean.imag and not e.value.imag:
            return False
        gain = e.radius / self.tolerance if self.tolerance else 1.0
        negligible = max(self.rounding * NEGLIGIBLE, self.resolution)
        neglected = [
            abs(mean)
            for mean, value in ((e.mean.real, e.value.real), (e.mean.imag, e.value.imag))
            if not value
        ]
        if e.dropped > negligible or max(neglected, default=0.0) > negligible * gain:
            return False
        if neglected and self.rounding * gain > READABLE * (fastest or self.norm):
            return False
        if 0 < e.value.imag < READABLE * abs(e.value.real) or e.coupling < READABLE * abs(e.value):
            return False
        if max(e.sizes) == 1:
            return True
        if self.resolution > self.rounding:
            return True
        if not fastest and e.dropped:
            # Nothing else to compare with: could it be a slow turn in a basis of condition BASIS?
            return e.spread <= self.norm * BASIS ** (-1 / (max(e.sizes) - 1))
        return e.spread <= TORN * (abs(e.value) or fastest or self.norm)


def _reading_by_own_scale(form: Form, limits: Limits, norm: float) -> set | None:
    """Names by the component's own norm, after a diagonal scaling if that shrinks it much; None if moot."""
    own = np.linalg.norm(form.X)
    if own == 0:
        return None
    own_scale = matrix_balance(form.X, permute=False)[0]
    if np.linalg.norm(own_scale) > UNBALANCED * own:
        if own > norm / 2:
            return None
        own_scale = form.X
    tolerance = limits.at(float(np.linalg.norm(own_scale, 2)))
    return _names(Form(own_scale, tolerance).read(tolerance))


def _names(found: list[Eigenvalue]) -> set:
    return set().union(*(e.names for e in found))


def _alternatives(e: Eigenvalue, wider: list[Eigenvalue]) -> set[str]:
    """Kinds that the eigenvalues of `e` take at the wider tolerance, if they are not the same ones."""
    names = _names([other for other in wider if other.members & e.members])
    return {kind for kind, _ in names ^ e.names}


def _real_chains(value: complex, chain: np.ndarray):
    """Real columns for one Jordan chain: as they are, or real and minus imaginary part of each vector."""
    tip = chain[:, 0]
    largest = tip[np.argmax(np.abs(tip))]
    chain = chain * (np.conj(largest) / (abs(largest) or 1.0))
    if not np.iscomplexobj(chain):
        yield value, chain
    elif value.imag:
        yield value, np.stack([chain.real, -chain.imag], axis=-1).reshape(len(chain), -1)
    else:
        yield value, chain.real
        yield value, chain.imag


def _scaled_chain(vectors: np.ndarray, where: np.ndarray, n: int, size: int, exponent: int) -> np.ndarray:
    """Columns in the coordinates of X: undoing X / 2**exponent while couplings stay 1 rescales the chain."""
    powers = exponent * np.arange(size - 1, -1, -1)
    vectors = np.ldexp(vectors, np.repeat(powers - powers.max(), vectors.shape[1] // size))
    columns = np.zeros((n, vectors.shape[1]))
    columns[where] = vectors / (np.linalg.norm(vectors, 2) or 1.0)
    return columns


def _block(value, size, radius, exponent, certain, alternatives):
    gamma, theta = float(np.ldexp(-value.real, exponent)), float(np.ldexp(value.imag, exponent))
    gamma = gamma + 0.0  # no negative zero
    kind = kind_of(gamma, theta, size)
    return Block(
        kind,
        complex(0.0 - gamma, theta),
        gamma,
        theta,
        size,
        (),
        float(np.ldexp(radius, exponent)),
        certain,
        tuple(sorted(alternatives - {kind})),
    )


def _assemble(X, scaled, exponent, norm, blocks, columns, limits, error, scaling_sensitive, normal):
    """Put the blocks in order; without limits nothing was rounded and nothing is uncertain."""
    order = sorted(range(len(blocks)), key=lambda i: (-blocks[i].theta, blocks[i].gamma, -blocks[i].size))
    n = len(X)
    basis = np.hstack([np.zeros((n, 0)), *(columns[i] for i in order)])
    jordan, placed, start = np.zeros((n, n)), [], 0
    for i in order:
        stop = start + columns[i].shape[1]
        jordan[start:stop, start:stop] = real_jordan_block(blocks[i].eigenvalue, blocks[i].size)
        placed.append(replace(blocks[i], indices=tuple(range(start, stop))))
        start = stop
    residual = 0.0
    if norm:
        difference = np.ldexp(X @ basis - basis @ jordan, -exponent)
        residual = float(np.linalg.norm(difference) / (norm * (np.linalg.norm(basis) or 1.0)))
    if limits is not None and residual > MARGIN * limits.tolerance / (norm or 1.0):
        placed = [replace(block, certain=False) for block in placed]
    symmetric = np.linalg.eigvalsh((scaled + scaled.T) / 2) if n else np.array([-np.inf])
    return Classification(
        blocks=tuple(placed),
        basis=basis,
        jordan=jordan,
        residual=residual,
        cond=_condition(basis),
        backward_error=float(error) / norm if norm else 0.0,
        scaling_sensitive=bool(scaling_sensitive),
        is_normal=normal,
        is_skew=bool(np.linalg.norm(scaled + scaled.T) <= (limits.rounding if limits else 0.0)),
        spectral_abscissa=max((-block.gamma for block in placed), default=-np.inf) + 0.0,
        numerical_abscissa=float(np.ldexp(symmetric[-1], exponent)),
        rtol=limits.rtol if limits else 0.0,
        generator=X,
    )


def _condition(basis: np.ndarray) -> float:
    if not basis.size:
        return 1.0
    return float(np.linalg.cond(basis)) if np.all(np.isfinite(basis)) else np.inf


def real_jordan_block(eigenvalue: complex, size: int) -> np.ndarray:
    """Real Jordan block: [[-gamma, -theta], [theta, -gamma]] (or -gamma) and identities above it."""
    a, theta = eigenvalue.real, eigenvalue.imag
    cell = np.array([[a, -theta], [theta, a]]) if theta else np.array([[a]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(len(cell)))
