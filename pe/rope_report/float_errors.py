"""What forming angles, frequencies or tables in few bits costs, measured on the frequencies at hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..probe.precision import to_bfloat16

BF16_WHOLE, F16_WHOLE, F16_LARGEST = 256, 2048, 65504       # last whole numbers without a gap; the largest


def float32_angles(w: NDArray[np.float64], position: int) -> float:
    """Return the largest |e^(ia') - e^(ia)| over planes, a' formed as a float32 product of p and w."""
    single = np.float32(position) * w.astype(np.float32)
    return _chord(single.astype(np.float64) - position * w)


def bfloat16_frequencies(w: NDArray[np.float64], position: int) -> float:
    """Return the same for a module whose frequencies were cast to bfloat16 and whose angles are float32."""
    short = to_bfloat16(w.astype(np.float32))               # as they are cast: from float32
    single = np.float32(position) * short.astype(np.float32)
    return _chord(single.astype(np.float64) - position * w)


def table_rounding(amplitude: float) -> tuple[float, float]:
    """Return half the gap between numbers of float16 and of bfloat16 just below `amplitude`.

    No entry of a table of cos and sin is rounded by more.
    """
    exponent = np.frexp(amplitude)[1]                       # amplitude in [2^(e-1), 2^e)
    if amplitude == 2.0 ** (exponent - 1):
        exponent -= 1
    return float(2.0 ** (exponent - 12)), float(2.0 ** (exponent - 9))


def _chord(difference):
    return float(np.abs(2 * np.sin(difference / 2)).max())
