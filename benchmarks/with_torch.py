"""The same calls through PyTorch: fused attention, flex_attention compiled, rotations and biases of tensors.

Each function takes a problem and a number of threads and returns one call, or raises `Unavailable` with the
reason. Masks and biases a library cannot form by itself are handed to it ready made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .calls import (
    SOFTCAP,
    Call,
    Problem,
    Unavailable,
    dense_bias,
    optional,
    refuse_more_than_a_bias,
)

torch = optional("torch")


def as_tensor(array: np.ndarray) -> Any:
    """The same memory as a tensor; bfloat16 goes by its bits."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def torch_call(problem: Problem, threads: int) -> Call:
    """scaled_dot_product_attention; a complex product (adjacent pairs), the usual formula (half-split)."""
    if torch is None:
        raise Unavailable("torch is not installed")
    case = problem.case
    if case.op == "attention":
        return torch_attention(problem)
    if case.op == "retention":
        raise Unavailable("torch has no retention")
    if case.op.endswith("_bias"):
        return torch_bias(problem)
    x = as_tensor(problem.x.copy())
    cos, sin = (torch.from_numpy(table) for table in problem.tables)
    if problem.has("half"):
        cos, sin = (torch.cat([table, table], -1).to(x.dtype) for table in (cos, sin))

        def call() -> Any:
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        return call
    if x.dtype not in (torch.float32, torch.float64):
        raise Unavailable("torch has no complex numbers of this width")
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    turn = torch.complex(cos, sin).to(pairs.dtype)
    if problem.has("fresh"):
        return lambda: torch.view_as_real(torch.mul(pairs, turn)).flatten(-2)
    out = torch.empty_like(x)
    result = torch.view_as_complex(out.unflatten(-1, (-1, 2)))

    def call_complex() -> Any:
        torch.mul(pairs, turn, out=result)
        return out

    return call_complex


def torch_attention(problem: Problem) -> Call:
    """The fused kernel; a dense mask only where is_causal does not say it."""
    refuse_more_than_a_bias(problem, "torch")
    q, k, v = (as_tensor(array) for array in (problem.x, problem.k, problem.v))
    keywords: dict = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    if set(problem.case.words) <= {"causal", "views", "fresh"} and q.shape[2] in (1, k.shape[2]):
        keywords["is_causal"] = problem.has("causal") and q.shape[2] > 1
    else:
        bias = torch.from_numpy(dense_bias(problem)).to(q.dtype)
        keywords["attn_mask"] = bias[None] if bias.ndim == 3 else bias
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, **keywords)


def torch_bias(problem: Problem) -> Call:
    """One product into a reused output; the future is infinite in the table of gaps."""
    kind = as_tensor(np.empty(0, problem.dtype)).dtype
    gap = np.abs(problem.gap) if problem.has("both") else np.where(problem.gap < 0, np.inf, problem.gap)
    gap, slopes = (torch.from_numpy(array).to(kind) for array in (gap, -problem.slopes[:, None, None]))
    if problem.has("fresh"):
        return lambda: torch.mul(slopes, gap)
    out = torch.ones(problem.case.shape, dtype=kind)
    return lambda: torch.mul(slopes, gap, out=out)


FLEX = {"alibi", "window", "softcap"}  # what its score and mask functions are there for


def flex_call(problem: Problem, threads: int) -> Call:
    """flex_attention compiled, with a block mask: for windows, slopes and caps (compiling takes seconds)."""
    words, case = set(problem.case.words), problem.case
    if torch is None:
        raise Unavailable("torch is not installed")
    if case.op != "attention" or not words & FLEX or words - FLEX - {"causal"} or case.dtype != "float32":
        raise Unavailable("flex_attention is timed for windows, slopes and caps in float32")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (as_tensor(array) for array in (problem.x, problem.k, problem.v))
    slopes, shift = torch.from_numpy(problem.slopes.astype(np.float32)), k.shape[2] - q.shape[2]
    window = case.window or k.shape[2] + 1

    def visible(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (i + shift >= j) & (i + shift - j < window)

    def score(value: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if "softcap" in words:
            value = SOFTCAP * torch.tanh(value / SOFTCAP)
        return value - slopes[h] * (i + shift - j) if "alibi" in words else value

    blocks = create_block_mask(visible, None, None, q.shape[2], k.shape[2], device="cpu")
    torch.compiler.reset()
    attend = torch.compile(flex_attention)
    changed = {"score_mod": score} if words & {"alibi", "softcap"} else {}
    return lambda: attend(q, k, v, block_mask=blocks, **changed)
