"""Outputs of a function beside each other, and what it is beside what was expected."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from .precision import WRITTEN
from .reading import SAME


def compare_outputs(report, caller, dtype):
    """Report q and k that are not turned alike, and a v that is turned."""
    if len(caller.values) == 1:
        return
    points = np.arange(5)[:, None] * np.ones(caller.n_axes, int)
    x = np.random.default_rng(1).standard_normal((2, caller.heads, 5, caller.rope.dim))
    results = dict(zip(caller.values, caller.turn(x, points, dtype), strict=True))
    for name, y in results.items():
        wanted = x if name == "v" else results[caller.values[0]]
        wrong = np.argwhere(np.abs(y - wanted) > 10 * (SAME + WRITTEN[dtype]))
        if not len(wrong):
            continue
        where = tuple(wrong[0])
        if name != "v":
            report.is_relative = False
        report.blame("v is turned too" if name == "v" else f"{name} is not turned as {caller.values[0]} is",
                     position=int(where[2]), got=float(y[where]), expected=float(wanted[where]))


def compare_expected(report, rope):
    """Report where a function, whose planes and speeds are read, is not the Rope that was expected."""
    offset = rope.rotary_offset
    if report.layout != rope.layout and report.rotary_dim > 2:      # one plane has no layout
        report.blame(f"layout is {report.layout}, expected {rope.layout}: pe.convert_layout moves weights or "
                     "vectors from one to the other", layout=report.layout, expected=rope.layout)
    turning = report.freqs.any(axis=0)
    found, expected = 2 * int(turning.sum()), 2 * int(rope.freqs.any(axis=0).sum())
    if found != expected or report.rotary_offset != offset:
        report.blame(f"{found} coordinates turn, from {report.rotary_offset} on; expected {expected}, from "
                     f"{offset} on", turning=found, offset=report.rotary_offset)
    else:
        _compare_freqs(report, rope, turning)
    ratio = report.amplitude / rope.amplitude
    if abs(ratio - 1) > 4e-3:
        why = (": it is left out" if report.amplitude == 1 else
               ": it is applied twice" if abs(ratio / rope.amplitude - 1) < 4e-3 else "")
        report.blame(f"amplitude is {report.amplitude:.6g}, expected {rope.amplitude:.6g}{why}",
                     amplitude=report.amplitude, expected=rope.amplitude)


def _compare_freqs(report, rope, turning):
    """Report the first plane at another speed; a direction is reported by itself."""
    freqs = (-report.freqs if report.direction == -1 else report.freqs)[:, turning]
    moving = rope.freqs.any(axis=0)
    expected = rope.freqs[:, moving]
    wrong = np.abs(freqs - expected).max(axis=0) > 1e-3 * np.abs(expected).max(axis=0)
    if not wrong.any():
        return
    first = int(wrong.argmax())
    plane = int(np.flatnonzero(turning)[first])
    why = (_other_order(freqs, expected) or _other_scale(freqs, expected, rope, rope.unscaled[:, moving])
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
    return "frequencies stand in reverse order, the slowest first" if _close(freqs, expected[:, ::-1]) else ""


def _other_scale(freqs, expected, rope, unscaled):
    """Say by which one number the frequencies differ, or which scaling they lack."""
    if rope.scaling is not None and _close(freqs, unscaled):
        return f"scaling is left out: frequencies are those before {rope.scaling}"
    ratio = np.abs(freqs).max() / np.abs(expected).max()
    if not _close(freqs, ratio * expected):
        return ""
    if expected.shape[1] > 1 and _close(freqs[:, :-1], expected[:, 1:]):
        return f"exponents are one plane ahead: plane 0 has the frequency {freqs[0, 0]:.6g} of plane 1"
    return f"frequencies are all {ratio:.6g} of those expected, as if positions were multiplied by it"


def _other_base(report, rope):
    """Say which base the frequencies have, or which exponents the expected base."""
    if report.base is None or rope.base is None or rope.scaling is not None or _close(report.base, rope.base):
        return ""
    whole = report.base ** (report.head_dim / report.rotary_dim)
    if report.rotary_dim < report.head_dim and _close(whole, rope.base):
        return (f"exponents are over the head width {report.head_dim} and not over rotary_dim "
                f"{report.rotary_dim}: w_1 = {rope.base:g}^(-2/{report.head_dim})")
    if _close(report.base**2, rope.base):
        return f"exponents are counted l/D instead of 2l/D, which makes the base {report.base:g}"
    return f"base is {report.base:g}, expected {rope.base:g}"


def _close(a, b):
    return np.allclose(a, b, rtol=1e-3, atol=0)
