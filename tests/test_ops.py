"""The ops as a caller meets them: documentation that runs, signatures, dtypes, and the object returned."""

import doctest
import inspect
import pickle
from importlib import import_module
from pkgutil import iter_modules

import ml_dtypes
import numpy as np
import pytest

import pe
import pe.ops
from pe import reference

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64)]
OPS = ["apply_rope", "apply_rope_2d", "apply_rope_nd", "decay_bias", "alibi_bias", "attention",
       "attention_weights", "merge_attention", "retention"]
RESULT = {  # what each op gives for two rows of width 4
    "apply_rope": lambda x, **kw: pe.apply_rope(x, positions=[1, 2], **kw),
    "apply_rope_tables": lambda x, **kw: pe.apply_rope(x, *pe.Rope(4).cache([1, 2]), **kw),
    "apply_rope_2d": lambda x, **kw: pe.apply_rope_2d(x, [1, 2], [3, 4], **kw),
    "attention": lambda x, **kw: pe.attention(x, x, x, **kw),
}
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-42}


def normal(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(actual, expected, dtype=None):
    """Assert equal shape and dtype, and values within a few units in the last place of the dtype."""
    dtype = expected.dtype if dtype is None else np.dtype(dtype)
    assert type(actual) is np.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, dtype)
    tolerance = ULP[dtype.name]
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance)


# Documentation and signatures


def test_docstring_examples_run():
    modules = [import_module(f"pe.ops.{module.name}") for module in iter_modules(pe.ops.__path__)]
    outcomes = [doctest.testmod(module) for module in modules]
    assert sum(outcome.attempted for outcome in outcomes) >= 60
    assert sum(outcome.failed for outcome in outcomes) == 0


