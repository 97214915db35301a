"""What attention refuses as window, segments, lengths, sinks and clock."""

import re

import numpy as np
import pytest
from bad_calls import INF, NAN, calls, normal, refused

import pe

# The good call: q (2, 4, 3, 8), k and v (2, 2, 5, 8)


def attend(**changes):
    op, arguments = calls()["attention"]
    return op(**arguments | changes)


# Window


@pytest.mark.parametrize("value, exception, fragments", [
    (0, ValueError, ["window is 0", "at least 1", "None"]),
    (-1, ValueError, ["window is -1", "at least 1", "None"]),
    (2.0, TypeError, ["window is 2.0", "an int", "(left, right)"]),
    (True, TypeError, ["window is True", "an int"]),
    ("2", TypeError, ["window is '2'", "an int"]),
    (np.array([1, 2]), TypeError, ["window is an array of shape (2,)", "(left, right)"]),
    ((1, 2, 3), ValueError, ["window has 3 entries", "(left, right)"]),
    ((), ValueError, ["window has 0 entries"]),
    ((-1, 0), ValueError, ["window[0] is -1", ">= 0", "None: no bound"]),
    ((4, -1), ValueError, ["window[1] is -1", ">= 0", "None: no bound"]),
    ((NAN, 0), ValueError, ["window[0] is nan", "finite"]),
    ((0, INF), ValueError, ["window[1] is inf", "finite"]),
    (("1", 0), TypeError, ["window[0] is '1'", "number"]),
    ((0, np.ones(3)), TypeError, ["window[1] is an array of shape (3,)", "number"]),
])
def test_windows(value, exception, fragments):
    refused("attention", exception, *fragments, window=value)


@pytest.mark.parametrize("value", [1, np.int64(2), 10**400, (0, 0), [1, 2], (None, None), (0.5, None),
                                   (np.float32(1), np.int8(2))], ids=str)
def test_windows_that_are_fine(value):
    assert attend(window=value).shape == (2, 4, 3, 8)


# Segments


@pytest.mark.parametrize("value, exception, fragments", [
    (np.zeros(5, int), ValueError, ["segments is one array", "q has 3 rows", "k has 5", "a pair"]),
    ((np.zeros(3, int),), ValueError, ["segments is a tuple of 1", "a pair"]),
    ((0, 0, 1, 1, 1), ValueError, ["segments is a tuple of 5", "a pair"]),
    ((np.zeros(4, int), np.zeros(5, int)), ValueError, ["segments[0] has shape (4,)", "(3,)"]),
    ((np.zeros(3, int), np.zeros(4, int)), ValueError, ["segments[1] has shape (4,)", "(5,)"]),
    ((np.zeros((2, 3), int), np.zeros(5, int)), ValueError, ["segments[0]", "segments[0][:, None, :] fits"]),
    ((np.zeros(3, int), np.zeros((2, 5), int)), ValueError, ["segments[1]", "segments[1][:, None, :] fits"]),
    ((np.zeros((2, 2, 3), int), np.zeros(5, int)), ValueError, ["segments[0]", "(2, 4, 3)", "may be 1"]),
    ((np.zeros(3), np.zeros(5, int)), TypeError, ["segments[0] has dtype float64", "integers"]),
    ((np.zeros(3, int), np.zeros(5, bool)), TypeError, ["segments[1] has dtype bool", "integers"]),
    ((0, np.zeros(5, int)), TypeError, ["segments[0]", "single number", "one for each row"]),
    (np.ma.zeros(5, int), TypeError, ["segments", "masked array"]),
    ((np.zeros(3, int), None), TypeError, ["segments[1] is None"]),
    ((np.zeros(3, int), np.full(5, 2**63, np.uint64)), ValueError, ["segments[1]", "int64"]),
    ((np.zeros(3, object), np.zeros(5, int)), TypeError, ["segments[0] has dtype object", "integers"]),
    ([[0, 0], [1]], ValueError, ["segments", "inhomogeneous"]),
    ("abc", TypeError, ["segments has dtype <U3", "integers"]),
])
def test_segments(value, exception, fragments):
    refused("attention", exception, *fragments, segments=value)


def test_segments_that_are_fine():
    q, k, v = calls()["attention"][1]["q"], normal(2, 2, 3, 8), normal(2, 2, 3, 8)
    plain = pe.attention(q, k, v)
    for one in ([7, 7, 7], np.full(3, 7, np.uint8), np.full((2, 1, 3), 7, ">i4"), np.full((1, 1, 3), 2**62)):
        assert np.array_equal(pe.attention(q, k, v, segments=one), plain)
        assert np.array_equal(pe.attention(q, k, v, segments=(one, one)), plain)


