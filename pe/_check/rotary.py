"""apply_rope and apply_rope_2d: which planes turn, how fast, and the arguments the C core takes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._scalars import amount, integer, positive
from ..rope import LAYOUTS, Rope, canonical_layout, checked_freqs
from . import options
from .arrays import coefficients, plain, values
from .out import target
from .positions import per_row

FORMS = ("apply_rope(x, cos, sin) with tables such as build_rope_cache(T, D), or "
         "apply_rope(x, positions=np.arange(T))")


@lru_cache(maxsize=256)
def plan_1d(dim, base, layout, rotary_dim):
    """Return the plan of a geometric encoding: most calls of a program share a few."""
    return Rope(dim, 10000.0 if base is None else base, layout=layout, rotary_dim=rotary_dim)._plan


@lru_cache(maxsize=64)
def plan_2d(dim, base, layout):
    """Return the plan of an axial encoding: the same D/4 frequencies for either half of the coordinates."""
    base = 10000.0 if base is None else base
    return _axial(Rope(dim // 2, base).freqs if dim else np.empty((1, 0)), canonical_layout(layout))


def apply_rope(x, cos, sin, positions, rope, freqs, base, layout, rotary_dim, inverse, out, num_threads):
    """Return the kernel's name, its arguments, and the target of the result."""
    x = _rows("x", x)
    inverse, num_threads = options.flag("inverse", inverse), options.threads(num_threads)
    described = {"rope": rope, "freqs": freqs, "base": base}
    named = [name for name, value in described.items() if value is not None]
    if cos is None and sin is None:
        if positions is None:
            raise TypeError(f"apply_rope got neither tables nor positions; call {FORMS}")
        if len(named) > 1:
            raise TypeError(f"apply_rope got {'= and '.join(named)}=; expected at most one")
        plan = _plan(x.shape[-1], rope, freqs, base, layout, rotary_dim)
        points = per_row("positions", positions, "x", x.shape[:-1], len(plan[0]))
        goal = target(out, x.shape, x.dtype, points, in_place=x)
        return "apply_rope", (x, points, plan, inverse, goal.direct, num_threads), goal
    if positions is not None:
        raise TypeError(f"apply_rope got both tables and positions; call {FORMS}")
    if cos is None or sin is None:
        alone, other = ("cos", "sin") if sin is None else ("sin", "cos")
        raise TypeError(f"apply_rope got {alone} without {other}; call {FORMS}")
    if named:
        raise TypeError(f"apply_rope got tables and {named[0]}=, which would describe the angles twice; "
                        f"drop one, or pass positions= in place of cos and sin")
    half = int(canonical_layout(layout) == "half")
    cos, sin = _tables(cos, sin, x.shape, rotary_dim)
    goal = target(out, x.shape, x.dtype, (cos, sin), in_place=x)
    return "apply_rope_tables", (x, cos, sin, half, inverse, goal.direct, num_threads), goal


