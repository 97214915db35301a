"""Models that turn nothing: what marks the positions there, said before a config is read further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._scalars import shown
from .defaults import HEADS
from .models import FAMILIES

LEARNED = "it adds a learned vector for each position to the embeddings"
SINES = "it adds sines and cosines of the position to the embeddings, as pe.sinusoidal(positions, dim) does"
BUCKETS = "it adds a learned bias for each bucket of gaps to the scores: pe.attention(..., bias=)"
RELATIVE = "its scores have terms of their own for the gap: pe.attention(..., bias=)"
ORDERED = "it reads one row after the other, and needs no positions"
SLIDES = "it slides"

WITHOUT = {
    **dict.fromkeys(
        "bert roberta xlm-roberta camembert electra distilbert albert mobilebert gpt2 gpt_neo gpt_bigcode "
        "openai-gpt opt biogpt bart mbart blenderbot whisper vit deit clip clip_text_model siglip "
        "siglip_text_model".split(), LEARNED),
    **dict.fromkeys("xglm marian pegasus m2m_100 speech_to_text fsmt".split(), SINES),
    **dict.fromkeys("t5 mt5 umt5 longt5 switch_transformers mpnet".split(), BUCKETS),
    **dict.fromkeys("deberta deberta-v2 xlnet".split(), RELATIVE),
    **dict.fromkeys("mamba mamba2 falcon_mamba rwkv".split(), ORDERED),
    **dict.fromkeys(("bloom", "mpt"), SLIDES),
}


def refuse_what_does_not_turn(config: Mapping[str, Any], model: str) -> None:
    """Raise for a config that has no rotary encoding, or one that no key of it settles."""
    kind, how = config.get("position_embedding_type"), WITHOUT.get(model)
    if how == SLIDES or config.get("alibi") or config.get("use_alibi") or kind == "alibi":
        count = next((shown(config[key]) for key in HEADS if isinstance(config.get(key), int)), "n_heads")
        scaled = " / head_dim**0.5" if model == "falcon" else ""      # which adds the bias before it scales
        key = "use_alibi" if config.get("use_alibi") else "alibi"
        reason = f"model_type {model!r} has" if how == SLIDES else f'config has "{key}", so this model has'
        raise ValueError(f"{reason} no rotary encoding, it slides: pe.attention(..., "
                         f"alibi_slopes=pe.alibi_slopes({count}){scaled})")
    if how:
        raise ValueError(f"model_type {model!r} has no rotary encoding: {how}")
    if kind == "nope":
        raise ValueError('config has "position_embedding_type": "nope", so this model turns nothing')
    if model == "granitemoehybrid" and kind != "rope":
        raise ValueError(f"model_type {model!r} turns nothing unless position_embedding_type is 'rope'; got "
                         f"{shown(kind)}")
    # The code of models in the table does not read it: ModernBERT has "absolute", and turns.
    if model not in FAMILIES and kind not in (None, "rope", "rotary"):
        raise ValueError(f"config has position_embedding_type {shown(kind)}, which pe knows as no rotary "
                         f"encoding; expected 'rope' or 'rotary'")
    ratio = config.get("rope_ratio")
    if ratio not in (None, 1):
        raise ValueError(f"config has rope_ratio {shown(ratio)}, which some models multiply the base by and "
                         f"others divide positions by; write rope_theta (10000 * rope_ratio) or a linear "
                         f"rope_scaling in its place")
