"""What every op refuses alike, in `pe._check`: arrays, switches, out=, keywords of other libraries."""

import inspect
import re
from operator import attrgetter

import ml_dtypes
import numpy as np
import pytest
from bad_calls import INF, NAN, calls, refused

import pe
from pe import _keywords as keywords
from pe._check.arrays import fitting_index, values

VALUES = [("positions", "x"), ("tables", "x"), ("2d", "x"), ("nd", "x"),
          ("attention", "q"), ("attention", "k"), ("attention", "v")]
NUMBERS = [*VALUES, ("tables", "cos"), ("tables", "sin"), ("nd", "freqs"), ("nd", "rate"),
           ("decay", "rate"), ("alibi", "slopes"),
           ("attention", "bias"), ("attention", "alibi_slopes"), ("attention", "decay_rate"),
           ("attention", "sinks")]
ARRAYS = [*NUMBERS, ("positions", "positions"), ("2d", "pos_x"), ("2d", "pos_y"), ("nd", "positions"),
          ("attention", "mask"),
          ("decay", "q_positions"), ("alibi", "k_positions"), ("attention", "q_positions"),
          ("attention", "k_positions"), ("clock", "clock"), ("attention", "clock"),
          ("attention", "kv_lengths")]


def spoilt(name, argument, convert):
    return {argument: convert(np.asarray(calls()[name][1][argument]))}


@pytest.mark.parametrize("name", calls())
def test_the_calls_spoilt_in_these_tests_are_good(name):
    op, arguments = calls()[name]
    out = np.full(np.shape(op(**arguments)), 7.0)
    assert op(**arguments, out=out) is out
    assert np.isfinite(out).any() and not (out == 7).any()


# Arrays


@pytest.mark.parametrize("name, argument", NUMBERS)
@pytest.mark.parametrize("dtype, advice", [("c8", ".real"), ("O", ".astype"), ("U", "dtype"), ("S", "dtype"),
                                           ("V4", "dtype"), ("M8[s]", "dtype"), ("g", "float32 or float64"),
                                           ("u2", "ml_dtypes.bfloat16"), ("?", "bool")])
def test_dtypes_that_are_no_numbers(name, argument, dtype, advice):
    if np.dtype(dtype) == np.float64:
        pytest.skip("longdouble is float64 here")
    value = np.zeros(np.shape(calls()[name][1][argument]), dtype)
    refused(name, TypeError, argument, str(value.dtype), advice, **{argument: value})


@pytest.mark.parametrize("name, argument", NUMBERS)
def test_smaller_floats_of_ml_dtypes(name, argument):
    small = spoilt(name, argument, lambda a: np.ones(a.shape, ml_dtypes.float8_e5m2))
    refused(name, TypeError, argument, "float8_e5m2", **small)


@pytest.mark.parametrize("name, argument", ARRAYS)
class TestContainers:
    def test_masked_arrays(self, name, argument):
        masked = spoilt(name, argument, np.ma.array)
        refused(name, TypeError, argument, "masked array", "filled", **masked)

    def test_ragged_lists(self, name, argument):
        refused(name, ValueError, argument, "list", "inhomogeneous", **{argument: [[1.0, 2.0], [3.0]]})

    def test_text_and_objects(self, name, argument):
        shown = "'abc'" if argument == "mask" or "slopes" in argument else "<U"
        refused(name, TypeError, argument, shown, **{argument: "abc"})
        refused(name, TypeError, argument, "object", **{argument: object()})

    @pytest.mark.parametrize("package", ["dask.array.core", "xarray.core.dataarray"])
    def test_lazily_held_arrays_are_not_computed(self, name, argument, package):
        class Lazy:
            chunks = ((5,),)

            def __array__(self, *args, **keywords):
                raise AssertionError("computed behind the user's back")

        Lazy.__module__ = package
        refused(name, TypeError, argument, "dask", "Lazy", f"{argument}.compute()", **{argument: Lazy()})

    def test_a_failure_of_the_container_is_named(self, name, argument):
        class Elsewhere:
            def __array__(self, *args, **keywords):
                raise RuntimeError("on another device")

        refused(name, TypeError, argument, "Elsewhere", "on another device", **{argument: Elsewhere()})

    def test_a_failing_dlpack_is_named(self, name, argument):
        class Exchanged:
            def __dlpack__(self, **keywords):
                raise BufferError("no such type")

            def __dlpack_device__(self):
                return (1, 0)

        refused(name, TypeError, argument, "Exchanged", "no such type", **{argument: Exchanged()})


