"""The twins of `pe.reference`: against exact arithmetic and, beside the ops, against known figures."""

import inspect

import mpmath
import numpy as np
import pytest
from golden_cases import bfloat16

import pe
import pe.reference as twin

OPS = [pytest.param(pe, id="pe"), pytest.param(twin, id="twin")]
NAMES = twin.__all__


@pytest.mark.parametrize("name", NAMES)
def test_signature_is_that_of_the_op(name):
    def form(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    method = name == "shift"                                # whose first argument is the rope
    op = pe.Rope.shift if method else getattr(pe, name)
    assert form(getattr(twin, name))[method:] == form(op)[method:]


# Against exact arithmetic


def exact_attention(q, k, v, scale, causal, mask, bias, slope, t, s, cap=None, sink=-np.inf, rate=0,
                    clocks=None, reach=np.inf, lag=np.inf, texts=None, length=None):
    """One head by the definition, in 40 digits."""
    texts, clocks = texts or (0 * t, 0 * s), clocks or (t, s)
    rows = []
    for i, query in enumerate(q):
        seen = [j for j in range(len(k))[:length] if mask[i, j] and not (causal and s[j] > t[i])
                and -lag <= t[i] - s[j] <= reach and texts[0][i] == texts[1][j]]
        weights = []
        for j in seen:
            score = scale * mpmath.fdot(query, k[j])
            score = score if cap is None else cap * mpmath.tanh(score / cap)
            gap, time = (abs(mpmath.mpf(a[i]) - b[j]) for a, b in ((t, s), clocks))
            weights.append(mpmath.exp(score + bias[i, j] - slope * gap - rate * time))
        total = mpmath.fsum(weights) + (mpmath.exp(sink) if sink > -np.inf else 0)
        out = [mpmath.fdot(weights, v[seen, c]) / total if seen else 0 for c in range(v.shape[1])]
        rows.append([*map(float, out), float(mpmath.log(total)) if total else -np.inf])
    return np.array(rows)[:, :-1], np.array(rows)[:, -1]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_attention_against_mpmath(seed, causal):
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(2, 4, 3)), rng.normal(size=(1, 5, 3)), rng.normal(size=(1, 5, 2))
    t, s = rng.normal(size=4) * 3, rng.normal(size=5) * 3
    mask, bias, slopes = rng.random((4, 5)) < 0.7, rng.normal(size=(2, 4, 5)), np.array([0.5, 0.25])
    mask[1] = False
    out, lse = twin.attention(q, k, v, causal=causal, mask=mask, bias=bias, alibi_slopes=slopes,
                              decay_rate=0.125, scale=0.75, q_positions=t, k_positions=s, return_lse=True)
    with mpmath.workdps(40):
        for h in range(2):
            want = exact_attention(q[h], k[0], v[0], 0.75, causal, mask, bias[h], slopes[h] + 0.125, t, s)
            np.testing.assert_allclose(out[h], want[0], atol=1e-15 * 8)
            np.testing.assert_allclose(lse[h], want[1], atol=1e-15 * 8)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_keyword_of_attention_against_mpmath(ops, seed, causal):
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(2, 4, 3)), rng.normal(size=(1, 7, 3)), rng.normal(size=(1, 7, 2))
    t, s = np.arange(1, 5.0), np.arange(7.0)                # of 7 keys 5 are in use: queries are the last 4
    texts = np.sort(rng.integers(0, 2, 4)), np.sort(rng.integers(0, 2, 7))
    clocks, bias = [rng.random((2, n)).cumsum(axis=-1) for n in (4, 7)], rng.normal(size=(4, 7))
    sinks, slopes, rates = np.array([0.5, -np.inf]), np.array([0.5, 0.25]), np.array([1.5, 0.0])
    out, lse = ops.attention(q, k, v, scale=0.75, causal=causal, window=(3, 1.5), bias=bias, sinks=sinks,
                             alibi_slopes=slopes, decay_rate=rates, clock=tuple(clocks), softcap=0.5,
                             segments=texts, kv_lengths=5, return_lse=True)
    with mpmath.workdps(40):
        for h in range(2):
            of_head = sinks[h], rates[h], [clock[h] for clock in clocks]
            want = exact_attention(q[h], k[0], v[0], 0.75, causal, bias < 9, bias, slopes[h], t, s, 0.5,
                                   *of_head, 3, 1.5, texts, 5)
            np.testing.assert_allclose(out[h], want[0], atol=1e-15 * 8)
            np.testing.assert_allclose(lse[h], want[1], atol=1e-15 * 8)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_apply_rope_against_mpmath(layout):
    rng = np.random.default_rng(0)
    x, positions = rng.normal(size=(3, 6)), [2.5, -1000, 7]
    got = twin.apply_rope(x, positions=positions, base=100.0, layout=layout)
    with mpmath.workdps(40):
        for row, p, y in zip(x, positions, got, strict=True):
            for plane in range(3):
                i, j = (2 * plane, 2 * plane + 1) if layout == "interleaved" else (plane, plane + 3)
                angle = p * mpmath.mpf(100) ** (-mpmath.mpf(plane) / 3)
                turned = mpmath.mpc(row[i], row[j]) * mpmath.expj(angle)
                np.testing.assert_allclose([y[i], y[j]], [float(turned.real), float(turned.imag)], atol=1e-12)


