"""`Rope.from_hf`: a Hugging Face config.json, read strictly; what it leaves out is in the table of models."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import scaling as scalings
from .._scalars import amount, integer, positive, shown
from .defaults import CONTEXTS, HEADS, OWN, WIDTHS, defaults_of
from .frequencies import geometric_freqs
from .layouts import canonical_layout
from .models import FAMILIES, VISION, Family, Layer, Vision
from .parameters import ORIGINAL, TRAINED, TYPES, first_given, flag, rope_parameters
from .provenance import ROFORMER, Provenance
from .rope import Rope, described
from .unturned import refuse_what_does_not_turn

WIDEST = 2**20      # of a head: a slip, or an attack on memory, if it is wider
PARTS = ("thinker_config", "text_config", "language_config", "llm_config")


def read(config: Any, layer_type: str | None, layout: str | None, seq_len: int | None) -> Rope:
    """Return the Rope of a config; see `Rope.from_hf`."""
    config, model = text_model(config)
    layout = None if layout is None else canonical_layout(layout)
    seq_len = None if seq_len is None else integer("seq_len", seq_len, 1)
    if layer_type is not None and not isinstance(layer_type, str):
        raise TypeError(f'layer_type must be a string, such as "full_attention"; got {shown(layer_type)}')
    refuse_what_does_not_turn(config, model)
    config = {**config, **defaults_of(model, config)}
    if model in VISION:
        return _vision(VISION[model], config, layout, model, layer_type)
    family = _family(model, layout)
    given, layer = rope_parameters(config, family, layer_type)
    base = given["rope_theta"]
    dim, width, offset = _shape(config, family, given, layer)
    try:
        scaling = _scaling(given, config, family, seq_len)
        unscaled = geometric_freqs(width, base)
        freqs = unscaled if scaling is None else scaling.scale(unscaled, base)
    except (TypeError, ValueError) as error:
        raise type(error)(f"rope_type {given['rope_type']!r}: {error}") from None
    axes = _axes(given, family, width // 2)
    interleave = flag("rope_interleave", config)
    if layout is None:
        asked = None if family.head != "mla" else interleave
        layout = family.layout if asked is None else "interleaved" if asked else "half"
    formula = f"w_l = base^(-2l/{width}), base {base:.10g}" + ("" if scaling is None else f", {scaling!r}")
    formula += ", turned by -p w in the model: apply it with inverse=True" if family.inverse else ""
    formula += (", and queries times 1 + llama_4_scaling_beta ln(1 + floor(p / L0)), which is no rotation: "
                "do it beside") if family.tempered else ""
    return described(
        dim, freqs * axes, layout=layout, rotary_offset=offset, base=base, scaling=scaling,
        unscaled=None if scaling is None else unscaled * axes,
        amplitude=1.0 if scaling is None else scaling.amplitude,
        softmax_scale=scaling.softmax_scale if scaling is not None and family.share else 1.0,
        origin=Provenance(model, formula, ROFORMER if scaling is None else scaling.paper))


def axes_of(mrope: str, sections: tuple[int, ...]) -> NDArray[np.intp]:
    """Return for each plane the axis that turns it: 0 for t, 1 for h, 2 for w.

    "chunked": a run of planes for each, in this order (Qwen2-VL). "interleaved": planes t h w t h w ...,
    until the sections of h and of w are used up, the rest t (Qwen3-VL). "alternating": h w h w ..., then t,
    with sections in the order h, w, t (Ernie 4.5 VL).
    """
    plane = np.arange(sum(sections))
    if mrope == "chunked":
        return np.repeat(np.arange(3), sections)
    if mrope == "alternating":
        return np.where(plane < sections[0] + sections[1], 1 + plane % 2, 0)
    limit = 3 * np.array([len(plane), *sections[1:]])
    return np.where(plane < limit[plane % 3], plane % 3, 0)


def text_model(config: Any) -> tuple[Mapping[str, Any], str]:
    """Return the config of the text model, and its model_type."""
    if not isinstance(config, Mapping):
        if isinstance(config, str | PathLike):
            raise TypeError(f"config must be a dict, and is the name of one; pass "
                            f"json.load(open({shown(str(config))}))")
        if not hasattr(config, "to_dict"):
            raise TypeError(f"config must be a dict, such as json.load gives, or have to_dict(); got "
                            f"{shown(config)} of type {type(config).__name__}")
        given, config = config, config.to_dict()
        if not isinstance(config, Mapping):
            raise TypeError(f"to_dict() of the config, of type {type(given).__name__}, gives {shown(config)}"
                            f"; expected a dict")
    model = _name(config)
    for _ in PARTS:                                             # no deeper, should one contain itself
        parts = [config[part] for part in PARTS if isinstance(config.get(part), Mapping)]
        config = parts[0] if parts else config
        known = [name for name in (f"{model}_text", model) if name in FAMILIES]
        model = _name(config) or (known[0] if known else model)
    if "patch_size" in config and f"{model}_vision" in VISION:  # a vision_config under its model's name
        model += "_vision"
    return {**config, "model_type": model}, model


def _name(config: Mapping[str, Any]) -> str:
    model = config.get("model_type")
    if model is not None and not isinstance(model, str):
        raise TypeError(f"model_type must be a string; got {shown(model)} of type {type(model).__name__}")
    return model or ""


def _family(model: str, layout: str | None) -> Family:
    if model in FAMILIES:
        return FAMILIES[model]
    if layout is not None:
        return Family(layout)
    known = [*FAMILIES, *VISION]
    near = difflib.get_close_matches(model, known, n=1)
    what = f"model_type {shown(model)} is not in the table of models" if model else "config has no model_type"
    hint = f"; did you mean {near[0]!r}? The" if near else "; the"
    raise ValueError(f'{what}{hint} layout stands in no config, so pass layout="half" (pairs l, l+L, as '
                     f'Llama) or layout="interleaved" (pairs 2l, 2l+1)')


def _shape(config: Mapping[str, Any], family: Family, given: Mapping[str, Any],
           layer: Layer | None) -> tuple[int, int, int]:
    """Return the head's width, the width that turns, and where that begins."""
    key, part = _part(config, family, given)
    if family.head == "mla":
        nope, turned = (_integer(config, key) for key in ("qk_nope_head_dim", "qk_rope_head_dim"))
        part = 1.0 if given["rope_type"] == "proportional" else part
        of_whole = int((nope + turned) * part) == turned        # so Mistral 4 counts
        return nope + turned, _width(turned if of_whole else int(turned * part), "qk_rope_head_dim"), nope
    dim = _head(config) if layer is None or layer.head_dim is None else _own_head(config, layer.head_dim)
    if given["rope_type"] == "proportional":
        return dim, _width(dim, "head_dim"), 0
    width = config.get("rotary_dim") if "partial_rotary_factor" not in given else None
    width = int(dim * part) if width is None else integer("rotary_dim", width, 1, dim)
    _width(width, f"head_dim {dim} times {key} {part:g}")
    return dim, width, dim - width if family.head == "tail" else 0


