"""check_rope on wrong layouts and roundings: it names the fault, and shows it with numbers."""

import foreign_ropes as foreign
import ml_dtypes
import numpy as np
import pytest
from foreign_ropes import found
from golden_cases import rope_cases

import pe
from pe import check_rope
from pe.probe.precision import FAR

BFLOAT16 = ml_dtypes.bfloat16


# Layout


def test_v_jepa_2_is_not_a_rotation():
    golden = dict(rope_cases("rope_vision"))["vjepa2_not_a_rotation"]
    x = golden.x.astype(np.float64)
    np.testing.assert_allclose(foreign.vjepa2(x, golden.positions), golden.y_hf64, rtol=0, atol=1e-6)
    report = check_rope(foreign.vjepa2, x.shape[-1])
    shown = found(report, "table in the wrong layout: its columns are [w, w]", is_rotation=False,
                  is_relative=False, layout="interleaved", base=None)
    np.testing.assert_allclose(shown["got at 0, 1"], [np.cos(1), np.sin(0.1)])       # speeds of planes 0, 1
    assert shown["position"] == [1] and abs(shown["length"] - 1) > 0.1


def test_a_table_for_pairs_under_halves():
    found(check_rope(foreign.halves_of_repeated), "table in the wrong layout: every column stands twice",
          is_rotation=False, layout="half")


def test_tables_given_in_the_wrong_layout():
    def apply(x, cos, sin):
        return x * cos + foreign.rotate_half(x) * sin

    report = check_rope(apply, signature="x, cos, sin", tables="interleaved")
    found(report, "table in the wrong layout: every column stands twice", is_rotation=False)
    assert check_rope(apply, signature="x, cos, sin", tables="half").ok


@pytest.mark.parametrize(("rotate", "layout", "other"), [(foreign.halves, "half", "interleaved"),
                                                         (foreign.pairs, "interleaved", "half")])
def test_c01_layouts_swapped(rotate, layout, other):
    report = check_rope(foreign.late(rotate), expect=pe.Rope(64, layout=other))
    shown = found(report, f"layout is {layout}, expected {other}", layout=layout, is_rotation=True)
    places = {"half": "0, 32", "interleaved": "0, 1"}
    turned = pytest.approx([np.cos(1), np.sin(1)])
    assert shown == {"x": "1 at coordinate 0, else 0", "position": [1], f"got at {places[layout]}": turned,
                     f"expected at {places[other]}": turned}
    assert check_rope(foreign.late(rotate), expect=pe.Rope(64, layout=layout)).ok


def test_c03_the_transpose():
    report = check_rope(lambda x, positions: foreign.halves(x, -foreign.angles(positions, 64)))
    shown = found(report, "clockwise", direction=-1, is_rotation=True, is_relative=True, base=1e4)
    np.testing.assert_allclose(shown["got"], [0.540302, -0.841471], atol=1e-6)
    np.testing.assert_allclose(shown["expected"], [0.540302, 0.841471], atol=1e-6)


def test_some_planes_the_other_way():
    sign = np.array([1.0, -1.0]).repeat(16)
    report = check_rope(lambda x, positions: foreign.halves(x, sign * foreign.angles(positions, 64)))
    found(report, "some planes turn clockwise", direction=0, base=1e4)


def test_c04_exponents_over_the_head_width():
    def apply(x, positions):
        turned = foreign.halves(x[..., :4], foreign.angles(positions, 8)[..., :2])
        return np.concatenate([turned, x[..., 4:]], axis=-1)

    shown = found(check_rope(apply, 8), "exponents are over the head width 8 and not over rotary_dim 4",
                  rotary_dim=4, layout="half")
    assert shown == pytest.approx({"w_1": 0.1, "expected": 0.01})


def test_c04_partners_over_the_head_width():
    def apply(x, positions):
        angle = np.zeros((len(positions), 4))
        angle[:, :2] = foreign.angles(positions, 8)[..., :2]
        return foreign.halves(x, angle)

    assert "partners and exponents over the head width" in check_rope(apply, 8).notes[0]
    report = check_rope(apply, 8, expect=pe.Rope(8, rotary_dim=4, layout="half"))
    found(report, "frequencies are not those expected, from plane 1 on", rotary_dim=8)
    assert report.counterexample["frequency"] == pytest.approx([0.1])


