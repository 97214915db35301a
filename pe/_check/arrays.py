"""Whatever a caller hands in, as a plain ndarray the C core can read; or an error that says what to type."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np

VALUE_DTYPES = "float16, bfloat16, float32 or float64"
ROWS_FIRST = ". If q, k and v are (..., rows, heads, D), pass q.swapaxes(-3, -2), k and v alike"
_LAZY = {"dask": "dask", "xarray": "dask-backed xarray"}


def bfloat16_type():
    """Return the scalar type bfloat16 if something here has imported ml_dtypes, which pe never does."""
    return getattr(sys.modules.get("ml_dtypes"), "bfloat16", None)


def is_value_dtype(dtype):
    """Say whether dtype, in any byte order, is one of the four the core computes with."""
    return dtype.type in (np.float16, np.float32, np.float64) or dtype.type is bfloat16_type()


def to_array(name, value):
    """Return value as a base ndarray, without a copy where NumPy needs none."""
    if type(value) is np.ndarray:
        return value
    if value is None:
        raise TypeError(f"{name} is None; expected an array")
    _refuse_lazy(name, value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array of dtype {value.dtype}, whose mask would be lost; "
                        f"pass {name}.filled(...) (and, to attention, the mask as mask=)")
    try:
        array, failure = np.asarray(value), None
    except Exception as error:
        array, failure = None, error
    if hasattr(value, "__dlpack__") and (array is None or array.dtype == object):
        try:
            array, failure = np.from_dlpack(value), None
        except Exception as error:
            failure = error
    if failure is not None:
        kind = ValueError if isinstance(failure, ValueError) else TypeError
        raise kind(f"NumPy cannot read {name}, of type {type(value).__name__}: {failure}"
                   f"{_bits_hint(name, value)}") from failure
    return array


def _bits_hint(name, value):
    """Say how a bfloat16 tensor of torch, which NumPy and its DLPack have no type for, comes over."""
    if str(getattr(value, "dtype", "")) != "torch.bfloat16":
        return ""
    return f" Pass {name}.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)"


def _refuse_lazy(name, value):
    for cls in type(value).__mro__:
        package = cls.__module__.partition(".")[0]
        if package == "dask" or (package == "xarray" and getattr(value, "chunks", None)):
            raise TypeError(f"{name} is a {_LAZY[package]} {type(value).__name__}, not computed yet; "
                            f"pass {name}.compute()")


def values(name, value):
    """Return the numbers an op works on in one of the four dtypes.

    Integers become float64, in a copy that leaves their broadcast axes unexpanded.
    """
    array = to_array(name, value)
    dtype = array.dtype
    if dtype.type is np.uint16:
        raise TypeError(f"{name} has dtype uint16; bfloat16 bits? pass {name}.view(ml_dtypes.bfloat16), "
                        f"or {name}.astype(np.float64) for numbers")
    if dtype.kind in "iu":
        once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
        return np.broadcast_to(once.astype(np.float64), array.shape)
    if not is_value_dtype(dtype):
        raise TypeError(f"{name} has dtype {dtype}; expected {VALUE_DTYPES}, or integers, read as float64"
                        f"{_dtype_hint(name, array, value)}")
    return array


def _dtype_hint(name, array, value):
    if array.dtype.kind == "c":
        return f" (pass {name}.real and {name}.imag apart)"
    if array.dtype == object and not isinstance(value, (list, tuple, np.ndarray)):
        return f" (its type is {type(value).__name__}{'; call it' if callable(value) else ''})"
    if array.dtype.kind == "f":
        return f" ({name}.astype(np.float64))"
    if array.dtype.kind not in "bOSU" or not (hasattr(value, "astype") or isinstance(value, (list, tuple))):
        return ""
    held = f"{name}.astype(np.float64)" if hasattr(value, "astype") else f"np.array({name}, np.float64)"
    return f" ({held}, if it holds numbers)"


def coefficients(name, value):
    """Return numbers that steer an op but not its dtype (tables, slopes, bias): 16 bits become float32."""
    array = values(name, value)
    return array if array.dtype.itemsize > 2 else array.astype(np.float32)


def common_dtype(named):
    """Return NumPy's promotion of the values alone, over {name: array}."""
    by_type = {array.dtype.type: name for name, array in named.items()}
    half, brain = by_type.get(np.float16), by_type.get(bfloat16_type())
    if half and brain:
        raise TypeError(f"{half} is float16 and {brain} is bfloat16, which have no common dtype; "
                        f"convert one, e.g. {half}.astype({brain}.dtype)")
    if len(by_type) == 1:
        return next(iter(named.values())).dtype.newbyteorder("=")
    return np.result_type(*(array.dtype.newbyteorder("=") for array in named.values()))