def _part(config: Mapping[str, Any], family: Family, given: Mapping[str, Any]) -> tuple[str, float]:
    """Return the part of a head that turns, or of its planes, and the key that says so."""
    name = "partial_rotary_factor"
    key, part = first_given((name, given), (name, config), ("rotary_pct", config),
                            default=(name, family.part))
    part = positive(key, part)
    if part > 1:
        raise ValueError(f"{key} must be at most 1; got {part:g}")
    return key, part


def _head(config: Mapping[str, Any]) -> int:
    key, own = first_given(*((key, config) for key in OWN), default=("head_dim", None))
    if own is not None:
        return integer(key, own, 1)
    (whole, width), (heads, count) = (first_given(*((key, config) for key in keys), default=(keys[0], None))
                                      for keys in (WIDTHS, HEADS))
    if width is None or count is None:
        raise ValueError('config lacks head_dim, or hidden_size and num_attention_heads; write "head_dim": '
                         '<width of a head: rows of k_proj.weight / num_key_value_heads>')
    return integer(whole, width, 1) // integer(heads, count, 1)


def _own_head(config: Mapping[str, Any], default: int) -> int:
    """Return the width of the heads of a layer type that has wider ones, under its old key or its new one."""
    if config.get("global_head_dim") is not None:
        return _integer(config, "global_head_dim")
    layers = config.get("per_layer_config")
    layers = [*layers.values()] if isinstance(layers, Mapping) else []
    wide = [each for each in layers if isinstance(each, Mapping) and "head_dim" in each]
    widths = {_integer(each, "head_dim") for each in wide}
    if len(widths) > 1:
        raise ValueError(f"per_layer_config has heads of several widths, {sorted(widths)}; write "
                         f'"global_head_dim": {max(widths)}')
    return widths.pop() if widths else default


