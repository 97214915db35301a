"""attention_weights: the checks of attention, for a call that has no values."""

from __future__ import annotations

import numpy as np

from .._scalars import shown
from .arrays import values
from .attention import attention

STAGES = ("scores", "softcapped", "biased", "weights")


def attention_weights(q, k, stage, *keywords):
    """Return the arguments of the kernel, from q, k and the keywords of attention in its order."""
    if not isinstance(stage, str):
        raise TypeError(f"stage is {shown(stage)}; expected one of {', '.join(map(repr, STAGES))}")
    if stage not in STAGES:
        raise ValueError(f"stage is {shown(stage)}; expected one of {', '.join(map(repr, STAGES))}")
    q, k = values("q", q), values("k", k)
    nothing = np.broadcast_to(np.zeros(1, k.dtype), (*k.shape[:-1], 1))
    (q, k, _, options, _, _), _ = attention(q, k, nothing, *keywords, False, None, None)
    return q, k, options, stage
