"""The page the figures share: nothing overlaps at any width, and user's axes stay the user's."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import pe
from pe import plot
from pe.plot import style

pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "turn-fade-slide[plot]"')

YARN = pe.Rope(128, 1e6, scaling=pe.scaling.yarn(4.0, original_max_position_embeddings=32768))


def rope(context=None, **kwargs):
    return plot.rope(YARN, context, **kwargs)


FIGURES = {"turn": plot.turn, "fade": plot.fade, "slide": plot.slide, "rope": rope}
THEMES = ("light", "dark", "print")
everyone = pytest.mark.parametrize("name", FIGURES)


def boxes(figure):
    """Return the window extents of the page's texts and panels, with what they hold."""
    figure.canvas.draw()
    texts = [(text.get_text(), text.get_window_extent()) for text in figure.texts]
    return texts + [("a panel", ax.get_tightbbox()) for ax in figure.axes]


@pytest.mark.parametrize("width", [3.4, 3.6, 6.2, 7, 12])
@everyone
def test_nothing_overlaps_or_leaves_the_page(name, width):
    figure = FIGURES[name](width=width).figure
    placed = boxes(figure)
    assert figure.get_figwidth() == width and len(placed) > 12
    for (one, box), (other, place) in itertools.combinations(placed, 2):
        shared = box.intersection(box, place)
        assert shared is None or min(shared.width, shared.height) < 1, (one, other)
    for words, box in placed:
        assert min(box.x0, box.y0) >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, words


@everyone
def test_type_keeps_its_size(name):
    sizes = [{text.get_text(): text.get_fontsize() for text in FIGURES[name](width=width).figure.texts}
             for width in (3.6, 12)]
    shared = set(sizes[0]) & set(sizes[1])
    assert len(shared) > 5 and all(sizes[0][words] == sizes[1][words] >= 7 for words in shared)


@everyone
def test_given_axes_get_the_first_panel_alone(name):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3))
    ax, other = figure.subplots(1, 2)
    drawn = FIGURES[name](ax=ax)
    assert drawn.ax is ax and drawn.figure is figure and not drawn.owned
    assert figure.axes == [ax, other] and not other.has_data() and not figure.texts
    assert tuple(figure.get_size_inches()) == (6, 3) and "numbers" not in drawn.artists
    assert set(drawn._repr_mimebundle_()[0]) == {"text/plain"}, "the reader's own figure is shown once"


@everyone
def test_subfigures(name):
    from matplotlib.figure import Figure

    part, _ = Figure(figsize=(7, 3)).subfigures(1, 2)
    assert FIGURES[name](ax=part.subplots()).figure is part


@everyone
def test_themes(name):
    from matplotlib.colors import to_hex

    for theme in THEMES:
        drawn = FIGURES[name](theme=theme)
        palette = style.colours(theme)
        assert to_hex(drawn.figure.get_facecolor()) == palette["card"]
        assert all(to_hex(ax.get_facecolor()) == palette["panel"] for ax in drawn.figure.axes)
    with pytest.raises(ValueError, match='theme must be "light", "dark" or "print", got \'sepia\''):
        FIGURES[name](theme="sepia")


@everyone
def test_width(name):
    for width in (3.3, 41, float("nan")):
        with pytest.raises(ValueError, match=f"width must lie between 3.4 and 40 inches; got {width}"):
            FIGURES[name](width=width)
    with pytest.raises(TypeError):
        FIGURES[name](colour="red")


@everyone
def test_a_notebook_shows_a_picture_with_alt_text(name, tmp_path):
    drawn = FIGURES[name]()
    content, metadata = drawn._repr_mimebundle_()
    assert content["image/png"].startswith(b"\x89PNG") and drawn.png() == content["image/png"]
    drawn.save(tmp_path / "figure.svg")
    assert b"<svg" in (tmp_path / "figure.svg").read_bytes()
    assert f'<img alt="{drawn.alt}" src="data:image/png;base64,' in content["text/html"]
    assert metadata["image/png"] == {"vscode_altText": drawn.alt} and content["text/plain"] == repr(drawn)
    assert drawn.alt in repr(drawn) and "0x" not in repr(drawn)


@everyone
def test_the_same_call_gives_the_same_bytes(name):
    assert FIGURES[name]().png() == FIGURES[name]().png()


@everyone
def test_pyplot_is_left_alone(name):
    import matplotlib
    import matplotlib.pyplot as plt

    before, settings = plt.get_fignums(), dict(matplotlib.rcParams)
    FIGURES[name]()
    assert plt.get_fignums() == before and dict(matplotlib.rcParams) == settings


def test_behaviours_differ_by_dash_as_well_as_colour():
    dashes = [str(drawn.artists[line].get_linestyle()) + str(drawn.artists[line]._unscaled_dash_pattern)
              for drawn, line in ((plot.turn(), "curve"), (plot.fade(), "curve"), (plot.slide(), "line"))]
    assert len(set(dashes)) == 3


@everyone
def test_pictures_change_with_their_parameter(name):
    def pixels(drawn):
        drawn.figure.canvas.draw()
        return np.asarray(drawn.figure.canvas.buffer_rgba()).astype(int)

    first, second = pixels(FIGURES[name]()), pixels(FIGURES[name](1))
    ink = np.abs(first - first[0, 0]).max(axis=-1) > 12
    assert ink.mean() > 0.05
    assert first.shape != second.shape or (np.abs(first - second).max(axis=-1) > 12).mean() > 0.002


def test_without_matplotlib_the_extra_is_named():
    code = ("import sys; sys.modules['matplotlib'] = None; import pe\n"
            "assert pe.plot.data.turn().gap == 3\n"
            "for draw in (pe.plot.turn, pe.plot.fade, pe.plot.slide, lambda: pe.plot.rope(pe.Rope(8)),\n"
            "             lambda: pe.plot.generator([[0, 1], [0, 0]])):\n"
            "    try: draw()\n"
            "    except ImportError as error: print(error)\n")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ['this figure needs matplotlib: pip install "turn-fade-slide[plot]"'] * 5
