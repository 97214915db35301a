"""What a function is: read off its matrices near position 0, and written into a report."""

from __future__ import annotations

import numpy as np

from .._scalars import amount
from .frequencies import STRAIGHT, USUAL_BASES, near_points, spectrum_of, speeds_of, without_turns
from .planes import ROTATION, find_planes, turns_of, why_no_rotation
from .precision import WRITTEN, to_bfloat16, to_float16

SAME = 1e-4
"""Relative difference of matrix entries up to which they are the same, in float32."""


def maps_of(caller, points, dtype):
    """Return the matrix (H, T, D, D) of every head and row, column by column."""
    dim = caller.rope.dim
    x = np.broadcast_to(np.eye(dim)[:, None, None], (dim, caller.heads, len(points), dim))
    return np.ascontiguousarray(np.moveaxis(caller.turn(x, points, dtype)[0], 0, -1))


def mixes(caller, maps, points, dtype):
    """Say whether a row is more than its matrix times its vector: other rows, heads, a nonlinearity."""
    x = np.random.default_rng(0).standard_normal((2, caller.heads, len(points), caller.rope.dim))
    expected = np.einsum("htij,bhtj->bhti", maps, x)
    allowed = (SAME + 4 * WRITTEN[dtype]) * np.abs(expected).max()
    return bool(np.abs(caller.turn(x, points, dtype)[0] - expected).max() > allowed)


def grid_points(grid):
    """Return the cells of a grid, row-major."""
    return np.stack([axis.ravel() for axis in np.indices(grid)], axis=-1)


def tried_points(caller, grid):
    """Return the points of the first rows."""
    return near_points(caller.n_axes) if grid is None else grid_points(grid)


def read_rows(report, maps, points):
    """Report relativity, and functions that turn no row or all alike; say whether there is more to read."""
    size = float(np.abs(maps).max())
    report.is_relative = _read_relative(report, maps, points)
    if np.abs(maps - maps[0]).max() > 1e-7 * size:
        zeros = np.flatnonzero(~maps.any(axis=(-2, -1)))
        if zeros.size:
            row = int(zeros[0])
            report.blame(f"rows come back as 0, {len(zeros)} of {len(maps)}, the first is row {row}: nothing "
                         "is written there", row=row, position=points[row].tolist())
        return not zeros.size
    unit = [1.0, *[0.0] * (maps.shape[-1] - 1)]
    shown = {"x": unit, "position": points[-1].tolist(), "got": maps[-1][:, 0]}
    if np.abs(maps[0] - np.eye(maps.shape[-1])).max() <= SAME:
        report.is_rotation, report.amplitude = True, 1.0
        report.blame("nothing turns: every row comes back as it was, so that all tokens stand at position 0",
                     **shown)
    else:
        report.blame("every row is mapped alike: the position has no effect", **shown)
    return False


def _read_relative(report, maps, points):
    """Compare the scores of some vectors at all pairs of some rows with the same gap."""
    rows = range(min(len(points), 9))
    q, k = np.random.default_rng(2).standard_normal((2, maps.shape[-1], 8))
    queries, keys, known = maps[rows] @ q, maps[rows] @ k, {}
    size = float(np.abs(maps).max()) ** 2
    for t in rows:
        for s in rows:
            gap, scores = tuple((points[s] - points[t]).tolist()), queries[t].T @ keys[s]
            first, second, others = known.setdefault(gap, (t, s, scores))
            if np.abs(scores - others).max() > 2 * ROTATION * size * np.sqrt(maps.shape[-1]):
                here, there = maps[t].T @ maps[s], maps[first].T @ maps[second]
                i, j = np.unravel_index(np.abs(here - there).argmax(), here.shape)
                report.remark(f"not relative: q = e_{i}, k = e_{j} score {there[i, j]:.6g} at "
                              f"{_pair(points, first, second)}, {here[i, j]:.6g} at {_pair(points, t, s)}")
                return False
    return True


def _pair(points, t, s):
    both = points[[t, s]].tolist()
    return " and ".join(str(point[0] if len(point) == 1 else tuple(point)) for point in both)