@pytest.mark.parametrize("name", OPS)
def test_docstrings_have_the_numpydoc_sections(name):
    text = inspect.getdoc(getattr(pe, name))
    sources = "See Also" if name == "attention_weights" else "References"    # attention has its sources
    for section in ("Parameters", "Returns", "Raises", sources, "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    for parameter in inspect.signature(getattr(pe, name)).parameters:
        assert parameter in text.split("Returns\n")[0]


@pytest.mark.parametrize("name", OPS)
def test_signature_is_visible_and_that_of_the_twin(name):
    def shape(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert shape(getattr(pe, name)) == shape(getattr(reference, name))
    kinds = {p.kind for p in inspect.signature(getattr(pe, name)).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


@pytest.mark.parametrize("name", OPS)
def test_ops_pickle_by_name(name):
    assert pickle.loads(pickle.dumps(getattr(pe, name))) is getattr(pe, name)


# Result dtype: the promotion of the values alone


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", RESULT)
def test_result_has_the_dtype_of_the_values(op, dtype):
    result = RESULT[op](np.ones((2, 4), dtype))
    assert (type(result), result.dtype) == (np.ndarray, dtype)


@pytest.mark.parametrize("values", [[[1, 2, 3, 4], [5, 6, 7, 8]], np.ones((2, 4), np.int8),
                                    np.ones((2, 4), ">i8"), np.ones((2, 4), np.uint32)],
                         ids=["list", "int8", ">i8", "uint32"])
@pytest.mark.parametrize("op", RESULT)
def test_integers_and_lists_become_float64(op, values):
    close(RESULT[op](values), RESULT[op](np.asarray(values, np.float64)))


@pytest.mark.parametrize("op", RESULT)
@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
def test_byte_swapped_values_give_a_native_result(op, dtype):
    values = normal(2, 4).astype(dtype)
    close(RESULT[op](values), RESULT[op](values.astype(values.dtype.newbyteorder("="))))


@pytest.mark.parametrize("op", RESULT)
def test_subclasses_and_other_containers_come_back_as_ndarray(op, tmp_path):
    values = normal(2, 4)
    expected = RESULT[op](values)
    stored = np.memmap(tmp_path / "values", np.float64, "w+", shape=(2, 4))
    stored[:] = values
    stored.flush()

    class Exchanged:
        """Something NumPy sees as an object, but that speaks DLPack."""

        def __dlpack__(self, **keywords):
            return values.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return values.__dlpack_device__()

    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(values)
    read_only = np.memmap(tmp_path / "values", np.float64, "r", shape=(2, 4))
    for other in (matrix, read_only, Exchanged(), values.tolist()):
        close(RESULT[op](other), expected)


def test_attention_promotes_q_k_and_v_together():
    def dtype(*dtypes):
        return pe.attention(*(np.ones((2, 2), d) for d in dtypes)).dtype

    assert dtype("f4", "f8", "f4") == np.float64
    assert dtype("f2", "f4", "f2") == np.float32
    assert dtype(BF16, BF16, "f4") == np.float32
    assert dtype("f4", "f4", "i4") == np.float64
    assert dtype("f2", "f2", "f2") == np.float16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nothing_but_the_values_steers_the_dtype(dtype):
    x = normal(3, 4).astype(dtype)
    rope = pe.Rope(4)
    for table_dtype in DTYPES:
        cos, sin = (t.astype(table_dtype) for t in rope.cache(3))
        assert pe.apply_rope(x, cos, sin).dtype == dtype
    assert pe.apply_rope(x, positions=np.arange(3.0), freqs=np.array([1, 0.1], "f4")).dtype == dtype
    many = {"bias": np.ones((3, 3)), "alibi_slopes": 0.5, "decay_rate": np.float64(1), "scale": np.float64(2),
            "rope": rope, "q_positions": np.arange(3.0), "k_positions": np.arange(3)}
    out, lse = pe.attention(x, x, x, return_lse=True, **many)
    assert out.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize("op, name", [(pe.decay_bias, "rate"), (pe.decay_bias, "half_life"),
                                      (pe.decay_bias, "multiplier"), (pe.alibi_bias, "slopes")])
def test_bias_dtype_is_that_asked_for_else_outs_else_the_rates(op, name):
    for rate, expected in [(0.5, "f8"), ([0.5], "f8"), (1, "f8"), (np.ones(2, np.int16), "f8"),
                           (np.float32(0.5), "f4"), (np.ones(2, np.float16), "f2"), (np.ones(2, BF16), BF16),
                           (np.ones(2, ">f4"), "f4")]:
        assert op(3, **{name: rate}).dtype == np.dtype(expected)
    half = np.float16(0.5)
    assert op(3, **{name: half}, dtype=np.float32).dtype == np.float32
    assert op(3, **{name: half}, dtype=BF16).dtype == BF16
    assert op(3, **{name: half}, dtype="float64").dtype == np.float64
    out = np.empty((3, 3), np.float32)
    assert op(3, **{name: 0.5}, out=out) is out
    close(out, op(3, **{name: 0.5}).astype(np.float32))


def test_dtype_decides_the_precision_and_out_only_the_cast():
    out = np.empty((3, 3))
    pe.alibi_bias(3, slopes=1 / 3, dtype=np.float32, out=out)
    np.testing.assert_array_equal(out, pe.alibi_bias(3, slopes=1 / 3, dtype=np.float32))
    x, wide = normal(3, 4, dtype=np.float32), np.empty((3, 4))
    assert pe.apply_rope(x, positions=[1, 2, 3], out=wide) is wide
    np.testing.assert_array_equal(wide, pe.apply_rope(x, positions=[1, 2, 3]))


# out=


OUTS = {"plain": lambda s: np.empty(s), "f4": lambda s: np.empty(s, np.float32),
        "f2": lambda s: np.empty(s, np.float16), "bf16": lambda s: np.empty(s, BF16),
        "complex": lambda s: np.empty(s, np.complex128), "swapped": lambda s: np.empty(s, ">f8"),
        "gaps": lambda s: np.empty((*s, 2))[..., 0], "rows reversed": lambda s: np.empty(s)[::-1],
        "columns reversed": lambda s: np.empty(s)[..., ::-1], "fortran": lambda s: np.empty(s, order="F"),
        "subclass": lambda s: np.empty(s).view(np.memmap)}


@pytest.mark.parametrize("kind", OUTS)
@pytest.mark.parametrize("op", RESULT)
def test_out_is_written_and_returned(op, kind):
    values = normal(2, 4)
    expected = RESULT[op](values)
    out = OUTS[kind]((2, 4))
    assert RESULT[op](values, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), expected.astype(out.dtype))


@pytest.mark.parametrize("op", RESULT)
def test_a_strided_out_leaves_the_gaps_alone(op):
    buffer = np.full((2, 8), 7.0)
    RESULT[op](normal(2, 4), out=buffer[:, ::2])
    assert (buffer[:, 1::2] == 7).all()


@pytest.mark.parametrize("op", RESULT)
@pytest.mark.parametrize("place", [np.s_[:2, :4], np.s_[1:, :4], np.s_[:2, 1:5], np.s_[1::-1, :4]],
                         ids=["in place", "a row down", "a column right", "rows swapped"])
def test_out_may_overlap_the_values(op, place):
    memory = normal(3, 6)
    values, out = memory[:2, :4], memory[place]
    expected = RESULT[op](values.copy())
    assert RESULT[op](values, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("target", ["q", "k", "v", "bias", "mask", "q_positions", "alibi_slopes"])
def test_attention_into_each_of_its_inputs(target):
    given = {name: normal(4, 3, 3, seed=seed) for seed, name in enumerate(["q", "k", "v", "bias"])}
    given |= {"q_positions": normal(4, 3), "alibi_slopes": np.arange(4.0), "mask": normal(4, 3, 3) > -1}
    expected = pe.attention(**given)
    home = np.zeros(4 * 3 * 3)
    value = given[target]
    given[target] = home.view(value.dtype)[:value.size].reshape(value.shape)
    given[target][:] = value
    out = home.reshape(4, 3, 3)
    assert pe.attention(**given, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["bias", "alibi_slopes", "decay_rate", "sinks", "clock", "q_positions",
                                  "k_positions", "segments", "kv_lengths", "mask"])
def test_attention_into_what_steers_it(name):
    """Whatever is read may lie in the memory of out; it is read before it is written over."""
    x = normal(2, 5, 4)
    values = {"segments": np.array([0, 0, 1, 1, 1]), "kv_lengths": np.array(4), "mask": np.arange(5) != 2,
              "bias": normal(5), "alibi_slopes": np.ones(2), "decay_rate": np.ones(2), "sinks": np.ones(2)}
    value = values.get(name, np.arange(5.0))
    keywords = {"causal": name != "kv_lengths", name: value}
    expected = pe.attention(x, x, x, **keywords)
    out = np.zeros_like(expected)
    place = np.ndarray(value.shape, value.dtype, buffer=out, offset=16)
    place[...] = value
    keywords[name] = place
    close(pe.attention(x, x, x, **keywords, out=out), expected)


def test_one_array_may_be_q_k_v_and_out():
    x = normal(2, 5, 4)
    expected = pe.attention(x, x, x, causal=True)
    assert pe.attention(x, x, x, causal=True, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_lse_comes_with_out():
    q = normal(3, 4, dtype=np.float32)
    expected, expected_lse = pe.attention(q, q, q, return_lse=True)
    for dtype in ("f4", "f8"):
        out = np.empty((3, 4), dtype)
        result, lse = pe.attention(q, q, q, return_lse=True, out=out)
        assert result is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(lse, expected_lse)


def test_every_size_of_group_against_the_twin():
    rng = np.random.default_rng(3)
    for group in range(1, 9):
        for dtype, near in ((np.float16, 2e-3), (np.float32, 2e-6), (np.float64, 1e-13)):
            q = rng.standard_normal((2 * group, 1, 40)).astype(dtype)
            k, v = rng.standard_normal((2, 2, 1100, 40)).astype(dtype)
            expected = pe.reference.attention(*(a.astype(float) for a in (q, k, v)))
            assert np.abs(pe.attention(q, k, v) - expected).max() <= near, (group, dtype)


@pytest.mark.parametrize("count", [2**53 + 1, 2**62, 2**63 - 1, 2**63])
def test_a_count_of_positions_too_many(count):
    for op, keyword in ((pe.alibi_bias, "slopes"), (pe.decay_bias, "rate")):
        for counts in ((count,), (count, 1), (1, count)):
            with pytest.raises(ValueError, match="positions"):
                op(*counts, **{keyword: np.array([0.5, 0.25])})
