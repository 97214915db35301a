"""Draw the picture of the README: turn, fade and slide, three generators and what A(u) = exp(uX) does.

Run `python docs/picture.py`; it writes picture-light.png and picture-dark.png beside itself.
"""

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from pe.plot import data, style
from pe.plot.portrait import MONO, SERIF, draw_portrait

BEHAVIOURS = [
    ("turn", [[0, -1], [1, 0]], 0.8, "RoPE", "every length survives, the angle moves"),
    ("fade", [[-0.2, 0], [0, -0.5]], 1.6, "decay", "halved again and again, never gone"),
    ("slide", [[0, 1], [0, 0]], 1.1, "ALiBi", "the same step for every step of the gap"),
]


def draw(theme):
    """Return the figure in one theme."""
    colours = style.colours(theme)
    figure = Figure(figsize=(9.6, 4.7), facecolor=colours["card"])
    FigureCanvasAgg(figure)
    width, height, left, between = 0.298, 0.298 * 9.6 / 4.7, 0.022, 0.031
    for column, (name, X, u, model, words) in enumerate(BEHAVIOURS):
        at = left + column * (width + between)
        shown = data.generator(X, u)
        draw_portrait(figure.add_axes((at, 0.19, width, height)), shown, colours)
        label = figure.text(at, 0.118, name, fontsize=15, fontweight="bold", color=colours[name], va="center")
        wide = label.get_window_extent().width / figure.bbox.width
        figure.text(at + wide + 0.01, 0.117, f"→ {model}", fontsize=11, color=colours["muted"], va="center")
        (a, b), (c, d) = X
        matrix = f"X = [{a:g} {b:g}; {c:g} {d:g}]".replace("-", data.MINUS)
        figure.text(at + width, 0.83, matrix, fontsize=8.5, color=colours["muted"], va="center", ha="right",
                    **MONO)
        figure.text(at, 0.052, words, fontsize=9.5, color=colours["muted"], va="center")
    figure.text(left, 0.925, "A(u) = exp(uX)", fontsize=17, color=colours["ink"], va="center", **SERIF)
    figure.text(1 - left, 0.925, "carry a key across the gap u", fontsize=11, color=colours["muted"],
                va="center", ha="right")
    return figure


def main():
    """Write both pictures, in few colours."""
    for theme in style.PALETTE:
        raw = io.BytesIO()
        draw(theme).savefig(raw, format="png", dpi=180, metadata={"Software": None})
        few = Image.open(raw).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(Path(__file__).with_name(f"picture-{theme}.png"), optimize=True)


if __name__ == "__main__":
    main()
