"""Positional encodings for NumPy: turn, fade, slide.

A positional encoding carries a key forward by the gap u between a query and a key: A(u) = exp(uX). A matrix
can only fade, turn, slide, or mix them.

Ops, in C: apply_rope, apply_rope_2d, apply_rope_nd; alibi_bias, decay_bias; attention, attention_weights,
merge_attention; retention. What they take: Rope, alibi_slopes, grid_positions, positions_from_mask,
positions_from_lengths, clock; sinusoidal for contrast; reference, the NumPy twin of each.

The rotary family: Rope.from_hf, scaling, presets; check_rope tries anybody's function, convert_layout carries
weights between layouts.

Names: classify, transport, encoding, generators, check_encoding, fit_generator, check_group_axioms and more.
Pictures: plot (matplotlib), explore (interactive), check (the exercises of the notebooks).

Run time: set_num_threads, get_num_threads, isa, show_config. ``python -m pe --help`` has the commands.
"""

from importlib import import_module as _import_module

try:
    _import_module("._core", __name__)
    _import_module(".ops", __name__)
except ModuleNotFoundError as error:
    if error.name != "pe._core":
        raise
    raise ImportError(
        "pe has no compiled core here: this is the source tree, so build it in place with "
        '`pip install -e .`, or run Python from another folder to use an installed pe'
    ) from None
except AttributeError as error:
    if getattr(error.obj, "__name__", None) != "pe._core":
        raise
    raise ImportError(
        f"pe's compiled core is older than its Python files, it has no {error.name}: compile it again with "
        "`pip install -e .`"
    ) from None

from .ops import (
    alibi_bias,
    apply_rope,
    apply_rope_2d,
    apply_rope_nd,
    attention,
    attention_weights,
    decay_bias,
    merge_attention,
    retention,
)
from .positions import clock, grid_positions, positions_from_lengths, positions_from_mask, sinusoidal
from .rope import Rope, build_rope_cache
from .runtime import get_num_threads, isa, set_num_threads, show_config
from .slopes import alibi_slopes
from .state import RetentionState

__version__ = "0.1.0"

# These load SciPy, matplotlib or files only when they are first used.
_GENERATORS = [
    "Classification", "EncodingReport", "Fit", "GroupReport", "JointSpectrum", "axial", "check_encoding",
    "check_group_axioms", "classify", "commutant", "commute", "complex_matrix", "encoding", "fit_generator",
    "generator_of", "group_law_residual", "homomorphism_defect", "is_injective", "joint_spectrum",
    "position_of", "quaternion_matrix", "relativity_residual", "transport",
]  # fmt: skip
_MODULES = ["check", "explore", "generators", "plot", "presets", "reference", "scaling"]
_LAZY = {**dict.fromkeys(_GENERATORS, "generators"), **{module: module for module in _MODULES},
         "convert_layout": "convert", "RopeReport": "probe", "check_rope": "probe"}

__all__ = [
    "RetentionState", "Rope", "alibi_bias", "alibi_slopes", "apply_rope", "apply_rope_2d", "apply_rope_nd",
    "attention", "attention_weights", "build_rope_cache", "clock", "decay_bias", "get_num_threads",
    "grid_positions", "isa", "merge_attention", "positions_from_lengths", "positions_from_mask", "retention",
    "set_num_threads", "show_config", "sinusoidal", *_LAZY,
]  # fmt: skip

# What else is typed for them, and "rope", the module: pe.rope(q) is a slip for one of two names.
_SLIPS = {
    "rope": "pe.apply_rope turns queries or keys, pe.Rope describes how",
    "apply_rotary_pos_emb": "call pe.apply_rope for queries and again for keys",
    "apply_rotary_emb": "use pe.apply_rope",
    "RotaryEmbedding": "use pe.Rope",
    "precompute_freqs_cis": "use pe.build_rope_cache",
    "scaled_dot_product_attention": "use pe.attention",
    "dot_product_attention": "use pe.attention",
    "flash_attn_func": "use pe.attention",
    "softmax": "pe.attention has it inside, pe.attention_weights shows what comes out of it",
    "alibi": "use pe.alibi_bias, or pe.attention(..., alibi_slopes=pe.alibi_slopes(H))",
}
globals().pop("rope", None)


def __getattr__(name):
    if name not in _LAZY:
        hint = f"; {_SLIPS[name]}" if name in _SLIPS else ""
        raise AttributeError(f"module 'pe' has no attribute {name!r}{hint}")
    module = _import_module(f".{_LAZY[name]}", __name__)
    value = module if name == _LAZY[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_LAZY])
