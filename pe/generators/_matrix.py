"""What counts as a generator: one square, real, finite matrix."""

from __future__ import annotations

import numpy as np

from ..rope import Rope


def as_generators(X, name: str = "X") -> tuple[np.ndarray, float]:
    """Return X as float64 (..., n, n) and the rounding unit of the numbers it came in.

    Integers and extended precision count as float64; float16 and float32 keep their own unit, because their
    entries carry their own rounding.
    """
    if isinstance(X, str) or callable(X):
        came = repr(X) if isinstance(X, str) else "a function"
        rows = _rows_of(X) if isinstance(X, str) else None
        wanted = f": pass {rows}" if rows else ", such as pe.generators.turn(1.0) returns"
        raise TypeError(f"{name} is {came}; expected a matrix{wanted}")
    if isinstance(X, Rope):
        raise TypeError(f"{name} is a Rope; expected a matrix: pass the Rope's .generator()")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name} is no matrix, as NumPy says: {error}") from None
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; a generator has every entry: pass {name}.filled(...)")
    if array.dtype.kind == "O":
        try:
            entries, array = array, np.asarray(np.frompyfunc(float, 1, 1)(array), dtype=np.float64)
        except OverflowError:
            raise ValueError(f"{name} has entries beyond 1.8e308; scale it down") from None
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} has entries that are not real numbers ({error})") from None
        if any(entry != 0 for entry in entries[array == 0] if not isinstance(entry, str)):
            raise ValueError(f"{name} has entries below 4.9e-324 that are not 0; scale it up")
    if array.dtype.kind == "c":
        if np.any(array.imag):
            raise TypeError(
                f"{name} is {array.dtype} with an imaginary part; a generator is real "
                "(write a+ib as the block [[a, -b], [b, a]])"
            )
        array = array.real
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name} has dtype {array.dtype}; expected real numbers")
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(
            f"{name} has shape {array.shape}; expected a square matrix (n, n) or a stack (..., n, n)"
        )
    unit = _rounding_unit(array.dtype)
    matrix = array.astype(np.float64)
    if not np.all(np.isfinite(matrix)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(f"{name}{list(where)} is {matrix[where]}; every entry of a generator must be finite")
    return matrix, unit


def as_generator(X, name: str = "X") -> tuple[np.ndarray, float]:
    """`as_generators` for exactly one matrix."""
    matrix, unit = as_generators(X, name)
    if matrix.ndim != 2:
        raise ValueError(f"{name} has shape {matrix.shape}; expected one square matrix (n, n)")
    return matrix, unit


def _rows_of(text: str) -> str | None:
    """Return how Python writes a square matrix given as text, rows by ; and numbers by spaces or commas."""
    rows = [row.replace(",", " ").split() for row in text.strip().strip("[]").split(";")]
    try:
        numbers = [[float(entry) for entry in row] for row in rows]
    except ValueError:
        return None
    if any(len(row) != len(rows) for row in numbers) or not np.all(np.isfinite(numbers)):
        return None
    return "[" + ", ".join(f"[{', '.join(f'{entry:.15g}' for entry in row)}]" for row in numbers) + "]"


def _rounding_unit(dtype: np.dtype) -> float:
    if dtype.name == "bfloat16":
        return 2.0**-7
    if dtype.kind != "f":
        return float(np.finfo(np.float64).eps)
    return max(float(np.finfo(dtype).eps), float(np.finfo(np.float64).eps))
