"""check_rope on correct functions, in every form and signature; the report itself, and what is refused."""

import pickle
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import foreign_ropes as foreign
import ml_dtypes  # noqa: F401  (NumPy has no bfloat16 without it)
import numpy as np
import pytest
from golden_cases import rope_cases

import pe
from pe import RopeReport, check_rope

YARN = pe.Rope(64, freqs=1e4 ** (-np.arange(32) / 32) / np.linspace(1, 8, 32), layout="half", amplitude=1.2)


def turned_by(rope):
    """fn(x, positions) of a Rope, with one axis or several."""
    if len(rope.freqs) == 1:
        return lambda x, positions: rope.apply(x, positions)
    return lambda x, positions: rope.apply(x, positions[None, None])


def sound(report, **expected):
    assert report.ok and report.causes == () and report.counterexample == {}, str(report)
    assert report.is_rotation and report.is_relative
    assert {name: getattr(report, name) for name in expected} == expected


# Ours


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(("dim", "width"), [(4, 4), (16, 8), (64, 64), (80, 32), (128, 128), (7, 4)])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_apply_rope_in_either_layout_and_width(layout, dim, width, base):
    report = check_rope(lambda x, positions: pe.apply_rope(x, positions=positions, layout=layout, base=base,
                                                           rotary_dim=width), dim)
    sound(report, layout=layout, rotary_dim=width, rotary_offset=0, base=base, direction=1, amplitude=1.0,
          position_origin=0.0, axis_order=None, head_dim=dim)
    np.testing.assert_array_equal(report.freqs, pe.Rope(dim, base, rotary_dim=width).freqs)
    assert report.angle_errors[131071] < 1e-10


def test_one_plane_has_no_layout_and_any_base():
    sound(check_rope(turned_by(pe.Rope(2, layout="half")), 2, expect=pe.Rope(2, layout="half")), base=None)


def test_a_slice_of_the_head():
    report = check_rope(foreign.partly(foreign.halves, 16, 8), 32)
    sound(report, layout="half", rotary_dim=16, rotary_offset=8)


def test_a_slice_of_ours():
    rope = pe.Rope(32, rotary_dim=8, rotary_offset=8)
    sound(check_rope(rope.apply, 32, expect=rope), layout="interleaved", rotary_dim=8, rotary_offset=8)


@pytest.mark.parametrize("scaling", [
    pe.scaling.linear(4.0), pe.scaling.ntk(4.0), pe.scaling.llama3(8.0),
    pe.scaling.yarn(4.0, original_max_position_embeddings=4096),
], ids=repr)
def test_every_scaling(scaling):
    rope = pe.Rope(64, scaling=scaling, layout="half")
    report = check_rope(rope.apply, expect=rope)
    sound(report, layout="half")
    assert report.amplitude == pytest.approx(rope.amplitude, rel=1e-12)
    np.testing.assert_array_equal(report.freqs, rope.freqs)
    np.testing.assert_allclose(check_rope(rope.apply).freqs, rope.freqs, rtol=1e-12)


@pytest.mark.parametrize("preset", ["rope_vit_axial", "sam2", "llama4_vision", "pixtral", "qwen2_vl_vision",
                                    "qwen2_vl"])
def test_presets(preset):
    rope = getattr(pe.presets, preset)(128)
    sound(check_rope(turned_by(rope), 128, expect=rope), layout=rope.layout)


def test_scaled_frequencies_and_an_amplitude():
    report = check_rope(turned_by(YARN), expect=YARN)
    sound(report, base=None, layout="half")
    assert report.amplitude == pytest.approx(1.2, abs=1e-12)
    np.testing.assert_allclose(report.freqs, YARN.freqs, rtol=1e-12)
    assert "no base" in str(report)


def test_linear_scaling_keeps_the_base():
    report = check_rope(lambda x, positions: foreign.halves(x, foreign.angles(positions, 64) / 8))
    sound(report, base=1e4)
    assert "multiplied by 0.125" in report.notes[0]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_two_axes(layout):
    report = check_rope(lambda x, a, b: pe.apply_rope_2d(x, a, b, layout=layout), signature="x, pos_x, pos_y")
    sound(report, layout=layout, axis_order=("x", "y"), base=1e4, position_origin=(0.0, 0.0), rotary_dim=64)


