"""What apply_rope and apply_rope_2d refuse, and positions in every op."""

import re

import ml_dtypes
import numpy as np
import pytest
from bad_calls import INF, NAN, normal, refused

import pe

POSITIONS = [("positions", "positions", 5), ("2d", "pos_x", 5), ("2d", "pos_y", 5),
             ("decay", "q_positions", 3), ("decay", "k_positions", 5), ("alibi", "q_positions", 3),
             ("alibi", "k_positions", 5), ("attention", "q_positions", 3), ("attention", "k_positions", 5)]


@pytest.mark.parametrize("name, argument, count", POSITIONS)
class TestPositions:
    @pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, "?", "c16", "O", "M8[s]"])
    def test_dtype(self, name, argument, count, dtype):
        value = np.zeros(count, dtype)
        expected = "integers, float32 or float64"
        refused(name, TypeError, argument, str(value.dtype), expected, **{argument: value})

    @pytest.mark.parametrize("bad", [NAN, INF, -INF, 2.0**54, -(2**54), 2**53 + 1, np.iinfo(np.int64).min,
                                     np.uint64(2**64 - 1), np.float32(NAN)], ids=str)
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
            advice = "np.arange(n) for n positions, [p] for one"
            refused(name, TypeError, argument, "is 2;", advice, **{argument: 2})

    def test_shape(self, name, argument, count):
        if name in ("decay", "alibi"):
            refused(name, ValueError, argument, "(3, 2)", "equally many", "[None, :]",
                    **{argument: np.zeros((3, 2, count))})
            refused(name, ValueError, argument, "(3,)", "equal or 1", **{argument: np.zeros((3, count))})
            return
        for shape in [(count + 1,), (1,), (count + 1, count), (1, 1, 1, count)]:
            refused(name, ValueError, argument, str(shape), f"({count},)", **{argument: np.zeros(shape)})


@pytest.mark.parametrize("x, shape, index", [
    ((2, 3, 5, 8), (2, 5), "[:, None, :]"), ((2, 3, 1, 8), (2,), "[:, None, None]"),
    ((2, 3, 5, 8), (3, 5), "[None, :, :]"), ((3, 3, 5, 8), (3, 5), "[:, None, :]"),
    ((7, 2, 3, 5, 8), (2, 5), "[None, :, None, :]")])
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
    text = "(5,) and x is one row: expected (1,), [p] for position p"
    with pytest.raises(ValueError, match=re.escape(text)):
        pe.apply_rope(normal(8), positions=np.arange(5))


@pytest.mark.parametrize("shape", [(3,), (2,), (1,), (4,), (2, 3), (2, 4), (2, 1), (3, 1)])
def test_no_index_that_would_give_heads_or_sequences_the_numbers_of_rows(shape):
    with pytest.raises(ValueError, match=re.escape("expected (5,), one for each row")) as caught:
        pe.apply_rope(normal(2, 3, 5, 8), positions=np.ones(shape))
    text = str(caught.value)
    assert " fits" not in text and ("such as np.arange(5)" in text) == (len(shape) == 1)
    assert ("If x is (..., rows, heads, D), pass x.swapaxes(-3, -2)" in text) == (shape in [(3,), (2, 3)])


def test_positions_of_attention_that_fit_by_accident():
    with pytest.raises(ValueError, match=re.escape("(1,), one for each row, such as [p], or (4, 1), where")):
        pe.attention(normal(4, 1, 8), normal(4, 5, 8), normal(4, 5, 8), q_positions=[1, 2, 3, 4])
    refused("attention", ValueError, "q_positions has shape (2,)", "such as np.arange(start, start + 3)",
            q_positions=[1, 2])
    refused("attention", ValueError, "If q is (..., rows, heads, D), pass q.swapaxes(-3, -2)",
            q_positions=[1, 2, 3, 4])
    refused("attention", ValueError, "k_positions has shape (2,)", "such as np.arange(5)", k_positions=[1, 2])


def test_positions_of_several_axes():
    rope = pe.Rope(8, freqs=np.ones((2, 4)))
    for shape in [(5,), (5, 3)]:
        refused("positions", ValueError, "positions", str(shape), "(..., 2)", rope=rope,
                positions=np.zeros(shape))
    refused("positions", ValueError, "positions[:, None, :, :] fits", "(2, 3, 5, 2)", rope=rope,
            positions=np.zeros((2, 5, 2)))
    refused("attention", ValueError, "q_positions", "(3,)", "(..., 2)", rope=rope,
            k_positions=np.zeros((5, 2)))
    refused("attention", TypeError, "k_positions", "(5, 2)", rope=rope, drop=["k_positions"],
            q_positions=np.zeros((3, 2)))
    refused("attention", ValueError, "k_positions", "(4, 2)", rope=rope, q_positions=np.zeros((3, 2)),
            k_positions=np.zeros((4, 2)))


