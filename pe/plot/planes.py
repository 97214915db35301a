"""The static rope figure: the wavelength of every plane against the context, before and after a scaling."""

from __future__ import annotations

import numpy as np

from pe.plot import data as numbers
from pe.plot.data import plain
from pe.plot.sheet import draw, halo, log_axis, quiet

__all__ = ["rope"]

MARKERS = "osD^vPX*"        # one for each axis of positions that a rope may have


def rope(rope, context=None, *, ax=None, width=7.2, theme="light"):
    """Draw how many positions each plane of a rope takes for a turn, and what its scaling did to that.

    Parameters
    ----------
    rope : pe.Rope
        With or without a scaling. With several axes of positions each axis has a marker of its own.
    context : float, optional
        Positions over which a turn may be completed. Default: the context the scaling extends to, if it says
        one.
    ax : matplotlib.axes.Axes, optional
        Draw the wavelengths here and nothing else. Default: a figure of its own, not registered with pyplot,
        with numbers, and with a scaling the factor of each plane.
    width : float
        Inches of a figure of its own, 3.4 to 40; from 6.2 on the numbers stand beside the picture.
    theme : {"light", "dark", "print"}
        Colours.

    Returns
    -------
    Plot
        With artists "after", a line for each axis of positions, with a scaling "before" and "stems", and
        "contexts"; in a figure of its own "stretch" with a scaling, "numbers" and "notice".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If rope is no `pe.Rope` or context no number.
    ValueError
        If context is not positive, no plane turns, or the theme or the width are out of range.

    References
    ----------
    Su, J. et al. (2021), RoFormer, arXiv:2104.09864. Counting the turns of a plane within the context of
    training: Peng, B. et al. (2023), YaRN, arXiv:2309.00071.

    Examples
    --------
    >>> import pe
    >>> yarn = pe.scaling.yarn(4.0, original_max_position_embeddings=32768)
    >>> print(pe.plot.rope(pe.Rope(128, 1e6, scaling=yarn)).alt)
    yarn: 24 planes kept, 16 blended, 24 divided. 24 of 64 never complete a turn in 131072 positions.
    """
    shown = numbers.rope(rope, context)
    total, changes, few = len(shown.planes), shown.counted(), shown.incomplete()
    scaling = None if shown.rope.scaling is None else type(shown.rope.scaling).__name__
    done = ", ".join(f"{count} {change}" for change, count in changes.items()).replace(" ", " planes ", 1)
    title = f"{scaling}: {done}" if scaling else "From neighbours to documents: a bank of clocks"
    counted = "" if few is None else (f" {few[1]} of {total} never complete a turn in {plain(shown.context)} "
                                      "positions.")
    words = {
        "name": "turn", "model": scaling or "RoPE", "title": title,
        "subtitle": "How many positions each plane takes for a full turn"
                    + (": hollow before the scaling, filled after it." if scaling else "."),
        "captions": ["positions a turn, against the plane"]
                    + ["how many times longer a turn has become"] * bool(scaling),
        "notice": "Fast planes tell near keys apart, slow planes place far ones. A plane that completes no "
                  "turn in the context has met only a part of its circle.",
        "alt": f"{title}.{counted}" if counted else f"{title}. {total} planes, turns of "
               f"{shown.numbers()['shortest'][1]} to {shown.numbers()['longest'][1]} positions.",
    }
    panels = (_wavelengths, _stretch) if scaling else (_wavelengths,)
    return draw(shown, words, panels, accent="turn", ax=ax, width=width, theme=theme)


