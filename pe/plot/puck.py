"""The static slide figure: a puck on ice, and beneath it the bias of ALiBi that reads its position."""

from __future__ import annotations

import math

import numpy as np

from pe.plot import data as numbers
from pe.plot.data import decimals, plain
from pe.plot.sheet import MONO, TIE, WEIGHTS, dash, draw, draw_weights, halo, quiet

__all__ = ["slide"]


def slide(m=-0.5, t=7, s=4, *, ax=None, width=7.2, theme="light"):
    """Draw the key's spare slots (0, 1) as a puck that slides, and the bias the query reads from it.

    Parameters
    ----------
    m : float
        What the query multiplies the puck's position with. A penalty for distance needs m < 0: m = -slope.
    t, s : float
        Positions of the query and of the key, at most 200 apart.
    ax : matplotlib.axes.Axes, optional
        Draw the ice here and nothing else. Default: a figure of its own, not registered with pyplot, with
        the bias on the same axis, numbers and attention weights.
    width : float
        Inches of a figure of its own, 3.4 to 40; from 6.2 on the numbers stand beside the picture.
    theme : {"light", "dark", "print"}
        Colours.

    Returns
    -------
    Plot
        With artists "ticks", "puck" and "square", and in a figure of its own "fan", "line", "point",
        "weights", "numbers" and "notice".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If m or a position is no number.
    ValueError
        If one is not finite, the positions lie more than 200 apart, or the theme or the width are out of
        range.

    References
    ----------
    The Dog, the Man, and the Clock, "Defective: the slide": (m, 0) A(t - s) (0, 1)^T = m (t - s). Press, O.
    et al. (2022), Train Short, Test Long, arXiv:2108.12409.

    Examples
    --------
    >>> import pe
    >>> print(pe.plot.slide(-0.5, 7, 4).alt)
    A slide is a puck on ice, and this is ALiBi. After gap 3 the puck is at 3, speed 1; bias −1.5000.
    """
    shown = numbers.slide(m, t, s)
    gap, times = plain(shown.gap), plain(shown.m)
    title = "A slide is a puck on ice, and this is ALiBi"
    if shown.m > 0:
        title = "A slide read with m above 0 rewards distance"
    elif shown.m == 0:
        title = "A slide that no query reads is nothing"
    reading = {True: "m is negative, so this is a penalty: −slope · distance.",
               False: "ALiBi needs a negative m, a penalty: −slope · distance."}[shown.m < 0]
    words = {
        "name": "slide", "model": "ALiBi" if shown.m < 0 else "NoPE" if shown.m == 0 else "beyond the table",
        "title": title,
        "subtitle": f"The key (0,{TIE}1) starts at 0 with speed 1 and slides for u{TIE}={TIE}{gap}; the "
                    f"query ({times},{TIE}0) reads {times}{TIE}·{TIE}{gap}.",
        "captions": ["the ice: speed against position", "the bias m u: eight slopes of ALiBi, and m",
                     WEIGHTS],
        "notice": f"The speed never changes, so the bias is a straight line in the gap. {reading}",
        "alt": f"{title}. After gap {gap} the puck is at {plain(shown.carried[0])}, speed "
               f"{plain(shown.carried[1])}; bias {decimals(shown.bias)}.",
    }
    return draw(shown, words, (_ice, _bias, draw_weights), accent="slide", ax=ax, width=width, theme=theme)


