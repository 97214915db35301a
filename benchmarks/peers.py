"""Who is timed beside `pe`: NumPy always, PyTorch and ONNX Runtime where they are installed."""

from __future__ import annotations

import contextlib

import numpy as np

from .calls import Call, Problem, Unavailable, numpy_call, optional, pe_call
from .functions import FUNCTIONS, function_calls
from .with_onnx import gqa_call, mha_call, onnx_call, onnxruntime
from .with_torch import flex_call, torch, torch_call

# The column of each, and what makes its call. The last two are operators of ONNX Runtime's own.
PEERS = {
    "numpy": lambda problem, threads: numpy_call(problem),
    "torch": torch_call,
    "flex": flex_call,
    "onnxruntime": onnx_call,
    "mha": mha_call,
    "gqa": gqa_call,
}
ATTENTION_ONLY = {"flex", "mha", "gqa"}

threadpoolctl = optional("threadpoolctl")
_pools = threadpoolctl.ThreadpoolController().lib_controllers if threadpoolctl else []
_blas = [library for library in _pools if library.user_api == "blas"]


def installed(quick: bool = False) -> list[str]:
    """The peers that can run here; `quick` leaves out those whose every case compiles for seconds."""
    found = ["numpy"]
    if torch:
        found += ["torch"] if quick else ["torch", "flex"]
    return found + (["onnxruntime", "mha", "gqa"] if onnxruntime and optional("onnx") else [])


def set_threads(threads: int) -> None:
    """Give NumPy's BLAS and torch this many threads; ONNX Runtime is told when its session is made."""
    for library in _blas:
        library.set_num_threads(threads)
    if torch:
        torch.set_num_threads(threads)


def describe() -> dict[str, str]:
    """Versions of the peers, and the core NumPy's BLAS has chosen: "x times NumPy" depends on it."""
    blas = ", ".join(
        " ".join(
            str(part) for part in (lib.internal_api, lib.version, getattr(lib, "architecture", None)) if part
        )
        for lib in _blas
    )
    found = {
        "numpy": f"{np.__version__} on {blas or 'a BLAS whose core is unknown (threadpoolctl is missing)'}"
    }
    for module in torch, onnxruntime:
        if module:
            found[module.__name__] = module.__version__
    return found


def calls(problem: Problem, threads: int, names: list[str]) -> dict[str, Call]:
    """`pe` first; where there is one, the same attention without its extras ("plain"); then the peers."""
    if problem.case.op in FUNCTIONS:
        return function_calls(problem)
    found = {"pe": pe_call(problem, threads)}
    if problem.case.plain and problem.case.plain != problem.case:
        found["plain"] = pe_call(Problem(problem.case.plain), threads)
    for name in names:
        with contextlib.suppress(Unavailable):
            found[name] = PEERS[name](problem, threads)
    return found
