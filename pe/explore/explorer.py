"""`Explorer`: an interactive figure as an object - its state, its numbers, its picture, its HTML."""

from __future__ import annotations

import io
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from pe.explore import host


class Explorer:
    """An interactive figure that needs no kernel, no network and no library to move.

    Made by a function such as `pe.explore.generator`. In a notebook it shows itself; elsewhere `save` writes
    a page to open in a browser.

    Parameters
    ----------
    module : str
        The figure's ES module in this package.
    state : dict
        Initial values of the controls, plain JSON.
    config : dict
        Words, presets, limits and colours the module reads, plain JSON.
    data : callable
        Maps a state to the figure's data, an object with ``numbers()``, ``words`` and ``name``.
    static : callable
        Maps a state and keywords of the static figure to its result, with ``figure`` and ``alt``.
    title : str
        Heading of a saved page.

    Attributes
    ----------
    state : dict
        The values the figure opens with. What a reader moves in the browser stays in the browser; the figure
        prints the call that reproduces it.
    """

    def __init__(self, module, state, config, *, data, static, title):
        self.module, self.state, self.config, self.title = module, dict(state), config, title
        self._data, self._static = data, static

    def data(self):
        """Return the arrays and numbers that the picture and the live figure show."""
        return self._data(self.state)

    def static(self, **kwargs):
        """Draw the initial state with matplotlib; keywords as in the `pe.plot` function of the same name."""
        return self._static(self.state, **kwargs)

    def rows(self):
        """Return the printed numbers as (label, text) pairs."""
        return list(self.data().numbers().values())

    def describe(self):
        """Return one line of text: class, eigenvalues, and where the marked solution is."""
        shown = self.data()
        numbers = {key: text for key, (_, text) in shown.numbers().items()}
        (a, b), (c, d) = shown.X.tolist()
        return (f"{shown.name} ({shown.words['model']}): X = [[{a:g}, {b:g}], [{c:g}, {d:g}]], eigenvalues "
                f"{numbers['eigenvalues']}; at u = {shown.u:g}, x(u) = {numbers['x']}.")

    def alt(self):
        """Return the text that stands in for the picture."""
        return f"{self.data().words['title']}. {self.describe()}"

    def png(self):
        """Return the static picture as PNG bytes, or None where matplotlib is not installed."""
        return self._png

    @cached_property
    def _png(self):
        if find_spec("matplotlib") is None:
            return None
        from PIL import Image

        raw, small = io.BytesIO(), io.BytesIO()
        self.static().figure.savefig(raw, format="png", dpi=160, metadata={"Software": None})
        few = Image.open(raw).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        few.save(small, "PNG", optimize=True)
        return small.getvalue()

    def html(self):
        """Return the figure as an HTML fragment: picture and numbers, then the script that moves them."""
        return host.figure(self) + host.script([self])

    def save(self, path):
        """Write the figure as one self-contained page and return its path.

        Parameters
        ----------
        path : str or os.PathLike
            Where to write, by custom ending in ``.html``. An existing file is replaced.

        Returns
        -------
        pathlib.Path
        """
        path = Path(path)
        path.write_text(host.page(self.title, [self]), encoding="utf-8", newline="\n")
        return path

    def __repr__(self):
        """Show `describe()`: no address, so that notebooks come out the same each time."""
        return f"<Explorer {self.describe()}>"

    def _repr_html_(self):
        return self.html()

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, metadata = {"text/html": self.html(), "text/plain": repr(self)}, {}
        if self.png() is not None:
            data["image/png"] = self.png()
            metadata["image/png"] = {"vscode_altText": self.alt()}
        return data, metadata
