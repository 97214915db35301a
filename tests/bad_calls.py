"""A good call of each op, and `refused`: spoil some of its arguments and see how it is refused."""

import numpy as np
import pytest

import pe

NAN, INF = float("nan"), float("inf")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def calls():
    """Fresh arguments, as tests look at whether they were written."""
    cos, sin = pe.build_rope_cache(5, 8)
    x, rows = normal(2, 3, 5, 8), np.arange(5)
    q, k, v = normal(2, 4, 3, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 8, seed=2)
    points = {"q_positions": np.arange(3.0), "k_positions": np.arange(5.0)}
    steer = {"mask": np.ones((2, 1, 3, 5), bool), "bias": np.ones((3, 5)), "alibi_slopes": np.ones(4),
             "decay_rate": 0.5, "rope": pe.Rope(8), "window": 9, "clock": np.linspace(0.0, 1.0, 5),
             "softcap": 2.0, "sinks": np.zeros(4), "segments": (np.zeros(3, int), np.zeros(5, int)),
             "kv_lengths": np.array([5, 5])}
    return {
        "positions": (pe.apply_rope, {"x": x, "positions": rows}),
        "tables": (pe.apply_rope, {"x": x, "cos": cos, "sin": sin}),
        "2d": (pe.apply_rope_2d, {"x": x, "pos_x": rows, "pos_y": rows}),
        "nd": (pe.apply_rope_nd, {"x": x, "positions": normal(5, 2), "freqs": normal(2, 3, 4, seed=1),
                                  "rate": normal(2, 4, seed=2)}),
        "decay": (pe.decay_bias, {**points, "rate": [0.1, 0.2]}),
        "clock": (pe.decay_bias, {**points, "clock": np.linspace(0.0, 1.0, 5)}),
        "alibi": (pe.alibi_bias, {**points, "slopes": [0.1, 0.2]}),
        "attention": (pe.attention, {"q": q, "k": k, "v": v, **steer, **points}),
    }


def refused(name, exception, *fragments, drop=(), **changes):
    """Call the op with some arguments changed; it must raise, say all the fragments, and write nothing."""
    op, arguments = calls()[name]
    shape = np.shape(op(**arguments))
    arguments = {key: value for key, value in arguments.items() if key not in drop} | changes
    arguments.setdefault("out", np.full(shape, 7.0))
    arrays = [a for a in arguments.values() if type(a) is np.ndarray]
    before = [a.tobytes() for a in arrays]
    with pytest.raises(exception) as caught:
        op(**arguments)
    text = str(caught.value)
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in {text!r}"
    assert [a.tobytes() for a in arrays] == before
    assert len(text) < 400 and "\n" not in text
