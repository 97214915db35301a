"""The same calls through PyTorch and ONNX Runtime, where they are installed.

Each function takes a problem and a number of threads and returns one call, or raises `Unavailable` with the
reason. Masks and biases a library cannot form by itself are handed to it ready made.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np

from .calls import Call, Problem, Unavailable, dense_bias, numpy_call, pe_call, refuse_more_than_a_bias
from .functions import FUNCTIONS, function_calls


def optional(name: str) -> Any:
    """The module, or None; an install that misses a shared library counts as absent."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):
        return None


torch, onnx, onnxruntime = (optional(name) for name in ("torch", "onnx", "onnxruntime"))
threadpoolctl = optional("threadpoolctl")
_pools = threadpoolctl.ThreadpoolController().lib_controllers if threadpoolctl else []
_blas = [library for library in _pools if library.user_api == "blas"]


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


# ---- torch -------------------------------------------------------------------------------------------------


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
    out = torch.empty_like(x)
    turn, result = torch.complex(cos, sin).to(pairs.dtype), torch.view_as_complex(out.unflatten(-1, (-1, 2)))

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


# ---- ONNX Runtime ------------------------------------------------------------------------------------------


def onnx_call(problem: Problem, threads: int) -> Call:
    """The standard's Attention and RotaryEmbedding (operator set 23) as a model of one node."""
    if onnx is None or onnxruntime is None:
        raise Unavailable("onnx and onnxruntime are not both installed")
    case, kind = problem.case, problem.dtype
    if case.op not in ("attention", "apply_rope") or case.dtype not in ("float32", "float16"):
        raise Unavailable(f"onnxruntime has no {case.op} in {case.dtype} on a CPU")
    if case.op == "apply_rope":
        if problem.has("positions"):
            raise Unavailable("RotaryEmbedding takes one position for all heads")
        cos, sin = (table.astype(kind) for table in problem.tables)
        positions = np.broadcast_to(np.arange(case.shape[2]), (case.shape[0], case.shape[2]))
        operands = {"x": problem.x.copy(), "cos": cos, "sin": sin, "positions": positions}
        return session_call(
            "RotaryEmbedding", operands, case.shape, threads, interleaved=int(not problem.has("half"))
        )
    refuse_more_than_a_bias(problem, "onnxruntime")
    operands = {"q": problem.x, "k": problem.k, "v": problem.v}
    causal = problem.has("causal") and case.shape[2] > 1
    if set(case.words) - {"causal", "views", "fresh"} or (
        causal and case.shape[2] != case.heads_and_length[1]
    ):
        causal, mask = False, dense_bias(problem).astype(kind)
        operands["mask"] = mask[None] if mask.ndim == 3 else mask
    return session_call("Attention", operands, case.shape, threads, is_causal=int(causal))


def session_call(
    node: str, operands: dict[str, np.ndarray], shape: tuple, threads: int, **attributes: int
) -> Call:
    """One node with all its operands bound, writing into one reused output."""
    helper = onnx.helper
    operands = {name: np.ascontiguousarray(array) for name, array in operands.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in operands.items()}
    first = next(iter(operands))
    graph = helper.make_graph(
        [helper.make_node(node, list(operands), ["out"], **attributes)], "one",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in operands.items()],
        [helper.make_tensor_value_info("out", kinds[first], shape)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in operands.items():
        binding.bind_cpu_input(name, array)
    out = np.empty(shape, operands[first].dtype)
    binding.bind_output("out", "cpu", 0, out.dtype, out.shape, out.ctypes.data)

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        return out

    return call


# ---- all of them -------------------------------------------------------------------------------------------


def calls(problem: Problem, threads: int) -> dict[str, Call]:
    """`pe` first; where there is one, the same attention without its extras ("plain"); then the peers."""
    if problem.case.op in FUNCTIONS:
        return function_calls(problem)
    found = {"pe": pe_call(problem, threads)}
    if problem.case.plain and problem.case.plain != problem.case:
        found["plain"] = pe_call(Problem(problem.case.plain), threads)
    for name, make in (
        ("numpy", lambda p, _: numpy_call(p)),
        ("torch", torch_call),
        ("onnxruntime", onnx_call),
    ):
        with contextlib.suppress(Unavailable):
            found[name] = make(problem, threads)
    return found
