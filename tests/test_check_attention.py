"""What attention and the two biases refuse: shapes, masks, slopes."""

import re

import ml_dtypes
import numpy as np
import pytest
from bad_calls import INF, NAN, calls, normal, refused

import pe

# Biases


def test_exactly_one_decay():
    ways = ["exactly one", "rate=", "half_life=", "multiplier="]
    refused("decay", TypeError, "got no decay;", *ways, drop=["rate"])
    refused("decay", TypeError, "got rate= and half_life=;", *ways, half_life=1.0)
    refused("decay", TypeError, "got half_life= and multiplier=;", *ways, drop=["rate"], half_life=1.0,
            multiplier=0.5)


@pytest.mark.parametrize("bad", [-0.1, NAN, INF, -INF])
def test_slopes_and_rates(bad):
    why = "explodes" if bad < 0 else ""
    refused("decay", ValueError, "rate", str(bad), ">= 0", why, rate=[0.1, bad])
    refused("attention", ValueError, "decay_rate", str(bad), ">= 0", why, decay_rate=bad)
    why = "penalty" if bad < 0 else ""
    refused("alibi", ValueError, "slopes", str(bad), ">= 0", why, slopes=[0.1, bad])
    refused("attention", ValueError, "alibi_slopes", str(bad), ">= 0", why, alibi_slopes=[1, 2, 3, bad])


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, 1.5, INF])
def test_half_lives_and_multipliers(bad):
    refused("decay", ValueError, "multiplier", str(bad), "(0, 1]", "explodes", drop=["rate"],
            multiplier=[0.5, bad])
    for life in (bad, -bad):
        if not life > 0:
            for given in ([0.5, life], np.array([0.5, life]), life):
                refused("decay", ValueError, "half_life", str(life), "> 0", drop=["rate"], half_life=given)


@pytest.mark.parametrize("name", ["decay", "alibi"])
@pytest.mark.parametrize("dtype", ["i8", "c16", "O", "?"])
def test_bias_dtype(name, dtype):
    refused(name, TypeError, "dtype", str(np.dtype(dtype)), "float32", dtype=dtype)
    refused(name, TypeError, "dtype", "'floaty'", "float32", dtype="floaty")


def test_leading_axes_of_a_bias():
    refused("decay", ValueError, "rate (2,)", "q_positions (3, 1)", "equally many", "rate[None, :]",
            q_positions=np.zeros((3, 1, 3)))
    refused("alibi", ValueError, "slopes (2,)", "k_positions (3,)", "equal or 1",
            k_positions=np.zeros((3, 5)))


# Shapes of attention


@pytest.mark.parametrize("argument", ["q", "k", "v"])
@pytest.mark.parametrize("shape", [(), (8,)])
def test_attention_needs_rows(argument, shape):
    refused("attention", ValueError, argument, str(shape), "(rows, width)", **{argument: np.zeros(shape)})


@pytest.mark.parametrize("changes, fragments", [
    ({"k": (2, 2, 5, 6)}, ["k has width 6", "q has width 8"]),
    ({"v": (2, 2, 6, 8)}, ["v has 6 rows", "k has 5"]),
    ({"v": (2, 4, 5, 8)}, ["v has 4 heads", "k has 2"]),
    ({"v": (2, 1, 5, 8)}, ["v has 1 head ", "k has 2"]),
    ({"v": (2, 2, 1, 8)}, ["v has 1 row ", "k has 5"]),
    ({"k": (2, 3, 5, 8), "v": (2, 3, 5, 8)}, ["H = 4", "K = 3", "divide H"]),
    ({"k": (2, 8, 5, 8), "v": (2, 8, 5, 8)}, ["H = 4", "K = 8", "divide H", "is q really the queries?"]),
    ({"k": (2, 0, 5, 8), "v": (2, 0, 5, 8)}, ["H = 4", "K = 0", "divide"]),
    ({"k": (3, 2, 5, 8)}, ["batch axes", "q (2,)", "k (3,)", "equal or 1"]),
    ({"v": (3, 2, 5, 8)}, ["batch axes", "v (3,)"]),
])
def test_shapes_that_do_not_fit(changes, fragments):
    refused("attention", ValueError, *fragments, **{name: normal(*shape) for name, shape in changes.items()})