# Dtypes, out=, shapes: what the ops promise, the twins keep


@pytest.mark.parametrize("dtype", ["f2", bfloat16(), "f4", "f8", ">f2", ">f4", ">f8"], ids=str)
def test_result_dtype_is_that_of_the_values(dtype):
    x = np.ones((2, 4)).astype(dtype)
    native = np.dtype(dtype).newbyteorder("=")
    assert twin.apply_rope(x, positions=[0, 1]).dtype == native
    assert twin.apply_rope_2d(x, [0, 1], [0, 1]).dtype == native
    out, lse = twin.attention(x, x, x, bias=np.zeros((2, 2)), alibi_slopes=np.float64(1), return_lse=True)
    assert out.dtype == native
    assert lse.dtype == (np.float64 if native == np.float64 else np.float32)
    assert twin.alibi_bias(3, slopes=np.ones(1, dtype)).dtype == native
    assert twin.alibi_bias(3, slopes=0.5, dtype=dtype).dtype == native


def test_promotion_and_integers():
    x = np.ones((2, 4), np.float32)
    assert twin.attention(x, x.astype(np.float16), x.astype(np.float64)).dtype == np.float64
    assert twin.attention(x.astype(np.float16), x, x).dtype == np.float32
    assert twin.apply_rope([[1, 2]], positions=[1]).dtype == np.float64
    assert twin.decay_bias(3, rate=1).dtype == twin.decay_bias(3, rate=np.array([1, 2])).dtype == np.float64


def test_out_is_returned_and_filled():
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    calls = [lambda out: twin.apply_rope(x, positions=[0, 1, 2], out=out),
             lambda out: twin.apply_rope_2d(x, [0, 1, 2], [2, 1, 0], out=out),
             lambda out: twin.attention(x, x, x, causal=True, out=out)]
    for call in calls:
        for dtype in (np.float64, np.float32):
            out = np.full(x.shape, np.nan, dtype)
            assert call(out) is out
            np.testing.assert_array_equal(out, call(None).astype(dtype))
    out = np.empty((3, 3), np.float32)
    assert twin.decay_bias(3, rate=0.1, out=out) is out
    np.testing.assert_array_equal(out, twin.decay_bias(3, rate=0.1).astype(np.float32))


def test_one_head_without_an_axis():
    rng = np.random.default_rng(2)
    q, k, v = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    out, lse = twin.attention(q, k, v, causal=True, return_lse=True)
    more, more_lse = twin.attention(q[None, None], k[None, None], v[None, None], causal=True, return_lse=True)
    assert out.shape == (3, 2) and lse.shape == (3,)
    np.testing.assert_array_equal(out, more[0, 0])
    np.testing.assert_array_equal(lse, more_lse[0, 0])