def read_planes(report, maps, points):
    """Report layout, width, amplitude and rotation; return planes and phases (T, L), or None."""
    dim = maps.shape[-1]
    planes, maps = find_planes(maps)
    if planes is None:
        _read_dense(report, maps, points)
        return None
    report.layout = "interleaved to half" if planes.deinterleaved else planes.layout
    report.rotary_dim, report.rotary_offset = planes.width, planes.offset
    if planes.deinterleaved:
        report.remark("pairs are read adjacent and written in half order, as DeepSeek-V3 does: scores are "
                      "those of the interleaved layout, the vectors are not")
    if planes.blocks > 1:
        report.remark(f"pairs lie within {planes.blocks} blocks of the head, one after the other")
    blocks = planes.blocks_of(maps)
    turns = turns_of(blocks)
    report.amplitude = amplitude = _amplitude(turns.length[0])
    for power, name in ((0.5, "1/sqrt({})"), (0.25, "the root of 1/sqrt({})")):
        if dim > 1 and abs(amplitude * dim**power - 1) < 1e-3:
            report.remark(f"amplitude {amplitude:.6g} is {name.format(dim)}: has it the scale of attention?")
    report.is_rotation = bool(turns.residual.max() <= ROTATION)
    if not report.is_rotation:
        report.amplitude = None
        row, plane = np.argwhere(turns.residual > ROTATION)[0]
        report.blame(why_no_rotation(planes, blocks),
                     **_shown(planes, plane, points[row], blocks[row, plane]))
        return None
    off = np.maximum(np.abs(turns.length - turns.length[0]), np.abs(turns.length[:1] - amplitude))
    if off.max() > ROTATION * amplitude:
        report.is_rotation, report.amplitude = False, None
        row, plane = np.argwhere(off > ROTATION * amplitude)[0]
        report.blame(f"lengths change, by factors from {turns.length.min():.6g} to {turns.length.max():.6g}: "
                     + _why_lengths(turns.length, points),
                     **_shown(planes, plane, points[row], blocks[row, plane]))
        return None
    rest = np.setdiff1d(np.arange(dim), [planes.first, planes.second])
    if rest.size and np.abs(maps[:, rest, rest] - 1).max() > SAME:
        first = int(rest[0])
        report.blame(f"coordinates that do not turn are scaled, by {maps[0, first, first]:.6g}",
                     x=f"1 at coordinate {first}, else 0", position=points[0].tolist(),
                     **{f"got at {first}": float(maps[0, first, first]), "expected": 1.0})
    return planes, turns.phase


def _why_lengths(length, points):
    """Say what lengths (T, L) of turned unit vectors come from that are not one amplitude."""
    if np.abs(length - length[0]).max() <= ROTATION * length.max():
        return "planes have amplitudes of their own"
    logs = np.log(np.maximum(length, 1e-300))
    law = np.linalg.lstsq(np.c_[points, np.ones(len(points))], logs, rcond=None)[0]
    if np.abs(np.c_[points, np.ones(len(points))] @ law - logs).max() <= ROTATION:
        return "planes are damped (as in xPos)"
    return "cos and sin do not belong together, one of them is scaled or of other angles"


def _shown(planes, plane, point, block):
    first, second = int(planes.first[plane]), int(planes.second[plane])
    return {"x": f"1 at coordinate {first}, else 0", "position": point.tolist(),
            f"got at {first}, {second}": block[:, 0], "length": float(np.hypot(*block[:, 0]))}


def _amplitude(length):
    amplitude = float(np.median(length))
    return 1.0 if abs(amplitude - 1) <= 3e-3 else amplitude


def _read_dense(report, maps, points):
    gram = maps.swapaxes(-1, -2) @ maps
    scale = np.trace(gram, axis1=-2, axis2=-1)[:, None, None] / maps.shape[-1]
    off = np.abs(gram - scale * np.eye(maps.shape[-1])).max(axis=(-2, -1))
    report.is_rotation = bool((off <= ROTATION * scale[:, 0, 0]).all())
    if report.is_rotation and report.is_relative:
        report.amplitude = float(np.sqrt(scale.mean()))
        report.blame(_order_of(maps), **_first_mixed(maps, points))
        return
    size, alone = float(np.abs(maps).max()), np.abs(maps * (1 - np.eye(maps.shape[-1]))).max() <= SAME
    lengths = np.sqrt(np.sum(maps**2, axis=-2))                 # of what unit vectors become, (T, D)
    wrong = np.abs(lengths - 1) > ROTATION if not report.is_rotation else lengths < 0
    mixed = (np.abs(maps) > SAME * size).sum(axis=-2) > 2
    row, column = np.argwhere(wrong if wrong.any() else mixed if mixed.any() else lengths >= 0)[0]
    got = maps[row][:, column]
    places = np.flatnonzero(np.abs(got) > SAME * size)[:4]
    text = "coordinates mix in no pairs: one of them turns with several others"
    if alone:
        text = ("coordinates are scaled and never mixed: the sine is missing" if size <= 1 + ROTATION else
                "coordinates are scaled and never mixed: the sine multiplies the coordinate itself, not its "
                "partner (rotate_half does not swap)")
    report.blame(text, **{
        "x": f"1 at coordinate {column}, else 0", "position": points[row].tolist(),
        f"got at {', '.join(map(str, places.tolist() or [column]))}": got[places] if len(places) else [0.0],
        "length": float(lengths[row, column])})


