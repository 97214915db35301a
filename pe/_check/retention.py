"""retention: values, rates, times and a state as the C core takes them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._scalars import amount
from ..state import RetentionState
from . import options
from .arrays import ROWS_FIRST, coefficients, heads_behind_rows, plain, values
from .attention import _operands, _shapes
from .bias import EXPLODES
from .clocks import times
from .out import target
from .positions import fitted, numbers, per_row
from .rotary import rope_plan

_FLOAT64 = np.dtype(np.float64)


class _Sizes(NamedTuple):
    """What everything beside q, k and v must fit: axes of the result without its last two, heads, rows."""

    key_lead: tuple[int, ...]
    query_lead: tuple[int, ...]
    key_heads: int
    heads: int
    rows: int


def retention(q, k, v, rate, multiplier, clock, rope, positions, scale, state, return_state, out,
              num_threads):
    """Return the arguments of the kernel, the target of its result, and where the state stands after it."""
    return_state, num_threads = options.flag("return_state", return_state), options.threads(num_threads)
    q, k, v = _operands(q, k, v)
    batch, heads, (*_, rows, keys), shape = _shapes(q.shape, k.shape, v.shape)
    if rows != keys:
        raise ValueError(f"k has {amount(keys, 'row')} (shape {k.shape}), q has {rows} (shape {q.shape}); "
                         f"expected equally many: a row is query and key at once, and earlier rows come in "
                         f"as state=")
    key_heads = k.shape[-3] if k.ndim > 2 else 1
    leads = ((), ()) if len(shape) == 2 else ((*batch, key_heads), (*batch, heads))
    sizes = _Sizes(*leads, key_heads, heads, rows)
    rates = _rates(rate, multiplier, clock, sizes)
    scale = _scale(scale, q.shape[-1], shape)
    plan = None if rope is None else rope_plan(rope, q.shape[-1])
    S, position, reading = _state(state, clock, sizes, q, v)

    turned, row = _positions(positions, position, sizes, 1 if plan is None else len(plan[0]))
    time, before = (row, position) if clock is None else (_clock(clock, sizes), reading)
    if S is not None:
        _goes_on("position" if clock is None else "clock", time, before)
        S = _by_query_head(S, rates, time, sizes)
        before = np.asarray(before, np.float64)
    after = (_last(row, position), reading if clock is None else _last(time, reading))
    turned = None if plan is None else turned
    goal = target(out, shape, q.dtype, (q, k, v, S, time, before, *(turned or ())))
    chosen = scale, rates, plain(time), 0.0, before, plan, turned, S, return_state
    return (q, k, v, chosen, goal.direct, num_threads), goal, after


def _rates(rate, multiplier, clock, sizes):
    """Return one rate as a float, or an array (K,) or (H,) of them."""
    if not (rate is None) ^ (multiplier is None) and not (rate is multiplier is None and clock is not None):
        came = "no decay" if rate is None else "rate= and multiplier="
        raise TypeError(f"retention got {came}; expected exactly one of rate= (0 forgets nothing: plain "
                        f"linear attention) and multiplier= (e^-rate, RetNet's gamma), or a clock=")
    if multiplier is None:
        name, array = "rate", options.penalties("rate", 1.0 if rate is None else rate, EXPLODES)
    else:
        name, array = "multiplier", coefficients("multiplier", multiplier).astype(np.float64)
        good = (array > 0) & (array <= 1)
        if not good.all():
            raise ValueError(f"multiplier has {array[~good].flat[0]}; expected numbers in (0, 1], the factor "
                             f"of one step; a larger one explodes")
        array = 0.0 - np.log(array)
    few, many = sizes.key_heads, sizes.heads
    if array.shape not in ((), (few,), (many,)):
        each = f"({few},), one for each key head, or " if few != many else ""
        behind = heads_behind_rows(array.shape, (many, sizes.rows, 0))
        raise ValueError(f"{name} has shape {array.shape}; expected {each}({many},), one for each query "
                         f"head, or one number{ROWS_FIRST if behind else ''}")
    return np.ascontiguousarray(array, np.float64) + 0.0 if array.ndim else float(array)    # no -0.0


def _scale(scale, dim, shape):
    if scale is not None:
        return options.number("scale", scale)
    if dim == 0 and 0 not in shape:
        raise ValueError("q and k have D = 0, for which 1/sqrt(D) is undefined; pass scale=")
    return 1 / math.sqrt(dim) if dim else 1.0


def _state(state, clock, sizes, q, v):
    """Return S in the compute type, the position it stands at, and what its clock shows there."""
    if state is None:
        return None, -1, None
    if not isinstance(state, RetentionState):
        raise TypeError(f"state is a {type(state).__name__}; expected what return_state=True returns, or "
                        f"pe.RetentionState(S) for an array S before the first row")
    S, tail = values("state.S", state.S), (q.shape[-1], v.shape[-1])
    shapes = [(*lead, *tail) for lead in dict.fromkeys((sizes.key_lead, sizes.query_lead))]
    if not any(_fits(S.shape, shape) and S.shape[-3:] == shape[-3:] for shape in shapes):
        batch = ", any batch axis being 1" if len(shapes[0]) > 3 else ""
        raise ValueError(f"state.S has shape {S.shape}; expected {' or '.join(map(str, shapes))}{batch}")
    S = plain(S, np.dtype(np.float64 if q.dtype == np.float64 else np.float32))
    position = _reading("state.position", state.position, "positions", sizes.key_lead)
    if clock is not None:
        shown = 0 if state.clock is None else state.clock
        return S, position, _reading("state.clock", shown, "clocks", sizes.query_lead)
    if state.clock is not None:
        raise TypeError("the state has a clock and clock= is missing; expected the clock of these rows, "
                        "which goes on from state.clock")
    return S, position, None


def _reading(name, value, kind, lead):
    """Return a number, or one for each head of each sequence."""
    array = numbers(name, value, kind=kind)
    if array.shape and not _fits(array.shape, lead):
        raise ValueError(f"{name} has shape {array.shape}; expected one number"
                         + (f", or {lead} with any axis being 1" if lead else ""))
    return array if array.ndim else _bare(array)


def _positions(positions, position, sizes, axes):
    """Return the positions that turn each row, an array for each axis of the rope, and those that time it."""
    row = np.asarray(position, np.float64)[..., None] + np.arange(1, sizes.rows + 1)
    if (positions is None or axes > 1) and np.max(position, initial=-1) > 2**53 - sizes.rows:
        raise ValueError(f"state.position is {np.max(position):.0f} and {amount(sizes.rows, 'row')} follow; "
                         f"expected positions up to 2^53")
    if positions is None:
        if axes > 1:
            raise TypeError(f"rope has {axes} axes and positions is missing; expected an array "
                            f"({sizes.rows}, {axes})")
        return (row,), row
    parts = per_row("positions", positions, "k", (*sizes.key_lead, sizes.rows), axes)
    parts = tuple(part.astype(np.float64, copy=False) for part in parts)
    if axes > 1:                                            # these serve the rope alone
        return parts, row
    row = parts[0]
    back = np.argwhere(row[..., 1:] < row[..., :-1])
    if len(back):
        *lead, i = (int(n) for n in back[0])
        raise ValueError(f"positions fall from {row[(*lead, i)]} to {row[(*lead, i + 1)]} at "
                         f"{[*lead, i + 1]}; expected numbers that never fall, as what is forgotten stays so")
    return parts, row


def _clock(clock, sizes):
    if isinstance(clock, tuple):
        raise TypeError("clock is a tuple; expected one array, as a row is query and key at once")
    time = times("clock", clock)
    fitted("clock", time, "q", (*sizes.query_lead, sizes.rows))
    return time


def _fits(shape, expected):
    """Say whether a shape has these axes, each equal or 1."""
    return len(shape) == len(expected) and all(n in (1, m) for n, m in zip(shape, expected, strict=True))


def _by_query_head(S, rates, time, sizes):
    """Repeat states of key heads where rates or clocks differ among the query heads that would share one."""
    group = sizes.heads // max(sizes.key_heads, 1)
    if group <= 1 or S.shape[-3] != sizes.key_heads:
        return S
    own = np.ndim(rates) == 1 and len(rates) == sizes.heads
    differs = own and (rates.reshape(-1, group) != rates[::group, None]).any()
    if differs or (time.ndim > 1 and time.shape[-2] == sizes.heads):
        return np.repeat(S, group, axis=-3)
    return S


def _goes_on(what, time, before):
    """Raise if the first row stands before the state."""
    first, before = time[..., :1], np.asarray(before)[..., None]
    late = first < before
    first, before = (np.broadcast_to(each, late.shape) for each in (first, before))
    if late.any():
        index = "[..., None]" if before.ndim > 1 else ""
        hint = f"; a clock goes on from there: state.clock{index} + clock" if what == "clock" else ""
        name = "positions begin" if what == "position" else "clock begins"
        raise ValueError(f"{name} at {first[late][0]}, before the state, which stands at state.{what} = "
                         f"{before[late][0]}{hint}")


def _last(row, before):
    """Return the last entry of each row, or what stood before where there are no rows."""
    return _bare(row[..., -1]) if row.shape[-1] else before


def _bare(array):
    """Return a single number as a Python one, an int where it is whole."""
    if np.ndim(array):
        return np.ascontiguousarray(array)
    number = float(array)
    return int(number) if number.is_integer() else number