def _integer(config: Mapping[str, Any], key: str) -> int:
    if config.get(key) is None:
        raise ValueError(f"config lacks {key}, which this model needs for the width of its heads")
    return integer(key, config[key], 1)


def _width(width: int, what: str) -> int:
    if width < 2 or width % 2:
        raise ValueError(f"{what} gives {amount(width, 'coordinate')} to turn; expected an even number from "
                         f"2 on")
    if width > WIDEST:
        raise ValueError(f"{what} gives {width} coordinates to turn; expected at most {WIDEST}")
    return width


def _scaling(given: Mapping[str, Any], config: Mapping[str, Any], family: Family,
             seq_len: int | None) -> scalings.Scaling | None:
    kind = given["rope_type"]
    key, longest = first_given(*((key, config) for key in CONTEXTS), default=(CONTEXTS[0], None))
    if longest is not None:                                     # also where no scaling reads it
        longest = integer(key, longest, 1)
    keywords = {name: given[name] for needs in TYPES[kind] for name in needs if name in given}
    if kind in TRAINED:
        _, keywords[ORIGINAL] = first_given((ORIGINAL, config), (ORIGINAL, given),
                                            default=(ORIGINAL, longest))
        if keywords[ORIGINAL] is None:
            raise ValueError(f"config lacks {ORIGINAL}, the context of training")
    if kind == "yarn":
        return scalings.yarn(**keywords)
    if kind == "llama3":
        return scalings.llama3(**keywords)
    if kind == "longrope":
        return scalings.longrope(**keywords, max_position_embeddings=longest, seq_len=seq_len)
    if kind == "linear":
        return scalings.linear(given["factor"])
    if kind == "proportional":
        return scalings.proportional(_part(config, family, given)[1], given.get("factor", 1.0))
    if kind == "dynamic" and "alpha" in given:
        return scalings.ntk(positive("alpha", given["alpha"]))
    if kind == "dynamic":
        if longest is None:
            raise ValueError("config lacks max_position_embeddings, up to which nothing is scaled")
        return scalings.dynamic_ntk(given["factor"], longest, seq_len)
    return None


def _axes(given: Mapping[str, Any], family: Family, planes: int) -> NDArray[np.float64]:
    """Return 1 where an axis turns a plane and 0 elsewhere, (n_axes, L)."""
    sections, mrope, interleaved = given.get("mrope_section"), family.mrope, flag("mrope_interleaved", given)
    if sections is None:
        if not mrope:
            return np.ones((1, planes))
        sections = family.sections
    if interleaved is not None:
        mrope = "interleaved" if interleaved else "chunked"
    if not isinstance(sections, list | tuple) or len(sections) != 3:
        raise ValueError(f"mrope_section must be three counts, planes for t, h and w; got {shown(sections)}")
    sections = tuple(integer("mrope_section", count, 0) for count in sections)
    if sum(sections) != planes:
        raise ValueError(f"mrope_section {list(sections)} counts {amount(sum(sections), 'plane')}; expected "
                         f"L = {planes}")
    return (axes_of(mrope or "chunked", sections) == np.arange(3)[:, None]).astype(np.float64)


def _vision(tower: Vision, config: Mapping[str, Any], layout: str | None, model: str,
            layer_type: str | None) -> Rope:
    from .. import presets

    given, _ = rope_parameters(config, Family("half", tower.base), layer_type)
    part = "partial_rotary_factor"
    inside = ((key, given) for key in (part, "mrope_section", "mrope_interleaved"))
    beside = ((key, config) for key in (part, "rotary_pct", "rotary_dim"))
    key, value = first_given(*inside, *beside, default=("", None))
    if key:
        raise ValueError(f"config has {key} {shown(value)}, which vision towers do not read; leave it out")
    if given["rope_type"] not in ("default", "axial"):
        raise ValueError(f"rope_type {given['rope_type']!r} is not one that vision towers have; expected "
                         f"'default' or 'axial'")
    dim = config.get("head_dim")
    if dim is None:
        dim = _integer(config, tower.width)
        for key in tower.over:
            dim //= _integer(config, key)
    rope = getattr(presets, tower.preset)(integer("head_dim", dim, 1), base=given["rope_theta"])
    origin = Provenance(model, rope.provenance.formula, rope.provenance.paper)
    return described(rope.dim, rope.freqs, layout=layout or rope.layout, base=rope.base, origin=origin)
