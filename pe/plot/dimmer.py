"""The static fade figure: lamps that dim with the gap, half-lives, and the future that explodes."""

from __future__ import annotations

import math

import numpy as np

from pe.plot import data as numbers
from pe.plot.data import decimals, plain
from pe.plot.sheet import MONO, TIE, WEIGHTS, dash, draw, draw_weights, halo, log_axis, quiet

__all__ = ["fade"]


def fade(gamma=0.1, gap=10, *, ax=None, width=7.2, theme="light"):
    """Draw how a key is dimmed by e^(-gamma u), and why that needs a causal mask.

    Parameters
    ----------
    gamma : float
        The rate per position. At 0 nothing fades; below 0 the past explodes, and the figure says so.
    gap : float
        The gap u to mark.
    ax : matplotlib.axes.Axes, optional
        Draw the dimming curve here and nothing else. Default: a figure of its own, not registered with
        pyplot, with the logarithmic view, numbers and attention weights.
    width : float
        Inches of a figure of its own, 3.4 to 40; from 6.2 on the numbers stand beside the picture.
    theme : {"light", "dark", "print"}
        Colours.

    Returns
    -------
    Plot
        With artists "curve", "lamps", "rulers" and "point", and in a figure of its own "line", "future",
        "marked", "weights", "numbers" and "notice".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If gamma or gap is no number.
    ValueError
        If one is not finite or too large for float64, or the theme or the width are out of range.

    Notes
    -----
    The weights are those of `pe.decay_bias`, which adds -gamma u to the scores; multiplying scores by
    e^(-gamma u), as the multiplier of a linear attention does, gives others.

    References
    ----------
    The Dog, the Man, and the Clock, "Real eigenvalue: the fade": gamma = 0.1, half-life of about 7 tokens,
    and the multiplier e^5 of a key 50 ahead.

    Examples
    --------
    >>> import pe
    >>> print(pe.plot.fade(0.1).alt)
    A fade halves the past again and again. Rate 0.1, half-life 6.9315; at gap 10 a key counts 0.3679.
    """
    shown = numbers.fade(gamma, gap)
    rate = plain(shown.gamma)
    if shown.gamma > 0:
        title, accent = "A fade halves the past again and again", "fade"
        notice = ("Each half-life leaves half, and never nothing: a straight line on a logarithmic axis. "
                  "The same line explodes towards the future, so a fade needs a causal mask.")
        fate = f"half-life {decimals(shown.half_life)}"
    elif shown.gamma < 0:
        title, accent = "A negative rate explodes", "explode"
        notice = "The further back a key, the more it counts, without bound: no encoding can use this."
        fate = "no half-life"
    else:
        title, accent = "At rate 0 nothing fades", "nothing"
        notice = "Every key counts the same, whatever its gap: this is NoPE, an encoding that does nothing."
        fate = "no half-life"
    words = {
        "name": accent, "model": {"fade": "decay", "explode": "forbidden", "nothing": "NoPE"}[accent],
        "title": title, "notice": notice,
        "subtitle": f"A key u tokens back is multiplied by A(u){TIE}={TIE}e^(−γu), here with "
                    f"γ{TIE}={TIE}{rate}.",
        "captions": ["brightness of a key" + ", half-life by half-life" * (accent == "fade"),
                     "the same on a logarithmic axis, and the future", WEIGHTS],
        "alt": f"{title}. Rate {rate}, {fate}; at gap {plain(shown.gap)} a key counts "
               f"{decimals(shown.multiplier)}.",
    }
    panels = (_dimmer, _logarithm, draw_weights)
    return draw(shown, words, panels, accent=accent, ax=ax, width=width, theme=theme)