def test_c06_a_rotary_fraction_dropped():
    report = check_rope(foreign.late(foreign.halves), 16, expect=pe.Rope(16, rotary_dim=8, layout="half"))
    shown = found(report, "16 coordinates turn, from 0 on; expected 8", rotary_dim=16)
    assert shown == {"turning": 16, "offset": 0}


def test_c06_the_rest_is_changed():
    def apply(x, positions):
        turned = foreign.pairs(x[..., :8], foreign.angles(positions, 8))
        return np.concatenate([turned, 1.2 * x[..., 8:]], axis=-1)

    shown = found(check_rope(apply, 16), "coordinates that do not turn are scaled, by 1.2")
    assert shown == {"x": "1 at coordinate 8, else 0", "position": [0], "got at 8": pytest.approx(1.2),
                     "expected": 1}


def test_a_slice_elsewhere():
    expect = pe.Rope(32, rotary_dim=8, layout="half")
    report = check_rope(foreign.partly(foreign.halves, 8, 8), 32, expect=expect)
    found(report, "8 coordinates turn, from 8 on; expected 8, from 0 on", rotary_dim=8, rotary_offset=8)


def test_c07_half_a_table_for_both_axes():
    report = check_rope(lambda x, a, b: foreign.axial(x, a, a), 8, signature="x, pos_x, pos_y")
    found(report, "y turns no plane", axis_order=("x",), is_rotation=True)