@pytest.mark.parametrize("ops", OPS)
def test_leading_axes_broadcast(ops):
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(4, 3, 6)), rng.normal(size=(2, 5, 6)), rng.normal(size=(7, 2, 5, 3))
    out, lse = ops.attention(q, k, v, causal=True, return_lse=True)
    assert out.shape == (7, 4, 3, 3) and lse.shape == (7, 4, 3)
    for b in range(7):
        one, one_lse = ops.attention(q, k, v[b], causal=True, return_lse=True)
        np.testing.assert_allclose(out[b], one, atol=1e-15)
        np.testing.assert_allclose(lse[b], one_lse, atol=1e-15)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("freqs", [[1.0, 0.1, 0.01], [[1, 0.1, 0], [0, 0.3, 1]]], ids=["one", "two"])
def test_rope_inside_attention_is_rope_before_it(ops, freqs):
    rng = np.random.default_rng(4)
    q, k, v = rng.normal(size=(2, 4, 3, 6)), rng.normal(size=(2, 2, 5, 6)), rng.normal(size=(2, 2, 5, 3))
    rope = pe.Rope(6, freqs=freqs, layout="half", amplitude=1.25)
    t, s = np.array([6.5, -2, 3]), np.arange(5.0)
    own = {"q_positions": t, "k_positions": s}
    if np.ndim(freqs) == 2:                 # coordinates are for the rope, all else counts 0..N-1
        t, s, own = np.stack([t, -t], axis=-1), np.stack([s, s * s], axis=-1), {}
    inside = ops.attention(q, k, v, rope=rope, causal=True, q_positions=t, k_positions=s, decay_rate=0.5)
    turned = ops.apply_rope(q, positions=t, rope=rope), ops.apply_rope(k, positions=s, rope=rope)
    before = ops.attention(*turned, v, causal=True, decay_rate=0.5, **own)
    np.testing.assert_allclose(inside, before, atol=1e-14)


@pytest.mark.parametrize("ops", OPS)
def test_zero_sizes(ops):
    out, lse = ops.attention(np.ones((2, 3, 4)), np.ones((2, 0, 4)), np.ones((2, 0, 5)), return_lse=True)
    assert out.tolist() == np.zeros((2, 3, 5)).tolist() and (lse == -np.inf).all()
    assert ops.attention(np.ones((0, 4)), np.ones((2, 4)), np.ones((2, 5))).shape == (0, 5)
    assert ops.attention(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 0))).shape == (1, 0)
    assert ops.apply_rope(np.ones((0, 4)), positions=[]).shape == (0, 4)
    assert ops.alibi_bias(0, 3, slopes=[1.0, 2.0]).shape == (2, 0, 3)


# Figures of the sources and of public reports


def turn(ops, x, position, **kwargs):
    return ops.apply_rope(np.atleast_2d(x), positions=[position], **kwargs)[0]


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-6), (np.float32, 5e-6)])
@pytest.mark.parametrize("start", [0, 10, 100, 10**6, 10**9])
def test_score_depends_on_the_gap_alone(ops, dtype, tolerance, start):
    """Source document 1, d = 16, every plane (1, 0): 5.543 at gap 3, another score at gap 7."""
    x = np.tile([1, 0], 8).astype(dtype)
    for gap, score in ((3, 5.5431010613), (7, 5.8921859874)):
        q, k = turn(ops, x, start + gap), turn(ops, x, start)
        assert abs(np.dot(q.astype(np.float64), k) - score) <= tolerance


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("position, layout, want", [
    (1, "interleaved", [-1.142640, 1.922076, 2.959851, 4.029800]),
    (1, "half", [-1.984111, 1.959901, 2.462378, 4.019800]),
    (7, "interleaved", [-0.560071, 2.164791, 2.712882, 4.200033]),
    (7, "half", [-1.217058, 1.715331, 2.918693, 4.130090]),
])
def test_layouts(ops, position, layout, want):
    np.testing.assert_allclose(turn(ops, [1.0, 2, 3, 4], position, layout=layout), want, atol=5e-7)