@pytest.mark.parametrize(("name", "case"), rope_cases("rope_mrope"), ids=lambda value: str(value)[:20])
def test_three_axes_in_sections(name, case):
    dim = case.q.shape[-1]
    rope = pe.Rope(dim, freqs=case.freqs, layout=case.layout, amplitude=case.amplitude)
    report = check_rope(turned_by(rope), dim, expect=rope)
    sound(report, layout=case.layout, rotary_dim=case.rotary_dim)
    first = {"ernie4_5_vl": "axis 1"}.get(name, "axis 0")
    assert len(report.axis_order) == 3 and report.axis_order[0] == first and report.base >= 1e4


@pytest.mark.parametrize(("name", "law"), [("pixtral", "dealt"), ("qwen2_vl_vision", "each axis"),
                                           ("llama4_vision", "each axis"), ("sam2", "each axis")])
def test_two_axes_of_vision_models(name, law):
    case = dict(rope_cases("rope_vision"))[name]
    dim = case.q.shape[-1]
    rope = pe.Rope(dim, freqs=case.freqs, layout=case.layout)
    report = check_rope(turned_by(rope), dim, n_axes=2)
    sound(report, layout=case.layout, axis_order=("axis 0", "axis 1"), base=1e4)
    assert law in report.notes[0]


def test_dense_frequencies_of_two_axes():
    rope = pe.Rope(16, freqs=np.random.default_rng(0).normal(size=(2, 8)))
    report = check_rope(turned_by(rope), 16, n_axes=2)
    sound(report, direction=0, base=None)
    np.testing.assert_allclose(report.freqs, rope.freqs, atol=1e-14)


# Textbook forms


@pytest.mark.parametrize(("rotate", "layout"), [(foreign.halves, "half"), (foreign.pairs, "interleaved"),
                                                (foreign.by_complex, "interleaved")])
def test_numpy_forms(rotate, layout):
    sound(check_rope(foreign.late(rotate, 1e6)), layout=layout, base=1e6, direction=1)


@pytest.mark.parametrize("dim", [2, 4, 16, 80, 128])
@pytest.mark.parametrize("base", [1e4, 12345.0, 5e6])
def test_float32_angles_are_read_for_what_they_are(dim, base):
    report = check_rope(foreign.late(foreign.pairs, base, np.float32), dim, max_position=2048)
    sound(report, layout="interleaved", base=base if dim > 2 else None, rotary_dim=dim)
    np.testing.assert_array_equal(report.freqs, pe.Rope(dim, base).freqs)


def test_float32_angles_pass_within_their_reach_and_say_so():
    report = check_rope(foreign.late(foreign.halves, dtype=np.float32), max_position=4095)
    sound(report, layout="half", base=1e4)
    assert 1e-5 < report.angle_errors[4095] < 3e-4
    assert "float64 values are turned to" in report.notes[0] and "at position 4095" in report.notes[0]


def test_deepseek_reads_pairs_and_writes_halves():
    def apply(x, positions):
        y = foreign.pairs(x[..., 8:], foreign.angles(positions, 16))
        return np.concatenate([x[..., :8], y[..., ::2], y[..., 1::2]], axis=-1)

    report = check_rope(apply, 24)
    sound(report, layout="interleaved to half", rotary_dim=16, rotary_offset=8, base=1e4)
    assert "DeepSeek" in report.notes[0]


# Signatures


def with_tables(columns):
    """fn(q, k, cos, sin) that wants tables (1, T, ...) as Hugging Face has them."""
    rotate = {"half": foreign.rotate_half, "interleaved": foreign.rotate_pairs}[columns]

    def apply(q, k, cos, sin):
        cos, sin = cos[:, None], sin[:, None]
        return q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
    return apply


@pytest.mark.parametrize("columns", ["half", "interleaved"])
@pytest.mark.parametrize("given", [True, False])
def test_tables_of_full_width(columns, given):
    report = check_rope(with_tables(columns), signature="q, k, cos, sin", tables=columns if given else None)
    sound(report, layout=columns)
    assert f"columns '{columns}'" in report.notes[0]


def test_tables_of_one_column_a_plane():
    sound(check_rope(lambda x, cos, sin: pe.apply_rope(x, cos, sin), signature="x, cos, sin"), base=1e4)
    sound(check_rope(lambda x, sin, cos: pe.apply_rope(x, cos, sin), signature="x, sin, cos"), base=1e4)