def _dimmer(ax, shown, colours, accent):
    """Draw the multiplier against the gap, its half-lives, and a row of lamps."""
    from matplotlib.collections import LineCollection

    quiet(ax, colours, grid=accent != "fade")
    reach, top = shown.gaps[-1], max(1.0, shown.curve.max())
    ax.set(xlim=(-0.025 * reach, 1.015 * reach), ylim=(-0.2 * top, 1.1 * top))
    artists = {"rulers": ax.add_collection(LineCollection(
        [[(0, y), (x, y), (x, 0)] for x, y in shown.rulers], colors=colours["axis"], linewidths=0.9,
        linestyles=[(0, (1, 2))], zorder=2))}
    if len(shown.rulers):
        fractions = ["1", *(f"1/{2**k}" for k in range(1, 4))]
        marks = ["0", *(f"{x:.3g}" for x in shown.rulers[:, 0])]
        every = 2 if max(map(len, marks)) > 5 else 1
        ax.set_xticks([0, *shown.rulers[:, 0]], [m if k % every == 0 else "" for k, m in enumerate(marks)])
        ax.set_yticks([1, *shown.rulers[:3, 1]], fractions)
    else:
        ax.yaxis.set_major_formatter(lambda value, _: plain(value) if value >= 0 else "")
    ax.axhline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    artists["curve"], = ax.plot(shown.gaps, shown.curve, color=colours[accent], linewidth=1.7,
                                linestyle=dash(accent), zorder=3)
    places, lit = shown.lamps.T
    artists["lamps"] = ax.scatter(
        places, np.full(len(places), -0.1 * top), s=17, linewidths=0.6, edgecolors=colours["axis"], zorder=3,
        facecolors=[(colours[accent], v) for v in lit / top])
    ax.plot(places, np.full(len(places), -0.1 * top), linestyle="", marker="o", markersize=4.1,
            markerfacecolor=colours["card"], markeredgewidth=0, zorder=2)
    artists["point"], = ax.plot(shown.gap, shown.multiplier, marker="o", markersize=7, color=colours[accent],
                                markeredgecolor=colours["panel"], markeredgewidth=1.3, zorder=5)
    if 0 <= shown.gap <= reach:
        left, rising = shown.gap > 0.6 * reach, shown.gamma < 0
        ax.annotate(f"gap {plain(shown.gap)}: {decimals(shown.multiplier)}", (shown.gap, shown.multiplier),
                    (-7 if left else 8, -4 if rising and not left else 5), textcoords="offset points",
                    fontsize=8.5, color=colours["ink"], ha="right" if left else "left",
                    va="top" if rising and not left else "bottom", path_effects=halo(colours), zorder=6,
                    **MONO)
    return artists


def _logarithm(ax, shown, colours, accent):
    """Draw the multiplier on a logarithmic axis from the future to the far past."""
    quiet(ax, colours)
    (first, high), (last, low) = shown.line
    low, high = sorted([low, high])
    decades = max(math.log10(high) - math.log10(low), 1.0)
    bottom, top = low / 10 ** (0.1 * decades), high * 10 ** (0.22 * decades)
    log_axis(ax, bottom, top)
    ax.set_xlim(first - 4, last + 4)
    ax.xaxis.set_major_formatter(lambda value, _: plain(value))
    ax.axvspan(first - 4, 0, color=colours["explode"], alpha=0.11, linewidth=0)
    ax.axvline(0, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.axhline(1, color=colours["axis"], linewidth=0.8, zorder=1)
    line, = ax.plot(*shown.line.T, color=colours[accent], linewidth=1.7, linestyle=dash(accent), zorder=3)
    at, value = next(iter(shown.table.items()))
    future, = ax.plot(at, value, marker="D", markersize=5.5, color=colours["explode"], zorder=5)
    up = shown.gamma > 0
    ax.annotate(decimals(value), (at, value), (8, 2 if up else 5), textcoords="offset points", fontsize=8.5,
                color=colours["ink"], path_effects=halo(colours), zorder=6, **MONO)
    marked, = ax.plot(shown.gap, shown.multiplier, marker="o", markersize=7, color=colours[accent],
                      markeredgecolor=colours["panel"], markeredgewidth=1.3, zorder=5)
    for x, words in ((-2, "future"), (2, "past")):
        ax.annotate(words, (x, 0.03), (0, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                    fontsize=8, color=colours["muted"], ha="right" if x < 0 else "left",
                    path_effects=halo(colours), zorder=4)
    return {"line": line, "future": future, "marked": marked}
