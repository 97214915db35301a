"""Faults that other libraries have had, met through windows, caps, sinks, segments, lengths, clocks, parts.

`test_cases` has the same faults without these keywords; the numbers are worked out by hand or to 50 digits.
"""

import numpy as np
import pytest
from hand_cases import DTYPES, FLOATS, REACH, attend, near, normal
from isas import each_isa

import pe

INF = np.inf

# Six keys, of which the last three are hidden from each of two queries; each rule alone
HIDING = {
    "mask": {"mask": [True] * 3 + [False] * 3},
    "bias": {"bias": [0, 0, 0, -INF, -INF, -INF]},
    "causal": {"causal": True, "q_positions": [2, 2]},
    "window to the right": {"window": (None, 0), "q_positions": [2, 2]},
    "window to the left": {"window": 3, "q_positions": [8, 8], "k_positions": [6, 7, 8, 5, 0, -9]},
    "segments": {"segments": ([1, 1], [1, 1, 1, 0, 2, -1])},
    "kv_lengths": {"kv_lengths": 3},
}


# A. Shared heads


@pytest.mark.parametrize("H, K", [(4, 2), (6, 2), (6, 3), (8, 1)])
def test_c10_sinks_and_clocks_stay_per_query_head(H, K):
    q, k, v = normal(H, 9, 4), normal(K, 9, 4, seed=1), normal(K, 9, 4, seed=2)
    sinks, times = np.linspace(-1, 2, H), np.cumsum(abs(normal(H, 9, seed=3)), axis=-1)
    whole = pe.attention(q, k, v, sinks=sinks, clock=times, causal=True)
    for h in range(H):
        one = pe.attention(q[h], k[h * K // H], v[h * K // H], sinks=sinks[h], clock=times[h], causal=True)
        near(whole[h], one)


# B. Precision


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c17_neighbouring_clock_times_do_not_tie(dtype):
    """A clock far from 0 keeps its gaps: float32 times of 2^24 and more would merge neighbours."""
    q, k, v = np.zeros((1, 2), dtype), np.zeros((2, 2), dtype), np.eye(2, dtype=dtype)
    weights = pe.attention(q, k, v, clock=([2.0**40 + 2], [2.0**40, 2.0**40 + 0.5]))[0]
    near(weights, np.array([1, np.exp(0.5)]) / (1 + np.exp(0.5)), 1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c19_fades_are_relative(dtype):
    """e^-0.3 cos 6 at t = 10000: a factor of its own on q and on k would be 0 and infinite by then."""
    q, v, rope = np.array([[1, 0]] * 2, dtype), np.array([[1], [0]], dtype), pe.Rope(2, freqs=[2.0])
    for t in (9, 888, 10_000, 10**7):
        out = pe.retention(q, q, v, rate=0.1, rope=rope, positions=[t - 3, t], scale=1.0)
        near(out[1], [0.711312], 5e-7)
    one, wide = np.array([[1, 0]], dtype), np.array([[2.0]])
    turned = [pe.apply_rope_nd(one, [[p]], wide, rate=np.array([[sign * 0.1]])).astype(float)
              for p, sign in ((12, 1), (9, -1))]
    wanted = pytest.approx(np.exp(-0.3) * np.cos(6), rel=4 * REACH[dtype.name])
    assert (turned[0] @ turned[1].T).item() == wanted
    with pytest.raises(ValueError, match="rate times positions reaches"):       # the split form says so
        pe.apply_rope_nd(one, [[10_000]], wide, rate=np.array([[0.1]]))


# E. Masks and softmax


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("nothing", [
    {"window": (0, 0), "q_positions": np.arange(6) + 0.5}, {"window": 1, "k_positions": np.arange(-20, -14)},
    {"segments": (np.zeros(6, int), np.ones(6, int))}, {"kv_lengths": 0}, {"mask": np.zeros(6, bool)},
    {"bias": -INF}, {"causal": True, "k_positions": np.arange(10, 16)},
], ids=lambda nothing: ", ".join(nothing))
def test_c37_rows_that_see_nothing(nothing, dtype):
    q, k, v = (normal(6, 3, dtype=dtype, seed=seed) for seed in range(3))
    for softcap in (None, 2.0):
        for sink, reach in ((None, -INF), (-INF, -INF), (0.75, 0.75), (-40.0, -40.0)):
            out, lse = pe.attention(q, k, v, return_lse=True, softcap=softcap, sinks=sink, **nothing)
            assert not out.any()
            near(lse, np.full(6, reach))


@each_isa
@pytest.mark.parametrize("queries", [2, 40])                              # few, and a tile
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c37_a_finite_bias_hides_nothing(dtype, queries, isa):
    """A finite bias hides nothing, however far below float32; a score of -inf weighs nothing beside any."""
    v = [1, 2, 4, 8]
    for lowest in (np.finfo(np.float32).min, np.finfo(np.float64).min):
        near(attend(v, queries=queries, dtype=dtype, bias=np.full(4, lowest)), [3.75] * queries)
        near(attend(v, queries=queries, dtype=dtype, bias=[lowest, 0, lowest, 0]), [5] * queries)
    q, v = np.ones((queries, 1), dtype), np.array([[1], [2], [4], [8]], dtype)
    for k, wanted, scores in (([-INF, 0, -INF, 0], 5, [-INF, 0.25, -INF, 0.25]), ([-INF] * 4, 0, [-INF] * 4)):
        k = np.array(k, dtype)[:, None]
        near(pe.attention(q, k, v, bias=[0.25]), [[wanted]] * queries)
        biased = pe.attention_weights(q, k, bias=[0.25], stage="biased")
        np.testing.assert_array_equal(biased.astype(float), [scores] * queries)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rule", HIDING)
@pytest.mark.parametrize("junk", [np.nan, INF, -INF, 1e4])
def test_c39_what_is_hidden_does_not_leak(junk, rule, dtype):
    """Through every rule of visibility, alone and with the cap, the sink and the clock at work."""
    q, k, v = normal(2, 4, dtype=dtype), normal(6, 4, dtype=dtype, seed=1), normal(6, 4, dtype=dtype, seed=2)
    times = {"clock": (np.full(2, 9.0), np.arange(6.0))}
    for more in ({}, {"softcap": 1.5}, {"sinks": 0.5}, times, {"softcap": 1.5, "sinks": 0.5, **times}):
        k[3:], v[3:] = 0, 0
        clean = pe.attention(q, k, v, **HIDING[rule], **more)
        k[3:], v[3:] = junk, junk
        near(pe.attention(q, k, v, **HIDING[rule], **more), clean.astype(float))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length, M, wanted", [(5, 2, [2.5, 3.0]), (3, 2, [1.5, 2.0]), (3, 1, [2.0]),
                                               (1, 3, [0, 0, 1.0]), (0, 2, [0, 0])])
def test_c41_causal_is_aligned_at_the_end_of_what_is_filled(length, M, wanted, dtype):
    near(attend([1, 2, 3, 4, 5], queries=M, dtype=dtype, causal=True, kv_lengths=length), wanted)


def test_c45_all_rules_apply_together():
    v = [1, 2, 4, 8, 16, 32]
    near(attend(v, causal=True, window=3, mask=[True, False, True, True, True, True]),
         [1, 1, 2.5, 6, 28 / 3, 56 / 3])
    near(attend(v, causal=True, segments=[0, 0, 0, 1, 1, 1]), [1, 1.5, 7 / 3, 8, 12, 56 / 3])
    near(attend(v, causal=True, segments=[0, 0, 0, 1, 1, 1], window=2), [1, 1.5, 3, 8, 12, 24])
    near(attend(v, window=(1, 1), kv_lengths=3, q_positions=np.arange(6)), [1.5, 7 / 3, 3, 4, 0, 0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rule", HIDING)
def test_c46_the_cap_comes_before_what_hides(rule, dtype):
    """After it, a hidden score of -inf would be the cap, -1, and weigh 0.27 of a key with score 0."""
    q, k, v = np.zeros((2, 1), dtype), np.zeros((6, 1), dtype), np.array([[1]] * 3 + [[100]] * 3, dtype)
    assert (pe.attention(q, k, v, softcap=1.0, **HIDING[rule]) == 1).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c46_the_cap_is_for_products_alone(dtype):
    """Scores s, capped to c tanh(s/c); bias, slope and sink come after it and are not capped."""
    q, k = np.array([[3.0]], dtype), np.array([[1.0], [2.0]], dtype)
    v, cap = np.eye(2, dtype=dtype), 2.0
    capped = cap * np.tanh(np.array([3.0, 6.0]) / cap)
    for added, more in ((np.zeros(2), {}), (np.array([5.0, -4.0]), {"bias": [5.0, -4.0]}),
                        (np.array([-30.0, 0]), {"alibi_slopes": 30.0, "causal": True})):
        z = np.exp(capped + added)
        near(pe.attention(q, k, v, scale=1.0, softcap=cap, **more)[0], z / z.sum(), 1e-6)
        near(pe.attention(q, k, v, scale=1.0, softcap=cap, sinks=9.0, **more)[0],
             z / (z.sum() + np.exp(9.0)), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c48_sinks_are_logits_like_any_other(dtype):
    def first(score, sink, **more):
        q, k = np.array([[score]], dtype), np.ones((2, 1), dtype)
        return pe.attention(q, k, np.array([[1], [0]], dtype), sinks=sink, **more)

    near(first(5.0, 0.0), [[0.498321]], 5e-7)
    near(first(0.0, -3.0), [[0.487856]], 5e-7)
    near(first(-1e4, 0.0), [[0.0]])
    near(first(0.0, 1e4), [[0.0]])
    near(first(0.0, -INF), [[0.5]])
    near(first(5.0, 0.0, scale=1e-9), [[1 / 3]], 1e-6)                    # the sink is not scaled
    near(first(5.0, 3.0, softcap=1e-6), [[1 / (2 + np.exp(3.0))]], 1e-6)  # nor capped


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c50_a_window_counts_the_querys_own_key(dtype):
    v, plain = [0, 1, 2, 3, 4], [0, 0.5, 1, 1.5, 2]
    near(attend(v, dtype=dtype, causal=True, window=2), [0, 0.5, 1.5, 2.5, 3.5])
    near(attend(v, dtype=dtype, causal=True, window=1), v)
    for wide in (5, 6, 2**40):
        near(attend(v, dtype=dtype, causal=True, window=wide), plain)
    near(attend(v, dtype=dtype, window=(1, 0)), [0, 0.5, 1.5, 2.5, 3.5])  # a pair counts distances, 1 back
    near(attend(v, dtype=dtype, window=(0, 0)), v)
    near(attend(v, dtype=dtype, window=(None, None)), [2] * 5)
    near(attend(v, dtype=dtype, window=2), [2, 2, 2.5, 3, 3.5])           # only causal limits the right side
    for bad in (0, -1, (-1, -1), (-1, 0), (0, -1), (None, -10)):
        with pytest.raises(ValueError, match="window"):
            attend(v, window=bad)
    for bad in (True, 2.5, "2", (1, 2, 3), ("1", 0)):
        with pytest.raises((TypeError, ValueError), match="window"):
            attend(v, window=bad)


@each_isa
@pytest.mark.parametrize("others", [[], [4.0] * 40, [0.0, 4.0] * 20])     # few queries, in order, and not
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c50_a_window_ends_before_its_width(dtype, others, isa):
    """t - s < w to the last bit of float64: the gap before 5 is within reach, and 5 is not."""
    short, t = np.nextafter(5, 0), [*others, 5.0]
    there = {"q_positions": t, "k_positions": [0, 5 - short, 1e-300, 5], "queries": len(t), "dtype": dtype}
    for more, wanted in (({"window": 5}, 5), ({"window": (5, None)}, 3.75), ({"window": (short, None)}, 5),
                         ({"window": 5, "causal": True}, 5), ({"window": (None, 0)}, 3.75)):
        near(attend([1, 2, 4, 8], **there, **more)[-1:], [wanted])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("window", [1, 63, 64, 65, 128, 200])
def test_c50_windows_across_tiles(window, dtype):
    q, k, v = (normal(300, 4, dtype=dtype, seed=seed) for seed in range(3))
    t, s = np.arange(300)[:, None], np.arange(300)
    near(pe.attention(q, k, v, causal=True, window=window),
         pe.attention(q, k, v, mask=(s <= t) & (t - s < window)).astype(float), 1e-6)
    near(pe.attention(q, k, v, window=(window, 7)),
         pe.attention(q, k, v, mask=(s <= t + 7) & (t - s <= window)).astype(float), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c36_lengths_of_a_padded_batch(dtype):
    """A batch padded at the end equals its texts one by one; whatever stands in the padding."""
    q, k, v = (normal(3, 4, 7, 8, dtype=dtype, seed=seed) for seed in range(3))
    lengths = np.array([7, 3, 1])
    for b, n in enumerate(lengths):
        k[b, :, n:], v[b, :, n:] = np.nan, 1e30
    keywords = {"causal": True, "alibi_slopes": 0.1, "rope": pe.Rope(8)}
    one = pe.attention(q[:, :, :1], k, v, kv_lengths=lengths, **keywords)       # a step of a decoder
    for b, n in enumerate(lengths):
        near(one[b], pe.attention(q[b, :, :1], k[b, :, :n], v[b, :, :n], **keywords).astype(float), 1e-6)
    for bad in ([7, 3], [[7, 3, 1]], [7, 3, 8], [7, 3, -1]):
        with pytest.raises(ValueError, match="kv_lengths"):
            pe.attention(q, k, v, kv_lengths=bad)
    for bad in ([7.0, 3.0, 1.0], [True, True, True]):
        with pytest.raises(TypeError, match="kv_lengths"):
            pe.attention(q, k, v, kv_lengths=bad)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c36_packed_texts(dtype):
    """Two texts in one row, told apart by segments and placed by positions of their own."""
    texts = [[normal(2, n, 8, dtype=dtype, seed=10 * n + i) for i in range(3)] for n in (5, 8)]
    q, k, v = (np.concatenate(parts, axis=1) for parts in zip(*texts, strict=True))
    points, segments = pe.positions_from_lengths([5, 8]), np.repeat([4, 9], [5, 8])
    assert points.tolist() == [*range(5), *range(8)]
    packed = pe.attention(q, k, v, causal=True, rope=pe.Rope(8), segments=segments, q_positions=points,
                          k_positions=points, alibi_slopes=[0.1, 0.2])
    alone = [pe.attention(*text, causal=True, rope=pe.Rope(8), alibi_slopes=[0.1, 0.2]) for text in texts]
    near(packed, np.concatenate(alone, axis=1).astype(float), 1e-6)


def test_c36_positions_of_left_padding():
    mask = np.array([[True] * 5, [False, False, True, True, True]])
    points = pe.positions_from_mask(mask)
    assert points[0].tolist() == [0, 1, 2, 3, 4]
    assert points[1, 2:].tolist() == [0, 1, 2]


def test_c52_axes_of_segments_and_lengths():
    q, k, v = (normal(2, 4, 6, 8, seed=seed) for seed in range(3))
    ids = np.array([0, 0, 1, 1, 1, 2])
    wanted = pe.attention(q, k, v, mask=ids[:, None] == ids)
    for shape in ((6,), (1, 1, 6), (2, 1, 6)):
        near(pe.attention(q, k, v, segments=np.broadcast_to(ids, shape)), wanted)
    for bad in (ids[:5], np.tile(ids, (2, 1)), np.tile(ids, (3, 1, 1))):
        with pytest.raises(ValueError, match="segments"):
            pe.attention(q, k, v, segments=bad)
    with pytest.raises(TypeError, match="segments"):
        pe.attention(q, k, v, segments=ids * 1.0)
    with pytest.raises(ValueError, match="segments"):                     # one array for two lengths
        pe.attention(q[:, :, :2], k, v, segments=ids)


# F. Decay


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c18_a_closed_gate_stays_finite(dtype):
    """Gates may close for good, log 0: what came before weighs nothing, and what comes after is as if new."""
    times = pe.clock([0.0, -0.1, -INF, -0.1, -0.1])
    assert np.isfinite(times).all()
    out = attend([1, 2, 4, 8, 16], dtype=dtype, causal=True, clock=times)
    near(out[2:], attend([4, 8, 16], dtype=dtype, causal=True, clock=[0, 0.1, 0.2]).astype(float), 1e-6)
    near(out[:2], [1, (np.exp(-0.1) + 2) / (np.exp(-0.1) + 1)], 1e-6)


def test_c56_c61_a_clock_fades_the_past_and_causality_goes_by_positions():
    times = [0.0, 1.0, 1.0, 4.0]
    weights = pe.attention(np.zeros((4, 1)), np.zeros((4, 1)), np.eye(4), causal=True, clock=times)
    assert not np.triu(weights, 1).any()                                  # equal times reveal no future
    fade = np.exp(np.array(times) - 4.0)
    near(weights[3], fade / fade.sum())
    near(pe.attention(np.zeros((1, 1)), np.zeros((4, 1)), np.eye(4), causal=True, clock=times), weights[3:])
    near(np.exp(pe.decay_bias(4, clock=times))[3], fade)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_c63_parts_of_the_keys_merge_into_the_whole(dtype):
    q, k, v = (normal(2, 50, 8, dtype=dtype, seed=seed) for seed in range(3))
    keywords = {"causal": True, "decay_rate": 0.05, "window": 20}
    whole, lse = pe.attention(q, k, v, return_lse=True, **keywords)
    cuts = [slice(0, 7), slice(7, 7), slice(7, 33), slice(33, 50)]
    parts = [pe.attention(q, k[:, cut], v[:, cut], return_lse=True, q_positions=np.arange(50),
                          k_positions=np.arange(50)[cut], **keywords) for cut in cuts]
    merged = pe.merge_attention(*zip(*parts, strict=True))
    near(merged[0], whole.astype(float), 1e-6)
    near(merged[1], lse.astype(float), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.05, 30.0])
def test_c63_chunks_of_a_retention_are_the_whole(rate, dtype):
    q, k, v = (normal(2, 50, 8, dtype=dtype, seed=seed) for seed in range(3))
    keywords = {"rate": [rate, 0.01], "rope": pe.Rope(8), "return_state": True}
    whole, last = pe.retention(q, k, v, **keywords)
    for cuts in ([7, 8, 33], list(range(1, 50))):
        parts, state = [], None
        for part in zip(*(np.split(a, cuts, axis=1) for a in (q, k, v)), strict=True):
            out, state = pe.retention(*part, state=state, **keywords)
            parts.append(out)
        near(np.concatenate(parts, axis=1), whole.astype(float), 1e-5 if dtype == np.float32 else 1e-12)
        near(state.S, last.S.astype(float), 1e-5 if dtype == np.float32 else 1e-12)
        assert state.position == last.position == 49


# G. Dtypes, lengths and shapes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c74_empty(dtype):
    q, k = np.ones((2, 3, 4), dtype), np.ones((2, 0, 4), dtype)
    everything = {"causal": True, "window": 2, "softcap": 1.0, "kv_lengths": 0}
    assert not pe.attention(q, k, k, **everything, segments=([1, 1, 1], [])).any()
    assert (pe.attention(q, k, k, **everything, sinks=2.0, return_lse=True)[1] == 2).all()
    assert pe.attention(q[:, :0], q, q, window=2, segments=([], [1, 1, 1])).shape == (2, 0, 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_c76_what_steers_does_not_change_the_dtype(dtype):
    q = np.ones((1, 2, 4), dtype)
    wide, single = np.float64, np.float32
    for steer in ({"sinks": np.ones(1, wide)}, {"softcap": wide(2)}, {"clock": np.arange(2.0)},
                  {"sinks": np.ones(1, single), "softcap": 3}):
        assert pe.attention(q, q, q, **steer).dtype == dtype
    for name, bad in (("softcap", 0.0), ("softcap", -1.0), ("softcap", np.nan), ("sinks", np.nan),
                      ("sinks", INF), ("sinks", [1.0, 2.0])):
        with pytest.raises(ValueError, match=name):
            pe.attention(q, q, q, **{name: bad})
    for name, bad in (("softcap", "1"), ("softcap", True), ("sinks", "1"), ("sinks", True), ("sinks", 1j)):
        with pytest.raises(TypeError, match=name):
            pe.attention(q, q, q, **{name: bad})


# H. Threads


def test_c84_same_bits_for_any_threads_and_run():
    q, k, v = (normal(2, 4, 257, 32, dtype=np.float32, seed=seed) for seed in range(3))
    keywords = {"causal": True, "window": 100, "softcap": 5.0, "sinks": normal(4), "kv_lengths": [257, 200],
                "clock": np.arange(257.0) / 9, "segments": np.arange(257) // 90}
    assert len({pe.attention(q, k, v, num_threads=n, **keywords).tobytes()
                for n in (1, 2, 3, 16, None) for _ in range(3)}) == 1
