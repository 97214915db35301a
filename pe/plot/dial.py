"""The static turn figure: a bank of clock hands, and the score they make, which knows the gap alone."""

from __future__ import annotations

import math

import numpy as np

from pe.plot import data as numbers
from pe.plot.data import decimals, plain
from pe.plot.sheet import MONO, TIE, WEIGHTS, draw, draw_weights, halo, quiet

__all__ = ["turn"]


def turn(t=5, s=2, *, freqs=None, alpha=0.0, beta=0.0, ax=None, width=7.2, theme="light"):
    """Draw a query and a key as hands of a bank of clocks, and their score against the gap.

    Every plane of a rotary encoding is a dial. The query's hand has turned by t w, the key's by s w, so they
    are w (t - s) apart wherever the pair stands.

    Parameters
    ----------
    t, s : float
        Positions of the query and of the key.
    freqs : float or array_like, shape (L,) or (1, L), optional
        Radians per position of each plane, such as ``Rope.freqs``. Default: ``pe.Rope(16).freqs``. Of more
        than eight planes eight are drawn; the score counts all.
    alpha, beta : float
        Where the content of query and key points in every plane, in radians.
    ax : matplotlib.axes.Axes, optional
        Draw the dials here and nothing else, for the size the axes have now. Default: a figure of its own,
        not registered with pyplot, with score, numbers and attention weights.
    width : float
        Inches of a figure of its own, 3.4 to 40; from 6.2 on the numbers stand beside the picture.
    theme : {"light", "dark", "print"}
        Colours.

    Returns
    -------
    Plot
        With artists "query", "key" and "wedges", and in a figure of its own "curve", "whole", "point",
        "weights", "numbers" and "notice".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If a position or an angle is no number.
    ValueError
        If one is not finite, or freqs, the theme or the width are out of range.

    References
    ----------
    The Dog, the Man, and the Clock, "Why rotation makes relative position work" and "RoPE, written three
    ways": d = 16, base 10000, score 5.543 at gap 3. Su, J. et al. (2021), RoFormer, arXiv:2104.09864.

    Examples
    --------
    >>> import pe
    >>> drawn = pe.plot.turn(5, 2)
    >>> print(drawn.alt)
    Only the gap survives a turn. Query at 5, key at 2, gap 3: score 5.5431, and the same at (13, 10).
    """
    shown = numbers.turn(t, s, freqs=freqs, alpha=alpha, beta=beta)
    gap = plain(shown.gap)
    moved = next(iter(shown.moved))
    planes = len(shown.freqs)
    some = f"; {len(shown.dials)} of {planes}" if planes > len(shown.dials) else ""
    words = {
        "name": "turn", "model": "RoPE", "title": "Only the gap survives a turn",
        "subtitle": f"Query at t{TIE}={TIE}{plain(shown.t)}, key at s{TIE}={TIE}{plain(shown.s)}: in a plane "
                    f"of frequency w the hands are w{TIE}·{TIE}{gap} apart.",
        "captions": [
            f"query solid, key dashed; T: tokens a turn{some}",
            f"the score, a sum of {planes} cosines, against the gap" if planes > 1
            else "the score against the gap",
            WEIGHTS],
        "notice": "Move query and key by the same amount: every hand turns, no length changes, no angle "
                  "between two hands changes, and the score stays.",
        "alt": f"Only the gap survives a turn. Query at {plain(shown.t)}, key at {plain(shown.s)}, gap "
               f"{gap}: score {decimals(shown.score)}, and the same at ({plain(moved[0])}, "
               f"{plain(moved[1])}).",
    }
    panels = (_dials, _score, draw_weights)
    return draw(shown, words, panels, accent="turn", ax=ax, width=width, theme=theme,
                height=lambda wide: _height(len(shown.dials), wide))


LINE, PAD = 0.125, 0.07         # inches: a line of the captions, and the space around a dial
CAPTION = 0.66                  # width of a caption
HOURS = [np.array([math.cos(hour), math.sin(hour)]) for hour in np.arange(12) * math.pi / 6]


def _height(count, width):
    """Return the height, in inches, that suits dials in rows of four."""
    columns = min(count, 4)
    rows = math.ceil(count / columns)
    return min(rows * (width / columns + 3 * LINE + PAD) + PAD, max(2.8, 0.46 * width))


def _places(count, width, height, lines):
    """Return columns and radius, in inches, of the largest `count` dials with so many lines beneath."""
    found = 1, 0.0
    for columns in range(1, count + 1):
        cell = width / columns, (height - PAD) / math.ceil(count / columns)
        radius = min(cell[0] - 2 * PAD, cell[1] - PAD - lines * LINE - PAD * (lines > 0)) / 2
        if radius > found[1] and (not lines or cell[0] >= CAPTION):
            found = columns, radius
    return found


