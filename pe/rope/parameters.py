"""The rope of a config.json: one flat dict of parameters for one layer type, every key of it known."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from .._scalars import positive, shown
from .beside import base_of_layers, check_keys, check_same
from .models import LISTED, STILL, Family, Layer

ORIGINAL = "original_max_position_embeddings"
TRAINED = ("yarn", "longrope", "llama3")                        # the types that read it
# The keys a rope type understands, the first of them required.
TYPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "axial": ((), ()),
    "linear": (("factor",), ()),
    "dynamic": (("factor",), ("alpha",)),
    "yarn": (("factor",), ("original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
                           "mscale", "mscale_all_dim", "truncate")),
    "longrope": (("short_factor", "long_factor"), ("original_max_position_embeddings", "factor",
                                                   "attention_factor", "short_mscale", "long_mscale")),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor"), ("original_max_position_embeddings",)),
    "proportional": ((), ("factor",)),
}
ALIASES = {"su": "longrope", "mrope": "default"}
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
# Keys that shipped configs carry and no model reads: in which types (None: all).
HARMLESS: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(("finetuned", "max_position_embeddings")),
    "original_max_position_embeddings": ("default", "linear", "dynamic"),
    **dict.fromkeys(("beta_fast", "beta_slow", "mscale", "mscale_all_dim"), ("dynamic",)),
}
_KNOWN = {*COMMON, *HARMLESS, *(key for required, others in TYPES.values() for key in required + others)}
_EXAMPLES = {"factor": "4.0", "low_freq_factor": "1.0", "high_freq_factor": "4.0", "short_factor": "[...]",
             "long_factor": "[...]"}


def rope_parameters(config: Mapping[str, Any], family: Family, layer_type: str | None
                    ) -> tuple[dict[str, Any], Layer | None]:
    """Return the parameters of a layer type, with a canonical rope_type and a rope_theta, and that type."""
    check_keys(config, _KNOWN)
    name, given = _spelling(config)
    if family.tempered:
        given.pop("llama_4_scaling_beta", None)
    nested = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    if nested and len(nested) < len(given):
        odd = next(key for key in given if key not in nested)
        raise ValueError(f"{name} mixes layer types ({', '.join(nested)}) with {odd!r}, which belongs inside "
                         f"one")
    if nested:
        layer_type = _pick(name, layer_type, [*nested])
        given = dict(nested[layer_type])
        name = f"{name}[{layer_type!r}]"
    elif family.layers:
        layer_type = _pick("the config", layer_type, [*family.layers])
        given = _shared_out(name, given, config, family.layers[layer_type])
    elif layer_type is not None and layer_type not in _layer_types(config):
        raise ValueError(f"layer_type is {shown(layer_type)}, but this config has one rope for all layers; "
                         f"leave it out")
    elif layer_type == "full_attention" and config["model_type"] in STILL and config.get("sliding_window", 1):
        raise ValueError(f"layer_type is 'full_attention', and these layers of {config['model_type']} turn "
                         f"nothing; 'sliding_attention' has the rope")
    given = {key: value for key, value in given.items() if value is not None}   # null stands for not given
    layer = family.layers.get(layer_type or "")
    given = _checked(name, given, config)
    beside = "rope_theta" if layer is None else layer.base_key
    default = (family if layer is None else layer).base
    if not nested:
        for key in (beside, "rotary_emb_base"):
            check_same(key, config.get(key), name, "rope_theta", given.get("rope_theta"))
    listed = base_of_layers(config)
    if config["model_type"] not in LISTED:
        check_same("layer_rope_theta", listed, name, "rope_theta", given.get("rope_theta"))
        check_same("layer_rope_theta", listed, "it also", "rope_theta", config.get("rope_theta"))
    if given["rope_type"] in TRAINED:
        check_same(ORIGINAL, config.get(ORIGINAL), name, ORIGINAL, given.get(ORIGINAL))
    key, theta = first_given(("layer_rope_theta", {"layer_rope_theta": listed}), ("rope_theta", given),
                             (beside, config), ("rotary_emb_base", config), default=("rope_theta", default))
    theta = positive(key, theta)
    if theta < 1:
        raise ValueError(f"{key} must be at least 1; got {theta:g}")
    return {**given, "rope_theta": theta}, layer


def first_given(*places: tuple[str, Mapping[str, Any]], default: tuple[str, Any]) -> tuple[str, Any]:
    """Return the first key that a dict has, and its value; null stands for not given."""
    return next(((key, each[key]) for key, each in places if each.get(key) is not None), default)


def flag(key: str, each: Mapping[str, Any]) -> bool | None:
    """Return what a key says, true or false, or None if it is not given."""
    value = each.get(key)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{key} must be true or false; got {shown(value)} of type {type(value).__name__}")
    return value


def _layer_types(config: Mapping[str, Any]) -> Sequence[Any]:
    listed = config.get("layer_types")
    return listed if isinstance(listed, list | tuple) else ()


def _shared_out(name: str, given: dict[str, Any], config: Mapping[str, Any], layer: Layer) -> dict[str, Any]:
    """Return what one rope for the whole model, as old configs have it, says about a layer type."""
    if not given:
        return dict(layer.rope) if "rope_type" in layer.rope else {}
    kind = _checked(name, given, config)["rope_type"]
    return {} if not layer.scaled else {**layer.rope, **given} if kind == "yarn" else given


def _spelling(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the rope dict without its nulls, and the key it stands under: the old one or the new one."""
    found = {}
    for name in ("rope_scaling", "rope_parameters"):
        value = config.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{name} must be a dict; got {shown(value)} of type {type(value).__name__}")
        if value:
            found[name] = {key: each for key, each in value.items() if each is not None}
    old, new = ({("rope_type" if key == "type" else key): each for key, each in value.items()}
                for value in (found.get("rope_scaling", {}), found.get("rope_parameters", {})))
    if len(found) == 2 and any(key not in new or new[key] != each for key, each in old.items()):
        raise ValueError("config has both rope_scaling and rope_parameters, and they differ; keep the one "
                         "that the model was trained with")
    return next(reversed(found.items())) if found else ("rope_parameters", {})


