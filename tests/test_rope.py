"""`Rope`, its tables and matrices, and `build_rope_cache`."""

import doctest
import pickle

import ml_dtypes
import mpmath
import numpy as np
import pytest
from isas import each_isa
from scipy.linalg import expm

import pe
from pe import Rope, build_rope_cache
from pe.rope import Provenance, description, provenance, tables
from pe.rope import rope as rope_module
from pe.scaling import linear, yarn

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("module", [rope_module, tables, description, provenance], ids=lambda m: m.__name__)
def test_docstring_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 1 and result.failed == 0


# Frequencies


def test_table_of_width_16():
    """Source document 1: frequencies 10000^(-k/8) and the tokens of a full turn."""
    rope = Rope(16)
    np.testing.assert_allclose(rope.freqs[0], [1, .316, .1, .032, .01, .0032, .001, .00032], rtol=0.02)
    np.testing.assert_allclose(rope.wavelengths[0], [6, 20, 63, 199, 628, 2e3, 6e3, 20e3], rtol=0.05)
    assert rope.freqs.shape == rope.wavelengths.shape == (1, 8)


@pytest.mark.parametrize("dim, base", [(2, 1e4), (64, 1e4), (128, 5e5), (96, 1e6), (256, 1.0)])
def test_frequencies_against_mpmath(dim, base):
    with mpmath.workdps(40):
        want = [float(mpmath.mpf(base) ** (-mpmath.mpf(2 * plane) / dim)) for plane in range(dim // 2)]
    np.testing.assert_allclose(Rope(dim, base).freqs[0], want, rtol=1e-14)


def test_partial_rotation_counts_exponents_over_the_part():
    rope = Rope(8, rotary_dim=4)
    np.testing.assert_allclose(rope.freqs, [[1, 0.01]], rtol=1e-15)         # 0.1 if counted over 8
    assert (rope.dim, rope.rotary_dim) == (8, 4)
    assert Rope(8, freqs=[1, 0.01]) == rope         # 2L coordinates turn, the rest stays
    assert Rope(8, freqs=[1, 0.01], rotary_dim=4) == rope


def test_freqs_are_a_private_copy():
    w = np.array([1.0, 0.5])
    rope = Rope(4, freqs=w)
    w[0] = 7
    assert rope.freqs.tolist() == [[1.0, 0.5]]
    with pytest.raises(ValueError, match="read-only"):
        rope.freqs[0, 0] = 7
    assert Rope(4, freqs=np.array([1, 0], ">f4")).freqs.dtype == np.dtype(np.float64)


def test_wavelength_of_a_plane_that_stands_still():
    with np.errstate(all="raise"):
        assert Rope(4, freqs=[1, 0]).wavelengths.tolist() == [[2 * np.pi, np.inf]]


# A value: frozen, equal, hashable, picklable, printable


EQUAL = [Rope(8), Rope(8, 1e4, layout="gptj"), Rope(np.int64(8), rotary_dim=8),
         Rope(8, freqs=Rope(8).freqs), Rope(8, freqs=Rope(8).freqs[0].astype(">f8"), amplitude=1),
         pickle.loads(pickle.dumps(Rope(8)))]
DIFFERENT = [Rope(8), Rope(8, layout="half"), Rope(8, 500.0), Rope(8, rotary_dim=4), Rope(10, rotary_dim=8),
             Rope(8, amplitude=1.25), Rope(8, softmax_scale=1.25), Rope(10, rotary_dim=8, rotary_offset=2),
             Rope(8, scaling=linear(2)), Rope(8, freqs=[[1, 0], [0, 1]]), Rope(8, freqs=[1, 0, 0, 0])]


def test_equal_ropes_are_equal_in_every_way():
    for rope in EQUAL:
        assert rope == EQUAL[0] and hash(rope) == hash(EQUAL[0])
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.dumps(rope, protocol) == pickle.dumps(EQUAL[0], protocol)
    assert len(set(EQUAL)) == 1


def test_different_ropes_differ():
    assert len(set(DIFFERENT)) == len(DIFFERENT) == len({pickle.dumps(rope) for rope in DIFFERENT})
    assert Rope(8) != "Rope(8)"


@pytest.mark.parametrize("rope", DIFFERENT, ids=repr)
def test_pickle_keeps_everything(rope):
    copy = pickle.loads(pickle.dumps(rope))
    assert copy == rope and copy.layout == rope.layout and copy.amplitude == rope.amplitude
    assert copy._plan[1:] == rope._plan[1:]
    np.testing.assert_array_equal(copy._plan[0], rope._plan[0])
    assert (copy.base, copy.scaling, copy.provenance) == (rope.base, rope.scaling, rope.provenance)
    assert copy.freqs.flags.writeable is copy.unscaled.flags.writeable is False


def test_comparisons_look_at_what_a_rope_does():
    """Not at how it was described; a pickle keeps that as well."""
    scaled, bare = Rope(8, scaling=linear(2)), Rope(8, freqs=Rope(8).freqs / 2)
    assert scaled == bare and hash(scaled) == hash(bare)
    assert (bare.base, bare.scaling) == (None, None) and pickle.dumps(scaled) != pickle.dumps(bare)
    named = Rope.from_hf({"model_type": "llama", "head_dim": 8})
    assert named == Rope(8, layout="half") and named.provenance != Rope(8, layout="half").provenance
    assert pickle.loads(pickle.dumps(named)).provenance == named.provenance


def test_provenance():
    assert Rope(8).provenance == Provenance("", "w_l = base^(-2l/8), base 10000",
                                            "Su et al. (2021), RoFormer, arXiv:2104.09864")
    assert Rope(8, freqs=[1, 0.5]).provenance == Provenance("", "frequencies as given", "")
    text = str(Rope(8, 5e5, scaling=yarn(4, 64)).provenance)
    assert "base 500000" in text and "yarn(factor=4.0" in text and "arXiv:2309.00071" in text
    assert Rope(8, freqs=Rope(8).freqs).base == 10000 == Rope(8).base       # the default, however it is spelt


def test_frozen():
    rope = Rope(8)
    with pytest.raises(AttributeError, match="frozen.*layout"):
        rope.layout = "half"
    with pytest.raises(AttributeError, match="frozen"):
        del rope.freqs
    with pytest.raises(AttributeError):
        rope.colour = "red"
    for array in (rope.freqs, rope.unscaled, pickle.loads(pickle.dumps(rope)).freqs):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 2.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    assert rope == Rope(8)


def test_repr_names_layout_and_wavelengths():
    assert repr(Rope(4)) == "Rope(4, layout='interleaved', wavelengths=[6.283, 628.3])"
    assert repr(Rope(4, 2048)) == "Rope(4, base=2048, layout='interleaved', wavelengths=[6.283, 284.3])"
    assert "base=500000.5, " in repr(Rope(4, 500000.5)) and "base" not in repr(Rope(4, freqs=[1, 0.5]))
    text = repr(Rope(128, layout="neox", rotary_dim=64, amplitude=1.5))
    assert "'half'" in text and "rotary_dim=64" in text and "amplitude=1.5" in text and "..." in text
    text = repr(Rope(24, rotary_offset=8, softmax_scale=1.5, scaling=linear(2)))
    assert "rotary_dim=16, rotary_offset=8, scaling=linear(factor=2.0), softmax_scale=1.5" in text


@pytest.mark.parametrize("name", ["interleaved", "adjacent", "gptj", "traditional", "Interleaved", "GPT-J"])
def test_names_of_the_interleaved_layout(name):
    assert Rope(8, layout=name).layout == "interleaved"


@pytest.mark.parametrize("name", ["half", "neox", "rotate_half", "split", "HALF", "Rotate-Half"])
def test_names_of_the_half_layout(name):
    assert Rope(8, layout=name).layout == "half"


@pytest.mark.parametrize("name, words", [
    ("hlaf", 'did you mean "half"\\? expected'), ("Gpt_NeoX", 'did you mean "neox"\\? expected'),
    ("pairs", "^layout 'pairs' is unknown; expected \"interleaved\""),
    ("llama", 'Hugging Face\'s Llama is "half", Meta\'s own checkpoints "interleaved"$'),
    ("HF", 'Meta\'s own checkpoints "interleaved"$')])
def test_names_that_are_no_layout(name, words):
    with pytest.raises(ValueError, match=words):
        Rope(8, layout=name)


# Tables


@each_isa
@pytest.mark.parametrize("position", [0, 1, -7, 2.5, 1023, 131071, 2**24 + 1, 2**40 + 1, 2**53])
def test_cache_against_mpmath(position, isa):
    """Sine and cosine of the exact product, wherever it is."""
    rope = Rope(64, amplitude=1.25)
    cos, sin = rope.cache([position])
    with mpmath.workdps(60):
        angles = [mpmath.mpf(position) * mpmath.mpf(w) for w in rope.freqs[0].tolist()]
        want = np.array([[float(1.25 * f(a)) for a in angles] for f in (mpmath.cos, mpmath.sin)])
    np.testing.assert_allclose([cos[0], sin[0]], want, rtol=0, atol=1.25 * 3 * 2.0**-53)


@each_isa
@pytest.mark.parametrize("width", [2, 6, 32, 70, 2048])
def test_cache_of_any_number_of_positions_and_planes(width, isa):
    """A table of a row, of tasks of rows, and of rows that are held in another way."""
    rope, p = Rope(width, 50.0, amplitude=0.75), np.arange(1500.0) / 3 - 100
    whole = rope.cache(p)
    for got, function in zip(whole, (np.cos, np.sin), strict=True):
        assert got.flags.c_contiguous and got.dtype == np.float64
        np.testing.assert_allclose(got, 0.75 * function(np.outer(p, rope.freqs)), rtol=0, atol=1e-13)
    held = [(p[::-2], np.s_[::-2]), (p.astype(">f8"), np.s_[:]), (p[700], 700), (np.array(p[3]), 3),
            (p.reshape(3, 5, 100).T, lambda a: a.reshape(3, 5, 100, -1).transpose(2, 1, 0, 3)),
            (p.tolist(), np.s_[:]), (np.broadcast_to(p[7], (2, 3)), lambda a: np.tile(a[7], (2, 3, 1)))]
    for positions, rows in held:
        for got, table in zip(rope.cache(positions), whole, strict=True):
            np.testing.assert_array_equal(got, rows(table) if callable(rows) else table[rows])
    for kind in (np.int64, np.int8, ">i4", np.uint64, np.float32):
        np.testing.assert_array_equal(rope.cache(np.arange(100).astype(kind)), rope.cache(100))


@each_isa
def test_cache_of_several_axes_is_that_of_their_sum(isa):
    freqs = RNG.normal(size=(3, 40))
    points = RNG.normal(size=(7, 2, 3)) * 50
    for held in (points, points[:, ::-1], points.astype(">f8")):
        got = Rope(80, freqs=freqs).cache(held)
        for table, function in zip(got, (np.cos, np.sin), strict=True):
            np.testing.assert_allclose(table, function(held @ freqs), rtol=0, atol=1e-13)


def test_cache_shapes():
    rope = Rope(8)
    assert [t.shape for t in rope.cache(5)] == [(5, 4)] * 2
    assert [t.shape for t in rope.cache(np.arange(6.0).reshape(2, 1, 3))] == [(2, 1, 3, 4)] * 2
    assert [t.shape for t in rope.cache(0)] == [t.shape for t in rope.cache([])] == [(0, 4)] * 2
    np.testing.assert_array_equal(rope.cache(3), rope.cache([0, 1, 2]))
    axial = Rope(8, freqs=[[1, 0.1, 0, 0], [0, 0, 1, 0.1]])
    cos, sin = axial.cache([[3, 5], [0, 2]])
    np.testing.assert_allclose(cos, np.cos([[3, 0.3, 5, 0.5], [0, 0, 2, 0.2]]), rtol=1e-15)
    np.testing.assert_allclose(sin, np.sin([[3, 0.3, 5, 0.5], [0, 0, 2, 0.2]]), rtol=1e-15)


def test_cache_of_positions_with_all_axes_that_numpy_has():
    """The axis of the coordinates makes room for that of the planes; without it there is none."""
    cos, _ = Rope(6, freqs=[[1, 0.1, 0], [0, 0, 0.5]]).cache(np.ones((1,) * 63 + (2,)))
    assert cos.shape == (1,) * 63 + (3,)
    for make in (Rope(8).cache, lambda points: pe.sinusoidal(points, 8)):
        with pytest.raises(ValueError, match="positions has 64 axes"):
            make(np.ones((1,) * 64))


def test_build_rope_cache_is_the_tutorial_table():
    cos, sin = build_rope_cache(64, 8)
    angles = np.outer(np.arange(64), 10000.0 ** (-2 * np.arange(4) / 8))
    np.testing.assert_allclose(cos, np.cos(angles), atol=1e-14)
    np.testing.assert_allclose(sin, np.sin(angles), atol=1e-14)
    assert cos.dtype == np.float64 and cos.shape == (64, 4)
    assert build_rope_cache(0, 8)[0].shape == (0, 4)
    np.testing.assert_array_equal(build_rope_cache(9, 8, 500.0), Rope(8, 500.0).cache(9))


# Matrices


ROPES = [Rope(8), Rope(8, layout="half"), Rope(10, rotary_dim=6), Rope(10, layout="half", rotary_dim=6),
         Rope(8, amplitude=1.5), Rope(8, freqs=[2.0, 0.0, -0.5]), Rope(10, rotary_offset=4),
         Rope(11, layout="half", rotary_dim=6, rotary_offset=3), Rope(9, rotary_dim=4, rotary_offset=5)]


@pytest.mark.parametrize("rope", ROPES, ids=repr)
def test_matrix_is_what_apply_does(rope):
    x, positions = RNG.normal(size=(5, rope.dim)), np.array([0, 1, -3, 2.5, 1000])
    want = np.einsum("tij,tj->ti", rope.matrix(positions), x)
    np.testing.assert_allclose(rope.apply(x, positions), want, atol=1e-14)
    np.testing.assert_array_equal(rope.apply(x, positions), pe.apply_rope(x, positions=positions, rope=rope))


@pytest.mark.parametrize("rope", [r for r in ROPES if r.amplitude == 1], ids=repr)
def test_matrix_is_a_homomorphism_with_this_generator(rope):
    X = rope.generator()
    np.testing.assert_allclose(rope.matrix(3) @ rope.matrix(-4.5), rope.matrix(-1.5), atol=1e-14)
    np.testing.assert_array_equal(rope.matrix(0), np.eye(rope.dim))
    np.testing.assert_array_equal(X.T, -X)
    for u in (0.5, 7):
        np.testing.assert_allclose(expm(u * X), rope.matrix(-u), atol=1e-13)


def test_direction():
    """Counter-clockwise by +p*w; the score of the turned pair is q^T exp((t - s) X) k."""
    rope = Rope(2)
    np.testing.assert_allclose(rope.apply([[1.0, 0.0]], [1]), [[0.540302305868, 0.841470984808]], atol=1e-12)
    assert rope.generator().tolist() == [[0, 1], [-1, 0]]
    rope, q, k = Rope(6), RNG.normal(size=6), RNG.normal(size=6)
    for t, s in ((5, 2), (2, 5), (1003, 1000)):
        score = rope.apply(q[None], [t])[0] @ rope.apply(k[None], [s])[0]
        np.testing.assert_allclose(score, q @ expm((t - s) * rope.generator()) @ k, atol=1e-12)


def test_level_one_is_mostly_zeros():
    """Source document 1: at d = 128 the matrix has 16384 entries, 256 of them nonzero."""
    matrix = Rope(128).matrix(1)
    assert matrix.size == 16384 and np.count_nonzero(matrix) == 256


def test_several_axes_commute():
    """Source document 2: the matrix of (x, y) is that of x times that of y."""
    rope = Rope(8, freqs=[[1, 0.1, 0, 0.3], [0, 0, 1, 0.2]])
    X, Y = rope.generator()
    np.testing.assert_allclose(X @ Y, Y @ X, atol=1e-15)
    np.testing.assert_allclose(rope.matrix([3, -2]), expm(-3 * X + 2 * Y), atol=1e-13)
    x, positions = RNG.normal(size=(4, 8)), RNG.integers(-9, 9, size=(4, 2))
    want = np.einsum("tij,tj->ti", rope.matrix(positions), x)
    np.testing.assert_allclose(rope.apply(x, positions), want, atol=1e-14)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_slice_anywhere_in_a_head_turns_as_it_would_alone(layout, dtype):
    x, positions = RNG.normal(size=(2, 5, 20)).astype(dtype), np.arange(5) * 1000
    for offset in (0, 1, 6, 8):
        rope = Rope(20, rotary_dim=12, rotary_offset=offset, layout=layout, amplitude=1.5)
        part = slice(offset, offset + 12)
        want = x.copy()
        want[..., part] = Rope(12, layout=layout, amplitude=1.5).apply(x[..., part], positions)
        got = rope.apply(x, positions)
        assert got.tobytes() == want.tobytes()
        inside, out = x.copy(), np.empty_like(x)
        assert rope.apply(inside, positions, out=inside).tobytes() == want.tobytes()
        assert rope.apply(x, positions, out=out).tobytes() == want.tobytes()
        back = rope.apply(got, positions, inverse=True)
        np.testing.assert_allclose(back.astype(float), x.astype(float), atol=10 * np.finfo(dtype).eps)
        moved = rope.shift(got, 7)[..., part]
        np.testing.assert_allclose(moved.astype(float), rope.apply(x, positions + 7)[..., part].astype(float),
                                   atol=20 * np.finfo(dtype).eps)


def beside_zero(tables, layout):
    """Return bfloat16 rows of planes (1, 0), which become (cos, sin) as the tables have them."""
    planes = tables[0].shape[-1]
    x = np.zeros((len(tables[0]), 2 * planes), ml_dtypes.bfloat16)
    x[:, slice(0, planes) if layout == "half" else slice(0, None, 2)] = 1
    got = pe.apply_rope(x, *tables, layout=layout)
    return (got[:, :planes], got[:, planes:]) if layout == "half" else (got[:, ::2], got[:, 1::2])


@each_isa
@pytest.mark.parametrize("planes", [32, 24, 7])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_every_bfloat16_is_rounded_to_nearest_even(layout, planes, isa):
    upper, lower = np.arange(1 << 16, dtype=np.uint32) << 16, [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    cos = np.bitwise_or.outer(np.array(lower, np.uint32), upper).view(np.float32).ravel()
    cos = np.resize(cos[np.isfinite(cos) & (cos != 0)], (12500, planes))
    sin = cos[::-1].copy()
    for got, want in zip(beside_zero((cos, sin), layout), (cos, sin), strict=True):
        assert got.tobytes() == want.astype(ml_dtypes.bfloat16).tobytes()


@each_isa
@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFFC08000])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_any_nan_of_a_table_stays_one_in_bfloat16(layout, bits, isa):
    cos, sin = RNG.normal(size=(2, 3, 40)).astype(np.float32)
    clean = beside_zero((cos, sin), layout)
    cos.view(np.uint32)[1, 5] = sin.view(np.uint32)[2, 37] = bits
    hit = np.isnan(cos) | np.isnan(sin)
    for got, before in zip(beside_zero((cos, sin), layout), clean, strict=True):
        np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), hit)
        assert got[~hit].tobytes() == before[~hit].tobytes()


