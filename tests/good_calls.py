"""A good call of every op, with every keyword that takes an array; `run` makes it, its arrays converted."""

import numpy as np
from bad_calls import calls, normal

import pe

VALUES = ("x", "q", "k", "v")


def good_calls():
    """Those of bad_calls, where attention has all its keywords, of its weights, and of retention."""
    operands = {"q": normal(2, 4, 5, 8), "k": normal(2, 2, 5, 8, seed=1), "v": normal(2, 2, 5, 6, seed=2)}
    steer = {"rate": np.array([0.1, 0.2]), "positions": np.arange(5.0), "rope": pe.Rope(8)}
    attended = calls()["attention"][1]
    del attended["v"]
    return calls() | {"retention": (pe.retention, operands | steer),
                      "weights": (pe.attention_weights, attended)}


OPS = list(good_calls())
WITH_OUT = [name for name in OPS if name != "weights"]      # those that take out= and num_threads=


def run(name, convert=lambda name, a: a, **changes):
    """Call an op on good arguments, every array of them converted."""
    def converted(key, value):
        if isinstance(value, tuple):
            return tuple(converted(key, part) for part in value)
        return convert(key, np.asarray(value)) if isinstance(value, (np.ndarray, list)) else value

    op, arguments = good_calls()[name]
    return op(**{key: converted(key, value) for key, value in arguments.items()} | changes)


def to(dtype):
    """A conversion of the values to dtype that leaves what steers an op alone."""
    return lambda name, a: a.astype(dtype) if name in VALUES else a


def same(result, wanted):
    """The same bits in a plain ndarray of the same dtype."""
    assert type(result) is np.ndarray and result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted, strict=True)