def _order_of(maps):
    """Say of turning planes that are no published pairs whether what comes out is put into another order."""
    order = maps[0].argmax(axis=0)
    if np.abs(maps[0] - np.eye(len(order))[:, order]).max() <= SAME:
        planes = find_planes(maps[:, order])[0]
        if planes is not None and (order != np.arange(len(order))).any():
            return (f"the result is in another order than x, at position 0 too: pairs are read in the layout "
                    f"{planes.layout} and not written back so")
    return ("planes are no pairs of coordinates of a published layout, (2l, 2l+1) or (l, l+L): they lie in "
            "another basis, or in another order")


def _first_mixed(maps, points):
    """Show where the first coordinate comes out that is not only scaled."""
    size = np.abs(maps) > SAME * np.abs(maps).max()
    np.einsum("...ii->...i", size)[...] = False
    row, column = np.argwhere(size.any(axis=-2))[0]
    places = np.flatnonzero(np.abs(maps[row][:, column]) > SAME * np.abs(maps).max())[:4]
    return {"x": f"1 at coordinate {column}, else 0", "position": points[row].tolist(),
            f"got at {', '.join(map(str, places.tolist()))}": maps[row][places, column]}


def _left_out(phase):
    """Return the first of the rows at the end that stand like row 0 while those before them turn, or None."""
    first = int(np.flatnonzero(np.abs(phase - phase[0]).max(axis=1) >= SAME).max(initial=0)) + 1
    steady = phase[0] * (phase[1] / phase[0]) ** np.arange(first)[:, None]
    return first if 1 < first < len(phase) and np.abs(steady - phase[:first]).max() < SAME else None


def read_speeds(report, points, phase, grid, names, expect):
    """Report frequencies, direction, origin and base; return (freqs, start) to compare with, or None."""
    speeds = speeds_of(points, phase)
    if speeds.bent is not None and grid is not None and len(grid) == 2:
        points, speeds = _other_grid(report, points, phase, grid, speeds)
    if speeds.bent is not None:
        first = _left_out(phase) if grid is None and points.shape[1] == 1 else None
        if first is not None:
            report.blame(f"rows from {first} on of {len(points)} come back unturned, those before them turn: "
                         "a loop over rows ends too early", row=first, position=points[first].tolist())
            return None
        row = speeds.bent
        plane = int(speeds.residual[row].argmax())
        steady = np.exp(1j * (points[row] @ speeds.freqs[:, plane] + speeds.start[plane]))
        alike = np.flatnonzero(np.abs(np.diff(phase, axis=0)).max(axis=1) < SAME)
        why = ("" if grid is not None or not alike.size else f": rows at {points[alike[0]].tolist()} and "
               f"{points[alike[0] + 1].tolist()} turn alike, are positions rounded or divided as integers?")
        report.blame(f"the angle is not proportional to the position{why}",
                     plane=plane, position=points[row].tolist(),
                     **{"cos, sin": [phase[row, plane].real, phase[row, plane].imag],
                        "at constant speed": [steady.real, steady.imag]})
        return None
    freqs, start = without_turns(speeds.freqs, None if expect is None else expect.freqs), speeds.start
    if not freqs.any():
        report.blame("planes are turned, and by the same angles at every position", angles=start)
        return None
    _read_origin(report, start, speeds.origin)
    _read_direction(report, freqs)
    exact = _read_base(report, freqs, float(speeds.residual.max()), expect is not None)
    if report.position_origin is not None:
        start = np.atleast_1d(report.position_origin) @ exact
    report.freqs = exact
    if len(freqs) > 1:
        _read_axes(report, freqs, names)
    return exact, start


