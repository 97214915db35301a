"""The page docs/coming-from.md: every row names golden cases that show it, with the keywords it tells to use.

The cases that other files do not run are run here: those of flash-attn, JAX and MLX.
"""

import inspect
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from golden_cases import arrays, op_cases, rope_cases

import pe
import pe.reference
from pe import _keywords as keywords

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
OPS = [pytest.param(pe, id="pe"), pytest.param(pe.reference, id="twin")]
OWN = {name for op in (pe.attention, pe.attention_weights, pe.apply_rope, pe.apply_rope_2d, pe.alibi_bias,
                       pe.decay_bias, pe.retention, pe.alibi_slopes, pe.Rope)
       for name in inspect.signature(op).parameters}
OPERANDS = {"q", "k", "v", "slopes", "outs", "lses", "form"}
MEAN_OF_VALUES = {"jax_masked_rows": "masked", "mlx_masked_rows": "masked", "mlx_causal_more_queries": None}


def rows():
    """The page as (library, there, here, {file: names of cases})."""
    library, found = "", []
    for line in PAGE.read_text().splitlines():
        if not line.startswith("| ") or line.startswith("| from |"):
            continue
        of, there, here, golden = (cell.strip() for cell in line.strip("|").split(" | "))
        library = of or library
        named = dict(part.split(": ") for part in golden.split("; "))
        found.append((library, there, here, {file: names.split(", ") for file, names in named.items()}))
    return found


ROWS = [pytest.param(*row, id=f"{i}-{row[0]}") for i, row in enumerate(rows())]


def named(text, sign="="):
    """The keywords written as name= in the code of a cell."""
    return set(re.findall(rf"\b(\w+){sign}(?!=)", " ".join(re.findall(r"`([^`]*)`", text))))


@pytest.mark.parametrize("library, there, here, golden", ROWS)
def test_every_row_has_numbers_and_they_use_its_keywords(library, there, here, golden):
    assert golden
    assert named(here) <= OWN, named(here) - OWN
    for file, names in golden.items():
        if "index" not in arrays(file):
            assert set(names) <= {name for name, _ in rope_cases(file)}
            continue
        cases = {case.name: case for case in op_cases(file)}
        for name in names:
            if name in arrays(file):                        # of tests/test_weights.py
                continue
            used = {re.sub("^segments_[qk]$", "segments", keyword) for keyword in cases[name].keywords}
            assert used - OPERANDS <= named(here), name


@pytest.mark.parametrize("library, there, here, golden", ROWS)
def test_keywords_of_theirs_are_refused_with_ours(library, there, here, golden):
    for peer in named(there) - OWN:
        ops = [op for op, peers in keywords.PEERS.items() if peer in peers]
        assert ops, peer
        for op in ops:
            with pytest.raises(TypeError, match=f"{peer}="):
                attrgetter(op)(pe)(**{peer: 1})


# flash-attn, JAX and MLX


def peers(op):
    return [pytest.param(case, id=case.name) for case in op_cases("attention_peers") if case.op == op]


def arguments(case):
    """The case as keywords of pe.attention."""
    args = {**case.args, **case.kwargs}
    if "segments_q" in args:
        args["segments"] = args.pop("segments_q"), args.pop("segments_k")
    if isinstance(args.get("window"), list):
        args["window"] = tuple(args["window"])
    return args


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", peers("attention"))
def test_attention_of_flash_attn_jax_and_mlx(case, dtype, ops):
    args = arguments(case)
    q, k, v = (args.pop(name).astype(dtype) for name in "qkv")
    out, lse = ops.attention(q, k, v, return_lse=True, **args)
    tolerance = {"rtol": 0, "atol": 1e-13 if dtype == np.float64 else 3e-6}
    np.testing.assert_allclose(out, case.expect["out"], **tolerance)
    np.testing.assert_allclose(lse, case.expect["lse"], **tolerance)


@pytest.mark.parametrize("case", peers("attention"))
def test_what_they_gave_is_what_the_page_says(case):
    theirs, ours = case.peer_out["out"], case.expect["out"]
    blind = (ours == 0).all(axis=(1, 3))
    np.testing.assert_allclose(theirs.swapaxes(1, 2)[~blind], ours.swapaxes(1, 2)[~blind], rtol=0, atol=1e-6)
    if case.name in MEAN_OF_VALUES:
        assert blind.any()
        mean = np.repeat(case.args["v"].mean(axis=-2, dtype=np.float64), 2, axis=1)[:, None]
        mean = np.broadcast_to(mean, ours.swapaxes(1, 2).shape)
        np.testing.assert_allclose(theirs.swapaxes(1, 2)[blind], mean[blind], rtol=0, atol=1e-6)
    else:
        assert not theirs.swapaxes(1, 2)[blind].any()
    if "lse" in case.peer_out and not blind.any():
        np.testing.assert_allclose(case.peer_out["lse"], case.expect["lse"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("ops", OPS)
def test_attention_mask_of_hugging_face(ops):
    """A padded batch by the ones and zeros of its tokenizer, seen at its tokens."""
    case = next(case for case in op_cases("attention_transformers") if case.name == "bloom_left_padded")
    attention_mask = case.args["mask"].any(axis=(1, 2)).astype(np.int64)
    token = attention_mask.astype(bool)
    assert (attention_mask.sum(axis=-1) < 9).any()
    args = {**case.args, **case.kwargs, "mask": attention_mask.astype(bool)[:, None, None]}
    args["q_positions"] = args["k_positions"] = pe.positions_from_mask(token)[:, None]
    got, want = (out.swapaxes(1, 2)[token] for out in (ops.attention(**args), case.expect["out"]))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("case", peers("alibi_bias"))
def test_alibi_of_mlx(case, ops):
    out = ops.alibi_bias(slopes=pe.alibi_slopes(6), **case.kwargs)
    np.testing.assert_array_equal(out, case.expect["out"])
    np.testing.assert_array_equal(out, case.peer_out["out"])


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[0]) for c in rope_cases("rope_peers")])
def test_rotations_of_mlx(name, case, ops):
    for dtype in (np.float32, np.float64):
        out = ops.apply_rope(case.x.astype(dtype), positions=case.positions, freqs=case.freqs,
                             layout=case.layout)
        np.testing.assert_allclose(out, case.y_mlx, rtol=0, atol=2e-6)
        np.testing.assert_array_equal(out[..., case.rotary_dim:], case.x[..., case.rotary_dim:])
