"""Published systems with their constants, the generator of one head each.

All have the sign of the ops (`pe.generators.rope`): the score carries a key by the gap.
"""

from __future__ import annotations

import numpy as np

from .systems import alibi, checked_frequencies, checked_numbers, damped_rope, rope


def sinusoidal(dim: int = 512, base: float = 10000.0) -> np.ndarray:
    """The rotation that carries one row of the sinusoidal table to another: PE(p + u) = exp(uX) PE(p).

    The table has sin(p w) and cos(p w) in turns. As an encoding it is absolute (it is added to the content),
    but its own rows are a one-parameter group.

    Parameters
    ----------
    dim : int, default 512
        Even width of the table.
    base : float, default 10000
        Base of the frequencies.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> import numpy as np
    >>> from pe.generators import transport
    >>> carried = transport(sinusoidal(2), 0.5) @ [np.sin(3), np.cos(3)]
    >>> bool(np.allclose(carried, [np.sin(3.5), np.cos(3.5)], rtol=0, atol=1e-15))
    True

    References
    ----------
    Vaswani et al., Attention Is All You Need (arXiv:1706.03762).
    """
    return rope(dim, base)


def llama(dim: int = 128, base: float = 500000.0) -> np.ndarray:
    """Llama: RoPE, head width 128; base 10000 in versions 1 and 2, 500000 in version 3.

    Parameters
    ----------
    dim : int, default 128
        Even head width.
    base : float, default 500000
        Base of the frequencies.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> llama().shape, float(llama()[2, 3].round(6))
    ((128, 128), 0.814617)

    References
    ----------
    Llama Team, The Llama 3 Herd of Models (arXiv:2407.21783).
    """
    return rope(dim, base)


def qwen(dim: int = 128, base: float = 1000000.0) -> np.ndarray:
    """Qwen 2, 2.5 and 3: RoPE, head width 128, base 1000000 (the first Qwen: 10000).

    Parameters
    ----------
    dim : int, default 128
        Even head width.
    base : float, default 1000000
        Base of the frequencies.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> qwen().shape, float(qwen()[2, 3].round(6))
    ((128, 128), 0.805842)

    References
    ----------
    Qwen Team, Qwen2 Technical Report (arXiv:2407.10671).
    """
    return rope(dim, base)


def mistral(dim: int = 128, base: float = 10000.0) -> np.ndarray:
    """Mistral 7B: RoPE, head width 128, base 10000 (1000000 from version 0.2).

    Parameters
    ----------
    dim : int, default 128
        Even head width.
    base : float, default 10000
        Base of the frequencies.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> mistral().shape, float(mistral()[2, 3].round(6))
    ((128, 128), 0.865964)

    References
    ----------
    Jiang et al., Mistral 7B (arXiv:2310.06825).
    """
    return rope(dim, base)


def bloom(head: int = 0, n_heads: int = 112, dim: int = 128) -> np.ndarray:
    """BLOOM 176B: ALiBi on 112 heads of width 128, plus the two spare coordinates.

    Parameters
    ----------
    head : int, default 0
        Which head; each has a slope of its own.
    n_heads : int, default 112
        Heads of a layer.
    dim : int, default 128
        Head width.

    Returns
    -------
    ndarray, shape (dim + 2, dim + 2)

    Examples
    --------
    >>> from pe.generators import classify
    >>> classify(bloom(3)).row
    'slide'

    References
    ----------
    BigScience Workshop, BLOOM (arXiv:2211.05100).
    """
    return _alibi_head(head, n_heads, dim, 8.0)


def mpt(head: int = 0, n_heads: int = 32, dim: int = 128, max_bias: float = 8.0) -> np.ndarray:
    """MPT 7B: ALiBi on 32 heads of width 128, alibi_bias_max 8, plus the two spare coordinates.

    Parameters
    ----------
    head : int, default 0
        Which head; each has a slope of its own.
    n_heads : int, default 32
        Heads of a layer.
    dim : int, default 128
        Head width.
    max_bias : float, default 8
        `alibi_bias_max` of the model: the slopes run down to 2^-max_bias.

    Returns
    -------
    ndarray, shape (dim + 2, dim + 2)

    Examples
    --------
    >>> float(mpt(31)[128, 129]) == -(2.0**-8)
    True

    References
    ----------
    MosaicML, Introducing MPT-7B (2023); Press et al., Train Short, Test Long (arXiv:2108.12409).
    """
    return _alibi_head(head, n_heads, dim, max_bias)


