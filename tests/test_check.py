"""Bad calls of every op: the exception, what its text must say, and that nothing was written."""

import re

import ml_dtypes
import numpy as np
import pytest

import pe
from pe._check import keywords
from pe._check.arrays import fitting_index

NAN, INF = float("nan"), float("inf")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def calls():
    """A good call of each op: what the tests below spoil one argument at a time."""
    cos, sin = pe.build_rope_cache(5, 8)
    q, k, v = normal(2, 4, 3, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 8, seed=2)
    points = np.arange(5)
    return {
        "positions": (pe.apply_rope, {"x": normal(2, 3, 5, 8), "positions": points}),
        "tables": (pe.apply_rope, {"x": normal(2, 3, 5, 8), "cos": cos, "sin": sin}),
        "2d": (pe.apply_rope_2d, {"x": normal(2, 3, 5, 8), "pos_x": points, "pos_y": points}),
        "decay": (pe.decay_bias, {"q_positions": np.arange(3.0), "k_positions": np.arange(5.0), "rate": [0.1, 0.2]}),
        "alibi": (pe.alibi_bias, {"q_positions": np.arange(3.0), "k_positions": np.arange(5.0), "slopes": [0.1, 0.2]}),
        "attention": (pe.attention, {"q": q, "k": k, "v": v, "mask": np.ones((2, 1, 3, 5), bool), "bias": np.ones((3, 5)),
                                     "alibi_slopes": np.ones(4), "decay_rate": 0.5, "rope": pe.Rope(8),
                                     "q_positions": np.arange(3), "k_positions": np.arange(5)}),
    }


def good(name):
    return calls()[name]


def refused(name, exception, *fragments, drop=(), **changes):
    """Call the op with some arguments changed; it must raise, say all the fragments, and write nothing."""
    op, arguments = good(name)
    shape = np.shape(op(**arguments))
    arguments = {key: value for key, value in arguments.items() if key not in drop} | changes
    out = arguments.setdefault("out", np.full(shape, 7.0))
    arrays = [a for a in arguments.values() if type(a) is np.ndarray]
    before = [a.tobytes() for a in arrays]
    with pytest.raises(exception) as caught:
        op(**arguments)
    text = str(caught.value)
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in {text!r}"
    assert [a.tobytes() for a in arrays] == before
    assert len(text) < 400 and "\n" not in text
    assert isinstance(out, object)


@pytest.mark.parametrize("name", calls())
def test_the_calls_spoilt_below_are_good(name):
    op, arguments = good(name)
    out = np.full(np.shape(op(**arguments)), 7.0)
    assert op(**arguments, out=out) is out
    assert np.isfinite(out).any() and not (out == 7).any()


# Arrays of values

VALUES = [("positions", "x"), ("tables", "x"), ("2d", "x"), ("attention", "q"), ("attention", "k"), ("attention", "v")]
COEFFICIENTS = [("tables", "cos"), ("tables", "sin"), ("decay", "rate"), ("alibi", "slopes"), ("attention", "bias"),
                ("attention", "alibi_slopes"), ("attention", "decay_rate")]
NUMBERS = [*VALUES, *COEFFICIENTS]


def spoilt(name, argument, convert):
    return {argument: convert(np.asarray(good(name)[1][argument]))}


@pytest.mark.parametrize("name, argument", NUMBERS)
@pytest.mark.parametrize("dtype, advice", [("c8", ".real"), ("O", ".astype"), ("U", "dtype"), ("S", "dtype"), ("V4", "dtype"),
                                           ("M8[s]", "dtype"), ("g", "longdouble" if np.dtype("g").name == "longdouble" else "float"),
                                           ("u2", "ml_dtypes.bfloat16"), ("?", "bool")])
def test_dtypes_that_are_no_numbers(name, argument, dtype, advice):
    shape = np.shape(good(name)[1][argument])
    if np.dtype(dtype) == np.float64:
        pytest.skip("longdouble is float64 here")
    value = np.zeros(shape, dtype)
    refused(name, TypeError, argument, value.dtype.name if dtype == "?" else str(value.dtype), advice, **{argument: value})


@pytest.mark.parametrize("name, argument", NUMBERS)
def test_small_floats_of_ml_dtypes_are_refused(name, argument):
    refused(name, TypeError, argument, "float8_e5m2",
            **spoilt(name, argument, lambda a: np.ones(a.shape, ml_dtypes.float8_e5m2)))


