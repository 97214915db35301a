"""`Rope`, one object that describes a rotary encoding, and what it is made of."""

from .frequencies import MAX_AXES, checked_freqs, geometric_freqs
from .layouts import LAYOUTS, canonical_layout
from .provenance import Provenance
from .rope import Rope
from .tables import build_rope_cache

__all__ = ["LAYOUTS", "MAX_AXES", "Provenance", "Rope", "build_rope_cache", "canonical_layout",
           "checked_freqs", "geometric_freqs"]
