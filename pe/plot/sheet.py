"""The page the figures share: up to three panels, numbers and a notice, measured in inches.

Type keeps its size at any width: a narrow page stacks what a wide one sets side by side.
"""

from __future__ import annotations

import math

from pe.plot import style
from pe.plot.data import plain
from pe.plot.result import Plot, matplotlib_figure

__all__ = ["MONO", "SERIF", "TIE", "WEIGHTS", "dash", "draw", "draw_weights", "halo", "log_axis",
           "quiet"]

MONO = {"family": ["DejaVu Sans Mono", "monospace"]}
SERIF = {"family": ["STIXGeneral", "DejaVu Serif", "serif"], "style": "italic"}

WEIGHTS = "attention that eight equal keys get"
TIE = "\u00a0"       # a space at which no line breaks

LEFT, RIGHT, TOP, BOTTOM = 0.45, 0.25, 0.22, 0.2     # margins; tick labels hang into the left one
SIDE = 6.2           # from this width on, numbers stand beside the panels
LEAST = 3.4          # narrowest page
CAPTION, TICKS, ROW, SECOND, BETWEEN = 0.24, 0.26, 0.19, 0.15, 0.14


def dash(name):
    """Return the line style of a behaviour."""
    pattern = [float(part) / 2 for part in style.DASH[name].split()]
    return (0, pattern) if pattern else "-"