def test_tables_of_an_expected_rope():
    report = check_rope(lambda x, cos, sin: pe.apply_rope(x, cos, sin, layout="half"), expect=YARN,
                        signature="x, cos, sin")
    sound(report, layout="half")
    assert report.amplitude == pytest.approx(1.2)


def test_tables_of_their_own_builder():
    report = check_rope(lambda x, cos, sin: pe.apply_rope(x, cos, sin), signature="x, cos, sin",
                        tables=lambda positions: pe.Rope(64, 5e5).cache(positions))
    sound(report, base=5e5)


def test_complex_tables():
    def apply(x, freqs_cis):
        z = (x[..., ::2] + 1j * x[..., 1::2]) * freqs_cis
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)

    sound(check_rope(apply, signature="x, freqs_cis"), layout="interleaved")


def test_rows_of_each_sequence():
    def apply(q, k, position_ids):
        angle = foreign.angles(position_ids, q.shape[-1])[:, None]
        return foreign.halves(q, angle), foreign.halves(k, angle)

    sound(check_rope(apply, signature="q, k, position_ids"), layout="half")


def test_several_axes_of_position_ids():
    rope = pe.Rope(32, freqs=np.eye(3).repeat([4, 6, 6], axis=1) * 1e4 ** (-np.arange(16) / 16))
    sound(check_rope(lambda x, ids: rope.apply(x, np.moveaxis(ids, 0, -1)[:, None]), 32, expect=rope,
                     signature="x, position_ids"))


def test_an_offset():
    sound(check_rope(lambda x, offset: pe.apply_rope(x, positions=offset + np.arange(x.shape[-2])),
                     signature="x, offset"))


def test_rows_that_count_themselves():
    report = check_rope(lambda x: pe.apply_rope(x, positions=np.arange(x.shape[-2])), signature="x")
    sound(report)
    assert max(report.angle_errors) == 4097 and "up to 4097 were tried" in report.notes[-1]


def test_a_table_that_counts_and_ends():
    cos, sin = pe.build_rope_cache(1024, 64)
    report = check_rope(lambda x: pe.apply_rope(x, cos[:x.shape[-2]], sin[:x.shape[-2]]), signature="x")
    sound(report)
    assert max(report.angle_errors) == 1023 and any("position 1024: the function raised" in note
                                                    for note in report.notes)


def test_a_table_that_refuses_what_lies_beyond_it():
    cos, sin = pe.build_rope_cache(2048, 64)
    report = check_rope(lambda x, p: pe.apply_rope(x, cos[p], sin[p]))
    sound(report)
    assert max(report.angle_errors) == 2047
    assert "position 2048: the function raised IndexError" in report.notes[0] and "wraps" in report.notes[1]


