"""Turn a row of the table into calls that can be timed: `pe`'s, and the NumPy composition beside it.

Everything that does not depend on the values (masks, tables, outputs) is made here, outside the timing, for
`pe` and for its peers alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import cycle
from typing import Any

import numpy as np

import pe

from .table import Case

Call = Callable[[], object]


class Unavailable(Exception):
    """A dtype or a peer that is not installed, or that cannot do the case; the message says which."""


def dtype_of(name: str) -> np.dtype:
    """The NumPy dtype of a name in the table; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Unavailable("bfloat16 needs ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


SOFTCAP = 50.0  # for the rows that ask for one
MOST_PAIRS = 2**28  # of query and key that a composition may hold in memory, several times over


def optional(name: str) -> Any:
    """The module, or None; an install that misses a shared library counts as absent."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):
        return None


@lru_cache(maxsize=4)
def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Standard normal float32; the large arrays of neighbouring rows are the same."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@dataclass
class Problem:
    """The operands of a case, each made when first asked for."""

    case: Case

    def has(self, word: str) -> bool:
        return word in self.case.words

    @cached_property
    def dtype(self) -> np.dtype:
        return dtype_of(self.case.dtype)

    def _values(self, shape: tuple[int, ...], seed: int) -> np.ndarray:
        if not self.has("views"):
            return normal(shape, seed).astype(self.dtype)
        batch, heads, length, width = shape
        return normal((batch, length, heads, width), seed).astype(self.dtype).swapaxes(1, 2)

    @cached_property
    def x(self) -> np.ndarray:
        """q, or what is rotated."""
        return self._values(self.case.shape, 1)

    @cached_property
    def k(self) -> np.ndarray:
        batch, _, _, width = self.case.shape
        return self._values((batch, *self.case.heads_and_length, width), 2)

    @cached_property
    def v(self) -> np.ndarray:
        batch, _, _, width = self.case.shape
        return self._values((batch, *self.case.heads_and_length, width), 3)

    @cached_property
    def out(self) -> np.ndarray | None:
        """A result to reuse, touched once; None when every call makes its own."""
        if self.has("fresh"):
            return None
        if self.has("in place"):
            return self.x
        return np.full(self.case.shape, 1, self.dtype)

    @property
    def segments(self) -> np.ndarray:
        return np.arange(self.case.shape[2]) * 2 // self.case.shape[2]

    @cached_property
    def clock(self) -> np.ndarray:
        """Learned time of every key."""
        return np.random.default_rng(9).random(self.case.heads_and_length[1]).cumsum() / 10

    @cached_property
    def slopes(self) -> np.ndarray:
        heads = self.case.shape[0] if self.case.op.endswith("_bias") else self.case.shape[1]
        return 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)

    @cached_property
    def past(self) -> np.ndarray:
        """The state of a retention, one for each query head."""
        batch, heads, _, width = self.case.shape
        return normal((batch, heads, width, width), 8)

    @cached_property
    def q_positions(self) -> np.ndarray:
        queries, keys = self.case.shape[2], self.case.heads_and_length[1]
        if self.has("positions"):
            return self.k_positions[keys - queries :]
        return np.arange(keys - queries, keys, dtype=float)

    @cached_property
    def k_positions(self) -> np.ndarray:
        keys = self.case.heads_and_length[1]
        if self.has("positions"):
            return np.random.default_rng(4).permutation(keys) + 0.25
        return np.arange(keys, dtype=float)

    @cached_property
    def gap(self) -> np.ndarray:
        """Query position minus key position, (M, N)."""
        if self.case.op.endswith("_bias"):
            _, queries, keys = self.case.shape
            return np.arange(keys - queries, keys)[:, None] - np.arange(keys)
        return self.q_positions[:, None] - self.k_positions

    @cached_property
    def mask(self) -> np.ndarray:
        """Three quarters true, and a query always sees its own position."""
        return (np.random.default_rng(5).random(self.gap.shape) < 0.75) | (self.gap == 0)

    @cached_property
    def dense_bias(self) -> np.ndarray:
        return np.random.default_rng(6).standard_normal(self.gap.shape, np.float32)

    @cached_property
    def freqs(self) -> np.ndarray:
        """Angular frequencies of the planes; a 2-D rotation spends half of them on each axis.

        Of three axes each turns every third plane, (3, L), or (3, H, L) where heads have their own.
        """
        planes = self.case.shape[-1] // (4 if self.case.op == "apply_rope_2d" else 2)
        freqs = 10000.0 ** (-np.arange(planes) / planes)
        if self.case.op != "apply_rope_nd":
            return freqs
        freqs = np.where(np.arange(planes) % 3 == np.arange(3)[:, None], freqs, 0)
        heads = 1 + np.arange(self.case.shape[1]) / self.case.shape[1]
        return freqs[:, None] * heads[:, None] if self.has("heads") else freqs

    @cached_property
    def points(self) -> np.ndarray:
        """Positions with three coordinates: of every row, or shared by all heads and sequences."""
        if self.has("positions"):
            return np.stack([self.row_positions + shift for shift in range(3)], axis=-1)
        return np.stack([np.arange(self.case.shape[2]), *self.grid], axis=-1)

    @cached_property
    def rate(self) -> np.ndarray | None:
        """Weak enough for float32 at the farthest point."""
        planes = self.case.shape[-1] // 2
        return np.full((3, planes), 10 / self.points.sum(-1).max()) if self.has("rate") else None

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin of every plane, as a caller prepares them for many calls."""
        if self.case.op == "apply_rope_2d":
            angle = np.concatenate([np.multiply.outer(p, self.freqs) for p in self.grid], axis=-1)
        elif self.case.op == "apply_rope_nd":
            angle = self.points @ (self.freqs.swapaxes(0, 1) if self.has("heads") else self.freqs)
        elif self.has("positions"):
            angle = self.row_positions[..., None] * self.freqs
        else:
            angle = np.multiply.outer(np.arange(self.case.shape[2]), self.freqs)
        kind = np.float64 if self.case.dtype == "float64" else np.float32
        size = np.exp(-self.points @ self.rate) if self.has("rate") else 1.0
        return (size * np.cos(angle)).astype(kind), (size * np.sin(angle)).astype(kind)

    @cached_property
    def row_positions(self) -> np.ndarray:
        return np.random.default_rng(7).integers(0, 100_000, self.case.shape[:-1]) + 0.25

    @cached_property
    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """(column, row) of a grid about as wide as high."""
        length = self.case.shape[2]
        width = 1 << (length.bit_length() // 2)
        return np.arange(length) % width, np.arange(length) // width


# ---- pe ----------------------------------------------------------------------------------------------------


def pe_call(problem: Problem, threads: int) -> Call:
    """The one line a user writes, with everything prepared."""
    case, has = problem.case, problem.has
    # A small call is timed as people make it: the thread count stays the setting's.
    keywords: dict = {} if case.section == "small" else {"num_threads": threads}
    if problem.out is not None:
        keywords["out"] = problem.out
    op = getattr(pe, case.op)
    if case.op == "attention":
        return attention_call(problem, keywords)
    if case.op == "retention":
        return retention_call(problem, keywords)
    if case.op == "apply_rope_2d":
        pos_x, pos_y = problem.grid
        return lambda: op(problem.x, pos_x, pos_y, **keywords)
    if case.op == "apply_rope_nd":
        keywords |= {"layout": "half" if has("half") else "interleaved", "rate": problem.rate}
        return lambda: op(problem.x, problem.points, problem.freqs, **keywords)
    if case.op == "apply_rope":
        keywords["layout"] = "half" if has("half") else "interleaved"
        x = problem.x
        if has("tables"):
            cos, sin = problem.tables
            return lambda: op(x, cos, sin, **keywords)
        positions = problem.row_positions if has("positions") else np.arange(case.shape[2])
        if has("moving"):
            steps = cycle([positions + step for step in range(8)])
            return lambda: op(x, positions=next(steps), **keywords)
        return lambda: op(x, positions=positions, **keywords)
    _, queries, keys = case.shape
    keywords |= {"slopes" if case.op == "alibi_bias" else "rate": problem.slopes, "causal": not has("both")}
    if problem.out is None:
        keywords["dtype"] = problem.dtype
    return lambda: op(queries, keys, **keywords)


def attention_call(problem: Problem, keywords: dict) -> Call:
    """`pe.attention` with the keywords its words ask for."""
    has, op = problem.has, pe.attention
    q, k, v = problem.x, problem.k, problem.v
    keywords["causal"] = has("causal")
    if has("alibi"):
        keywords["alibi_slopes"] = problem.slopes
    if has("decay"):
        keywords["decay_rate"] = problem.slopes
    if has("mask"):
        keywords["mask"] = problem.mask
    if has("bias"):
        keywords["bias"] = problem.dense_bias
    if has("window"):
        keywords["window"] = problem.case.window
    if has("segments"):
        keywords["segments"] = problem.segments
    if has("lengths"):  # the queries stay where they are, beside all keys
        keywords |= {"kv_lengths": problem.case.filled, "q_positions": problem.q_positions}
    if has("clock"):
        keywords["clock"] = problem.clock
    if has("softcap"):
        keywords["softcap"] = SOFTCAP
    if has("sinks"):
        keywords["sinks"] = problem.slopes
    if has("rope"):
        keywords["rope"] = pe.Rope(problem.case.shape[-1])
    if has("positions"):
        keywords |= {"q_positions": problem.q_positions, "k_positions": problem.k_positions}
    return lambda: op(q, k, v, **keywords)


def retention_call(problem: Problem, keywords: dict) -> Call:
    """`pe.retention`, from a state if its words say so."""
    op, q, k, v, rate = pe.retention, problem.x, problem.k, problem.v, problem.slopes
    if problem.has("rope"):
        keywords["rope"] = pe.Rope(problem.case.shape[-1])
    if not problem.has("state"):
        return lambda: op(q, k, v, rate=rate, **keywords)
    state = pe.RetentionState(problem.past)
    return lambda: op(q, k, v, rate=rate, state=state, return_state=True, **keywords)[0]


# ---- NumPy -------------------------------------------------------------------------------------------------


def numpy_call(problem: Problem) -> Call:
    """The short way to the same result in NumPy, into reused outputs where that is one keyword."""
    case = problem.case
    if case.dtype in ("float16", "bfloat16"):
        raise Unavailable(f"NumPy has no fast {case.dtype}")
    if case.op == "attention":
        return numpy_attention(problem)
    if case.op == "retention":
        return numpy_retention(problem)
    if case.op.endswith("_bias"):
        gap = np.abs(problem.gap) if problem.has("both") else np.where(problem.gap < 0, np.inf, problem.gap)
        slopes, gap = -problem.slopes[:, None, None].astype(problem.dtype), gap.astype(problem.dtype)
        out = None if problem.has("fresh") else np.full(case.shape, 1, problem.dtype)
        return lambda: np.multiply(slopes, gap, out=out)
    return numpy_rotation(problem)


def numpy_attention(problem: Problem) -> Call:
    """softmax(q k^T * scale + bias) v on the full (M, N) matrix; what is added is prepared."""
    if problem.has("rope"):
        raise Unavailable("NumPy would rotate in a call of its own")
    case = problem.case
    batch, heads, queries, width = case.shape
    key_heads, keys = case.heads_and_length
    if queries * keys > MOST_PAIRS:
        raise Unavailable("scores of all pairs would take gigabytes")
    q = problem.x.reshape(batch, key_heads, heads // key_heads, queries, width)
    k_t, v = problem.k[:, :, None].swapaxes(-1, -2), problem.v[:, :, None]
    scale = problem.dtype.type(width**-0.5)
    added = dense_bias(problem) if set(case.words) - {"views", "fresh"} else None
    if added is not None and added.ndim == 3:
        added = added.reshape(key_heads, heads // key_heads, queries, keys)
    capped = problem.has("softcap")
    sinks = None
    if problem.has("sinks"):
        sinks = problem.slopes.reshape(key_heads, -1, 1, 1).astype(problem.dtype)

    def call() -> np.ndarray:
        scores = q @ k_t
        scores *= scale
        if capped:
            np.tanh(scores / SOFTCAP, out=scores)
            scores *= SOFTCAP
        if added is not None:
            scores += added
        top = scores.max(axis=-1, keepdims=True)
        if sinks is not None:
            top = np.maximum(top, sinks)
        scores -= top
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        if sinks is not None:
            total += np.exp(sinks - top)
        scores /= total
        return (scores @ v).reshape(case.shape)

    return call


def numpy_retention(problem: Problem) -> Call:
    """Chunks of 64 rows, all heads at once; what depends on the rates alone is prepared."""
    if problem.has("rope"):
        raise Unavailable("NumPy would rotate in a call of its own")
    batch, heads, length, width = problem.case.shape
    group, kind = heads // problem.k.shape[1], problem.dtype.type
    rate, row = problem.slopes[:, None, None], np.arange(64)
    gap = row[:, None] - row
    inside = (np.where(gap >= 0, np.exp(-rate * np.maximum(gap, 0)), 0) * width**-0.5).astype(kind)
    before, after = (np.exp(-rate * n[:, None]).astype(kind) for n in (row + 1, 63 - row))
    past = problem.past if problem.has("state") else np.zeros((batch, heads, width, width))
    past, out = past.astype(kind), np.full(problem.case.shape, 1, kind)
    q, k, v = problem.x, *(np.repeat(a, group, axis=1) for a in (problem.k, problem.v))

    def call() -> np.ndarray:
        state = past
        for start in range(0, length, 64):
            n = min(64, length - start)
            qs, ks, vs = (a[:, :, start : start + n] for a in (q, k, v))
            scores = qs @ ks.swapaxes(-1, -2)
            scores *= inside[:, :n, :n]
            shared = qs @ state
            shared *= before[:, :n] * kind(width**-0.5)
            np.add(scores @ vs, shared, out=out[:, :, start : start + n])
            state = state * before[:, n - 1 : n] + (ks * after[:, 64 - n :]).swapaxes(-1, -2) @ vs
        return out

    return call


def refuse_more_than_a_bias(problem: Problem, peer: str) -> None:
    """Raise `Unavailable` for words that no array added to the scores stands for."""
    for word in "rope", "softcap", "sinks":
        if problem.has(word):
            raise Unavailable(f"{peer} has no {word} inside attention")


def dense_bias(problem: Problem) -> np.ndarray:
    """Sum all that is added to the scores, (M, N) or (H, M, N): what libraries without keywords need."""
    has, gap = problem.has, problem.gap
    added = np.zeros(gap.shape)
    if has("bias"):
        added = added + problem.dense_bias
    if has("alibi") or has("decay"):
        added = added - problem.slopes[:, None, None] * np.abs(gap)
    if has("mask"):
        added = np.where(problem.mask, added, -np.inf)
    if has("causal"):
        added = np.where(gap >= 0, added, -np.inf)
    if has("window"):
        added = np.where(gap < problem.case.window, added, -np.inf)
    if has("segments"):
        added = np.where(problem.segments[:, None] == problem.segments, added, -np.inf)
    if has("lengths"):
        added = np.where(np.arange(gap.shape[1]) < problem.case.filled, added, -np.inf)
    if has("clock"):
        added = added - np.abs(problem.clock[-len(gap) :, None] - problem.clock)
    return added.astype(np.float64 if problem.case.dtype == "float64" else np.float32)


def numpy_rotation(problem: Problem) -> Call:
    """Adjacent pairs: one complex product into a reused output. Half-split pairs: two products a half."""
    x, has = problem.x.copy(), problem.has
    cos, sin = problem.tables
    fresh, out = has("fresh"), np.full_like(x, 1)
    if not has("half"):
        complex_type = np.result_type(x.dtype, np.complex64)
        turn = (cos + 1j * sin).astype(complex_type)
        pairs, result = x.view(complex_type), out.view(complex_type)
        if fresh:
            return lambda: np.multiply(pairs, turn).view(x.dtype)

        def call() -> np.ndarray:
            np.multiply(pairs, turn, out=result)
            return out
    else:
        planes = x.shape[-1] // 2
        a, b = x[..., :planes], x[..., planes:]

        def call() -> np.ndarray:
            made = np.empty_like(x) if fresh else out
            np.subtract(a * cos, b * sin, out=made[..., :planes])
            np.add(a * sin, b * cos, out=made[..., planes:])
            return made

    return call
