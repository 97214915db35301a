"""The static generator figure: phase portrait, eigenvalues, trace and determinant, class and numbers."""

from __future__ import annotations

import numpy as np

from pe.plot import data as numbers
from pe.plot import style
from pe.plot.result import Plot, matplotlib_figure
from pe.plot.sheet import MONO, SERIF, dash, halo
from pe.plot.trajectories import FRAME, flow, heads, still

__all__ = ["MONO", "SERIF", "draw_portrait", "generator"]


def generator(X, u=1.0, *, ax=None, theme="light"):
    """Draw the flow of x' = Xx and what A(u) = exp(uX) does to the unit square.

    Parameters
    ----------
    X : array_like, shape (2, 2)
        The generator.
    u : float
        The gap.
    ax : matplotlib.axes.Axes, optional
        Draw the phase portrait here and nothing else. Default: a new figure, not registered with pyplot, with
        eigenvalues, trace, determinant, class and numbers beside it.
    theme : {"light", "dark", "print"}
        Colours.

    Returns
    -------
    Plot
        With artists "flow", "heads", "still", "square", "trail", "point", "vectors", and in a figure of its
        own "eigenvalues", "invariants" and "numbers".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If X is not a finite 2 x 2 matrix or the theme is unknown.

    Examples
    --------
    >>> import pe
    >>> drawn = pe.plot.generator([[0, -1], [1, 0]], 0.8)
    >>> drawn.data.name, drawn.data.numbers()["x"][1]
    ('turn', '(−0.0206, 1.4141)')
    """
    colours = style.colours(theme)
    shown = numbers.generator(X, u)
    texts = {key: text for key, (_, text) in shown.numbers().items()}
    artists, owned = {}, ax is None
    if owned:
        figure = matplotlib_figure(figsize=(7.2, 4.4), facecolor=colours["card"])
        ax = figure.add_axes((0.028, 0.045, 0.5, 0.818))
        artists |= _beside(figure, shown, colours)
    artists |= draw_portrait(ax, shown, colours)
    alt = f"{shown.words['title']}. Eigenvalues {texts['eigenvalues']}, x(u) = {texts['x']}."
    return Plot(shown, ax, ax.get_figure(), artists, alt, owned)


def _plane(ax, reach, colours, ticks):
    """Set up a square plot over [-reach, reach]^2: panel fill, quiet grid, zero lines, no frame."""
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", facecolor=colours["panel"],
           xticks=ticks, yticks=ticks)
    ax.tick_params(length=0, labelleft=False, labelbottom=False)
    ax.grid(color=colours["grid"], linewidth=0.8)
    ax.set_axisbelow(True)
    ax.axhline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.axvline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.spines[:].set_visible(False)