@pytest.mark.parametrize("name, argument", [*NUMBERS, ("positions", "positions"), ("2d", "pos_x"), ("2d", "pos_y"),
                                            ("attention", "mask"), ("decay", "q_positions"), ("alibi", "k_positions"),
                                            ("attention", "q_positions"), ("attention", "k_positions")])
class TestContainers:
    def test_masked_arrays(self, name, argument):
        refused(name, TypeError, argument, "masked array", "filled", **spoilt(name, argument, np.ma.array))

    def test_ragged_lists(self, name, argument):
        refused(name, ValueError, argument, "list", "inhomogeneous", **{argument: [[1.0, 2.0], [3.0]]})

    def test_text_and_objects(self, name, argument):
        refused(name, TypeError, argument, "<U", **{argument: "abc"})
        refused(name, TypeError, argument, "object", **{argument: object()})

    @pytest.mark.parametrize("package", ["dask.array.core", "xarray.core.dataarray"])
    def test_lazily_held_arrays_are_not_computed(self, name, argument, package):
        class Lazy:
            chunks = ((5,),)

            def __array__(self, *args, **keywords):
                raise AssertionError("computed behind the user's back")

        Lazy.__module__ = package
        refused(name, TypeError, argument, "dask", "Lazy", f"{argument}.compute()", **{argument: Lazy()})

    def test_a_failure_of_the_container_is_named(self, name, argument):
        class Elsewhere:
            def __array__(self, *args, **keywords):
                raise RuntimeError("on another device")

        refused(name, TypeError, argument, "Elsewhere", "on another device", **{argument: Elsewhere()})

    def test_a_failing_dlpack_is_named(self, name, argument):
        class Exchanged:
            def __dlpack__(self, **keywords):
                raise BufferError("no such type")

            def __dlpack_device__(self):
                return (1, 0)

        refused(name, TypeError, argument, "Exchanged", "no such type", **{argument: Exchanged()})


@pytest.mark.parametrize("argument", ["q", "k", "v"])
def test_none_for_a_value(argument):
    refused("attention", TypeError, argument, "None", **{argument: None})


def test_no_common_dtype():
    q, k, v = (good("attention")[1][name] for name in "qkv")
    brain = q.astype(ml_dtypes.bfloat16)
    refused("attention", TypeError, "q is bfloat16" if False else "float16", "bfloat16", "q", "k", q=brain, k=k.astype("f2"))
    refused("attention", TypeError, "v is float16 and q is bfloat16", "v.astype(q.dtype)", q=brain, v=v.astype("f2"))


@pytest.mark.parametrize("name, argument", [("positions", "x"), ("tables", "x"), ("2d", "x")])
def test_no_axis_where_one_is_needed(name, argument):
    refused(name, ValueError, argument, "single number", "(..., D)", **{argument: 3.0})


@pytest.mark.parametrize("argument", ["q", "k", "v"])
@pytest.mark.parametrize("shape", [(), (8,)])
def test_attention_needs_rows(argument, shape):
    refused("attention", ValueError, argument, str(shape), "(rows, width)", **{argument: np.zeros(shape)})


# Switches and scalars


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("value, exception", [(0, ValueError), (-1, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError),
                                              (np.float64(1), TypeError)])
def test_num_threads(name, value, exception):
    refused(name, exception, "num_threads", str(value), "integer" if exception is TypeError else "at least 1", num_threads=value)


@pytest.mark.parametrize("name, switch", [("positions", "inverse"), ("tables", "inverse"), ("2d", "inverse"), ("decay", "causal"),
                                          ("alibi", "causal"), ("attention", "causal"), ("attention", "return_lse")])
@pytest.mark.parametrize("value", [1, None, "bottom_right", np.ones(2, bool)], ids=str)
def test_switches(name, switch, value):
    refused(name, TypeError, switch, "True or False", **{switch: value})


@pytest.mark.parametrize("value, exception", [(NAN, ValueError), (INF, ValueError), ("1", TypeError), (True, TypeError), (1j, TypeError),
                                              (np.ones(4), TypeError), ([1.0], TypeError)], ids=str)
def test_scale(value, exception):
    refused("attention", exception, "scale", "number", scale=value)


