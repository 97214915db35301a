"""`python -m pe classify`: a matrix from the command line, its names, a sentence, a phase portrait."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np

from .llama2c import InputError

WIDTH, HEIGHT = 17, 9
ARROWS = "→↗↑↖←↙↓↘"
ASCII = str.maketrans(ARROWS + "·", ">/^\\</v\\.")
PORTRAITS = 2


def run(matrix: str, *, exact: bool, as_json: bool, out) -> None:
    """Classify the matrix and print the answer.

    Parameters
    ----------
    matrix : str
        Rows of numbers between semicolons, or the path of a .npy or .json file.
    exact : bool
        Take the numbers as the fractions they are.
    as_json : bool
        Print one JSON object instead of text.
    out : text file

    Raises
    ------
    InputError
        There is no square finite matrix of numbers.
    """
    from .generators import classify
    from .generators._matrix import as_generators
    from .generators.exact import is_rational

    X = _read_file(matrix) if matrix.endswith((".npy", ".json")) else parse(matrix)
    if np.ndim(X) != 2 or len(X) != X.shape[1]:
        raise InputError(f"{matrix} has shape {np.shape(X)}; expected one square matrix")
    try:
        if exact:
            answer = classify(X, method="exact")
        else:
            answer = classify(as_generators(X)[0] if is_rational(X) else X)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(str(error)) from None
    if as_json:
        json.dump(as_dictionary(answer), out, indent=2)
        print(file=out)
        return
    print(answer.summary(), file=out)
    print(file=out)
    for line in textwrap.wrap(sentence(answer), 80):
        print(line, file=out)
    letters = {} if _has_arrows(out) else ASCII
    for line in portraits(answer):
        print(line.translate(letters), file=out)


def parse(text: str) -> np.ndarray:
    """Read "0 1; 0 0" as an array of Fractions.

    Commas, rows on lines of their own and Python's [[0, 1], [0, 0]] are understood as well, and numbers like
    -0.1, 1e-3, 1/3.
    """
    text = re.sub(r"\]\s*,?\s*\[|;?[ \t]*\n\s*", ";", text.strip()).strip("[]; ")
    if not text:
        raise InputError('the matrix is empty; expected rows between semicolons, as in "0 1; 0 0"')
    rows = [row.replace(",", " ").split() for row in text.split(";")]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"rows of {', '.join(str(len(row)) for row in rows)} numbers; expected equally many")
    entries = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, word in enumerate(row):
            try:
                entries[i, j] = Fraction(word)
            except (ValueError, ZeroDivisionError):
                raise InputError(f"{word!r} is not a number; rows go between semicolons, as in \"0 1; 0 0\""
                                 ) from None
    return entries


def _has_arrows(out) -> bool:
    try:
        ARROWS.encode(getattr(out, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_file(name: str) -> np.ndarray:
    path = Path(name)
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return np.load(file, allow_pickle=False)
        return np.array(json.loads(path.read_text(encoding="utf-8"), parse_float=Fraction), dtype=object)
    except (ValueError, EOFError) as error:
        raise InputError(f"{name} holds no matrix: {error}") from None


def sentence(answer) -> str:
    """Say what exp(uX) does to a key over a gap u."""
    if not answer.blocks:
        return "An empty matrix does nothing to nothing."
    phrases = [text + (f" (x{count})" if count > 1 else "") for text, count in _phrases(answer).items()]
    return "Over a gap u, exp(uX) " + "; ".join(phrases) + "."


def _phrases(answer) -> Counter:
    from .generators.classification import grouped, span

    found: Counter = Counter()
    for alike in grouped(answer.blocks):
        block, words = alike[0], []
        if block.theta:
            words.append(f"turns once in {span(b.wavelength for b in alike)} positions")
        if block.gamma > 0:
            words.append(f"fades to half in {span(b.half_life for b in alike)}")
        elif block.gamma < 0:
            words.append(f"doubles in {span(math.log(2) / -b.gamma for b in alike)}")
        if block.size > 1:
            words.append("slides, growing like u" + (f"^{block.size - 1}" if block.size > 2 else ""))
        found[" and ".join(words) or "leaves a coordinate as it is"] += len(alike)
    return found


def portraits(answer) -> list[str]:
    """Arrows of x' = Xx: X itself if it is 2 x 2, else the blocks of the first few kinds, each by itself."""
    if len(answer.generator) == 2:
        drawn = {"x' = Xx": answer.generator}
    else:
        drawn = {}
        for block in answer.blocks:
            if block.kind not in drawn and block.kind != "nothing" and len(drawn) < PORTRAITS:
                drawn[block.kind] = _plane(block)
    if not drawn:
        return []
    fields = [[title.ljust(2 * WIDTH - 1), *_field(X)] for title, X in drawn.items()]
    return ["", *(("  " + "   ".join(parts)).rstrip() for parts in zip(*fields, strict=True))]


def _plane(block) -> np.ndarray:
    """The first plane of a block in its own coordinates; 1 x 1 if it is a line."""
    if block.theta:
        return np.array([[-block.gamma, -block.theta], [block.theta, -block.gamma]])
    if block.size > 1:
        return np.array([[-block.gamma, 1.0], [0.0, -block.gamma]])
    return np.array([[-block.gamma]])


def _field(X) -> list[str]:
    largest = float(np.max(np.abs(X), initial=0.0)) or 1.0
    lines = []
    for y in np.linspace(1, -1, HEIGHT):
        cells = []
        for x in np.linspace(-1, 1, WIDTH):
            if len(X) == 1 and y:
                cells.append(" ")
                continue
            u, v = [*(X @ (x, y)[: len(X)] / largest), 0.0][:2]
            still = math.hypot(u, v) < 1e-9
            cells.append("·" if still else ARROWS[round(math.atan2(v, u) / (math.pi / 4)) % 8])
        lines.append(" ".join(cells))
    return lines


def as_dictionary(answer) -> dict:
    """The answer as plain numbers and strings; what is infinite or unreadable is None."""
    def number(x):
        return float(x) if math.isfinite(x) else None

    names = ("row", "stability", "bounded", "information_preserving", "forbidden", "is_defective",
             "is_normal", "is_skew", "ambiguous", "scaling_sensitive")
    numbers = ("spectral_abscissa", "numerical_abscissa", "backward_error", "distance_to_defective",
               "residual", "cond", "rtol")
    return {
        **{name: getattr(answer, name) for name in names},
        **{name: number(getattr(answer, name)) for name in numbers},
        "kinds": dict(answer.kinds),
        "blocks": [
            {
                "kind": b.kind, "row": b.row, "gamma": b.gamma, "theta": b.theta, "size": b.size,
                "half_life": number(b.half_life), "wavelength": number(b.wavelength),
                "radius": number(b.radius), "certain": b.certain, "alternatives": list(b.alternatives),
            }
            for b in answer.blocks
        ],
        "shipped_in": list(answer.shipped_in),
        "sources": list(answer.sources),
    }
