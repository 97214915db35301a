"""Heads that share their angles are turned side by side, each to the bits it has alone."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe

RNG = np.random.default_rng(12)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
LINE = 64


def heads_at(past, apart, shape, dtype):
    """An array (heads, rows, width) that begins `past` bytes after a line, its heads `apart` items apart."""
    heads, rows, width = shape
    item, block = np.dtype(dtype).itemsize, rows * width + apart
    room = np.empty(heads * block * item + 2 * LINE, np.uint8)
    start = -room.ctypes.data % LINE + past
    blocks = room[start : start + heads * block * item].view(dtype).reshape(heads, block)
    return blocks[:, : rows * width].reshape(shape)


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("heads", [2, 3, 8])
def test_heads_side_by_side_are_turned_as_each_alone(heads, dtype, layout, isa):
    kind = np.float64 if dtype == np.float64 else np.float32
    for rows, width, part in (1, 64, 64), (5, 2, 2), (9, 62, 62), (7, 66, 64), (33, 64, 64), (3, 200, 130):
        values = RNG.normal(size=(heads, rows, width)).astype(dtype)
        cos, sin = RNG.normal(size=(2, rows, part // 2)).astype(kind)
        positions = {"positions": np.arange(rows) * 3.0 + 1, "rotary_dim": part}
        for angles in {"cos": cos, "sin": sin}, positions:
            want = b"".join(pe.apply_rope(head, layout=layout, **angles).tobytes() for head in values)
            rows_first = values.swapaxes(0, 1).copy().swapaxes(0, 1)
            assert pe.apply_rope(rows_first, layout=layout, **angles).tobytes() == want
            for past, apart in (0, 0), (16, 0), (48, 16), (0, 1), (8, 7):
                x, out = (heads_at(past, apart, values.shape, dtype) for _ in range(2))
                x[...] = values
                assert pe.apply_rope(x, layout=layout, out=out, **angles).tobytes() == want
                assert pe.apply_rope(x, layout=layout, out=x, **angles).tobytes() == want


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: np.dtype(d).name)
def test_heads_of_other_steps_than_those_of_out(dtype, layout, isa):
    """A head may stand for several (a step of 0), go backwards, or be apart otherwise than in out."""
    x = RNG.normal(size=(4, 40, 32)).astype(dtype)
    for view in (np.broadcast_to(x[:1], x.shape), x[::-1], x[[0, 1, 3, 2]], np.repeat(x, 2, 0)[::2]):
        turned = pe.apply_rope(view, positions=np.arange(40), layout=layout)
        for head in range(4):
            alone = pe.apply_rope(view[head].copy(), positions=np.arange(40), layout=layout)
            assert turned[head].tobytes() == alone.tobytes()
