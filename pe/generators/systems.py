"""Generators by name: the pictures, the ops, and published systems with their constants.

Two signs meet here. The pictures of the tour turn counter-clockwise in time (`turn`: theta J, with
J = [[0, -1], [1, 0]]). The score of an op carries a key by the gap u = t - s: `pe.apply_rope` turns a query
by +t w and a key by +s w, so that A(u) = R(-u w) and the generator is -w J (`rope` and all that follows from
it). Mirror images have the same eigenvalues and the same name.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

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
    return direct_sum(
        *(real_jordan_block(complex(0, w), 1) if w else np.zeros((2, 2)) for w in _numbers(theta, "theta"))
    )


def fade(rate) -> np.ndarray:
    """Picture two, the dimmer: -rate, so that exp(tX) = e^(-rate t); one coordinate for each rate."""
    return np.diag(-_numbers(rate, "rate")) + 0.0


def slide() -> np.ndarray:
    """Picture three, the hockey puck: [[0, 1], [0, 0]], so that exp(tX) takes (x, y) to (x + t y, y)."""
    return np.eye(2, k=1)


# What the ops do


def nope(dim: int) -> np.ndarray:
    """No positional encoding: zero, so that a score does not see the gap.

    Scores without position are blind to order only as long as no causal mask tells positions apart.
    """
    return np.zeros((dim, dim))


def decay(rate, dim: int = 1) -> np.ndarray:
    """Multiply scores by e^(-rate u): -rate on `dim` coordinates, or one block of them for each rate.

    This is retention. It multiplies the logit, whereas `pe.decay_bias` adds to it: that one is a slide.
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
    return -turn(_frequencies(dim, base, freqs)) + 0.0