def test_scale_of_width_zero():
    refused("attention", ValueError, "D = 0", "scale=", q=np.zeros((2, 4, 3, 0)), k=np.zeros((2, 2, 5, 0)), drop=["rope"])


@pytest.mark.parametrize("name", calls())
class TestOut:
    def shape(self, name):
        op, arguments = good(name)
        return np.shape(op(**arguments))

    def test_shape(self, name):
        shape = self.shape(name)
        refused(name, ValueError, "out", str(shape), str((*shape, 1)), out=np.zeros((*shape, 1)))
        refused(name, ValueError, "out", str(shape), out=np.zeros(shape[1:]))

    def test_read_only(self, name):
        out = np.zeros(self.shape(name))
        out.flags.writeable = False
        refused(name, ValueError, "out", "read-only", out=out)

    def test_broadcast(self, name):
        shape = self.shape(name)
        out = np.lib.stride_tricks.as_strided(np.zeros(shape), shape, (0,) * len(shape))
        refused(name, ValueError, "out", "broadcast", out=out)

    @pytest.mark.parametrize("dtype", ["i8", "?", "O", "U8", "u2"])
    def test_dtype(self, name, dtype):
        out = np.zeros(self.shape(name), dtype)
        refused(name, TypeError, "out", out.dtype.str[1:] if dtype == "U8" else str(out.dtype), "float64", out=out)

    def test_things_that_are_no_arrays(self, name):
        shape = self.shape(name)
        refused(name, TypeError, "out", "list", "ndarray", out=np.zeros(shape).tolist())
        refused(name, TypeError, "out", "MaskedArray", "ndarray", out=np.ma.zeros(shape))


# Positions

POSITIONS = [("positions", "positions", 5), ("2d", "pos_x", 5), ("2d", "pos_y", 5), ("decay", "q_positions", 3),
             ("decay", "k_positions", 5), ("alibi", "q_positions", 3), ("alibi", "k_positions", 5),
             ("attention", "q_positions", 3), ("attention", "k_positions", 5)]


@pytest.mark.parametrize("name, argument, count", POSITIONS)
class TestPositions:
    @pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, "?", "c16", "O", "M8[s]"])
    def test_dtype(self, name, argument, count, dtype):
        value = np.zeros(count, dtype)
        refused(name, TypeError, argument, str(value.dtype), "integers, float32 or float64", **{argument: value})

    @pytest.mark.parametrize("bad", [NAN, INF, -INF, 2.0**54, -(2**54), np.iinfo(np.int64).min, np.uint64(2**64 - 1)], ids=str)
    def test_range(self, name, argument, count, bad):
        value = np.zeros(count, np.asarray(bad).dtype)
        value[1] = bad
        refused(name, ValueError, f"{argument}[1]", str(value[1]), "finite", "2^53", **{argument: value})
        refused(name, ValueError, argument, "2^53", **{argument: np.full(count, bad)})

    def test_single_numbers(self, name, argument, count):
        for value in (np.array(2), 2.5, np.float32(2.5)):
            refused(name, TypeError, argument, "[p] for one", **{argument: value})
        if name in ("decay", "alibi"):
            refused(name, ValueError, argument, "-1", "n >= 0", **{argument: -1})
        else:
            refused(name, TypeError, argument, "2", "np.arange(n) for n positions, [p] for one", **{argument: 2})

    def test_shape(self, name, argument, count):
        if name in ("decay", "alibi"):
            refused(name, ValueError, argument, "(3, 2)", "equally many", "[None, :]", **{argument: np.zeros((3, 2, count))})
            refused(name, ValueError, argument, "(3,)", "equal or 1", **{argument: np.zeros((3, count))})
        else:
            for shape in [(count + 1,), (1,), (count + 1, count), (1, 1, 1, count)]:
                refused(name, ValueError, argument, str(shape), f"({count},)", **{argument: np.zeros(shape)})


@pytest.mark.parametrize("x, shape, index", [((2, 3, 5, 8), (2, 5), "[:, None, :]"), ((2, 5, 3, 8), (5,), "[None, :, None]"),
                                             ((2, 5, 3, 8), (2, 5), "[:, :, None]"), ((2, 3, 5, 8), (3, 5), "[None, :, :]"),
                                             ((3, 3, 5, 8), (3, 5), "[:, None, :]"), ((7, 2, 3, 5, 8), (2, 5), "[None, :, None, :]")])
