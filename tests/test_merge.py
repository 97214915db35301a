"""`merge_attention`: attention over parts of the keys, put together."""

import re

import ml_dtypes
import numpy as np
import pytest
from golden_cases import op_cases
from isas import each_isa

import pe
import pe.reference
from pe import _core

OPS = [pytest.param(pe, id="pe"), pytest.param(pe.reference, id="twin")]
INF = np.inf
CASES = [case for case in op_cases("attention_flex") if case.op == "merge_attention"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def parts_of(q, k, v, cuts, **keywords):
    """Attention over each run of keys alone, positions kept."""
    N = k.shape[-2]
    t, s = np.arange(N - q.shape[-2], N), np.arange(N)
    ranges = [s[a:b] for a, b in zip([0, *cuts], [*cuts, N], strict=True)]
    results = [pe.attention(q, k[..., r, :], v[..., r, :], q_positions=t, k_positions=r, return_lse=True,
                            **keywords) for r in ranges]
    return [list(group) for group in zip(*results, strict=True)]


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(ops, case):
    """Parts that torch's flex_attention made, and one of them empty."""
    assert len(CASES) == 2
    for outs, lses in [(case.args["outs"], case.args["lses"]),
                       (list(case.args["outs"]), tuple(case.args["lses"]))]:
        out, lse = ops.merge_attention(outs, lses)
        assert out.dtype == lse.dtype == np.float64
        np.testing.assert_allclose(out, case.expect["out"], rtol=0, atol=1e-14)
        np.testing.assert_allclose(lse, case.expect["lse"], rtol=0, atol=1e-14)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("cuts", [(), (1,), (7, 8), (3, 3, 20), tuple(range(1, 21))], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_parts_make_the_whole(ops, cuts, causal):
    """Any cut, empty parts and parts that a query cannot see included, whatever the biases."""
    q, k, v = normal(2, 4, 9, 6), normal(2, 2, 21, 6, seed=1), normal(2, 2, 21, 5, seed=2)
    keywords = {"causal": causal, "alibi_slopes": [0.5, 0.25, 0.125, 0.0625], "rope": pe.Rope(6)}
    out, lse = ops.merge_attention(*parts_of(q, k, v, cuts, **keywords))
    want, want_lse = pe.attention(q, k, v, return_lse=True, **keywords)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-14)
    np.testing.assert_allclose(lse, want_lse, rtol=0, atol=1e-14)


def test_order_of_positions_does_not_matter():
    """Part 0 may hold the late keys, and each part any of them."""
    q, k, v = normal(3, 8), normal(21, 8, seed=1), normal(21, 8, seed=2)
    order = np.random.default_rng(3).permutation(21)
    results = [pe.attention(q, k[part], v[part], causal=True, q_positions=np.arange(18, 21), k_positions=part,
                            return_lse=True) for part in np.array_split(order, 4)]
    out, _ = pe.merge_attention(*zip(*results, strict=True))
    np.testing.assert_allclose(out, pe.attention(q, k, v, causal=True), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_dtypes(dtype):
    """Computed in float32, rounded once: within one rounding of the twin's float64."""
    outs, lses = normal(3, 2, 5, 8).astype(dtype), normal(3, 2, 5, seed=1).astype(np.float32) * 30
    out, lse = pe.merge_attention(outs, lses)
    assert out.dtype == dtype and lse.dtype == np.float32
    want, want_lse = pe.reference.merge_attention(outs.astype(np.float64), lses)
    unit = float(ml_dtypes.finfo(dtype).eps) / 2 + 2.0**-22
    assert (np.abs(out.astype(np.float64) - want) <= unit * np.abs(outs).astype(np.float64).max(0)).all()
    np.testing.assert_allclose(lse, want_lse, rtol=2.0**-23)
    again, again_lse = pe.reference.merge_attention(outs, lses)
    assert (again.dtype, again_lse.dtype) == (out.dtype, lse.dtype)


def test_promotion():
    out, lse = pe.merge_attention([normal(4, 8).astype(np.float32), normal(4, 8).astype(np.float16)],
                                  [np.zeros(4), np.zeros(4, np.float32)])
    assert out.dtype == np.float32 and lse.dtype == np.float32
    out, lse = pe.merge_attention([[[1, 2]], [[3, 4]]], [[0], [0]])
    np.testing.assert_array_equal(out, [[2.0, 3.0]])
    assert out.dtype == lse.dtype == np.float64 and lse.tolist() == [pytest.approx(np.log(2))]
    with pytest.raises(TypeError, match="no common dtype"):
        pe.merge_attention([np.ones((1, 2), t) for t in (np.float16, ml_dtypes.bfloat16)], np.zeros((2, 1)))


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.filterwarnings("error")
class TestEmptyParts:
    def test_a_part_that_saw_nothing_changes_nothing(self, ops):
        """To the bit, wherever it stands and whatever its values."""
        outs, lses = normal(2, 3, 4), normal(2, 3, seed=1)
        want = ops.merge_attention(outs, lses)
        for place in range(3):
            for junk in (0.0, np.nan, INF):
                got = ops.merge_attention(np.insert(outs, place, junk, axis=0),
                                          np.insert(lses, place, -INF, axis=0))
                np.testing.assert_array_equal(got[0], want[0])
                np.testing.assert_array_equal(got[1], want[1])

    def test_all_parts_saw_nothing(self, ops):
        with np.errstate(all="raise"):
            out, lse = ops.merge_attention(np.full((3, 2, 4), np.nan), np.full((3, 2), -INF))
        np.testing.assert_array_equal(out, np.zeros((2, 4)))
        np.testing.assert_array_equal(lse, np.full(2, -INF))

    def test_one_part_is_itself(self, ops):
        outs, lses = normal(1, 3, 4), normal(1, 3, seed=1)
        out, lse = ops.merge_attention(outs, lses)
        np.testing.assert_array_equal(out, outs[0])
        np.testing.assert_array_equal(lse, lses[0])

    def test_no_rows(self, ops):
        out, lse = ops.merge_attention(np.zeros((2, 3, 0, 4)), np.zeros((2, 3, 0)))
        assert out.shape == (3, 0, 4) and lse.shape == (3, 0)

    def test_far_normalisers(self, ops):
        """e^1000 and e^-1000 are formed nowhere; values near the largest do not overflow."""
        out, lse = ops.merge_attention([[[1.0]], [[2.0]]], [[1000.0], [-1000.0]])
        assert out.tolist() == [[1.0]] and lse.tolist() == [1000.0]
        out, lse = ops.merge_attention([[[1.5e308]]] * 4, [[-1000.0]] * 4)
        assert out.tolist() == [[pytest.approx(1.5e308, rel=1e-12)]]
        assert lse.tolist() == [pytest.approx(np.log(4) - 1000)]


def test_nan_stays_in_its_row():
    outs = normal(2, 3, 4)
    outs[1, 2, 0] = np.nan
    out, _ = pe.merge_attention(outs, np.zeros((2, 3)))
    assert np.isnan(out).sum() == 1 and np.isnan(out[2, 0])


@pytest.mark.parametrize("outs, lses, error, words", [
    ([], [], ValueError, "outs has no parts; expected at least one"),
    (np.zeros((0, 2, 3)), np.zeros((0, 2)), ValueError, "outs has no parts"),
    (3.0, [[0.0]], TypeError, "outs is a float; expected a list of arrays"),
    (np.zeros((2, 4, 3)), np.zeros((3, 4)), ValueError, "outs has 2 parts and lses has 3"),
    ([np.zeros((4, 3)), np.zeros((5, 3))], np.zeros((2, 4)), ValueError,
     "outs[1] has shape (5, 3) and outs[0] has (4, 3)"),
    (np.zeros((2, 4, 3)), np.zeros((2, 4, 1)), ValueError,
     "lses[0] has shape (4, 1) and outs[0] has (4, 3); expected (4,)"),
    ([1.0, 2.0], [1.0, 2.0], ValueError, "outs[0] is a single number; expected (..., H, M, V)"),
    ([np.zeros((2, 3)), np.ma.zeros((2, 3))], np.zeros((2, 2)), TypeError, "outs[1] is a masked array"),
    (np.zeros((2, 4, 3), complex), np.zeros((2, 4)), TypeError, "outs[0] has dtype complex128"),
    (np.zeros((2, 4, 3)), np.zeros((2, 4), bool), TypeError, "lses[0] has dtype bool"),
    (np.zeros((2, 4, 3)), None, TypeError, "lses is None; expected an array"),
])
def test_bad_input(outs, lses, error, words):
    with pytest.raises(error, match=re.escape(words)):
        pe.merge_attention(outs, lses)


def test_keywords_of_others():
    with pytest.raises(TypeError, match="pe takes lses, natural logarithms"):
        pe.merge_attention(outs=[[[1.0]]], softmax_lse=[[0.0]])


@each_isa
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("parts, rows", [(1, 5), (3, 64), (4, 65), (70, 3), (2, 400)])
@pytest.mark.parametrize("width", [1, 7, 8, 64, 200])
def test_rows_of_any_number_and_width(isa, dtype, parts, rows, width):
    """As the twin in float64, and the same bits wherever a row stands."""
    outs = normal(parts, rows, width).astype(dtype)
    lses = (normal(parts, rows, seed=1) * 10).astype(np.float64 if dtype == np.float64 else np.float32)
    lses[:, rows // 2] = -INF
    lses[parts // 2, 0] = -INF
    outs[parts // 2, 0] = np.nan
    out, lse = pe.merge_attention(outs, lses)
    want, want_lse = pe.reference.merge_attention(outs.astype(np.float64), lses.astype(np.float64))
    slack = 2.0**-50 if dtype == np.float64 else 2.0**-22
    unit = float(ml_dtypes.finfo(dtype).eps) / 2 + slack
    assert np.abs(out.astype(np.float64) - want).max() <= unit * np.nanmax(np.abs(outs.astype(np.float64)))
    np.testing.assert_allclose(lse, want_lse, rtol=1e-14 if dtype == np.float64 else 2.0**-23, atol=1e-14)
    for row in {0, rows // 2, rows - 1}:
        alone = pe.merge_attention(outs[:, row:row + 1], lses[:, row:row + 1])
        np.testing.assert_array_equal(out[row:row + 1], alone[0])
        np.testing.assert_array_equal(lse[row:row + 1], alone[1])


@each_isa
@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalisers_that_are_no_numbers(isa, ops, dtype):
    """NaN stays in its row, in out and in lse, whatever stands beside it."""
    outs, lses = np.ones((3, 9, 5), dtype), np.zeros((3, 9), dtype)
    lses[0, 1], lses[1, 3], lses[:, 5], lses[:, 7] = np.nan, np.nan, (INF, np.nan, 1), (np.nan, -INF, 1)
    out, lse = ops.merge_attention(outs, lses)
    bad = np.isin(np.arange(9), (1, 3, 5, 7))
    np.testing.assert_array_equal(np.isnan(out).all(-1), bad)
    np.testing.assert_array_equal(np.isnan(lse), bad)
    np.testing.assert_allclose(out[~bad], 1, rtol=1e-6)


@each_isa
@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_infinite_normalisers_take_all(isa, ops, dtype):
    """What stands beside them counts for nothing, were it large or its values NaN; several count alike."""
    outs = np.broadcast_to(np.array([1, 2, 6], dtype)[:, None, None], (3, 9, 5)).copy()
    lses = np.zeros((3, 9), np.float64 if dtype == np.float64 else np.float32)
    lses[:, 1], lses[:, 2], lses[:, 3], lses[:, 4] = (INF, 3, -7), (1e30, INF, -INF), (INF, 0, INF), INF
    outs[2, 2] = np.nan
    out, lse = ops.merge_attention(outs, lses)
    assert lse.tolist()[1:5] == [INF] * 4 and np.isfinite(lse[[0, *range(5, 9)]]).all()
    np.testing.assert_allclose(out[1:5, 0], [1, 2, 3.5, 3], rtol=1e-7)
    np.testing.assert_allclose(out[[0, *range(5, 9)]], 3, rtol=1e-3)


@each_isa
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_normalisers_in_any_memory(isa, kind):
    """Stacked last, as every second of more, backwards, broadcast, in Fortran's order: no call leaves C."""
    outs, lses = normal(3, 2, 5, 40, 8).astype(np.float32), normal(3, 2, 5, 40, seed=1).astype(kind)
    want = pe.merge_attention(outs, lses)
    last, wide = np.stack(list(lses), axis=-1), np.full((3, 2, 5, 80), 7, kind)
    wide[..., ::2] = lses
    for views in (np.moveaxis(last, -1, 0), wide[..., ::2], lses[..., ::-1].copy()[..., ::-1],
                  lses.transpose(0, 3, 1, 2).copy().transpose(0, 2, 3, 1), np.asfortranarray(lses)):
        assert np.array_equal(views, lses) and not views.flags.c_contiguous
        for given in views, list(views), tuple(views):
            got = _core.merge_attention(outs, given)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
    one = np.broadcast_to(lses[..., :1, :1], lses.shape)
    for a, b in zip(pe.merge_attention(outs, one), _core.merge_attention(outs, one.copy()), strict=True):
        np.testing.assert_array_equal(a, b)


def test_unaligned_normalisers():
    lses = np.zeros(6, "i1,f8")["f1"]
    lses[:] = range(6)
    assert not lses.flags.aligned
    got, want = (pe.merge_attention(np.ones((2, 3, 4)), a.reshape(2, 3)) for a in (lses, lses.copy()))
    np.testing.assert_array_equal(got[1], want[1])
