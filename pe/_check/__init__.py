"""Every shape, dtype and option check of the ops, and its message.

Each function takes the arguments of an op in their order and returns the positional arguments of its C kernel
with the `Target` of the result; or it raises, before anything is written. Nothing here computes an op.
"""

from .attention import attention
from .bias import alibi, decay, rate_of
from .merge import merge
from .retention import retention
from .rotary import apply_rope, apply_rope_2d, plan_1d, plan_2d
from .rotary_nd import apply_rope_nd
from .weights import attention_weights

__all__ = ["alibi", "apply_rope", "apply_rope_2d", "apply_rope_nd", "attention", "attention_weights",
           "decay", "merge", "plan_1d", "plan_2d", "rate_of", "retention"]
