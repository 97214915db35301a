"""Outputs of a function beside each other, and what it is beside what was expected."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from ..scaling import linear, ntk, yarn
from .frequencies import seen_to_turn
from .precision import WRITTEN
from .reading import SAME


def compare_outputs(report, caller, dtype):
    """Report q and k that are not turned alike or change places, and a v that is turned."""
    names = caller.values
    if len(names) == 1:
        return
    points, dim = np.arange(5)[:, None] * np.ones(caller.n_axes, int), caller.rope.dim
    given = [*np.random.default_rng(1).standard_normal((len(names), 2, caller.heads, 5, dim))]
    got = caller.turn(given, points, dtype)
    turned = [caller.turn(x, points, dtype)[0] for x in given]

    def same(y, x):
        return bool((np.abs(y - x) <= 10 * (SAME + WRITTEN[dtype])).all())

    if names[:2] == ["q", "k"] and not same(got[0], turned[0]) and same(got[0], turned[1]) and same(
            got[1], turned[0]):
        _show_changed(report, caller, points, dtype, 0, 1,
                      "q and k change places: the first result is that of k, the second that of q")
        return
    for i, name in enumerate(names):
        if same(got[i], given[i] if name == "v" else turned[i]):
            continue
        if name == "k" and names[i + 1:] == ["v"] and same(got[i], given[-1]) and same(got[-1], turned[i]):
            _show_changed(report, caller, points, dtype, 1, 2,
                          "k and v change places: the result for k is v, and that for v is k turned")
            return
        units = np.broadcast_to(np.eye(dim)[:, None, None], (dim, caller.heads, 5, dim))
        maps = caller.turn(units, points, dtype)                # (D, H, T, D): the results for unit vectors
        wanted = units if name == "v" else maps[0]
        text = f"{name} is not turned as {names[0]} is"
        if name == "v":
            text = "v is turned too" if same(got[i], turned[i]) else "v does not come back as it was"
        else:
            ratio = np.linalg.norm(got[i]) / np.linalg.norm(turned[i])
            if same(got[i] / ratio, turned[i]):
                text += f", but {ratio:.6g} times as long: an amplitude, or the scale, is on one of them"
            else:
                report.is_relative = False
        report.blame(text, **_first_unlike(maps[i], wanted, points))


def _show_changed(report, caller, points, dtype, i, j, text):
    """Report two values whose results change places: one is the first unit vector, the other the second."""
    given = np.zeros((len(caller.values), 1, caller.heads, len(points), caller.rope.dim))
    given[..., 0] = 1
    given[j] = np.roll(given[j], 1, axis=-1)
    got, names = caller.turn([*given], points, dtype), [caller.values[i], caller.values[j]]
    shown = {name: f"1 at coordinate {place}, else 0" for place, name in enumerate(names)}
    shown |= {f"got {name} at 0, 1": got[n][0, 0, 0, :2] for name, n in zip(names, (i, j), strict=True)}
    report.blame(text, position=points[0].tolist(), **shown)


def _first_unlike(got, expected, points):
    """Show the first row and the first unit vector (D, H, T, D) whose results differ."""
    off = np.abs(got - expected).max(axis=1)
    found = np.argwhere(off.swapaxes(0, 1) > 10 * SAME)
    if not len(found):
        return {"x": "a mixture of coordinates", "position": points[-1].tolist()}
    row, column, place = found[0]
    head = int(np.abs(got - expected)[column, :, row, place].argmax())
    return {"x": f"1 at coordinate {column}, else 0", "position": points[row].tolist(),
            f"got at {place}": float(got[column, head, row, place]),
            "expected": float(expected[column, head, row, place])}


def compare_expected(report, rope, planes, points, phase):
    """Report where a function, whose planes and speeds are read, is not the Rope that was expected."""
    offset = rope.rotary_offset
    if report.layout != rope.layout and report.rotary_dim > 2:      # one plane has no layout
        row = int((np.abs(phase[:, 0] - phase[0, 0]) > SAME).argmax())
        first, second = (int(place[0]) for place in planes.written)
        half = rope.rotary_dim // 2 if rope.layout == "half" else 1
        report.blame(f"layout is {report.layout}, expected {rope.layout}: pe.convert_layout moves weights or "
                     "vectors from one to the other",
                     x=f"1 at coordinate {planes.offset}, else 0", position=points[row].tolist(),
                     **{f"got at {first}, {second}": _pair(report.amplitude * phase[row, 0]),
                        f"expected at {offset}, {offset + half}":
                            _pair(rope.amplitude * np.exp(1j * points[row] @ rope.freqs[:, 0]))})
    turning, moving = report.freqs.any(axis=0), seen_to_turn(rope.freqs)
    found, expected = 2 * int(turning.sum()), 2 * int(moving.sum())
    if not moving.all() and rope.freqs.any(axis=0).all():
        offset += int(moving.argmax()) * (1 if rope.layout == "half" else 2)
        report.remark("planes of frequency 2 pi turn nothing at whole positions, where the function is tried")
    if found != expected or report.rotary_offset != offset:
        report.blame(f"{found} coordinates turn, from {report.rotary_offset} on; expected {expected}, from "
                     f"{offset} on", turning=found, offset=report.rotary_offset)
    else:
        _compare_freqs(report, rope, turning, moving)
    ratio = report.amplitude / rope.amplitude
    if abs(ratio - 1) > 4e-3:
        why = (": it is left out" if report.amplitude == 1 else
               ": it is applied twice" if abs(ratio / rope.amplitude - 1) < 4e-3 else "")
        report.blame(f"amplitude is {report.amplitude:.6g}, expected {rope.amplitude:.6g}{why}",
                     amplitude=report.amplitude, expected=rope.amplitude)


def _pair(z):
    return [float(z.real), float(z.imag)]


def _compare_freqs(report, rope, turning, moving):
    """Report the first plane at another speed; a direction is reported by itself."""
    freqs = (-report.freqs if report.direction == -1 else report.freqs)[:, turning]
    expected = rope.freqs[:, moving]
    wrong = np.abs(freqs - expected).max(axis=0) > 1e-3 * np.abs(expected).max(axis=0)
    if not wrong.any():
        return
    first = int(wrong.argmax())
    plane = int(np.flatnonzero(turning)[first])
    why = (_other_order(freqs, expected) or _other_scale(freqs, expected, rope, moving)
           or (_other_base(report, rope) if abs(freqs[0, 0] - 1) < 1e-3 else "")
           or f"frequencies are not those expected, from plane {plane} on")
    report.blame(why, plane=plane, frequency=freqs[:, first], expected=expected[:, first])


def _other_order(freqs, expected):
    """Say which order of axes, or of planes, the frequencies are the expected ones in."""
    orders = {order: expected[list(order)] for order in permutations(range(len(freqs)))}
    for order, rows in orders.items():
        if _close(freqs, rows):
            listed = f": axis {', axis '.join(map(str, order))}" if len(order) > 2 else ""
            return f"the axes of positions are swapped{listed}"
    owner, own = (np.abs(rows).argmax(axis=0) for rows in (freqs, expected))
    if len(freqs) > 1 and _close(freqs.sum(axis=0), expected.sum(axis=0)):
        first = int((owner != own).argmax())
        dealt = np.array_equal(np.bincount(owner), np.bincount(own))
        why = " (sections chunked where they should be interleaved, or the reverse?)" if dealt else ""
        return (f"planes follow other axes than expected: plane {first} turns by axis {owner[first]}, not by "
                f"axis {own[first]}{why}")
    if _close(freqs, expected[:, ::-1]):
        return "frequencies stand in reverse order, the slowest first"
    if len(freqs) == 1 and _close(np.sort(freqs), np.sort(expected)):
        first = int((np.abs(freqs - expected) > 1e-3 * expected)[0].argmax())
        place = int(np.abs(expected[0] - freqs[0, first]).argmin())
        return f"frequencies stand in another order: plane {first} has that of plane {place}"
    return ""


def _other_scale(freqs, expected, rope, moving):
    """Say by which one number the frequencies differ, or which scaling they have."""
    unscaled = rope.unscaled[:, moving]
    if rope.scaling is not None and _close(freqs, unscaled):
        return f"scaling is left out: frequencies are those before {rope.scaling}"
    for other in _other_scalings(rope.scaling) if len(freqs) == 1 and rope.base is not None else ():
        if _close(freqs, other.scale(rope.unscaled, rope.base)[:, moving]):
            return f"scaling is another one: frequencies are those of {other}, expected {rope.scaling}"
    if len(freqs) == 1 and _close(freqs, 1 / expected):
        return "frequencies are periods, 1 / w in the place of w"
    ratio = np.abs(freqs).max() / np.abs(expected).max()
    if not _close(freqs, ratio * expected):
        return ""
    if expected.shape[1] > 1 and _close(freqs[:, :-1], expected[:, 1:]):
        return f"exponents are one plane ahead: plane 0 has the frequency {freqs[0, 0]:.6g} of plane 1"
    factor = getattr(rope.scaling, "factor", None) or 1.0
    known = {1 / factor: "1 / factor: the scaling is applied twice", 2.0: "the turn is applied twice",
             factor**2: "factor^2: positions are multiplied by the factor, not divided",
             2 * np.pi: "2 pi: turns are taken for radians", 1 / (2 * np.pi): "1 / (2 pi): radians for turns",
             np.pi / 180: "pi / 180: degrees for radians", 180 / np.pi: "180 / pi: radians for degrees"}
    why = next((f" ({text})" for number, text in known.items() if abs(ratio / number - 1) < 1e-3), "")
    return f"frequencies are all {ratio:.6g} of those expected, as if positions were multiplied by it{why}"


def _other_scalings(scaling):
    """Yield scalings that are taken for this one: other kinds of the same factor, its switches turned."""
    factor = getattr(scaling, "factor", None)
    if factor is None:
        return
    for kind in (linear, ntk):
        if type(scaling) is not kind:
            yield kind(factor)
    if isinstance(scaling, yarn):
        yield replace(scaling, truncate=not scaling.truncate)
        context = scaling.original_max_position_embeddings
        for other in (round(context * factor), round(context / factor)):
            if other >= 1:
                yield replace(scaling, original_max_position_embeddings=other)


def _other_base(report, rope):
    """Say which base the frequencies have, or which exponents the expected base."""
    if report.base is None or rope.base is None or rope.scaling is not None or _close(report.base, rope.base):
        return ""
    planes = report.rotary_dim // 2
    whole = report.base ** (report.head_dim / report.rotary_dim)
    if report.rotary_dim < report.head_dim and _close(whole, rope.base):
        return (f"exponents are over the head width {report.head_dim} and not over rotary_dim "
                f"{report.rotary_dim}: w_1 = {rope.base:g}^(-2/{report.head_dim})")
    if _close(report.base**2, rope.base):
        return f"exponents are counted l/D instead of 2l/D, which makes the base {report.base:g}"
    if _close(report.base, rope.base**2):
        return f"exponents are counted 2l/L instead of 2l/D, which makes the base {report.base:g}"
    if planes > 1 and _close(report.base, rope.base ** (planes / (planes - 1))):
        return (f"exponents are l/(L - 1), up to 1 (a linspace with its end), instead of l/L: the base is "
                f"then {report.base:g}")
    return f"base is {report.base:g}, expected {rope.base:g}"


def _close(a, b):
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-3, atol=0)