def damped_rope(dim: int, rate, base: float = 10000.0, *, freqs=None) -> np.ndarray:
    """RoPE that fades: -rate I - w J, one rate for all planes or one for each."""
    rates = np.broadcast_to(_numbers(rate, "rate"), dim // 2)
    return rope(dim, base, freqs=freqs) - np.kron(np.diag(rates), np.eye(2))


def alibi(slope, dim: int = 0) -> np.ndarray:
    """ALiBi in two spare coordinates: [[0, -slope], [0, 0]] after `dim` coordinates without position.

    A query has (1, 0) there and a key (0, 1): that adds -slope (t - s) to the score.

    Examples
    --------
    >>> from pe.generators import encoding
    >>> float(encoding(alibi(0.5)).score([1, 0], [0, 1], t=7, s=4))
    -1.5
    """
    return direct_sum(nope(dim), *(np.array([[0.0, -m], [0.0, 0.0]]) for m in _numbers(slope, "slope")))


def jordan_rope(theta: float, rate: float = 0.0, size: int = 2) -> np.ndarray:
    """A slide that turns (and fades): scores with u^r e^(-rate u) cos(theta u), r < size.

    References
    ----------
    Jordan-RoPE (arXiv:2605.04217).
    """
    cell = np.array([[-rate, theta], [-theta, -rate]])
    return np.kron(np.eye(size), cell) + np.kron(np.eye(size, k=1), np.eye(2))


def plane(a, b) -> np.ndarray:
    """Turn in the plane of two vectors: a b^T - b a^T, at frequency sqrt(|a|^2 |b|^2 - (a.b)^2).

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
    """Generators side by side, each on coordinates of its own."""
    blocks = [as_generator(X, f"generators[{i}]")[0] for i, X in enumerate(generators)]
    return block_diag(*(X for X in blocks if X.size), np.zeros((0, 0)))


def conjugate(X, P) -> np.ndarray:
    """The same generator in another basis: P X P^-1. It does the same under the same name.

    Weights absorb the basis as q' = P^T q and k' = P^-1 k, which normalised (QK-norm) or tied ones cannot.
    """
    matrix, basis = as_generator(X)[0], as_generator(P, "P")[0]
    if basis.shape != matrix.shape:
        raise ValueError(f"P has shape {basis.shape}; expected {matrix.shape} like X")
    try:
        return np.linalg.solve(basis.T, (basis @ matrix).T).T
    except np.linalg.LinAlgError:
        raise ValueError("P is singular; expected an invertible matrix, whose columns are a basis") from None


# Published systems, one head each


def sinusoidal(dim: int = 512, base: float = 10000.0) -> np.ndarray:
    """The rotation that carries one row of the sinusoidal table to another: PE(p + u) = exp(uX) PE(p).

    The table has sin(p w) and cos(p w) in turns. As an encoding it is absolute (it is added to the content),
    but its own rows are a one-parameter group.

    References
    ----------
    Vaswani et al., Attention Is All You Need (arXiv:1706.03762): dim 512, base 10000.
    """
    return rope(dim, base)


def llama(dim: int = 128, base: float = 500000.0) -> np.ndarray:
    """Llama: RoPE, head width 128; base 10000 in versions 1 and 2, 500000 in version 3."""
    return rope(dim, base)


def qwen(dim: int = 128, base: float = 1000000.0) -> np.ndarray:
    """Qwen 2, 2.5 and 3: RoPE, head width 128, base 1000000 (the first Qwen: 10000)."""
    return rope(dim, base)


def mistral(dim: int = 128, base: float = 10000.0) -> np.ndarray:
    """Mistral 7B: RoPE, head width 128, base 10000 (1000000 from version 0.2)."""
    return rope(dim, base)


def bloom(head: int = 0, n_heads: int = 112, dim: int = 128) -> np.ndarray:
    """BLOOM 176B: ALiBi on 112 heads of width 128, plus the two spare coordinates."""
    return _alibi_head(head, n_heads, dim, 8.0)


def mpt(head: int = 0, n_heads: int = 32, dim: int = 128, max_bias: float = 8.0) -> np.ndarray:
    """MPT 7B: ALiBi on 32 heads of width 128, alibi_bias_max 8, plus the two spare coordinates."""
    return _alibi_head(head, n_heads, dim, max_bias)


def retnet(head: int = 0, dim: int = 256) -> np.ndarray:
    """RetNet: damped RoPE whose multiplier is 1 - 2^(-5 - head), that is rate = -log(1 - 2^(-5 - head)).

    The authors' code spaces the exponents of 10000 from 0 to 1 inclusive.

    References
    ----------
    Sun et al., Retentive Network (arXiv:2307.08621).
    """
    _frequencies(dim, 10000.0, None)
    return damped_rope(dim, -np.log1p(-(2.0 ** (-5 - head))), freqs=10000.0 ** -np.linspace(0, 1, dim // 2))


def mamba3(theta, rate) -> np.ndarray:
    """Mamba-3: a damped turn on a clock that the data moves.

    theta and rate are learned, so none is published. What is learned is how far the clock advances at a
    token: positions become a running sum of steps. One clock for all planes leaves the encoding in the
    family; steps that differ from plane to plane are several clocks, and a rotation that depends on the data
    is outside one fixed clock.

    References
    ----------
    Mamba-3 (arXiv:2603.15569).
    """
    frequencies = _numbers(theta, "theta")
    return damped_rope(2 * len(frequencies), rate, freqs=frequencies)


def grape(A, B) -> np.ndarray:
    """GRAPE, multiplicative: the sum of the planes of the columns of A and B, shape (n, L) each.

    References
    ----------
    Zhang et al., GRAPE (arXiv:2512.07805).
    """
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    if A.ndim != 2 or A.shape != B.shape:
        raise ValueError(f"A and B have shapes {A.shape} and {B.shape}; expected two equal shapes (n, L)")
    return A @ B.T - B @ A.T


def forgetting(dim: int = 0) -> np.ndarray:
    """Forgetting Transformer: a slide of slope 1 on a learned clock, -log of the product of the gates f.

    References
    ----------
    Lin et al., Forgetting Transformer (arXiv:2503.02130).
    """
    return alibi(1.0, dim)


def _alibi_head(head, n_heads, dim, max_bias):
    from pe.slopes import alibi_slopes

    if not 0 <= head < n_heads:
        raise ValueError(f"head is {head}; expected 0 to {n_heads - 1}")
    return alibi(float(alibi_slopes(n_heads, max_bias=max_bias)[head]), dim)


def _frequencies(dim, base, freqs):
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(f"dim is {dim!r}; expected an even integer")
    if dim < 0 or dim % 2:
        raise ValueError(f"dim is {dim}; expected an even number, because turning takes a plane")
    if freqs is None:
        if not base > 0:
            raise ValueError(f"base is {base}; expected a positive number")
        return float(base) ** (-2.0 * np.arange(dim // 2) / max(dim, 1))
    freqs = _numbers(freqs, "freqs")
    if len(freqs) != dim // 2:
        raise ValueError(f"freqs has {len(freqs)} entries; expected {dim // 2} for dim {dim}")
    return freqs


def _numbers(values, name):
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {values!r}; expected one finite number or a list of them") from None
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} is {values!r}; expected one finite number or a list of them")
    return array