def test_positions_say_the_index_that_fits(x, shape, index):
    x, points = normal(*x), np.arange(np.prod(shape)).reshape(shape)
    with pytest.raises(ValueError, match=re.escape(f"positions{index} fits")):
        pe.apply_rope(x, positions=points)
    fitted = eval(f"points{index}")
    assert pe.apply_rope(x, positions=fitted).shape == x.shape
    with pytest.raises(ValueError, match=re.escape(f"pos_y{index} fits")):
        pe.apply_rope_2d(x, fitted, points)


def test_one_position_does_not_stand_for_many_rows():
    for x in (normal(5, 8), normal(2, 5, 8)):
        with pytest.raises(ValueError, match=re.escape("positions has shape (1,)")):
            pe.apply_rope(x, positions=[3])
    with pytest.raises(ValueError, match=re.escape("positions has shape (5,) and x is one row: expected (1,)")):
        pe.apply_rope(normal(8), positions=np.arange(5))


def test_positions_of_several_axes():
    rope = pe.Rope(8, freqs=np.ones((2, 4)))
    for shape in [(5,), (5, 3)]:
        refused("positions", ValueError, "positions", str(shape), "(..., 2)", rope=rope, positions=np.zeros(shape))
    refused("positions", ValueError, "positions[:, None, :, :] fits", "(2, 3, 5, 2)", rope=rope, positions=np.zeros((2, 5, 2)))
    refused("attention", ValueError, "q_positions", "(3,)", "(..., 2)", rope=rope, k_positions=np.zeros((5, 2)))
    refused("attention", TypeError, "k_positions", "(5, 2)", rope=rope, q_positions=np.zeros((3, 2)), drop=["k_positions"])
    refused("attention", ValueError, "k_positions", "(4, 2)", rope=rope, q_positions=np.zeros((3, 2)), k_positions=np.zeros((4, 2)))


# apply_rope: forms, frequencies, layouts, tables


def test_the_two_forms_of_apply_rope():
    forms = ("apply_rope(x, cos, sin)", "positions=np.arange(T)")
    refused("positions", TypeError, "neither", *forms, drop=["positions"])
    refused("tables", TypeError, "both", *forms, positions=np.arange(5))
    refused("tables", TypeError, "cos without sin", *forms, drop=["sin"])
    refused("tables", TypeError, "sin without cos", *forms, drop=["cos"])
    for name, value in {"rope": pe.Rope(8), "freqs": [1.0] * 4, "base": 10.0}.items():
        refused("tables", TypeError, "tables", f"{name}=", **{name: value})


def test_one_description_of_the_angles():
    refused("positions", TypeError, "rope= and base=", rope=pe.Rope(8), base=10.0)
    refused("positions", TypeError, "freqs= and base=", freqs=[1.0, 1, 1, 1], base=10.0)
    refused("positions", TypeError, "rope= and layout=", "pe.Rope(..., layout=...)", rope=pe.Rope(8), layout="half")
    refused("positions", TypeError, "rope= and rotary_dim=", rope=pe.Rope(8), rotary_dim=8)
    refused("2d", TypeError, "freqs= and base=", freqs=[1.0, 1], base=10.0)


@pytest.mark.parametrize("name", ["positions", "attention"])
def test_rope(name):
    refused(name, TypeError, "rope", "int", "pe.Rope(8)", rope=10000)
    refused(name, ValueError, "rope is for D = 4", "D = 8", rope=pe.Rope(4))


@pytest.mark.parametrize("name", ["positions", "tables", "2d"])
def test_layout(name):
    refused(name, ValueError, "layout", "'halves'", "interleaved", "half", layout="halves")
    refused(name, TypeError, "layout", "True", "interleaved", layout=True)
    refused(name, TypeError, "layout", "list", layout=["half"])


@pytest.mark.parametrize("value, exception", [(0, ValueError), (-10.0, ValueError), (NAN, ValueError), (INF, ValueError), ("big", TypeError),
                                              ([10.0, 20.0], TypeError)], ids=str)
@pytest.mark.parametrize("name", ["positions", "2d"])
def test_base(name, value, exception):
    refused(name, exception, "base", base=value)


