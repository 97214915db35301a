"""Outputs too large for a cache are written past it, however aligned: the same bits as in small calls."""

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


def nothing_else_was_written(memory, start, array):
    return (memory[:start] == 77).all() and (memory[start + array.nbytes:] == 77).all()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("offset", [0, 8, 56])
@pytest.mark.parametrize("width, rotary_dim", [(128, None), (40, 24)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_rotations(dtype, width, rotary_dim, offset, layout):
    rows = LARGE // (3 * width * np.dtype(dtype).itemsize) + 1
    x = np.random.default_rng(0).standard_normal((3, rows, width), np.float32).astype(dtype)
    memory, start, out = placed(x.shape, dtype, offset)
    turn = {"layout": layout, "rotary_dim": rotary_dim}
    pe.apply_rope(x, positions=np.arange(rows), out=out, **turn)
    assert nothing_else_was_written(memory, start, out)
    for first in (0, rows // 2, rows - 30):
        part = slice(first, first + 30)
        small = pe.apply_rope(x[:, part], positions=np.arange(rows)[part], **turn)
        assert out[:, part].tobytes() == small.tobytes()


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
