"""Rotations by the caller's tables, which kernels read where they are if they can, and by an amplitude."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe

RNG = np.random.default_rng(11)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
B, H, T, L = 2, 3, 21, 13


def rows_apart(table, step=17):
    wide = np.full((*table.shape[:-1], step), np.nan, table.dtype)
    wide[..., : table.shape[-1]] = table
    return wide[..., : table.shape[-1]]


def backwards(table):
    return table[..., ::-1, :].copy()[..., ::-1, :]


def off_its_place(table):
    """One byte beyond where such numbers belong."""
    moved = np.empty(table.nbytes + 1, np.uint8)[1:].view(table.dtype).reshape(table.shape)
    moved[...] = table
    return moved


def rows_first(table):
    """(T, B, L) in memory."""
    return np.ascontiguousarray(table.swapaxes(0, 1)).swapaxes(0, 1)


PLACES = {
    "one after another": lambda cos, sin: (cos, sin),
    "rows apart": lambda cos, sin: (rows_apart(cos), rows_apart(sin)),
    "rows apart by unlike steps": lambda cos, sin: (rows_apart(cos, 14), rows_apart(sin, 19)),
    "side by side": lambda cos, sin: tuple(np.split(np.concatenate([cos, sin], -1), 2, -1)),
    "backwards": lambda cos, sin: (backwards(cos), backwards(sin)),
    "backwards and forwards": lambda cos, sin: (backwards(cos), sin),
    "off their place": lambda cos, sin: (off_its_place(cos), sin),
    "rows first": lambda cos, sin: (rows_first(cos), rows_first(sin)),
    "half of a batch": lambda cos, sin: (np.repeat(cos, 2, 0)[::2], np.repeat(sin, 2, 0)[::2]),
    "as float64": lambda cos, sin: (cos.astype(np.float64), sin.astype(np.float64)),
}


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("place", PLACES)
def test_tables_anywhere_in_memory_turn_alike(place, dtype, layout, isa):
    cos, sin = RNG.normal(size=(2, B, T, L)).astype(np.float64 if dtype == np.float64 else np.float32)
    x = RNG.normal(size=(B, H, T, 2 * L + 3)).astype(dtype)
    c, s = (table[:, None] for table in PLACES[place](cos, sin))
    for inverse in (False, True):
        turned = pe.apply_rope(x, c, s, layout=layout, inverse=inverse)
        for b, t in [(0, 0), (0, T - 1), (1, 0), (1, 7)]:
            alone = pe.apply_rope(x[b, :, t : t + 1], cos[b, t : t + 1], sin[b, t : t + 1], layout=layout,
                                  inverse=inverse)
            assert turned[b, :, t : t + 1].tobytes() == alone.tobytes()
    a, b = (x[..., :2 * L:2], x[..., 1:2 * L:2]) if layout == "interleaved" else (x[..., :L], x[..., L:2 * L])
    a, b = a.astype(np.float64), b.astype(np.float64)
    first, second = a * cos[:, None] - b * sin[:, None], a * sin[:, None] + b * cos[:, None]
    want = np.stack([first, second], -1).reshape(B, H, T, 2 * L) if layout == "interleaved" else \
        np.concatenate([first, second], -1)
    turned = pe.apply_rope(x, c, s, layout=layout)
    tolerance = dict(zip(DTYPES, (1e-6, 1e-14, 2e-3, 1e-2), strict=True))[dtype]
    np.testing.assert_allclose(turned[..., : 2 * L].astype(np.float64), want, rtol=tolerance, atol=tolerance)
    assert turned[..., 2 * L :].tobytes() == x[..., 2 * L :].tobytes()


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: np.dtype(d).name)
def test_tables_in_many_tasks_turn_alike_on_any_number_of_threads(dtype, layout, isa):
    x = RNG.normal(size=(8, 2048, 64)).astype(dtype)
    cos, sin = RNG.normal(size=(2, 2048, 32)).astype(dtype)
    for view in (x, x.reshape(2048, 8, 64).swapaxes(0, 1)):
        turned = pe.apply_rope(view, cos, sin, layout=layout, num_threads=1)
        assert pe.apply_rope(view, cos, sin, layout=layout, num_threads=2).tobytes() == turned.tobytes()
        for t in (0, 255, 256, 1000, 2047):
            alone = pe.apply_rope(view[:, t : t + 1], cos[t : t + 1], sin[t : t + 1], layout=layout)
            assert turned[:, t : t + 1].tobytes() == alone.tobytes()


@each_isa
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
@pytest.mark.parametrize("near, fast", [(1, 1), (0.37, 1), (0.37, 1e7), (1, 1e40)],
                         ids=["words", "near", "far", "beyond"])
def test_an_amplitude_multiplies_the_turned_values(near, fast, axes, isa):
    """Of (1, 0) cos and sin alone are left, so that the two calls differ by a product rounded once."""
    planes = 19
    positions = np.floor(RNG.uniform(1, 1000, (33, axes))) * near
    freqs = RNG.uniform(0.1, 1, (axes, planes)) * fast
    x = np.tile(np.float32([1, 0]), (33, planes))
    positions = positions if axes > 1 else positions[:, 0]
    plain = pe.Rope(2 * planes, freqs=freqs).apply(x, positions)
    grown = pe.Rope(2 * planes, freqs=freqs, amplitude=1.375).apply(x, positions)
    np.testing.assert_allclose(grown, plain * np.float32(1.375), rtol=2.5e-7, atol=1e-30)
