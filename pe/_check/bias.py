"""decay_bias and alibi_bias: -slope*(t - s) as arguments of one kernel."""

from __future__ import annotations

import numpy as np

from .._scalars import amount, shown
from .._shapes import broadcast, refuse_too_many_axes
from . import clocks, options
from .arrays import VALUE_DTYPES, coefficients, fitting_index, is_value_dtype, plain, values
from .out import target
from .positions import counted

EXPLODES = "a negative rate explodes, e^(+|rate| u), instead of fading"
REWARDS = ("a slope is a penalty, the bias is -slope*(t - s); where a text writes +m*(t - s) with m < 0, "
           "pass {name}=-m")


def decay(q_positions, k_positions, rate, half_life, multiplier, clock, causal, dtype, out, num_threads):
    """Return the arguments of the kernel and the target."""
    given = {"rate": rate, "half_life": half_life, "multiplier": multiplier}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1 or not (named or clock is not None):
        came = " and ".join(f"{name}=" for name in named) or "no decay"
        raise TypeError(f"decay_bias got {came}; expected exactly one of rate= (fall of a logit a position), "
                        f"half_life= (ln 2 / rate) and multiplier= (e^-rate, RetNet's gamma); "
                        f"beside clock= none is needed")
    name = named[0] if named else "rate"
    own = values(name, given[name] if named else 1.0)
    if name == "rate":
        rates = options.penalties(name, own, EXPLODES)
    elif name == "half_life":
        least = np.log(2) / np.finfo(np.float64).max
        rates = _of_half_life(_within(name, own, lambda a: a > least, "numbers > 0").astype(np.float64))
    else:
        fits = _within(name, own, lambda a: (a > 0) & (a <= 1), "numbers in (0, 1], the factor of one step; "
                       "a larger one explodes")
        rates = _of_multiplier(fits.astype(np.float64))
    times = None if clock is None else clocks.pair(clock)
    return _penalty(name, rates, own.dtype, q_positions, k_positions, times, causal, dtype, out, num_threads)


def alibi(q_positions, k_positions, slopes, causal, dtype, out, num_threads):
    """Return the arguments of the kernel and the target."""
    own = values("slopes", options.slopes("slopes", slopes, "H"))
    slopes = options.penalties("slopes", own, REWARDS)
    return _penalty("slopes", slopes, own.dtype, q_positions, k_positions, None, causal, dtype, out,
                    num_threads)


def rate_of(half_life, multiplier):
    """Return the rate that one of the two means in a plain call, for the kernel to judge, or None."""
    given, convert = (multiplier, _of_multiplier) if half_life is None else (half_life, _of_half_life)
    alone = half_life is None or multiplier is None
    if alone and (type(given) is float or (type(given) is np.ndarray and given.dtype == np.float64)):
        with np.errstate(all="ignore"):                     # what is out of bounds gives no rate >= 0,
            rate = convert(given)
        return None if np.signbit(rate).any() else rate     # or -0.0, a half-life of -inf
    return None


def _of_half_life(half_life):
    return np.log(2) / half_life


def _of_multiplier(multiplier):
    return 0.0 - np.log(multiplier)


def _within(name, array, inside, expected):
    array = coefficients(name, array)
    good = inside(array)
    if not good.all():
        raise ValueError(f"{name} has {array[~good].flat[0]}; expected {expected}")
    return array


def _penalty(name, slopes, own_dtype, q_positions, k_positions, times, causal, dtype, out, num_threads):
    causal, num_threads = options.flag("causal", causal), options.threads(num_threads)
    t, s = (plain(a) for a in counted(q_positions, k_positions))
    slopes = plain(np.asarray(slopes, np.float64))
    leads = {name: slopes.shape, "q_positions": t.shape[:-1], "k_positions": s.shape[:-1]}
    of_q, of_k = t, s
    if times is not None:
        (q_name, of_q), (k_name, of_k) = times
        for of, clock, rows, what in ((q_name, of_q, t, "queries"), (k_name, of_k, s, "keys")):
            if clock is not None and clock.shape[-1] != rows.shape[-1]:
                raise ValueError(f"{of} has {amount(clock.shape[-1], 'entry', 'entries')} for "
                                 f"{rows.shape[-1]} {what}; expected one for each")
        of_q = clocks.last(of_k, t.shape[-1]) if of_q is None else of_q
        leads |= {q_name or k_name: of_q.shape[:-1], k_name: of_k.shape[:-1]}
    shape, dtype = (*_lead(leads), t.shape[-1], s.shape[-1]), _result_dtype(dtype, out, own_dtype)
    goal = target(out, shape, dtype, (t, s, slopes, of_q, of_k))
    direct = np.empty(shape, dtype) if goal.direct is None else goal.direct
    clock = None if times is None else (of_q, of_k)
    return (t, s, slopes, clock, causal, None, direct, num_threads), goal


def _lead(shapes):
    """Return the leading axes of the result: operands that have any must have equally many."""
    for name, shape in shapes.items():
        rows = "positions" in name or "clock" in name       # these have an axis of the result behind them
        refuse_too_many_axes(name, len(shape) + rows, 2 - rows)
    counts = {len(shape) for shape in shapes.values() if shape}
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
    if len(counts) > 1:
        few, *_, many = sorted(filter(shapes.get, shapes), key=lambda name: len(shapes[name]))
        index = (fitting_index(shapes[few], shapes[many])
                 or str(["None"] * (max(counts) - min(counts)) + [":"] * min(counts)).replace("'", ""))
        rows = ", :" if "positions" in few or "clock" in few else ""
        raise ValueError(f"leading axes are {text}; expected equally many, each equal or 1: "
                         f"put axes of length 1 in, such as {few}{index[:-1]}{rows}]")
    try:
        return broadcast(*shapes.values())
    except ValueError:
        raise ValueError(f"leading axes are {text}; expected each equal or 1") from None


def _result_dtype(dtype, out, own):
    """Return what is asked for, else what out has, else that of the slopes."""
    if dtype is not None:
        try:
            asked = np.dtype(dtype)
        except (TypeError, ValueError):
            asked = None
        if asked is None or not is_value_dtype(asked):
            raise TypeError(f"dtype is {asked or shown(dtype)}; expected {VALUE_DTYPES}")
        return asked.newbyteorder("=")
    if isinstance(out, np.ndarray) and is_value_dtype(out.dtype):
        return out.dtype.newbyteorder("=")
    return own.newbyteorder("=")