def _other_grid(report, points, phase, grid, speeds):
    """Try the other way to read a grid of tokens."""
    height, width = grid
    token = np.arange(height * width)
    swapped = (f"height and width of the grid are swapped, or it is read column by column: token i stands at "
               f"i // {height}, i % {height}, which a square grid hides")
    ways = [(swapped, np.divmod(token, height))]
    ways += [(f"the grid is taken for one of width {other}: token i stands at i // {other}, i % {other}",
              np.divmod(token, other)) for other in range(2, len(token)) if other not in (width, height)]
    ways += [(f"cells begin behind {amount(prefix, 'token')}, such as a class token: token i stands in cell "
              f"i - {prefix}", np.divmod(np.maximum(token - prefix, 0), width)) for prefix in (1, 2, 4, 5)]
    for text, cells in ways:
        cells = np.stack(cells, axis=-1)
        other = speeds_of(cells, phase)
        if other.bent is None:
            first = int((cells != points).any(axis=1).argmax())
            report.blame(text, token=first, cell=points[first].tolist(), taken_for=cells[first].tolist())
            return cells, other
    return points, speeds


def _read_origin(report, start, origin):
    """Report the origin of positions, or a start that no shift of them explains."""
    report.position_origin = origin if origin is None or len(origin) > 1 else origin[0]
    plane = int((np.abs(np.exp(1j * start) - 1) > STRAIGHT).argmax())
    first = {"position": 0, f"cos, sin of plane {plane}": [np.cos(start[plane]), np.sin(start[plane])],
             "expected": [1.0, 0.0]}
    if origin is None:
        quarter = np.abs(np.exp(1j * start) - 1j).max() <= ROTATION
        report.blame("sin and cos are swapped: position 0 turns by a quarter" if quarter else
                     "position 0 turns, by angles that no shift of positions gives", **first)
    elif origin[0] != 0 and len(origin) == 1:
        report.blame(f"positions are off by {origin[0]:g}: position 0 is turned like {origin[0]:g}; scores "
                     "do not show it while queries and keys share it", **first)
    elif any(origin):
        report.remark(f"positions count from {origin}: 1 as in Llama 4, from the middle of a grid, or off")


def _read_direction(report, freqs):
    swapped = any(cause.startswith("sin and cos are swapped") for cause in report.causes)
    up, down = (freqs > 0).any(), (freqs < 0).any()
    sign = 0 if up and down else 1 if up else -1
    report.direction = -sign if swapped else sign
    if report.direction == 1 or (report.direction == 0 and len(freqs) > 1):
        return
    plane = int((freqs < 0).any(axis=0).argmax())
    speed = float(freqs[:, plane].sum())
    text = ("some planes turn clockwise" if report.direction == 0 else
            "clockwise: the turn is the transpose, (a cos + b sin, -a sin + b cos), which scores do not show")
    report.blame(text, plane=plane, x="(1, 0)", position=1, got=[np.cos(speed), np.sin(speed)],
                 expected=[np.cos(speed), -np.sin(speed)])


def _read_base(report, freqs, noise, expected):
    """Report the base; return the frequencies by its law, or as they were measured."""
    turning = (freqs != 0).any(axis=0)
    if turning.sum() == 1 and report.head_dim >= 8 and not expected:
        report.blame("one plane alone turns: is the base infinite, as 500000 is in float16?",
                     frequencies=np.abs(freqs).max(axis=0))
        return freqs
    if not turning.all():
        report.remark(f"{turning.sum()} planes of {turning.size} turn, the others stand still: proportional "
                      f"rope, or partners and exponents over the head width by mistake")
    spectrum = spectrum_of(freqs, noise)
    if spectrum is not None and len(freqs) == 1 and _whole_turns(report, freqs[0]):
        return spectrum.exact
    if len(freqs) > 1 and not expected and _one_axis(report, freqs):
        return freqs
    if spectrum is None:
        if len(freqs) > 1:
            report.remark("frequencies follow no base^(-2l/width) of one base for all axes: mixed or learned")
        if len(freqs) == 1 and turning.size > 1:
            rise = np.flatnonzero(np.diff(np.abs(freqs[0][turning])) > 0)
            report.remark("frequencies follow no base^(-2l/width): scaled (YaRN, Llama 3) or learned" if
                          not rise.size else f"frequencies follow no base^(-2l/width), and rise from plane "
                          f"{rise[0]} to the next: are the columns of a table out of order?")
        return freqs
    report.base = spectrum.base
    if len(freqs) > 1:
        law = {"shared": "one spectrum over all planes", "each axis": "a spectrum for each axis",
               "dealt": "one spectrum, dealt out to the axes"}[spectrum.order]
        report.remark(f"frequencies: {law}")
    elif spectrum.base is not None:
        _remark_scale(report, spectrum.base, spectrum.scale[0], turning.size)
    if spectrum.base is not None and not expected:
        _doubt_base(report, spectrum.base, len(freqs) == 1)
    return spectrum.exact


