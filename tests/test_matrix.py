"""Every op in every form: op x instruction set x dtype x layout x out x threads, one generated matrix.

A cell says two things. The call on plain arrays is what `pe.reference` says, within the rounding of its
dtype; and every other way to hold the same values, to receive the result or to share the work gives the same
bits.
"""

from functools import cache, lru_cache, partial
from itertools import product
from math import prod

import ml_dtypes
import numpy as np
import pytest
from isas import each_isa, weight_rounding

import pe
from pe import reference

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64)]
THREADS = [1, 3]
TOLERANCE = {"float16": (2.0**-10, 4e-6), "bfloat16": (2.0**-7, 4e-6), "float32": (3e-7, 4e-6),
             "float64": (1e-14, 1e-12)}  # relative, absolute


each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


# Calls: sizes (M, N, D, V) and the dtype of the values -> operands and other keywords


def normal(*shape, dtype="f8", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def planes(D):
    """The width of an input that must divide into pairs twice."""
    return max(D // 4, 1) * 4


def rope_positions(M, N, D, V, dtype):
    return {"x": normal(2, 3, M, planes(D) + 2, dtype=dtype), "positions": 100 * normal(2, 1, M)}, {}


def rope_partial(M, N, D, V, dtype):
    return ({"x": normal(3, M, planes(D) + 5, dtype=dtype), "positions": np.arange(M) - 5},
            {"layout": "half", "rotary_dim": planes(D)})


def rope_object(M, N, D, V, dtype):
    x, turned = normal(2, 3, M, planes(D) + 3, dtype=dtype), planes(D)
    rope = pe.Rope(x.shape[-1], base=500.0, layout="half", rotary_dim=turned, rotary_offset=2,
                   amplitude=1.25)
    return {"x": x, "positions": normal(1, 3, M)}, {"rope": rope, "inverse": True}


def rope_tables(M, N, D, V, dtype, layout="interleaved", inverse=False):
    turns = normal(2, 1, M, planes(D) // 2) if inverse else normal(M, planes(D) // 2)
    x = normal(2, 3, M, planes(D) + 1, dtype=dtype)
    tables = {"cos": np.cos(turns), "sin": np.sin(turns).astype("f4")}
    return {"x": x, **tables}, {"layout": layout, "inverse": inverse}


def rope_2d(M, N, D, V, dtype, layout="interleaved"):
    x = normal(2, 3, M, planes(D), dtype=dtype)
    return {"x": x, "pos_x": np.arange(M) % 7, "pos_y": normal(2, 1, M)}, {"layout": layout}


def rope_nd(M, N, D, V, dtype, layout="interleaved", inverse=False):
    """Two axes, a row of frequencies for each head, and planes that fade."""
    x, L = normal(2, 3, M, planes(D) + 3, dtype=dtype), planes(D) // 2
    return ({"x": x, "positions": 100 * normal(2, 1, M, 2), "freqs": normal(2, 3, L) / 2,
             "rate": normal(2, L) / 300}, {"layout": layout, "inverse": inverse})


def decay(M, N, D, V, dtype, causal=True):
    return ({"q_positions": np.sort(9 * normal(2, 1, M)), "k_positions": np.sort(9 * normal(2, 1, N)),
             "rate": abs(normal(2, 3, dtype=dtype))}, {"dtype": dtype, "causal": causal})


def decay_by_clock(M, N, D, V, dtype):
    """A clock that stands still for a while, so that it alone could not tell what comes later."""
    operands, keywords = decay(M, N, D, V, dtype)
    return operands | {"clock": tuple(np.maximum(rising(2, 1, n), 3) for n in (M, N))}, keywords


def alibi(M, N, D, V, dtype, causal=True):
    slopes = pe.alibi_slopes(3).astype(dtype)
    return ({"q_positions": np.arange(N - M, N), "k_positions": np.arange(N), "slopes": slopes},
            {"dtype": dtype, "causal": causal})


def attend(M, N, D, V, dtype, *extras, **keywords):
    """Grouped heads: four read two; the rest of the call is named by extras.

    With a rope, masks and query positions are shared by the heads.
    """
    heads = 4
    if "rope" in extras or "axes" in extras:
        L, D, heads = planes(D) // 2, planes(D) + 3, 1
        freqs = normal(2, L) if "axes" in extras else np.geomspace(1, 0.01, L)
        keywords["rope"] = pe.Rope(D, layout="half", freqs=freqs, rotary_offset=2, softmax_scale=1.25)
    values = {"q": normal(2, 4, M, D, dtype=dtype), "k": normal(2, 2, N, D, dtype=dtype, seed=1),
              "v": normal(1, 2, N, V, dtype=dtype, seed=2)}
    bias = normal(2, 4, M, N, dtype=dtype, seed=3)
    bias[bias > 1.5] = -np.inf
    options = {"mask": normal(2, heads, M, N, seed=4) < 0.5, "bias": bias, "alibi_slopes": pe.alibi_slopes(4),
               "decay_rate": np.array([0.0, 0.25, 0.5, 1.0], "f4"),
               "q_positions": np.arange(M) + 0.5 * N + normal(2, heads, 1),
               "k_positions": np.sort(N * abs(normal(2, 2, N))), "sinks": np.array([0.5, -np.inf, 2, -1]),
               "segments": (np.sort(np.arange(M) % 2), np.sort(np.arange(2 * N) % 3).reshape(2, 1, N)),
               "clock": (rising(2, 4, M), rising(1, 4, N)), "kv_lengths": np.array([N, N // 2])}
    if "axes" in extras:
        options |= {"q_positions": normal(2, 1, M, 2), "k_positions": normal(N, 2)}
    return values | {name: options[name] for name in extras if name in options}, keywords


def rising(*shape):
    """Clocks from near 0 to 9, whatever their length."""
    times = np.cumsum(abs(normal(*shape)), axis=-1)
    return 9 * times / times[..., -1:]


def retain(M, N, D, V, dtype, *extras, **keywords):
    """Grouped heads: four read two, at rates of their own or, with positions, one for each key head."""
    if "rope" in extras:
        turned, D = planes(D), planes(D) + 1
        keywords["rope"] = pe.Rope(D, layout="half", base=100.0, rotary_dim=turned, rotary_offset=1)
    values = {"q": normal(2, 4, M, D, dtype=dtype), "k": normal(2, 2, M, D, dtype=dtype, seed=1),
              "v": normal(1, 2, M, V, dtype=dtype, seed=2)}
    rate = np.array([0.5, 0.3] if "positions" in extras else [0.5, 0.25, 0.125, 1.0], "f4")
    options = {"rate": rate, "positions": np.cumsum(abs(normal(2, 2, M)), -1),
               "clock": np.cumsum(abs(normal(2, 1, M)), -1)}
    return values | {name: options[name] for name in ("rate", *extras) if name != "rope"}, keywords


def decode(M, *others, **keywords):
    """At most two queries: too few to fill a tile."""
    return attend(min(M, 2), *others, **keywords)


EVERYTHING = ["rope", "mask", "bias", "alibi_slopes", "decay_rate", "clock", "sinks", "segments",
              "kv_lengths", "q_positions", "k_positions"]
FULL = {"causal": True, "return_lse": True, "window": 29, "softcap": 1.5}
CALLS = {
    "rope-positions": ("apply_rope", rope_positions),
    "rope-half-partial": ("apply_rope", rope_partial),
    "rope-object-inverse": ("apply_rope", rope_object),
    "tables": ("apply_rope", rope_tables),
    "tables-half-inverse": ("apply_rope", partial(rope_tables, layout="half", inverse=True)),
    "2d": ("apply_rope_2d", rope_2d),
    "2d-half": ("apply_rope_2d", partial(rope_2d, layout="half")),
    "nd": ("apply_rope_nd", rope_nd),
    "nd-half-inverse": ("apply_rope_nd", partial(rope_nd, layout="half", inverse=True)),
    "decay": ("decay_bias", decay),
    "decay-both-sides": ("decay_bias", partial(decay, causal=False)),
    "decay-clock": ("decay_bias", decay_by_clock),
    "alibi": ("alibi_bias", alibi),
    "alibi-both-sides": ("alibi_bias", partial(alibi, causal=False)),
    "attention": ("attention", attend),
    "attention-causal": ("attention", partial(attend, causal=True, scale=-0.5, return_lse=True)),
    "attention-mask": ("attention", lambda *a: attend(*a, "mask", return_lse=True)),
    "attention-bias": ("attention", lambda *a: attend(*a, "bias", return_lse=True)),
    "attention-alibi": ("attention", lambda *a: attend(*a, "alibi_slopes", causal=True)),
    "attention-decay": ("attention", lambda *a: attend(*a, "decay_rate", "q_positions", "k_positions")),
    "attention-rope": ("attention", lambda *a: attend(*a, "rope")),
    "attention-rope-axes": ("attention", lambda *a: attend(*a, "axes", "q_positions", "k_positions")),
    "attention-cache": ("attention", lambda *a: attend(*a, "sinks", "kv_lengths", **FULL)),
    "attention-packed": ("attention", lambda *a: attend(*a, "segments", "clock", window=(5, 2.5))),
    "attention-everything": ("attention", lambda *a: attend(*a, *EVERYTHING, **FULL)),
    "attention-decode": ("attention", partial(decode, **FULL)),
    "attention-decode-everything": ("attention", lambda *a: decode(*a, *EVERYTHING, **FULL)),
    "retention": ("retention", retain),
    "retention-rope": ("retention", lambda *a: retain(*a, "rope", "positions")),
    "retention-clock": ("retention", lambda *a: retain(*a, "rope", "clock", scale=-0.1)),
}


@cache
def call(name, size, dtype):
    """Operands and keywords of a call, the same objects every time."""
    return CALLS[name][1](*size, dtype)


def run(ops, name, operands, keywords, **more):
    """Call an op, or its twin, and return its results as a tuple."""
    result = getattr(ops, CALLS[name][0])(**operands, **keywords, **more)
    return result if isinstance(result, tuple) else (result,)


def of_each(function, operands):
    """Apply a function to every array, also those that come in pairs."""
    return {name: tuple(map(function, a)) if isinstance(a, tuple) else function(a)
            for name, a in operands.items()}


@cache
def twin(name, size, dtype, repeating=None):
    """What the twin says of that call, or of the same with the entries of an axis all alike."""
    operands, keywords = call(name, size, dtype)
    if repeating:
        operands = of_each(REPEATING[repeating], operands)
    return run(reference, name, operands, keywords)


def assert_twin(results, *wanted):
    for actual, expected in zip(results, twin(*wanted), strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        relative, absolute = TOLERANCE[actual.dtype.name]
        if wanted[0].startswith("attention"):
            v = call(*wanted[:3])[0]["v"].astype(float)
            absolute += weight_rounding(actual.dtype) * abs(v).max(initial=0)
        np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=relative, atol=absolute)


def assert_same_bits(results, wanted):
    for actual, expected in zip(results, wanted, strict=True):
        assert type(actual) is np.ndarray
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert actual.tobytes() == expected.tobytes()


# Memory: every array lies in a pool of bytes with room around it, so that an overlapping out can be cut from
# the same pool and a stray write is seen


START, ROOM = 64, 1 << 15


def empty(shape, dtype, offset=0):
    pool = np.full(START + prod(shape) * np.dtype(dtype).itemsize + ROOM, 0xFF, np.uint8)
    return np.ndarray(shape, dtype, buffer=pool, offset=START + offset)


def filled(view, values):
    view[...] = values
    return view


def swap_rows(a):
    """(B, H, T, D) <-> (B, T, H, D), or what comes closest with fewer axes."""
    return a.swapaxes(-3, -2) if a.ndim > 2 else a.T


def sliced(shape, dtype):
    return empty([n + 3 for n in shape], dtype)[(slice(1, -2),) * len(shape)]


def read_only(a):
    view = filled(empty(a.shape, a.dtype), a)
    view.flags.writeable = False
    return view


def repeated(a, axis):
    """The first entry of an axis, again and again, by a stride of 0."""
    axis = axis if a.ndim >= -axis else 0
    once = filled(empty(a.shape, a.dtype), a)
    strides = [0 if i == axis % a.ndim else step for i, step in enumerate(once.strides)]
    return np.ndarray(a.shape, a.dtype, pool_of(once), START, strides)


NEW = {  # an array of given shape and dtype, held in one way or another
    "C": empty,
    "Fortran": lambda shape, dtype: empty(shape[::-1], dtype).T,
    "heads-inside": lambda shape, dtype: swap_rows(empty(swap_rows(np.empty(shape, "?")).shape, dtype)),
    "rows-backwards": lambda shape, dtype: empty(shape, dtype)[(slice(None, None, -1),) * (len(shape) - 1)],
    "all-backwards": lambda shape, dtype: empty(shape, dtype)[(slice(None, None, -1),) * len(shape)],
    "sliced": sliced,
    "step-2": lambda shape, dtype: empty((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2],
    "unaligned": partial(empty, offset=1),
    "swapped": lambda shape, dtype: empty(shape, np.dtype(dtype).newbyteorder()),
}
LAYOUTS = {name: lambda a, make=make: filled(make(a.shape, a.dtype), a) for name, make in NEW.items()}
REPEATING = {"same-batch": partial(repeated, axis=-4), "same-head": partial(repeated, axis=-3),
             "same-row": partial(repeated, axis=-2)}
LAYOUTS |= {"read-only": read_only, **REPEATING}


def mapped(folder, a):
    """A read-only memory map of a file."""
    path = folder / f"{len(list(folder.iterdir()))}"
    path.write_bytes(a.tobytes())
    return np.memmap(path, a.dtype, "r", shape=a.shape)


def pool_of(a):
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def beside(a, shape, dtype, shift):
    """An out in the pool of a, a little further on: it overlaps a."""
    return np.ndarray(shape, dtype, buffer=pool_of(a), offset=START + shift)


OTHER = {"float16": "f4", "bfloat16": "f4", "float32": "f8", "float64": "f4"}
OUTS = {name: lambda values, shape, dtype, make=make: make(shape, dtype) for name, make in NEW.items()}
OUTS |= {
    "other-dtype": lambda values, shape, dtype: empty(shape, OTHER[dtype.name]),
    "float16": lambda values, shape, dtype: empty(shape, "f2"),
    "overlap-1-element": lambda values, shape, dtype: beside(values, shape, dtype, dtype.itemsize),
    "overlap-1-row": lambda values, shape, dtype: beside(values, shape, dtype, shape[-1] * dtype.itemsize),
    "overlap-1-byte": lambda values, shape, dtype: beside(values, shape, dtype, 1),
    "overlap-backwards": lambda values, shape, dtype: beside(values, shape, dtype, 0)[..., ::-1, :],
    "in-place": lambda values, shape, dtype: values,
}


def outs_of(values, shape, dtype):
    """The kinds of out a call with these values may have."""
    unwritable = not values.flags.writeable or 0 in values.strides or values.shape != shape
    for kind in OUTS:
        if not (kind == "swapped" and dtype == BF16 or kind == "in-place" and unwritable
                or "overlap" in kind and pool_of(values).dtype != np.uint8):
            yield kind


MATRIX = [pytest.param(*cell, id="-".join(map(str, cell)))
          for cell in product(CALLS, DTYPES, [*LAYOUTS, "mapped"]) if cell[1:] != (BF16, "swapped")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mapped")


@each_isa
@pytest.mark.parametrize("name, dtype, layout", MATRIX)
def test_matrix(name, isa, dtype, layout, folder):
    size = 17, 33, 16, 16
    operands, keywords = call(name, size, dtype)
    first = next(iter(operands))                       # the values that out may be, or overlap
    place = partial(mapped, folder) if layout == "mapped" else LAYOUTS[layout]
    placed = of_each(place, operands)
    plain = of_each(lambda a: np.array(a, a.dtype.newbyteorder("="), order="C"), placed)
    expected = run(pe, name, plain, keywords, num_threads=1)
    assert_twin(expected, name, size, dtype, layout if layout in REPEATING else None)

    for threads in THREADS:
        assert_same_bits(run(pe, name, placed, keywords, num_threads=threads), expected)
    # every kind of out meets every layout, and each of them every number of threads
    turn = [*LAYOUTS, "mapped"].index(layout)
    for kind in outs_of(placed[first], expected[0].shape, expected[0].dtype):
        threads = THREADS[(turn + list(OUTS).index(kind)) % 2]
        if layout != "mapped":
            placed[first] = place(operands[first])     # an earlier out may have written over it
        out = OUTS[kind](placed[first], expected[0].shape, expected[0].dtype)
        pool = pool_of(out)
        wanted = pool.copy()
        start = out.ctypes.data - pool.ctypes.data
        with np.errstate(over="ignore"):
            np.ndarray(out.shape, out.dtype, wanted, start, out.strides)[...] = expected[0]
        results = run(pe, name, placed, keywords, out=out, num_threads=threads)
        cell = f"out={kind}, num_threads={threads}"
        assert results[0] is out, cell
        assert np.array_equal(pool, wanted), f"{cell}: wrong bits in out, or a write beside it"
        assert [lse.tobytes() for lse in results[1:]] == [lse.tobytes() for lse in expected[1:]], cell


@each_isa
@pytest.mark.parametrize("dtype, layout", [
    pytest.param(*cell, id="-".join(map(str, cell)))
    for cell in product(DTYPES, LAYOUTS) if cell != (BF16, "swapped")])
def test_merge_attention(isa, dtype, layout):
    """Parts come in lists, the result in new arrays: held in any way, parts give the bits of plain ones."""
    outs, lses = normal(3, 2, 3, 17, 16, dtype=dtype), 5 * normal(3, 2, 3, 17)
    placed = [[LAYOUTS[layout](part) for part in parts] for parts in (outs, lses)]
    plain = [np.array(parts, of.dtype) for parts, of in zip(placed, (outs, lses), strict=True)]
    expected = pe.merge_attention(*plain)
    for actual, wanted in zip(expected, reference.merge_attention(*plain), strict=True):
        relative, absolute = TOLERANCE[actual.dtype.name]
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(actual.astype(float), wanted.astype(float), rtol=relative, atol=absolute)
    assert_same_bits(pe.merge_attention(*placed), expected)


# Sizes (M, N, D, V) about the edges of vectors (4 to 16), tiles (32 or 64 queries, 64 keys), parts (512 keys)
SIZES = [(0, 5, 8, 8), (5, 0, 8, 8), (1, 1, 1, 1), (2, 1, 4, 3), (1, 16, 5, 2), (1, 64, 16, 16),
         (3, 65, 17, 31), (7, 63, 15, 1), (8, 8, 33, 33), (15, 17, 31, 16), (16, 16, 64, 64), (17, 15, 8, 65),
         (31, 33, 32, 48), (32, 64, 66, 5), (33, 1, 3, 7), (63, 65, 20, 18), (64, 64, 12, 4), (65, 63, 7, 6),
         (1, 1100, 8, 5), (5, 1030, 4, 9), (130, 129, 6, 2), (2, 3, 130, 257)]


# 16-bit values take the float32 path between their conversions: every third size says enough
EDGES = [(size, dtype) for i, size in enumerate(SIZES) for dtype in DTYPES
         if dtype.itemsize > 2 or i % 3 == 0]


@each_isa
@pytest.mark.parametrize("size, dtype", EDGES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_sizes(name, isa, dtype, size):
    operands, keywords = call(name, size, dtype)
    assert_twin(run(pe, name, operands, keywords), name, size, dtype)


def stages(ops, name, size, dtype):
    """Each stage of a call of attention, which has no values and no lse here."""
    operands, keywords = ({key: each for key, each in given.items() if key not in ("v", "return_lse")}
                          for given in call(name, size, dtype))
    return [(stage, ops.attention_weights(**operands, **keywords, stage=stage))
            for stage in ("scores", "softcapped", "biased", "weights")]


wanted_stages = lru_cache(1)(partial(stages, reference))    # instruction sets follow each other


@each_isa
@pytest.mark.parametrize("size, dtype", EDGES, ids=str)
@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("attention")])
def test_attention_weights(name, isa, dtype, size):
    both = zip(stages(pe, name, size, dtype), wanted_stages(name, size, dtype), strict=True)
    for (stage, actual), (_, expected) in both:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        relative, absolute = TOLERANCE[dtype.name]
        np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=relative, atol=absolute,
                                   err_msg=stage)


# Calls long enough that several threads take part, some of them with few queries, whose keys are cut into
# parts: by shape, and never by the number of threads
BIG = {**dict.fromkeys(["rope", "tables", "2d", "nd"], (500, 0, 64, 0)), "decay": (200, 300, 0, 0),
       "alibi": (200, 300, 0, 0), "attention": (90, 150, 32, 32),
       "retention": (90, 0, 32, 32)}
FEW_QUERIES = 3, 1600, 16, 16


@each_isa
@each_dtype
@pytest.mark.parametrize("name, size", [
    *((name, BIG[name.split("-")[0]]) for name in CALLS),
    *((name, FEW_QUERIES) for name in ("attention-causal", "attention-alibi", "attention-everything"))])
def test_threads_change_no_bit(name, size, isa, dtype):
    operands, keywords = call(name, size, dtype)
    expected = run(pe, name, operands, keywords, num_threads=1)
    assert_twin(expected, name, size, dtype)
    for threads in (2, 3, None):
        assert_same_bits(run(pe, name, operands, keywords, num_threads=threads), expected)
