"""The smaller public functions: what they cost beside the lines of NumPy that a user would write."""

from __future__ import annotations

import numpy as np

import pe

from .calls import Call, Problem


def attention_weights(problem: Problem) -> tuple[Call, Call]:
    """The textbook's softmax."""
    q, k = problem.x, problem.k
    scale = q.dtype.type(q.shape[-1] ** -0.5)

    def weights() -> np.ndarray:
        scores = q @ k.swapaxes(-1, -2) * scale
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return scores / scores.sum(axis=-1, keepdims=True)

    return lambda: pe.attention_weights(q, k), weights


def merge_attention(problem: Problem) -> tuple[Call, Call]:
    """Weights by log-sum-exp of parts that all see something."""
    outs, lses = problem.x, problem.v[..., 0].copy()  # as attention returns them

    def merged() -> np.ndarray:
        weights = np.exp(lses - lses.max(axis=0))
        return ((weights / weights.sum(axis=0))[..., None] * outs).sum(axis=0)

    return lambda: pe.merge_attention(outs, lses)[0], merged


def shift(problem: Problem) -> tuple[Call, Call]:
    """One turn for all, as a product of complex numbers."""
    rope, k = pe.Rope(problem.case.shape[-1]), problem.x
    pairs = k.view(np.result_type(k.dtype, np.complex64))

    def turned() -> np.ndarray:
        return (pairs * np.exp(-20j * rope.freqs).astype(pairs.dtype)).view(k.dtype)

    return lambda: rope.shift(k, -20), turned


def clock(problem: Problem) -> tuple[Call, Call]:
    """A running sum."""
    gates = -np.random.default_rng(1).random(problem.case.shape)
    return lambda: pe.clock(gates), lambda: -np.cumsum(gates, axis=-1)


def positions_from_mask(problem: Problem) -> tuple[Call, Call]:
    """A running count."""
    mask = np.random.default_rng(1).random(problem.case.shape) < 0.75
    return lambda: pe.positions_from_mask(mask), lambda: np.where(mask, np.cumsum(mask, axis=-1) - 1, 0)


def positions_from_lengths(problem: Problem) -> tuple[Call, Call]:
    """A range for each text."""
    texts, longest = problem.case.shape
    lengths = np.random.default_rng(1).integers(1, longest + 1, texts)
    return (
        lambda: pe.positions_from_lengths(lengths),
        lambda: np.concatenate([np.arange(n) for n in lengths]),
    )


def sinusoidal(problem: Problem) -> tuple[Call, Call]:
    """Sines and cosines into the even and odd columns of a new table."""
    length, width = problem.case.shape
    positions, freqs = np.arange(length), 10000.0 ** (-np.arange(0, width, 2) / width)

    def table() -> np.ndarray:
        made, angle = np.empty((length, width)), np.multiply.outer(positions, freqs)
        made[:, ::2], made[:, 1::2] = np.sin(angle), np.cos(angle)
        return made

    return lambda: pe.sinusoidal(positions, width), table


def cache(problem: Problem) -> tuple[Call, Call]:
    """Tables of a rope that is there already."""
    length, width = problem.case.shape
    rope = pe.Rope(width)

    def tables() -> tuple[np.ndarray, np.ndarray]:
        angle = np.multiply.outer(np.arange(length), rope.freqs[0])
        return np.cos(angle), np.sin(angle)

    return lambda: rope.cache(length), tables


def build_rope_cache(problem: Problem) -> tuple[Call, Call]:
    """Tables from nothing."""
    length, width = problem.case.shape

    def tables() -> tuple[np.ndarray, np.ndarray]:
        angle = np.multiply.outer(np.arange(length), 10000.0 ** (-np.arange(0, width, 2) / width))
        return np.cos(angle), np.sin(angle)

    return lambda: pe.build_rope_cache(length, width), tables


FUNCTIONS = {
    "attention_weights": attention_weights,
    "merge_attention": merge_attention,
    "Rope.shift": shift,
    "Rope.cache": cache,
    "build_rope_cache": build_rope_cache,
    "clock": clock,
    "positions_from_mask": positions_from_mask,
    "positions_from_lengths": positions_from_lengths,
    "sinusoidal": sinusoidal,
}


def function_calls(problem: Problem) -> dict[str, Call]:
    """The call and the lines of NumPy that do the same."""
    ours, theirs = FUNCTIONS[problem.case.op](problem)
    return {"pe": ours, "numpy": theirs}
