"""Generators by name: the pictures, what the ops do, and how to put them together.

Two signs meet here. The pictures of the tour turn counter-clockwise in time (`turn`: theta J, with
J = [[0, -1], [1, 0]]). The score of an op carries a key by the gap u = t - s: `pe.apply_rope` turns a query
by +t w and a key by +s w, so that A(u) = R(-u w) and the generator is -w J (`rope` and all that follows from
it). Mirror images have the same eigenvalues and the same name.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from .._scalars import amount
from ._matrix import as_generator
from .classify import real_jordan_block

# The pictures of the tour


def turn(theta=1.0) -> np.ndarray:
    """Picture one, the circle: theta J, so that exp(tX) rotates by +theta t.

    Parameters
    ----------
    theta : float or array_like
        Angular frequency, or one for each of several planes.

    Returns
    -------
    ndarray, shape (2, 2), or (2 L, 2 L) for L frequencies

    Examples
    --------
    >>> turn(2.0)
    array([[ 0., -2.],
           [ 2.,  0.]])
    """
    thetas = checked_numbers(theta, "theta")
    return direct_sum(*(real_jordan_block(complex(0, w), 1) if w else np.zeros((2, 2)) for w in thetas))


def fade(rate) -> np.ndarray:
    """Picture two, the dimmer: -rate, so that exp(tX) = e^(-rate t).

    Parameters
    ----------
    rate : float or array_like
        Fading per position, the source's gamma; one for each of several coordinates. Negative: it explodes.

    Returns
    -------
    ndarray, shape (1, 1), or (n, n) for n rates

    Examples
    --------
    >>> fade([0.1, 0.2])
    array([[-0.1,  0. ],
           [ 0. , -0.2]])
    """
    return np.diag(-checked_numbers(rate, "rate")) + 0.0


def slide() -> np.ndarray:
    """Picture three, the hockey puck: exp(tX) takes (x, y) to (x + t y, y).

    Returns
    -------
    ndarray, shape (2, 2)

    Examples
    --------
    >>> slide()
    array([[0., 1.],
           [0., 0.]])
    """
    return np.eye(2, k=1)


# What the ops do


def nope(dim: int) -> np.ndarray:
    """No positional encoding: zero, so that a score does not see the gap.

    Scores without position are blind to order only as long as no causal mask tells positions apart.

    Parameters
    ----------
    dim : int
        Coordinates.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> nope(2)
    array([[0., 0.],
           [0., 0.]])
    """
    return np.zeros((dim, dim))


def decay(rate, dim: int = 1) -> np.ndarray:
    """Multiply scores by e^(-rate u): -rate on `dim` coordinates, or one block of them for each rate.

    This is retention. It multiplies the logit, whereas `pe.decay_bias` adds to it: that one is a slide.

    Parameters
    ----------
    rate : float or array_like
        Fading per position.
    dim : int, default 1
        Coordinates for each rate.

    Returns
    -------
    ndarray, shape (dim, dim), or (dim n, dim n) for n rates

    Examples
    --------
    >>> from pe.generators import encoding
    >>> round(float(encoding(decay(0.1, 2)).score([2, 0], [1, 0], t=10, s=0)), 6)
    0.735759
    """
    return np.kron(fade(rate), np.eye(dim))


def rope(dim: int, base: float = 10000.0, *, freqs=None) -> np.ndarray:
    """RoPE on interleaved pairs: -w J for w = base^(-2 k / dim), k = 0 .. dim/2 - 1.

    Parameters
    ----------
    dim : int
        Even head width.
    base : float, default 10000
        Base of the frequencies; it moves the slowest hand and never the fastest.
    freqs : array_like, shape (dim / 2,), optional
        Angular frequencies instead of the base.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> rope(2)
    array([[ 0.,  1.],
           [-1.,  0.]])

    References
    ----------
    Su et al., RoFormer (arXiv:2104.09864).
    """
    return -turn(checked_frequencies(dim, base, freqs)) + 0.0


def damped_rope(dim: int, rate, base: float = 10000.0, *, freqs=None) -> np.ndarray:
    """RoPE that fades: -rate I - w J.

    Parameters
    ----------
    dim : int
        Even head width.
    rate : float or array_like, shape (dim / 2,)
        Fading per position, one for all planes or one for each.
    base, freqs
        As for `rope`.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> damped_rope(2, 0.1)
    array([[-0.1,  1. ],
           [-1. , -0.1]])
    """
    rates = np.broadcast_to(checked_numbers(rate, "rate"), dim // 2)
    return rope(dim, base, freqs=freqs) - np.kron(np.diag(rates), np.eye(2))


def alibi(slope, dim: int = 0) -> np.ndarray:
    """ALiBi in two spare coordinates: [[0, -slope], [0, 0]] after `dim` coordinates without position.

    A query has (1, 0) there and a key (0, 1): that adds -slope (t - s) to the score.

    Parameters
    ----------
    slope : float or array_like
        Penalty per position, 0 or more; with several each has two coordinates.
    dim : int, default 0
        Coordinates of the content, before the spare ones.

    Returns
    -------
    ndarray, shape (dim + 2, dim + 2), or (dim + 2 n, dim + 2 n) for n slopes

    Examples
    --------
    >>> from pe.generators import encoding
    >>> float(encoding(alibi(0.5)).score([1, 0], [0, 1], t=7, s=4))
    -1.5

    References
    ----------
    Press et al., Train Short, Test Long (arXiv:2108.12409).
    """
    slopes = checked_numbers(slope, "slope")
    return direct_sum(nope(dim), *(np.array([[0.0, -m], [0.0, 0.0]]) for m in slopes))


def jordan_rope(theta: float, rate: float = 0.0, size: int = 2) -> np.ndarray:
    """A slide that turns (and fades): scores with u^r e^(-rate u) cos(theta u), r < size.

    Parameters
    ----------
    theta : float
        Angular frequency.
    rate : float, default 0
        Fading per position.
    size : int, default 2
        Planes in the chain.

    Returns
    -------
    ndarray, shape (2 size, 2 size)

    Examples
    --------
    >>> from pe.generators import classify
    >>> classify(jordan_rope(0.5, 0.1)).blocks[0].kind
    'damped rotating slide'

    References
    ----------
    Jordan-RoPE (arXiv:2605.04217).
    """
    cell = np.array([[-rate, theta], [-theta, -rate]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(2))


def plane(a, b) -> np.ndarray:
    """Turn in the plane of two vectors: a b^T - b a^T, at frequency sqrt(|a|^2 |b|^2 - (a.b)^2).

    Parameters
    ----------
    a, b : array_like, shape (n,)
        Vectors that span the plane.

    Returns
    -------
    ndarray, shape (n, n)

    Examples
    --------
    >>> plane([0, 2], [1, 0])
    array([[ 0., -2.],
           [ 2.,  0.]])

    References
    ----------
    Zhang et al., GRAPE (arXiv:2512.07805), the multiplicative form.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"a and b have shapes {a.shape} and {b.shape}; expected two vectors of the same length"
        )
    return np.outer(a, b) - np.outer(b, a)


