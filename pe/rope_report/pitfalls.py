"""What goes wrong with the rotary encoding of a config, in sentences with the numbers of that very config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .. import scaling
from .._scalars import amount
from ..rope.models import FAMILIES
from .encoding import Encoding
from .reach import REACH
from .scores import SCORES

OTHER = {"half": "interleaved", "interleaved": "half"}


def pitfalls(encoding: Encoding) -> list[str]:
    """Return a sentence or two about everything in this encoding that is easy to get wrong."""
    checks = (_layout, _direction, _part, _still, _axes, _amplitude, _softmax, _truncate, _mscale, _step,
              _alpha, *SCORES, *REACH)
    return [sentence for check in checks for sentence in check(encoding)]


def _layout(e: Encoding) -> Iterator[str]:
    rope, other = e.rope, OTHER[e.rope.layout]
    pairs = f"l and l + {rope.rotary_dim // 2}" if rope.layout == "half" else "2l and 2l + 1"
    behind = f" behind the first {rope.rotary_offset}" if rope.rotary_offset else ""
    part = "" if rope.rotary_dim == rope.dim else f", rotary_dim={rope.rotary_dim}"
    part += f", rotary_offset={rope.rotary_offset}" if rope.rotary_offset else ""
    yield (f"plane l turns coordinates {pairs}{behind} (layout {rope.layout}). Weights made for the {other} "
           f"layout load without an error and give other scores; convert the rows of W_q and W_k with "
           f'pe.convert_layout(w, "{other}", "{rope.layout}", axis=0, head_dim={rope.dim}{part}).')


def _direction(e: Encoding) -> Iterator[str]:
    family = FAMILIES.get(e.rope.provenance.family)
    if family and family.inverse:
        yield ("the model turns by -p w, clockwise. Neither norms nor scores at gap 0 show it: pass "
               "inverse=True to pe.apply_rope.")


def _part(e: Encoding) -> Iterator[str]:
    rope = e.rope
    if rope.rotary_dim < rope.dim:
        first, last = rope.rotary_offset, rope.rotary_offset + rope.rotary_dim - 1
        yield (f"only coordinates {first} to {last} of a head of {rope.dim} turn; the other "
               f"{rope.dim - rope.rotary_dim} are copied. Exponents are counted over {rope.rotary_dim}, "
               f"not over {rope.dim}.")


def _still(e: Encoding) -> Iterator[str]:
    still = int((e.rope.freqs == 0).all(axis=0).sum())
    if still:
        yield (f"{still} of {amount(e.rope.freqs.shape[1], 'plane')} stand{'s' if still == 1 else ''} still "
               f"(frequency 0). Pairs and exponents are counted over all {e.rope.rotary_dim} coordinates: "
               f"this is no rotation of the first {e.rope.rotary_dim - 2 * still}.")


def _axes(e: Encoding) -> Iterator[str]:
    if len(e.rope.freqs) > 1:
        planes = ", ".join(str(np.count_nonzero(row)) for row in e.rope.freqs)
        yield (f"positions have {len(e.rope.freqs)} coordinates, which drive {planes} planes, in the order "
               f"of the table. Swapped axes cannot be seen on square images: test with height unlike width.")


def _amplitude(e: Encoding) -> Iterator[str]:
    a = e.rope.amplitude
    if a != 1:
        yield (f"cos and sin are multiplied by {a:.6g} (the attention factor), so scores gain its square, "
               f"{a * a:.6g}. It belongs into the tables or into the softmax scale, never into both.")


def _softmax(e: Encoding) -> Iterator[str]:
    s = e.rope.softmax_scale
    if s != 1:
        yield (f"the softmax scale is multiplied by {s:.6g} (mscale_all_dim), which no table of cos and sin "
               f"shows. pe.attention(rope=) does it; with tables pass scale={s / np.sqrt(e.rope.dim):.6g}.")


def _truncate(e: Encoding) -> Iterator[str]:
    scaled = e.rope.scaling
    if isinstance(scaled, scaling.yarn) and not scaled.truncate:
        rounded = replace(scaled, truncate=True).scale(e.rope.unscaled, e.rope.base)
        change = 100 * np.abs(rounded / e.rope.freqs - 1).max()
        nested = " transformers 5 is one, with settings inside a layer type." if e.layer_type else ""
        yield (f"truncate is false. A reader that rounds the ends of the ramp all the same changes "
               f"frequencies by up to {change:.2g} %.{nested}")


def _mscale(e: Encoding) -> Iterator[str]:
    scaled = e.rope.scaling
    if isinstance(scaled, scaling.yarn) and (scaled.mscale is None) != (scaled.mscale_all_dim is None):
        given, missing = ("mscale", "mscale_all_dim") if scaled.mscale else ("mscale_all_dim", "mscale")
        yield (f"{given} stands without {missing}, and so leaves the amplitude at 0.1 ln {scaled.factor:g} + "
               f"1 = {0.1 * np.log(scaled.factor) + 1:.6g}.")


def _step(e: Encoding) -> Iterator[str]:
    scaled = e.rope.scaling
    if isinstance(scaled, scaling.llama3) and scaled.low_freq_factor == scaled.high_freq_factor:
        edge = scaled.original_max_position_embeddings / scaled.low_freq_factor
        yield (f"low_freq_factor equals high_freq_factor: no plane is blended, frequencies drop by a factor "
               f"of {scaled.factor:g} at the wavelength {edge:g}. The published blend divides by zero here.")


def _alpha(e: Encoding) -> Iterator[str]:
    if isinstance(e.rope.scaling, scaling.ntk) and "alpha" in e.settings:
        yield (f"alpha={e.settings['alpha']:g} makes this dynamic type a fixed change of base, whatever the "
               f"length; its factor is not used.")
