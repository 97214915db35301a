"""What retention refuses, in `pe._check.retention`: shapes, rates, times, states."""

import ml_dtypes
import numpy as np
import pytest

import pe
from pe._keywords import PEERS


def good():
    q, k, v = (np.random.default_rng(h).normal(size=(2, h, 5, n)) for h, n in ((4, 8), (2, 8), (2, 6)))
    return {"q": q, "k": k, "v": v, "rate": np.ones(4), "rope": pe.Rope(8), "positions": np.arange(5.0),
            "scale": 0.5, "state": pe.RetentionState(np.ones((2, 4, 8, 6)))}


def refused(exception, *fragments, drop=(), **changes):
    """Spoil a good call: it must raise, say all the fragments, and write nothing."""
    arguments = {key: value for key, value in good().items() if key not in drop} | changes
    arguments.setdefault("out", np.full((2, 4, 5, 6), 7.0))
    out = arguments["out"]
    before = out.tobytes() if isinstance(out, np.ndarray) else None
    with pytest.raises(exception) as caught:
        pe.retention(**arguments)
    text = str(caught.value)
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in {text!r}"
    assert len(text) < 400 and "\n" not in text
    assert before is None or out.tobytes() == before


def test_the_call_spoilt_below_is_good():
    out = np.full((2, 4, 5, 6), 7.0)
    assert pe.retention(**good(), out=out) is out and not (out == 7).any()