def has_rows(array):
    """Say whether the last axis has no gaps; an axis of one element has none, nor has an empty array."""
    return array.size == 0 or array.ndim == 0 or array.shape[-1] == 1 or array.strides[-1] == array.itemsize


def plain(array, dtype=None):
    """Return array in native dtype with a contiguous last axis: itself where it is that, else a copy.

    A copy leaves broadcast axes (stride 0) unexpanded.
    """
    dtype = array.dtype.newbyteorder("=") if dtype is None else dtype
    if array.dtype == dtype and has_rows(array):
        return array
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:-1])
    return np.broadcast_to(array[once].astype(dtype, order="C"), array.shape)


def fitting_axes(shape, target):
    """Return which axes of target an array of this shape could have, fewer than all; () if none fit.

    The last axis is tried on the last of target first, the first axis from the left (a batch before heads),
    those between from the right.
    """
    if not 0 < len(shape) < len(target) <= 8:
        return ()
    placements = combinations(range(len(target)), len(shape))
    for axes in sorted(placements, key=lambda a: (a[-1] < len(target) - 1, a[0], [-axis for axis in a[1:]])):
        if all(size in (1, target[axis]) for size, axis in zip(shape, axes, strict=True)):
            return axes
    return ()


def fitting_index(shape, target, *, trim=False):
    """Return the index of None and : that puts an array on its fitting axes; "" if it has none.

    trim leaves out the colons at the end.
    """
    axes = fitting_axes(shape, target)
    if not axes:
        return ""
    index = [":" if axis in axes else "None" for axis in range(len(target))]
    while trim and index[-1] == ":":
        index.pop()
    return f"[{', '.join(index)}]"


def keys_index(shape, scores):
    """Return the index that gives an array the axes of the scores, its last the keys; "" if there is none."""
    axes = fitting_axes(shape, scores)
    return fitting_index(shape, scores, trim=True) if axes and axes[-1] == len(scores) - 1 else ""


def heads_behind_rows(shape, q):
    """Say whether an array of one number for each head fits where q has its rows."""
    return len(q) > 2 and shape == (q[-2],)


def on_scores(name, shape, scores):
    """Say which shapes an array (mask or bias) may have beside the scores, and the index that gives it one.

    Equal sizes may be an accident, so the index comes with the meaning that it gives to each axis.
    """
    *few, whole = dict.fromkeys(str(scores[-n:]) for n in (1, 2, len(scores)))
    text = (f"{name} has shape {shape} and the scores have shape {scores}; expected {', '.join(few)} or "
            f"{whole}, where any axis may be 1")
    index = keys_index(shape, scores)
    if not index:
        square = len(scores) > 2 and shape[-2:] == (scores[-3], scores[-3])
        return text + ROWS_FIRST if square and scores[-3] > 1 else text
    names = [*["batch"] * (len(scores) - 3), "heads", "queries", "keys"]
    *first, last = [names[axis - len(scores)] for axis in fitting_axes(shape, scores)]
    meant = f"axes are {', '.join(first)} and {last}" if first else f"axis is {last}"
    return f"{text}: {name}{index}, if its {meant}"