@pytest.mark.parametrize("ops", OPS)
def test_partial_rotation(ops):
    half = [-0.264500, -0.295050, 1.389259, -1.383093, 1, 1, 1, 1]
    interleaved = [-0.264500, 1.389259, -0.295050, -1.383093, 1, 1, 1, 1]
    np.testing.assert_allclose(turn(ops, np.ones(8), 1000, rotary_dim=4, layout="half"), half, atol=5e-7)
    np.testing.assert_allclose(turn(ops, np.ones(8), 1000, rotary_dim=4), interleaved, atol=5e-7)


@pytest.mark.parametrize("ops", OPS)
def test_two_axes(ops):
    """The first half turns by x, the second by y."""
    got = ops.apply_rope_2d(np.array([[1.0, 0, 1, 0]]), [3], [5])
    np.testing.assert_allclose(got, [[-0.989992, 0.141120, 0.283662, -0.958924]], atol=5e-7)
    got = ops.apply_rope_2d(np.arange(1.0, 9)[None], [2], [7])
    want = [-2.234742, 0.077004, 2.919405, 4.059196, -0.172408, 7.808347, 6.423314, 8.470008]
    np.testing.assert_allclose(got, [want], atol=5e-7)


@pytest.mark.parametrize("ops", OPS)
def test_angles_are_formed_in_float64(ops):
    """A float32 phase is off by 2e-4 here; positions cast to float16 would merge 2048 and 2049."""
    want = [-0.817983, -0.575242, 0.930343, 0.366690, -0.786384, -0.617738, 0.640312, -0.768115]
    np.testing.assert_allclose(turn(ops, np.tile([1, 0], 4).astype(np.float32), 131071), want, atol=1e-6)
    want = [-0.672294881656585, -0.740283453886658, -0.996311759594257, 0.0858072123670055]
    np.testing.assert_allclose(turn(ops, [1.0, 0, 1, 0], 123456), want, rtol=1e-12)
    for position, cosine in ((2048, 0.949734), (2049, 0.776572), (256, -0.039791), (257, 0.819306)):
        assert turn(ops, np.array([1, 0], np.float16), position)[0] == np.float16(cosine)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("kwargs, outs, lses", [
    ({}, [[1.660476901347, 2.660476901347], [3.406672556079, 4.406672556079]],
     [1.107940307657, 1.620621139057]),
    ({"q_positions": [0, 1]}, [[1, 2], [2.339523098653, 3.339523098653]], [0.707106781187, 1.107940307657]),
    ({"alibi_slopes": 0.5}, [[1.896815173451, 2.896815173451], [3.915712044167, 4.915712044167]],
     [0.802052668379, 1.288159990709]),
    ({"decay_rate": -np.log(0.9)}, [[1.707888554873, 2.707888554873], [3.522412899788, 4.522412899788]],
     [1.038615786610, 1.539748755410]),
])
def test_worked_attention(ops, kwargs, outs, lses):
    q, k, v = np.eye(2), np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0, 2], [3, 4], [5, 6]])
    out, lse = ops.attention(q, k, v, causal=True, return_lse=True, **kwargs)
    np.testing.assert_allclose(out, outs, atol=1e-12)
    np.testing.assert_allclose(lse, lses, atol=1e-12)


def equal_scores(ops, values, queries=1, **kwargs):
    """Attention of zero queries: the mean of the visible values, but for biases."""
    v = np.array(values, np.float64)[:, None]
    return ops.attention(np.zeros((queries, 1)), np.zeros((len(v), 1)), v, **kwargs)[:, 0]