@pytest.mark.parametrize("changes, exception, fragments", [
    ({"k": np.ones((2, 2, 5, 7))}, ValueError, ["k has width 7", "q has width 8"]),
    ({"k": np.ones((2, 2, 6, 8)), "v": np.ones((2, 2, 6, 6))}, ValueError,
     ["k has 6 rows", "q has 5", "state="]),
    ({"v": np.ones((2, 2, 4, 6))}, ValueError, ["v has 4 rows", "k has 5"]),
    ({"k": np.ones((2, 3, 5, 8)), "v": np.ones((2, 3, 5, 6))}, ValueError, ["K = 3", "divide", "swapaxes"]),
    ({"q": np.ones(5)}, ValueError, ["q has shape (5,)", "(rows, width)"]),
    ({"q": np.ones((2, 4, 5, 8), "f2"), "k": np.ones((2, 2, 5, 8), ml_dtypes.bfloat16)}, TypeError,
     ["float16", "bfloat16"]),
    ({"rate": -1.0}, ValueError, ["rate has -1.0", ">= 0", "explodes"]),
    ({"rate": np.nan}, ValueError, ["rate has nan"]), ({"rate": np.inf}, ValueError, ["rate has inf"]),
    ({"rate": [0.1, np.nan, 0.1, 0.1]}, ValueError, ["rate has nan"]),
    ({"rate": np.array([0.1, -0.5, 0.1, 0.1])}, ValueError, ["rate has -0.5"]),
    ({"rate": np.ones(3)}, ValueError, ["rate has shape (3,)", "(2,)", "(4,)", "key head", "query head"]),
    ({"rate": np.ones(1)}, ValueError, ["rate has shape (1,)", "(4,)"]),
    ({"rate": np.ones((2, 4))}, ValueError, ["rate has shape (2, 4)"]),
    ({"rate": "fast"}, TypeError, ["rate has dtype"]),
    ({"rate": None}, TypeError, ["no decay", "rate= (0 forgets nothing", "multiplier="]),
    ({"multiplier": 0.5}, TypeError, ["rate= and multiplier="]),
    ({"rate": None, "multiplier": 1.5}, ValueError, ["multiplier has 1.5", "(0, 1]", "explodes"]),
    ({"rate": None, "multiplier": 0.0}, ValueError, ["multiplier has 0.0"]),
    ({"rate": None, "multiplier": np.ones(3)}, ValueError, ["multiplier has shape (3,)"]),
    ({"scale": np.inf}, ValueError, ["scale is inf"]), ({"scale": "1"}, TypeError, ["scale is '1'"]),
    ({"rope": 10000.0}, TypeError, ["rope has type float", "pe.Rope(8)"]),
    ({"rope": pe.Rope(6)}, ValueError, ["D = 6", "D = 8"]),
    ({"rope": pe.Rope(8, freqs=np.ones((2, 4))), "positions": None}, TypeError,
     ["rope has 2 axes", "positions", "(5, 2)"]),
    ({"rope": pe.Rope(8, freqs=np.ones((2, 4)))}, ValueError, ["positions has shape (5,)", "(..., 2)"]),
    ({"positions": 5}, TypeError, ["positions is 5", "np.arange(n)"]),
    ({"positions": np.arange(4)}, ValueError, ["positions has shape (4,)", "(5,)"]),
    ({"positions": np.ones((2, 5))}, ValueError, ["positions has shape (2, 5)", "positions[:, None, :]"]),
    ({"positions": [0, 1, 3, 2, 4]}, ValueError, ["positions fall from 3", "to 2", "[3]", "never fall"]),
    ({"positions": [0, 1, np.nan, 2, 4]}, ValueError, ["positions[2] is nan"]),
    ({"positions": np.arange(5) - 3}, ValueError, ["positions begin at -3", "state.position = -1"]),
    ({"positions": np.arange(5, dtype="f2")}, TypeError, ["positions has dtype float16"]),
    ({"clock": (np.arange(5.0), np.arange(5.0))}, TypeError, ["clock is a tuple", "one array"]),
    ({"clock": np.arange(4.0)}, ValueError, ["clock has shape (4,)", "(5,)"]),
    ({"clock": np.arange(5.0)[::-1]}, ValueError, ["clock runs back", "pe.clock(log_gates)"]),
    ({"clock": np.arange(5.0) - 9}, ValueError,
     ["clock begins at -9.0", "state.clock = 0", "state.clock + clock"]),
    ({"clock": np.ones((2, 3, 5))}, ValueError, ["clock has shape (2, 3, 5)", "(2, 4, 5)"]),
    ({"state": np.ones((2, 4, 8, 6))}, TypeError, ["state is a ndarray", "pe.RetentionState(S)"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 6, 8)))}, ValueError,
     ["state.S has shape (2, 4, 6, 8)", "(2, 2, 8, 6)", "(2, 4, 8, 6)"]),
    ({"state": pe.RetentionState(np.ones((2, 1, 8, 6)))}, ValueError, ["state.S has shape (2, 1, 8, 6)"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 8, 6), bool))}, TypeError, ["state.S has dtype bool"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 8, 6)), np.nan)}, ValueError, ["state.position is nan"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 8, 6)), None)}, TypeError, ["state.position is None"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 8, 6)), np.zeros(3))}, ValueError,
     ["state.position has shape (3,)", "(2, 2)"]),
    ({"state": pe.RetentionState(np.ones((2, 4, 8, 6)), -1, 0.5)}, TypeError,
     ["clock= is missing", "state.clock"]),
    ({"return_state": 1}, TypeError, ["return_state is 1", "True or False"]),
    ({"num_threads": 0}, ValueError, ["num_threads", "at least 1"]),
    ({"out": np.zeros((2, 4, 5, 8))}, ValueError, ["out has shape (2, 4, 5, 8)", "(2, 4, 5, 6)"]),
    ({"out": np.zeros((2, 4, 5, 6), int)}, TypeError, ["out has dtype int64", "float64"]),
    ({"out": [0]}, TypeError, ["out", "list"]),
    ({"q": np.ma.ones((2, 4, 5, 8))}, TypeError, ["q is a masked array"]),
    ({"k": np.ones((2, 2, 5, 8), complex)}, TypeError, ["k has dtype complex128"]),
    ({"v": np.ones((2, 2, 5, 6), np.uint16)}, TypeError, ["v has dtype uint16", "ml_dtypes"]),
])
def test_refused(changes, exception, fragments):
    refused(exception, *fragments, **changes)


def test_width_zero_needs_a_scale():
    refused(ValueError, "D = 0", "scale=", q=np.ones((2, 4, 5, 0)), k=np.ones((2, 2, 5, 0)), rope=None,
            scale=None, state=None)


@pytest.mark.parametrize("keyword", PEERS["retention"])
def test_keywords_of_others_name_ours(keyword):
    refused(TypeError, f"no keyword {keyword}=", PEERS["retention"][keyword], **{keyword: 1})


@pytest.mark.parametrize("rope", [None, pe.Rope(2)])
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist])
def test_rows_do_not_count_beyond_the_farthest_position(kind, rope):
    x = kind(np.ones((3, 2)))
    last = pe.RetentionState(np.zeros((2, 2)), 2**53 - 3)
    assert pe.retention(x, x, x, rate=0.0, rope=rope, state=last, return_state=True)[1].position == 2**53
    beyond = pe.RetentionState(np.zeros((2, 2)), 2**53 - 2)
    with pytest.raises(ValueError, match=r"state.position is 9007199254740990 and 3 rows follow; .* 2\^53"):
        pe.retention(x, x, x, rate=0.0, rope=rope, state=beyond)