# Lengths of keys


@pytest.mark.parametrize("value, exception, fragments", [
    (6, ValueError, ["kv_lengths is 6", "0 to N = 5"]),
    (-1, ValueError, ["kv_lengths is -1", "0 to N = 5"]),
    ([5, 6], ValueError, ["kv_lengths[1] is 6", "0 to N = 5"]),
    (np.array([6, 5], np.int16), ValueError, ["kv_lengths[0] is 6", "0 to N = 5"]),
    (np.array([5, -3]), ValueError, ["kv_lengths[1] is -3", "0 to N = 5"]),
    (np.array([5, 2**64 - 1], np.uint64), ValueError, ["kv_lengths", "int64"]),
    ([5, 5, 5], ValueError, ["kv_lengths has shape (3,)", "(2,)", "batch axes"]),
    (np.full((2, 1), 5), ValueError, ["kv_lengths has shape (2, 1)", "(2,)", "batch axes"]),
    (np.full((2, 4), 5), ValueError, ["kv_lengths has shape (2, 4)", "(2,)", "batch axes"]),
    (5.0, TypeError, ["kv_lengths has dtype float64", "integers"]),
    (np.array([True, True]), TypeError, ["kv_lengths has dtype bool", "integers"]),
])
def test_lengths(value, exception, fragments):
    refused("attention", exception, *fragments, kv_lengths=value)


def test_lengths_say_the_index_that_fits():
    q, k = normal(2, 3, 4, 1, 8), normal(2, 3, 2, 5, 8)
    with pytest.raises(ValueError, match=re.escape("kv_lengths[:, None] fits")):
        pe.attention(q, k, k, kv_lengths=[4, 5])
    assert pe.attention(q, k, k, kv_lengths=np.array([4, 5])[:, None]).shape == q.shape
    with pytest.raises(ValueError, match="one int, without a batch"):
        pe.attention(q[0, 0], k[0, 0], k[0, 0], kv_lengths=[5])
    for length in (3, np.int8(3), np.array(3)):
        alone = pe.attention(q[0, 0], k[0, 0, :, :3], k[0, 0, :, :3])
        assert np.array_equal(pe.attention(q[0, 0], k[0, 0], k[0, 0], kv_lengths=length), alone)


# Sinks


@pytest.mark.parametrize("value, fragments", [
    (NAN, ["sinks has nan", "below inf", "-inf"]), ([0, 1, INF, 2], ["sinks has inf", "below inf"]),
    (np.zeros(2), ["sinks has shape (2,)", "(4,)", "one for each query head"]),
    (np.zeros((4, 1)), ["sinks has shape (4, 1)", "(4,)"]), (np.zeros((2, 4)), ["sinks", "(2, 4)", "(4,)"]),
])
def test_sinks(value, fragments):
    refused("attention", ValueError, *fragments, sinks=value)


# Clocks


@pytest.mark.parametrize("value, exception, fragments", [
    (0.5, TypeError, ["clock is a single number", "one for each row", "a pair"]),
    ([0.0, 2, 1, 3, 4], ValueError, ["clock runs back, from 2.0 to 1.0 at [2]", "pe.clock"]),
    ([0.0, 1, NAN, 3, 4], ValueError, ["clock[2] is nan", "finite"]),
    ([0.0, 1, 2, 3, INF], ValueError, ["clock[4] is inf", "finite"]),
    (np.zeros(5, "f2"), TypeError, ["clock has dtype float16", "merge neighbouring clocks"]),
    (np.zeros(5, bool), TypeError, ["clock has dtype bool", "float64"]),
    ((np.zeros(3),), ValueError, ["clock is a tuple of 1", "a pair (of queries, of keys)"]),
    ((np.zeros(5), None), TypeError, ["clock[1] is None"]),
    (([0.0, 2, 1], np.zeros(5)), ValueError, ["clock[0] runs back", "[2]"]),
    ((np.zeros(3), [5.0, 4, 3, 2, 1]), ValueError, ["clock[1] runs back", "[1]"]),
])
@pytest.mark.parametrize("name", ["attention", "clock"])
def test_clocks(name, value, exception, fragments):
    refused(name, exception, *fragments, clock=value)


