"""Reads a config.json into its encodings: each a `Rope`, with what the config says around it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import scaling
from ..llama2c import InputError
from ..rope import Rope
from ..rope.defaults import defaults_of
from ..rope.huggingface import text_model
from ..rope.models import FAMILIES

FARTHEST = 2**53        # the largest position
STDIN = "-"             # stands for standard input


@dataclass(frozen=True)
class Encoding:
    """One rotary encoding of a config: that of all its layers, or of one layer type.

    Attributes
    ----------
    name : str
        The file, and the layer type if there are several.
    rope : Rope
    config : dict
        The config of the text model, with what its class fills in.
    filled : dict
        What the class fills in alone.
    settings : dict
        Its rotary settings, those of the layer type, as they stand there.
    context : int or None
        How many positions are in use.
    source : str
        What told.
    layer_type : str or None
    layout_source : str
        What told the layout, which no config holds.
    """

    name: str
    rope: Rope
    config: dict[str, Any]
    filled: dict[str, Any]
    settings: dict[str, Any]
    context: int | None
    source: str
    layer_type: str | None
    layout_source: str


def read(path: str, layer_type: str | None = None, layout: str | None = None, seq_len: int | None = None,
         context: int | None = None, *, name: str | None = None, compared: bool = False) -> list[Encoding]:
    """Read the encodings of a config.json: of every layer type, or of the one that is asked for.

    One that is compared, under this name, may have one rope for all layers in place of the type.

    Raises
    ------
    InputError
        The file holds no JSON object, or none that describes a rotary encoding.
    OSError
        It cannot be read.
    """
    if path == STDIN and sys.stdin is None:
        raise InputError("standard input is closed")
    try:
        given = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        path = "standard input" if path == STDIN else path
        config = json.loads(given.decode("utf-8-sig"))          # with a byte order mark too
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no JSON: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} holds no config: expected a JSON object, got {type(config).__name__}")
    try:
        text, model = text_model(config)
    except TypeError as error:
        raise InputError(f"{path}: {error}") from None
    filled = defaults_of(model, text)
    text = {**text, **filled}
    settings = text.get("rope_parameters") or text.get("rope_scaling")
    settings = settings if isinstance(settings, dict) else {}
    types: list[str | None] = [*_layer_types(model, settings)] or [None]
    if layer_type and not (compared and types == [None]):
        types = [layer_type]
    try:
        ropes = [Rope.from_hf(config, layer_type=each, layout=layout, seq_len=seq_len) for each in types]
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: {_as_option(str(error))}") from None
    name, told = name or Path(path).name, "--layout" if layout else f"the code of {model} in transformers"
    encodings = [Encoding(name if each is None else f"{name}, {each}", rope, text, filled,
                          _own(settings, each), *_context(text, rope, seq_len, context), each, told)
                 for each, rope in zip(types, ropes, strict=True)]
    for encoding in encodings:
        if encoding.context is not None and encoding.context > FARTHEST:
            raise InputError(f"{path}: a context of {encoding.context:.3e} positions ({encoding.source}) is "
                             f"beyond the largest position, 2^53")
    return encodings


def _as_option(message):
    """Name the options of the command line where a message names keywords of `Rope.from_hf`."""
    return re.sub(r'layout="(\w+)"', r"--layout \1", message).replace("layer_type=,", "--layer-type,")


def _layer_types(model, settings):
    nested = [name for name, value in settings.items() if isinstance(value, dict)]
    return nested or (list(FAMILIES[model].layers) if model in FAMILIES else [])


def _own(settings, layer_type):
    own = settings.get(layer_type)
    return own if isinstance(own, dict) else settings


def _context(config: dict[str, Any], rope: Rope, seq_len: int | None, context: int | None
             ) -> tuple[int | None, str]:
    """How many positions are in use, and what says so."""
    if context is not None:
        return context, "--context"
    stated, scaled = config.get("max_position_embeddings"), rope.scaling
    if not (isinstance(stated, int) and stated > 1):
        return seq_len, "--seq-len" if seq_len else "unknown"
    if isinstance(scaled, scaling.yarn) and scaled.original_max_position_embeddings == stated:
        return round(scaled.context), "factor times context of training"
    return (seq_len, "--seq-len") if seq_len and seq_len > stated else (stated, "max_position_embeddings")
