"""Where a result goes: the rules of ``out=``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import has_rows, is_value_dtype


class Target(NamedTuple):
    """The caller's out, and the array the core writes: None means a fresh one, assigned to out afterwards."""

    out: np.ndarray | None
    direct: np.ndarray | None

    def deliver(self, result):
        """Return the object the op returns: the caller's own out if there is one."""
        if self.out is None:
            return result
        if self.direct is None:
            np.copyto(self.out, result, casting="unsafe")
        return self.out


def target(out, shape, dtype, inputs, *, in_place=None):
    """Check out against the result's shape and dtype, and decide how it is written.

    in_place is the input that out may be, view for view; inputs are the other arrays the core reads. Any
    other overlap, judged by address bounds, gets a fresh result; so do another dtype or byte order, and a
    last axis with gaps.
    """
    if out is None:
        return Target(None, None)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        share = ": out.numpy(), if it shares memory" if hasattr(out, "numpy") else ""
        raise TypeError(f"out has type {type(out).__name__}; expected an ndarray of shape {shape}{share}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; the result has shape {shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only; expected a writable array")
    if out.size and any(step == 0 and size > 1 for step, size in zip(out.strides, out.shape, strict=True)):
        raise ValueError(f"out is broadcast (strides {out.strides}), so that several results would share one "
                         f"element; expected an array with its own memory, np.empty({shape})")
    wide = out.dtype.kind in "fc" and np.can_cast(dtype, out.dtype, "same_kind")
    if not (wide or is_value_dtype(out.dtype)):
        raise TypeError(f"out has dtype {out.dtype} and the result is {dtype}; expected the same kind, such "
                        f"as {dtype}")
    base = out.view(np.ndarray)
    free = not any(array is not None and np.may_share_memory(base, array) for array in inputs)
    if in_place is not None and np.may_share_memory(base, in_place):
        free = free and _same_view(base, in_place)
    return Target(out, base if has_rows(base) and free and base.dtype == dtype else None)


def _same_view(a, b):
    """Say whether two arrays are the same elements in the same order."""
    return (a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
            and a.__array_interface__["data"][0] == b.__array_interface__["data"][0])
