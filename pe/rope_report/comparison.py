"""Two encodings side by side: what differs, plane by plane, and what it does to cached keys."""

from __future__ import annotations

import numpy as np

from ..llama2c import InputError
from .drawing import Curve
from .encoding import Encoding
from .section import Report, facts, levels, wavelengths

ROWS = 16
LABEL = 24          # letters of a name beside a picture
CLOSE = 0.1         # radians within which two angles count as the same


def pair(ones: list[Encoding], others: list[Encoding]) -> list[tuple[Encoding, Encoding]]:
    """Match the encodings of two configs by layer type; a config of one kind of layer matches every type."""
    if len(ones) == 1 or len(others) == 1:
        return [(one, other) for one in ones for other in others]
    by_type = {other.layer_type: other for other in others}
    pairs = [(one, by_type[one.layer_type]) for one in ones if one.layer_type in by_type]
    if not pairs:
        names = " and ".join(", ".join(str(e.layer_type) for e in each) for each in (ones, others))
        raise InputError(f"no layer type in common: {names}")
    return pairs


def compare(report: Report, one: Encoding, other: Encoding) -> None:
    """Tell how two encodings differ."""
    report.heading(f"{one.name} beside {other.name}")
    a, b = one.rope, other.rope
    if a == b:
        report.notice("both describe the same rotation: every vector turns alike.")
    x, y = facts(one), facts(other)
    names = {**(x if len(x) > len(y) else y), **x, **y}         # the scaling of either where it belongs
    rows = [(name, x.get(name, "-"), y.get(name, "-")) for name in names if x.get(name) != y.get(name)]
    if rows:
        report.table(["what", one.name, other.name], rows)
    if a == b:
        return
    curves = [Curve(_short(each.name), letter, wavelengths(each))
              for each, letter in ((one, "a"), (other, "b"))]
    report.plot(curves, list(dict.fromkeys(levels(one) + levels(other))),
                f"Wavelengths of {one.name} and of {other.name}")
    if a.freqs.shape != b.freqs.shape:
        counts = zip(("planes", "position axes"), a.freqs.shape[::-1], b.freqs.shape[::-1], strict=True)
        unlike = " and ".join(f"{what} ({x} and {y})" for what, x, y in counts if x != y)
        report.careful(f"the configs differ in the number of {unlike}: keys turned by one mean nothing to "
                       f"queries turned by the other.")
        return
    _planes(report, one, other)
    for sentence in _differences(one, other):
        report.careful(sentence)


def between_layers(report: Report, encodings: list[Encoding]) -> None:
    """Say what it would cost to give all layers the tables of one type."""
    for first, second in zip(encodings, encodings[1:], strict=False):
        if first.rope == second.rope or first.rope.freqs.shape != second.rope.freqs.shape:
            continue
        gains = [each.rope.amplitude for each in (first, second)]
        if not np.array_equal(first.rope.freqs, second.rope.freqs):
            unlike = _apart(first, second, "by the wrong table a key at")
        elif gains[0] != gains[1]:
            unlike = f"angles are the same, amplitudes differ ({gains[0]:.6g} and {gains[1]:.6g})."
        else:
            continue
        report.careful(f"{first.layer_type} and {second.layer_type} layers need tables of their own: "
                       f"{unlike}")


def _planes(report, one, other):
    waves = [wavelengths(each) for each in (one, other)]
    count = len(waves[0])
    rows = []
    for i in np.linspace(0, count - 1, min(count, ROWS)).round().astype(int).tolist():
        x, y = waves[0][i], waves[1][i]
        ratio = "1" if x == y else f"{y / x:.4g}" if np.isfinite(x) else "0"
        rows.append([f"{i}", f"{x:.6g}", f"{y:.6g}", ratio])
    report.table(["plane", f"wavelength in {one.name}", f"in {other.name}", "second / first"], rows)


def _differences(one, other):
    a, b = one.rope, other.rope
    if not np.array_equal(a.freqs, b.freqs):
        yield _apart(one, other, f"a key cached under {one.name} and read under {other.name} at")
    if a.layout != b.layout:
        yield (f"layouts differ: convert weights and caches with pe.convert_layout(..., \"{a.layout}\", "
               f"\"{b.layout}\").")
    gains = [rope.amplitude**2 * rope.softmax_scale for rope in (a, b)]
    if gains[0] != gains[1]:
        yield (f"scores of {other.name} are {gains[1] / gains[0]:.6g} times those of {one.name}, by "
               f"amplitude squared and softmax scale.")


def _short(name):
    """A name that has room beside a picture."""
    return name if len(name) <= LABEL else f"...{name[3 - LABEL:]}"


def _apart(one, other, whose):
    difference = np.abs(one.rope.freqs - other.rope.freqs).max(axis=0)
    near = CLOSE / difference.max()
    contexts = [e.context for e in (one, other) if e.context]
    start = (f"angles agree within {CLOSE} radians up to position {near:.4g}" if near >= 1
             else f"angles differ by {difference.max():.3g} radians at position 1 already")
    if not contexts:
        return f"{start}."
    last = min(contexts) - 1
    return (f"{start}; {whose} position {last} is {last * difference.max():.3g} radians off (mean cosine "
            f"over the planes {np.cos(last * difference).mean():.2f}).")
