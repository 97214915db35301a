"""Generators: from a matrix to a name, and from a name to a matrix.

A linear, relative, continuous positional encoding is A(u) = exp(uX) for one real matrix X, the generator, and
up to a change of basis X is its real Jordan form: so every encoding is a mixture of fades, turns and slides.
`classify` names X, `transport` computes A(u), `encoding` splits it between query and key, and the
constructors make X. `generator_of` and `fit_generator` go back from a matrix or from scores to X,
`check_encoding` tries anybody's score, and several axes have one X each (`joint_spectrum` and its
neighbours).

Outside this fence are maps that are not linear, not relative or not continuous, and positions that depend on
the content. That one kind has survived for years or scores best is a report about models, not a theorem about
matrices.
"""

from . import rescale
from .axes import (
    axial,
    commutant,
    commute,
    complex_matrix,
    quaternion_matrix,
    relativity_residual,
)
from .classification import Block, Classification
from .classify import classify
from .encoding import Encoding, encoding
from .fence import EncodingReport, check_encoding
from .fit import Fit, fit_generator, generator_of
from .groups import GroupReport, check_group_axioms, group_law_residual, homomorphism_defect
from .joint import JointSpectrum, is_injective, joint_spectrum, position_of
from .names import ROWS
from .published import (
    bloom,
    forgetting,
    grape,
    llama,
    mamba3,
    mistral,
    mpt,
    qwen,
    retnet,
    sinusoidal,
)
from .systems import (
    alibi,
    conjugate,
    damped_rope,
    decay,
    direct_sum,
    fade,
    jordan_rope,
    nope,
    plane,
    rope,
    slide,
    turn,
)
from .to_ops import Ops
from .transport import transport

__all__ = [
    "ROWS",
    "Block",
    "Classification",
    "Encoding",
    "EncodingReport",
    "Fit",
    "GroupReport",
    "JointSpectrum",
    "Ops",
    "alibi",
    "axial",
    "bloom",
    "check_encoding",
    "check_group_axioms",
    "classify",
    "commutant",
    "commute",
    "complex_matrix",
    "conjugate",
    "damped_rope",
    "decay",
    "direct_sum",
    "encoding",
    "fade",
    "fit_generator",
    "forgetting",
    "generator_of",
    "grape",
    "group_law_residual",
    "homomorphism_defect",
    "is_injective",
    "joint_spectrum",
    "jordan_rope",
    "llama",
    "mamba3",
    "mistral",
    "mpt",
    "nope",
    "plane",
    "position_of",
    "quaternion_matrix",
    "qwen",
    "relativity_residual",
    "rescale",
    "retnet",
    "rope",
    "sinusoidal",
    "slide",
    "transport",
    "turn",
]