def test_swapped_axes_of_a_grid():
    """Seen only if height and width differ, and only beside what is expected if the cells are right."""
    cell, freqs = np.arange(15), 1e4 ** (-np.arange(8) / 8)
    column_first = pe.Rope(32, freqs=[[*np.zeros(8), *freqs], [*freqs, *np.zeros(8)]])
    report = check_rope(lambda x: foreign.axial(x, cell // 5, cell % 5), 32, signature="x", grid=(3, 5),
                        expect=column_first)
    found(report, "the axes of positions are swapped", axis_order=("row", "column"))


@pytest.mark.parametrize(("row", "column"), [(lambda i: i // 3, lambda i: i % 3),
                                             (lambda i: i % 3, lambda i: i // 3)])
def test_a_grid_read_the_other_way(row, column):
    cell = np.arange(15)
    report = check_rope(lambda x: foreign.axial(x, column(cell), row(cell)), 32, signature="x", grid=(3, 5))
    shown = found(report, "height and width of the grid are swapped, or it is read column by column",
                  is_rotation=True, is_relative=False)
    assert shown == {"token": 3, "cell": [0, 3], "taken_for": [1, 0]}
    cell = np.arange(9)
    assert check_rope(lambda x: foreign.axial(x, cell % 3, cell // 3), 32, signature="x", grid=(3, 3)).ok


def test_a_grid_of_angles_that_are_not_straight():
    cell = np.arange(15)
    report = check_rope(lambda x: foreign.axial(x, np.sqrt(cell % 5), cell // 5), 32, grid=(3, 5),
                        signature="x")
    found(report, "the angle is not proportional to the position", is_relative=False)


def test_sections_ignored():
    freqs = 1e6 ** (-np.arange(16) / 16)
    sections = pe.Rope(32, freqs=np.eye(3).repeat([4, 6, 6], axis=1) * freqs, layout="half")

    def apply(x, positions):
        return foreign.halves(x, positions[:, :1] * freqs)

    report = check_rope(apply, 32, expect=sections)
    found(report, "axis 1 turns no plane", axis_order=("axis 0",), base=1e6)
    assert report.causes[-1] == ("planes follow other axes than expected: plane 4 turns by axis 0, not by "
                                 "axis 1")


def test_sin_and_cos_swapped():
    shown = found(check_rope(lambda x, sin, cos: pe.apply_rope(x, cos, sin), signature="x, cos, sin"),
                  "sin and cos are swapped", position_origin=None, direction=1)
    np.testing.assert_allclose(shown["cos, sin of plane 0"], [0, 1], atol=1e-15)


@pytest.mark.parametrize(("lines", "cause"), [
    (lambda a, b, c, s: (a * c + b * s, a * s + b * c), "both sines have the same sign"),
    (lambda a, b, c, s: (a * c + b * s, a * s - b * c), "a plane is reflected"),
    (lambda a, b, c, s: (a * c, b * c), "coordinates are scaled and never mixed: the sine is missing"),
    (lambda a, b, c, s: (a * c, a * s + b * c), "the sine is missing from the first of the two lines"),
    (lambda a, b, c, s: (a * c - b * s, b * c), "the sine is missing from the second of the two lines"),
    (lambda a, b, c, s: (a * c - b * s, s * (a * c - b * s) + b * c), "the second coordinate is made from"),
    (lambda a, b, c, s: (a * c - b * s, 2 * a * s + b), "a plane is mixed by a matrix that is no rotation"),
    (lambda a, b, c, s: (a * c - b * s, a * s[:, ::-1] + b * c[:, ::-1]), "the two coordinates of a plane"),
])
def test_lines_of_a_plane_that_are_wrong(lines, cause):
    def apply(x, positions):
        angle = foreign.angles(positions, x.shape[-1])
        return np.concatenate(lines(*np.split(x, 2, axis=-1), np.cos(angle), np.sin(angle)), axis=-1)

    # Two reflections of one kind make a turn by the gap: such scores are relative.
    found(check_rope(apply), cause, is_rotation=False, is_relative="reflected" in cause)


@pytest.mark.parametrize("order", [np.random.default_rng(0).permutation(16), [*range(12), 12, 14, 13, 15],
                                   [0, 2, 3, 5, 6, 8, 9, 11, 1, 4, 7, 10, 12, 13, 14, 15]])
def test_pairs_of_no_published_layout(order):
    turning = np.arange(8) < (4 if order[1] == 2 else 8)        # (0, 2), (3, 5), ...: one gap, but no blocks
    report = check_rope(lambda x, positions: foreign.pairs(
        x[..., order], turning * foreign.angles(positions, 16))[..., np.argsort(order)], 16)
    assert report.causes[0].startswith("planes are no pairs") and report.is_rotation and report.is_relative
    assert report.layout is None


def test_sine_and_coordinate_of_one_place():
    """rotate_half without an exchange of halves: (a cos + a sin, b cos - b sin)."""
    def apply(x, positions):
        angle = np.concatenate([foreign.angles(positions, 64)] * 2, axis=-1)
        return x * np.cos(angle) + x * np.repeat([1.0, -1.0], 32) * np.sin(angle)

    shown = found(check_rope(apply), "coordinates are scaled and never mixed: the sine multiplies the coord",
                  is_rotation=False)
    assert shown == {"x": "1 at coordinate 0, else 0", "position": [1],
                     "got at 0": pytest.approx([np.cos(1) + np.sin(1)]),
                     "length": pytest.approx(np.cos(1) + np.sin(1))}


def test_a_result_in_another_order():
    def apply(x, positions):
        y = foreign.halves(x, foreign.angles(positions, 64))
        return y.reshape(*y.shape[:-1], 2, 32).swapaxes(-1, -2).reshape(y.shape)

    shown = found(check_rope(apply), "the result is in another order than x, at position 0 too: pairs are "
                  "read in the layout half", is_rotation=True, is_relative=True)
    assert shown == {"x": "1 at coordinate 1, else 0", "position": [0], "got at 2": pytest.approx([1])}


def test_a_start_is_shown_where_it_is():
    start = np.linspace(0, 1, 32)
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(positions, 64) + start))
    shown = found(report, "position 0 turns, by angles that no shift of positions gives")
    assert shown["cos, sin of plane 1"] == pytest.approx([np.cos(1 / 31), np.sin(1 / 31)])


@pytest.mark.parametrize(("cos", "sin", "why"), [
    (1.0, 2.0, "cos and sin do not belong together"), (1.2, 1.0, "cos and sin do not belong together"),
    (np.linspace(1, 2, 32), np.linspace(1, 2, 32), "planes have amplitudes of their own"),
])
def test_lengths_that_change(cos, sin, why):
    def apply(x, positions):
        angle = foreign.angles(positions, 64)
        return pe.apply_rope(x, cos * np.cos(angle), sin * np.sin(angle), layout="half")

    report = check_rope(apply)
    found(report, "lengths change, by factors from 1 to ", is_rotation=False)
    assert f": {why}" in report.causes[0]


@pytest.mark.parametrize(("turns", "factor"), [(1, 2 * np.pi), (3, 6 * np.pi)])
def test_whole_turns_are_seen(turns, factor):
    """Planes beyond pi per position look slower, or backwards, or still; the law of all of them tells."""
    report = check_rope(lambda x, positions: foreign.halves(x, factor * foreign.angles(positions, 64)))
    shown = found(report, f"plane 0 makes {turns} turn", direction=1)
    assert shown["frequency"] == pytest.approx([factor * 1e4 ** (-1 / 32)])
    expected = check_rope(lambda x, positions: foreign.halves(x, 7 * foreign.angles(positions, 64)),
                          expect=pe.Rope(64, layout="half"))
    found(expected, "frequencies are all 7 of those expected", direction=1, base=1e4)
    assert len(expected.causes) == 1


def test_periods_that_turn_many_times_a_position():
    def apply(x, positions):
        return foreign.halves(x, positions[:, None] * 1e4 ** (np.arange(32) / 32))

    report = check_rope(apply)
    assert report.ok and report.base == pytest.approx(1e-4) and "periods in their place?" in report.notes[0]
    assert not any("float32" in note for note in report.notes)
    found(check_rope(apply, expect=pe.Rope(64, layout="half")), "frequencies are periods, 1 / w in the place")


@pytest.mark.parametrize(("freqs", "note"), [
    (np.roll(1e4 ** (-np.arange(32) / 32), 16),
     "frequencies follow no base^(-2l/width), and rise from plane 15"),
    (1e4 ** -np.linspace(0, 1, 32), "base 13459.6 is that of exponents l/(L - 1) with 10000"),
    (2 * 1e4 ** (-np.arange(32) / 32), "frequencies are all multiplied by 2 (positions are multiplied, or"),
    (1e4 ** (-np.arange(32) / 32) / 2, "frequencies are all multiplied by 0.5 (linear scaling)"),
])
def test_frequencies_that_are_remarked_on(freqs, note):
    report = check_rope(lambda x, positions: foreign.halves(x, positions[:, None] * freqs))
    assert report.ok and report.notes[0].startswith(note), str(report)


@pytest.mark.parametrize(("factor", "name"), [(1 / 8, "1/sqrt(64)"), (64**-0.25, "the root of 1/sqrt(64)")])
def test_the_scale_of_attention_is_remarked_on(factor, name):
    report = check_rope(lambda x, positions: factor * foreign.halves(x, foreign.angles(positions, 64)))
    assert report.ok and f"is {name}: has it the scale" in report.notes[0]


def test_axes_that_are_not_told_apart():
    cell = np.arange(15)
    flat = check_rope(lambda x: foreign.pairs(x, foreign.angles(cell, 32)), 32, signature="x", grid=(3, 5))
    found(flat, "axes are not told apart: each turns all planes, in the proportion 5, 1.", is_rotation=True)
    added = check_rope(lambda x, a, b: foreign.pairs(x, foreign.angles(a + b, 32)), 32,
                       signature="x, pos_x, pos_y")
    found(added, "axes are not told apart: each turns all planes, in the proportion 1, 1.")
    two_bases = check_rope(lambda x, a, b: np.concatenate(
        [foreign.pairs(x[..., :16], foreign.angles(a, 16)),
         foreign.pairs(x[..., 16:], foreign.angles(b, 16, 100.0))], axis=-1), 32, signature="x, pos_x, pos_y")
    assert two_bases.ok and two_bases.notes[0].endswith("of one base for all axes: mixed or learned")


@pytest.mark.parametrize(("stands", "words", "shown"), [
    (lambda i: (i // 4, i % 4), "the grid is taken for one of width 4", {"token": 4, "cell": [0, 4]}),
    (lambda i: np.divmod(np.maximum(i - 1, 0), 5), "cells begin behind 1 token, such as a class token",
     {"token": 1, "cell": [0, 1]}),
])
def test_a_grid_of_other_cells(stands, words, shown):
    row, column = stands(np.arange(15))
    report = check_rope(lambda x: foreign.axial(x, column, row), 32, signature="x", grid=(3, 5))
    assert found(report, words, is_relative=False).items() >= shown.items()


# Precision


def test_c11_positions_in_the_16_bits_of_x():
    """float16 has no 2049, bfloat16 no 257: exact values from 50 digits."""
    def apply(x, positions):
        return foreign.halves(x, foreign.angles(positions.astype(x.dtype).astype(float), 64))

    report = check_rope(apply, max_position=15962)
    shown = found(report, "positions are rounded to float16 (for float16)", is_rotation=True, base=1e4)
    assert shown["position"] == 2049
    assert report.causes[1] == "positions are rounded to bfloat16 (for bfloat16)"
    assert shown["cos, sin"][0] == pytest.approx(0.949734, abs=3e-4)
    assert shown["exact"][0] == pytest.approx(0.776572, abs=1e-6)
    shown = found(check_rope(apply, max_position=512, dtypes=["float32", "bfloat16"]),
                  "positions are rounded to bfloat16 (for bfloat16)")
    assert shown["position"] == 257 and shown["exact"][0] == pytest.approx(0.819306, abs=1e-6)
    assert shown["cos, sin"][0] == pytest.approx(-0.039791, abs=2e-4)


@pytest.mark.parametrize(("short", "name"), [(np.float16, "float16"), (BFLOAT16, "bfloat16")])
@pytest.mark.parametrize(("angle", "what"), [
    (lambda p, w, r: r(p) * w, "positions are"), (lambda p, w, r: p * r(w), "frequencies are"),
    (lambda p, w, r: r(p) * r(w), "positions and frequencies are"), (lambda p, w, r: r(p * w), "angles are"),
    (lambda p, w, r: r(r(p) * r(w)), "positions, frequencies and angles are"),
])
def test_c11_what_is_rounded_to_16_bits(short, name, angle, what):
    freqs = 1e4 ** (-np.arange(32) / 32)
    report = check_rope(lambda x, positions: foreign.halves(
        x, angle(positions[:, None].astype(float), freqs, lambda t: t.astype(short).astype(float))),
        max_position=32768, dtypes=["float64", "float32"])
    found(report, f"{what} rounded to {name} (for float64, float32)", base=1e4, is_rotation=True)


@pytest.mark.parametrize(("short", "name"), [(np.float16, "float16"), (BFLOAT16, "bfloat16")])
def test_c11_everything_in_16_bits(short, name):
    report = check_rope(foreign.late(foreign.halves, dtype=short), max_position=32768)
    found(report, f"angles are formed in {name}", layout="half", base=1e4, is_rotation=True)


def test_tables_in_bfloat16():
    def apply(x, positions):
        turn = np.exp(1j * foreign.angles(positions, 64))
        cos, sin = (t.astype(BFLOAT16).astype(x.dtype) for t in (turn.real, turn.imag))
        return pe.apply_rope(x, cos, sin)

    found(check_rope(apply), "tables are rounded to bfloat16", is_rotation=True, is_relative=True, base=1e4)


@pytest.mark.parametrize(("base", "text"), [(1e4, "base 9984 is 10000 rounded to bfloat16"),
                                            (5e5, "base 499712 is 500000 rounded to bfloat16")])
def test_a_base_in_bfloat16(base, text):
    shown = found(check_rope(foreign.late(foreign.pairs, float(BFLOAT16(base)))), text)
    assert shown == {"base": float(BFLOAT16(base))}


def test_a_base_in_float16():
    found(check_rope(foreign.late(foreign.pairs, float(np.float16(5e4)))),
          "base 49984 is 50000 rounded to float16")
    report = check_rope(lambda x, positions: foreign.halves(x, positions[:, None] * np.eye(32)[0]))
    found(report, "one plane alone turns: is the base infinite, as 500000 is in float16?")


def test_c12_angles_in_float32():
    """At 131071 a float32 angle of a head of 128 is 4e-3 off, though the function is a fine one nearby."""
    report = check_rope(foreign.late(foreign.halves, dtype=np.float32), 128)
    found(report, "angles are formed in float32", is_rotation=True, is_relative=True, base=1e4)
    assert 2e-3 < report.angle_errors[131071] < 8e-3 and report.angle_errors[15] < 2e-6
    position = report.counterexample["position"]
    plane = report.counterexample["plane"]
    angle = position * 1e4 ** (-plane / 64)
    np.testing.assert_allclose(report.counterexample["exact"], [np.cos(angle), np.sin(angle)], atol=1e-9)


@pytest.mark.parametrize("signature", ["x, positions", "x, offset"])
@pytest.mark.parametrize("form", [lambda p, w: np.float32(p) * np.float32(w), lambda p, w: p * BFLOAT16(w)])
def test_the_smallest_position_and_the_first_plane_are_shown(form, signature):
    """Positions are tried around powers of two; what is shown is found among all of them."""
    freqs, positions = 1e4 ** (-np.arange(32) / 32), np.arange(131072)[:, None]
    angles = form(positions, freqs).astype(np.float64)
    off = np.abs(np.exp(1j * angles) - np.exp(1j * positions * freqs)) > 1e-3
    first = int(off.any(axis=1).argmax())

    def apply(x, at):
        return foreign.halves(x, angles[np.arange(at, at + x.shape[-2]) if np.isscalar(at) else at])

    report = check_rope(apply, signature=signature)
    assert report.counterexample["position"] == first and first not in FAR
    assert report.counterexample["plane"] == int(off[first].argmax())


def test_results_of_16_bits_may_be_rounded_on_the_way():
    """A product and a sum that are rounded to bfloat16 one after the other are no rounded angle."""
    def apply(x, positions):
        once = foreign.halves(x, foreign.angles(positions, 64))
        return foreign.halves(once, foreign.angles(positions, 64))

    report = check_rope(apply)
    assert report.ok and "the turn is applied twice" in report.notes[0], str(report)


@pytest.mark.parametrize("expect", [pe.Rope(8, 1e4), None])
@pytest.mark.parametrize("plane", range(4))
def test_a_frequency_slightly_off_is_no_rounding_of_angles(plane, expect):
    freqs = 1e4 ** (-np.arange(4) / 4)
    freqs[plane] *= 1 + 5e-4
    report = check_rope(lambda x, positions: foreign.pairs(x, positions[:, None] * freqs), 8, expect=expect)
    found(report, "frequencies are off, from plane", is_rotation=True)
    if expect:
        assert report.causes == (f"frequencies are off, from plane {plane} on: angles grow in proportion to "
                                 "the position, by another number or by one formed in few bits (for float64, "
                                 "float32, float16, bfloat16)",)


def test_c12_large_arguments_not_reduced():
    def apply(x, positions):
        angle = foreign.angles(positions, 64)
        return foreign.halves(x, np.where(angle > 8192, angle * (1 + 1e-4), angle))

    shown = found(check_rope(apply), "angles are wrong from position 8193 on", is_relative=False)
    assert shown["position"] == 8193 and shown["plane"] == 0


def test_c14_the_same_gap_at_another_place():
    def apply(x, positions):
        return foreign.halves(x, foreign.angles(np.sqrt(positions), 64))

    report = check_rope(apply)
    found(report, "the angle is not proportional to the position", is_relative=False, is_rotation=True)
    assert any(note.startswith("not relative: q = e_") for note in report.notes)


def test_c16_float64_values_turned_in_float32():
    """In float32 cos is -0.9963063 at 123456, where -0.996311759594257 is right, and sin 0.0858072."""
    late = foreign.late(foreign.pairs, dtype=np.float32)
    report = check_rope(late, 4, tolerance=1e-9, max_position=123456, dtypes=["float64"])
    found(report, "angles are formed in float32", base=1e4)
    assert report.angle_errors[123456] == pytest.approx(5.46e-6 / 0.0858072, rel=0.02)
    near = check_rope(late, 4, max_position=4095)
    assert near.ok and near.notes[0].startswith("float64 values are turned to ")