def _ice(ax, shown, colours, accent):
    """Draw the flow, the sheared unit square, and the puck at every tick."""
    from matplotlib.patches import Polygon

    quiet(ax, colours)
    _gaps(ax, shown, colours)
    ax.set(ylim=(-0.25, 1.75), yticks=[0, 1])
    ax.axhline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.axvline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    low, high = shown.span
    for speed in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5):
        ax.axhline(speed, color=colours[accent], linewidth=0.8, alpha=0.4, zorder=1)
        starts = np.arange(low + 0.6, high, 3 * max(1, (high - low) / 12))
        ax.plot(starts, np.full_like(starts, speed), linestyle="", marker=(3, 0, -90), markersize=4,
                color=colours[accent], markeredgewidth=0, alpha=0.7, zorder=1)
    square = ax.add_patch(Polygon(shown.square, facecolor=(colours[accent], 0.18), edgecolor=colours[accent],
                                  linewidth=1.1, linestyle=(0, (4, 3)), zorder=3))
    ax.add_patch(Polygon([[0, 0], [1, 0], [1, 1], [0, 1]], fill=False, edgecolor=colours["muted"],
                         linewidth=0.9, linestyle=(0, (2, 3)), zorder=3))
    ticks, = ax.plot(*shown.ticks.T, color=colours[accent], linewidth=1.7, linestyle=dash(accent), marker="o",
                     markersize=6, markerfacecolor=colours["panel"], markeredgewidth=1.2, zorder=4,
                     markevery=_step(shown.span))
    puck, = ax.plot(*shown.carried, marker="o", markersize=9, color=colours[accent],
                    markeredgecolor=colours["panel"], markeredgewidth=1.3, zorder=6)
    ax.plot([shown.gap] * 2, [ax.get_ylim()[0], 1], color=colours["ink"], linewidth=0.9,
            linestyle=(0, (1, 2)), zorder=4)
    far = abs(shown.gap) > 0.2 * (high - low)
    for (x, y), words in ((shown.key, far), (shown.carried, True)):
        right = x > low + 0.8 * (high - low)
        ax.annotate(f"({plain(x)}, {plain(y)})" if words else "", (x, y), (0, 9), textcoords="offset points",
                    fontsize=8.5, color=colours["ink"], ha="right" if right else "left", zorder=7,
                    path_effects=halo(colours), **MONO)
    return {"ticks": ticks, "puck": puck, "square": square}


def _bias(ax, shown, colours, accent):
    """Draw the bias against the gap: eight slopes of ALiBi, and the chosen m with its point."""
    from matplotlib.collections import LineCollection

    quiet(ax, colours)
    _gaps(ax, shown, colours)
    low, high = shown.span
    ends = np.append(shown.fan.ravel(), shown.line[:, 1])
    room = max(np.ptp(ends), 1e-6)
    ax.set(ylim=(ends.min() - 0.06 * room, ends.max() + 0.12 * room))
    ax.yaxis.set_major_formatter(lambda value, _: plain(value))
    ax.axhline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.axvline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    fan = ax.add_collection(LineCollection(
        [[(low, first), (high, last)] for first, last in shown.fan], colors=colours["axis"], linewidths=0.8,
        zorder=2))
    line, = ax.plot(*shown.line.T, color=colours[accent], linewidth=1.7, linestyle=dash(accent), zorder=3)
    ax.plot([shown.gap] * 2, [shown.bias, ax.get_ylim()[1]], color=colours["ink"], linewidth=0.9,
            linestyle=(0, (1, 2)), zorder=2)
    point, = ax.plot(shown.gap, shown.bias, marker="o", markersize=7, color=colours[accent],
                     markeredgecolor=colours["panel"], markeredgewidth=1.3, zorder=5)
    left = shown.gap > low + 0.3 * (high - low)
    above = left == (shown.m > 0)
    ax.annotate(decimals(shown.bias), (shown.gap, shown.bias), (-7 if left else 7, 4 if above else -3),
                textcoords="offset points", fontsize=8.5, color=colours["ink"], zorder=6,
                ha="right" if left else "left", va="bottom" if above else "top", path_effects=halo(colours),
                **MONO)
    x, last = high - 0.08 * (high - low), -math.inf
    for head in (0, 1, 2, 7):      # from the steepest up; a name that would touch the last one is left out
        at = ax.transData.transform((x, -shown.slopes[head] * x))[1] * 72 / ax.get_figure().dpi
        if at - last > 8:
            ax.annotate(f"1/{round(1 / shown.slopes[head])}", (x, -shown.slopes[head] * x), fontsize=7.5,
                        color=colours["muted"], ha="center", va="center", path_effects=halo(colours),
                        zorder=4)
            last = at
    return {"fan": fan, "line": line, "point": point}


def _gaps(ax, shown, colours):
    """Give both panels the same axis: the gap, which is where the puck is."""
    low, high = shown.span
    step = _step(shown.span)
    marks = range(step * math.ceil(low / step), math.floor(high) + 1, step)
    ax.set(xlim=shown.span, xticks=list(marks), xticklabels=list(map(plain, marks)))
    if shown.gap < 0:
        ax.axvspan(low, 0, color=colours["explode"], alpha=0.11, linewidth=0)


def _step(span):
    """Return the smallest round step that divides the span into at most twelve."""
    return next(step for step in (1, 2, 5, 10, 20, 50) if (span[1] - span[0]) / step <= 12)
