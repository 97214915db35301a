"""The default host of a figure: HTML that is alive without a kernel, a network or a library.

A <figure> holds a picture, a table of numbers and a caption; one classic inline script after it hides them
and draws the live figure into an open shadow root. Where scripts are stripped or off, the picture and table
remain. The script finds its figures by attribute, because ids repeat when one figure is shown twice, and a
script that a front end re-creates has no neighbours of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape

from pe.explore.bundle import bundle, source
from pe.plot import style

SHELL = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(title)s</title><style>
:root{color-scheme:light dark;%(light)s}
@media(prefers-color-scheme:dark){:root{%(dark)s}}
body{margin:0;background:var(--card);color:var(--ink);font:15px/1.55 %(sans)s}
main{max-width:860px;margin:0 auto;padding:28px 20px 56px}
h1{font-size:26px;line-height:1.25;margin:0 0 20px;font-weight:600}
h2{font-size:18px;line-height:1.3;margin:36px 0 8px;font-weight:600}
p{margin:8px 0;max-width:44em;white-space:pre-line} figure + p{margin-top:28px}
.note{margin:14px 0;padding:8px 14px;max-width:calc(44em - 31px);background:var(--panel)}
.note{border-left:3px solid var(--axis)} .notice{border-color:var(--turn)}
.wide{overflow-x:auto;margin:12px 0;background-repeat:no-repeat} /* a shadow where a table goes on */
.wide{background-position:0,100%%,0,100%%;background-size:28px,28px,6px,6px}
.wide{background-attachment:local,local,scroll,scroll}
.wide{--away:var(--card) 50%%,transparent;--more:var(--axis),transparent}
.wide{background-image:linear-gradient(90deg,var(--away)),linear-gradient(270deg,var(--away)),
linear-gradient(90deg,var(--more)),linear-gradient(270deg,var(--more))}
.wide:focus-visible{outline:2px solid var(--turn);outline-offset:2px}
table{border-collapse:collapse;font:13px/1.4 %(mono)s;font-variant-numeric:tabular-nums}
th,td{padding:5px 14px 5px 0;text-align:left;border-bottom:1px solid var(--grid);vertical-align:top}
th,td{white-space:pre} td:last-child,th:last-child{padding-right:0}
th{color:var(--muted);font-weight:400;border-bottom-color:var(--axis)}
.n{text-align:right} .bars{width:100%%} .bars .n{width:1px}
.bars i{display:block;height:12px;background:var(--turn)} td b{font-weight:600}
pre{margin:12px 0;padding:10px 14px;background:var(--panel);font:13px/1.5 %(mono)s;overflow-x:auto}
.turn{color:var(--turn)} .fade{color:var(--fade)} .slide{color:var(--slide)} .explode{color:var(--explode)}
figure{max-width:860px} img{max-width:100%%;height:auto} figcaption,summary{color:var(--muted);font-size:13px}
</style></head><body><main><h1>%(title)s</h1>
%(body)s
</main></body></html>
"""


def _variables(colours):
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def stylesheet():
    """Return the style of the figures: `figure.css` after the colours and fonts of `pe.plot.style`."""
    light, dark = (f"color-scheme:{theme};{_variables(style.PALETTE[theme])}" for theme in ("light", "dark"))
    fonts = _variables({"sans": style.SANS, "mono": style.MONO, "serif": style.SERIF})
    return (f":host{{{fonts};{light}}}@media(prefers-color-scheme:dark){{:host{{{dark}}}}}"
            f":host([data-theme=light]){{{light}}}:host([data-theme=dark]){{{dark}}}\n"
            + source("figure.css"))