def _wavelengths(ax, shown, colours, accent):
    """Draw a stem for each plane from its wavelength before to that after, and the contexts across them."""
    from matplotlib.collections import LineCollection

    quiet(ax, colours)
    limits = [value for value in (shown.trained, shown.context) if value is not None]
    both = np.concatenate([shown.before, shown.after])
    turning = both[np.isfinite(both)]
    low, high = min([turning.min(), *limits]) / 2, max([turning.max(), *limits]) * 3
    # a plane that stands still has no wavelength: it sits on the upper edge
    before, after = (np.where(np.isfinite(w), w, high) for w in (shown.before, shown.after))
    log_axis(ax, low, high)
    _across(ax, shown)
    artists = {"after": []}
    small = 5.5 if shown.planes.max() < 20 else 3.6
    if shown.rope.scaling is not None:
        artists["stems"] = ax.add_collection(LineCollection(
            [[(k, one), (k, two)] for k, one, two in zip(shown.planes, before, after, strict=True)],
            colors=colours[accent], linewidths=0.9, alpha=0.6, zorder=2))
        artists["before"], = ax.plot(shown.planes, before, linestyle="", marker="o", markersize=small,
                                     markerfacecolor=colours["panel"], markeredgecolor=colours["muted"],
                                     markeredgewidth=0.8, clip_on=False, zorder=3)
    for axis in np.unique(shown.axes):
        mine = shown.axes == axis
        artists["after"] += ax.plot(shown.planes[mine], after[mine], linestyle="", marker=MARKERS[axis],
                                    markersize=small, color=colours[accent], markeredgewidth=0,
                                    clip_on=False, zorder=4)
        if len(shown.rope.freqs) > 1:
            ax.annotate(f"axis {axis}", (shown.planes[mine][0], after[mine][0]), (5, -5), fontsize=8,
                        va="top", textcoords="offset points", color=colours["muted"],
                        path_effects=halo(colours), zorder=5)
    still = np.isinf(shown.after)
    if still.any():
        ax.annotate("stand still", (shown.planes[still][0], high), (-6, -4), textcoords="offset points",
                    fontsize=8, ha="right", va="top", color=colours["ink"], path_effects=halo(colours),
                    zorder=5)
    return artists | {"contexts": _contexts(ax, shown, colours)}


def _contexts(ax, shown, colours):
    """Draw the contexts as lines across, and shade what lies beyond the one turns are counted in."""
    lines = {}
    if shown.trained is not None and shown.trained != shown.context:
        lines[f"trained: {plain(shown.trained)}"] = shown.trained, (0, (1, 2)), "top", -2
    if shown.context is not None:
        lines[f"context: {plain(shown.context)}"] = shown.context, (0, (4, 3)), "bottom", 2
        ax.axhspan(shown.context, ax.get_ylim()[1], color=colours["muted"], alpha=0.08, linewidth=0)
    drawn = []
    for text, (value, dashes, side, lift) in lines.items():
        drawn.append(ax.axhline(value, color=colours["ink"], linewidth=0.9, linestyle=dashes, zorder=2))
        ax.annotate(text, (0, value), (6, lift), xycoords=("axes fraction", "data"), fontsize=8, va=side,
                    textcoords="offset points", color=colours["ink"], path_effects=halo(colours), zorder=5)
    return drawn


def _across(ax, shown):
    """Give both panels the same axis, the number of the plane."""
    room = 0.5 + 0.02 * len(shown.planes)
    ax.set_xlim(-room, shown.planes.max() + room)
    ax.xaxis.get_major_locator().set_params(integer=True)


def _stretch(ax, shown, colours, accent):
    """Draw how many times longer the turn of each plane has become; planes that stopped have no number."""
    from matplotlib.collections import LineCollection

    quiet(ax, colours)
    turning = np.isfinite(shown.stretch)
    planes, stretch = shown.planes[turning], shown.stretch[turning]
    _across(ax, shown)
    low, high = min(stretch.min(), 1), max(stretch.max(), 2)
    ax.set_ylim(low - 0.12 * (high - low), high + 0.15 * (high - low))
    ax.yaxis.set_major_formatter(lambda value, _: f"×{plain(value)}")
    ax.axhline(1, color=colours["axis"], linewidth=0.8, zorder=1)
    ax.add_collection(LineCollection([[(k, 1), (k, by)] for k, by in zip(planes, stretch, strict=True)],
                                     colors=colours[accent], linewidths=1.1, alpha=0.6, zorder=2))
    line, = ax.plot(planes, stretch, linestyle="", marker="o", color=colours[accent], markeredgewidth=0,
                    markersize=5.5 if shown.planes.max() < 20 else 3.6, zorder=3)
    return {"stretch": line}
