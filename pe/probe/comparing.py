"""Outputs of a function beside each other, and what it is beside what was expected."""

from __future__ import annotations

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
        _compare_freqs(report, rope.freqs, turning)
    ratio = report.amplitude / rope.amplitude
    if abs(ratio - 1) > 4e-3:
        why = (": it is left out" if report.amplitude == 1 else
               ": it is applied twice" if abs(ratio / rope.amplitude - 1) < 4e-3 else "")
        report.blame(f"amplitude is {report.amplitude:.6g}, expected {rope.amplitude:.6g}{why}",
                     amplitude=report.amplitude, expected=rope.amplitude)


def _compare_freqs(report, expected, turning):
    """Report the first plane at another speed; a direction is reported by itself."""
    freqs = (-report.freqs if report.direction == -1 else report.freqs)[:, turning]
    expected = expected[:, expected.any(axis=0)]
    wrong = np.abs(freqs - expected).max(axis=0) > 1e-3 * np.abs(expected).max(axis=0)
    if not wrong.any():
        return
    plane = int(wrong.argmax())
    if len(freqs) > 1 and np.allclose(freqs[::-1], expected, rtol=1e-3, atol=0):
        text = "the axes of positions are swapped"
    else:
        text = f"frequencies are not those expected, from plane {np.flatnonzero(turning)[plane]} on"
    report.blame(text, plane=int(np.flatnonzero(turning)[plane]), frequency=freqs[:, plane],
                 expected=expected[:, plane])