@pytest.mark.parametrize("argument", ["q", "k", "v"])
def test_none_for_a_value(argument):
    refused("attention", TypeError, argument, "None", **{argument: None})


def test_no_common_dtype():
    q, k, v = (calls()["attention"][1][name] for name in "qkv")
    brain, half = q.astype(ml_dtypes.bfloat16), np.float16
    refused("attention", TypeError, "k is float16 and q is bfloat16", "k.astype(q.dtype)", q=brain,
            k=k.astype(half))
    refused("attention", TypeError, "v is float16 and q is bfloat16", "v.astype(q.dtype)", q=brain,
            v=v.astype(half))


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8])
def test_integers_that_repeat_are_not_written_out(kind):
    row = np.arange(8, dtype=kind)
    for repeated in (np.broadcast_to(row, (10**6, 10**6, 8)), np.broadcast_to(row[:, None], (8, 10**9))):
        read = values("x", repeated)
        assert read.dtype == np.float64 and read.shape == repeated.shape
        assert [*map(bool, read.strides)] == [*map(bool, repeated.strides)]
    assert np.array_equal(read[:, 0], row)


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_a_bias_that_is_alike_for_all_keys(kind):
    q, k, v = (calls()["attention"][1][name] for name in "qkv")
    column = np.array([[1], [3], [5]], kind)
    wanted = pe.attention(q, k, v, bias=np.repeat(column, 5, axis=1))
    np.testing.assert_array_equal(pe.attention(q, k, v, bias=np.broadcast_to(column, (3, 5))), wanted)


# Switches and scalars


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("value, exception", [(0, ValueError), (-1, ValueError), (True, TypeError),
                                              (2.0, TypeError), ("2", TypeError), (np.float64(1), TypeError)])
def test_num_threads(name, value, exception):
    expected = "integer" if exception is TypeError else "at least 1"
    refused(name, exception, "num_threads", str(value), expected, num_threads=value)


@pytest.mark.parametrize("name, switch", [("positions", "inverse"), ("tables", "inverse"), ("2d", "inverse"),
                                          ("nd", "inverse"),
                                          ("decay", "causal"), ("clock", "causal"), ("alibi", "causal"),
                                          ("attention", "causal"),
                                          ("attention", "return_lse")])
@pytest.mark.parametrize("value", [1, None, "bottom_right", np.ones(2, bool)], ids=str)
def test_switches(name, switch, value):
    refused(name, TypeError, switch, "True or False", **{switch: value})


@pytest.mark.parametrize("value, exception", [(NAN, ValueError), (INF, ValueError), (10**400, ValueError),
                                              ("1", TypeError), (True, TypeError), (1j, TypeError),
                                              (np.ones(4), TypeError), ([1.0], TypeError)])
def test_scale_and_softcap(value, exception):
    refused("attention", exception, "scale", "number", scale=value)
    refused("attention", exception, "softcap", "number", softcap=value)


@pytest.mark.parametrize("value", [0, 0.0, -1, -1e-300])
def test_softcaps_are_positive(value):
    refused("attention", ValueError, "softcap", str(float(value)), "> 0", "None: no cap", softcap=value)


# out=


def shape_of(name):
    op, arguments = calls()[name]
    return np.shape(op(**arguments))


