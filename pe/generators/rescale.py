"""Longer contexts, as an edit of the imaginary parts of a generator: PI, NTK and YaRN.

Each takes a generator whose turns were trained over some context and slows some of them down, in whatever
basis they are; real parts and slides stay as they are. The formulas are those of `pe.scaling`: on RoPE the
turns come out as those of `pe.Rope(..., scaling=)`. What a method does besides to the scores (YaRN's factor
0.1 ln(factor) + 1 on queries and keys) is no change of the generator: see `pe.Rope`, `amplitude`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import scaling
from ._matrix import as_generator
from .classify import classify, real_jordan_block
from .reading import components

__all__ = ["ntk", "pi", "yarn"]

SAME = 1e-6
"""How far from a rung of the ladder a frequency may lie, as a part of a step."""


def pi(X, factor: float) -> np.ndarray:
    """Position interpolation: every frequency divided by `factor`.

    Parameters
    ----------
    X : array_like, shape (n, n)
        Generator; its real parts stay.
    factor : float
        How many times longer the context gets; at least 1.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Examples
    --------
    >>> from pe.generators import rescale, turn
    >>> rescale.pi(turn(0.5), 8)
    array([[ 0.    , -0.0625],
           [ 0.0625,  0.    ]])

    References
    ----------
    Chen et al., Extending Context Window of Large Language Models via Position Interpolation
    (arXiv:2306.15595).
    """
    return _edit(X, scaling.linear(factor).scale)


def ntk(X, factor: float) -> np.ndarray:
    """NTK-aware scaling: the fastest turn stays, the slowest slows by `factor`, those between by a power.

    For RoPE with base b on d coordinates this is the base b factor^(d / (d - 2)).

    Parameters
    ----------
    X : array_like, shape (n, n)
        Generator whose frequencies fall by a constant ratio from plane to plane, as those of RoPE.
    factor : float
        How many times longer the context gets; at least 1.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from pe.generators import rescale, rope
    >>> longer = rescale.ntk(rope(128), 8)
    >>> bool(np.allclose(longer, rope(128, base=10000 * 8 ** (128 / 126)), rtol=1e-13, atol=0))
    True

    References
    ----------
    bloc97, NTK-Aware Scaled RoPE (2023); Peng et al., YaRN (arXiv:2309.00071), section 3.1.
    """
    return _edit(X, _on_a_ladder(scaling.ntk(factor)))


def yarn(X, factor: float, *, context: int, beta_fast: float = 32.0, beta_slow: float = 1.0) -> np.ndarray:
    """YaRN: turns that came round often stay, those that hardly did are interpolated, with a ramp between.

    Parameters
    ----------
    X : array_like, shape (n, n)
        Generator whose frequencies fall from 1 by a constant ratio from plane to plane, as those of RoPE.
    factor : float
        How many times longer the context gets; at least 1.
    context : int
        Positions in the context of training, `original_max_position_embeddings` of `pe.scaling.yarn`.
    beta_fast, beta_slow : float, default 32 and 1
        A plane that turns more often than `beta_fast` over the context stays; less often than `beta_slow`,
        its frequency is divided by `factor`.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Notes
    -----
    The ramp is linear in the number of the plane, and its ends are whole planes (`pe.scaling.yarn`). The
    factor on queries and keys is no part of it: see `pe.Rope`, `amplitude`.

    Examples
    --------
    >>> import numpy as np
    >>> from pe.generators import rescale, rope
    >>> before, after = rope(128), rescale.yarn(rope(128), 8, context=4096)
    >>> even = np.arange(0, 128, 2)
    >>> slower = before[even, even + 1] / after[even, even + 1]
    >>> int(np.sum(slower == 1)), int(np.sum(slower == 8))
    (21, 18)

    References
    ----------
    Peng et al., YaRN (arXiv:2309.00071), section 3.2 and the code published with it.
    """
    rule = scaling.yarn(factor, context, beta_fast=beta_fast, beta_slow=beta_slow)

    def change(theta):
        if abs(np.max(theta) - 1) > SAME:
            raise ValueError(
                f"X has {np.max(theta):g} as its fastest frequency; yarn counts turns of planes whose "
                "fastest is 1: take positions in such a unit"
            )
        return _on_a_ladder(rule)(theta)

    return _edit(X, change)


def _on_a_ladder(rule: scaling.Scaling) -> Callable[[np.ndarray], np.ndarray]:
    """Make of a rule for the planes of a base one for frequencies in any order, each any number of times."""

    def change(theta):
        method = type(rule).__name__
        fastest = float(np.max(theta))
        falls = np.log(fastest / theta)
        if np.max(falls) <= SAME:
            raise ValueError(
                f"X has one frequency only, {fastest:g}; {method} needs a fastest and a slowest one"
            )
        gaps = np.diff(np.sort(falls))
        planes = 1 + np.count_nonzero(gaps > np.max(gaps) / 2)  # a gap is a step, or rounding of one plane
        step = np.max(falls) / (planes - 1)
        at = falls / step
        plane = np.round(at).astype(int)
        if np.max(np.abs(at - plane)) > SAME:
            raise ValueError(
                f"X has frequencies without a constant ratio; {method} counts planes on such a ladder"
            )
        w = np.empty(planes)            # no rung stays empty: there are as many wide gaps as steps
        w[plane] = theta
        return theta * (rule.scale(w, float(np.exp(planes * step))) / w)[plane]

    return change


def _edit(X, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """X with its frequencies theta > 0 replaced by change(theta), all at once."""
    matrix, _ = as_generator(X)
    out, parts = matrix.copy(), []
    for where in components(matrix):
        block = matrix[np.ix_(where, where)]
        if len(where) == 2 and block[0, 0] == block[1, 1] and block[0, 1] * block[1, 0] < 0:
            b, c = abs(block[0, 1]), abs(block[1, 0])
            parts.append((where, np.array([b if b == c else np.sqrt(b) * np.sqrt(c)]), None))
            continue
        answer = classify(block)
        if answer.ambiguous and len(where) > 1:
            raise ValueError("X has no readable frequencies: classify(X) is ambiguous; see its summary()")
        turning = np.array([b.theta for b in answer.blocks if b.theta])
        if len(turning):
            parts.append((where, turning, answer))
    frequencies = np.concatenate([theta for _, theta, _ in parts]) if parts else np.zeros(0)
    edited = change(frequencies) if frequencies.size else frequencies
    for where, theta, answer in parts:
        new, edited = edited[: len(theta)], edited[len(theta) :]
        grid = np.ix_(where, where)
        if answer is None:
            block = matrix[grid]
            out[grid] = np.where(np.eye(2), block, block / theta * new)
        else:
            out[grid] = _with_frequencies(answer, new)
    return out


def _with_frequencies(answer, frequencies):
    jordan, frequencies = answer.jordan.copy(), iter(frequencies)
    for b in answer.blocks:
        if b.theta:
            rows = np.array(b.indices)
            jordan[np.ix_(rows, rows)] = real_jordan_block(complex(-b.gamma, next(frequencies)), b.size)
    return np.linalg.solve(answer.basis.T, (answer.basis @ jordan).T).T
