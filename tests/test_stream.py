"""Outputs too large for a cache are written past it, however aligned: the same bits as in small calls."""

from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest

import pe

LARGE = 33 << 20        # bytes; from 32 MiB on results go past the cache
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def placed(shape, dtype, offset):
    """Return an array that begins `offset` bytes after a line of 64, amid bytes that must stay."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(size + 192, 77, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory, start, memory[start:start + size].view(dtype).reshape(shape)


@lru_cache(1)
def values(rows, width, dtype):
    """Three heads of rows of numbers; the tests that follow each other share them."""
    return np.random.default_rng(0).standard_normal((3, rows, width), np.float32).astype(dtype)


def nothing_else_was_written(memory, start, array):
    return (memory[:start] == 77).all() and (memory[start + array.nbytes:] == 77).all()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("offset", [0, 8, 56])
@pytest.mark.parametrize("width, rotary_dim", [(128, None), (40, 24)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_rotations(dtype, width, rotary_dim, offset, layout):
    rows = LARGE // (3 * width * np.dtype(dtype).itemsize) + 1
    x = values(rows, width, dtype)
    memory, start, out = placed(x.shape, dtype, offset)
    turn = {"layout": layout, "rotary_dim": rotary_dim}
    pe.apply_rope(x, positions=np.arange(rows), out=out, **turn)
    assert nothing_else_was_written(memory, start, out)
    for first in (0, rows // 2, rows - 30):
        part = slice(first, first + 30)
        small = pe.apply_rope(x[:, part], positions=np.arange(rows)[part], **turn)
        assert out[:, part].tobytes() == small.tobytes()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("width, planes, heads, offset", [(128, 64, 1, 16), (128, 64, 3, 0), (64, 20, 3, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_rotations_whose_rows_have_positions_of_their_own(dtype, width, planes, heads, offset, layout):
    """Angles are made a few rows at a time, and heads may have frequencies of their own."""
    rows, rng = LARGE // (3 * width * np.dtype(dtype).itemsize) + 1, np.random.default_rng(0)
    x = np.resize(rng.standard_normal((1000, width), np.float32), (3, rows, width)).astype(dtype)
    points = rng.integers(0, 9999, (3, rows, 2)) + np.resize([0.0, 0.25, 1e7 + 1 / 3, 0.0, 0.0], (3, rows, 1))
    turning = {"freqs": rng.random((2, heads, planes)).squeeze(), "layout": layout}
    memory, start, out = placed(x.shape, dtype, offset)
    pe.apply_rope_nd(x, points, out=out, **turning)
    assert nothing_else_was_written(memory, start, out)
    for first in (0, rows // 2, rows - 30):
        part = slice(first, first + 30)
        small = pe.apply_rope_nd(x[:, part], points[:, part], **turning)
        assert out[:, part].tobytes() == small.tobytes()
    assert pe.apply_rope_nd(x, points, out=x, **turning).tobytes() == out.tobytes()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("width, rotary_dim", [(64, 64), (44, 36)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_rotations_amid_other_numbers(dtype, width, rotary_dim, layout):
    """Rows that do not follow one another, of heads whole lines apart."""
    rows = LARGE // (3 * width * np.dtype(dtype).itemsize) // 64 * 64 + 64
    x = values(rows, width, dtype)
    room = np.full((3, rows, width + 7), 77, dtype)
    out, turn = room[..., 3:-4], {"layout": layout, "rotary_dim": rotary_dim}
    pe.apply_rope(x, positions=np.arange(rows), out=out, **turn)
    assert (room[..., :3] == 77).all() and (room[..., -4:] == 77).all()
    for part in slice(0, 30), slice(rows // 2, rows // 2 + 300), slice(rows - 30, rows):
        small = pe.apply_rope(x[:, part], positions=np.arange(rows)[part], **turn)
        assert out[:, part].tobytes() == small.tobytes()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("size", [1000, LARGE])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_finite_stays_in_its_plane(dtype, size, layout):
    rows, rng = size // (128 * np.dtype(dtype).itemsize) + 3, np.random.default_rng(0)
    x = np.resize(rng.standard_normal((1000, 128), np.float32), (rows, 128)).astype(dtype)
    clean, odd = pe.apply_rope(x, positions=np.arange(rows), layout=layout), x.copy()
    odd[1, 37], odd[2, 70] = np.nan, -np.inf
    turned = pe.apply_rope(odd, positions=np.arange(rows), layout=layout)
    hit = np.zeros(x.shape, bool)
    for row, place in (1, 37), (2, 70):
        hit[row, [place, place ^ 1 if layout == "interleaved" else (place + 64) % 128]] = True
    assert not np.isfinite(turned[hit].astype(float)).any()
    assert turned[~hit].tobytes() == clean[~hit].tobytes()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keys, offset", [(1000, 8), (2048, 0), (5003, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_biases(dtype, keys, offset, causal):
    queries, slopes = LARGE // (3 * keys * np.dtype(dtype).itemsize) + 1, np.array([0.5, 0.1, 3.0])
    memory, start, out = placed((3, queries, keys), dtype, offset)
    pe.alibi_bias(queries, keys, slopes=slopes, causal=causal, out=out)
    assert nothing_else_was_written(memory, start, out)
    for first in (0, queries // 2, queries - 3):
        t = np.arange(keys - queries, keys)[first:first + 3]
        small = pe.alibi_bias(t, np.arange(keys), slopes=slopes, causal=causal, dtype=dtype)
        assert out[:, first:first + 3].tobytes() == small.tobytes()


@pytest.mark.parametrize("keys, offset", [(1000, 8), (2048, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_biases_between_whole_positions(dtype, keys, offset):
    """No row is part of another, so that each is made by itself."""
    queries = LARGE // (keys * np.dtype(dtype).itemsize) + 1
    t, s = np.linspace(0, keys, queries), np.sort(np.random.default_rng(0).random(keys)) * keys
    memory, start, out = placed((queries, keys), dtype, offset)
    pe.alibi_bias(t, s, slopes=0.1, out=out)
    assert nothing_else_was_written(memory, start, out)
    for first in (0, queries // 2, queries - 3):
        small = pe.alibi_bias(t[first:first + 3], s, slopes=0.1, dtype=dtype)
        assert out[first:first + 3].tobytes() == small.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_biases_amid_other_numbers(dtype):
    """Rows that do not follow one another go past the cache each by itself."""
    keys = 1500
    room = np.full((LARGE // (keys * np.dtype(dtype).itemsize) + 1, keys + 7), 77, dtype)
    out = room[:, 3:-4]
    pe.decay_bias(np.arange(len(out)), np.arange(keys), rate=0.25, out=out)
    assert (room[:, :3] == 77).all() and (room[:, -4:] == 77).all()
    for first in (0, len(out) // 2, len(out) - 3):
        small = pe.decay_bias(np.arange(first, first + 3), np.arange(keys), rate=0.25, dtype=dtype)
        assert out[first:first + 3].tobytes() == small.tobytes()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("offset", [0, 16, 32, 48])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_that_lie_in_another_order_than_their_results(dtype, width, offset, layout):
    """Two are turned side by side, the last of five alone; the last task has one row a head.

    Angles are ready, or made by the task.
    """
    rows = LARGE // (5 * width * np.dtype(dtype).itemsize) // 256 * 256 + 257
    some = np.random.default_rng(0).standard_normal((999, width), np.float32)
    x = np.resize(some, (5, rows, width)).astype(dtype)
    tables = [t.astype(np.float32) for t in pe.build_rope_cache(rows, width)]
    memory, start, out = placed(x.shape, dtype, offset)
    for ready in (True, False):
        given = {} if ready else {"positions": np.arange(rows)}
        pe.apply_rope(x[::-1], *(tables if ready else ()), **given, layout=layout, out=out)
        assert nothing_else_was_written(memory, start, out)
        for head in range(5):
            for part in slice(0, 30), slice(rows - 300, rows):
                angles = [t[part] for t in tables] if ready else []
                given = {} if ready else {"positions": np.arange(rows)[part]}
                small = pe.apply_rope(x[4 - head, part], *angles, **given, layout=layout)
                assert out[head, part].tobytes() == small.tobytes()


@pytest.mark.parametrize("width, rotary_dim", [(128, None), (80, None), (72, 48), (64, 12)])
def test_large_float16_pairs_whose_angles_many_heads_share(width, rotary_dim):
    """Positions inside heads, heads inside positions, and in place."""
    rows, turn = LARGE // (5 * width * 2) + 3, {"rotary_dim": rotary_dim}
    some = np.random.default_rng(0).standard_normal((999, width), np.float32)
    x, positions = np.resize(some, (5, rows, width)).astype(np.float16), np.arange(rows)
    tables = [t.astype(np.float32) for t in pe.build_rope_cache(rows, rotary_dim or width)]
    for ready in (True, False):
        given = {} if ready else {"positions": positions}
        out = pe.apply_rope(x, *(tables if ready else ()), **given, **turn)
        for part in slice(0, 30), slice(rows - 300, rows):
            angles = [t[part] for t in tables] if ready else []
            given = {} if ready else {"positions": positions[part]}
            small = pe.apply_rope(x[:, part], *angles, **given, **turn)
            assert out[:, part].tobytes() == small.tobytes()
        given = {} if ready else {"positions": positions}
        inside = x.swapaxes(0, 1).copy().swapaxes(0, 1)
        assert pe.apply_rope(inside, *(tables if ready else ()), **given, **turn).tobytes() == out.tobytes()
        same = x.copy()
        pe.apply_rope(same, *(tables if ready else ()), **given, **turn, out=same)
        assert same.tobytes() == out.tobytes()
