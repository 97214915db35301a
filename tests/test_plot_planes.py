"""The rope figure: its numbers against `Rope` and published formulas, its artists against its data."""

import math

import numpy as np
import pytest

import pe
from pe import plot
from pe.plot import data

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')

ROPES = {
    "plain": (pe.Rope(16), None),
    "context": (pe.Rope(16), 2048),
    "short context": (pe.Rope(16), 2),
    "linear": (pe.Rope(16, scaling=pe.scaling.linear(4.0)), None),
    "ntk": (pe.Rope(16, scaling=pe.scaling.ntk(4.0)), 8192),
    "yarn": (pe.Rope(128, 1e6, scaling=pe.scaling.yarn(4.0, original_max_position_embeddings=32768)), None),
    "proportional": (pe.Rope(64, scaling=pe.scaling.proportional(0.5)), 4096),
    "two axes": (pe.Rope(8, freqs=[[1, 0.1, 0, 0], [0, 0, 1, 0.1]]), 100),
}
each = pytest.mark.parametrize("name", ROPES)


def test_without_a_scaling():
    shown = data.rope(pe.Rope(16), 2048)
    np.testing.assert_allclose(shown.after, [2 * math.pi * 10000 ** (k / 8) for k in range(8)], rtol=1e-14)
    np.testing.assert_array_equal(shown.before, shown.after)
    assert shown.incomplete() == (2, 2) and shown.counted() == {}
    assert {key: text for key, (_, text) in shown.numbers().items()} == {
        "planes": "8", "shortest": "6.283", "longest": "19869", "context": "2048", "incomplete": "2"}


def test_position_interpolation_stretches_every_plane():
    shown = data.rope(*ROPES["linear"])
    np.testing.assert_allclose(shown.after, 4 * shown.before, rtol=1e-15)
    np.testing.assert_allclose(shown.stretch, 4, rtol=1e-15)
    assert shown.counted() == {"divided": 8} and shown.incomplete() is None


def test_ntk_keeps_the_first_plane_and_divides_the_last_by_the_factor():
    shown = data.rope(*ROPES["ntk"])
    ratios = [1, 0.8203, 0.6730, 0.5520, 0.4529, 0.3715, 0.3048, 0.25]
    np.testing.assert_allclose(1 / shown.stretch, ratios, atol=5e-5)


def test_yarn():
    shown = data.rope(*ROPES["yarn"])
    assert (shown.trained, shown.context) == (32768, 131072)
    printed = {key: text for key, (_, text) in shown.numbers().items()}
    assert printed["longest"] == "5063256 → 2.025e+07" and printed["incomplete"] == "17 → 24"
    assert printed["amplitude"] == "1.2965", "(0.1 ln 4 + 1)^2"


def test_planes_that_stop():
    shown = data.rope(*ROPES["proportional"])
    assert np.isinf(shown.after[16:]).all() and np.isfinite(shown.after[:16]).all()
    assert shown.counted() == {"kept": 16, "stopped": 16}
    assert shown.numbers()["longest"][1] == "47117 → ∞"
    drawn = plot.rope(*ROPES["proportional"])
    assert "stand still" in [text.get_text() for text in drawn.ax.texts]


@each
def test_the_table_says_the_same(name):
    rope, context = ROPES[name]
    shown, table = data.rope(rope, context), rope.explain(context)
    assert shown.context == table.context and len(shown.planes) == len(table.planes)
    for k, row in enumerate(table.planes):
        assert (shown.axes[k], shown.planes[k], shown.changes[k]) == (row.axis, row.plane, row.change)
        assert shown.after[k] == pytest.approx(row.wavelength, rel=1e-15)
        if row.turns and np.isfinite(row.divisor):
            assert shown.before[k] * row.divisor == pytest.approx(row.wavelength, rel=1e-14)
    if shown.context is not None:
        assert shown.incomplete()[1] == len(table.incomplete)


@each
def test_artists_hold_the_data(name):
    drawn, shown = plot.rope(*ROPES[name]), data.rope(*ROPES[name])
    artists, scaled = drawn.artists, ROPES[name][0].scaling is not None
    low, top = drawn.ax.get_ylim()
    assert drawn.ax.get_yscale() == "log" and low < shown.after.min()
    for axis, line in zip(np.unique(shown.axes), artists["after"], strict=True):
        mine = shown.axes == axis
        expected = np.transpose([shown.planes, np.minimum(shown.after, top)])[mine]
        np.testing.assert_array_equal(line.get_xydata(), expected)
    assert len({line.get_marker() for line in artists["after"]}) == len(artists["after"])
    if scaled:
        np.testing.assert_array_equal(artists["before"].get_xydata(),
                                      np.transpose([shown.planes, shown.before]))
        turning = np.isfinite(shown.stretch)
        np.testing.assert_array_equal(artists["stretch"].get_xydata(),
                                      np.transpose([shown.planes, shown.stretch])[turning])
    assert scaled == ("stretch" in artists) == ("stems" in artists)
    heights = sorted(line.get_ydata()[0] for line in artists["contexts"])
    assert all(low < height < top for height in heights)
    assert heights == sorted(v for v in (shown.trained, shown.context) if v is not None)
    printed = {key: text.get_text() for key, text in artists["numbers"].items()}
    assert printed == {key: text for key, (_, text) in shown.numbers().items()}
    drawn.figure.canvas.draw()


def test_the_description():
    assert plot.rope(pe.Rope(16), 2048).alt == (
        "From neighbours to documents: a bank of clocks. 2 of 8 never complete a turn in 2048 positions.")
    assert plot.rope(pe.Rope(16, scaling=pe.scaling.linear(4.0))).alt == (
        "linear: 8 planes divided. 8 planes, turns of 6.283 → 25.13 to 19869 → 79477 positions.")


@pytest.mark.parametrize("arguments, error, message", [
    ((64,), TypeError, "rope must be a pe.Rope; got 64 of type int"),
    ((pe.Rope(16), "2048"), TypeError, "context must be a number; got '2048'"),
    ((pe.Rope(16), -1), ValueError, "context must be a finite number above 0; got -1"),
    ((pe.Rope(4, freqs=[0, 0]),), ValueError, "rope has no plane that turns"),
])
def test_bad_input(arguments, error, message):
    for function in (data.rope, plot.rope):
        with pytest.raises(error, match=message):
            function(*arguments)
