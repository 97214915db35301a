"""Faults that other libraries have had: rotations, positions, masks and biases. (C01 to C63)

Each was reported in public; the numbers are worked out here by hand or to 50 digits. `test_cases_keywords`
has those about windows, caps, sinks, segments, lengths and clocks, `test_cases_rope` those about scaling and
configs, `test_check_rope_faults` the functions at fault themselves.
"""

import gc
import tracemalloc

import numpy as np
import pytest
from hand_cases import BF16, DTYPES, FLOATS, attend, near, normal

import pe

LAYOUTS = ["interleaved", "half"]


# A. Layout of the rotation


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("position, layout, wanted", [
    (1, "interleaved", [-1.142640, 1.922076, 2.959851, 4.029800]),
    (1, "half", [-1.984111, 1.959901, 2.462378, 4.019800]),
    (7, "interleaved", [-0.560071, 2.164791, 2.712882, 4.200033]),
    (7, "half", [-1.217058, 1.715331, 2.918693, 4.130090])])
def test_c01_layout(position, layout, wanted, dtype):
    near(pe.apply_rope(np.array([1, 2, 3, 4], dtype), positions=[position], layout=layout), wanted, 5e-7)
    many = np.tile(np.array([1, 2, 3, 4], dtype), (2, 3, 5, 1))
    near(pe.apply_rope(many, positions=[position] * 5, layout=layout), np.tile(wanted, (2, 3, 5, 1)), 5e-7)