def test_widths():
    refused("positions", ValueError, "x has D = 7", "rotary_dim=6", x=normal(5, 7), out=None)
    refused("positions", ValueError, "x has D = 1", x=normal(5, 1), out=None)
    refused("2d", ValueError, "x has D = 6", "multiple of 4", x=normal(5, 6), out=None)
    refused("2d", ValueError, "x has D = 10", "multiple of 4", x=normal(5, 10), out=None)
    for name in ("positions", "tables"):
        for value, exception in [(3, ValueError), (10, ValueError), (0, ValueError), (-2, ValueError), (4.0, TypeError), (True, TypeError)]:
            refused(name, exception, "rotary_dim", str(value), rotary_dim=value)


def test_freqs():
    refused("positions", ValueError, "freqs rise", "1/freqs", freqs=[1.0, 10, 100, 1000])
    refused("positions", ValueError, "freqs", "(2, 4)", "rope=", freqs=np.ones((2, 4)))
    refused("positions", ValueError, "freqs", "5", freqs=np.ones(5))
    refused("positions", ValueError, "freqs", "finite", freqs=[1.0, NAN, 0, 0])
    refused("positions", ValueError, "rotary_dim=4", "4 freq", freqs=np.ones(4), rotary_dim=4)
    refused("2d", ValueError, "freqs", "(4,)", "(2,)", "(2, 2)", freqs=np.ones(4))
    refused("2d", ValueError, "freqs rise", "1/freqs", freqs=[[1.0, 0.1], [1.0, 10]])
    for name in ("positions", "2d"):
        refused(name, TypeError, "freqs", "complex128", freqs=[1j, 0, 0, 0])


def test_tables_of_full_width_say_which_half_to_take():
    cos, sin = pe.build_rope_cache(5, 8)
    halves, pairs = (np.concatenate([cos, cos], axis=-1), np.concatenate([sin, sin], axis=-1)), (cos.repeat(2, -1), sin.repeat(2, -1))
    refused("tables", ValueError, "cos has 8 columns", "L = 4", "cos[..., :4]", cos=halves[0], sin=halves[1])
    refused("tables", ValueError, "cos has 8 columns", "cos[..., ::2]", cos=pairs[0], sin=pairs[1])
    refused("tables", ValueError, "cos[..., :4]", "cos[..., ::2]", cos=normal(5, 8), sin=normal(5, 8))
    refused("tables", ValueError, "cos[..., :2]", "L = 2", cos=halves[0][:, [0, 1, 0, 1]], sin=halves[1][:, [0, 1, 0, 1]], rotary_dim=4)


def test_table_shapes():
    cos, sin = pe.build_rope_cache(9, 8)
    refused("tables", ValueError, "cos has 9 rows", "T = 5", "cos[:5]", cos=cos, sin=sin)
    refused("tables", ValueError, "cos has 3 rows", "T = 5", cos=cos[:3], sin=sin[:3])
    refused("tables", ValueError, "cos has 1 rows", "T = 5", "broadcast_to", cos=cos[:1], sin=sin[:1])
    refused("tables", ValueError, "cos has shape (5, 4)", "sin has shape (4, 4)", cos=cos[:5], sin=sin[:4])
    refused("tables", ValueError, "cos has 5 columns", "L = 4", "D = 8", cos=normal(5, 5), sin=normal(5, 5))
    refused("tables", ValueError, "cos has 3 columns", "rotary_dim = 4", cos=normal(5, 3), sin=normal(5, 3), rotary_dim=4)
    refused("tables", ValueError, "cos has shape (4,)", "(5, 4)", "(2, 3, 5, 4)", cos=cos[0], sin=sin[0])
    refused("tables", ValueError, "cos has shape (2, 5, 4)", "(2, 3, 5, 4)", cos=normal(2, 5, 4), sin=normal(2, 5, 4))
    refused("tables", ValueError, "cos has shape (2, 2, 5, 4)", cos=normal(2, 2, 5, 4), sin=normal(2, 2, 5, 4))
    refused("tables", ValueError, "cos is a single number", "(T, L)", cos=1.0, sin=0.0)


# Biases


