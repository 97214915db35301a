"""The ops as a caller meets them: documentation that runs, signatures, dtypes, identities, and pe.reference."""

import doctest
import inspect
import pickle

import ml_dtypes
import numpy as np
import pytest

import pe
import pe.ops
from pe import reference

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64)]
OPS = ["apply_rope", "apply_rope_2d", "decay_bias", "alibi_bias", "attention"]
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
    outcome = doctest.testmod(pe.ops)
    assert outcome.attempted >= 40
    assert outcome.failed == 0


@pytest.mark.parametrize("name", OPS)
def test_docstrings_have_the_numpydoc_sections(name):
    text = inspect.getdoc(getattr(pe, name))
    for section in ("Parameters", "Returns", "Raises", "References", "Examples"):
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


@pytest.mark.parametrize("values", [[[1, 2, 3, 4], [5, 6, 7, 8]], np.ones((2, 4), np.int8), np.ones((2, 4), ">i8"),
                                    np.ones((2, 4), np.uint32)], ids=["list", "int8", ">i8", "uint32"])
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
    others = [matrix, np.memmap(tmp_path / "values", np.float64, "r", shape=(2, 4)), Exchanged(), values.tolist()]
    for other in others:
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
    for cos, sin in (rope.cache(3), [t.astype(np.float32) for t in rope.cache(3)], [t.astype("f2") for t in rope.cache(3)]):
        assert pe.apply_rope(x, cos, sin).dtype == dtype
    assert pe.apply_rope(x, positions=np.arange(3.0), freqs=np.array([1, 0.1], "f4")).dtype == dtype
    many = {"bias": np.ones((3, 3)), "alibi_slopes": 0.5, "decay_rate": np.float64(1), "scale": np.float64(2), "rope": rope,
            "q_positions": np.arange(3.0), "k_positions": np.arange(3)}
    out, lse = pe.attention(x, x, x, return_lse=True, **many)
    assert out.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize("op, name", [(pe.decay_bias, "rate"), (pe.decay_bias, "half_life"), (pe.decay_bias, "multiplier"),
                                      (pe.alibi_bias, "slopes")])
def test_bias_dtype_is_that_asked_for_else_outs_else_the_rates(op, name):
    for rate, expected in [(0.5, "f8"), ([0.5], "f8"), (1, "f8"), (np.ones(2, np.int16), "f8"), (np.float32(0.5), "f4"),
                           (np.ones(2, np.float16), "f2"), (np.ones(2, BF16), BF16), (np.ones(2, ">f4"), "f4")]:
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


@pytest.mark.parametrize("make", [lambda s: np.empty(s), lambda s: np.empty(s, np.float32), lambda s: np.empty(s, ">f8"),
                                  lambda s: np.empty((*s, 2))[..., 0], lambda s: np.empty(s)[::-1],
                                  lambda s: np.empty(s)[..., ::-1], lambda s: np.empty(s, order="F"),
                                  lambda s: np.empty(s, np.complex128), lambda s: np.empty(s, np.float16),
                                  lambda s: np.empty(s, BF16), lambda s: np.empty(s).view(np.memmap)],
                         ids=["plain", "f4", "swapped", "gaps", "reversed", "columns", "fortran", "complex", "f2", "bf16",
                              "subclass"])
