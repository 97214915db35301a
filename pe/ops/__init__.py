"""The ops: apply a rotation, write down a bias, attend.

A plain call never comes here: its entry in C takes it as it is (see `plain_first`). Each function takes the
others through `pe._check`, which makes them plain or says what is wrong before anything is written.

Letters: B batch, H query heads, K key heads, M queries, N keys, D head width, V value width, L planes, T
rows, t query position, s key position.
"""

from .attend import attention
from .biases import alibi_bias, decay_bias
from .merge import merge_attention
from .retain import retention
from .rotations import apply_rope, apply_rope_2d, apply_rope_nd
from .weights import attention_weights

__all__ = ["alibi_bias", "apply_rope", "apply_rope_2d", "apply_rope_nd", "attention", "attention_weights",
           "decay_bias", "merge_attention", "retention"]
