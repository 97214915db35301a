"""The same calls through ONNX Runtime on a CPU: models of one node, all operands bound, outputs reused."""

from __future__ import annotations

import numpy as np

from .calls import MOST_PAIRS, Call, Problem, Unavailable, dense_bias, optional, refuse_more_than_a_bias

onnx, onnxruntime = optional("onnx"), optional("onnxruntime")
CONTRIB = "com.microsoft"


def _check(problem: Problem, *ops: str) -> None:
    if onnx is None or onnxruntime is None:
        raise Unavailable("onnx and onnxruntime are not both installed")
    if problem.case.op not in ops or problem.case.dtype not in ("float32", "float16"):
        raise Unavailable(f"onnxruntime has no {problem.case.op} in {problem.case.dtype} on a CPU")


def _added(problem: Problem) -> np.ndarray | None:
    """What must be added to the scores beside the causal rule, (1, H or 1, M, N), or None."""
    refuse_more_than_a_bias(problem, "onnxruntime")
    case = problem.case
    if case.shape[2] * case.heads_and_length[1] > MOST_PAIRS:
        raise Unavailable("scores of all pairs would take gigabytes")
    square = case.shape[2] == case.heads_and_length[1]
    if set(case.words) <= {"causal", "views", "fresh"} and (square or case.shape[2] == 1):
        return None
    mask = dense_bias(problem).astype(problem.dtype)
    return mask[None] if mask.ndim == 3 else mask[None, None]


def onnx_call(problem: Problem, threads: int) -> Call:
    """The standard's Attention and RotaryEmbedding (operator set 23)."""
    _check(problem, "attention", "apply_rope")
    case, kind = problem.case, problem.dtype
    if case.op == "apply_rope":
        if problem.has("positions"):
            raise Unavailable("RotaryEmbedding takes one position for all heads")
        cos, sin = (table.astype(kind) for table in problem.tables)
        positions = np.broadcast_to(np.arange(case.shape[2]), (case.shape[0], case.shape[2]))
        operands = {"x": problem.x.copy(), "cos": cos, "sin": sin, "positions": positions}
        adjacent = int(not problem.has("half"))
        return session_call(
            "RotaryEmbedding",
            operands,
            {"out": case.shape},
            threads,
            fresh=problem.has("fresh"),
            interleaved=adjacent,
        )
    operands, mask = {"q": problem.x, "k": problem.k, "v": problem.v}, _added(problem)
    causal = mask is None and problem.has("causal") and case.shape[2] > 1
    if mask is not None:
        operands["mask"] = mask
    return session_call("Attention", operands, {"out": case.shape}, threads, is_causal=int(causal))


def mha_call(problem: Problem, threads: int) -> Call:
    """MultiHeadAttention: rows before heads, as (B, T, H D)."""
    _check(problem, "attention")
    case = problem.case
    if case.shape[1] != case.heads_and_length[0]:
        raise Unavailable("MultiHeadAttention has no grouped heads")
    operands, mask = _rows_first(problem), _added(problem)
    causal = mask is None and problem.has("causal") and case.shape[2] > 1
    if mask is not None:
        operands |= {"": np.empty(0), " ": np.empty(0), "bias": mask}
    batch, heads, queries, width = case.shape
    out = {"out": (batch, queries, heads * width)}
    return session_call(
        "MultiHeadAttention",
        operands,
        out,
        threads,
        CONTRIB,
        num_heads=heads,
        unidirectional=int(causal),
    )


def gqa_call(problem: Problem, threads: int) -> Call:
    """GroupQueryAttention: causal by nature; its cache is filled but for the rows of the queries."""
    _check(problem, "attention")
    case, words = problem.case, set(problem.case.words)
    if "causal" not in words or words - {"causal", "window", "views", "fresh"}:
        raise Unavailable("GroupQueryAttention is causal, with a window at most")
    batch, heads, queries, width = case.shape
    key_heads, keys = case.heads_and_length
    rows = _rows_first(problem)
    new = {"query": rows["q"], "key": rows["k"][:, keys - queries :], "value": rows["v"][:, keys - queries :]}
    past = {"": np.empty(0), " ": np.empty(0)}
    if queries < keys:
        past = {"past_k": problem.k.copy(), "past_v": problem.v.copy()}
    lengths = {"lengths": np.full(batch, keys - 1, np.int32), "total": np.array(keys, np.int32)}
    cache = (batch, key_heads, keys, width)
    outs = {"out": (batch, queries, heads * width), "new_k": cache, "new_v": cache}
    return session_call(
        "GroupQueryAttention",
        new | past | lengths,
        outs,
        threads,
        CONTRIB,
        shared={"new_k": "past_k", "new_v": "past_v"} if queries < keys else {},
        num_heads=heads,
        kv_num_heads=key_heads,
        local_window_size=case.window or -1,
    )


def _rows_first(problem: Problem) -> dict[str, np.ndarray]:
    arrays = {"q": problem.x, "k": problem.k, "v": problem.v}
    return {name: a.swapaxes(1, 2).reshape(a.shape[0], a.shape[2], -1) for name, a in arrays.items()}


def session_call(
    node: str,
    operands: dict[str, np.ndarray],
    outputs: dict[str, tuple[int, ...]],
    threads: int,
    domain: str = "",
    *,
    shared: dict[str, str] | None = None,
    fresh: bool = False,
    **attributes: int,
) -> Call:
    """One node with all its operands bound, writing into reused outputs; `shared` outputs lie on an operand.

    With `fresh` each call writes into new arrays. Operands with a blank name are left out.
    """
    helper, shared = onnx.helper, shared or {}
    names = [name.strip() for name in operands]
    operands = {name: np.ascontiguousarray(array) for name, array in operands.items() if name.strip()}
    operands = {name: array.reshape(()) if name == "total" else array for name, array in operands.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in operands.items()}
    first = names[0]
    graph = helper.make_graph(
        [helper.make_node(node, names, list(outputs), domain=domain, **attributes)], "one",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in operands.items()],
        [helper.make_tensor_value_info(name, kinds[first], shape) for name, shape in outputs.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 23), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in operands.items():
        binding.bind_cpu_input(name, array)

    def bind() -> dict[str, np.ndarray]:
        made = {}
        for name, shape in outputs.items():
            out = operands[shared[name]] if name in shared else np.empty(shape, operands[first].dtype)
            binding.bind_output(name, "cpu", 0, out.dtype, out.shape, out.ctypes.data)
            made[name] = out
        return made

    kept = bind()

    def call() -> np.ndarray:
        made = bind() if fresh else kept
        session.run_with_iobinding(binding)
        return made["out"]

    return call