@pytest.mark.parametrize("op", RESULT)
def test_out_is_written_and_returned(op, make):
    values = normal(2, 4)
    expected = RESULT[op](values)
    out = make((2, 4))
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
    given = {"q": normal(4, 3, 3), "k": normal(4, 3, 3, seed=1), "v": normal(4, 3, 3, seed=2), "bias": normal(4, 3, 3, seed=3),
             "q_positions": np.abs(normal(4, 3, seed=4)), "alibi_slopes": np.arange(4.0), "mask": normal(4, 3, 3) > -1}
    expected = pe.attention(**given)
    home = np.zeros(4 * 3 * 3)
    value = given[target]
    given[target] = home.view(value.dtype)[:value.size].reshape(value.shape)
    given[target][:] = value
    out = home.reshape(4, 3, 3)
    assert pe.attention(**given, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_one_array_may_be_q_k_v_and_out():
    x = normal(2, 5, 4)
    expected = pe.attention(x, x, x, causal=True)
    assert pe.attention(x, x, x, causal=True, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_lse_comes_with_out():
    q = normal(3, 4, dtype=np.float32)
    expected, expected_lse = pe.attention(q, q, q, return_lse=True)
    for dtype in ("f4", "f8"):
        out, result = np.empty((3, 4), dtype), None
        result, lse = pe.attention(q, q, q, return_lse=True, out=out)
        assert result is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(lse, expected_lse)


# Against pe.reference: layouts, shapes, special sizes


@pytest.mark.parametrize("layout", [None, "interleaved", "adjacent", "gptj", "traditional", "half", "neox", "rotate_half", "split"])
@pytest.mark.parametrize("shape, points", [((8,), [3]), ((5, 8), np.arange(5)), ((2, 3, 5, 8), np.arange(5) - 2.5),
                                           ((2, 3, 5, 8), normal(2, 1, 5)), ((2, 3, 5, 8), normal(2, 3, 1)),
                                           ((2, 5, 3, 8), np.arange(5)[None, :, None]), ((1, 2), [7]), ((0, 8), []),
                                           ((2, 0, 5, 8), np.arange(5)), ((5, 2), np.arange(5, dtype=np.uint8))])
def test_apply_rope_by_positions(layout, shape, points):
    x, twin_points = normal(*shape), points[0] if len(shape) == 1 else points
    for keywords in ({}, {"base": 500.0}, {"freqs": np.geomspace(2, 1e-3, shape[-1] // 2)}, {"inverse": True}, {"rotary_dim": 2}):
        close(pe.apply_rope(x, positions=points, layout=layout, **keywords),
              reference.apply_rope(x, positions=twin_points, layout=layout, **keywords))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("shape, axes", [((6, 8), (6,)), ((2, 3, 6, 8), (6,)), ((2, 3, 6, 8), (2, 1, 6)),
                                         ((2, 3, 6, 8), (1, 3, 1)), ((8,), ())])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i4"])
def test_apply_rope_by_tables(layout, shape, axes, dtype):
    x, rope = normal(*shape), pe.Rope(8, freqs=[0.0] * 4) if dtype == "i4" else pe.Rope(8)
    cos, sin = (t.astype(dtype) for t in rope.cache(normal(*axes)))
    for inverse in (False, True):
        expected = reference.apply_rope(x, cos, sin, layout=layout, inverse=inverse)
        close(pe.apply_rope(x, cos, sin, layout=layout, inverse=inverse), expected)


def test_narrow_tables_and_rotary_dim_copy_the_rest_bit_for_bit():
    x = normal(3, 8)
    x[:, 4:] = np.nan
    rope = pe.Rope(8, rotary_dim=4)
    turned = [pe.apply_rope(x, *rope.cache(3)), pe.apply_rope(x, *rope.cache(3), rotary_dim=4),
              pe.apply_rope(x, positions=np.arange(3), rotary_dim=4), rope.apply(x, np.arange(3)),
              pe.apply_rope(x, positions=np.arange(3), freqs=rope.freqs[0])]
    for result in turned:
        assert result[:, 4:].tobytes() == x[:, 4:].tobytes()
        np.testing.assert_allclose(result[:, :4], turned[0][:, :4], rtol=1e-15)


def test_a_rope_brings_its_amplitude_layout_and_width():
    x, rope = normal(2, 3, 8), pe.Rope(8, 100.0, layout="half", rotary_dim=6, amplitude=1.5)
    result = pe.apply_rope(x, positions=np.arange(3), rope=rope)
    close(result, reference.apply_rope(x, positions=np.arange(3), rope=rope))
    close(pe.apply_rope(result, positions=np.arange(3), rope=rope, inverse=True), x)


def test_a_rope_of_several_axes_takes_coordinates():
    freqs = np.array([[1.0, 0.1, 0, 0], [0, 0, 1.0, 0.1]])
    x, (px, py) = normal(6, 8), pe.grid_positions(2, 3)
    rope, points = pe.Rope(8, freqs=freqs), np.stack([px, py], axis=-1)
    close(pe.apply_rope(x, positions=points, rope=rope), pe.apply_rope_2d(x, px, py, base=100.0))
    close(pe.apply_rope(x[0], positions=points[:1], rope=rope), pe.apply_rope(x, positions=points, rope=rope)[0])
    q, k, v = normal(2, 6, 8), normal(1, 6, 8, seed=1), normal(1, 6, 4, seed=2)
    keywords = {"rope": rope, "q_positions": points, "k_positions": points[None], "causal": True, "decay_rate": 0.3}
    for dtype in DTYPES:
        operands = [a.astype(dtype) for a in (q, k, v)]
        result, lse = pe.attention(*operands, **keywords, return_lse=True)
        expected, expected_lse = reference.attention(*operands, **keywords, return_lse=True)
        close(result, expected)
        close(lse, expected_lse)
        out = np.empty((2, 6, 4), dtype)
        assert pe.attention(*operands, **keywords, out=out) is out
        close(out, expected)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 6, 4), (0, 4), (8,)])
def test_apply_rope_2d(layout, shape):
    x, rows = normal(*shape), shape[-2] if len(shape) > 1 else 1
    px, py = normal(rows, seed=1), np.arange(rows)
    planes = shape[-1] // 4
    twin = [p[0] for p in (px, py)] if len(shape) == 1 else [px, py]
    for keywords in ({}, {"base": 100.0}, {"freqs": np.geomspace(1, 0.1, planes)}, {"inverse": True},
                     {"freqs": np.stack([np.geomspace(1, 0.1, planes), np.geomspace(3, 0.2, planes)])}):
        close(pe.apply_rope_2d(x, px, py, layout=layout, **keywords),
              reference.apply_rope_2d(x, *twin, layout=layout, **keywords))


def test_apply_rope_2d_takes_positions_of_a_batch():
    x, px, py = normal(2, 3, 5, 8), normal(2, 1, 5), np.arange(5)
    close(pe.apply_rope_2d(x, px, py), reference.apply_rope_2d(x, px, py))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("q, k", [(4, None), (2, 5), (5, 2), (0, 3), (3, 0), (np.arange(3), 4), (2, np.arange(5)), ([0.5, -1], [3, 1, 2]),
                                  (np.zeros((3, 1, 2)), np.ones((1, 1, 4), np.int8))], ids=str)
def test_biases(q, k, causal):
    leading = np.ndim(q) > 1
    for rate in (0.5, [0.25, 0.0], np.zeros((0, 1))):
        rate = np.reshape(rate, (1, -1)) if leading else rate
        expected = reference.alibi_bias(q, k, slopes=rate, causal=causal)
        close(pe.alibi_bias(q, k, slopes=rate, causal=causal), expected)
        close(pe.decay_bias(q, k, rate=rate, causal=causal), expected)
    close(pe.decay_bias(q, k, half_life=3.0, causal=causal), reference.decay_bias(q, k, half_life=3.0, causal=causal))
    close(pe.decay_bias(q, k, multiplier=1.0, causal=causal), reference.decay_bias(q, k, multiplier=1.0, causal=causal))


def test_half_life_and_multiplier_are_the_same_decay():
    by_rate = pe.decay_bias(4, rate=np.log(2) / [10.0, 20.0])
    np.testing.assert_allclose(pe.decay_bias(4, half_life=[10.0, 20.0]), by_rate, rtol=1e-15)
    np.testing.assert_allclose(pe.decay_bias(4, multiplier=[0.5**0.1, 0.5**0.05]), by_rate, rtol=1e-14)
    assert (pe.decay_bias(4, half_life=np.inf, causal=False) == 0).all()


@pytest.mark.parametrize("shapes", [((3, 4), (5, 4), (5, 2)), ((2, 3, 4), (2, 5, 4), (2, 5, 4)), ((4, 3, 4), (2, 5, 4), (2, 5, 1)),
                                    ((2, 4, 3, 4), (2, 5, 4), (2, 5, 4)), ((4, 3, 4), (5, 4), (5, 4)),
                                    ((3, 4), (1, 5, 4), (1, 5, 4)), ((3, 1, 2, 3, 4), (2, 2, 5, 4), (1, 1, 2, 5, 3)),
                                    ((2, 0, 4), (2, 5, 4), (2, 5, 4)), ((2, 3, 4), (2, 0, 4), (2, 0, 4)),
                                    ((2, 3, 4), (2, 5, 4), (2, 5, 0)), ((0, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
                                    ((0, 3, 4), (1, 5, 4), (1, 5, 4)), ((3, 4), (0, 4), (0, 2))], ids=str)
def test_attention_shapes(shapes):
    q, k, v = (normal(*shape, seed=i) for i, shape in enumerate(shapes))
    for keywords in ({}, {"causal": True}, {"alibi_slopes": 0.5, "scale": -1.0}, {"rope": pe.Rope(4)}):
        result, lse = pe.attention(q, k, v, return_lse=True, **keywords)
        expected, expected_lse = reference.attention(q, k, v, return_lse=True, **keywords)
        close(result, expected)
        close(lse, expected_lse)


def test_attention_of_width_zero():
    q, k, v = np.zeros((2, 0)), np.zeros((3, 0)), np.array([[1.0], [2.0], [6.0]])
    assert pe.attention(q, k, v, scale=1.0).ravel().tolist() == [3.0, 3.0]
    assert pe.attention(q[:0], k, v).shape == (0, 1)        # empty comes before any complaint about D = 0
    assert pe.attention(q, k, v[:, :0]).shape == (2, 0)


def test_rope_of_width_zero_or_of_no_rows():
    assert pe.apply_rope(np.zeros((3, 0)), positions=[1, 2, 3]).shape == (3, 0)
    assert pe.apply_rope(np.zeros((0, 4)), *pe.build_rope_cache(0, 4)).shape == (0, 4)
    assert pe.apply_rope_2d(np.zeros((3, 0)), [1, 2, 3], [1, 2, 3]).shape == (3, 0)


MASKS = {"keys": normal(5) > 0, "grid": normal(3, 5) > 0, "row": normal(1, 5) > 0, "column": normal(3, 1) > -1,
         "scores": normal(2, 4, 3, 5) > 0, "padding": normal(2, 1, 1, 5) > 0, "heads": normal(1, 4, 3, 5) > 0,
         "list": [True, False, True, True, False], "none": np.zeros(5, bool)}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    q, k, v = normal(2, 4, 3, 4), normal(2, 2, 5, 4, seed=1), normal(2, 2, 5, 4, seed=2)
    for keywords in ({}, {"causal": True}, {"bias": np.where(MASKS[name], 0.5, -np.inf)}):
        result, lse = pe.attention(q, k, v, mask=MASKS[name], return_lse=True, **keywords)
        expected, expected_lse = reference.attention(q, k, v, mask=MASKS[name], return_lse=True, **keywords)
        close(result, expected)
        close(lse, expected_lse)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1), (3, 5), (4, 1, 1), (4, 3, 5), (2, 1, 3, 5)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i4"])
def test_biases_broadcast_to_the_scores(shape, dtype):
    q, k, v = normal(2, 4, 3, 4), normal(2, 2, 5, 4, seed=1), normal(2, 2, 5, 4, seed=2)
    bias = (3 * normal(*shape, seed=3)).astype(dtype)
    close(pe.attention(q, k, v, bias=bias), reference.attention(q, k, v, bias=bias))


def test_positions_and_slopes_of_attention():
    q, k, v = normal(2, 4, 3, 4), normal(2, 2, 5, 4, seed=1), normal(2, 2, 5, 4, seed=2)
    slopes = pe.alibi_slopes(4)
    for t in (None, [4, 9, 7], normal(2, 1, 3), normal(1, 4, 1)):
        for s in (None, np.arange(5) - 0.5, normal(2, 1, 5), normal(2, 2, 5)):
            for keywords in ({"causal": True}, {"alibi_slopes": slopes, "decay_rate": 0.25}, {"rope": pe.Rope(4, layout="half")}):
                keywords |= {"q_positions": t, "k_positions": s}
                close(pe.attention(q, k, v, **keywords), reference.attention(q, k, v, **keywords))


STRIDES = {"transposed": lambda a: np.ascontiguousarray(np.swapaxes(a, -3, -2)).swapaxes(-3, -2),
           "last axis apart": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
           "last axis backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
           "rows backwards": lambda a: np.ascontiguousarray(a[..., ::-1, :])[..., ::-1, :],
           "fortran": np.asfortranarray, "unaligned": lambda a: np.frombuffer(b"." + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
           "swapped": lambda a: a.astype(a.dtype.newbyteorder()), "read-only": lambda a: np.broadcast_to(a, a.shape)}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("which", ["q", "k", "v", "bias", "all"])
def test_strides_change_no_bit_of_attention(strides, which):
    given = {"q": normal(2, 4, 3, 4), "k": normal(2, 2, 5, 4, seed=1), "v": normal(2, 2, 5, 4, seed=2), "bias": normal(2, 4, 3, 5)}
    expected = pe.attention(**given)
    np.testing.assert_array_equal(pe.attention(**{name: STRIDES[strides](a) if which in (name, "all") else a
                                                  for name, a in given.items()}), expected)


@pytest.mark.parametrize("strides", STRIDES)
def test_strides_change_no_bit_of_apply_rope(strides):
    x, points, (cos, sin) = normal(2, 4, 3, 8), normal(2, 1, 3), pe.Rope(8).cache(normal(2, 1, 3))
    change = STRIDES[strides]
    np.testing.assert_array_equal(pe.apply_rope(change(x), positions=change(points)), pe.apply_rope(x, positions=points))
    np.testing.assert_array_equal(pe.apply_rope(change(x), change(cos), change(sin)), pe.apply_rope(x, cos, sin))
    np.testing.assert_array_equal(pe.apply_rope_2d(change(x), change(points), points), pe.apply_rope_2d(x, points, points))


def test_broadcast_axes_stay_unexpanded(monkeypatch):
    """A copy made for a strided last axis keeps the axes of stride 0."""
    from pe._check.arrays import plain
    wide = np.broadcast_to(normal(1, 3, 8)[..., ::2], (1000, 3, 4))
    packed = plain(wide)
    assert packed.strides[0] == 0
    np.testing.assert_array_equal(packed, wide)
    close(pe.apply_rope(wide, positions=[1, 2, 3])[7], pe.apply_rope(wide[7], positions=[1, 2, 3]))