def test_c01_unknown_layout():
    for layout in ("llama", "halve", ""):
        with pytest.raises(ValueError, match="layout"):
            pe.apply_rope(np.ones(4), positions=[1], layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_c03_direction(layout):
    near(pe.apply_rope([1.0, 0.0], positions=[1], layout=layout), [0.540302, 0.841471], 5e-7)
    near(pe.apply_rope([1.0, 0, 0, 0], positions=[3]), [-0.989992, 0.141120, 0, 0], 5e-7)
    cos, sin = np.cos([[1.0]]), np.sin([[1.0]])
    near(pe.apply_rope([[1.0, 0.0]], cos, sin, layout=layout)[0], [0.540302, 0.841471], 5e-7)
    # inside attention the same turn: scores (R q) . (R k), read off through the weights of two keys
    rope = pe.Rope(2, layout=layout)
    q, k = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    weights = pe.attention(q, k, np.eye(2), rope=rope, scale=1.0, q_positions=[1], k_positions=[0, 0])[0]
    assert np.log(weights[0] / weights[1]) == pytest.approx(np.sin(1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c04_partial_width(dtype):
    for layout, wanted in (("half", [-0.264500, -0.295050, 1.389259, -1.383093]),
                           ("interleaved", [-0.264500, 1.389259, -0.295050, -1.383093])):
        result = pe.apply_rope(np.ones(8, dtype), positions=[1000], rotary_dim=4, layout=layout)
        near(result, [*wanted, 1, 1, 1, 1], 5e-7)
    assert pe.Rope(8, rotary_dim=4).freqs.ravel().tolist() == [1.0, 0.01]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_c06_rest_is_untouched(layout, dtype):
    x = normal(2, 3, 20, dtype=dtype)
    x[..., 12:] = np.array([np.nan, -0.0, np.inf, 1e-7, 3, 4, 5, 6], dtype)
    points = np.arange(3)
    for r in (2, 8, 12):
        rope = pe.Rope(20, rotary_dim=r, layout=layout)
        cos, sin = rope.cache(points)
        for how in ({"positions": points, "rotary_dim": r, "layout": layout},
                    {"positions": points, "rope": rope}, {"cos": cos, "sin": sin, "layout": layout}):
            for out in (None, np.empty_like(x), np.empty((2, 3, 40), dtype)[..., ::2]):
                result = pe.apply_rope(x, **how, out=out)
                assert result[..., r:].tobytes() == x[..., r:].tobytes()
                assert result[:, 1:, :r].tobytes() != x[:, 1:, :r].tobytes()
    for r in (3, 22, 0, -2):
        with pytest.raises(ValueError, match="rotary_dim"):
            pe.apply_rope(x, positions=points, rotary_dim=r)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c07_two_axes(dtype):
    wanted = [-0.989992, 0.141120, 0.283662, -0.958924]
    near(pe.apply_rope_2d(np.array([[1, 0, 1, 0]], dtype), [3], [5])[0], wanted, 5e-7)
    wanted = [-2.234742, 0.077004, 2.919405, 4.059196, -0.172408, 7.808347, 6.423314, 8.470008]
    near(pe.apply_rope_2d(np.arange(1, 9).astype(dtype)[None], [2], [7])[0], wanted, 5e-7)


def test_c09_widths_that_do_not_divide():
    for D in (6, 10, 2):
        with pytest.raises(ValueError, match=f"\\b{D}\\b"):
            pe.apply_rope_2d(np.ones((1, D)), [1], [1])
    for D in (1, 3, 7):
        with pytest.raises(ValueError, match=f"\\b{D}\\b"):
            pe.apply_rope(np.ones((1, D)), positions=[1])
    assert pe.apply_rope(np.ones((1, 2)), positions=[1]).shape == (1, 2)
    assert pe.apply_rope_2d(np.ones((1, 4)), [1], [1]).shape == (1, 4)


@pytest.mark.parametrize("rows", [1, 70])
@pytest.mark.parametrize("H, K", [(4, 2), (6, 2), (6, 3), (8, 1), (3, 3)])
def test_c10_shared_heads_are_repeated_not_tiled(H, K, rows):
    v = 10.0 * np.arange(1, K + 1)[:, None, None] * np.ones((1, rows, 1))
    out = pe.attention(np.zeros((H, rows, 1)), np.zeros((K, rows, 1)), v)
    near(out, np.repeat(v, H // K, axis=0))
    with pytest.raises(ValueError, match="H"):
        pe.attention(np.zeros((5, rows, 1)), np.zeros((2, rows, 1)), np.zeros((2, rows, 1)))
    # slopes stay per query head: each equals a call of that head alone
    slopes = np.linspace(0.1, 1, H)
    q, k = normal(H, rows, 4), normal(K, rows, 4, seed=1)
    whole = pe.attention(q, k, v, alibi_slopes=slopes)
    for h in range(H):
        near(whole[h], pe.attention(q[h], k[h * K // H], v[h * K // H], alibi_slopes=slopes[h]))


# B. Positions and precision


@pytest.mark.parametrize("positions_dtype", ["i4", "i8", "f4", "f8"])
def test_c11_positions_keep_their_precision(positions_dtype):
    table = {2048: (0.949734, None), 2049: (0.776572, None), 256: (-0.039791, None), 257: (0.819306, None),
             15962: (-0.908016, 0.418936), 65537: (-0.972362, -0.233478)}
    for dtype in DTYPES:
        for position, (cos, sin) in table.items():
            points = np.array([position], positions_dtype)
            result = pe.apply_rope(np.array([[1, 0]], dtype), positions=points)[0]
            near(result[:1], [cos], 5e-7)
            if sin is not None:
                near(result[1:], [sin], 5e-7)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_c12_phase_in_float64(layout):
    wanted = np.array([-0.817983, -0.575242, 0.930343, 0.366690, -0.786384, -0.617738, 0.640312, -0.768115])
    x = np.array([1, 0, 1, 0, 1, 0, 1, 0], np.float32)
    if layout == "half":
        x, wanted = np.sort(x)[::-1], np.concatenate([wanted[::2], wanted[1::2]])
    near(pe.apply_rope(x, positions=[131071], layout=layout), wanted, 5e-7)


@pytest.mark.parametrize("gap, score", [(3, 5.5431010613), (7, 5.8921859874)])
def test_c14_same_gap_same_score(gap, score):
    for dtype, bound in ((np.float64, 1e-6), (np.float32, 5e-6)):
        x = np.tile(np.array([1, 0], dtype), (2, 8))
        for t in (gap, 13, 103, 10**6 + 3, 10**9 + 3):
            q, k = pe.apply_rope(x, positions=[t, t - gap]).astype(float)
            assert abs(q @ k - score) <= bound


def test_c16_float64_stays_float64():
    result = pe.apply_rope(np.array([1.0, 0, 1, 0]), positions=[123456])
    assert result.dtype == np.float64
    wanted = [-0.672294881656585, -0.740283453886658, -0.996311759594257, 0.0858072123670055]
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c17_neighbouring_biases_do_not_tie(dtype):
    near(pe.alibi_bias([1001], [1, 0], slopes=2**-0.5)[0], [-707.106781, -707.813888], 5e-7)
    assert pe.alibi_bias([4097], [0], slopes=0.5, dtype=np.float32)[0, 0] == -2048.5
    # inside attention, on 16-bit values too, weights of neighbours a thousand away differ by e^slope
    q, k, v = np.zeros((1, 2), dtype), np.zeros((2, 2), dtype), np.eye(2, dtype=dtype)
    weights = pe.attention(q, k, v, alibi_slopes=2**-0.5, q_positions=[1001], k_positions=[0, 1])[0]
    near(weights, np.array([1, np.exp(2**-0.5)]) / (1 + np.exp(2**-0.5)), 4e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c18_decay_does_not_underflow(dtype):
    bias = pe.decay_bias([4096], [1096, 0], multiplier=0.96875)[0]
    np.testing.assert_allclose(bias, [-95.246095, -130.042668], rtol=0, atol=5e-7)
    v = np.array([[0.3, -2.5]], dtype)
    one = np.zeros((1, 2), dtype)
    for gap in (4096, 10**6):
        result = pe.attention(one, one, v, decay_rate=-np.log(0.96875), q_positions=[gap], k_positions=[0])
        assert np.array_equal(result, v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c19_fades_are_relative(dtype):
    """A fade never becomes a growing factor on k and a shrinking one on q: far out is as good as near by."""
    q, k, v = normal(1, 2, dtype=dtype), normal(2, 2, dtype=dtype, seed=1), normal(2, 2, dtype=dtype, seed=2)

    rope = pe.Rope(2, freqs=[2.0])

    def at(t):
        return pe.attention(q, k, v, decay_rate=0.1, rope=rope, q_positions=[t], k_positions=[t - 3, t])

    for t in (888, 10_000, 10**7):
        near(at(t), at(3).astype(float), 1e-6)
    # the fade itself and the turn: scores of 1 and cos 6 with weights e^-0.3 apart
    one = np.array([[1, 0]], dtype)
    weights = pe.attention(one, np.repeat(one, 2, axis=0), np.eye(2, dtype=dtype), scale=1, decay_rate=0.1,
                           rope=rope, q_positions=[10_000], k_positions=[9_997, 10_000])[0]
    odds = np.exp(np.cos(6.0) - 1 - 0.3)
    near(weights, np.array([odds, 1]) / (1 + odds), 1e-6)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_c22_products_beyond_the_range(dtype):
    q, v = np.full((1, 64), 300, dtype), np.array([[1], [2]], dtype)
    for sign, wanted in ((-1, 1.0), (1, 1.5)):
        k = np.stack([np.full(64, 300, dtype), np.full(64, sign * 300, dtype)])
        assert pe.attention(q, k, v).item() == wanted


# D. Offsets and caches


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_c34_offsets(layout, dtype):
    x, T = normal(2, 3, 40, 12, dtype=dtype), 40
    whole = pe.apply_rope(x, positions=np.arange(T), layout=layout)
    for start in (5, 17, 39):
        rest = pe.apply_rope(x[..., start:, :], positions=np.arange(start, T), layout=layout)
        assert rest.tobytes() == whole[..., start:, :].tobytes()
        one = pe.apply_rope(x[..., start:start + 1, :], positions=[start], layout=layout)
        assert one.tobytes() == whole[..., start:start + 1, :].tobytes()
    assert not np.array_equal(pe.apply_rope(x, positions=np.arange(1, T + 1), layout=layout), whole)
    cos, sin = pe.build_rope_cache(T, 12)
    whole = pe.apply_rope(x, cos, sin, layout=layout)
    rest = pe.apply_rope(x[..., 5:, :], cos[5:], sin[5:], layout=layout)
    assert rest.tobytes() == whole[..., 5:, :].tobytes()
    with pytest.raises(ValueError, match=r"cos\[:1\]"):
        pe.apply_rope(x[..., 5:6, :], cos, sin)


def test_c34_decode_is_prefill():
    q, k, v = normal(2, 70, 8), normal(2, 70, 8, seed=1), normal(2, 70, 8, seed=2)
    keywords = {"causal": True, "rope": pe.Rope(8), "alibi_slopes": 0.1}
    whole = pe.attention(q, k, v, **keywords)
    for t in (0, 1, 33, 69):
        near(pe.attention(q[:, t:t + 1], k[:, :t + 1], v[:, :t + 1], **keywords), whole[:, t:t + 1])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c36_positions_of_a_padded_batch(dtype):
    q, k, v = (normal(2, 4, 5, 8, dtype=dtype, seed=seed) for seed in range(3))
    points = np.array([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]])[:, None]
    visible = np.array([[True] * 5, [False, False, True, True, True]])[:, None, None]
    turned = pe.apply_rope(q, positions=points)
    for row in range(2):
        assert np.array_equal(turned[row], pe.apply_rope(q[row], positions=points[row, 0]))
    padded = pe.attention(q, k, v, rope=pe.Rope(8), q_positions=points, k_positions=points, mask=visible,
                          causal=True)
    short = pe.attention(q[1, :, 2:], k[1, :, 2:], v[1, :, 2:], rope=pe.Rope(8), causal=True)
    np.testing.assert_allclose(padded[1, :, 2:], short, rtol=0, atol=1e-6)
    for bad in (np.arange(4), np.zeros((2, 5)), np.zeros((3, 1, 5)), np.zeros((2, 1, 4))):
        with pytest.raises(ValueError, match="positions"):
            pe.apply_rope(q, positions=bad)
    with pytest.raises(TypeError, match="positions"):
        pe.apply_rope(q, positions=np.ones(5, bool))


# E. Masks and softmax


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [3, 70])
def test_c37_rows_that_see_nothing(size, dtype):
    q, k, v = (normal(size, 1, dtype=dtype, seed=seed) for seed in range(3))
    mask = np.ones((size, size), bool)
    mask[1] = False
    plain, bias = pe.attention(q, k, v), np.where(mask, 0, -np.inf)
    for keywords in ({"mask": mask}, {"bias": bias}, {"bias": bias.astype(np.float32), "mask": mask}):
        out, lse = pe.attention(q, k, v, return_lse=True, **keywords)
        assert out[1, 0] == 0
        assert lse[1] == -np.inf
        near(np.delete(out, 1, axis=0), np.delete(plain, 1, axis=0).astype(float))
    early = pe.attention(q, k, v, causal=True, q_positions=[-1, *range(1, size)])
    assert early[0, 0] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e4])
def test_c39_what_is_hidden_does_not_leak(junk, dtype):
    k, v = np.array([[0], [junk]], dtype), np.array([[2], [junk]], dtype)
    q = np.zeros((1, 1), dtype)
    for keywords in ({"mask": [True, False]}, {"bias": [0, -np.inf]}, {"causal": True, "q_positions": [0]}):
        assert pe.attention(q, k, v, **keywords).item() == 2.0
    # a whole tile of causal rows: each sees its past, which is clean, and a future that is not
    q, k, v = (normal(130, 8, dtype=dtype, seed=seed) for seed in range(3))
    clean = pe.attention(q, k, v, causal=True)
    k[100:], v[100:] = junk, junk
    assert np.array_equal(pe.attention(q, k, v, causal=True)[:100], clean[:100])


def test_c39_nan_shows_where_it_is_seen():
    q, k, v = (normal(5, 4, seed=seed) for seed in range(3))
    v[3, 1] = np.nan
    out = pe.attention(q, k, v, causal=True)
    assert np.array_equal(np.isnan(out), np.outer([0, 0, 0, 1, 1], [0, 1, 0, 0]).astype(bool))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c41_causal_is_aligned_at_the_end(dtype):
    v = np.arange(1, 6).astype(dtype)[:, None]
    for M, wanted in ((2, [2.5, 3.0]), (1, [3.0]), (5, [1, 1.5, 2, 2.5, 3])):
        out = pe.attention(np.zeros((M, 1), dtype), np.zeros((5, 1), dtype), v, causal=True)
        near(out[:, 0], wanted)
    near(attend([1, 2], queries=4, causal=True), [0, 0, 1, 1.5])


def test_c43_true_may_attend():
    triangle = np.tri(3, dtype=bool)
    near(attend([1, 2, 3], mask=triangle), [1, 1.5, 2])
    near(attend([1, 2, 3], mask=~triangle), [2.5, 3, 0])


def test_c44_masks_are_bool():
    for dtype in ("f4", "f8", "i8", "u1", "f2"):
        with pytest.raises(TypeError, match="bool"):
            attend([1, 2], mask=np.array([1, 0], dtype))
    near(attend([1, 0], bias=[1, 0]), [0.731059, 0.731059], 5e-7)


def test_c45_causal_and_mask_both_apply():
    near(attend([1, 2, 4], mask=[True, False, True], causal=True), [1, 1, 2.5])
    near(attend([1, 2, 4], mask=np.tile([True, False, True], (3, 1)), causal=True), [1, 1, 2.5])
    near(attend([1, 2, 4], bias=[0, -np.inf, 0], causal=True), [1, 1, 2.5])


def test_c52_axes_of_a_mask():
    q, k, v = (normal(2, 4, 6, 8, seed=seed) for seed in range(3))
    row = np.array([True, False, True, True, False, True])
    wanted = pe.attention(q, k, v, mask=row)
    for tiling in ((6, 1), (2, 1, 1, 1), (2, 4, 6, 1), (1, 1, 1, 1)):
        mask = np.tile(row, tiling)
        assert np.array_equal(pe.attention(q, k, v, mask=mask), wanted)
    for shape in ((5,), (6, 5), (2, 1, 1, 5), (3, 1, 1, 6), (2, 2, 6, 6)):
        with pytest.raises(ValueError, match="mask"):
            pe.attention(q, k, v, mask=np.ones(shape, bool))


def peak_bytes(call):
    """What a call takes from NumPy beyond what is held; the first call may grow what stays."""
    call()
    gc.collect()
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_c52_a_small_mask_makes_no_large_one():
    q = np.ones((1, 1, 16384, 2), np.float32)
    mask = np.arange(16384) % 2 == 0
    assert peak_bytes(lambda: pe.attention(q, q, q, mask=mask[None, None, None])) < 2**20  # scores: 1 GiB


def test_c53_no_matrix_of_scores():
    q, k, v = (normal(1, 32768, 16, dtype=np.float32, seed=seed) for seed in range(3))
    keywords = {"causal": True, "alibi_slopes": [2.0**-4]}
    out = np.empty_like(q)
    assert peak_bytes(lambda: pe.attention(q, k, v, out=out, **keywords)) < 2**21  # scores: 4 GiB
    for row in (0, 1, 32767):
        wide = [a.astype(float) for a in (q[:, row:row + 1], k[:, :row + 1], v[:, :row + 1])]
        near(out[:, row:row + 1], pe.reference.attention(*wide, **keywords))


# F. ALiBi and decay


def test_c54_slopes_of_any_head_count():
    assert pe.alibi_slopes(6).tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    exponents = np.array([*range(1, 9), 0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(pe.alibi_slopes(12), 2.0**-exponents, rtol=1e-15)
    assert pe.alibi_slopes(6, recipe="smooth")[0] == pytest.approx(0.396850, abs=5e-7)


def test_c56_near_keys_win():
    weights = [0.058012, 0.095646, 0.157694, 0.259993, 0.428656]
    for keywords in ({"alibi_slopes": 0.5}, {"decay_rate": 0.5}, {"bias": pe.alibi_bias(1, 5, slopes=0.5)},
                     {"alibi_slopes": 0.2, "decay_rate": 0.3}):
        out = pe.attention(np.zeros((1, 1)), np.zeros((5, 1)), np.eye(5), causal=True, **keywords)
        near(out[0], weights, 5e-7)
        near(attend(range(5), causal=True, **keywords)[-1:], [2.905633], 5e-7)


def test_c57_both_sides():
    bias = pe.alibi_bias(4, slopes=0.5, causal=False)
    assert np.array_equal(bias, bias.T)
    near(bias[1], [-0.5, 0, -0.5, -1])
    assert np.isneginf(pe.alibi_bias(4, slopes=0.5)[np.triu_indices(4, 1)]).all()
    weights = [0.235004, 0.387456, 0.235004, 0.142537]
    for keywords in ({"alibi_slopes": 0.5}, {"decay_rate": 0.5}, {"bias": bias}):
        near(pe.attention(np.zeros((4, 1)), np.zeros((4, 1)), np.eye(4), **keywords)[1], weights, 5e-7)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c58_bias_of_a_decode_step(dtype):
    near(pe.alibi_bias(1, 5, slopes=0.5, dtype=dtype), [[-2, -1.5, -1, -0.5, 0]])
    near(pe.decay_bias(1, 5, rate=0.5, dtype=dtype), [[-2, -1.5, -1, -0.5, 0]])
    near(attend(range(5), queries=1, causal=True, alibi_slopes=0.5), [2.905633], 5e-7)
    q, k, v = (normal(2, 70, 8, dtype=dtype, seed=seed) for seed in range(3))
    keywords = {"causal": True, "alibi_slopes": [0.5, 0.01]}
    near(pe.attention(q[:, -1:], k, v, **keywords), pe.attention(q, k, v, **keywords)[:, -1:].astype(float))


def test_c60_a_bias_of_the_key_alone():
    """m s and -m (t - s) differ by a constant in each row, which the softmax does not see."""
    q, k, v = (normal(1, 512, 8, dtype=np.float32, seed=seed) for seed in range(3))
    m = 0.01
    by_key, by_gap = {"bias": (m * np.arange(512)).astype(np.float32)}, {"alibi_slopes": m}
    np.testing.assert_allclose(pe.attention(q, k, v, causal=True, **by_key),
                               pe.attention(q, k, v, causal=True, **by_gap), rtol=0, atol=1e-6)
    assert abs(pe.attention(q, k, v, **by_key) - pe.attention(q, k, v, **by_gap)).max() > 0.01


def test_c61_the_future_is_not_rewarded():
    bias = pe.decay_bias([0], [50], rate=0.1)
    assert bias[0, 0] == -np.inf
    assert np.exp(bias)[0, 0] == 0
    row = pe.decay_bias(4, rate=0.1)[-1]
    near(row, [-0.3, -0.2, -0.1, 0])
    weights = pe.attention(np.zeros((1, 1)), np.zeros((4, 1)), np.eye(4), decay_rate=0.1, causal=True)[0]
    near(weights, [0.213838, 0.236328, 0.261183, 0.288651], 5e-7)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rate", [1e30, 1e300])
def test_c61_infinity_times_zero(rate, dtype):
    """However steep, a penalty leaves the query's own key alone; beyond the range of the dtype too."""
    bias = pe.decay_bias(4, rate=rate, dtype=dtype)
    assert (np.diagonal(bias) == 0).all()
    assert (bias[~np.eye(4, dtype=bool)] < -1e29).all()
    x = normal(9, 4, dtype=dtype)
    assert np.array_equal(pe.attention(x, x, x, decay_rate=rate, causal=True), x)
    assert np.array_equal(pe.attention(x, x, x, alibi_slopes=rate), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c63_chunks_of_a_bias(dtype):
    rates = [0.1, 3.0]
    whole = pe.decay_bias(50, rate=rates, dtype=dtype)
    for start in (0, 7, 49):
        chunk = pe.decay_bias(np.arange(start, 50), 50, rate=rates, dtype=dtype)
        assert chunk.tobytes() == whole[:, start:].tobytes()
    scores = normal(50) + pe.decay_bias(1, 50, rate=0.1)[0]
    parts = [np.logaddexp.reduce(part) for part in np.split(scores, [3, 20, 33])]
    assert np.logaddexp.reduce(parts) == pytest.approx(np.logaddexp.reduce(scores), abs=1e-9)