def _pick(name: str, layer_type: str | None, there: list[str]) -> str:
    if layer_type is None and len(there) == 1:
        return there[0]
    if layer_type not in there:
        given = "" if layer_type is None else f"; got {shown(layer_type)}"
        raise ValueError(f"{name} has a rope for each layer type; pass layer_type=, one of "
                         f"{', '.join(map(repr, there))}{given}")
    return layer_type


def _type_of(name: str, given: Mapping[str, Any]) -> str:
    kinds = [given[key] for key in ("rope_type", "type") if given.get(key) is not None]
    for kind in kinds:
        if not isinstance(kind, str):
            raise TypeError(f"{name}: rope_type must be a string; got {shown(kind)}")
        if kind not in TYPES and kind not in ALIASES:
            near = difflib.get_close_matches(kind, TYPES, n=1)
            raise ValueError(f"{name}: rope_type {kind!r} is unknown"
                             f"{f'; did you mean {near[0]!r}?' if near else ';'} expected "
                             f"{', '.join(TYPES)}")
    kinds = [ALIASES.get(kind, kind) for kind in kinds]
    scaled = {kind for kind in kinds if kind != "default"}
    if len(scaled) > 1:
        raise ValueError(f"{name} has rope_type {kinds[0]!r} and type {kinds[1]!r}; keep the right one")
    return kinds[0] if kinds else "default"


def _checked(name: str, given: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    if "mrope_interleaved" in given:                            # which Qwen3-Omni writes twice
        given = {key: value for key, value in given.items() if key != "interleaved"}
    for key in given:
        if key not in _KNOWN:
            near = difflib.get_close_matches(str(key), sorted(_KNOWN), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(_KNOWN))}"
            raise ValueError(f"{name} has the unknown key {key!r}; {hint}")
    kind = _type_of(name, given)
    if kind == "yarn" and config.get("model_type") == "phi3":
        kind = "longrope"                                       # as early Phi-3 configs spell it
    required, others = TYPES[kind]
    if kind == "dynamic" and "alpha" in given:
        required, others = (), ("alpha", "factor")
    for key in given:
        harmless = key in HARMLESS and kind in (HARMLESS[key] or TYPES)
        if key not in (*COMMON, *required, *others) and not harmless:
            wanted = [t for t, (needs, more) in TYPES.items() if key in needs + more]
            raise ValueError(f"{name} has {key!r}, which rope_type {kind!r} does not read; write "
                             f'"rope_type": {" or ".join(map(repr, wanted))}, or leave {key!r} out')
    for key in required:
        if key not in given:
            raise ValueError(f"{name} of rope_type {kind!r} lacks {key!r}; write \"{key}\": {_EXAMPLES[key]}")
    return {**given, "rope_type": kind}
