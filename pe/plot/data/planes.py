"""What the rope figure draws and prints: the wavelength of every plane, before and after a scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pe._scalars import positive, shown
from pe.plot.data.printed import decimals, plain

__all__ = ["RopeData", "rope"]

#: What a scaling may do to a plane, in the words of `pe.Rope.explain`.
CHANGES = ("kept", "blended", "divided", "stopped")


@dataclass(frozen=True)
class RopeData:
    """Everything the rope figure draws and prints: a row for every plane on every axis that turns it.

    Attributes
    ----------
    rope : pe.Rope
    context, trained : float or None
        Positions over which turns are counted, and those the scaling says the model was trained on.
    axes, planes : ndarray of int, shape (n,)
        Which axis of positions, and which plane.
    before, after : ndarray, shape (n,)
        Positions per full turn without and with the scaling; inf where a plane stands still.
    stretch : ndarray, shape (n,)
        How many times longer a turn has become.
    changes : tuple of str
        "kept", "blended", "divided" or "stopped"; "" without a scaling.
    """

    rope: Any
    context: float | None
    trained: float | None
    axes: np.ndarray
    planes: np.ndarray
    before: np.ndarray
    after: np.ndarray
    stretch: np.ndarray
    changes: tuple[str, ...]

    def counted(self):
        """Return how many planes each change met, {change: count}, without those that met none."""
        return {change: self.changes.count(change) for change in CHANGES if change in self.changes}

    def incomplete(self):
        """Return how many planes turn but complete no turn in the context, before and after the scaling."""
        if self.context is None:
            return None
        return tuple(int((np.isfinite(w) & (w > self.context)).sum()) for w in (self.before, self.after))

    def numbers(self):
        """Return the printed numbers, key: (label, text)."""
        def both(one, two):
            return f"{one} → {two}" if self.rope.scaling is not None else one

        rows = {
            "planes": ("planes", plain(self.rope.freqs.shape[1])),
            "shortest": ("shortest turn", both(_short(self.before.min()), _short(self.after.min()))),
            "longest": ("longest turn", both(_short(self.before.max()), _short(self.after.max()))),
        }
        if self.trained is not None:
            rows["trained"] = ("trained context", plain(self.trained))
        if self.context is not None:
            rows["context"] = ("context", plain(self.context))
            rows["incomplete"] = ("no full turn in it", both(*map(plain, self.incomplete())))
        for change, count in self.counted().items():
            rows[change] = (f"planes {change}", plain(count))
        if self.rope.amplitude != 1:
            rows["amplitude"] = ("scores gain", decimals(self.rope.amplitude**2))
        return rows


def _short(value):
    """Print a wavelength, inf as a plane that stands still."""
    return "∞" if np.isinf(value) else plain(value)


def rope(rope, context=None):
    """Compute what the rope figure shows.

    Parameters
    ----------
    rope : pe.Rope
        With or without a scaling, of one axis or several.
    context : float, optional
        Positions over which turns are counted. Default: the context the scaling extends to, if it says one.

    Returns
    -------
    RopeData

    Raises
    ------
    TypeError
        If rope is no `pe.Rope` or context no number.
    ValueError
        If context is not positive, or no plane turns.

    Examples
    --------
    >>> import pe
    >>> yarn = pe.scaling.yarn(4.0, original_max_position_embeddings=32768)
    >>> shown = rope(pe.Rope(128, 1e6, scaling=yarn))
    >>> shown.counted(), shown.incomplete()
    ({'kept': 24, 'blended': 16, 'divided': 24}, (17, 24))
    """
    from pe.rope import Rope

    if not isinstance(rope, Rope):
        raise TypeError(f"rope must be a pe.Rope; got {shown(rope)} of type {type(rope).__name__}")
    table = rope.explain(None if context is None else positive("context", context))
    if not any(row.frequency for row in table.planes):
        raise ValueError("rope has no plane that turns; expected a frequency other than 0")
    axes, planes = (np.array([row[k] for row in table.planes]) for k in (0, 1))
    with np.errstate(divide="ignore"):
        before, after = (2 * np.pi / np.abs(w[axes, planes]) for w in (rope.unscaled, rope.freqs))
    return RopeData(
        rope=rope, context=table.context,
        trained=getattr(rope.scaling, "original_max_position_embeddings", None),
        axes=axes, planes=planes, before=before, after=after,
        stretch=np.array([row.divisor for row in table.planes]),
        changes=tuple(row.change for row in table.planes),
    )
