"""`Plot`: what every static figure returns, and how a notebook shows it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Plot", "matplotlib_figure"]


@dataclass(frozen=True, repr=False)
class Plot:
    """A drawn figure with its numbers and its description.

    A notebook shows it as a picture with alt text. Drawn into axes of your own it shows nothing, since the
    figure is yours to show.

    Attributes
    ----------
    data : object
        The numbers drawn: what the function of the same name in `pe.plot.data` returns.
    ax : matplotlib.axes.Axes
        The main picture.
    figure : matplotlib.figure.Figure
        The figure it lies in.
    artists : dict
        What was drawn, by name.
    alt : str
        A description for readers who cannot see the picture.
    owned : bool
        Whether the figure was made here, rather than given by ``ax=``.
    """

    data: Any
    ax: Any
    figure: Any
    artists: dict
    alt: str
    owned: bool

    def __repr__(self):
        """Show the description: no address, so that notebooks come out the same each time."""
        return f"<Plot {self.alt}>"

    def png(self):
        """Return the figure as PNG bytes, the same every time."""
        raw = io.BytesIO()
        self.figure.savefig(raw, format="png", dpi=160, metadata={"Software": None})
        return raw.getvalue()

    def save(self, file):
        """Write the figure to a file, in the format its name ends in: .png, .svg, .pdf.

        Parameters
        ----------
        file : str or os.PathLike
            Where to write.
        """
        self.figure.savefig(file, dpi=160)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, metadata = {"text/plain": repr(self)}, {}
        if self.owned:
            picture = self.png()
            text = base64.b64encode(picture).decode("ascii")
            data |= {"image/png": picture, "text/html": (
                f'<img alt="{escape(self.alt)}" src="data:image/png;base64,{text}" '
                f'style="width:{self.figure.get_figwidth():g}in;max-width:100%">')}
            metadata["image/png"] = {"vscode_altText": self.alt}
        return data, metadata


def matplotlib_figure(**kwargs):
    """Return a new Figure with an Agg canvas, not registered with pyplot, or say which extra is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('this figure needs matplotlib: pip install "turn-fade-slide[plot]"') from None
    figure = Figure(**kwargs)
    FigureCanvasAgg(figure)     # text is measured while the figure is laid out
    return figure