def direct_sum(*generators) -> np.ndarray:
    """Generators side by side, each on coordinates of its own.

    Parameters
    ----------
    *generators : array_like, shape (n_i, n_i)
        Any number of generators.

    Returns
    -------
    ndarray, shape (sum n_i, sum n_i)

    Examples
    --------
    >>> direct_sum(fade(0.1), slide())
    array([[-0.1,  0. ,  0. ],
           [ 0. ,  0. ,  1. ],
           [ 0. ,  0. ,  0. ]])
    """
    blocks = [as_generator(X, f"generators[{i}]")[0] for i, X in enumerate(generators)]
    return block_diag(*(X for X in blocks if X.size), np.zeros((0, 0)))


def conjugate(X, P) -> np.ndarray:
    """The same generator in another basis: P X P^-1. It does the same under the same name.

    Weights absorb the basis as q' = P^T q and k' = P^-1 k, which normalised (QK-norm) or tied ones cannot.

    Parameters
    ----------
    X : array_like, shape (n, n)
        Generator.
    P : array_like, shape (n, n)
        An invertible matrix, whose columns are the basis.

    Returns
    -------
    ndarray, shape (n, n)

    Examples
    --------
    >>> conjugate(slide(), [[2, 0], [0, 1]])
    array([[0., 2.],
           [0., 0.]])
    """
    matrix, basis = as_generator(X)[0], as_generator(P, "P")[0]
    if basis.shape != matrix.shape:
        raise ValueError(f"P has shape {basis.shape}; expected {matrix.shape} like X")
    try:
        return np.linalg.solve(basis.T, (basis @ matrix).T).T
    except np.linalg.LinAlgError:
        raise ValueError("P is singular; expected an invertible matrix, whose columns are a basis") from None


# What these constructors share


def checked_frequencies(dim, base, freqs) -> np.ndarray:
    """Return the frequencies of the planes of a head, given or from a base; or raise."""
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(f"dim is {dim!r}; expected an even integer")
    if dim < 0 or dim % 2:
        raise ValueError(f"dim is {dim}; expected an even number, because turning takes a plane")
    if freqs is None:
        if not base > 0:
            raise ValueError(f"base is {base}; expected a positive number")
        return float(base) ** (-2.0 * np.arange(dim // 2) / max(dim, 1))
    freqs = checked_numbers(freqs, "freqs")
    if len(freqs) != dim // 2:
        raise ValueError(f"freqs has {amount(len(freqs), 'entry', 'entries')}; expected {dim // 2} for dim "
                         f"{dim}")
    return freqs


def checked_numbers(values, name: str) -> np.ndarray:
    """Return one finite number or a list of them as an array, or raise."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {values!r}; expected one finite number or a list of them") from None
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} is {values!r}; expected one finite number or a list of them")
    return array
