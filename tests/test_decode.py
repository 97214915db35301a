"""Few queries against a cache: any number of queries, kind of value, width and length, in parts and whole."""

from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa

import pe

pytestmark = each_isa
DTYPES = [np.dtype(each) for each in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
RELATIVE = {2: 2.0**-8, 4: 2e-6, 8: 1e-14}                  # of the largest value, by the bytes of one
WIDTHS = [(1, 1), (5, 3), (16, 40), (32, 24), (64, 56), (80, 96), (128, 64), (100, 130)]    # of k, of v


def expected(q, k, v, seen):
    """The formula in float64, over the keys that are seen; q (H, M, D), k, v (K, N, ...), seen (H, M, N)."""
    q, k, v = (np.asarray(each, np.float64) for each in (q, k, v))
    repeat = len(q) // len(k)
    k, v = (each.repeat(repeat, 0) for each in (k, v))
    scores = np.where(seen, q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    v = np.where(seen.any((0, 1))[:, None], v, 0)           # what nobody sees may be anything
    return weights / np.where(total == 0, 1, total) @ v


def normal(dtype, *shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def check(q, k, v, seen=True, **keywords):
    seen = np.broadcast_to(seen, (*q.shape[:2], k.shape[1]))
    out = np.asarray(pe.attention(q, k, v, **keywords), np.float64)
    assert np.abs(out - expected(q, k, v, seen)).max() <= RELATIVE[q.dtype.itemsize] * 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keys", [1, 7, 64, 65, 600, 1100, 2100])      # the last two are cut into parts
@pytest.mark.parametrize("group, queries", [(1, 1), (1, 2), (3, 1), (4, 1), (1, 5), (2, 3), (7, 1), (8, 1)])
def test_any_number_of_queries(isa, dtype, keys, group, queries):
    q = normal(dtype, 2 * group, queries, 64)
    check(q, normal(dtype, 2, keys, 64), normal(dtype, 2, keys, 64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width, values", WIDTHS)
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_any_width(isa, dtype, width, values, queries):
    for keys in 37, 1100:
        check(normal(dtype, 2, queries, width), normal(dtype, 2, keys, width), normal(dtype, 2, keys, values))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_a_value_that_is_hidden_from_one_query_is_added_for_another(isa, dtype, queries):
    keys = 1100
    seen = np.random.default_rng(1).random((2, queries, keys)) < 0.5
    seen[:, :, 256:512] = True                              # whole tiles beside those that are partly seen
    v = normal(dtype, 2, keys, 72)
    check(normal(dtype, 2, queries, 64), normal(dtype, 2, keys, 64), v, seen, mask=seen)
    nobody = np.arange(keys) % 5 == 0
    k = np.where(nobody[:, None], dtype.type(np.nan), normal(dtype, 2, keys, 64))
    v = np.where(nobody[:, None], dtype.type(np.inf), v)
    q, mask = normal(dtype, 2, queries, 64), seen & ~nobody
    out = np.asarray(pe.attention(q, k, v, mask=mask), np.float64)
    finite_k, finite_v = (np.where(nobody[:, None], dtype.type(0), each) for each in (k, v))
    assert np.abs(out - expected(q, finite_k, finite_v, mask)).max() <= RELATIVE[dtype.itemsize] * 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_that_begin_anywhere(isa, dtype):
    """Queries, caches and results at odd addresses, rows of a cache far apart."""
    def odd(x):
        room = np.zeros(x.nbytes + 1, np.uint8)[1:].view(dtype).reshape(x.shape)
        room[:] = x
        return room

    for keys in 40, 1100:
        k, v = (odd(normal(dtype, 2, keys, 3, 64))[:, :, 1] for _ in range(2))
        q, out = odd(normal(dtype, 4, 2, 64)), odd(normal(dtype, 4, 2, 64))
        assert pe.attention(q, k, v, out=out) is out
        aligned = pe.attention(q.copy(), k.copy(), v.copy())
        assert out.tobytes() == aligned.tobytes()
        check(q, k, v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [1, 5, 31, 64])
@pytest.mark.parametrize("heads, group", [(8, 1), (3, 2), (1, 7)])
def test_heads_that_follow_each_other_and_heads_apart(isa, dtype, width, heads, group):
    """One query of each head: the rows of q are one row, or lie with gaps, backwards, at one place."""
    q = normal(dtype, 2, heads * group, 1, width)
    k, v = normal(dtype, heads, 40, width), normal(dtype, heads, 40, 9)
    whole = pe.attention(q, k, v)
    apart = np.zeros((2, 2 * heads * group, 1, width + 3), dtype)[:, ::2, :, :width]
    apart[:] = q
    assert pe.attention(apart, k, v).tobytes() == whole.tobytes()
    assert pe.attention(q[:, ::-1].copy()[:, ::-1], k, v).tobytes() == whole.tobytes()
    one = np.broadcast_to(q[:, :1], q.shape)
    assert pe.attention(one, k, v).tobytes() == pe.attention(one.copy(), k, v).tobytes()
    check(q[0], k, v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("group", [2, 3, 4, 8, 13])
def test_queries_of_one_vector_do_not_meet(isa, dtype, group):
    """Scores of every other query rise along a cache in memory, the others fall; then one query is NaN."""
    keys = 600_000 // (2 * 64 * dtype.itemsize) + 13
    q, k, v = normal(dtype, group, 1, 64), normal(dtype, 1, keys, 64), normal(dtype, 1, keys, 64)
    q[..., 0] = np.resize([2, -2], group)[:, None]
    k[..., 0] = np.linspace(-64, 64, keys)
    check(q, k, v)
    finite = pe.attention(q, k, v)
    q[1] = np.nan
    out = pe.attention(q, k, v)
    others = np.arange(group) != 1
    assert np.isnan(out[1]).all()
    assert out[others].tobytes() == finite[others].tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width, values", [(64, 64), (64, 24), (100, 130), (12, 20)])
@pytest.mark.parametrize("group, queries", [(1, 1), (2, 1), (1, 3), (4, 1), (7, 1), (13, 1), (4, 4), (17, 1)])
def test_caches_in_memory(isa, dtype, width, values, group, queries):
    """Caches that L2 is not trusted with, whole, to an end, in a window, whose scores rise along them."""
    keys = 600_000 // ((width + values) * dtype.itemsize) + 13
    used = keys - 70
    q, k = normal(dtype, group, queries, width), normal(dtype, 1, keys, width)
    v = normal(dtype, 1, keys, values)
    q[..., 0] = 2
    k[..., 0] = np.linspace(-8, 8, keys) * width**0.5
    check(q, k, v)
    k[:, used:], v[:, used:] = 1e4, np.inf
    seen = np.arange(keys) <= used - queries + np.arange(queries)[:, None]
    check(q, k, v, seen, kv_lengths=used, causal=True)
    early, window = keys // 2 + 0.5 * np.arange(queries), keys // 3         # positions between those of keys
    seen = (np.arange(keys) <= early[:, None]) & (np.arange(keys) > early[:, None] - window)
    check(q, k, v, seen, kv_lengths=used, causal=True, window=window, q_positions=early)
    one, two, three = (pe.attention(q, k, v, kv_lengths=used, causal=True, num_threads=n) for n in (1, 2, 3))
    assert one.tobytes() == two.tobytes() == three.tobytes()


@pytest.mark.parametrize("keys", [600, 1100, 5000])
def test_heads_of_a_group_together_and_alone(isa, keys):
    """Four rows of q go over the keys at once, or one: the same up to rounding."""
    q, k, v = normal(np.float32, 4, 1, 64), normal(np.float32, 1, keys, 64), normal(np.float32, 1, keys, 64)
    together = pe.attention(q, k, v)
    alone = [pe.attention(each[None], k, v)[0] for each in q]
    assert np.allclose(together, alone, rtol=0, atol=1e-6)
    for threads in 1, 2, 3:
        assert pe.attention(q, k, v, num_threads=threads).tobytes() == together.tobytes()


@pytest.mark.parametrize("group", [8, 12, 15, 16])
@pytest.mark.parametrize("width", [1, 63, 64, 300])
def test_eight_queries_together_and_alone(isa, group, width):
    """Eight rows of q take the channels of a cache in memory by twos, as far as there is room for them."""
    keys, real = 70_000 // width + 2000, np.float32
    q, k, v = normal(real, group, 1, width), normal(real, 1, keys, width), normal(real, 1, keys, 70)
    check(q, k, v)
    together = pe.attention(q, k, v)
    alone = [pe.attention(each[None], k, v)[0] for each in q]
    assert np.allclose(together, alone, rtol=0, atol=2e-6)
    for threads in 1, 2, 3:
        assert pe.attention(q, k, v, num_threads=threads).tobytes() == together.tobytes()


def test_a_query_that_sees_nothing_in_one_part(isa):
    """A part without a visible key has no share, whatever its values."""
    q, k, v = normal(np.float32, 2, 1, 64), normal(np.float32, 2, 2100, 64), normal(np.float32, 2, 2100, 64)
    v[:, :1024] = np.nan
    seen = np.arange(2100) >= 1024
    out = pe.attention(q, k, v, mask=seen)
    v[:, :1024] = 0
    assert np.abs(out - expected(q, k, v, np.broadcast_to(seen, (2, 1, 2100)))).max() < 1e-6
    assert (pe.attention(q, k, v, mask=np.zeros(2100, bool)) == 0).all()


@lru_cache(1)                                               # instruction sets follow each other
def side_by_side(dtype, heads, group, queries):
    """Operands of which K and V of a head exceed what L2 is trusted with, and some sets of keywords."""
    keys, width = 2700, 48                                  # and of 16-bit values too
    q = normal(dtype, 2, heads * group, queries, width)
    k, v = (normal(dtype, 2, keys, heads, n).swapaxes(1, 2) for n in (width, width + 4))
    rng = np.random.default_rng(heads)
    clock = np.cumsum(rng.random((2, heads * group, keys)) / 100, axis=-1)
    shuffled = rng.permuted(np.tile(np.arange(keys), (2, heads, 1)), axis=-1)
    own = np.arange(keys) // 64 % heads == np.arange(heads * group)[:, None] // group
    turns = np.broadcast_to(own[:, None], (2, heads * group, queries, keys))    # the others see nothing then
    return q, k, v, (
        {"causal": True, "kv_lengths": [keys, 700], "alibi_slopes": pe.alibi_slopes(heads * group)},
        {"clock": clock, "causal": True},
        {"rope": pe.Rope(width), "mask": rng.random((2, heads * group, queries, keys)) < 0.7},
        {"k_positions": shuffled, "window": (900, None)},
        {"mask": turns},
        {"causal": True, "kv_lengths": [keys, 1700]},
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads, group", [(1, 3), (2, 4), (5, 1), (8, 1), (8, 4), (11, 1), (12, 2)])
@pytest.mark.parametrize("queries", [1, 2])
def test_heads_side_by_side_are_those_apart(isa, dtype, heads, group, queries):
    q, k, v, sets = side_by_side(dtype, heads, group, queries)
    for keywords in sets:
        beside = pe.attention(q, k, v, **keywords)
        apart = pe.attention(q, k.copy(), v.copy(), **keywords)
        assert np.abs(np.asarray(beside, np.float64) - apart).max() <= RELATIVE[q.dtype.itemsize] * 2
        np.testing.assert_array_equal(beside, pe.attention(q, k, v, **keywords, num_threads=1))


@pytest.mark.parametrize("heads, group", [(2, 1), (8, 1), (16, 1), (2, 4), (8, 4), (2, 8), (2, 16), (12, 4),
                                          (3, 5)])
def test_heads_side_by_side_in_any_order_and_with_gaps(isa, heads, group):
    keys, width = 2100, 64
    packed = normal(np.float32, 1, keys, 2 * heads, 2, width)           # K and V of a head beside each other
    q = normal(np.float32, 1, heads * group, 1, width)
    for some in packed[:, :, :heads], packed[:, :, ::2], packed[:, :, ::-2], packed[:, ::-1, heads:]:
        k, v = some.transpose(3, 0, 2, 1, 4)
        together = pe.attention(q, k, v)
        assert np.abs(together - pe.attention(q, k.copy(), v.copy())).max() <= 1e-6
        for threads in 1, 2, 3:
            np.testing.assert_array_equal(together, pe.attention(q, k, v, num_threads=threads))


@lru_cache(1)
def short(dtype, heads, group, keys):
    """Heads that share a tile, since each has little to do, and what may differ between them."""
    batch, queries, width = 3, 2, 24
    rng = np.random.default_rng(heads + keys)
    q = normal(dtype, batch, heads * group, queries, width)
    k, v = (normal(dtype, batch, heads, keys, width) for _ in "kv")
    slopes, many = pe.alibi_slopes(heads * group), heads * group
    scores = (batch, many, queries, keys)
    return q, k, v, (
        {},
        {"causal": True, "kv_lengths": [keys, keys // 2, 0], "alibi_slopes": slopes, "softcap": 5.0},
        {"mask": rng.random(scores) < 0.5, "sinks": slopes},
        {"bias": np.where(rng.random(scores) < 0.2, -np.inf, rng.normal(size=scores))},
        {"rope": pe.Rope(width), "window": (keys // 3, 2)},
        {"clock": np.cumsum(rng.random((batch, many, keys)), axis=-1), "causal": True},
        {"k_positions": rng.normal(size=(batch, heads, keys)), "alibi_slopes": slopes, "window": (1, None)},
        {"segments": tuple(rng.integers(0, 3, shape) for shape in (scores[:3], (batch, heads, keys)))},
    )


def of_head(x, h, heads):
    """What head h of the keys, or its group of queries, has of an operand, or of each of two."""
    if isinstance(x, tuple):
        return tuple(of_head(each, h, heads) for each in x)
    if np.ndim(x) < 3:
        return x
    n = x.shape[1] // heads
    return x[:, h * n:(h + 1) * n]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keys", [1, 40, 130])
@pytest.mark.parametrize("heads, group", [(2, 1), (8, 1), (3, 4), (12, 2), (11, 1)])
def test_heads_of_a_short_cache_are_each_as_if_alone(isa, dtype, heads, group, keys):
    q, k, v, sets = short(dtype, heads, group, keys)
    for keywords in sets:
        if keys == 1 and "clock" in keywords:
            continue                                        # two queries have no two last times then
        out, lse = pe.attention(q, k, v, return_lse=True, **keywords)
        for h in range(heads):
            own = {name: of_head(x, h, heads) for name, x in keywords.items()}
            own |= {name: keywords[name][h * group:(h + 1) * group] for name in ("alibi_slopes", "sinks")
                    if name in keywords}
            alone = pe.attention(*(of_head(x, h, heads) for x in (q, k, v)), return_lse=True, **own)
            np.testing.assert_array_equal(of_head(out, h, heads), alone[0])
            np.testing.assert_array_equal(of_head(lse, h, heads), alone[1])
        for threads in 1, 2, 3:
            np.testing.assert_array_equal(out, pe.attention(q, k, v, num_threads=threads, **keywords))


@pytest.mark.parametrize("queries", [1, 5, 100])
def test_a_row_repeated_more_often_than_memory_has_bytes(isa, queries):
    """The sizes of such a cache overflow; UndefinedBehaviorSanitizer sees where one does."""
    q, row = normal("f4", 8, queries, 4), normal("f4", 8, 1, 4)
    cache = np.broadcast_to(row, (8, 2**55, 4))
    for few in {"kv_lengths": 100}, {"window": 4, "causal": True}:
        np.testing.assert_allclose(pe.attention(q, cache, cache, **few), np.broadcast_to(row, q.shape), 2e-6)
