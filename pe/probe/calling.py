"""Anybody's rotary function, called in its own way: arguments by a signature, results as float64."""

from __future__ import annotations

import itertools
import warnings
from importlib import import_module

import numpy as np

from .._check.arrays import bfloat16_type
from .._scalars import shown

SLOTS = {
    "x": "queries or keys", "q": "queries", "k": "keys", "v": "values",
    "positions": "(T,), or (T, n_axes)", "position_ids": "(B, T), or (n_axes, B, T)",
    "offset": "the first of consecutive positions, an int", "pos_x": "(T,)", "pos_y": "(T,)",
    "cos": "a table", "sin": "a table", "freqs_cis": "a complex table, cos + i sin",
}
VALUES, TABLES = ("x", "q", "k", "v"), ("cos", "sin", "freqs_cis")
COLUMNS = ("planes", "half", "interleaved")
HEADS = 3
"""Heads side by side; no other size of a call is 3, so that axes are not taken for each other."""


class CallFailed(Exception):
    """The function raised, or returned what is no result; `found` says with which values."""

    def __init__(self, text, *, raised=False, **found):
        super().__init__(text)
        self.raised, self.found = raised, found


class Caller:
    """A function with its signature: `turn` gives it vectors at points and reads what comes back.

    Vectors are (B, H, T, D) here, points (T, n_axes) or (B, T, n_axes), whatever order the function has.
    """

    def __init__(self, fn, signature, axes, n_axes, tables, rope, arrays):
        self.fn, self.axes, self.n_axes, self.rope, self.arrays = fn, axes, n_axes, rope, arrays
        self.slots = tuple(part.strip() for part in signature.split(","))
        self.values = [slot for slot in self.slots if slot in VALUES]
        self.tabled = any(slot in TABLES for slot in self.slots)
        self.implicit = not self.tabled and len(self.values) == len(self.slots)
        self.consecutive = self.implicit or "offset" in self.slots
        self.heads = HEADS if "H" in axes else 1
        self.tables = tables
        self.form = ("planes", "TC")
        self.writes = set()
        self.widened, self.narrowed = False, ""

    def forms(self):
        """Ways to hand over tables: which columns, and with which axes."""
        if not self.tabled:
            return [self.form]
        if callable(self.tables):
            return [("own", "")]
        columns = COLUMNS if self.tables is None else (self.tables,)
        if "freqs_cis" in self.slots:
            columns = ("planes",)
        return list(itertools.product(columns, ("TC", "1TC", "all")))

    def turn(self, x, points, dtype="float64"):
        """Return the results for x, one for each value of the signature, as float64 (B, H, T, D).

        x is one array for all values, or a list of an array for each.
        """
        xs = x if isinstance(x, list) else [x] * len(self.values)
        if "B" in self.axes:
            return self._call(xs, points, dtype)
        parts = [self._call([row[None] for row in rows], points, dtype) for rows in zip(*xs, strict=True)]
        return [np.concatenate(results) for results in zip(*parts, strict=True)]

    def _call(self, xs, points, dtype):
        order, x = ["BHTD".index(letter) for letter in self.axes], xs[0]
        missing = tuple(axis for axis in range(4) if axis not in order)
        each = [np.ascontiguousarray(np.squeeze(one, missing).transpose(np.argsort(np.argsort(order))))
                for one in xs]
        shape = each[0].shape
        arguments = [self._array(one.copy(), dtype) for one in each]
        arguments += [self._argument(slot, x.shape, points, dtype) for slot in self.slots[len(each):]]
        before = [np.array(_read(argument)) for argument in arguments[:len(self.values)]]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                returned = self.fn(*arguments)
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            misfit = isinstance(error, TypeError) and "argument" in text
            hint = f"; signature= says what it is given, here {', '.join(self.slots)!r}" if misfit else ""
            if self.arrays == "numpy" and isinstance(error, AttributeError) and "numpy.ndarray" in text:
                hint = '; arrays="torch" gives it tensors'
            raise CallFailed(f"the function raised {type(error).__name__}: {text}{hint}",
                             raised=True, shape=shape, positions=_some(points)) from None
        for slot, argument, old in zip(self.values, arguments, before, strict=False):
            if not np.array_equal(_read(argument), old, equal_nan=True):
                self.writes.add(slot)
        several, count = isinstance(returned, tuple | list), len(self.values)
        if several != (count > 1) or (several and len(returned) != count):
            wanted = "an array" if count == 1 else f"a tuple of {count} arrays"
            raise CallFailed(f"the function returned {_kind(returned)} for {', '.join(self.values)}; "
                             f"expected {wanted}")
        results = returned if several else [returned]
        return [self._result(result, shape, x.shape, order, points, dtype) for result in results]

    def _result(self, result, given, shape, order, points, dtype):
        try:
            y = _read(result)
        except Exception as error:
            raise CallFailed(f"the function returned {_kind(result)}, which is no array: {error}") from None
        if y.dtype.kind in "iu":
            raise CallFailed(f"the function returned {y.dtype} for values of {dtype}: fractions are lost")
        if y.dtype.kind != "f" and y.dtype.type is not bfloat16_type():
            raise CallFailed(f"the function returned {_kind(result)}, read as dtype {y.dtype}; expected real "
                             f"numbers")
        if y.shape != given:
            raise CallFailed(f"the function returned shape {y.shape} for values of shape {given}; expected "
                             f"the same")
        self.widened |= dtype == "float32" and y.dtype == np.float64
        if dtype == "float64" and y.dtype != np.float64:
            self.narrowed = str(getattr(result, "dtype", y.dtype)).removeprefix("torch.")
        y = y.astype(np.float64)
        if not np.isfinite(y).all():
            where = np.argwhere(~np.isfinite(y))[0]
            raise CallFailed(f"the function returned {y[tuple(where)]} for finite x",
                             index=where.tolist(), positions=_some(points))
        y = y.transpose([order.index(axis) for axis in sorted(order)])
        return y.reshape(shape)

    def _argument(self, slot, shape, points, dtype):
        flat = points if points.ndim == 2 else points[0]
        if slot == "positions":
            return self._array(flat[:, 0].copy() if self.n_axes == 1 else flat.copy())
        if slot == "position_ids":
            batch = shape[0] if "B" in self.axes else 1
            ids = np.moveaxis(np.broadcast_to(points, (batch, *points.shape[-2:])), -1, 0)
            return self._array((ids[0] if self.n_axes == 1 else ids).copy())
        if slot == "offset":
            return int(flat[0, 0])
        if slot in ("pos_x", "pos_y"):
            return self._array(flat[:, "xy".index(slot[-1])].copy())
        return self._table(slot, flat, dtype)

    def _table(self, slot, points, dtype):
        columns, axes = self.form
        place = [each for each in self.slots if each in TABLES].index(slot)
        at = points[:, 0] if self.n_axes == 1 else points
        if columns == "own":
            try:
                tables = self.tables(self._array(at.copy()))
            except Exception as error:
                raise CallFailed(f"tables() raised {type(error).__name__}: {error}") from None
            return tables[place] if isinstance(tables, tuple | list) else tables
        cos, sin = self.rope.cache(at)
        table = {"cos": cos, "sin": sin, "freqs_cis": cos + 1j * sin}[slot]
        if columns == "half":
            table = np.concatenate([table, table], axis=-1)
        elif columns == "interleaved":
            table = np.repeat(table, 2, axis=-1)
        if axes == "1TC":
            table = table[None]
        elif axes == "all":
            table = table.reshape([{"T": table.shape[0], "D": table.shape[1]}.get(c, 1) for c in self.axes])
        wide = dtype == "float64"
        if slot == "freqs_cis":
            return self._array(table, "complex128" if wide else "complex64")
        return self._array(table, "float64" if wide else "float32")

    def _array(self, array, dtype=None):
        """Return an array, or a tensor of the library that the function wants, in a dtype by name."""
        if self.arrays == "torch":
            torch = import_module("torch")
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            return tensor if dtype is None else tensor.to(getattr(torch, dtype))
        if dtype is None:
            return array
        return array.astype(bfloat16_type() if dtype == "bfloat16" else dtype)


def _read(value):
    """Return an argument or a result as an array; tensors leave their graph and their device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
    return np.asarray(value)


def _kind(value):
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None or hasattr(value, "shape") or np.isscalar(value):
        return shown(value)
    return f"an object of type {type(value).__name__}"


def _some(points):
    """Return the points of a message: the first few."""
    flat = points.reshape(-1, points.shape[-1])
    plain = (flat[:, 0] if flat.shape[1] == 1 else flat)[:4].tolist()
    return plain if len(flat) <= 4 else [*plain, "..."]