@pytest.mark.parametrize("grid", [(3, 5), (6, 4), (2, 3, 4)])
def test_cells_of_a_grid(grid):
    rope = pe.Rope(24, freqs=np.eye(len(grid)).repeat(12 // len(grid), axis=1)
                   * np.tile(100.0 ** (-np.arange(12 // len(grid)) / (12 // len(grid))), len(grid)))
    cells = np.stack(np.indices(grid), axis=-1).reshape(-1, len(grid))
    report = check_rope(lambda x: rope.apply(x, cells[None, None]), 24, signature="x", grid=grid, expect=rope)
    sound(report, base=100.0)
    assert report.axis_order == (("row", "column") if len(grid) == 2 else ("axis 0", "axis 1", "axis 2"))


def test_coordinates_normalised_over_a_grid():
    """DINOv3: cell centres from -1 to 1, height first, periods base^(4j/D) over 2 pi."""
    height, width = 4, 6
    row, column = (2 * (np.arange(n) + 0.5) / n - 1 for n in (height, width))
    periods = 100.0 ** (np.arange(16) / 16)
    angle = 2 * np.pi * np.concatenate([np.repeat(row, width)[:, None] / periods,
                                        np.tile(column, height)[:, None] / periods], axis=-1)
    report = check_rope(lambda x: foreign.halves(x, angle), signature="x", grid=(height, width))
    sound(report, layout="half", axis_order=("row", "column"), base=100.0, position_origin=(-1.5, -2.5))
    np.testing.assert_allclose(report.freqs[0, :2], np.pi / periods[:2], rtol=1e-12)


def test_cells_that_count_from_one_are_remarked():
    cell = np.arange(15)
    report = check_rope(lambda x: foreign.axial(x, cell % 5 + 1, cell // 5 + 1), signature="x", grid=(3, 5))
    sound(report, position_origin=(1.0, 1.0), axis_order=("column", "row"))
    assert "Llama 4" in report.notes[0]


@pytest.mark.parametrize("axes", ["BHTD", "BTHD", "TBHD", "HTD", "THD", "BTD", "TD"])
def test_orders_of_axes(axes):
    def apply(x, positions):
        shape = [len(positions) if axis == "T" else 1 for axis in axes[:-1]]
        return foreign.halves(x, foreign.angles(positions, 16).reshape(*shape, 8))

    sound(check_rope(apply, 16, axes=axes), layout="half")


def test_a_function_that_takes_no_float64_is_tried_in_float32():
    def apply(x, positions):
        if x.dtype == np.float64:
            raise TypeError("no float64")
        return pe.apply_rope(x, positions=positions)

    report = check_rope(apply)
    sound(report)
    assert report.notes[0] == "float64 is not taken: the function raised TypeError: no float64"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_one_short_dtype_alone(dtype, layout):
    report = check_rope(lambda q, k, v, positions: (*(pe.apply_rope(x, positions=positions, layout=layout)
                                                      for x in (q, k)), v),
                        dtypes=[dtype], signature="q, k, v, positions")
    sound(report, layout=layout, base=1e4, amplitude=1.0, position_origin=0.0, direction=1)


def test_short_dtypes_that_are_not_taken_are_remarked():
    def apply(x, positions):
        if x.dtype.itemsize == 2:
            raise TypeError(f"no {x.dtype}")
        return pe.apply_rope(x, positions=positions)

    report = check_rope(apply, dtypes=["float64", "float16"])
    sound(report)
    assert report.notes == ("float16 is not taken: the function raised TypeError: no float16",)


# The report


def test_the_report_fits_a_screen_and_says_it_all():
    text = str(check_rope(turned_by(pe.Rope(64, layout="half"))))
    assert text.startswith("a correct rotary encoding\n") and len(text.splitlines()) <= 24
    for words in ("rotation   yes; relative: yes", "half, 64 of 64 coordinates", "base 10000", "at 131071",
                  "counter-clockwise", "amplitude 1"):
        assert words in text
    wrong = check_rope(foreign.vjepa2)
    lines = str(wrong).splitlines()
    assert lines[0] == "1 fault found" and "  rotation   no; relative: no" in lines and len(lines) <= 24
    assert max(map(len, lines)) <= 110 and "    position = [1]" in lines
    assert repr(wrong) == f"<RopeReport 1 fault found: {wrong.causes[0]}>"
    assert repr(check_rope(turned_by(pe.Rope(8)), 8)) == "<RopeReport a correct rotary encoding>"


def test_the_report_in_a_notebook():
    wrong, printed = check_rope(foreign.vjepa2, 8), []
    page = ElementTree.fromstring(f"<div>{wrong._repr_html_()}</div>")
    assert page.find("p/strong").text == "1 fault found"
    rows = {row.find("th").text: row.find("td").text for row in page.iter("tr")}
    assert rows["cause"] == wrong.causes[0] and rows["rotation"] == "no; relative: no"
    assert {*wrong.counterexample} < {*rows}
    wrong._repr_pretty_(SimpleNamespace(text=printed.append), False)
    assert printed == [str(wrong)]


def test_a_base_that_is_the_root_of_a_usual_one_is_noted():
    for base, usual in ((100.0, "10000"), (500000.0**0.5, "500000")):
        report, words = check_rope(turned_by(pe.Rope(64, base))), "are exponents counted l/D instead of 2l/D?"
        assert report.ok and report.notes == (f"base {base:g} is the square root of {usual}: {words}",)
    assert check_rope(turned_by(pe.Rope(64))).notes == ()
    assert check_rope(turned_by(pe.Rope(64, 100.0)), expect=pe.Rope(64, 100.0)).notes == ()


def test_float32_that_comes_back_as_float64_is_noted():
    report = check_rope(lambda x, positions: pe.apply_rope(x.astype(np.float64), positions=positions))
    assert report.ok and "float32 values come back as float64: cos and sin are not cast" in report.notes[0]


def test_float64_that_comes_back_as_float32_is_noted():
    report = check_rope(lambda x, positions: pe.apply_rope(x.astype(np.float32), positions=positions))
    assert report.ok and report.notes == ("float64 values come back as float32",)


def test_an_odd_width_is_named_where_nothing_works():
    def halves(x, positions):
        return pe.apply_rope(x, positions=positions, rope=pe.Rope(64))

    assert "head_dim is 63, expected an even number" in check_rope(halves, 63).causes[0]
    assert "head_dim" not in check_rope(lambda x, positions: x[0], 64).causes[0]


def test_reports_pickle():
    report = check_rope(foreign.vjepa2, 8)
    again = pickle.loads(pickle.dumps(report))
    assert isinstance(again, RopeReport) and str(again) == str(report)


def test_the_function_is_given_copies_and_left_alone():
    seen = []

    def apply(x, positions):
        seen.append((x, positions))
        positions += 0
        return pe.apply_rope(x, positions=positions)

    sound(check_rope(apply, 8))
    assert len({id(x) for x, _ in seen}) == len(seen)
    assert all(x.flags.writeable and x.flags.c_contiguous for x, _ in seen)


def test_bfloat16_needs_its_package(monkeypatch):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    with pytest.raises(ValueError, match="bfloat16, which NumPy has not; import ml_dtypes first"):
        check_rope(lambda x, p: x, dtypes=["float32", "bfloat16"])


@pytest.mark.parametrize(("keywords", "error", "text"), [
    ({"fn": 3}, TypeError, "fn is 3; expected a function"),
    ({"head_dim": 1}, ValueError, "head_dim must be at least 2"),
    ({"head_dim": 64.0}, TypeError, "head_dim must be an integer"),
    ({"signature": "x, pos"}, ValueError, "signature 'x, pos' has 'pos'; expected names of x, q, k"),
    ({"signature": "x, x"}, ValueError, "a name twice"),
    ({"signature": "positions, x"}, ValueError, "does not start with values"),
    ({"signature": "q, positions, k"}, ValueError, "values after positions"),
    ({"signature": "x, pos_x"}, ValueError, "expected both"),
    ({"signature": None}, TypeError, "signature is None"),
    ({"axes": "BHT"}, ValueError, "axes is 'BHT'; expected letters"),
    ({"axes": "BHDT"}, ValueError, "axes is 'BHDT'"),
    ({"axes": "BBTD"}, ValueError, "axes is 'BBTD'"),
    ({"grid": (3, 5)}, ValueError, "a function of values alone; got signature 'x, positions'"),
    ({"grid": (1, 5), "signature": "x"}, ValueError, "grid must be at least 2"),
    ({"n_axes": 0}, ValueError, "n_axes must be at least 1"),
    ({"tables": "both"}, ValueError, "tables is 'both'; expected one of planes, half, interleaved"),
    ({"signature": "x, cos, sin", "n_axes": 2}, ValueError, "tables for 2 axes of positions need expect="),
    ({"expect": "half"}, TypeError, "expect is 'half'; expected a pe.Rope"),
    ({"expect": pe.Rope(32)}, ValueError, "expect is for heads of width 32; head_dim is 64"),
    ({"expect": pe.Rope(64), "signature": "x, pos_x, pos_y"}, ValueError, "expect has 1 axis of"),
    ({"expect": pe.Rope(64), "n_axes": 2}, ValueError, "expect has 1 axis .* the function has 2"),
    ({"dtypes": ["float8"]}, ValueError, "dtypes is"),
    ({"dtypes": []}, ValueError, "dtypes is"),
    ({"max_position": 3}, ValueError, "max_position must be at least 16"),
    ({"tolerance": 0}, ValueError, "tolerance must be a finite number above 0"),
    ({"arrays": "jax"}, ValueError, "arrays is 'jax'"),
])
def test_arguments_that_make_no_sense(keywords, error, text):
    with pytest.raises(error, match=text):
        check_rope(**{"fn": turned_by(pe.Rope(64)), **keywords})