def halo(colours):
    """Return path effects that keep text legible on lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground=colours["panel"])]


def quiet(ax, colours, *, grid=True):
    """Give axes the look of the family: panel fill, quiet grid, small muted ticks, no frame."""
    ax.set_facecolor(colours["panel"])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8, labelcolor=colours["muted"], pad=4)
    ax.minorticks_off()
    if grid:
        ax.grid(color=colours["grid"], linewidth=0.8)
    ax.set_axisbelow(True)


def log_axis(ax, low, high):
    """Make the y axis logarithmic, with up to six powers of ten as ticks."""
    ax.set(yscale="log", ylim=(low, high))
    lowest, highest = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, math.ceil((highest - lowest) / 5))
    powers = [n for n in range(lowest, highest + 1) if n % step == 0]
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    ax.set_yticks([10.0**n for n in powers], ["10" + str(n).translate(raised) if n else "1" for n in powers])
    ax.minorticks_off()


def draw(shown, words, panels, *, accent, ax, width, theme, height=None):
    """Draw a figure into `ax`, or onto a page of its own, and return its `Plot`.

    Parameters
    ----------
    shown : object
        The figure's data, with ``numbers()``.
    words : dict
        "name", "model", "title", "subtitle", "notice" and "alt" of str, and "captions", one for each panel.
    panels : tuple of one to three callables
        Each takes axes, data, colours and accent, draws a panel and returns its artists. The second lies
        beneath the first, the third beneath the numbers.
    accent : str
        The behaviour that gives the figure its colour.
    ax : matplotlib.axes.Axes or None
        Where to draw the first panel alone.
    width : float
        Inches of a page of its own.
    theme : str
        As in `style.colours`.
    height : callable, optional
        Maps the width of the first panel to its height, in inches, for a panel without tick labels.
    """
    colours = style.colours(theme)
    if ax is not None:
        artists = panels[0](ax, shown, colours, accent)
        return Plot(shown, ax, ax.get_figure(), artists, words["alt"], False)
    if not LEAST <= width <= 40:
        raise ValueError(f"width must lie between {LEAST} and 40 inches; got {width}")
    figure, axes, artists = _page(shown, words, colours, accent, float(width), height)
    for panel, at in zip(panels, axes, strict=True):
        artists |= panel(at, shown, colours, accent)
    return Plot(shown, axes[0], figure, artists, words["alt"], True)


def _page(shown, words, colours, accent, width, height):
    """Set title, numbers and notice, and place empty panels; return the figure, its axes and its texts."""
    figure = matplotlib_figure(figsize=(width, 1), dpi=100, facecolor=colours["card"])
    room = width - LEFT - RIGHT
    title = _wrapped(figure, words["title"], room, size=12.5, weight="bold")
    subtitle = _wrapped(figure, words["subtitle"], room, size=9)
    notice = _wrapped(figure, words["notice"], room - 0.15, size=9)
    printed = shown.numbers()
    numbers_height = 0.3 + ROW * len(printed) + SECOND * ("A" in printed)
    top = TOP + 0.23 * len(title) + 0.18 * len(subtitle) + 0.1

    beside = width >= SIDE
    side = max(2.45, 0.3 * room) if beside else room
    wide = room - side - 0.4 if beside else room
    places, y = [], top + CAPTION
    for tall, ticks in ((height(wide) if height else min(0.6 * wide, 3.0), 0 if height else TICKS),
                        (min(0.46 * wide, 2.1), TICKS))[:len(words["captions"])]:
        places.append((LEFT, y, wide, tall))
        y += tall + ticks + BETWEEN + CAPTION
    foot = y - BETWEEN - CAPTION
    at = (width - RIGHT - side, top + 0.02) if beside else (LEFT, foot + BETWEEN)
    below = at[1] + numbers_height
    if len(words["captions"]) > 2:
        above = below + BETWEEN + CAPTION
        tall = max(foot - TICKS - above, 0.8) if beside else 1.1
        places.append((at[0], above, side, tall))
        below = above + tall + TICKS
    foot = max(foot, below)
    foot += BETWEEN
    tall = foot + 0.18 * len(notice) + BOTTOM
    figure.set_size_inches(width, tall)

    def text(x, y, words, size, colour, **kwargs):
        return figure.text(x / width, 1 - y / tall, words, fontsize=size, color=colours[colour],
                           va=kwargs.pop("va", "top"), **kwargs)

    text(LEFT, TOP, "\n".join(title), 12.5, "ink", weight="bold", linespacing=1.25)
    text(LEFT, TOP + 0.23 * len(title) + 0.02, "\n".join(subtitle), 9, "muted", linespacing=1.3)
    axes = []
    for (x, y, w, h), caption in zip(places, words["captions"], strict=True):
        axes.append(figure.add_axes((x / width, 1 - (y + h) / tall, w / width, h / tall)))
        text(x, y - 0.07, caption, 8, "muted", va="bottom")
    x, y = at
    name = text(x, y, words["name"], 11.5, accent, weight="bold")
    after = x + name.get_window_extent().width / figure.dpi + 0.08
    text(after, y + 0.025, f"→ {words['model']}", 9.5, "muted")
    y += 0.42
    texts = {}
    for key, (label, value) in printed.items():
        if key == "A":
            one, two, three, four = value.split(" ")
            value = f"{one}  {two}\n{three}  {four}"
        text(x, y, label, 8.5, "muted", va="baseline")
        last = y + SECOND * value.count("\n")      # the baseline of several lines is that of the last
        texts[key] = text(x + side, last, value, 8, "ink", va="baseline", ha="right", linespacing=1.35,
                          **MONO)
        y = last + ROW
    bar = figure.add_artist(_line(LEFT / width, 1 - foot / tall, 0.18 * len(notice) / tall,
                                  colours[accent]))
    text(LEFT + 0.15, foot, "\n".join(notice), 9, "ink", linespacing=1.3)
    return figure, axes, {"numbers": texts, "notice": bar}


def _line(x, top, length, colour):
    from matplotlib.lines import Line2D

    return Line2D([x, x], [top, top - length], color=colour, linewidth=2.2, solid_capstyle="butt")


def _wrapped(figure, words, room, *, size, weight="normal"):
    """Break text into lines that are at most `room` inches wide."""
    from matplotlib.font_manager import FontProperties

    font, renderer = FontProperties(size=size, weight=weight), figure.canvas.get_renderer()
    lines = []
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and renderer.get_text_width_height_descent(longer, font, False)[0] <= room * figure.dpi:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def draw_weights(ax, shown, colours, accent):
    """Draw the weights of a row of equal keys, oldest first, against those of no encoding at all."""
    quiet(ax, colours, grid=False)
    weights, n = shown.weights, len(shown.weights)
    bars = ax.bar(range(n), weights, width=0.66, color=colours[accent], alpha=0.85, zorder=2)
    ax.axhline(1 / n, color=colours["ink"], linewidth=0.9, linestyle=(0, (4, 3)), zorder=3)
    ax.set(xlim=(-0.75, n - 0.25), ylim=(0, 1.25 * max(weights.max(), 1 / n)), xticks=range(n), yticks=[],
           xticklabels=[f"gap {n - 1}", *map(plain, range(n - 2, -1, -1))])
    for key in (0, n - 1):
        # the number stands on its bar, or on the line if that would run through it
        foot = weights[key] if weights[key] < 0.7 / n else max(weights[key], 1 / n)
        ax.annotate(f"{weights[key]:.4f}", (key, foot), (0, 3), ha="center", textcoords="offset points",
                    fontsize=7.5, color=colours["ink"], zorder=4, path_effects=halo(colours), **MONO)
    ax.annotate(f"dashed: NoPE, {1 / n:.4f}", (0.5, 1), (0, -6), xycoords="axes fraction", ha="center",
                va="top", textcoords="offset points", fontsize=8, color=colours["muted"], zorder=4)
    return {"weights": bars}
