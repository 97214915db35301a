"""What must hold for any shape, position and mask, on cases that hypothesis makes up."""

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pe
from pe import reference

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-44}
LAYOUTS = ["interleaved", "half"]

many = settings(max_examples=80, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 5) | st.sampled_from([15, 16, 17, 63, 64, 65])
offsets = st.integers(-2**40, 2**40)


def normal(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(actual, expected, magnitude=1.0):
    """Assert equality within the rounding of the dtype of values of that magnitude."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    unit = UNIT[actual.dtype.name]
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=unit, atol=unit * magnitude)


@st.composite
def thinned(draw, shape):
    """A shape that broadcasts to another: some of its axes are 1."""
    return tuple(1 if draw(st.booleans()) else n for n in shape)


@st.composite
def positions(draw, *shape, ordered=False):
    """Integers near the origin or far from it, or fractions, of either sign."""
    points = normal(draw(seeds), *shape) * draw(st.sampled_from([1, 30, 1000]))
    points = np.sort(points) if ordered else points
    if draw(st.booleans()):
        return points
    return np.round(points).astype(np.int64) + draw(st.sampled_from([0, 0, 10**6]))


@st.composite
def rows(draw, quantum=2):
    """Values (..., T, D) with two sets of positions that fit them; D a multiple of the quantum."""
    lead = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    T, D = draw(sizes), quantum * draw(st.integers(1, 9))
    x = normal(draw(seeds), *lead, T, D, dtype=draw(st.sampled_from(DTYPES)))
    shapes = [draw(thinned((*lead, T))) if lead and draw(st.booleans()) else (T,) for _ in range(2)]
    return x, [draw(positions(*shape)) for shape in shapes]


def largest(a):
    return max(1.0, np.max(np.abs(a), initial=0.0))


def blur(x, *points):
    """How many roundings of float64 values the phase of the twin may be off, position times frequency."""
    return max(1, *(largest(p) / 100 for p in points)) if x.dtype == np.float64 else 1


# Turning


@many
@given(rows(), st.sampled_from(LAYOUTS), st.booleans(), st.data())
def test_apply_rope_is_its_twin(case, layout, inverse, data):
    x, (points, _) = case
    r = 2 * data.draw(st.integers(1, x.shape[-1] // 2))
    keywords = data.draw(st.sampled_from([
        {"base": 77.0, "layout": layout}, {"freqs": np.linspace(3.0, 0.0, r // 2), "layout": layout},
        {"rope": pe.Rope(x.shape[-1], layout=layout, rotary_dim=r, amplitude=1.5)},
        {"rotary_dim": r, "layout": layout}]))
    result = pe.apply_rope(x, positions=points, inverse=inverse, **keywords)
    wanted = reference.apply_rope(x, positions=points, inverse=inverse, **keywords)
    close(result, wanted, 4 * blur(x, points))
    if "base" not in keywords:
        assert result[..., r:].tobytes() == x[..., r:].tobytes()


@many
@given(rows(), st.sampled_from(LAYOUTS), st.booleans(), st.sampled_from(["f4", "f8"]))
def test_tables_are_positions_written_out(case, layout, inverse, table_dtype):
    x, (points, _) = case
    rope = pe.Rope(x.shape[-1], layout=layout, amplitude=0.5)
    cos, sin = (table.astype(table_dtype) for table in rope.cache(points))
    result = pe.apply_rope(x, cos, sin, layout=layout, inverse=inverse)
    close(result, reference.apply_rope(x, cos, sin, layout=layout, inverse=inverse), 8)
    wide = x.astype(np.float64)
    by_table = pe.apply_rope(wide, cos, sin, layout=layout, inverse=inverse)
    by_position = pe.apply_rope(wide, positions=points, rope=rope, inverse=inverse)
    np.testing.assert_allclose(by_table, by_position, rtol=0, atol=1e-5 if table_dtype == "f4" else 1e-9)


@many
@given(rows(quantum=4), st.sampled_from(LAYOUTS), st.booleans())
def test_two_axes_are_two_halves(case, layout, inverse):
    x, (across, down) = case
    keywords = {"layout": layout, "inverse": inverse}
    result = pe.apply_rope_2d(x, across, down, **keywords)
    close(result, reference.apply_rope_2d(x, across, down, **keywords), 4 * blur(x, across, down))
    halves = np.split(result, 2, axis=-1), np.split(x, 2, axis=-1), (across, down)
    for part, half, points in zip(*halves, strict=True):
        close(part, pe.apply_rope(half, positions=points, **keywords), 4)


@many
@given(rows(), st.sampled_from(LAYOUTS))
def test_turns_are_a_group(case, layout):
    """R(0) = 1, R(a) R(b) = R(a + b), R(-a) undoes R(a), and lengths stay."""
    x, (a, b) = case
    x = x.astype(np.float64)

    def turn(y, points, **keywords):
        return pe.apply_rope(y, positions=points, layout=layout, **keywords)

    bound = 1e-13 * (10 + largest(a) + largest(b))
    assert np.array_equal(turn(x, 0 * a), x)
    if a.shape == b.shape:
        np.testing.assert_allclose(turn(turn(x, a), b), turn(x, a + b), rtol=0, atol=bound)
    np.testing.assert_allclose(turn(turn(x, a), -a), x, rtol=0, atol=1e-13)
    assert np.array_equal(turn(x, -a), turn(x, a, inverse=True))
    np.testing.assert_allclose(np.linalg.norm(turn(x, a), axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-13)


@many
@given(rows(), st.sampled_from(LAYOUTS), st.sampled_from([1.0, 0.25, 3.0]))
def test_inverse_undoes_a_turn(case, layout, amplitude):
    x, (points, _) = case
    rope = pe.Rope(x.shape[-1], layout=layout, amplitude=amplitude)
    for first in (False, True):
        there = pe.apply_rope(x, positions=points, rope=rope, inverse=first)
        back = pe.apply_rope(there, positions=points, rope=rope, inverse=not first)
        close(back, x, 4 * largest(x.astype(float)))


@many
@given(seeds, st.integers(1, 6), st.sampled_from(LAYOUTS), st.integers(-2**30, 2**30))
def test_scores_see_the_gap_alone(seed, L, layout, shift):
    q, k = normal(seed, 2, 5, 2 * L)
    t, s = np.random.default_rng(seed).integers(-1000, 1000, (2, 5))

    def scores(by):
        q_turned = pe.apply_rope(q, positions=t + by, layout=layout)
        return np.sum(q_turned * pe.apply_rope(k, positions=s + by, layout=layout), axis=-1)

    np.testing.assert_allclose(scores(shift), scores(0), rtol=0, atol=1e-14 * (100 + abs(shift)))


# Biases


@many
@given(st.data(), st.booleans(), st.sampled_from(DTYPES))
def test_biases_are_their_twins(data, causal, dtype):
    lead = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    M, N = data.draw(sizes), data.draw(sizes)
    t, s = (data.draw(positions(*data.draw(st.just(()) | thinned(lead)), n)) for n in (M, N))
    slopes = abs(normal(data.draw(seeds), *data.draw(thinned(lead)), dtype=dtype))
    result = pe.alibi_bias(t, s, slopes=slopes, causal=causal)
    close(result, reference.alibi_bias(t, s, slopes=slopes, causal=causal))
    assert result.tobytes() == pe.decay_bias(t, s, rate=slopes, causal=causal).tobytes()


@many
@given(st.data(), st.booleans(), st.sampled_from(DTYPES), st.booleans())
def test_a_bias_by_a_clock_is_its_twin(data, causal, dtype, alone):
    lead = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    M, N = sorted([data.draw(sizes), data.draw(sizes)])
    points = [data.draw(positions(*data.draw(st.just(()) | thinned(lead)), n)) for n in (M, N)]
    clock = tuple(np.cumsum(abs(normal(data.draw(seeds), *data.draw(thinned(lead)), n)), -1) for n in (M, N))
    keywords = {"clock": clock[1] if alone else clock, "causal": causal, "dtype": dtype}
    for rate in ({}, {"rate": abs(normal(data.draw(seeds), *data.draw(thinned(lead))))}):
        result = pe.decay_bias(*points, **keywords, **rate)
        close(result, reference.decay_bias(*points, **keywords, **rate), 4)
    # what a clock of positions says, positions say
    by_clock = pe.decay_bias(N, rate=0.25, causal=causal, clock=np.arange(N))
    assert np.array_equal(by_clock, pe.decay_bias(N, rate=0.25, causal=causal))


@many
@given(seeds, sizes, sizes, st.booleans(), offsets)
def test_biases_see_the_gap_alone(seed, M, N, causal, shift):
    t, s = (np.random.default_rng([seed, n]).integers(-1000, 1000, n) for n in (M, N))
    here = pe.decay_bias(t, s, rate=[0.1, 3.0], causal=causal)
    assert here.tobytes() == pe.decay_bias(t + shift, s + shift, rate=[0.1, 3.0], causal=causal).tobytes()


@many
@given(seeds, st.floats(0.001, 10))
def test_decays_over_two_gaps_multiply(seed, rate):
    late, middle, early = np.sort(normal(seed, 3))[::-1]

    def fade(t, s):
        return np.exp(pe.decay_bias([t], [s], rate=rate))

    np.testing.assert_allclose(fade(late, middle) * fade(middle, early), fade(late, early), rtol=1e-13)


# Attention


@st.composite
def queries_and_keys(draw, dtypes=DTYPES):
    """q, k, v with grouped heads, and batch axes that broadcast."""
    batch = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    K, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    M, N, D, V = draw(sizes), draw(sizes), draw(st.integers(1, 9)) * 2, draw(st.integers(1, 9))
    dtype, seed = draw(st.sampled_from(dtypes)), draw(seeds)
    return (normal([seed, 0], *draw(thinned(batch)), group * K, M, D, dtype=dtype),
            normal([seed, 1], *draw(thinned(batch)), K, N, D, dtype=dtype),
            normal([seed, 2], *draw(thinned(batch)), K, N, V, dtype=dtype))


def axes_of_scores(q, k, v):
    batch = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    return *batch, q.shape[-3], q.shape[-2], k.shape[-2]


@st.composite
def masks(draw, shape):
    """A mask for scores of that shape, with one axis, two or all, that hides much, little or nothing."""
    shape = shape[-draw(st.sampled_from([1, 2, len(shape)])):]
    share = draw(st.sampled_from([0.1, 0.5, 0.95, 1.0]))
    return np.random.default_rng(draw(seeds)).random(draw(thinned(shape))) < share


KEYWORDS = ["scale", "causal", "window", "mask", "bias", "alibi_slopes", "decay_rate", "clock", "softcap",
            "sinks", "segments", "rope", "q_positions", "k_positions", "kv_lengths"]
reaches = st.none() | st.integers(0, 70) | st.floats(0, 9)


@st.composite
def integers(draw, most, *shape):
    """Integers from 0 to most."""
    return np.random.default_rng(draw(seeds)).integers(0, most + 1, shape)


@st.composite
def rows_of(draw, array):
    """The shape of one item a row: that of the rows alone, or with some of the axes before them."""
    rows = array.shape[-2:-1]
    return (*draw(thinned(array.shape[:-2])), *rows) if draw(st.booleans()) else rows


@st.composite
def clocks(draw, q, k):
    """Learned time of the keys alone, if it can serve the queries too, or of both."""
    (H, M), N = q.shape[-3:-1], k.shape[-2]
    of_k = draw(st.just((N,)) | thinned((*k.shape[:-3], H)).map(lambda lead: (*lead, N)))
    of_q, of_k = (np.cumsum(abs(normal(draw(seeds), *shape)), axis=-1) for shape in (draw(rows_of(q)), of_k))
    return of_k if (M <= N or N == 0) and draw(st.booleans()) else (of_q, of_k)


@st.composite
def options(draw, q, k, v):
    """Any combination of keywords, for these operands."""
    scores = axes_of_scores(q, k, v)
    H, M, N = scores[-3:]
    chosen = draw(st.sets(st.sampled_from(KEYWORDS)))
    bias = normal(draw(seeds), *draw(thinned(scores)), dtype=draw(st.sampled_from(DTYPES)))
    bias[bias > 2] = -np.inf
    values = {"scale": draw(st.floats(-1, 1)), "causal": True, "mask": draw(masks(scores)), "bias": bias,
              "alibi_slopes": abs(normal(draw(seeds), H)), "decay_rate": draw(st.floats(0, 2)),
              "rope": pe.Rope(q.shape[-1], base=50.0, layout=draw(st.sampled_from(LAYOUTS)), amplitude=0.75)}
    for name, array in (("q_positions", q), ("k_positions", k)):
        own = draw(thinned(array.shape[:-1])) if draw(st.booleans()) else array.shape[-2:-1]
        values[name] = draw(positions(*own, ordered=draw(st.booleans())))
    values |= {"window": draw(st.integers(1, 70) | st.tuples(reaches, reaches)),
               "softcap": draw(st.sampled_from([0.5, 4.0, 50.0])),
               "sinks": np.where(normal(draw(seeds), H) > 1, -np.inf, normal(draw(seeds), H)),
               "kv_lengths": draw(integers(N, *draw(thinned(scores[:-3])))), "clock": draw(clocks(q, k)),
               "segments": tuple(draw(integers(2, *draw(rows_of(a)))) for a in (q, k))}
    return {name: values[name] for name in sorted(chosen)}


@settings(many, max_examples=250)
@given(queries_and_keys(), st.data())
def test_attention_is_its_twin(case, data):
    q, k, v = case
    keywords = data.draw(options(q, k, v))
    result, lse = pe.attention(q, k, v, return_lse=True, **keywords)
    wanted, wanted_lse = reference.attention(q, k, v, return_lse=True, **keywords)
    points = [np.asarray(keywords[name]) for name in keywords if "positions" in name] or [np.zeros(1)]
    size = 8 * (blur(q, *points) if "rope" in keywords else 1) + penalties(q, keywords, points)
    close(result, wanted, size)
    close(lse, wanted_lse, size * largest(np.nan_to_num(wanted_lse, neginf=0)))


def penalties(q, keywords, points):
    """Scores are as coarse as the largest penalty in the compute type, and weights relatively so."""
    slope = sum(largest(keywords.get(name, 0)) for name in ("alibi_slopes", "decay_rate"))
    unit = 2.0**-24 if q.dtype != np.float64 else 2.0**-53
    return 4 * slope * (max(map(largest, points)) + 200) * unit / UNIT[q.dtype.name]


@many
@given(queries_and_keys(), st.data())
def test_all_ways_to_hide_are_one(case, data):
    """Causal is a triangle of True, rules combine by and, and a bias of -inf hides like False."""
    q, k, v = case
    M, N = q.shape[-2], k.shape[-2]
    mask = data.draw(masks(axes_of_scores(q, k, v)))
    triangle = np.tri(M, N, N - M, dtype=bool)
    both = pe.attention(q, k, v, mask=mask, causal=True)
    close(both, pe.attention(q, k, v, mask=mask & triangle))
    close(both, pe.attention(q, k, v, bias=np.where(mask, 0, -np.inf), causal=True))
    close(pe.attention(q, k, v, causal=True), pe.attention(q, k, v, mask=triangle))


@many
@given(queries_and_keys(), st.data())
def test_hidden_rows_do_not_matter(case, data):
    """NaN, infinities and other numbers behind a mask leave every bit as it was."""
    q, k, v = case
    seen = np.random.default_rng(data.draw(seeds)).random(k.shape[-2]) < 0.6
    k_junk, v_junk = k.copy(), v.copy()
    k_junk[..., ~seen, :] = data.draw(st.sampled_from([np.nan, np.inf, 1e4]))
    v_junk[..., ~seen, :] = data.draw(st.sampled_from([np.nan, -np.inf, 1e4]))
    plain = pe.attention(q, k, v, mask=seen)
    assert np.array_equal(pe.attention(q, k_junk, v_junk, mask=seen), plain)
    close(pe.attention(q, k_junk, v_junk, bias=np.where(seen, 0.0, -np.inf)), plain)
    close(pe.attention(q, k[..., seen, :], v[..., seen, :]), plain)


@many
@given(queries_and_keys(DTYPES[2:]), st.data())
def test_parts_merge_into_the_whole(case, data):
    """Over disjoint keys, results weighted by e^lse are the result over all, if one part has the sinks."""
    q, k, v = case
    keywords = data.draw(options(q, k, v))
    owner = np.random.default_rng(data.draw(seeds)).integers(0, 3, k.shape[-2])
    mask, sinks = keywords.pop("mask", np.array(True)[None]), keywords.pop("sinks", None)
    whole, lse = pe.attention(q, k, v, mask=mask, sinks=sinks, return_lse=True, **keywords)
    parts = [pe.attention(q, k, v, mask=mask & (owner == i), sinks=None if i else sinks, return_lse=True,
                          **keywords) for i in range(3)]
    lses = np.stack([part_lse for _, part_lse in parts]).astype(float)
    total = np.logaddexp.reduce(lses, axis=0)
    shares = np.exp(lses - np.where(np.isneginf(total), 0, total))
    merged = sum(share[..., None] * part for share, (part, _) in zip(shares, parts, strict=True))
    size = largest(np.nan_to_num(total, neginf=0))
    close(merged.astype(whole.dtype), whole, 8 * size)
    close(total.astype(lse.dtype), lse, 8 * size)


@many
@given(queries_and_keys(DTYPES[2:]), st.data(), st.integers(-2**30, 2**30))
def test_attention_sees_gaps_alone(case, data, shift):
    """The same shift of all positions changes no bit, or under a rope the rounding of the phase."""
    q, k, v = case
    t, s = (np.random.default_rng(data.draw(seeds)).integers(-50, 50, a.shape[-2]) for a in (q, k))
    keywords = {"causal": data.draw(st.booleans()), "decay_rate": data.draw(st.floats(0, 1))}
    here = pe.attention(q, k, v, q_positions=t, k_positions=s, **keywords)
    there = pe.attention(q, k, v, q_positions=t + shift, k_positions=s + shift, **keywords)
    assert here.tobytes() == there.tobytes()
    keywords["rope"] = pe.Rope(q.shape[-1])
    here = pe.attention(q, k, v, q_positions=t, k_positions=s, **keywords)
    there = pe.attention(q, k, v, q_positions=t + shift, k_positions=s + shift, **keywords)
    close(there, here, 8 * max(1, abs(shift) / 100) if q.dtype == np.float64 else 8)


@many
@given(queries_and_keys(DTYPES[2:]), st.data())
def test_the_order_of_keys_is_in_their_positions(case, data):
    q, k, v = case
    N = k.shape[-2]
    order = np.random.default_rng(data.draw(seeds)).permutation(N)
    mask, bias = normal(data.draw(seeds), q.shape[-2], N) < 1, normal(data.draw(seeds), N)
    keywords = {"causal": data.draw(st.booleans()), "alibi_slopes": 0.1, "rope": pe.Rope(q.shape[-1])}
    whole = pe.attention(q, k, v, mask=mask, bias=bias, k_positions=np.arange(N), **keywords)
    mixed = pe.attention(q, k[..., order, :], v[..., order, :], mask=mask[:, order], bias=bias[order],
                         k_positions=order, **keywords)
    close(mixed, whole, 8)


@many
@given(queries_and_keys(DTYPES[2:]), st.data())
def test_results_are_means_of_visible_values(case, data):
    """Weights are positive and sum to one: a result lies among the values, and is linear in them."""
    q, k, v = case
    result = pe.attention(q, k, v, causal=data.draw(st.booleans()))
    if v.shape[-2]:
        slack = 1e-5 if v.dtype == np.float32 else 1e-13
        group = q.shape[-3] // k.shape[-3]
        low, high = (np.repeat(f(v, axis=-2, keepdims=True), group, axis=-3) for f in (np.min, np.max))
        empty = np.all(result == 0, axis=-1, keepdims=True)  # a query before all keys
        assert np.all(empty | (result >= low - slack) & (result <= high + slack))
    close(pe.attention(q, k, 4 * v), 4 * pe.attention(q, k, v))
    ones = pe.attention(q, k, np.ones_like(v))
    close(ones, np.full_like(ones, 1.0 if v.shape[-2] else 0.0))
