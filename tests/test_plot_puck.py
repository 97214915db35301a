"""The slide figure: numbers against published ones and the ops; artists against the data."""

import math

import numpy as np
import pytest

import pe
from pe import plot
from pe.plot import data

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')


def test_the_published_numbers():
    printed = {key: text for key, (_, text) in data.slide(-0.5, 7, 4).numbers().items()}
    assert printed == {"gap": "3", "A": "1.0000 3.0000 0.0000 1.0000", "puck": "3.0000, 1.0000",
                       "bias": "−1.5000", "slope": "0.5", "half": "1.3863"}
    assert data.slide(-1 / 256).numbers()["half"][1] == "177.4457"
    after_five = data.slide(-0.5, 5, 0)
    assert after_five.carried.tolist() == [5, 1], "position x + t y, speed still y"


@pytest.mark.parametrize("m, t, s", [(-0.5, 7, 4), (-1 / 256, 200, 0.25), (0.25, 3, 9), (0, 4, 4)])
def test_the_bias_is_the_product_of_the_spare_slots(m, t, s):
    shown, gap = data.slide(m, t, s), t - s
    np.testing.assert_array_equal(shown.A, [[1, gap], [0, 1]])
    assert shown.bias == np.array([m, 0]) @ shown.A @ [0, 1] == m * gap
    assert shown.carried.tolist() == [gap, 1] and shown.ticks[-1].tolist() == [gap, 1]
    assert shown.ticks[0].tolist() == ([0, 1] if abs(gap) >= 1 or not gap else [gap, 1])
    assert (np.abs(np.diff(shown.ticks[:, 0])) <= 1).all() and (shown.ticks[:, 1] == 1).all()
    np.testing.assert_array_equal(shown.square, [[0, 0], [1, 0], [1 + gap, 1], [gap, 1]])
    assert shown.span[0] < min(0, gap) and shown.span[1] > max(8, gap)
    np.testing.assert_array_equal(shown.line, [[end, m * end] for end in shown.span])
    np.testing.assert_array_equal(shown.slopes, 0.5 ** np.arange(1, 9))
    np.testing.assert_array_equal(shown.fan, [[-slope * end for end in shown.span] for slope in shown.slopes])


def test_the_bias_is_that_of_the_op():
    bias = pe.alibi_bias([7], [4], slopes=0.5)
    assert data.slide(-0.5, 7, 4).bias == bias.item()


def test_weights_are_those_of_attention():
    equal = np.ones((8, 4))
    weights = pe.attention_weights(equal, equal, causal=True, alibi_slopes=0.5)[-1]
    np.testing.assert_allclose(data.slide(-0.5).weights, weights, rtol=1e-14)
    assert weights.round(4).tolist() == [0.0121, 0.02, 0.0329, 0.0542, 0.0894, 0.1474, 0.2431, 0.4008]


@pytest.mark.parametrize("m, t, s", [(-0.5, 7, 4), (0.5, 20, 3.5), (-0.25, 4, 9), (0, 4, 4), (-1, 0, 200)])
def test_artists_hold_the_data(m, t, s):
    drawn, shown = plot.slide(m, t, s), data.slide(m, t, s)
    artists = drawn.artists
    np.testing.assert_array_equal(artists["ticks"].get_xydata(), shown.ticks)
    assert artists["puck"].get_xydata().tolist() == [shown.carried.tolist()]
    np.testing.assert_array_equal(artists["square"].get_xy()[:4], shown.square)
    np.testing.assert_array_equal(artists["line"].get_xydata(), shown.line)
    ends = [path.vertices.tolist() for path in artists["fan"].get_paths()]
    low, high = shown.span
    assert ends == [[[low, first], [high, last]] for first, last in shown.fan.tolist()]
    assert artists["point"].get_xydata().tolist() == [[shown.gap, shown.bias]]
    assert [bar.get_height() for bar in artists["weights"]] == shown.weights.tolist()
    for key, (_, text) in shown.numbers().items():
        assert artists["numbers"][key].get_text().split() == text.split()
    assert drawn.ax.get_xlim() == artists["line"].axes.get_xlim() == shown.span
    drawn.figure.canvas.draw()


@pytest.mark.parametrize("width", [3.6, 7, 12])
@pytest.mark.parametrize("m, t, s", [(-0.5, 7, 4), (0.0625, 2, 19), (-1, 0, 200)])
def test_names_of_the_fan_do_not_touch(m, t, s, width):
    drawn = plot.slide(m, t, s, width=width)
    names = [text for text in drawn.artists["line"].axes.texts if text.get_text().startswith("1/")]
    boxes = [text.get_window_extent() for text in names]
    assert names and names[0].get_text() == "1/2"
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:], strict=False))


@pytest.mark.parametrize("m, words, model", [
    (-0.5, "this is ALiBi", "→ ALiBi"), (0.5, "rewards distance", "→ beyond the table"),
    (0, "nothing", "→ NoPE")])
def test_the_sign_of_m_decides_the_words(m, words, model):
    drawn = plot.slide(m)
    assert words in drawn.alt and model in [text.get_text() for text in drawn.figure.texts]


@pytest.mark.parametrize("arguments, error, message", [
    ({"m": True}, TypeError, "m must be a number; got True"),
    ({"t": math.nan}, ValueError, "t must be finite"),
    ({"t": 300, "s": 50}, ValueError, "t and s must lie at most 200 apart; got t=300 and s=50"),
])
def test_bad_input(arguments, error, message):
    for function in (data.slide, plot.slide):
        with pytest.raises(error, match=message):
            function(**arguments)