# Forms, frequencies, layouts


@pytest.mark.parametrize("name", ["positions", "tables", "2d"])
def test_no_axis_where_one_is_needed(name):
    refused(name, ValueError, "x is a single number", "(..., D)", x=3.0)


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
    refused("positions", TypeError, "rope= and layout=", "pe.Rope(..., layout=...)", rope=pe.Rope(8),
            layout="half")
    refused("positions", TypeError, "rope= and rotary_dim=", rope=pe.Rope(8), rotary_dim=8)
    refused("2d", TypeError, "freqs= and base=", freqs=[1.0, 1], base=10.0)


@pytest.mark.parametrize("name", ["positions", "attention"])
def test_rope(name):
    refused(name, TypeError, "rope", "int", "pe.Rope(8)", rope=10000)
    refused(name, TypeError, "rope", "str", 'pe.Rope(8, layout="half")', rope="rotate_half")
    refused(name, ValueError, "rope is for D = 4", "D = 8", rope=pe.Rope(4))


@pytest.mark.parametrize("name", ["positions", "tables", "2d"])
def test_layout(name):
    refused(name, ValueError, "layout", "'halves'", "interleaved", "half", layout="halves")
    refused(name, TypeError, "layout", "True", "interleaved", layout=True)
    refused(name, TypeError, "layout", "list", layout=["half"])


@pytest.mark.parametrize("name", ["positions", "2d"])
def test_base(name):
    for value in (0, -10.0, 0.5, NAN, INF):
        refused(name, ValueError, "base", str(value), base=value)
    for value in ("big", [10.0, 20.0]):
        refused(name, TypeError, "base", "number", base=value)


def test_widths():
    refused("positions", ValueError, "x has D = 7", "rotary_dim=6", x=normal(5, 7), out=None)
    refused("positions", ValueError, "x has D = 1", "pairs", x=normal(5, 1), out=None)
    refused("2d", ValueError, "x has D = 6", "multiple of 4", x=normal(5, 6), out=None)
    refused("2d", ValueError, "x has D = 10", "multiple of 4", x=normal(5, 10), out=None)


@pytest.mark.parametrize("name", ["positions", "tables"])
def test_rotary_dim(name):
    for value in (3, 10, 0, -2):
        refused(name, ValueError, "rotary_dim", str(value), rotary_dim=value)
    for value in (4.0, True, "4"):
        refused(name, TypeError, "rotary_dim", str(value), "integer", rotary_dim=value)


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


# Tables


def test_tables_of_full_width_say_which_half_to_take():
    cos, sin = pe.build_rope_cache(5, 8)
    halves = [np.concatenate([t, t], axis=-1) for t in (cos, sin)]
    pairs = [t.repeat(2, -1) for t in (cos, sin)]
    refused("tables", ValueError, "cos has 8 columns", "L = 4", "cos[..., :4]", cos=halves[0], sin=halves[1])
    refused("tables", ValueError, "cos has 8 columns", "cos[..., ::2]", cos=pairs[0], sin=pairs[1])
    refused("tables", ValueError, "cos[..., :4]", "cos[..., ::2]", cos=normal(5, 8), sin=normal(5, 8))
    small = [np.concatenate([t[:, :2], t[:, :2]], axis=-1) for t in (cos, sin)]
    refused("tables", ValueError, "cos[..., :2]", "L = 2", cos=small[0], sin=small[1], rotary_dim=4)


def test_table_shapes():
    cos, sin = pe.build_rope_cache(9, 8)
    for fragments, tables in [
        (["cos has 9 rows", "T = 5", "cos[:5]"], (cos, sin)),
        (["cos has 3 rows", "T = 5"], (cos[:3], sin[:3])),
        (["cos has 1 row ", "T = 5", "broadcast_to"], (cos[:1], sin[:1])),
        (["cos has shape (5, 4)", "sin has shape (4, 4)"], (cos[:5], sin[:4])),
        (["cos has 5 columns", "L = 4", "D = 8"], (normal(5, 5), normal(5, 5))),
        (["cos has shape (4,)", "(5, 4)", "(2, 3, 5, 4)"], (cos[0], sin[0])),
        (["cos has shape (2, 5, 4)", "(2, 3, 5, 4)"], (normal(2, 5, 4), normal(2, 5, 4))),
        (["cos has shape (2, 2, 5, 4)"], (normal(2, 2, 5, 4), normal(2, 2, 5, 4))),
        (["cos is a single number", "(T, L)"], (1.0, 0.0)),
    ]:
        refused("tables", ValueError, *fragments, cos=tables[0], sin=tables[1])
    refused("tables", ValueError, "cos has 3 columns", "rotary_dim = 4", cos=normal(5, 3), sin=normal(5, 3),
            rotary_dim=4)
