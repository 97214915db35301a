"""The ops against their twins in pe.reference: layouts, shapes, special sizes, strides."""

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe
from pe import _check, _core, reference
from pe._check.arrays import plain

DTYPES = [np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-42}
LAYOUTS = [None, "interleaved", "adjacent", "gptj", "traditional", "half", "neox", "rotate_half", "split"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(actual, expected):
    """Assert equal shape and dtype, and values within a few units in the last place of the dtype."""
    assert type(actual) is np.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    tolerance = ULP[expected.dtype.name]
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape, points", [
    ((8,), [3]), ((5, 8), np.arange(5)), ((2, 3, 5, 8), np.arange(5) - 2.5), ((2, 3, 5, 8), normal(2, 1, 5)),
    ((2, 3, 5, 8), normal(2, 3, 1)), ((2, 5, 3, 8), np.arange(5)[None, :, None]), ((1, 2), [7]), ((0, 8), []),
    ((2, 0, 5, 8), np.arange(5)), ((5, 2), np.arange(5, dtype=np.uint8))])
def test_apply_rope_by_positions(layout, shape, points):
    x, twin_points = normal(*shape), points[0] if len(shape) == 1 else points
    freqs = np.geomspace(2, 1e-3, shape[-1] // 2)
    for keywords in ({}, {"base": 500.0}, {"freqs": freqs}, {"inverse": True}, {"rotary_dim": 2}):
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
    one = pe.apply_rope(x[0], positions=points[:1], rope=rope)
    close(one, pe.apply_rope(x, positions=points, rope=rope)[0])
    q, k, v = normal(2, 6, 8), normal(1, 6, 8, seed=1), normal(1, 6, 4, seed=2)
    keywords = {"rope": rope, "q_positions": points, "k_positions": points[None], "causal": True,
                "decay_rate": 0.3}
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
@pytest.mark.parametrize("q, k", [(4, None), (2, 5), (5, 2), (0, 3), (3, 0), (np.arange(3), 4),
                                  (2, np.arange(5)), ([0.5, -1], [3, 1, 2]),
                                  (np.zeros((3, 1, 2)), np.ones((1, 1, 4), np.int8))])
def test_biases(q, k, causal):
    leading = np.ndim(q) > 1
    for rate in (0.5, [0.25, 0.0], np.zeros((0, 1))):
        rate = np.reshape(rate, (1, -1)) if leading else rate
        expected = reference.alibi_bias(q, k, slopes=rate, causal=causal)
        close(pe.alibi_bias(q, k, slopes=rate, causal=causal), expected)
        close(pe.decay_bias(q, k, rate=rate, causal=causal), expected)
    for decay in ({"half_life": 3.0}, {"multiplier": 0.9}, {"multiplier": 1.0}):
        close(pe.decay_bias(q, k, causal=causal, **decay), reference.decay_bias(q, k, causal=causal, **decay))


def test_half_life_and_multiplier_are_the_same_decay():
    by_rate = pe.decay_bias(4, rate=np.log(2) / [10.0, 20.0])
    np.testing.assert_allclose(pe.decay_bias(4, half_life=[10.0, 20.0]), by_rate, rtol=1e-15)
    np.testing.assert_allclose(pe.decay_bias(4, multiplier=[0.5**0.1, 0.5**0.05]), by_rate, rtol=1e-14)
    assert (pe.decay_bias(4, half_life=np.inf, causal=False) == 0).all()


@pytest.mark.parametrize("shapes", [
    ((3, 4), (5, 4), (5, 2)),                               # one head
    ((2, 3, 4), (2, 5, 4), (2, 5, 4)), ((4, 3, 4), (2, 5, 4), (2, 5, 1)), ((4, 3, 4), (5, 4), (5, 4)),
    ((2, 4, 3, 4), (2, 5, 4), (2, 5, 4)), ((3, 4), (1, 5, 4), (1, 5, 4)),
    ((3, 1, 2, 3, 4), (2, 2, 5, 4), (1, 1, 2, 5, 3)),
    ((2, 0, 4), (2, 5, 4), (2, 5, 4)),                      # no queries, keys, values, batch or heads
    ((2, 3, 4), (2, 0, 4), (2, 0, 4)), ((3, 4), (0, 4), (0, 2)), ((2, 3, 4), (2, 5, 4), (2, 5, 0)),
    ((0, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)), ((0, 3, 4), (1, 5, 4), (1, 5, 4)),
    ((0, 3, 4), (0, 5, 4), (0, 5, 4)),
], ids=str)
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


MASKS = {"keys": normal(5) > 0, "grid": normal(3, 5) > 0, "row": normal(1, 5) > 0,
         "column": normal(3, 1) > -1, "scores": normal(2, 4, 3, 5) > 0, "padding": normal(2, 1, 1, 5) > 0,
         "heads": normal(1, 4, 3, 5) > 0, "list": [True, False, True, True, False], "none": np.zeros(5, bool)}


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
    slopes, rope = pe.alibi_slopes(4), pe.Rope(4, layout="half")
    for t in (None, [4, 9, 7], normal(2, 1, 3), normal(1, 4, 1)):
        for s in (None, np.arange(5) - 0.5, normal(2, 1, 5), normal(2, 2, 5)):
            for keywords in ({"causal": True}, {"alibi_slopes": slopes, "decay_rate": 0.25}, {"rope": rope}):
                keywords |= {"q_positions": t, "k_positions": s}
                close(pe.attention(q, k, v, **keywords), reference.attention(q, k, v, **keywords))


STRIDES = {"transposed": lambda a: np.ascontiguousarray(np.swapaxes(a, -3, -2)).swapaxes(-3, -2),
           "last axis apart": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
           "last axis backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
           "rows backwards": lambda a: np.ascontiguousarray(a[..., ::-1, :])[..., ::-1, :],
           "unaligned": lambda a: np.frombuffer(b"." + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
           "swapped": lambda a: a.astype(a.dtype.newbyteorder()), "fortran": np.asfortranarray,
           "read-only": lambda a: np.broadcast_to(a, a.shape)}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("which", ["q", "k", "v", "bias", "all"])
def test_strides_change_no_bit_of_attention(strides, which):
    shapes = {"q": (2, 4, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 4), "bias": (2, 4, 3, 5)}
    given = {name: normal(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    changed = {name: STRIDES[strides](a) if which in (name, "all") else a for name, a in given.items()}
    np.testing.assert_array_equal(pe.attention(**changed), pe.attention(**given))


@each_isa
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [1, 12, 16])
def test_batches_too_small_for_a_task_are_each_as_if_alone(isa, dtype, queries):
    """A task takes several of them, one after the other, and none leaves anything to the next.

    Positions of some, thirds, are no float32 numbers, which is found once for each.
    """
    B, H, N, D = 40, 3, 20, 16
    q, k, v = (normal(B, H, n, D, seed=n).astype(dtype) for n in (queries, N, N + 1))
    v = v[:, :, :N]
    t = np.arange(N - queries, N) + np.where(np.arange(B) % 3 == 1, 1 / 3, 0)[:, None, None]
    mask = normal(B, H, queries, N) < 0.5
    mask[::4, 1] = False
    for keywords in ({"alibi_slopes": pe.alibi_slopes(H)}, {"mask": mask}, {"bias": normal(B, H, queries, N)},
                     {"rope": pe.Rope(D)}, {"kv_lengths": np.arange(B) % N, "sinks": np.ones(H)}):
        given = {"q_positions": t, "causal": True, "return_lse": True, **keywords}
        out, lse = pe.attention(q, k, v, **given)
        for b in range(B):
            own = {name: x[b:b + 1] if np.shape(x)[:1] == (B,) else x for name, x in given.items()}
            alone = pe.attention(q[b:b + 1], k[b:b + 1], v[b:b + 1], **own)
            np.testing.assert_array_equal(out[b:b + 1], alone[0])
            np.testing.assert_array_equal(lse[b:b + 1], alone[1])
        for threads in 1, 2, 3:
            np.testing.assert_array_equal(out, pe.attention(q, k, v, num_threads=threads, **given)[0])


@pytest.mark.parametrize("batch", [(6,), (2, 3), (1, 2, 3), (2, 1, 3, 1), (1, 1, 2, 1, 3, 1)])
def test_batch_axes_are_those_of_one_batch(batch):
    """However many there are, after a call that was given more, and where values or masks repeat."""
    q, k, v = normal(6, 4, 3, 8), normal(6, 2, 5, 8, seed=1), normal(2, 5, 8, seed=2)
    mask = normal(6, 1, 3, 5, seed=3) > -1
    s = np.sort(normal(6, 2, 5, seed=4))
    for given in ({"mask": mask, "k_positions": s}, {}):
        split = {name: np.reshape(o, (*batch, *o.shape[1:])) for name, o in given.items()}
        many = pe.attention(q.reshape(*batch, 4, 3, 8), k.reshape(*batch, 2, 5, 8), v, **split, causal=True)
        assert many.shape == (*batch, 4, 3, 8)
        for b, own in enumerate(many.reshape(6, 4, 3, 8)):
            alone = pe.attention(q[b], k[b], v, **{name: o[b] for name, o in given.items()}, causal=True)
            np.testing.assert_array_equal(own, alone)


@pytest.mark.parametrize("strides", STRIDES)
def test_strides_change_no_bit_of_apply_rope(strides):
    x, p, (cos, sin) = normal(2, 4, 3, 8), normal(2, 1, 3), pe.Rope(8).cache(normal(2, 1, 3))
    change, same = STRIDES[strides], np.testing.assert_array_equal
    same(pe.apply_rope(change(x), positions=change(p)), pe.apply_rope(x, positions=p))
    same(pe.apply_rope(change(x), change(cos), change(sin)), pe.apply_rope(x, cos, sin))
    same(pe.apply_rope_2d(change(x), change(p), p), pe.apply_rope_2d(x, p, p))


def test_broadcast_axes_stay_unexpanded():
    """A copy made for a strided last axis keeps the axes of stride 0."""
    wide = np.broadcast_to(normal(1, 3, 8)[..., ::2], (1000, 3, 4))
    packed = plain(wide)
    assert packed.strides[0] == 0
    np.testing.assert_array_equal(packed, wide)
    close(pe.apply_rope(wide, positions=[1, 2, 3])[7], pe.apply_rope(wide[7], positions=[1, 2, 3]))


# The plain path, straight into the core, takes nothing that the checks refuse, and gives the same bits


def some(rng, *shape):
    """An array whose shape is like the one named, or not quite: fewer or more axes, a length 1 or 2."""
    cut = rng.integers(0, len(shape) + 2)
    shape = shape[len(shape) - cut:] if cut <= len(shape) else (1, *shape)
    return rng.normal(size=[int(rng.choice([n, n, n, 1, 2])) for n in shape])


def agree(kernel, arguments, check, *op_arguments):
    """Call a kernel on raw arguments and on checked ones, and compare; say whether it took the raw ones."""
    raw = kernel(*arguments)
    if raw is NotImplemented:
        return False
    *_, checked, _ = check(*op_arguments)
    for a, b in zip(raw, kernel(*checked), strict=True):
        np.testing.assert_array_equal(a, b)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_path_of_attention_agrees_with_the_checks(seed):
    rng = np.random.default_rng(seed)
    taken = 0
    for _ in range(500):
        batch = tuple(rng.integers(0, 3, rng.integers(0, 2)))
        (heads, group), (M, N, D) = rng.integers(0, 3, 2), rng.integers(1, 4, 3)
        q, k, v = (rng.normal(size=(*(int(rng.choice([b, b, 1])) for b in batch), *tail))
                   for tail in ((heads * group, M, D), (heads, N, D), (heads, N, 2)))
        scores = (*batch, heads * group, M, N)
        steer = some(rng, *scores) > 0, some(rng, *scores), some(rng, *q.shape[:-1]), some(rng, *k.shape[:-1])
        mask, bias, t, s = (None if rng.integers(2) else a for a in steer)
        rope = None if D % 2 or rng.integers(2) else pe.Rope(int(D))
        plan = None if rope is None else rope._plan
        window, cap = rng.choice([None, 1, 2]), rng.choice([None, 0.5])
        left = None if window is None else float(window)
        options = (None, True, left, window is not None, None, mask, bias, None, None, None, None, cap, None,
                   None, None, None, plan, t, s, True)
        taken += agree(_core.attention, (q, k, v, options, None, None), _check.attention, q, k, v, None, True,
                       window, mask, bias, None, None, None, cap, None, None, rope, t, s, None, True, None,
                       None)
    assert taken > 100


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_path_of_apply_rope_agrees_with_the_checks(seed):
    rng = np.random.default_rng(seed)
    taken, rest = 0, (None, None, None, None, None, False, None, None)
    for _ in range(500):
        x = rng.normal(size=(*rng.integers(0, 4, rng.integers(0, 4)), 4))
        points, cos = some(rng, *x.shape[:-1]), some(rng, *x.shape[:-1], 2)
        taken += agree(_core.apply_rope, (x, (points,), pe.Rope(4)._plan, False, None, None),
                       _check.apply_rope, x, None, None, points, *rest)
        taken += agree(_core.apply_rope_tables, (x, cos, 1 - cos, 0, False, None, None),
                       _check.apply_rope, x, cos, 1 - cos, None, *rest)
    assert taken > 100
