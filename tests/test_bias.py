"""The rows of a bias to the bit, whatever the steps between keys and wherever on a line rows begin."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe
from pe import _core

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
KEYS = {"counted": np.arange(64.0), "from afar": np.arange(64.0) + 2.0**40,
        "every third": 3.0 * np.arange(64), "negative": np.arange(64.0) - 100,
        "falling": 0 - np.arange(64.0), "alike": np.full(64, 5.0), "halves": np.arange(64) / 2,
        "halves between": np.arange(64) + 0.5, "wide steps": np.arange(64) * 2.0**18,
        "one apart": np.append(np.arange(63.0), 70.0), "one": np.array([3.0])}


@pytest.fixture
def isa(request):
    before = pe.isa()
    _core._set_isa(request.param)
    yield
    _core._set_isa(before)


def row_by_row(t, s, slope, causal, dtype):
    """The gap in float64, rounded to the compute type, times a slope of that type, rounded to the result."""
    real = np.float64 if dtype == np.float64 else np.float32
    gap = (s - t[:, None]).astype(real)
    bias = np.where(gap > 0, -np.inf, real(slope) * gap) if causal else real(slope) * (0 - np.abs(gap))
    with np.errstate(over="ignore"):
        return bias.astype(dtype)


def assert_same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@each_isa
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_kind(isa, name, dtype, causal):
    """Queries at keys, between them, before and behind them all; rows that begin anywhere on a line."""
    s = KEYS[name]
    for t in s, s + 1, s - 7, s + 0.25, s * 0.5, s[:1] - 2.0**25, s[:3] + 2.0**25:
        for n in (1, 15, 16, 32, 48, 64):
            for shift in (0, 1, 4, 13):
                room = np.full(t.size * s[:n].size + shift + 9, 7, dtype)
                out = room[shift:-9].reshape(t.size, s[:n].size)
                assert pe.alibi_bias(t, s[:n], slopes=0.3, causal=causal, out=out) is out
                assert_same_bits(out, row_by_row(t, s[:n], 0.3, causal, dtype))
                assert (room[:shift] == 7).all() and (room[-9:] == 7).all()


@each_isa
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_one_after_another(isa, dtype, causal):
    """Of any length, from any place in a line, and more of them than a task takes at a time; queries some
    keys apart or between them, before, among and behind the keys."""
    lengths = [*range(8, 41), 63, 64, 65, 97, 100, 128, 131]
    for n, place in zip(lengths, np.random.default_rng(0).permutation(len(lengths)) % 16, strict=True):
        for step, down in (1, 1), (1, 3), (1, 30), (2, 2), (2, 1), (3, 6), (1, 0), (1, -1):
            s = step * np.arange(float(n)) - 5
            t = down * np.arange(300.0 if n == 40 else 19.0) - 30
            room = np.full(t.size * n + 32, 7, dtype)
            out = room[place : place - 32].reshape(t.size, n)
            pe.alibi_bias(t, s, slopes=0.3, causal=causal, out=out)
            assert_same_bits(out, row_by_row(t, s, 0.3, causal, dtype))
            assert (room[:place] == 7).all() and (room[place - 32 :] == 7).all()


@each_isa
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("M, N", [(1, 1), (1, 40), (40, 1), (9, 70), (70, 9), (128, 128), (300, 24)])
def test_counts_are_the_last_of_the_keys(isa, M, N, dtype):
    t, s, slopes = np.arange(N - M, float(N)), np.arange(float(N)), [0.3, 0.0, 7.0]
    clock = np.cumsum(np.arange(float(max(M, N))) % 3)
    for causal in (True, False):
        got = pe.alibi_bias(M, N, slopes=slopes, causal=causal, dtype=dtype)
        assert_same_bits(got, pe.alibi_bias(t, s, slopes=slopes, causal=causal, dtype=dtype))
        for head, slope in enumerate(slopes):
            assert_same_bits(got[head], row_by_row(t, s, slope, causal, dtype))
        counted = np.arange(float(M))
        for queries, keys, first in (M, None, counted), (M, s, counted), (t, N, t):
            got = pe.alibi_bias(queries, keys, slopes=0.3, causal=causal, dtype=dtype)
            assert_same_bits(got, row_by_row(first, counted if keys is None else s, 0.3, causal, dtype))
        clocks = {"clock": (clock[-M:], clock[:N]), "rate": 0.3, "causal": causal, "dtype": dtype}
        assert_same_bits(pe.decay_bias(M, N, **clocks), pe.decay_bias(t, s, **clocks))


@each_isa
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_with_positions_of_their_own_or_not(isa, dtype, causal):
    """Small ones are written by one task, which makes ready once what the next needs again."""
    rng = np.random.default_rng(0)
    s, t = np.arange(40.0), np.arange(21.0)
    keys = np.stack([s, s, s / 2, rng.permutation(s)])[:, None]
    queries = np.stack([t, rng.permutation(t), t + 0.25])[None]
    slopes = np.linspace(0.1, 2, 12).reshape(4, 3)
    for t in queries, queries[:, :1], np.broadcast_to(queries[:, 1:2], (1, 3, 21)), np.full((1, 1, 21), 3.0):
        for s in keys, keys[:1], keys[::-1], keys[2:3]:
            got = pe.alibi_bias(t, s, slopes=slopes, causal=causal, dtype=dtype)
            for b, h in np.ndindex(4, 3):
                t_of, s_of = t[0, h % t.shape[1]], s[b % s.shape[0], 0]
                assert_same_bits(got[b, h], row_by_row(t_of, s_of, slopes[b, h], causal, dtype))


@each_isa
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keys", [3, 37, 1003])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_amid_others(isa, dtype, keys, causal):
    """Queries in any order, at whole steps and not; what lies between rows stays."""
    t, s = np.random.default_rng(0).permutation(70) * 2.0, np.arange(keys) * 2.0
    for queries in t, t + 1, t * 100, t + 0.5:
        room = np.full((70, keys + 9), 7, dtype)
        pe.alibi_bias(queries, s, slopes=0.3, causal=causal, out=room[:, 4:-5])
        assert_same_bits(np.ascontiguousarray(room[:, 4:-5]), row_by_row(queries, s, 0.3, causal, dtype))
        assert (room[:, :4] == 7).all() and (room[:, -5:] == 7).all()


@each_isa
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_just_beside_0(isa, dtype, causal):
    """Gaps to all other keys are rounded to whole ones; not that to the key at 0, which may be the future."""
    t, s = np.array([-1e-17, 1e-17, -1e-30, 0.0, 3.0]), np.arange(-32.0, 40.0)
    for n in (33, 40, 72):
        for queries in t, *t[:, None]:
            got = pe.alibi_bias(queries, s[:n], slopes=0.3, causal=causal, dtype=dtype)
            assert_same_bits(got, row_by_row(queries, s[:n], 0.3, causal, dtype))


@each_isa
@pytest.mark.parametrize("n", [2048, 2064, 4096])
def test_more_keys_than_are_held_at_a_time(isa, n):
    t, s = np.arange(n - 5.0, n), np.arange(float(n))
    assert_same_bits(pe.decay_bias(t, s, rate=0.7, dtype=np.float32), row_by_row(t, s, 0.7, True, np.float32))


@each_isa
@pytest.mark.parametrize("dtype", DTYPES)
def test_clocks_leave_the_future_to_positions(isa, dtype):
    """Positions in any order, a clock of its own for each head."""
    rng = np.random.default_rng(0)
    t, s = rng.permutation(40)[:9] + 0.5, rng.permutation(70)
    clock = np.cumsum(rng.random((3, 70)), axis=-1), np.cumsum(rng.random((3, 9)), axis=-1)
    rate = np.array([0.0, 0.5, 2.0])
    got = pe.decay_bias(t, s, clock=clock[::-1], rate=rate, dtype=dtype)
    for head in range(3):
        want = row_by_row(clock[1][head], clock[0][head], rate[head], False, dtype)
        want[s > t[:, None]] = -np.inf
        assert_same_bits(got[head], want)


@each_isa
@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_but_the_rows_is_written(isa, dtype):
    """Of rows of any length at any place in a line, one after another and with a line's room between them."""
    item = np.dtype(dtype).itemsize
    for n in range(1, 21):
        expected = pe.reference.alibi_bias(3, n, slopes=0.5)
        for apart in (n * item, 128 + n * item // 64 * 64):
            for place in range(8):
                memory = np.full(4 * apart + 256, 77, np.uint8)
                start = -memory.ctypes.data % 64 + place * item
                out = np.ndarray((3, n), dtype, memory, start, (apart, item))
                pe.alibi_bias(3, n, slopes=0.5, out=out)
                assert (out == expected.astype(dtype)).all()
                out.fill(0)
                left = memory.copy()
                rows = np.ndarray((3, n * item), np.uint8, left, start, (apart, 1))
                assert not rows.any()
                rows.fill(77)
                assert (left == 77).all()
