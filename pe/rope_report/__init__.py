"""`python -m pe rope`: what a config.json says about rotations, as tables, a plot and sentences."""

from __future__ import annotations

from pathlib import Path

from ..llama2c import InputError
from .comparison import between_layers, compare, pair
from .encoding import STDIN, read
from .section import Report, tell

__all__ = ["run"]


def run(path: str, *, other: str | None = None, html: str | None = None, layer_type: str | None = None,
        layout: str | None = None, seq_len: int | None = None, context: int | None = None, out) -> None:
    """Explain a config, or compare it with another, and print the answer.

    Parameters
    ----------
    path : str
        A config.json as Hugging Face saves it; "-" is standard input.
    other : str, optional
        Another one to compare it with.
    html : str, optional
        Where to write the report as a page as well.
    layer_type : str, optional
        Only the encoding of these layers, where a config has several. A config that is compared may have
        one for all layers.
    layout : str, optional
        "half" or "interleaved", for a model type that pe does not know.
    seq_len : int, optional
        The length that dynamic and longrope choose their frequencies by.
    context : int, optional
        Count turns and errors over this many positions.
    out : text file

    Raises
    ------
    InputError
        A file holds no config with a rotary encoding, or the two have no layer type in common.
    OSError
        A file cannot be read or written.
    """
    paths = [path] if other is None else [path, other]
    if paths == [STDIN, STDIN]:
        raise InputError("both configs are standard input; one of them must be a file")
    names = ["standard input" if each == STDIN else Path(each).name for each in paths]
    names = paths if names[:1] == names[1:] else names          # config.json in two folders
    encodings, *others = (read(each, layer_type, layout, seq_len, context, name=name, compared=len(paths) > 1)
                          for each, name in zip(paths, names, strict=True))
    if others and layer_type and {e.layer_type for e in (*encodings, *others[0])} == {None}:
        raise InputError(f"--layer-type {layer_type}: neither config has types of layers")
    pairs = pair(encodings, others[0]) if others else []
    if html is not None:
        with open(html, "a", encoding="utf-8"):                 # an error comes before the first line
            pass
    report = Report(out)
    if not others:
        title = f"Rotary encoding of {names[0]}"
        for encoding in encodings:
            tell(report, encoding)
        between_layers(report, encodings)
    else:
        title = f"Rotary encodings of {names[0]} and {names[1]}"
        for one, two in pairs:
            compare(report, one, two)
    if html is not None:
        Path(html).write_text(report.page(title), encoding="utf-8")
        report.line()
        report.line(f"The same as a page: {html}")