@pytest.mark.parametrize("name", calls())
class TestOut:
    def test_shape(self, name):
        shape = shape_of(name)
        refused(name, ValueError, "out", str(shape), str((*shape, 1)), out=np.zeros((*shape, 1)))
        refused(name, ValueError, "out", str(shape), out=np.zeros(shape[1:]))

    def test_read_only(self, name):
        out = np.zeros(shape_of(name))
        out.flags.writeable = False
        refused(name, ValueError, "out", "read-only", out=out)

    def test_broadcast(self, name):
        shape = shape_of(name)
        out = np.lib.stride_tricks.as_strided(np.zeros(shape), shape, (0,) * len(shape))
        refused(name, ValueError, "out", "broadcast", out=out)

    @pytest.mark.parametrize("dtype", ["i8", "?", "O", "U8", "u2"])
    def test_dtype(self, name, dtype):
        out = np.zeros(shape_of(name), dtype)
        refused(name, TypeError, "out", str(out.dtype), "float64", out=out)

    def test_things_that_are_no_arrays(self, name):
        shape = shape_of(name)
        refused(name, TypeError, "out", "list", "ndarray", out=np.zeros(shape).tolist())
        refused(name, TypeError, "out", "MaskedArray", "ndarray", out=np.ma.zeros(shape))


# Keywords of other libraries

ELSEWHERE = r"no such thing|by their shapes|apply_rope|attention\(|pe\.attention"


@pytest.mark.parametrize("op, peer", [(op, peer) for op, peers in keywords.PEERS.items() for peer in peers])
def test_keywords_of_peers_name_ours(op, peer):
    with pytest.raises(TypeError) as caught:
        attrgetter(op)(pe)(np.ones((2, 4)), **{peer: 1})
    text = str(caught.value)
    assert text.startswith(f"{op}() has no keyword {peer}=; ")
    advice = text.partition("; ")[2]
    ours = {*inspect.signature(attrgetter(op)(pe)).parameters}
    assert ours & set(re.findall(r"\w+", advice)) or re.search(ELSEWHERE, advice)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("op", keywords.PEERS)
def test_the_best_known_keywords_of_peers_are_listed(op):
    rope, bias = "position_ids offset inv_freq rope_theta interleaved", "is_causal offset position_ids"
    attention = ("is_causal attn_mask enable_gqa dropout_p position_ids offset window_size sliding_window "
                 "logit_softcapping s_aux sm_scale segment_ids cu_seqlens_q cache_seqlens")
    expected = {"apply_rope": rope, "apply_rope_2d": rope, "attention": attention, "decay_bias": bias,
                "alibi_bias": bias}
    assert set(expected.get(op, "").split()) <= set(keywords.PEERS[op])


@pytest.mark.parametrize("op", keywords.PEERS)
def test_other_keywords(op):
    parameters = inspect.signature(attrgetter(op)(pe)).parameters
    last = [*parameters][-1]
    with pytest.raises(TypeError, match=re.escape(f"did you mean {last}=?")):
        attrgetter(op)(pe)(np.ones((2, 4)), **{last + last[-1]: 1})
    with pytest.raises(TypeError, match=f"it takes .*{last}"):
        attrgetter(op)(pe)(np.ones((2, 4)), zzz=1)
    needed = [key for key, each in parameters.items() if each.default is each.empty]
    if needed not in ([], ["self"]):
        with pytest.raises(TypeError, match=rf"{op}\(\) is missing .*; call {op.split('.')[0]}[.(]"):
            attrgetter(op)(pe)()


# The index that fits


def test_fitting_index():
    assert fitting_index((2, 5), (2, 5)) == fitting_index((), (2, 5)) == fitting_index((3,), (2, 5)) == ""
    assert fitting_index((5,), (2, 5)) == "[None, :]"
    assert fitting_index((2, 1), (2, 3, 5), trim=True) == "[:, None]"
    assert fitting_index((3, 3, 5), (3, 3, 3, 5), trim=True) == "[:, None]"
