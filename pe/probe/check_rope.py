"""`check_rope`: find out what anybody's rotary function does, and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from itertools import permutations
from typing import Any

import numpy as np

from .._check.arrays import bfloat16_type
from .._keywords import explain_keywords
from .._scalars import amount, integer, positive, shown
from ..rope import Rope
from .calling import COLUMNS, SLOTS, TABLES, VALUES, Caller, CallFailed
from .comparing import compare_expected, compare_outputs
from .frequencies import ROUNDED
from .planes import ROTATION, find_planes, turns_of
from .precision import WRITTEN
from .reading import SAME, maps_of, mixes, read_planes, read_rows, read_speeds, tried_points
from .report import RopeReport
from .trying import Trial


@explain_keywords
def check_rope(fn: Callable[..., Any], head_dim: int = 64, *, signature: str = "x, positions",
               axes: str = "BHTD", grid: Sequence[int] | None = None, n_axes: int = 1,
               tables: str | Callable[..., Any] | None = None, expect: Rope | None = None,
               dtypes: Sequence[str] | None = None, max_position: int = 131071, tolerance: float = 1e-3,
               arrays: str = "numpy") -> RopeReport:
    """Find out what a rotary function does: layout, base, direction, width, precision, and its faults.

    The function is given unit vectors at small positions, which yields its matrix at each of them; from
    those come its planes, their speeds, and the law of the speeds. Then it is tried where functions fail: at
    far positions, in short dtypes, on rows in another order, one row alone. What goes wrong inside the
    function (it raises, returns NaN or another shape, writes into x) is a finding, not an error.

    Parameters
    ----------
    fn : callable
        The function on trial. Whatever `signature` cannot say, a lambda can.
    head_dim : int, default 64
        Width D of a head.
    signature : str, default "x, positions"
        What `fn` takes, by place: its values "x", or "q, k" or "q, k, v", which it returns as a tuple; and
        where they stand: "positions" (T,) or (T, n_axes), "position_ids" (B, T) or (n_axes, B, T), "offset"
        (an int, rows follow one another from there), "pos_x, pos_y", tables "cos, sin", or a complex table
        "freqs_cis". With values alone, row i stands at position i (or in cell i of `grid`).
    axes : str, default "BHTD"
        Axes of the values, such as "BTHD", "THD" or "TD": B batch, H heads, T rows, D coordinates.
    grid : sequence of int, optional
        Sizes of a grid whose cells, row-major, the rows stand in: (height, width), best not equal.
    n_axes : int, default 1
        Coordinates of a position. Given by `grid`, by `expect`, or by "pos_x, pos_y".
    tables : {"planes", "half", "interleaved"} or callable, optional
        Columns of the tables for "cos, sin": one a plane, the columns twice one after the other, or each
        column twice in place; or the builder of tables that belongs to `fn`: tables(positions) -> (cos, sin).
        Default: the first of the three with which `fn` is a rotation.
    expect : Rope, optional
        What the function should be; every difference is then a fault.
    dtypes : sequence of str, optional
        Dtypes of x. Default: float64, float32, float16; and bfloat16 with torch, or if ml_dtypes is imported.
    max_position : int, default 131071
        The last position that is tried.
    tolerance : float, default 1e-3
        Error of cos and sin up to which angles count as right. Angles formed in float32 are 1.4e-4 off at
        4095 and 4e-3 at 131071; in float64, 1e-11.
    arrays : {"numpy", "torch"}, default "numpy"
        What `fn` is given; torch is imported for it alone.

    Returns
    -------
    RopeReport
        Printable; `ok` says that nothing is wrong.

    Raises
    ------
    TypeError, ValueError
        Arguments of check_rope itself that make no sense.

    Notes
    -----
    A report is up to what was tried. Frequencies beyond pi per position are seen modulo 2 pi, unless they
    are geometric or multiples of those of `expect`; planes slower than 1e-8 seem to stand still, and such
    planes at the ends of a head seem no part of what turns.

    References
    ----------
    Su, J. et al. (2021). RoFormer, arXiv:2104.09864. A function is relative if R(t)^T R(s) depends on s - t.

    Examples
    --------
    >>> import numpy as np
    >>> import pe
    >>> def apply_rotary_pos_emb(q, k, cos, sin):
    ...     def rotate_half(x):
    ...         return np.concatenate([-x[..., 32:], x[..., :32]], axis=-1)
    ...     return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    >>> report = pe.check_rope(apply_rotary_pos_emb, signature="q, k, cos, sin")
    >>> report.ok, report.layout, report.base
    (True, 'half', 10000.0)
    >>> wrong = pe.check_rope(apply_rotary_pos_emb, signature="q, k, cos, sin", tables="interleaved")
    >>> wrong.is_rotation, wrong.causes[0][:25]
    (False, 'table in the wrong layout')

    A function that forms its angles in float32:

    >>> def late(x, positions):
    ...     angle = np.float32(positions)[:, None] * np.float32(10000.0) ** (-np.arange(32, dtype="f4") / 32)
    ...     return pe.apply_rope(x, np.cos(angle), np.sin(angle))
    >>> pe.check_rope(late, max_position=4096).ok
    True
    >>> print(pe.check_rope(late).causes[0][:33])
    angles are formed in float32; for
    """
    caller = _caller(fn, head_dim, signature, axes, grid, n_axes, tables, expect, arrays)
    dtypes = _dtypes(dtypes, arrays)
    most = integer("max_position", max_position, 16)
    tolerance = positive("tolerance", tolerance)
    report = RopeReport(caller.rope.dim)
    try:
        _examine(report, caller, grid if grid is None else tuple(grid), expect, dtypes, most, tolerance)
    except CallFailed as failure:
        odd = f"; head_dim is {caller.rope.dim}, expected an even number" if caller.rope.dim % 2 else ""
        report.blame(f"{failure}{odd}", **failure.found)
    if caller.widened:
        report.remark("float32 values come back as float64: cos and sin are not cast to the dtype of x")
    if caller.narrowed:
        report.remark(f"float64 values come back as {caller.narrowed}")
    for slot in sorted(caller.writes):
        report.blame(f"the function writes into its argument {slot}")
    return report


def _examine(report, caller, grid, expect, dtypes, most, tolerance):
    points = tried_points(caller, grid)
    caller, dtype, maps = _open(report, caller, points, dtypes)
    if caller.tabled and caller.form[0] != "own":
        report.remark(f"the tables are of check_rope, with columns {caller.form[0]!r}: so are their angles")
    moving = read_rows(report, maps, points)
    read = read_planes(report, maps, points) if moving else None
    compare_outputs(report, caller, dtype)
    if read is None:
        return
    planes, phase = read
    found = read_speeds(report, points, phase, grid, _axis_names(caller, grid), expect)
    if found is None:
        return
    freqs, start = found
    if expect is not None:
        compare_expected(report, expect, planes, points, phase)
        if freqs.shape == expect.freqs.shape:
            near = np.abs(freqs - expect.freqs) <= ROUNDED * np.abs(expect.freqs)
            freqs = report.freqs = expect.freqs.copy() if near.all() else freqs
    trial = Trial(report, caller, planes, freqs, start)
    trial.rows(dtype)
    if grid is None and report.is_relative:
        trial.far(dtypes[dtypes.index(dtype):], most, tolerance)
        trial.negative(dtype)


def _axis_names(caller, grid):
    if grid is not None and len(grid) == 2:
        return "row", "column"
    return ("x", "y") if "pos_x" in caller.slots else [f"axis {axis}" for axis in range(caller.n_axes)]


def _open(report, caller, points, dtypes):
    """Return (caller, dtype, matrices) for the first dtype, tables and order of axes with which fn works."""
    failures = []
    for dtype in dtypes:
        opened = _maps(caller, points, dtype, failures)
        if opened is not None and not _strange(caller, opened, points, dtype):
            if failures and dtype != dtypes[0]:
                report.remark(f"{dtypes[0]} is not taken: {failures[0]}")
            return caller, dtype, opened[0]
        for other in _other_orders(caller):
            turned = _maps(other, points, dtype, [])
            if (turned is not None and not _strange(other, turned, points, dtype)
                    and find_planes(turned[0])[0] is not None):
                report.blame(f"x is taken as ({', '.join(other.axes)}), not as ({', '.join(caller.axes)}): "
                             "another axis is the sequence", axes=other.axes)
                return other, dtype, turned[0]
        if opened is not None:
            raise _stranger(caller, opened, points, dtype)
    raise failures[0]


def _maps(caller, points, dtype, failures):
    """Return the matrices by the first form of tables that gives rotations, else by the first that runs."""
    first = None
    for form in caller.forms():
        caller.form = form
        try:
            maps = maps_of(caller, points, dtype)
        except CallFailed as failure:
            failures.append(failure)
            continue
        first = (form, maps) if first is None else first
        planes, placed = find_planes(maps[0])
        if planes is not None and turns_of(planes.blocks_of(placed)).residual.max() <= ROTATION:
            return maps
    if first is None:
        return None
    caller.form = first[0]
    return first[1]


def _stranger(caller, maps, points, dtype):
    """Return what is strange about a function, with the first head and row where heads differ."""
    if np.abs(maps_of(caller, points, dtype) - maps).max() > SAME:
        return CallFailed("two equal calls give different results: it is random, or keeps count of its calls",
                          dtype=dtype)
    off = np.abs(maps - maps[:1])
    if off.max() <= SAME:
        why, shown = _more_than_a_matrix(caller, maps, points, dtype)
        return CallFailed(f"a row is more than a fixed matrix times its vector: {why}", dtype=dtype, **shown)
    head, row = np.argwhere(off.max(axis=(-2, -1)) > SAME)[0]
    i, j = np.unravel_index(off[head, row].argmax(), off.shape[-2:])
    return CallFailed("heads are turned differently", dtype=dtype, head=int(head),
                      position=points[row].tolist(), x=f"1 at coordinate {j}, else 0",
                      **{f"got at {i}": maps[head, row, i, j], "in head 0": maps[0, row, i, j]})


def _more_than_a_matrix(caller, maps, points, dtype):
    """Say what a row of the result is made of besides its own vector, and show it for simple vectors."""
    unit = np.broadcast_to(np.eye(caller.rope.dim)[:, None, None],
                           (caller.rope.dim, caller.heads, len(points), caller.rope.dim))
    row, beside = len(points) // 2, np.roll(unit, 1, axis=-1)       # one with rows before it and behind
    beside[:, :, row] = unit[:, :, row]
    expected = np.moveaxis(maps[:, row], -1, 0)                     # (D, H, D): among rows like itself
    heads, aside = unit.copy(), expected.copy()
    heads[:, 1:], aside[:, 1:] = (np.roll(each[:, 1:], -1, axis=0) for each in (unit, expected))
    trials = (
        ("it depends on its place in the batch", "row {0} of a batch: 1 at the coordinate after {0}, else 0",
         np.roll(unit, -1, axis=0), np.roll(expected, -1, axis=0)),
        ("it depends on other heads", "1 at coordinate {}, in other heads at the next one", heads, aside),
        ("it depends on other rows", "1 at coordinate {}, in other rows at the next one", beside, expected),
        ("it is not linear", "-1 at coordinate {}, else 0", -unit, -expected),
        ("it is not linear", "2 at coordinate {}, else 0", 2 * unit, 2 * expected))
    for why, x, given, wanted in trials:
        got = caller.turn(given, points, dtype)[0][:, :, row]
        wrong = np.argwhere(np.abs(got - wanted) > 2 * SAME + 8 * WRITTEN[dtype])
        if len(wrong):
            j, head, i = wrong[0]
            return why, {"x": x.format(j), "position": points[row].tolist(), f"got at {i}": got[j, head, i],
                         "expected": wanted[j, head, i]}
    return "it depends on other rows or heads, or is not linear", {}


def _strange(caller, maps, points, dtype):
    return np.abs(maps - maps[:1]).max() > SAME or mixes(caller, maps, points, dtype)


def _other_orders(caller):
    for order in permutations(caller.axes[:-1]):
        axes = "".join(order) + "D"
        if axes != caller.axes:
            other = copy(caller)
            other.axes = axes
            yield other


def _caller(fn, head_dim, signature, axes, grid, n_axes, tables, expect, arrays):
    """Return the Caller after a look at everything that describes the function."""
    if not callable(fn):
        raise TypeError(f"fn is {shown(fn)}; expected a function")
    dim = integer("head_dim", head_dim, 2)
    if expect is not None and not isinstance(expect, Rope):
        raise TypeError(f"expect is {shown(expect)}; expected a pe.Rope")
    if expect is not None and expect.dim != dim:
        raise ValueError(f"expect is for heads of width {expect.dim}; head_dim is {dim}")
    slots, n_axes = _slots(signature), integer("n_axes", n_axes, 1, 8)
    if not isinstance(axes, str) or sorted(axes) != sorted(set(axes)) or axes[-1:] != "D" or not {
            *axes} <= {*"BHTD"} or "T" not in axes:
        raise ValueError(f'axes is {shown(axes)}; expected letters of "BHTD" with T among them and D as the '
                         f'last, such as "BTHD"')
    if grid is not None:
        if not isinstance(grid, Sequence) or isinstance(grid, str | bytes) or not 0 < len(grid) <= 8:
            raise TypeError(f"grid is {shown(grid)}; expected the sizes of its axes, such as (3, 5)")
        sizes = [integer("grid", size, 2) for size in grid]
        if math.prod(sizes) > 4096 or len(slots) > sum(slot in VALUES for slot in slots):
            raise ValueError(f"grid is {shown(grid)}; expected at most 4096 cells, and a function of values "
                             f"alone; got signature {signature!r}")
        n_axes = len(sizes)
    elif "pos_x" in slots:
        n_axes = 2
    elif expect is not None:
        n_axes = len(expect.freqs) if n_axes == 1 else n_axes
    if expect is not None and len(expect.freqs) != n_axes:
        raise ValueError(f"expect has {amount(len(expect.freqs), 'axis', 'axes')} of positions and the "
                         f"function has {n_axes}")
    named = isinstance(tables, str) and tables in COLUMNS
    if tables is not None and not callable(tables) and not named:
        raise ValueError(f"tables is {shown(tables)}; expected one of {', '.join(COLUMNS)}, or a function")
    if not isinstance(arrays, str) or arrays not in ("numpy", "torch"):
        raise ValueError(f'arrays is {shown(arrays)}; expected "numpy" or "torch"')
    rope = expect
    if rope is None:
        rope = Rope(dim) if dim % 2 == 0 else Rope(dim, rotary_dim=dim - 1)
    if n_axes > 1 and expect is None and not callable(tables) and any(slot in TABLES for slot in slots):
        raise ValueError(f"tables for {n_axes} axes of positions need expect=, or tables= as a function")
    return Caller(fn, ", ".join(slots), axes, n_axes, tables, rope, arrays)


def _slots(signature):
    if not isinstance(signature, str):
        raise TypeError(f"signature is {shown(signature)}; expected a string such as 'x, positions'")
    slots = [part.strip() for part in signature.split(",")]
    unknown = [slot for slot in slots if slot not in SLOTS]
    if unknown or len({*slots}) < len(slots):
        odd = shown(unknown[0]) if unknown else "a name twice"
        raise ValueError(f"signature {shown(signature)} has {odd}; expected names of "
                         f"{', '.join(SLOTS)}; a lambda around fn takes care of the rest")
    if [*slots[:1]] not in (["x"], ["q"]):
        raise ValueError(f"signature {signature!r} does not start with values, x or q")
    if slots[:sum(slot in VALUES for slot in slots)] != [slot for slot in slots if slot in VALUES]:
        raise ValueError(f"signature {signature!r} has values after positions; put a lambda around fn")
    if ("pos_x" in slots) != ("pos_y" in slots):
        raise ValueError(f"signature {signature!r} has one of pos_x, pos_y; expected both")
    return slots


def _dtypes(dtypes, arrays):
    if dtypes is None:
        short = ["bfloat16"] if arrays == "torch" or bfloat16_type() else []
        return ["float64", "float32", "float16", *short]
    names = [dtypes] if isinstance(dtypes, str) else dtypes
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"dtypes is {shown(dtypes)}; expected names of {', '.join(WRITTEN)}")
    unknown = [name for name in names if name not in WRITTEN]
    if unknown or not names:
        raise ValueError(f"dtypes is {shown(dtypes)}; expected names of {', '.join(WRITTEN)}")
    if "bfloat16" in names and arrays == "numpy" and not bfloat16_type():
        raise ValueError("dtypes has bfloat16, which NumPy has not; import ml_dtypes first")
    return names