@pytest.mark.parametrize("value, fragments", [
    (np.zeros(4), ["clock has shape (4,)", "(5,)"]),
    (np.zeros((4, 5)), ["clock has shape (4, 5)", "clock[None, :, :] fits"]),
    (np.zeros((2, 5)), ["clock has shape (2, 5)", "clock[:, None, :] fits"]),
    (np.zeros((2, 2, 5)), ["clock has shape (2, 2, 5)", "query heads", "(2, 4, 5)"]),
    ((np.zeros(5), np.zeros(5)), ["clock[0] has shape (5,)", "(3,)"]),
    ((np.zeros(3), np.zeros(3)), ["clock[1] has shape (3,)", "(5,)"]),
    ((np.zeros((4, 3)), np.zeros(5)), ["clock[0]", "clock[0][None, :, :] fits"]),
])
def test_clocks_of_attention(value, fragments):
    refused("attention", ValueError, *fragments, clock=value)


def test_a_clock_of_keys_serves_no_more_queries_than_there_are_keys():
    q, k = normal(7, 8), normal(5, 8)
    with pytest.raises(ValueError, match=r"clock has 5 entries for 7 queries.*a pair"):
        pe.attention(q, k, k, clock=np.zeros(5))
    assert pe.attention(q, k, k, clock=(np.zeros(7), np.zeros(5))).shape == (7, 8)
    with pytest.raises(ValueError, match=r"clock has 5 entries for 7 queries.*a pair"):
        pe.decay_bias(7, 5, clock=np.zeros(5))
    assert pe.decay_bias(7, 5, clock=(np.zeros(7), np.zeros(5))).shape == (7, 5)


@pytest.mark.parametrize("value, fragments", [
    (np.zeros(4), ["clock has 4 entries for 5 keys"]),
    ((np.zeros(4), np.zeros(5)), ["clock[0] has 4 entries for 3 queries"]),
    ((np.zeros(3), np.zeros(4)), ["clock[1] has 4 entries for 5 keys"]),
    ((np.zeros((2, 3)), np.zeros((3, 5))), ["leading axes are clock[0] (2,), clock[1] (3,)", "equal or 1"]),
    ((np.zeros((2, 3)), np.zeros((1, 2, 5))), ["clock[0] (2,)", "clock[1] (1, 2)", "equally many"]),
])
def test_clocks_of_a_bias(value, fragments):
    refused("clock", ValueError, *fragments, clock=value)


def test_a_clock_takes_one_decay_at_most():
    refused("clock", TypeError, "got rate= and multiplier=", "exactly one", rate=1.0, multiplier=0.5)
    refused("clock", TypeError, "got no decay", "exactly one", drop=["clock"])


# A rope of several axes


def test_a_rope_of_several_axes_needs_its_positions():
    rope = pe.Rope(8, freqs=np.ones((2, 4)))
    points = {"q_positions": np.ones((3, 2)), "k_positions": np.ones((5, 2))}
    assert attend(rope=rope, **points).shape == (2, 4, 3, 8)
    refused("attention", TypeError, "rope has 2 axes", "q_positions is missing", "(3, 2)", rope=rope,
            k_positions=np.ones((5, 2)), drop=["q_positions"])
    refused("attention", TypeError, "rope has 2 axes", "k_positions is missing", "(5, 2)", rope=rope,
            q_positions=np.ones((3, 2)), drop=["k_positions"])
    refused("attention", ValueError, "k_positions has shape (5, 3)", "(..., 2)", rope=rope,
            **points | {"k_positions": np.ones((5, 3))})
    refused("attention", ValueError, "q_positions has shape (2, 3, 2)", "q_positions[:, None, :, :] fits",
            rope=rope, **points | {"q_positions": np.ones((2, 3, 2))})


def test_one_is_told_in_the_singular():
    one, two = np.ones((1, 2)), np.ones((2, 2))
    for call, words in (
            (lambda: pe.attention(one, one, one, kv_lengths=2), "expected 0 to N = 1 key$"),
            (lambda: pe.attention(one, one, one, window=(3,)), "window has 1 entry;"),
            (lambda: pe.retention(two, one, one, rate=0.1), r"k has 1 row \(shape"),
            (lambda: pe.clock(-one, axis=5), r"log_gates has 2 axes"),
            (lambda: pe.clock(-one[0], axis=5), r"log_gates has 1 axis \(shape")):
        with pytest.raises(ValueError, match=words):
            call()
