"""What a type checker knows of pe: results have types, and a misspelt keyword is found before it runs."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import pe

x = np.ones((2, 4), np.float32)
rope = pe.Rope(4, layout="half")
assert_type(pe.apply_rope(x, positions=[0, 1], rope=rope), NDArray[Any])
assert_type(pe.apply_rope_2d(x, [0, 1], [1, 0]), NDArray[Any])
assert_type(pe.alibi_bias(4, slopes=pe.alibi_slopes(8)), NDArray[Any])
assert_type(pe.get_num_threads(), int)
assert_type(pe.isa(), str)
pe.apply_rope(x, positons=[0, 1])  # type: ignore[call-arg]
pe.attention(x, x, x, is_causal=True)  # type: ignore[call-arg]
pe.set_num_threads("two")  # type: ignore[arg-type]