def apply_rope_2d(x, pos_x, pos_y, freqs, base, layout, inverse, out, num_threads):
    """Return the arguments of the kernel apply_rope, and the target of the result."""
    x = _rows("x", x)
    inverse, num_threads = options.flag("inverse", inverse), options.threads(num_threads)
    dim, layout = x.shape[-1], canonical_layout(layout)
    if dim % 4:
        raise ValueError(f"x has D = {dim}; expected a multiple of 4, as each half of D is cut into pairs")
    if freqs is None:
        plan = plan_2d(dim, None if base is None else positive("base", base), layout)
    else:
        if base is not None:
            raise TypeError("apply_rope_2d got freqs= and base=; expected at most one")
        plan = _axial(_axis_freqs(freqs, dim // 4), layout)
    lead = x.shape[:-1]
    points = per_row("pos_x", pos_x, "x", lead) + per_row("pos_y", pos_y, "x", lead)
    goal = target(out, x.shape, x.dtype, points, in_place=x)
    return (x, points, plan, inverse, goal.direct, num_threads), goal


def rope_plan(rope, dim):
    """Return the plan of rope= after a look at its type and width."""
    if not isinstance(rope, Rope):
        layout = f', layout="{LAYOUTS[rope]}"' if isinstance(rope, str) and rope in LAYOUTS else ""
        raise TypeError(f"rope has type {type(rope).__name__}; expected a pe.Rope, e.g. "
                        f"pe.Rope({dim}{layout})")
    if rope.dim != dim:
        raise ValueError(f"rope is for D = {rope.dim}; the values have D = {dim}")
    return rope._plan


def _rows(name, value):
    x = values(name, value)
    if x.ndim == 0:
        raise ValueError(f"{name} is a single number; expected shape (..., D)")
    return plain(x)


def _plan(dim, rope, freqs, base, layout, rotary_dim):
    if rope is not None:
        for name, value in (("layout", layout), ("rotary_dim", rotary_dim)):
            if value is not None:
                raise TypeError(f"apply_rope got rope= and {name}=; pe.Rope(..., {name}=...) fixes it")
        return rope_plan(rope, dim)
    layout = canonical_layout(layout)
    if rotary_dim is not None:
        rotary_dim = _rotary_width(rotary_dim, dim)
    if freqs is not None:
        freqs = checked_freqs(plain(coefficients("freqs", freqs)))
        if len(freqs) > 1:
            raise ValueError(f"freqs has shape {freqs.shape}; expected (L,): several axes of positions are "
                             f"described by rope=pe.Rope(D, freqs=freqs)")
        if rotary_dim is None and 2 * freqs.shape[1] <= dim:            # as a Rope would have it
            return freqs, int(layout == "half"), 1, 1.0, 0
        return Rope(max(dim, 1), freqs=freqs, layout=layout, rotary_dim=rotary_dim)._plan
    base = None if base is None else positive("base", base)
    if dim == 0:
        return np.empty((1, 0)), int(layout == "half"), 1, 1.0, 0
    if dim % 2 and rotary_dim is None:
        part = f", or rotary_dim={dim - 1} to turn all coordinates but the last" if dim > 1 else ""
        raise ValueError(f"x has D = {dim}, which does not divide into pairs; pass an even D{part}")
    return plan_1d(dim, base, layout, rotary_dim)


def _rotary_width(rotary_dim, dim):
    width = integer("rotary_dim", rotary_dim, 2)
    if width % 2 or width > dim:
        raise ValueError(f"rotary_dim is {width}; expected an even number from 2 to D = {dim}")
    return width


def _tables(cos, sin, shape, rotary_dim):
    """Return cos and sin as the kernel takes them: (T, L), or the axes of x each equal or 1."""
    tables = {"cos": coefficients("cos", cos), "sin": coefficients("sin", sin)}
    cos, sin = tables.values()
    if cos.shape != sin.shape:
        raise ValueError(f"cos has shape {cos.shape} and sin has shape {sin.shape}; expected one shape")
    if cos.ndim == 0:
        raise ValueError("cos is a single number; expected (T, L), one row a position and one column a plane")
    dim, rows = shape[-1], shape[-2] if len(shape) > 1 else 1
    width = dim if rotary_dim is None else _rotary_width(rotary_dim, dim)
    planes = cos.shape[-1]
    if planes == width and width > 0:
        raise ValueError(f"cos has {amount(planes, 'column')} for {width} coordinates; expected one for each "
                         f"plane, L = {width // 2}: {_half_of(cos, width)}")
    if planes > width // 2 or (rotary_dim is not None and planes != width // 2):
        raise ValueError(f"cos has {amount(planes, 'column')}; expected one for each plane, L = {width // 2} "
                         f"for {'D' if rotary_dim is None else 'rotary_dim'} = {width}")
    if cos.ndim == 2 and cos.shape[0] != rows:
        fix = (f": take the rows of these positions, cos[:{rows}] and sin[:{rows}] if x starts at position 0"
               if cos.shape[0] > rows else "; np.broadcast_to them if every row stands at the same position"
               if cos.shape[0] == 1 else "")
        raise ValueError(f"cos has {amount(cos.shape[0], 'row')} and x has T = {rows} (shape {shape}){fix}")
    if cos.ndim != 2 and not (cos.ndim == len(shape)
                              and all(n in (1, m) for n, m in zip(cos.shape[:-1], shape[:-1], strict=True))):
        raise ValueError(f"cos has shape {cos.shape} and x has shape {shape}; expected {(rows, planes)}, or "
                         f"{(*shape[:-1], planes)} with any axis but the last being 1")
    if cos.ndim > len(shape):                                   # one row of tables for one vector
        cos, sin = cos[0], sin[0]
    wide = np.result_type(cos.dtype.newbyteorder("="), sin.dtype.newbyteorder("="))
    return plain(cos, wide), plain(sin, wide)


def _half_of(cos, width):
    """Say which columns of a table of full width are one a plane."""
    first, every_other = f"cos[..., :{width // 2}]", "cos[..., ::2]"
    if width % 2 == 0 and np.array_equal(cos[..., :width // 2], cos[..., width // 2:], equal_nan=True):
        return f"its second half repeats the first, pass {first} and the same of sin"
    if width % 2 == 0 and np.array_equal(cos[..., ::2], cos[..., 1::2], equal_nan=True):
        return f"every column comes twice, pass {every_other} and the same of sin"
    return f"pass {first} of [w, w] tables, {every_other} of tables with every column twice"


def _axis_freqs(freqs, planes):
    """Return frequencies for both axes: (D/4,) or (2, D/4)."""
    array = plain(coefficients("freqs", freqs), np.dtype(np.float64))
    if array.shape not in ((planes,), (2, planes)):
        raise ValueError(f"freqs has shape {array.shape}; expected ({planes},), D/4 for both axes, or "
                         f"(2, {planes})")
    if planes == 0:
        return np.empty((1, 0))
    return np.concatenate([checked_freqs(row) for row in np.atleast_2d(array)])


def _axial(freqs, layout):
    """Lay out rows for pos_x and pos_y: the first L/2 planes follow pos_x, the last L/2 follow pos_y."""
    x, y = np.broadcast_to(freqs, (2, np.shape(freqs)[-1]))
    still = np.zeros_like(x)
    return np.ascontiguousarray([[*x, *still], [*still, *y]], np.float64), int(layout == "half"), 2, 1.0, 0
