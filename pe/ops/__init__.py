"""The ops: apply a rotation, write down a bias, attend.

Each function recognises a plain call and hands it to the C core as it is; whatever is not plain goes through
`pe._check`, which makes it so or says what is wrong before anything is written.

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