def _json(value):
    """JSON that may stand inside a script element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def identity(explorer):
    """Return an id that depends on the state alone, so that running a cell again changes no byte."""
    return f"{explorer.module}-{hashlib.sha256(_json(explorer.state).encode()).hexdigest()[:10]}"


def figure(explorer):
    """Return the <figure> of an explorer: picture (where matplotlib is installed), numbers, caption."""
    png = explorer.png()
    picture = ""
    if png is not None:
        width, height = (int.from_bytes(png[at : at + 4], "big") // 2 for at in (16, 20))   # drawn at 2 x
        picture = (f'<img alt="{escape(explorer.alt())}" width="{width}" height="{height}" '
                   f'style="max-width:100%;height:auto" '
                   f'src="data:image/png;base64,{base64.b64encode(png).decode()}">')
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"
                   for label, text in explorer.rows())
    return (f'<figure data-pe="{identity(explorer)}" style="margin:0">{picture}'
            f"<details open><summary>Numbers</summary><table>{rows}</table></details>"
            f"<figcaption>{escape(explorer.describe())} Run the cell, or allow scripts, to move it."
            "</figcaption></figure>")


def script(explorers):
    """Return one classic script that brings these explorers to life; what they share it holds once."""
    configs = {explorer.module: explorer.config for explorer in explorers}
    state = [[explorer.module, identity(explorer), explorer.state] for explorer in explorers]
    renders = ", ".join(f"{name}: ${name}.render" for name in configs)
    return (f'<script>(() => {{ "use strict";\n{bundle(*configs, "hosts")}'
            f"$hosts.mount({{ {renders} }}, {_json(stylesheet())}, {_json(configs)}, {_json(state)});\n"
            "})()</script>")


def is_number(cell):
    """Tell whether a cell of a table holds a number, perhaps with a unit, or stands for a missing one."""
    return not cell or bool(re.fullmatch(r"[-+]?[\d ,.]+(e[-+]?\d+)?(i| ms| x| %)?|[-+]?inf|-", cell))


_NAME = r"(?:turn|fade|slide|explode|nothing|(?:fading|rotating) slide)"
_BEHAVIOURS = re.compile(rf"{_NAME}(?:(?:\s*\+\s*|, ){_NAME})*(?: \(.*\))?\s*")


def paint_behaviours(cell, paint):
    """Paint the names of behaviours in a cell that is made of them: in a sentence, "turns" is a word."""
    if not _BEHAVIOURS.fullmatch(cell):
        return cell
    colour = {"fading": "fade", "rotating": "turn"}
    return re.sub(r"\b(turn|fade|slide|explode|fading|rotating)\b",
                  lambda m: paint(m[0], colour.get(m[0], m[0])), cell)


def _table(header, rows, bars=()):
    rows = [[str(cell) for cell in row] for row in rows]
    ends = [' class="n"' if column and all(map(is_number, column)) else ""
            for column in (zip(*rows, strict=True) if rows else [()] * len(header))]
    head = "".join(f'<th scope="col"{end}>{escape(str(cell))}</th>'
                   for cell, end in zip(header, ends, strict=True))
    lines = ["".join(f"<td{end}>{paint_behaviours(escape(cell), _mark)}</td>"
                     for cell, end in zip(row, ends, strict=True)) for row in rows]
    if bars:
        head += "<td></td>"
        lines = [f'{line}<td><i style="width:{100 * share:.1f}%"></i></td>'
                 for line, share in zip(lines, bars, strict=True)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    name = escape("Table: " + ", ".join(map(str, header)))
    look = ' class="bars"' if bars else ""
    return (f'<div class="wide" tabindex="0" role="group" aria-label="{name}"><table{look}>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")


def _mark(word, name):
    return f'<b class="{name}">{word}</b>'


def page(title, parts):
    """Write one self-contained page: no network, no library, readable with scripts off, light and dark.

    Parameters
    ----------
    title : str
        Title and top heading.
    parts : iterable
        In order: an `Explorer`, ``("heading", str)``, ``("text", str)``, ``("note", label, str)``,
        ``("code", str)``, ``("table", header, rows)`` where header is a sequence of cells and rows a sequence
        of such sequences, or ``("bars", header, rows, top)`` with rows (label, number), whose bar is full at
        top. Text is escaped; columns of numbers stand right.

    Returns
    -------
    str
        The HTML document. The same arguments give the same bytes.

    Raises
    ------
    TypeError
        If a part is none of these.

    Examples
    --------
    >>> html = page("Two numbers", [("heading", "a < b"), ("table", ["a", "b"], [[1, 2]])])
    >>> "<h2>a &lt; b</h2>" in html
    True
    """
    explorers, body = [], []
    for index, part in enumerate(parts):
        if hasattr(part, "module"):
            explorers.append(part)
            body.append(figure(part))
            continue
        match part:
            case ("heading", str(words)):
                body.append(f"<h2>{escape(words)}</h2>")
            case ("text", str(words)):
                body.append(f"<p>{escape(words)}</p>")
            case ("note", str(label), str(words)):
                body.append(f'<p class="note {escape(label.lower())}"><b>{escape(label)}:</b> '
                            f"{escape(words)}</p>")
            case ("code", str(words)):
                body.append(f'<pre tabindex="0">{escape(words)}</pre>')
            case ("table", header, rows):
                body.append(_table(header, rows))
            case ("bars", header, rows, top):
                body.append(_table(header, rows, [max(0.0, float(number) / top) for _, number in rows]))
            case _:
                raise TypeError(f'parts[{index}] must be an Explorer, ("heading", str), ("text", str), '
                                f'("note", label, str), ("code", str), ("table", header, rows) or '
                                f'("bars", header, rows, top), got {part!r}')
    body += [script(explorers)] if explorers else []
    colours = {theme: _variables(palette) for theme, palette in style.PALETTE.items()}
    return SHELL % {"title": escape(title), "body": "\n".join(body), "sans": style.SANS, "mono": style.MONO,
                    **colours}