def test_exactly_one_decay():
    for drop, changes in [(["rate"], {}), ([], {"half_life": 1.0}), (["rate"], {"half_life": 1.0, "multiplier": 0.5})]:
        came = " and ".join(f"{name}=" for name in [*(["rate"] if not drop else []), *changes]) or "no decay"
        refused("decay", TypeError, came, "exactly one", "rate=", "half_life=", "multiplier=", drop=drop, **changes)


@pytest.mark.parametrize("bad", [-0.1, NAN, INF, -INF])
def test_slopes_and_rates(bad):
    why = {True: "explodes", False: ""}[bad < 0]
    refused("decay", ValueError, "rate", str(bad), ">= 0", why, rate=[0.1, bad])
    refused("attention", ValueError, "decay_rate", str(bad), ">= 0", why, decay_rate=bad)
    why = "penalty" if bad < 0 else ""
    refused("alibi", ValueError, "slopes", str(bad), ">= 0", why, slopes=[0.1, bad])
    refused("attention", ValueError, "alibi_slopes", str(bad), ">= 0", why, alibi_slopes=[1, 2, 3, bad])


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, 1.5, INF])
def test_half_lives_and_multipliers(bad):
    refused("decay", ValueError, "multiplier", str(bad), "(0, 1]", "explodes", drop=["rate"], multiplier=[0.5, bad])
    if not bad > 0:
        refused("decay", ValueError, "half_life", str(bad), "> 0", drop=["rate"], half_life=[0.5, bad])


@pytest.mark.parametrize("name", ["decay", "alibi"])
@pytest.mark.parametrize("dtype", ["i8", "c16", "O", "?"])
def test_bias_dtype(name, dtype):
    refused(name, TypeError, "dtype", str(np.dtype(dtype)), "float32", dtype=dtype)


def test_leading_axes_of_a_bias():
    refused("decay", ValueError, "rate (2,)", "q_positions (3, 1)", "equally many", "rate[None, :]", q_positions=np.zeros((3, 1, 3)))
    refused("alibi", ValueError, "slopes (2,)", "k_positions (3,)", "equal or 1", k_positions=np.zeros((3, 5)))


# attention: shapes, masks, biases


@pytest.mark.parametrize("changes, fragments", [
    ({"k": normal(2, 2, 5, 6)}, ["k has width 6", "q has width 8"]),
    ({"v": normal(2, 2, 6, 8)}, ["v has 6 rows", "k has 5"]),
    ({"v": normal(2, 4, 5, 8)}, ["v has 4 heads", "k has 2"]),
    ({"k": normal(2, 3, 5, 8), "v": normal(2, 3, 5, 8)}, ["H = 4", "K = 3", "divide", "swapaxes(-3, -2)"]),
    ({"k": normal(2, 8, 5, 8), "v": normal(2, 8, 5, 8)}, ["H = 4", "K = 8", "divide"]),
    ({"k": normal(2, 0, 5, 8), "v": normal(2, 0, 5, 8)}, ["H = 4", "K = 0", "divide"]),
    ({"k": normal(3, 2, 5, 8)}, ["batch axes", "q (2,)", "k (3,)", "equal or 1"]),
    ({"v": normal(3, 2, 5, 8)}, ["batch axes", "v (3,)"]),
])
def test_attention_shapes_that_do_not_fit(changes, fragments):
    refused("attention", ValueError, *fragments, **changes)


@pytest.mark.parametrize("shape, index", [((2, 3, 5), "[:, None]"), ((4, 3, 5), "[None]"), ((2, 5), "[:, None, None]"),
                                          ((2, 4, 5), "[:, :, None]"), ((2, 1, 5), "[:, None]")])
def test_masks_say_the_index_that_fits(shape, index):
    mask = np.ones(shape, bool)
    refused("attention", ValueError, f"mask{index}", str(shape), "(2, 4, 3, 5)", mask=mask)
    op, arguments = good("attention")
    op(**arguments | {"mask": eval(f"mask{index}")})
    for dtype in ("i8", "f4", "u1", ml_dtypes.bfloat16):
        refused("attention", TypeError, str(np.dtype(dtype)), f"mask.astype(bool){index}", mask=mask.astype(dtype))


@pytest.mark.parametrize("shape", [(), (3,), (6,), (2, 5, 5), (1, 2, 4, 3, 5), (2, 2, 3, 5)])
def test_masks_that_fit_nowhere(shape):
    refused("attention", ValueError, "mask", str(shape), "(5,)", "(3, 5)", "(2, 4, 3, 5)", mask=np.ones(shape, bool))