def test_scale_of_width_zero():
    refused("attention", ValueError, "D = 0", "scale=", q=np.zeros((2, 4, 3, 0)), k=np.zeros((2, 2, 5, 0)),
            drop=["rope"])


# Masks, biases, slopes of attention


@pytest.mark.parametrize("shape, index", [((2, 3, 5), "[:, None]"), ((4, 3, 5), "[None]"),
                                          ((2, 5), "[:, None, None]"), ((2, 4, 5), "[:, :, None]"),
                                          ((2, 1, 5), "[:, None]")])
def test_masks_say_the_index_that_fits(shape, index):
    mask = np.ones(shape, bool)
    refused("attention", ValueError, f"mask{index}", str(shape), "(2, 4, 3, 5)", mask=mask)
    op, arguments = calls()["attention"]
    op(**arguments | {"mask": eval(f"mask{index}")})
    for dtype in ("i8", "f4", "u1", ml_dtypes.bfloat16):
        numeric = mask.astype(dtype)
        refused("attention", TypeError, str(numeric.dtype), f"mask.astype(bool){index}", mask=numeric)


@pytest.mark.parametrize("shape", [(), (3,), (6,), (2, 5, 5), (1, 2, 4, 3, 5), (2, 2, 3, 5)])
def test_masks_that_fit_nowhere(shape):
    refused("attention", ValueError, "mask", str(shape), "(5,)", "(3, 5)", "(2, 4, 3, 5)",
            mask=np.ones(shape, bool))


def test_masks_of_numbers():
    heads = np.ones((2, 4), int)                            # batch and heads: nobody masks that
    refused("attention", TypeError, "mask.astype(bool), if 1 means may attend", mask=heads)
    ones, additive = np.ones((3, 5), int), np.where(np.tri(3, 5), 0, -INF)
    refused("attention", TypeError, "int64", "bool, True = may attend", "mask.astype(bool)", mask=ones)
    for shape in (), (1, 2, 4, 3, 5):                       # a number, and more axes than the scores
        refused("attention", TypeError, "it holds only 0 and 1: mask.astype(bool)", mask=np.ones(shape, int))
    refused("attention", TypeError, "mask", "float64", "bias=", mask=additive)
    refused("attention", TypeError, "mask", "float64", "bias=", mask=np.full((3, 5), -1e9))
    refused("attention", TypeError, "mask is 'causal'", "bool", "causal=True", mask="causal")
    for dtype in ("c8", "O", "S1"):
        mask = np.zeros((3, 5), dtype)
        refused("attention", TypeError, "mask", str(mask.dtype), "bool", mask=mask)


def test_bias():
    refused("attention", TypeError, "bias", "bool", "mask=", bias=np.ones((3, 5), bool))
    refused("attention", ValueError, "bias", "(2, 3, 5)", "bias[:, None], if its axes are batch, queries and "
            "keys", bias=np.ones((2, 3, 5)))
    for shape in [(3, 6), (4, 4), (2, 4), (3,)]:            # (2, 4): batch and heads, without keys
        refused("attention", ValueError, f"bias has shape {shape}", "expected (5,), (3, 5) or (2, 4, 3, 5), "
                "where any axis may be 1", bias=np.ones(shape))
    refused("attention", ValueError, "bias", "(1, 2, 4, 3, 5)", bias=np.ones((1, 2, 4, 3, 5)))


@pytest.mark.parametrize("name", ["alibi_slopes", "decay_rate"])
@pytest.mark.parametrize("shape", [(1,), (2,), (4, 1), (1, 4)])
def test_slopes_are_one_for_each_query_head(name, shape):
    refused("attention", ValueError, name, str(shape), "(4,)", **{name: np.ones(shape)})
    with pytest.raises(ValueError, match=re.escape("(1,), one for each query head")):
        pe.attention(normal(3, 8), normal(5, 8), normal(5, 8), **{name: np.ones(2)})