def _one_axis(report, freqs):
    """Report axes that all turn every plane in one proportion, so that a point is told by one number."""
    slowest = np.abs(np.where(freqs[-1] == 0, np.inf, freqs[-1])).argmin()
    if not freqs.any(axis=1).all():
        return False
    ratio = freqs[:, slowest] / freqs[-1, slowest]
    if np.abs(np.exp(1j * np.outer(ratio, freqs[-1])) - np.exp(1j * freqs)).max() > ROTATION:
        return False
    steps = ", ".join(f"{step:.6g}" for step in ratio)
    report.blame("axes are not told apart: each turns all planes, in the proportion " + steps + ". Are cells "
                 "numbered through, or coordinates added?", frequency=freqs[:, slowest])
    return True


def _whole_turns(report, speed):
    """Report a plane before those that turn, if by their law it makes whole turns and seems to stand."""
    before = speed[0] ** 2 / speed[1] if len(speed) > 2 and speed[1] else 0.0
    turns = round(before / (2 * np.pi))
    if report.rotary_offset != (1 if report.layout == "half" else 2) or turns < 1 or abs(
            before / (2 * np.pi * turns) - 1) > 1e-6:
        return False
    report.blame(f"plane 0 makes {amount(turns, 'turn')} from each position to the next, and seems to stand "
                 f"still: frequencies are multiplied by 2 pi", plane=1, frequency=[float(speed[0])],
                 expected=[float(speed[0] / (2 * np.pi * turns))])
    return True


def _remark_scale(report, base, scale, planes):
    """Remark on frequencies that do not fall from 1."""
    if base < 1:
        report.remark("frequencies rise from plane to plane: in reverse order, or periods in their place?")
    elif abs(scale * base ** (1 / planes) - 1) < 1e-3:
        report.remark(f"plane 0 has the frequency {scale:.6g} of plane 1: exponents count from 1, not from 0")
    elif scale != 1:
        why = "linear scaling" if scale < 1 else "positions are multiplied, or the turn is applied twice?"
        report.remark(f"frequencies are all multiplied by {scale:.6g} ({why})")


def _doubt_base(report, base, one_axis):
    """Report a base that is a usual one after rounding, or after another width in the exponent."""
    for usual in USUAL_BASES:
        for name, short in (("bfloat16", to_bfloat16), ("float16", to_float16)):
            rounded = float(short(usual))
            if rounded != usual and abs(base / rounded - 1) < 2e-6:
                report.blame(f"base {base:g} is {usual:g} rounded to {name}", base=base)
    planes = report.rotary_dim // 2
    if planes > 1 and one_axis and base not in USUAL_BASES:
        shorter = base ** ((planes - 1) / planes)
        for usual in USUAL_BASES:
            if abs(shorter / usual - 1) < 1e-5:
                report.remark(f"base {base:g} is that of exponents l/(L - 1) with {usual:g}: does a linspace "
                              f"include its end?")
    squared = [usual for usual in USUAL_BASES if one_axis and abs(base**2 / usual - 1) < 1e-3]
    if squared:
        report.remark(f"base {base:g} is the square root of {squared[0]:g}: are exponents counted l/D "
                      f"instead of 2l/D?")
    whole = base ** (report.head_dim / report.rotary_dim)
    if report.rotary_dim < report.head_dim and (base not in USUAL_BASES or base <= 1000 and one_axis):
        for usual in USUAL_BASES:
            if whole > base and abs(whole / usual - 1) < 1e-3:
                report.blame(f"exponents are over the head width {report.head_dim} and not over rotary_dim "
                             f"{report.rotary_dim}: w_1 = {usual:g}^(-2/{report.head_dim})",
                             w_1=base ** (-2 / report.rotary_dim), expected=usual ** (-2 / report.rotary_dim))


def _read_axes(report, freqs, names):
    driven = [(int((row != 0).argmax()), name) for row, name in zip(freqs, names, strict=True) if row.any()]
    report.axis_order = tuple(name for _, name in sorted(driven))
    for row, name in zip(freqs, names, strict=True):
        if not row.any():
            report.blame(f"{name} turns no plane: the planes that belong to it follow another axis (sections "
                         "ignored, or half a table read twice)", axis=name, position=1, angle=0.0)
