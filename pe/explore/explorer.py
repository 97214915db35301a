"""`Explorer`: an interactive figure as an object - its state, its numbers, its picture, its HTML."""

from __future__ import annotations

import io
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from pe.explore import host


@lru_cache(maxsize=32)
def _draw(static, state):
    """Draw a state as PNG bytes of few colours; a cell that is run again has its picture at once."""
    from PIL import Image

    raw, small = io.BytesIO(), io.BytesIO()
    static(dict(state)).figure.savefig(raw, format="png", dpi=160, metadata={"Software": None})
    few = Image.open(raw).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True)
    return small.getvalue()


class Explorer:
    """An interactive figure that needs no kernel, no network and no library to move.

    Made by a function such as `pe.explore.generator`. In a notebook it shows itself; elsewhere `save` writes
    a page to open in a browser.

    Parameters
    ----------
    module : str
        The figure's ES module in this package, without its ``.js``.
    state : dict
        Initial values of the controls, plain JSON.
    config : dict
        What the module reads, plain JSON: words, presets, and under "limits" for each key of the state the
        least value, the largest value and the step of its slider.
    data : callable
        Maps a state to the figure's data, an object with ``numbers()`` and ``words``.
    static : callable
        Maps a state and keywords of the static figure to its result, with ``figure`` and ``alt``.
    describe : callable
        Maps that data to one line of text.
    title : str
        Heading of a saved page.

    Attributes
    ----------
    state : dict
        The values the figure opens with. What a reader moves on a page stays on that page, in its address and
        in the call that the figure prints; what is moved in the `widget` comes back here.
    """

    def __init__(self, module, state, config, *, data, static, describe, title):
        self.module, self.state, self.config, self.title = module, dict(state), config, title
        self._data, self._static, self._describe, self._widget = data, static, describe, None

    def data(self):
        """Return the arrays and numbers that the picture and the live figure show."""
        return self._data(self.state)

    def static(self, **kwargs):
        """Draw the state with matplotlib; keywords as in the `pe.plot` function of the same name."""
        return self._static(self.state, **kwargs)

    def rows(self):
        """Return the printed numbers as (label, text) pairs."""
        return list(self.data().numbers().values())

    def describe(self):
        """Return one line of text: what the state does, and its most telling numbers."""
        return self._describe(self.data())

    def alt(self):
        """Return the text that stands in for the picture."""
        return f"{self.data().words['title']}. {self.describe()}"

    def png(self):
        """Return the static picture as PNG bytes, or None where matplotlib is not installed."""
        return _draw(self._static, tuple(self.state.items())) if find_spec("matplotlib") else None

    def html(self):
        """Return the figure as an HTML fragment: picture and numbers, then the script that moves them."""
        return host.figure(self) + host.script([self])

    def save(self, path):
        """Write the figure as one self-contained page and return its path.

        The page's address follows what a reader moves, as in ``turn.html#generator=0,-1,1,0,0.8``: the values
        of `state` in order. A bookmark or a link opens the figure as it was. Where a page has several figures
        of a kind, the second is ``generator-2``.

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

    def widget(self):
        """Return the figure as a widget of a live Jupyter: Python and the reader move the same controls.

        Every key of `state` is a trait of the widget: ``w.u`` reads what the reader has moved, ``w.u = 2``
        moves the figure, ``w.observe(call, "u")`` listens. `state`, `data` and `static` of this explorer
        follow.

        Returns
        -------
        anywidget.AnyWidget
            The same one for every call.

        Raises
        ------
        ImportError
            If anywidget is not installed.

        Notes
        -----
        A widget lives as long as its kernel. In an exported page, or in a notebook that is not trusted, the
        figure itself stands in its place; a notebook for others to read had better show the figure.

        Examples
        --------
        >>> import pe
        >>> figure = pe.explore.generator("slide")
        >>> w = figure.widget()             # doctest: +SKIP
        >>> w.u = 2                         # doctest: +SKIP
        >>> figure.data().point.tolist()    # doctest: +SKIP
        [3.0, 1.0]
        """
        if self._widget is None:
            for name in ("anywidget", "traitlets"):
                if find_spec(name) is None:
                    raise ImportError(f'widget() needs {name}: pip install "turn-fade-slide[widget]"')
            from pe.explore.widget import widget

            self._widget = widget(self)
        return self._widget

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