def test_masks_of_numbers():
    refused("attention", TypeError, "mask", "int64", "bool", "True = may attend", "mask.astype(bool)", mask=np.ones((3, 5), int))
    refused("attention", TypeError, "mask", "float64", "bias=", mask=np.where(np.tri(3, 5), 0, -INF))
    refused("attention", TypeError, "mask", "float64", "bias=", mask=np.full((3, 5), -1e9))
    for dtype in ("c8", "O", "U1"):
        refused("attention", TypeError, "mask", str(np.zeros(1, dtype).dtype), "bool", mask=np.zeros((3, 5), dtype))


def test_bias_of_attention():
    refused("attention", TypeError, "bias", "bool", "mask=", bias=np.ones((3, 5), bool))
    refused("attention", ValueError, "bias", "(2, 3, 5)", "bias[:, None]", bias=np.ones((2, 3, 5)))
    refused("attention", ValueError, "bias", "(3, 6)", "(2, 4, 3, 5)", bias=np.ones((3, 6)))
    refused("attention", ValueError, "bias", "(1, 2, 4, 3, 5)", bias=np.ones((1, 2, 4, 3, 5)))


@pytest.mark.parametrize("name", ["alibi_slopes", "decay_rate"])
@pytest.mark.parametrize("shape", [(1,), (2,), (4, 1), (1, 4)])
def test_slopes_are_one_for_each_query_head(name, shape):
    refused("attention", ValueError, name, str(shape), "(4,)", **{name: np.ones(shape)})
    with pytest.raises(ValueError, match=re.escape("(1,), one for each query head")):
        pe.attention(normal(3, 8), normal(5, 8), normal(5, 8), **{name: np.ones(2)})


# Keywords of other libraries

OURS = {"apply_rope": "x cos sin positions rope freqs base layout rotary_dim inverse out",
        "apply_rope_2d": "x pos_x pos_y freqs base layout inverse out grid_positions slice",
        "decay_bias": "q_positions k_positions rate half_life multiplier causal dtype out alibi_bias",
        "alibi_bias": "q_positions k_positions slopes causal dtype out",
        "attention": "q k v scale causal mask bias alibi_slopes decay_rate rope q_positions k_positions return_lse heads nothing no"}


@pytest.mark.parametrize("op, peer", [(op, peer) for op, peers in keywords.PEERS.items() for peer in peers])
def test_keywords_of_peers_name_ours(op, peer):
    with pytest.raises(TypeError) as caught:
        getattr(pe, op)(np.ones((2, 4)), **{peer: 1})
    text = str(caught.value)
    assert text.startswith(f"{op}() has no keyword {peer}=; ")
    advice = text.partition("; ")[2]
    assert set(re.findall(r"\w+", advice)) & set(OURS[op].split())
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("op", keywords.PEERS)
def test_the_keywords_of_the_contract_are_known(op):
    rope = "position_ids offset inv_freq rope_theta interleaved"
    attention = ("is_causal attn_mask enable_gqa dropout_p position_ids offset window_size sliding_window logit_softcapping s_aux "
                 "sm_scale")
    expected = {"apply_rope": rope, "apply_rope_2d": rope, "attention": attention}.get(op, "is_causal offset position_ids")
    assert set(expected.split()) <= set(keywords.PEERS[op])


@pytest.mark.parametrize("op", keywords.PEERS)
def test_other_keywords(op):
    with pytest.raises(TypeError, match=re.escape("did you mean num_threads=?")):
        getattr(pe, op)(np.ones((2, 4)), num_thread=1)
    with pytest.raises(TypeError, match="it takes .*num_threads"):
        getattr(pe, op)(np.ones((2, 4)), zzz=1)
    with pytest.raises(TypeError, match=f"{op}.. missing"):
        getattr(pe, op)()


def test_index_of_an_array_that_needs_none():
    assert fitting_index((2, 5), (2, 5)) == fitting_index((), (2, 5)) == fitting_index((3,), (2, 5)) == ""
    assert fitting_index((5,), (2, 5)) == "[None, :]"
    assert fitting_index((2, 1), (2, 3, 5), trim=True) == "[:, None]"
