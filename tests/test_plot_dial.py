"""The turn figure: numbers against published ones, mpmath and the ops; artists against the data."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import pe
from pe import plot
from pe.plot import data

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')

# w_k, full turn and score of source document 1 (The Dog, the Man, and the Clock), d = 16, base 10000
PUBLISHED = [(1.0, 6), (0.316, 20), (0.1, 63), (0.032, 199), (0.01, 628), (0.0032, 2000), (0.001, 6000),
             (0.00032, 20000)]


def test_the_published_table():
    shown = data.turn()
    for w, every, (published, turn) in zip(shown.freqs, shown.wavelengths, PUBLISHED, strict=True):
        assert w == pytest.approx(published, rel=0.02) and every == pytest.approx(turn, rel=0.06)
    assert [shown.captions()[k] for k in (0, 1, 7)] == [
        ("w 1.0000", "T 6.283", "cos −0.9900"), ("w 0.3162", "T 19.87", "cos 0.5828"),
        ("w 0.0003162", "T 19869", "cos 1.0000")]


def test_the_published_scores():
    shown = data.turn(5, 2)
    assert list(shown.moved) == [(13, 10), (103, 100)]
    assert {key: text for key, (_, text) in shown.numbers().items()} == {
        "gap": "3", "angle": "3.0000", "score": "5.5431", "moved": "5.5431", "far": "5.5431",
        "other": "5.8922"}
    for gap, score in ((0, 8.0), (1, 7.4852), (6, 6.4448), (8, 4.6972)):
        assert shown.curve[shown.gaps == gap] == pytest.approx(score, abs=5e-5)
    one = data.turn(5, 2, freqs=0.5)
    assert one.numbers()["angle"][1] == "1.5000" and one.numbers()["score"][1] == "0.0707"


@pytest.mark.parametrize("t, s, alpha, beta", [(5, 2, 0, 0), (2, 9.25, 0.5, -0.3), (2000, 7, 0, 1)])
def test_scores_against_mpmath_and_the_op(t, s, alpha, beta):
    shown = data.turn(t, s, alpha=alpha, beta=beta)
    with mpmath.workdps(40):
        w = [mpmath.mpf(10) ** (-mpmath.mpf(k) / 2) for k in range(8)]
        exact = [mpmath.cos(alpha - mpmath.mpf(beta) + wk * (mpmath.mpf(t) - s)) for wk in w]
        assert shown.score == pytest.approx(float(sum(exact)), abs=1e-11)
        np.testing.assert_allclose(np.cos(shown.angles), [float(v) for v in exact], atol=1e-12)
    content = np.repeat([[alpha], [beta]], 8, axis=1)
    turned = pe.apply_rope(np.stack([np.cos(content), np.sin(content)], axis=-1).reshape(2, 16),
                           positions=[t, s], rope=pe.Rope(16))
    np.testing.assert_allclose(turned.reshape(2, 8, 2), [shown.query, shown.key], atol=1e-14)
    assert shown.score == pytest.approx(turned[0] @ turned[1], abs=1e-13)
    assert all(score == pytest.approx(shown.score, abs=1e-11) for score in shown.moved.values())
    np.testing.assert_allclose(np.interp(shown.gap, shown.gaps, shown.curve), shown.score, atol=0.01)


def test_weights_are_those_of_attention():
    equal = np.tile([1.0, 0.0], (8, 8))
    weights = pe.attention_weights(equal, equal, causal=True, rope=pe.Rope(16))[-1]
    np.testing.assert_allclose(data.turn().weights, weights, rtol=1e-14)
    assert weights.round(4).tolist() == [0.1069, 0.1227, 0.1136, 0.0983, 0.0979, 0.1204, 0.1591, 0.181]


def test_many_planes_and_planes_that_stand_still():
    shown = data.turn(5, 2, freqs=pe.Rope(128).freqs)
    assert len(shown.freqs) == 64 and shown.dials.tolist() == [0, 9, 18, 27, 36, 45, 54, 63]
    assert "8 of 64" in " ".join(text.get_text() for text in plot.turn(freqs=shown.freqs).figure.texts)
    still = data.turn(5, 2, freqs=[1, 0])
    assert still.wavelengths[1] == math.inf and still.captions()[1] == ("w 0.0000", "T ∞", "cos 1.0000")
    plot.turn(freqs=[1, 0])


def hands(artists, name):
    return np.array([line.get_xydata() for line in artists[name]])


@pytest.mark.parametrize("t, s, count", [(5, 2, 8), (2, 9.5, 3), (-4, 6, 1)])
def test_artists_hold_the_data(t, s, count):
    freqs = pe.Rope(2 * count).freqs
    drawn, shown = plot.turn(t, s, freqs=freqs), data.turn(t, s, freqs=freqs)
    for name, vectors in (("query", shown.query), ("key", shown.key)):
        lines = hands(drawn.artists, name)
        spokes = lines[:, 1] - lines[:, 0]
        spokes /= np.linalg.norm(spokes, axis=1, keepdims=True)
        np.testing.assert_allclose(spokes, vectors, atol=1e-12)
    np.testing.assert_array_equal(hands(drawn.artists, "query")[:, 0], hands(drawn.artists, "key")[:, 0])
    for wedge, key, angle in zip(drawn.artists["wedges"], shown.key, shown.angles, strict=True):
        start = wedge.theta1 if angle >= 0 else wedge.theta2
        np.testing.assert_allclose(np.exp(1j * math.radians(start)), complex(*key), atol=1e-12)
        assert math.radians(wedge.theta2 - wedge.theta1) == pytest.approx(math.fmod(abs(angle), 2 * math.pi))
    curve = drawn.artists["curve"].get_xydata()
    np.testing.assert_array_equal(curve, np.transpose([shown.gaps, shown.curve]))
    dots = drawn.artists["whole"].get_xydata()
    assert len(dots) == 21 and (dots[:, 0] == np.round(dots[:, 0])).all()
    assert drawn.artists["point"].get_xydata().tolist() == [[shown.gap, shown.score]]
    assert [bar.get_height() for bar in drawn.artists["weights"]] == shown.weights.tolist()
    printed = {key: text.get_text() for key, text in drawn.artists["numbers"].items()}
    assert printed == {key: text for key, (_, text) in shown.numbers().items()}
    words = {text.get_text() for text in drawn.ax.texts}
    assert {line for caption in shown.captions() for line in caption} == words


def test_dials_are_round_and_lie_inside_the_axes():
    for width in (3.6, 7.2, 12):
        drawn = plot.turn(width=width)
        drawn.figure.canvas.draw()
        circles = [patch for patch in drawn.ax.patches if type(patch).__name__ == "Circle"]
        boxes = [circle.get_window_extent() for circle in circles]
        assert len(boxes) == 8 and len(drawn.ax.texts) == 24
        captions = [text.get_window_extent() for text in drawn.ax.texts]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(captions, 2))
        for k, box in enumerate(boxes):
            assert box.width == pytest.approx(box.height) and box.width > 40
            assert drawn.ax.bbox.containsx(box.x0) and drawn.ax.bbox.containsy(box.y1)
            assert not any(box.overlaps(other) for other in boxes[:k])


def test_small_axes_leave_the_captions_out():
    from matplotlib.figure import Figure

    drawn = plot.turn(ax=Figure(figsize=(2, 1.6)).add_axes((0, 0, 1, 1)))
    assert len(drawn.artists["query"]) == 8 and not drawn.ax.texts


@pytest.mark.parametrize("arguments, error, message", [
    ({"t": "5"}, TypeError, "t must be a number; got '5'"),
    ({"s": math.nan}, ValueError, "s must be finite"),
    ({"alpha": math.inf}, ValueError, "alpha must be finite"),
    ({"freqs": []}, ValueError, r"freqs must have shape \(L,\) or \(1, L\), one position axis; got shape"),
    ({"freqs": [[1, 2], [3, 4]]}, ValueError, r"got shape \(2, 2\)"),
    ({"freqs": [1, -0.5]}, ValueError, "freqs must be finite and not negative; got -0.5"),
    ({"freqs": [1, math.nan]}, ValueError, "freqs must be finite and not negative; got nan"),
])
def test_bad_input(arguments, error, message):
    for function in (data.turn, plot.turn):
        with pytest.raises(error, match=message):
            function(**arguments)
