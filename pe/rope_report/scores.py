"""Pitfalls of scores: what a config says beside its rope that `pe.attention` wants as a keyword."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .encoding import Encoding


def _rows(names: str, **keys: Any) -> dict[str, dict[str, Any]]:
    return {name: keys for name in names.split()}


# What the configuration classes of transformers 5.24 fill in where a config has no such key.
FILLED = {
    **_rows("gemma2", query_pre_attn_scalar=256, attn_logit_softcapping=50.0, sliding_window=4096),
    **_rows("gemma3_text gemma3", query_pre_attn_scalar=256, sliding_window=4096),
    **_rows("vaultgemma", query_pre_attn_scalar=256),
    **_rows("granite granitemoe granitemoeshared granitemoehybrid granite4_vision_text",
            attention_multiplier=1.0),
    **_rows("granite_swa granitemoe_swa", attention_multiplier=1.0, sliding_window=128),
    **_rows("gemma3n_text gemma3n gemma4_text gemma4", sliding_window=512),
    **_rows("mistral ministral olmo3 cohere2 exaone4 exaone_moe", sliding_window=4096),
    **_rows("gpt_oss", sliding_window=128), **_rows("afmoe", sliding_window=1024),
    **_rows("qwen2 qwen2_moe qwen3 qwen3_moe smollm3 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text "
            "qwen2_5_omni_text qwen2_5_omni_talker", use_sliding_window=False),
}


def _scale(e: Encoding) -> Iterator[str]:
    usual = f"1/sqrt({e.rope.dim}) = {e.rope.dim ** -0.5:.6g}"
    scalar, multiplier = _number(e, "query_pre_attn_scalar"), _number(e, "attention_multiplier")
    if scalar is not None and scalar > 0 and scalar != e.rope.dim:
        yield (f"query_pre_attn_scalar is {scalar:g} and not the width of a head: pass "
               f"scale={scalar:g}**-0.5 = {scalar ** -0.5:.6g} to pe.attention, whose default is {usual}.")
    if multiplier is not None and not np.isclose(multiplier, e.rope.dim ** -0.5, rtol=1e-6):
        yield (f"attention_multiplier is the scale of this model: pass scale={multiplier:.10g} to "
               f"pe.attention, whose default is {usual}.")


def _softcap(e: Encoding) -> Iterator[str]:
    cap = _number(e, "attn_logit_softcapping")
    if cap:
        yield (f"scores are squashed, {cap:g} tanh(score / {cap:g}), before the mask "
               f"(attn_logit_softcapping): pass softcap={cap:g} to pe.attention.")


def _window(e: Encoding) -> Iterator[str]:
    width = _number(e, "sliding_window")
    if not width or width < 1 or not _given(e, "use_sliding_window", True):
        return
    types = e.config.get("layer_types")
    types = types if isinstance(types, list) else []
    sliding = sum(each == "sliding_attention" for each in types)
    if e.layer_type not in (None, "sliding_attention") or (types and not sliding):
        return
    which = "these layers slide" if e.layer_type else "layers that slide are meant"
    which = f"{sliding} of {len(types)} layers slide" if sliding and not e.layer_type else which
    yield (f"{which} (sliding_window): pass window={width:g}, causal=True to pe.attention, so that a query "
           f"sees itself and the {width - 1:g} rows before it.")


def _given(e: Encoding, key: str, default: Any = None) -> Any:
    return e.config.get(key, FILLED.get(e.rope.provenance.family, {}).get(key, default))


def _number(e: Encoding, key: str) -> float | None:
    value = _given(e, key)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    return value if usable else None


SCORES = (_scale, _softcap, _window)
