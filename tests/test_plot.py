"""The static generator figure: its artists carry the data, it changes with X, and it leaves pyplot alone."""

import io
import subprocess
import sys

import numpy as np
import pytest

from pe import plot
from pe.plot import data, style, trajectories

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')

PRESETS = {name: ([[a, b], [c, d]], u) for name, (a, b, c, d, u) in data.PRESETS.items()}


def pixels(figure):
    from matplotlib.image import imread

    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=60)
    return imread(io.BytesIO(stream.getvalue()))


@pytest.mark.parametrize("name", PRESETS)
def test_artists_hold_the_data(name):
    X, u = PRESETS[name]
    drawn, shown = plot.generator(X, u), data.generator(X, u)
    artists = drawn.artists
    for path, curve in zip(artists["flow"].get_paths(), trajectories.flow(X), strict=True):
        np.testing.assert_array_equal(path.vertices, curve)
    assert len(artists["heads"].get_paths()) == len(trajectories.heads(trajectories.flow(X)))
    np.testing.assert_array_equal(artists["square"].get_xy()[:4], shown.square)
    np.testing.assert_array_equal(np.transpose(artists["trail"].get_data()), shown.trail)
    np.testing.assert_array_equal(np.ravel(artists["point"].get_data()), shown.point)
    np.testing.assert_array_equal(np.transpose(artists["still"].get_data()), trajectories.still(X))
    values = [[v.real, v.imag] for v in shown.eigenvalues]
    np.testing.assert_allclose(artists["eigenvalues"].get_offsets(), values)
    np.testing.assert_allclose(np.ravel(artists["invariants"].get_data()), [shown.trace, shown.determinant])
    for key, (_, text) in shown.numbers().items():
        assert artists["numbers"][key].get_text().split() == text.split()
    assert drawn.data.kind == ("mixed" if name == "saddle" else name)
    assert drawn.ax.get_figure() is drawn.figure
    assert shown.words["title"] in drawn.alt and shown.numbers()["x"][1] in drawn.alt
    assert drawn.ax.get_xlim() == drawn.ax.get_ylim() == (-3, 3)


def test_pictures_are_drawn_and_differ():
    images = {name: pixels(plot.generator(X, u).figure) for name, (X, u) in PRESETS.items()}
    for name, image in images.items():
        assert np.mean(np.abs(image - image[0, 0]).max(axis=-1) > 0.05) > 0.1, f"{name} is nearly blank"
        for other in images:
            assert (name == other) == np.array_equal(image, images[other])
    later = pixels(plot.generator([[0, -1], [1, 0]], 1.5).figure)
    assert np.mean(np.abs(later - images["turn"]).max(axis=-1) > 0.05) > 0.005


def test_given_axes_get_the_portrait_alone():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2))
    ax, other = figure.subplots(1, 2)
    drawn = plot.generator([[0, 1], [0, 0]], 1, ax=ax)
    assert drawn.ax is ax and drawn.figure is figure and len(figure.axes) == 2
    assert tuple(figure.get_size_inches()) == (3, 2) and not other.has_data()
    assert "numbers" not in drawn.artists


def test_pyplot_is_left_alone():
    import matplotlib
    import matplotlib.pyplot as plt

    before, settings = plt.get_fignums(), dict(matplotlib.rcParams)
    plot.generator([[0, -1], [1, 0]])
    assert plt.get_fignums() == before and dict(matplotlib.rcParams) == settings


def test_far_points_are_drawn_in_finite_time():
    drawn = plot.generator([[2, 2], [2, 2]], 20)
    assert drawn.data.point[0] > 1e34 and np.abs(drawn.artists["trail"].get_data()).max() <= 50.01
    pixels(drawn.figure)
    drawn = plot.generator([[2, 1], [1, 0]], 5)
    for vector, (x, y) in zip(drawn.artists["vectors"], drawn.data.A.T, strict=True):
        assert min(x, y) > 50 and vector.xy[1] / vector.xy[0] == pytest.approx(y / x), "held in its direction"


def test_nothing_leaves_the_frame():
    """Neither arrows nor the solution, which waits at the edge as a ring once it is outside."""
    card = pixels(plot.generator([[-2, 0], [0, 2]], 0).figure)
    later = pixels(plot.generator([[-2, 0], [0, 2]], 2).figure)
    above = slice(None, round(0.13 * len(card)))     # the title
    np.testing.assert_array_equal(card[above], later[above])
    inside, lost = (plot.generator([[0, 1], [0, 0]], u).artists["point"] for u in (1, 5))
    assert lost.get_xydata().tolist() == [[2.88, 0.48]]
    assert lost.get_markerfacecolor() == style.colours("light")["panel"] == inside.get_markeredgecolor()
    assert lost.get_markeredgecolor() == style.colours("light")["slide"] == inside.get_markerfacecolor()


def test_themes():
    light, dark = (pixels(plot.generator(*PRESETS["turn"], theme=theme).figure)
                   for theme in ("light", "dark"))
    assert light[0, 0, :3].min() == 1 and dark[0, 0, :3].max() < 0.15
    with pytest.raises(ValueError, match='theme must be "light", "dark" or "print", got \'sepia\''):
        plot.generator([[0, -1], [1, 0]], theme="sepia")


def test_unknown_keyword():
    with pytest.raises(TypeError):
        plot.generator([[0, -1], [1, 0]], colour="red")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_contrast(theme):
    def luminance(colour):
        linear = [(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4)
                  for v in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    palette = style.colours(theme)
    for name in ("ink", "muted", "turn", "fade", "slide", "explode", "nothing"):
        for ground in ("card", "panel"):
            low, high = sorted([luminance(palette[name]), luminance(palette[ground])])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)


def test_importing_loads_no_plotting_library():
    code = ("import sys, pe, pe.plot, pe.explore; "
            "print([m for m in ('matplotlib', 'scipy', 'IPython', 'anywidget', 'PIL') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip() == "[]"
