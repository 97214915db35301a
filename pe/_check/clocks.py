"""Clocks: learned time for decay, of keys alone or of queries and keys."""

from __future__ import annotations

import numpy as np

from .._scalars import amount
from .._shapes import broadcast
from .arrays import plain
from .positions import numbers


def times(name, value):
    """Return one clock, native float64, finite and never running back."""
    array = numbers(name, value, kind="clocks").astype(np.float64, copy=False)
    if array.ndim == 0:
        raise TypeError(f"{name} is a single number; expected one for each row (a tuple is a pair: of "
                        f"queries, of keys)")
    back = array[..., 1:] < array[..., :-1]
    if back.any():
        *lead, row = (int(i) for i in np.argwhere(back)[0])
        before, after = array[(*lead, row)], array[(*lead, row + 1)]
        raise ValueError(f"{name} runs back, from {before} to {after} at {[*lead, row + 1]}; expected "
                         f"numbers that never fall along the last axis, such as pe.clock(log_gates)")
    return plain(array)


def pair(clock):
    """Return the named clocks of queries and of keys; the first is None where the keys' serves both."""
    if not isinstance(clock, tuple):
        return (None, None), ("clock", times("clock", clock))
    if len(clock) != 2:
        raise ValueError(f"clock is a tuple of {len(clock)}; expected a pair (of queries, of keys), or one "
                         f"array for the keys")
    return tuple((f"clock[{i}]", times(f"clock[{i}]", part)) for i, part in enumerate(clock))


def last(clock, M):
    """Return a clock of the keys for M queries that are the last of them."""
    N = clock.shape[-1]
    if M > N:
        raise ValueError(f"clock has {amount(N, 'entry', 'entries')} for {amount(M, 'query', 'queries')}, no "
                         f"longer the last of the keys; expected a pair (of queries, of keys)")
    return clock[..., N - M:]


def beside(clock, lengths, M):
    """Return a clock of the keys for M queries of which row i stands at key n - M + i, n its kv_length.

    Rows that would stand before the first key take its time.
    """
    rows = np.maximum(lengths[..., None, None] - M + np.arange(M), 0)
    if clock.ndim == 1:
        return clock[rows]
    lead = broadcast(clock.shape[:-1], rows.shape[:-1])
    return np.take_along_axis(np.broadcast_to(clock, (*lead, clock.shape[-1])),
                              np.broadcast_to(rows, (*lead, M)), axis=-1)
