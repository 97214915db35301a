"""Pitfalls of reach: contexts that disagree, planes that never turn once, switches, and few bits far out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .. import scaling
from .._scalars import amount
from . import float_errors
from .encoding import Encoding


def _contexts(e: Encoding) -> Iterator[str]:
    scaled, stated = e.rope.scaling, e.config.get("max_position_embeddings")
    if e.context is None:
        yield "nothing here says how many positions are in use; --context N counts turns and errors for N."
        return
    if not isinstance(scaled, scaling.yarn | scaling.llama3):
        return
    original = scaled.original_max_position_embeddings
    extended = scaled.factor * original
    if stated == original != extended:
        yield (f"max_position_embeddings still says {stated}, the context of training, while factor "
               f"{scaled.factor:g} is meant for {extended:.10g}. A program that sizes caches by it stops at "
               f"{stated}.")
    elif stated is not None and extended != stated:
        yield (f"factor {scaled.factor:g} times original_max_position_embeddings {original} is "
               f"{extended:.10g}, but max_position_embeddings is {stated}. Frequencies follow the first two; "
               f"what the model was trained for, only its makers know.")
    if "original_max_position_embeddings" not in {**e.config, **e.settings}:
        yield (f"original_max_position_embeddings is missing, and {original}, max_position_embeddings, is "
               f"taken for it.")


def _turns(e: Encoding) -> Iterator[str]:
    if e.context is None or len(e.rope.freqs) > 1:
        return
    w, count = np.abs(e.rope.freqs[0]), e.rope.freqs.shape[1]
    incomplete = np.flatnonzero((w > 0) & (w * e.context < 2 * np.pi))
    if len(incomplete):
        slowest = np.degrees(w[incomplete].min() * e.context)
        one = len(incomplete) == 1
        yield (f"of {amount(count, 'plane')} {len(incomplete)}, from plane {incomplete[0]} on, "
               f"{'completes' if one else 'complete'} no turn in {e.context} positions (the slowest makes "
               f"{slowest:.3g} degrees). Beyond the context {'it reaches' if one else 'they reach'} angles "
               f"that training never showed.")


def _switch(e: Encoding) -> Iterator[str]:
    scaled = e.rope.scaling
    if isinstance(scaled, scaling.longrope):
        edge = scaled.original_max_position_embeddings
        chosen = f"the {'long' if scaled.long else 'short'} list"
        lengths, change = (edge, edge + 1), f"texts of more than {edge} positions take the long list"
    elif isinstance(scaled, scaling.dynamic_ntk):
        edge, chosen = scaled.max_position_embeddings, f"the base for {scaled.context}"
        lengths = edge, 2 * edge
        change = f"beyond {edge} positions every length has a base of its own"
    else:
        return
    short, long = (replace(scaled, seq_len=n).scale(e.rope.unscaled, e.rope.base) for n in lengths)
    apart = np.abs(short - long).max(axis=0) * edge
    yield (f"{change}. Keys cached before the change stay as they are: read in a text of {lengths[1]}, the "
           f"one at position {edge} is turned up to {apart.max():.3g} radians too far (plane "
           f"{apart.argmax()}; mean cosine over the planes {np.cos(apart).mean():.2f}). Choose once for a "
           f"cache, by --seq-len here and seq_len= in Python; this is {chosen}.")


def _float32(e: Encoding) -> Iterator[str]:
    if e.context is None:
        return
    last = e.context - 1
    error = float_errors.float32_angles(e.rope.freqs, last)
    own = e.rope.error_bound([last] * len(e.rope.freqs) if len(e.rope.freqs) > 1 else last, np.float32)
    if error:                           # one plane of frequency 1 has none
        yield (f"angles formed in float32 are off by {error:.2g} at position {last} (distance on the unit "
               f"circle). pe forms them in float64 and rounds float32 results to within {own:.1e}.")


def _few_bits(e: Encoding) -> Iterator[str]:
    half, brain = float_errors.table_rounding(e.rope.amplitude)
    yield (f"tables of cos and sin kept in float16 are off by up to {half:.2g}, in bfloat16 by up to "
           f"{brain:.2g}, at every position.")
    if e.context is None or len(e.rope.freqs) > 1:
        return
    last = e.context - 1
    if last > float_errors.BF16_WHOLE:
        error = float_errors.bfloat16_frequencies(e.rope.freqs, last)
        cast = (f"casting the whole module to bfloat16 rounds its frequencies too: off by {error:.2g} at "
                f"position {last}. ") if error else ""
        beyond = f", float16 to {float_errors.F16_WHOLE}" if last > float_errors.F16_WHOLE else ""
        inf = f" and ends at {float_errors.F16_LARGEST}" if last > float_errors.F16_LARGEST else ""
        yield (f"{cast}As a position, bfloat16 counts to {float_errors.BF16_WHOLE} without a "
               f"gap{beyond}{inf}.")


REACH = (_contexts, _turns, _switch, _float32, _few_bits)