def retnet(head: int = 0, dim: int = 256) -> np.ndarray:
    """RetNet: damped RoPE whose multiplier is 1 - 2^(-5 - head), that is rate = -log(1 - 2^(-5 - head)).

    The authors' code spaces the exponents of 10000 from 0 to 1 inclusive.

    Parameters
    ----------
    head : int, default 0
        Which head; each has a multiplier of its own.
    dim : int, default 256
        Even head width.

    Returns
    -------
    ndarray, shape (dim, dim)

    Examples
    --------
    >>> from pe.generators import classify
    >>> round(classify(retnet(0, dim=8)).blocks[0].half_life, 2)
    21.83

    References
    ----------
    Sun et al., Retentive Network (arXiv:2307.08621).
    """
    checked_frequencies(dim, 10000.0, None)
    _checked_head(head)
    return damped_rope(dim, -np.log1p(-(2.0 ** (-5 - head))), freqs=10000.0 ** -np.linspace(0, 1, dim // 2))


def mamba3(theta, rate) -> np.ndarray:
    """Mamba-3: a damped turn on a clock that the data moves.

    theta and rate are learned, so none is published. What is learned is how far the clock advances at a
    token: positions become a running sum of steps. One clock for all planes leaves the encoding in the
    family; steps that differ from plane to plane are several clocks, and a rotation that depends on the data
    is outside one fixed clock.

    Parameters
    ----------
    theta : float or array_like
        Angular frequencies, one for each plane.
    rate : float or array_like
        Fading, one for all planes or one for each.

    Returns
    -------
    ndarray, shape (2 L, 2 L) for L frequencies

    Examples
    --------
    >>> from pe.generators import classify
    >>> classify(mamba3([1.0, 0.3], 0.05)).row
    'turn+fade'

    References
    ----------
    Mamba-3 (arXiv:2603.15569).
    """
    frequencies = checked_numbers(theta, "theta")
    return damped_rope(2 * len(frequencies), rate, freqs=frequencies)


def grape(A, B) -> np.ndarray:
    """GRAPE, multiplicative: the sum of the planes of the columns of A and B.

    Parameters
    ----------
    A, B : array_like, shape (n, L)
        Pairs of vectors; each pair spans a plane, as in `plane`.

    Returns
    -------
    ndarray, shape (n, n)

    Examples
    --------
    >>> grape([[0.0], [2.0]], [[1.0], [0.0]])
    array([[ 0., -2.],
           [ 2.,  0.]])

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

    Parameters
    ----------
    dim : int, default 0
        Coordinates of the content, before the two spare ones.

    Returns
    -------
    ndarray, shape (dim + 2, dim + 2)

    Examples
    --------
    Gates 0.5 and 0.8 open after the key, so that its score gains log 0.4:

    >>> import numpy as np
    >>> import pe
    >>> from pe.generators import encoding
    >>> clock = pe.clock(np.log([0.9, 0.5, 0.8]))
    >>> gained = float(encoding(forgetting()).score([1, 0], [0, 1], clock[2], clock[0]))
    >>> float(np.exp(gained).round(12))
    0.4

    References
    ----------
    Lin et al., Forgetting Transformer (arXiv:2503.02130).
    """
    return alibi(1.0, dim)


def _alibi_head(head, n_heads, dim, max_bias):
    from pe.slopes import alibi_slopes

    slopes = alibi_slopes(n_heads, max_bias=max_bias)
    _checked_head(head, n_heads)
    return alibi(float(slopes[head]), dim)


def _checked_head(head, n_heads=None):
    if isinstance(head, bool) or not isinstance(head, (int, np.integer)):
        raise TypeError(f"head is {head!r}; expected an integer")
    if head < 0 or (n_heads is not None and head >= n_heads):
        most = "or more" if n_heads is None else f"to {n_heads - 1}"
        raise ValueError(f"head is {head}; expected 0 {most}")
