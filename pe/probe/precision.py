"""How far the angles of a function are from exact ones, near and far, and what rounds them."""

from __future__ import annotations

import numpy as np

from .calling import CallFailed

FAR = (15, 63, 64, 255, 256, 257, 511, 512, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 15962,
       16384, 32767, 32768, 65535, 65537, 100003, 131071)
"""Positions that are tried: around powers of two, where tables end and short formats stop counting."""

IMPLICIT_ROWS = 4098
"""Rows of a function that counts positions by itself."""

WRITTEN = {"float64": 0.0, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""What rounding the results to these dtypes may do to them."""

UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Relative error of one rounding; an angle takes four at most, of power, frequency, product and sine."""


class Prober:
    """The turns of the planes of a function at any points, as complex numbers without the amplitude."""

    def __init__(self, caller, planes, amplitude):
        self.caller, self.planes, self.amplitude = caller, planes, amplitude

    def __call__(self, points, dtype="float64"):
        """Return e^(i angle) (B, T, L) as the function has it, at points (T, n_axes) or (B, T, n_axes)."""
        caller = self.caller
        batch = points.shape[0] if points.ndim == 3 else 1
        rows = points.shape[-2]
        x = np.zeros((batch, caller.heads, rows, caller.rope.dim))
        x[..., self.planes.first] = 1
        y = caller.turn(x, points, dtype)[0][:, 0]
        first, second = self.planes.written
        return (y[..., first] + 1j * y[..., second]) / self.amplitude

    def at(self, positions, dtype="float64", axis=0):
        """Return turns (n, L) at positions along one axis, and {position: failure} where there are none."""
        step = np.arange(self.caller.n_axes) == axis
        if self.caller.implicit:
            return self._counted(positions, dtype)
        if not self.caller.consecutive or (np.diff(positions) == 1).all():
            try:
                return self(np.array(positions)[:, None] * step, dtype)[0], {}
            except CallFailed:
                pass                                # some are refused: which?
        turns, refused = np.full((len(positions), len(self.planes.first)), np.nan + 0j), {}
        for i, position in enumerate(positions):
            try:
                turns[i] = self(position * step[None], dtype)[0][0]
            except CallFailed as failure:
                refused[position] = failure
        return turns, refused

    def _counted(self, positions, dtype):
        """The same for a function that counts its rows: as many of them as it takes."""
        turns, refused = np.full((len(positions), len(self.planes.first)), np.nan + 0j), {}
        for last in reversed(positions):
            try:
                rows = self(np.arange(last + 1)[:, None], dtype)[0]
            except CallFailed as failure:
                refused[last] = failure
                continue
            taken = positions[:len(positions) - len(refused)]
            turns[:len(taken)] = rows[taken]
            break
        return turns, refused


def rounding_cause(positions, turns, freqs, start, written):
    """Name the rounding that explains turns (n, L) at positions of one axis; "" if none here does."""
    positions = np.asarray(positions, np.float64)[:, None]
    exact = np.exp(1j * (positions * freqs + start))
    error = np.abs(turns - exact).max()
    best = (0.25 * error, "")
    for text, angles, table in _roundings(positions, freqs):
        with np.errstate(invalid="ignore"):         # infinite angles fit nothing
            expected = table(np.cos(angles + start)) + 1j * table(np.sin(angles + start))
        left = np.abs(turns - expected).max()
        if left < best[0]:
            best = (left, text)
    if best[1]:
        return best[1]
    chord, near = np.abs(turns - exact), positions[:, 0] <= 64
    formed = "angles are formed in {}; form them in float64, and round cos and sin afterwards"
    bound = {name: 4 * unit * (1 + positions * np.abs(freqs)) + written for name, unit in UNITS.items()}
    beyond = chord > bound["float32"]
    if not beyond.any():
        return formed.format("float32")
    steady = exact * np.exp(1j * positions * _other_speeds(positions, turns / exact))
    if (np.abs(turns - steady) <= bound["float32"]).all():
        return (f"frequencies are off, from plane {int(beyond.any(axis=0).argmax())} on: angles grow in "
                f"proportion to the position, by another number or by one formed in few bits")
    for name in ("float16", "bfloat16"):
        if (chord <= bound[name]).all() and chord[near].max(initial=0) > written + UNITS[name] / 8:
            return formed.format(name)
    return ""


def _other_speeds(positions, rest):
    """Return by how much (L,) the planes are too fast, from what is left (n, L) of their turns."""
    off, before = np.zeros(rest.shape[1]), 0.0
    for (position,), left in zip(positions, rest, strict=True):
        if position > before:                       # each says how many turns the next one makes
            off += np.angle(left * np.exp(-1j * position * off)) / position
            before = position
    return off


def _roundings(positions, freqs):
    """(what is rounded, the angles that come of it, rounding of the table) for both short formats."""
    for name, short in (("bfloat16", to_bfloat16), ("float16", to_float16)):
        yield f"positions are rounded to {name}", short(positions) * freqs, _same
        yield f"frequencies are rounded to {name}", positions * short(freqs), _same
        yield f"positions and frequencies are rounded to {name}", short(positions) * short(freqs), _same
        yield f"angles are rounded to {name}", short(positions * freqs), _same
        yield (f"positions, frequencies and angles are rounded to {name}",
               short(short(positions) * short(freqs)), _same)
        yield f"tables are rounded to {name}", positions * freqs, short


def _same(x):
    return x


def to_float16(x):
    """Round to float16 and back; what is too large becomes inf, whose turn is NaN and fits nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x, np.float64).astype(np.float16).astype(np.float64)


def to_bfloat16(x):
    """Round float64 to bfloat16, half to even, and back."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


def same_turn(turn, freqs, start, most, least=0):
    """Return the position least..most of one axis whose exact turn this is (L,), or None."""
    fast = np.argsort(-np.abs(freqs))[:: max(1, len(turn) // 8)]
    place = np.arange(least, most + 1)[:, None]
    distance = np.abs(np.exp(1j * (place * freqs[fast] + start[fast])) - turn[fast]).max(axis=1)
    best = int(distance.argmin())
    return least + best if distance[best] <= 1e-2 else None


def stretch(turns, freqs, start, positions):
    """Return the number, not 1, by which positions are multiplied before they turn so (n, L), or None."""
    slowest, last = np.abs(np.where(freqs == 0, np.inf, freqs)).argmin(), positions.argmax()
    angle = np.angle(turns[last, slowest] * np.exp(-1j * start[slowest]))
    factor = angle / (freqs[slowest] * (positions[last] or 1))
    off = np.abs(np.exp(1j * (factor * positions[:, None] * freqs + start)) - turns).max()
    return float(factor) if off <= 1e-2 and abs(factor - 1) > 1e-3 else None