def _dials(ax, shown, colours, accent):
    """Draw the dials, in axes whose units are inches."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle, Wedge

    box = ax.get_window_extent()
    wide, high = box.width / ax.figure.dpi, box.height / ax.figure.dpi
    count, lines = len(shown.dials), 3
    columns, radius = _places(count, wide, high, lines)
    if radius < 0.2:                # too little room: the dials without their captions
        lines = 0
        columns, radius = _places(count, wide, high, lines)
    rows, below = math.ceil(count / columns), lines * LINE + PAD * (lines > 0)
    quiet(ax, colours, grid=False)
    ax.set(xlim=(0, wide), ylim=(0, high), xticks=[], yticks=[], aspect="equal")
    artists = {"query": [], "key": [], "wedges": []}
    captions = shown.captions()
    for place, plane in enumerate(shown.dials):
        row, column = divmod(place, columns)
        centre = np.array([(column + 0.5) * wide / columns,
                           high - (row + 0.5) * high / rows + below / 2])
        ax.add_patch(Circle(centre, radius, facecolor=colours["card"], edgecolor=colours["axis"],
                            linewidth=0.8, zorder=2))
        ax.add_collection(LineCollection(
            [[centre + 0.9 * radius * hour, centre + radius * hour] for hour in HOURS],
            colors=colours["axis"], linewidths=0.6, zorder=2))
        start = math.degrees(math.atan2(*shown.key[plane][::-1]))
        swept = math.degrees(math.fmod(shown.angles[plane], 2 * math.pi))
        ends = sorted([start, start + swept])
        artists["wedges"].append(ax.add_patch(Wedge(
            centre, 0.62 * radius, *ends, facecolor=(colours[accent], 0.25), edgecolor=colours[accent],
            linewidth=1.1, zorder=3)))
        for name, hand in (("key", shown.key[plane]), ("query", shown.query[plane])):
            tip = centre + 0.86 * radius * hand
            turned = math.degrees(math.atan2(hand[1], hand[0])) - 90
            artists[name] += ax.plot(
                *np.transpose([centre, tip]), color=colours["ink"], linewidth=1.5, zorder=5, markevery=[1],
                linestyle="-" if name == "query" else (0, (1.6, 1.4)), marker=(3, 0, turned), markersize=5,
                markeredgewidth=0, solid_capstyle="butt")
        ax.plot(*centre, marker="o", markersize=3, color=colours["ink"], zorder=6)
        for line, words in enumerate(captions[place][:lines]):
            ax.text(centre[0], centre[1] - radius - PAD - line * LINE, words, fontsize=7, ha="center",
                    va="top", color=colours[accent if line == 2 else "muted"], **MONO)
    return artists


def _score(ax, shown, colours, accent):
    """Draw the score against the gap, with its whole gaps and the chosen one."""
    quiet(ax, colours)
    low, high = shown.curve.min(), shown.curve.max()
    room = max(high - low, 1e-6)
    first, last = shown.gaps[[0, -1]]
    ax.set(xlim=(first - 0.6, last + 0.6), ylim=(low - 0.2 * room, high + 0.2 * room))
    ax.set_xticks(np.arange(5 * math.ceil(first / 5), last + 1, 5))
    ax.xaxis.set_major_formatter(lambda value, _: plain(value))
    ax.yaxis.set_major_formatter(lambda value, _: plain(value))
    ax.axhline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    whole = shown.gaps == np.round(shown.gaps)
    curve, = ax.plot(shown.gaps, shown.curve, color=colours[accent], linewidth=1.6, zorder=3)
    dots, = ax.plot(shown.gaps[whole], shown.curve[whole], linestyle="", marker="o", markersize=2.6,
                    color=colours[accent], zorder=3)
    ax.plot([shown.gap] * 2, [ax.get_ylim()[0], shown.score], color=colours["ink"], linewidth=0.9,
            linestyle=(0, (1, 2)), zorder=2)
    point, = ax.plot(shown.gap, shown.score, marker="o", markersize=7, color=colours[accent],
                     markeredgecolor=colours["panel"], markeredgewidth=1.3, zorder=5)
    near = np.abs(shown.gaps - shown.gap) < 2.5
    valley, late = shown.curve[near].mean() > shown.score, shown.gap > last - 4
    ax.annotate(decimals(shown.score), (shown.gap, shown.score),
                (-7 if late else 7, -7 if valley else 5), textcoords="offset points", fontsize=8.5,
                color=colours["ink"], zorder=6, ha="right" if late else "left",
                va="top" if valley else "bottom", path_effects=halo(colours), **MONO)
    return {"curve": curve, "whole": dots, "point": point}