def draw_portrait(ax, shown, colours):
    """Draw the phase portrait into `ax` and return its artists."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.patches import Polygon

    accent = colours[shown.words["accent"]]
    _plane(ax, FRAME, colours, range(-2, 3))
    for at in (-2, -1, 1, 2):
        word = str(at).replace("-", numbers.MINUS)
        for x, y in ((at, -FRAME + 0.16), (-FRAME + 0.22, at)):
            ax.text(x, y, word, color=colours["muted"], fontsize=8, ha="center", va="center", zorder=3.5,
                    bbox={"boxstyle": "round,pad=0.2", "facecolor": colours["panel"], "edgecolor": "none"})
    curves = flow(shown.X)
    marks = heads(curves)
    fixed = still(shown.X)

    def near(points):
        """Hold far points, each in its direction, outside the frame: dashes over 1e34 units take for ever."""
        return points / np.maximum(1, np.abs(points).max(axis=-1, keepdims=True) / 50)

    artists = {
        "flow": ax.add_collection(LineCollection(curves, colors=accent, linewidths=0.9, alpha=0.5, zorder=2)),
        "still": ax.plot(*fixed.T, linestyle="", marker="o", markersize=1.8, color=colours["axis"],
                         zorder=2)[0],
        "heads": ax.add_collection(PolyCollection(_triangles(marks), facecolors=accent, zorder=3)),
        "square": ax.add_patch(Polygon(near(shown.square), facecolor=(accent, 0.16), edgecolor=accent,
                                       linewidth=0.9, linestyle=(0, (4, 3)), zorder=4)),
        "trail": ax.plot(*near(shown.trail).T, color=accent, linewidth=1.7,
                         linestyle=dash(shown.words["accent"]), zorder=5)[0],
    }
    for direction in shown.directions or []:
        ax.axline((0, 0), direction, color=colours["ink"], linewidth=0.8, alpha=0.3, zorder=2)
    ax.add_patch(Polygon([[0, 0], [1, 0], [1, 1], [0, 1]], fill=False, edgecolor=colours["muted"],
                         linewidth=0.8, linestyle=(0, (2, 3)), zorder=4))
    artists["vectors"] = [ax.annotate(
        "", near(tip), (0, 0), annotation_clip=False, zorder=6,
        arrowprops={"arrowstyle": "-|>,head_width=.22,head_length=.5", "color": colours["ink"],
                    "linewidth": 1.6, "linestyle": stroke, "shrinkA": 0, "shrinkB": 0, "clip_on": True},
    ) for tip, stroke in ((shown.A[:, 0], "-"), (shown.A[:, 1], (0, (1.2, 1.6)))) if np.hypot(*tip) > 0.05]
    for vector in artists["vectors"]:
        vector.arrow_patch.set_clip_path(ax.patch)     # an annotation is not clipped by itself
    out, edge = np.abs(shown.point).max(), FRAME - 0.12
    lost = out > edge      # a solution that has left waits at the edge, as a ring
    x, y = shown.point * (edge / out if lost else 1)
    face, rim = (colours["panel"], accent) if lost else (accent, colours["panel"])
    artists["point"] = ax.plot(x, y, marker="o", markersize=7, color=face, markeredgecolor=rim,
                               markeredgewidth=1.3, zorder=7)[0]
    c, s = (x, y) / max(np.hypot(x, y), 1e-9)
    at, side = (x + 0.15 * c, y + 0.24 * s), "left" if c > 0.5 else "right" if c < -0.5 else "center"
    if max(abs(x), abs(y)) > FRAME - 0.6:      # no room outside: above or below, held inside
        at, side = (x, y + (0.36 if y < 0 else -0.36)), "right" if x > 0 else "left"
    ax.text(*at, "x(u)", color=colours["ink"], fontsize=10, va="center", zorder=8, ha=side,
            path_effects=halo(colours), **SERIF)
    return artists


def _triangles(marks, size=0.062):
    corner = size * np.array([[1.0, 0.0], [-1.0, 0.7], [-1.0, -0.7]])
    cos, sin = np.cos(marks[:, 2]), np.sin(marks[:, 2])
    turned = np.stack([cos[:, None] * corner[:, 0] - sin[:, None] * corner[:, 1],
                       sin[:, None] * corner[:, 0] + cos[:, None] * corner[:, 1]], axis=-1)
    return turned + marks[:, None, :2]


def _beside(figure, shown, colours):
    """Draw everything around the portrait: title, the two small planes, class and numbers."""
    accent, muted, ink = colours[shown.words["accent"]], colours["muted"], colours["ink"]
    artists = {}
    figure.text(0.028, 0.925, shown.words["title"], fontsize=12.5, fontweight="bold", color=ink, va="center")

    planes = [figure.add_axes((0.57, 0.555, 0.188, 0.308)), figure.add_axes((0.783, 0.555, 0.188, 0.308))]
    _plane(planes[0], 2.5, colours, range(-2, 3))
    planes[0].axvspan(0, 2.5, color=colours["explode"], alpha=0.11, linewidth=0)
    values = np.array([[v.real, v.imag] for v in shown.eigenvalues])
    artists["eigenvalues"] = planes[0].scatter(
        *values.clip(-2.3, 2.3).T, s=[36, 30], facecolors=[accent, "none"], edgecolors=accent, zorder=5,
        linewidths=1.3)
    if values[0].tolist() == values[1].tolist():
        planes[0].text(*(values[0].clip(-2.3, 2) + 0.45), "×2", color=muted, fontsize=7.5, ha="center",
                       va="center")
    _plane(planes[1], 4, colours, range(-3, 4))
    planes[1].fill([0, 4, 4, -4, -4, 0], [4, 4, -4, -4, 0, 0], color=colours["explode"], alpha=0.11,
                   linewidth=0)
    trace = np.linspace(-4, 4, 65)
    planes[1].plot(trace, trace**2 / 4, color=colours["axis"], linewidth=0.8)
    point = np.clip([shown.trace, shown.determinant], -3.7, 3.7)
    artists["invariants"] = planes[1].plot(*point, marker="o", markersize=6, color=accent, zorder=5)[0]
    for at, words, x, y, side in [(0, "fades", -2.3, 2.2, "left"), (0, "explodes", 2.3, 2.2, "right"),
                                  (1, "turn + fade", -1.85, 3.5, "center"), (1, "fade", -3.8, 0.55, "left"),
                                  (1, "explodes", 1.85, 3.5, "center"), (1, "saddles", 0, -2.2, "center")]:
        planes[at].text(x, y, words, color=muted, fontsize=7, ha=side, va="center")
    for ax, words in zip(planes, ("eigenvalues", "trace and determinant"), strict=True):
        ax.set_title(words, fontsize=8, color=muted, loc="left", pad=3)

    left, y = 0.57, 0.487
    for word, colour in shown.words["name"]:
        label = figure.text(left, y, word, fontsize=11.5, fontweight="bold", color=colours[colour],
                            va="center")
        left += label.get_window_extent(figure.canvas.get_renderer()).width / figure.bbox.width + 0.01
    figure.text(left, y, f"→ {shown.words['model']}", fontsize=9.5, color=muted, va="center")
    printed = shown.numbers()
    artists["numbers"] = {}
    y -= 0.062
    for key, (label, value) in printed.items():
        if key == "A":
            one, two, three, four = value.split(" ")
            width = max(map(len, (one, two, three, four)))
            value = f"{one:>{width}}  {two:>{width}}\n{three:>{width}}  {four:>{width}}"
        figure.text(0.57, y, label, fontsize=8.5, color=muted, va="top")
        artists["numbers"][key] = figure.text(0.971, y, value, fontsize=8, color=ink, va="top", ha="right",
                                              linespacing=1.35, **MONO)
        y -= 0.048 + 0.042 * value.count("\n")
    return artists
