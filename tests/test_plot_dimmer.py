"""The fade figure: numbers against published ones, mpmath and the ops; artists against the data."""

import math

import mpmath
import numpy as np
import pytest

import pe
from pe import plot
from pe.plot import data

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')


def test_the_published_table():
    printed = {key: text for key, (_, text) in data.fade(0.1).numbers().items()}
    assert printed == {"gamma": "0.1", "half-life": "6.9315", "gap 5": "0.6065", "gap 10": "0.3679",
                       "gap 25": "0.0821", "gap 50": "0.006738", "gap 100": "0.00004540",
                       "future": "148.4132"}


@pytest.mark.parametrize("gamma, gap", [(0.1, 10), (0.005, 150.5), (3, 2), (-0.05, -60), (0, 10)])
def test_every_multiplier_against_mpmath(gamma, gap):
    shown = data.fade(gamma, gap)
    pairs = [(shown.gap, shown.multiplier), *shown.table.items(), *shown.rulers, *shown.lamps, *shown.line,
             *zip(shown.gaps, shown.curve, strict=True)]
    with mpmath.workdps(40):
        for u, multiplier in pairs:
            assert multiplier == pytest.approx(float(mpmath.exp(-mpmath.mpf(gamma) * mpmath.mpf(float(u)))),
                                               rel=1e-13)
    assert len(shown.lamps) <= 51 and (shown.lamps[:, 0] == np.round(shown.lamps[:, 0])).all()
    assert min(shown.line[:, 0]) <= min(-50, gap) and max(shown.line[:, 0]) >= max(100, gap)
    if gamma > 0:
        assert shown.rulers[:, 1] == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.03125], rel=1e-14)
        assert shown.half_life == pytest.approx(math.log(2) / gamma, rel=1e-15)
    else:
        assert shown.half_life is None and not len(shown.rulers)


def test_weights_are_those_of_attention():
    equal = np.ones((8, 4))
    weights = pe.attention_weights(equal, equal, causal=True, decay_rate=0.1)[-1]
    np.testing.assert_allclose(data.fade(0.1).weights, weights, rtol=1e-14)
    assert weights[[0, -1]].round(4).tolist() == [0.0858, 0.1728]
    np.testing.assert_array_equal(data.fade(0).weights, np.full(8, 0.125))


@pytest.mark.parametrize("gamma, gap", [(0.1, 10), (0.02, 3), (0, 10), (-0.05, 20), (4, 100)])
def test_artists_hold_the_data(gamma, gap):
    drawn, shown = plot.fade(gamma, gap), data.fade(gamma, gap)
    artists = drawn.artists
    np.testing.assert_array_equal(artists["curve"].get_xydata(), np.transpose([shown.gaps, shown.curve]))
    np.testing.assert_array_equal(artists["lamps"].get_offsets()[:, 0], shown.lamps[:, 0])
    np.testing.assert_allclose(artists["lamps"].get_facecolors()[:, 3], shown.lamps[:, 1] / max(
        1, shown.curve.max()))
    corners = [path.vertices.tolist() for path in artists["rulers"].get_paths()]
    assert corners == [[[0, y], [x, y], [x, 0]] for x, y in shown.rulers.tolist()]
    np.testing.assert_array_equal(artists["line"].get_xydata(), shown.line)
    for name in ("point", "marked"):
        assert artists[name].get_xydata().tolist() == [[shown.gap, shown.multiplier]]
    assert artists["future"].get_xydata().tolist() == [[-50, shown.table[-50]]]
    assert [bar.get_height() for bar in artists["weights"]] == shown.weights.tolist()
    printed = {key: text.get_text() for key, text in artists["numbers"].items()}
    assert printed == {key: text for key, (_, text) in shown.numbers().items()}
    axes = artists["line"].axes
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log" and low < shown.line[:, 1].min() and shown.line[:, 1].max() < high
    drawn.figure.canvas.draw()


@pytest.mark.parametrize("gamma, name, words", [
    (0.1, "fade", "A fade halves"), (0, "nothing", "nothing fades"), (-0.05, "explode", "explodes")])
def test_the_sign_of_the_rate_decides_words_and_colour(gamma, name, words):
    from matplotlib.colors import to_hex

    drawn = plot.fade(gamma)
    texts = [text.get_text() for text in drawn.figure.texts]
    assert words in drawn.alt and name in texts
    assert to_hex(drawn.artists["curve"].get_color()) == plot.style.PALETTE["light"][name]


@pytest.mark.parametrize("arguments, error, message", [
    ({"gamma": None}, TypeError, "gamma must be a number; got None of type NoneType"),
    ({"gap": math.inf}, ValueError, "gap must be finite"),
    ({"gamma": 5}, ValueError, "gamma must be at most 4 in size where gaps reach from -50 to 100"),
    ({"gamma": 1e-9, "gap": 1e15}, ValueError, "gamma must be at most 4e-13 in size"),
])
def test_bad_input(arguments, error, message):
    for function in (data.fade, plot.fade):
        with pytest.raises(error, match=message):
            function(**arguments)
