"""The arrays and numbers that the figures draw and print, as pure functions: no plotting library."""

from pe.plot.data.dial import TurnData, turn
from pe.plot.data.dimmer import FadeData, fade
from pe.plot.data.planes import RopeData, rope
from pe.plot.data.portrait import (
    KINDS,
    LIMITS,
    PRESETS,
    START,
    GeneratorData,
    behaviour,
    directions,
    eigenvalues,
    generator,
    invariants,
    transport_2x2,
)
from pe.plot.data.printed import MINUS, decimals, plain
from pe.plot.data.puck import SlideData, slide

__all__ = [
    "KINDS", "LIMITS", "MINUS", "PRESETS", "START", "FadeData", "GeneratorData", "RopeData", "SlideData",
    "TurnData", "behaviour", "decimals", "directions", "eigenvalues", "fade", "generator", "invariants",
    "plain", "rope", "slide", "transport_2x2", "turn",
]
