"""Many small ES modules, one script: what `explore` sends to a browser.

Each module of this folder becomes one constant, a function scope that gives back what the module exports:
axes.js becomes $axes. Imports are taken from the constants before it. Comments and indentation are left out
so that pages stay small. Both hosts of a figure, the widget and the page, run the same text.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import (\{ [\w, ]+ \}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)
_IDLE = re.compile(r"^ *//.*\n|^\n|^ +", re.MULTILINE)


@cache
def source(name):
    """Return the text of a file of this package."""
    return (files("pe.explore") / name).read_text(encoding="utf-8")


def _gather(name, found):
    """Put the module and, before it, what it imports into `found`, name: text."""
    text = source(f"{name}.js")
    for _, needed in _IMPORT.findall(text):
        if needed not in found:
            _gather(needed, found)
    exports = ", ".join(_EXPORT.findall(text))
    body = _IDLE.sub("", _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;", text)))
    found[name] = f"const ${name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


@cache
def bundle(*names):
    """Return script text that defines these modules, and those they import, as constants.

    Parameters
    ----------
    *names : str
        Modules of this package without their ``.js``. Imports must not go in circles.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the text could not stand inside a script element.

    Examples
    --------
    >>> print(bundle("numbers").splitlines()[0])
    const $numbers = (() => {
    """
    found = {}
    for name in names:
        if name not in found:
            _gather(name, found)
    text = "".join(found.values())
    if "</script" in text or "<!--" in text:
        raise ValueError("a module must not contain </script or <!--")
    return text


def module(name):
    """Return a figure as one ES module with the figure's ``render`` as default export, as widgets want it."""
    return f"{bundle(name)}export default {{ render: ${name}.render }};\n"