@pytest.mark.parametrize("ops", OPS)
def test_visibility(ops):
    def check(want, *args, **kwargs):
        np.testing.assert_allclose(equal_scores(ops, *args, **kwargs), want, atol=5e-7)

    tril = np.tri(3, dtype=bool)
    check([2.5, 3], [1, 2, 3, 4, 5], 2, causal=True)            # queries are the last positions
    check([3], [1, 2, 3, 4, 5], 1, causal=True)
    check([1, 1.5, 2], [1, 2, 3], 3, mask=tril)                 # True may be seen
    check([2.5, 3, 0], [1, 2, 3], 3, mask=~tril)                # the last row sees nothing
    check([1, 1, 2.5], [1, 2, 4], 3, causal=True, mask=np.array([True, False, True]))
    check([0.731059], [1, 0], bias=np.array([1.0, 0]))


@pytest.mark.parametrize("ops", OPS)
def test_what_is_hidden_does_not_leak(ops):
    k, v = np.array([[0.0], [np.nan]]), np.array([[2.0], [np.nan]])
    for kwargs in ({"mask": np.array([True, False])}, {"bias": np.array([0, -np.inf])},
                   {"causal": True, "q_positions": [0]}):
        assert ops.attention(np.zeros((1, 1)), k, v, **kwargs).tolist() == [[2.0]]
    assert np.isnan(ops.attention(np.zeros((1, 1)), k, v)).all()


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("heads, key_heads", [(4, 2), (6, 2), (6, 3), (8, 1)])
def test_query_head_h_reads_key_head_h_over_group(ops, heads, key_heads):
    v = 10.0 * np.arange(1, key_heads + 1).reshape(key_heads, 1, 1)
    out = ops.attention(np.ones((heads, 1, 1)), np.ones((key_heads, 1, 1)), v)
    np.testing.assert_allclose(out[:, 0, 0], np.repeat(v[:, 0, 0], heads // key_heads))


@pytest.mark.parametrize("ops", OPS)
def test_alibi_and_decay_prefer_the_near(ops):
    assert ops.alibi_bias(1, 5, slopes=0.5).tolist() == [[-2, -1.5, -1, -0.5, 0]]
    got = equal_scores(ops, range(5), causal=True, alibi_slopes=0.5)
    np.testing.assert_allclose(got, [2.905633], atol=5e-7)
    np.testing.assert_allclose(ops.decay_bias(4, rate=0.1)[-1], [-0.3, -0.2, -0.1, 0], rtol=1e-15)
    weights = [equal_scores(ops, np.eye(4)[j], 4, alibi_slopes=0.5)[1] for j in range(4)]
    np.testing.assert_allclose(weights, [0.235004, 0.387456, 0.235004, 0.142537], atol=5e-7)
    future = ops.decay_bias([0], [50], rate=0.1)
    assert future.tolist() == [[-np.inf]] and np.exp(future).tolist() == [[0.0]]    # never e^5


@pytest.mark.parametrize("ops", OPS)
def test_three_ways_to_name_a_decay(ops):
    rate = 0.3
    want = ops.decay_bias(5, rate=rate)
    np.testing.assert_allclose(ops.decay_bias(5, half_life=np.log(2) / rate), want, rtol=1e-14)
    np.testing.assert_allclose(ops.decay_bias(5, multiplier=np.exp(-rate)), want, rtol=1e-14)
    np.testing.assert_allclose(ops.alibi_bias(5, slopes=rate), want, rtol=1e-15)


@pytest.mark.parametrize("ops", OPS)
def test_a_source_of_alibi(ops):
    """Source document 1: the slots (-m, 0) and (0, 1) under a slide give -m(t - s)."""
    for t, s in ((5, 2), (9, 9)):
        slide = np.array([[1.0, t - s], [0, 1]])
        assert ops.alibi_bias([t], [s], slopes=0.25)[0, 0] == np.array([-0.25, 0]) @ slide @ np.array([0, 1])


@pytest.mark.parametrize("ops", OPS)
def test_inverse_with_any_tables(ops):
    """The inverse of tables that carry an amplitude divides by it."""
    x, rope = np.random.default_rng(3).normal(size=(4, 6)), pe.Rope(6, amplitude=1.5)
    cos, sin = rope.cache(4)
    back = ops.apply_rope(ops.apply_rope(x, cos, sin), cos, sin, inverse=True)
    np.testing.assert_allclose(back, x, atol=1e-14)
