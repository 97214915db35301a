"""Keys about rotation that stand beside the rope of a config: which are read, and which may stay."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .._scalars import positive, shown

READ = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "rotary_pct", "rotary_dim",
        "rotary_emb_base", "rope_interleave", "rope_local_base_freq", "global_rope_theta", "local_rope_theta",
        "compress_rope_theta", "swa_rope_theta", "layer_rope_theta", "qk_rope_head_dim", "rope_ratio")
# Keys of published configs that say which layers turn, or concern another part of the model.
OTHERS = frozenset(
    "no_rope_layers no_rope_layer_interval rope_scaling_layers memory_attention_rope_dropout "
    "memory_attention_rope_feat_sizes memory_attention_rope_k_sizes use_mem_rope use_mrope rotary_value "
    "rotary_embedding_base attn_rotary_emb rope_full_precision".split())
# And the values at which other keys say nothing new.
PLAIN: dict[str, object] = {
    **dict.fromkeys("rotary rope use_rope use_rotary use_rotary_embedding use_rotary_pos_emb rope_3d".split(),
                    True),
    "rotary_emb_fraction": 1, "rotary_emb_interleaved": False, "rotary_scaling_factor": 1,
}
_SPELT = [key for key in READ if key != "qk_rope_head_dim"]     # qk_nope_head_dim is no slip of the pen
_MEANT = {"rope_base": "rope_theta", "rotary_base": "rope_theta", "rope_freq_base": "rope_theta",
          "rope_pct": "rotary_pct", "rotary_percent": "rotary_pct"}


def check_keys(config: Mapping[str, Any], inside: set[str]) -> None:
    """Refuse a key beside the rope that is misspelt, belongs inside (these do), or is not read."""
    for key, value in config.items():
        if value is None or not isinstance(key, str) or key in READ or key in OTHERS:
            continue
        if key in PLAIN:
            if value != PLAIN[key]:
                raise ValueError(f"config has {key} {shown(value)}, which pe does not read; expected "
                                 f"{PLAIN[key]!r}")
            continue
        named = "rope" in key.lower() or "rotary" in key.lower()
        if named and key in inside:
            raise ValueError(f"config has {key!r} beside its rope; it belongs inside rope_parameters")
        near = [_MEANT[key]] if key in _MEANT else difflib.get_close_matches(key, _SPELT, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"config has the unknown key {key!r}; did you mean {near[0]!r}?")
        if named:
            raise ValueError(f"config has the unknown key {key!r}; leave it out if nothing turns otherwise "
                             f"for it")


def check_same(key: str, beside: Any, name: str, inner: str, inside: Any) -> None:
    """Refuse two values that differ for one thing, one beside the rope and one in it."""
    if beside is not None and inside is not None and beside != inside:
        raise ValueError(f"config has {key} {shown(beside)}, and {name} has {inner} {shown(inside)}; keep "
                         f"the one that the model was trained with")


def base_of_layers(config: Mapping[str, Any]) -> float | None:
    """Return the base of the layers that turn, where a config lists one for each layer, or None."""
    listed = config.get("layer_rope_theta")
    if listed is None:
        return None
    if not isinstance(listed, list | tuple):
        raise TypeError(f"layer_rope_theta must be a list, a base for each layer; got {shown(listed)}")
    turning = [base for base in listed if base not in (0, None)]    # 0: a layer that turns nothing
    bases = {positive("layer_rope_theta", base) for base in turning}
    if len(bases) > 1:
        raise ValueError(f"layer_rope_theta has several bases, {sorted(bases)}; leave it out and write one "
                         f"of them as rope_theta")
    return bases.pop() if bases else None
