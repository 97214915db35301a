"""What a function does far from position 0, in other dtypes and orders, where near position 0 it turns."""

from __future__ import annotations

from itertools import product

import numpy as np

from .calling import CallFailed
from .precision import FAR, IMPLICIT_ROWS, WRITTEN, Prober, rounding_cause, same_turn, stretch
from .reading import SAME

OFF = 0.05
"""Distance of e^(i angle) beyond which a row stands at another position, rather than at a rounded one."""

CHUNK = 4096
"""Rows of one call where all positions are tried in turn."""


class Trial:
    """A function whose planes turn by ``points @ freqs + start`` near position 0: does it go on so?"""

    def __init__(self, report, caller, planes, freqs, start):
        self.report, self.caller, self.freqs, self.start = report, caller, freqs, start
        self.prober, self.firsts = Prober(caller, planes, report.amplitude), []

    def exact(self, points):
        """Return e^(i angle) (..., L) at points (..., n_axes); the product is formed in float64."""
        return np.exp(1j * (points @ self.freqs + self.start))

    def along(self, positions, axis=0):
        """Return the points at positions of one axis, 0 on the others."""
        return np.multiply.outer(positions, np.arange(self.caller.n_axes) == axis)

    def rows(self, dtype):
        """Give rows from another start, in another order, one alone, and different ones in a batch."""
        if self.caller.implicit:
            return
        order = np.array([7, 3, 0, 12, 5, 5, 1, 9, 2, 15, 4])
        trials = {"consecutive positions": np.arange(9, 20), "positions in any order": order,
                  "one row alone": np.array([7])}
        if self.caller.consecutive:
            del trials["positions in any order"]
        for what, positions in trials.items():
            points = positions[:, None] * np.ones(self.caller.n_axes, int)
            try:
                turns = self.prober(points, dtype)[0]
            except CallFailed as failure:
                self.report.blame(f"{what}: {failure}", positions=positions.tolist())
                return
            if (np.abs(turns - self.exact(points)) > OFF).any():
                self._misplaced(what, positions, points, turns)
                return
        if "position_ids" in self.caller.slots and "B" in self.caller.axes:
            points = np.stack([order, order[::-1]])[..., None] * np.ones(self.caller.n_axes, int)
            turns = self.prober(points, dtype)
            if np.abs(turns - self.exact(points)).max() > OFF and np.abs(turns[1] - turns[0]).max() < SAME:
                self.report.is_relative = False
                self.report.blame("one row of position_ids serves the whole batch",
                                  position_ids=points[..., 0].tolist())

    def _misplaced(self, what, positions, points, turns):
        """Report where rows stand that are not at their positions."""
        self.report.is_relative = False
        taken = [same_turn(turn, self.freqs.sum(axis=0), self.start, 40) for turn in turns]
        off = {None if q is None else q - p for p, q in zip(positions.tolist(), taken, strict=True)}
        if len(turns) == 1:
            text = (f"one row alone stands at position {taken[0]}, whatever its position: a step of decoding "
                    f"loses its offset")
        elif taken == list(range(len(turns))):
            text = "positions are ignored: row i stands at position i, wherever the rows start"
        elif len(set(taken)) == 1 and taken[0] is not None:
            text = f"{what}: all rows stand at position {taken[0]}"
        elif len(off) == 1 and None not in off:
            text = f"{what}: rows are off by {off.pop()}"
        elif None not in taken and taken == sorted(positions.tolist()):
            text = f"{what}: rows stand at the sorted positions"
        elif stretch(turns, self.freqs.sum(axis=0), self.start, positions):
            text = f"{what}: positions are divided by the number of rows, or by the largest of them"
        else:
            text = f"{what}: rows stand elsewhere"
        row = int((np.abs(turns - self.exact(points)).max(axis=1) > OFF).argmax())
        self.report.blame(text, row=row, position=int(positions[row]), taken_for=taken[row])

    def far(self, dtypes, most, tolerance):
        """Measure angles at positions up to `most` in each dtype; name what rounds or replaces them."""
        most = min(most, IMPLICIT_ROWS - 1) if self.caller.implicit else most
        positions = sorted({*(p for p in FAR if p <= most), most})
        found, failed = {}, {}
        for dtype, axis in product(dtypes, np.flatnonzero(self.freqs.any(axis=1))):
            turns, refused = self.prober.at(positions, dtype, axis)
            kept = [i for i, position in enumerate(positions) if position not in refused]
            if not kept and all(failure.raised for failure in refused.values()):
                self.report.remark(f"{dtype} is not taken: {refused[positions[0]]}")
                continue
            for position in sorted(refused):
                failed.setdefault(refused[position].raised, (position, refused[position]))
            if kept and dtype == dtypes[0]:
                self._note_errors([positions[i] for i in kept], turns[kept], axis)
            fault = kept and self._judge([positions[i] for i in kept], turns[kept], dtype, tolerance, axis,
                                         found)
            if fault:
                found.setdefault(fault[0], (fault[1], []))[1].append(dtype)
        for text, (shown, names) in found.items():
            self.report.blame(f"{text} (for {', '.join(dict.fromkeys(names))})", **shown)
        for raised, (position, failure) in failed.items():      # to refuse a position is no fault
            (self.report.remark if raised else self.report.blame)(f"position {position}: {failure}")
        worst = max(self.report.angle_errors.items(), key=lambda item: item[1], default=(0, 0.0))
        rounded = 1e-8 + 2.0**-50 * worst[0] * np.abs(self.freqs).max()
        if not found and dtypes[0] == "float64" and worst[1] > rounded and not self.caller.narrowed:
            self.report.remark(f"float64 values are turned to {worst[1]:.1e} only, at position {worst[0]}: "
                               f"cos and sin come from float32 or less")
        if self.caller.implicit:
            self.report.remark(f"the function counts positions by itself: those up to {most} were tried")

    def _note_errors(self, positions, turns, axis):
        error = np.abs(turns - self.exact(self.along(positions, axis))).max(axis=1)
        for position, size in zip(positions, error.tolist(), strict=True):
            self.report.angle_errors[position] = max(size, self.report.angle_errors.get(position, 0.0))

    def _judge(self, positions, turns, dtype, tolerance, axis, known):
        """Return (cause, values that show it, unless it is known), or None where all is within tolerance."""
        freqs, written = self.freqs[axis], 2 * WRITTEN[dtype]           # a product and a sum are rounded
        error = np.abs(turns - self.exact(self.along(positions, axis))).max(axis=1)
        wrong = error > tolerance + written
        if not wrong.any():
            return None
        if (error > 2 * OFF).any():
            self.report.is_relative = False
        row = int(wrong.argmax())
        position, turn = positions[row], turns[row]
        text = self._in_company(position, positions[-1], turn, dtype, axis)
        unlike = "angles are off by more than float32 rounds: large arguments that are not reduced?"
        if not text:
            gone = wrong[row:].all() and error[row] > OFF
            text = rounding_cause(positions, turns, freqs, self.start, written)
            if text in known:
                return text, {}
            limit = OFF if gone and not text else tolerance + written
            position, turn = self._first(position, turn, limit, dtype, axis)
            text = text or (self._replaced(position, turn, turns[row:], freqs) if gone else unlike)
        exact = self.exact(self.along([position], axis))[0]
        plane = int((np.abs(turn - exact) > (tolerance + written)).argmax())
        return text, {"position": position, "plane": plane,
                      "cos, sin": [float(turn[plane].real), float(turn[plane].imag)],
                      "exact": [float(exact[plane].real), float(exact[plane].imag)]}

    def _in_company(self, position, last, turn, dtype, axis):
        """Say if a position turns otherwise when nothing farther stands beside it."""
        alone, refused = self.prober.at([position], dtype, axis)
        again = not refused and not self.caller.implicit and position <= 16
        if again and np.abs(alone[0] - self.exact(
                self.along([position], axis))[0]).max() > OFF:  # where it was right before the far call
            return (f"position {position} turns otherwise after a call that held position {last}: the "
                    f"frequencies of that call stay (dynamic scaling), and keys turned before do not fit")
        if refused or position == last or np.abs(alone[0] - turn).max() <= OFF:
            return ""
        place = same_turn(turn, self.freqs[axis], self.start, last, -last)
        factor = stretch(turn[None], self.freqs[axis], self.start, np.array([position]))
        if factor is not None and abs(factor * position - round(factor * position)) > 1e-2:
            why = "positions are divided by the number of rows, or by the largest position, and keys"
        elif place is not None:
            why = f"there it stands at {place}, counted from the middle or the end of the call, and keys"
        else:
            why = "frequencies follow the farthest position of a call (dynamic scaling), and keys"
        return (f"position {position} turns otherwise in a call that holds position {last} too: {why} turned "
                f"before do not")

    def _first(self, position, turn, limit, dtype, axis):
        """Return the smallest position up to one that is off by more than a limit, and its turn."""
        chunks = [range(low, min(low + CHUNK, position)) for low in range(0, position, CHUNK)]
        for places in [*(range(first - 1, first + 1) for first in self.firsts), *chunks]:
            turns = self.prober.at(list(places), dtype, axis)[0]        # NaN where it is refused
            off = np.abs(turns - self.exact(self.along(np.array(places), axis))).max(axis=1) > limit
            if off.any():
                first = int(off.argmax())
                if first or places in chunks:
                    self.firsts.append(places[first])
                    return places[first], turns[first]
        return position, turn

    def _replaced(self, position, turn, later, freqs):
        """Say where the rows from `position` on stand: the first turns by `turn`, some by `later`."""
        taken = same_turn(turn, freqs, self.start, position, -position)
        if np.abs(later - 1).max() < OFF:
            return f"rows from position {position} on come back as they were: the table ends there"
        if np.abs(later - turn).max() < OFF and taken is not None:
            return f"positions from {position} on stand at {taken}: the table ends there, and is clamped"
        if taken == 0:
            why = "the table ends there"
            why += ", or their integer type is too short" if position in (2**8, 2**16) else ""
            return f"positions wrap around at {position}: {why}"
        if taken == -position:
            return f"position {position} is taken for {taken}: the integer type of positions is too short"
        return (f"angles are wrong from position {position} on: a table that ends, or large arguments that "
                f"are not reduced")

    def negative(self, dtype):
        """Remark on a function that refuses negative positions, or reads them as others."""
        if self.caller.consecutive or self.caller.tabled or self.caller.n_axes > 1:
            return
        turns, refused = self.prober.at([-1, -7], dtype)
        if refused:
            self.report.remark(f"negative positions: {refused[min(refused)]}")
        elif np.abs(turns - self.exact(self.along([-1, -7]))).max() > OFF:
            self.report.remark("negative positions do not turn back: an index that wraps around, or a clamp")