@each_isa
@pytest.mark.parametrize("width", [4, 20, 32, 34, 50, 64, 68, 92, 140])
@pytest.mark.parametrize("heads", [1, 5])
def test_half_pairs_of_bfloat16_are_the_same_numbers_as_pairs(heads, width, isa):
    """Whatever the order in which angles stand in scratch."""
    bfloat16, planes, positions = ml_dtypes.bfloat16, width // 2, np.arange(9) * 37.25
    x = RNG.normal(size=(heads, 9, width)).astype(bfloat16)
    pairs = np.stack([x[..., :planes], x[..., planes:]], axis=-1).reshape(x.shape)
    tables = [t.astype(np.float32) for t in RNG.normal(size=(2, 9, planes))]
    own = {"positions": RNG.random((heads, 9)) * 99}
    for angles, given in (tables, {}), ((), {"positions": positions}), ((), own):
        turned = pe.apply_rope(pairs, *angles, **given)
        got = pe.apply_rope(x, *angles, **given, layout="half")
        assert got[..., :planes].tobytes() == turned[..., ::2].tobytes()
        assert got[..., planes:].tobytes() == turned[..., 1::2].tobytes()


@each_isa
@pytest.mark.parametrize("width", [4, 20, 64, 68, 72])
def test_half_pairs_of_bfloat16_in_two_runs(width, isa):
    """apply_rope_2d turns each half of a head by a position of its own."""
    x, places = RNG.normal(size=(3, 7, width)).astype(ml_dtypes.bfloat16), RNG.random((7, 2)) * 99
    got = pe.apply_rope_2d(x, *places.T, layout="half")
    for axis, part in enumerate((slice(0, width // 2), slice(width // 2, width))):
        want = pe.apply_rope(x[..., part], positions=places[:, axis], layout="half")
        assert got[..., part].tobytes() == want.tobytes()


@each_isa
@pytest.mark.parametrize("width", [2, 6, 16, 22, 64])
def test_many_heads_of_float16_are_turned_as_one(width, isa):
    """Whether heads or positions lie inside, and however many share angles."""
    x = RNG.normal(size=(6, 11, width)).astype(np.float16)
    tables = [t.astype(np.float32) for t in RNG.normal(size=(2, 11, width // 2))]
    for angles, given in (tables, {}), ((), {"positions": np.arange(11)}):
        all_heads = pe.apply_rope(x, *angles, **given)
        across = pe.apply_rope(np.swapaxes(x, 0, 1).copy().swapaxes(0, 1), *angles, **given)
        for head in range(6):
            one = pe.apply_rope(x[head], *angles, **given).tobytes()
            assert all_heads[head].tobytes() == one == across[head].tobytes()


def test_an_offset_reaches_attention():
    rope, (q, k, v) = Rope(24, rotary_dim=16, rotary_offset=8), RNG.normal(size=(3, 2, 5, 24))
    points = np.arange(5)
    got = pe.attention(q, k, v, rope=rope, causal=True)
    want = pe.attention(rope.apply(q, points), rope.apply(k, points), v, causal=True)
    np.testing.assert_allclose(got, want, atol=1e-14)


def test_softmax_scale_is_a_part_of_the_default_scale_of_attention():
    rope, (q, k, v) = Rope(8, softmax_scale=1.875, layout="half"), RNG.normal(size=(3, 4, 8))
    want = pe.attention(q, k, v, rope=Rope(8, layout="half"), scale=1.875 * 8**-0.5)
    np.testing.assert_allclose(pe.attention(q, k, v, rope=rope), want, atol=1e-14)
    np.testing.assert_array_equal(pe.attention(q, k, v, rope=rope, scale=1.875 * 8**-0.5), want)
    np.testing.assert_allclose(pe.reference.attention(q, k, v, rope=rope), want, atol=1e-14)
    assert rope.apply(q, np.arange(4)).tobytes() == Rope(8, layout="half").apply(q, np.arange(4)).tobytes()


def test_inverse_undoes_the_amplitude_too():
    rope, x = Rope(8, amplitude=1.5, layout="half"), RNG.normal(size=(3, 8))
    there = rope.apply(x, [1, 2, 3])
    np.testing.assert_allclose(np.linalg.norm(there, axis=1), 1.5 * np.linalg.norm(x, axis=1))
    np.testing.assert_allclose(rope.apply(there, [1, 2, 3], inverse=True), x, atol=1e-14)


# Bad input


@pytest.mark.parametrize("make, error, words", [
    (lambda: Rope(7), ValueError, "dim .*even.*7.*rotary_dim=6"),
    (lambda: Rope(0), ValueError, "dim .*at least 1.*0"),
    (lambda: Rope(8.0), TypeError, "dim .*integer.*8.0"),
    (lambda: Rope(True), TypeError, "dim .*integer.*True"),
    (lambda: Rope(8, rotary_dim=3), ValueError, "rotary_dim .*even.*3"),
    (lambda: Rope(8, rotary_dim=10), ValueError, "rotary_dim .*at most dim=8.*10"),
    (lambda: Rope(8, rotary_dim=0), ValueError, "rotary_dim .*at least 1.*0"),
    (lambda: Rope(8, 0), ValueError, "base .*above 0.*0"),
    (lambda: Rope(8, 0.5), ValueError, "base .*at least 1.*0.5"),
    (lambda: Rope(8, float("nan")), ValueError, "base .*finite.*nan"),
    (lambda: Rope(8, "10000"), TypeError, "base .*number.*'10000'"),
    (lambda: Rope(8, 500.0, freqs=[1]), TypeError, "base= or freqs=, not both"),
    (lambda: Rope(8, freqs=[1, 10, 100, 1000]), ValueError, "freqs rise.*1/freqs"),
    (lambda: Rope(8, freqs=[1, np.inf]), ValueError, "freqs .*finite.*inf"),
    (lambda: Rope(8, freqs=[1j]), TypeError, "freqs .*complex"),
    (lambda: Rope(8, freqs=[]), ValueError, r"freqs .*\(0,\)"),
    (lambda: Rope(8, freqs=1.0), ValueError, r"freqs .*\(L,\).*shape \(\)"),
    (lambda: Rope(4, freqs=[3, 2, 1]), ValueError, "3 planes.*6 coordinates.*dim=4.*room for 2"),
    (lambda: Rope(8, freqs=[1, 0.5], rotary_dim=6), ValueError, "rotary_dim=6 .*2 frequencies.*4"),
    (lambda: Rope(8, layout="rotated"), ValueError, "layout 'rotated'.*interleaved.*half"),
    (lambda: Rope(8, layout=True), TypeError, "layout .*string.*True"),
    (lambda: Rope(8, amplitude=0), ValueError, "amplitude .*above 0"),
    (lambda: Rope(8, softmax_scale=np.inf), ValueError, "softmax_scale .*finite.*inf"),
    (lambda: Rope(8, rotary_offset=-2), ValueError, "rotary_offset .*at least 0.*-2"),
    (lambda: Rope(8, rotary_offset=1.0), TypeError, "rotary_offset .*integer.*1.0"),
    (lambda: Rope(8, rotary_offset=10), ValueError, "rotary_offset .*at most 6, .*dim=8.*10"),
    (lambda: Rope(8, rotary_offset=8), ValueError, "rotary_offset .*at most 6, .*dim=8 coordinates; got 8"),
    (lambda: Rope(1, rotary_offset=1), ValueError, "rotary_offset .*at most 0, .*dim=1 "),
    (lambda: Rope(8, rotary_offset=3), ValueError, "dim less rotary_offset=3 .*even.*5"),
    (lambda: Rope(8, rotary_offset=4, rotary_dim=6), ValueError, "rotary_dim .*at most 4, .*_offset=4.*6"),
    (lambda: Rope(8, rotary_offset=6, freqs=[1, 0.1]), ValueError, "2 planes.*room for 1 from rotary_offset"),
    (lambda: Rope(8).cache(-1), ValueError, "positions .*at least 0.*-1"),
    (lambda: Rope(8).cache([True]), TypeError, "positions .*bool"),
    (lambda: Rope(8).cache(np.ones(2, np.float16)), TypeError, "positions .*float16"),
    (lambda: Rope(8).cache([np.nan]), ValueError, "positions.*nan"),
    (lambda: Rope(8).cache([2**53 + 2]), ValueError, r"positions.*2\^53"),
    (lambda: Rope(8, freqs=np.eye(2)).cache([1, 2, 3]), ValueError, r"positions .*\(\.\.\., 2\).*\(3,\)"),
    (lambda: build_rope_cache(4, 7), ValueError, "^head_dim must be even.*got 7$"),
    (lambda: build_rope_cache(-4, 8), ValueError, "seq_len .*at least 0.*-4"),
    (lambda: build_rope_cache(4.0, 8), TypeError, "seq_len .*integer.*4.0"),
])
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make()


@each_isa
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_rows_of_any_width_end_where_they_end(isa, dtype, layout):
    """What ends in a part of a vector is written in parts, and nothing beside it."""
    for width in range(2, 44, 2):
        for place in range(4):
            x = np.random.default_rng(width).standard_normal((3, 5, width)).astype(dtype)
            memory = np.full(x.nbytes + 96, 77, np.uint8)
            out = np.ndarray(x.shape, dtype, memory, 32 + place * x.itemsize)
            pe.apply_rope(x, positions=np.arange(5), layout=layout, out=out)
            wide = np.zeros((3, 5, 64), dtype)
            at = [slice(0, width)]
            if layout == "half":
                at = [slice(0, width // 2), slice(32, 32 + width // 2)]
            for place_in_wide, place_in_x in zip(at, np.split(np.arange(width), len(at)), strict=True):
                wide[..., place_in_wide] = x[..., place_in_x]
            freqs = np.zeros(32)
            freqs[:width // 2] = pe.Rope(width).freqs[0]
            turned = pe.apply_rope(wide, positions=np.arange(5), freqs=freqs, layout=layout)
            assert out.tobytes() == np.concatenate([turned[..., part] for part in at], -1).tobytes()
            begin = 32 + place * x.itemsize
            assert (memory[:begin] == 77).all() and (memory[begin + x.nbytes:] == 77).all()
