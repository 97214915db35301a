"""Static figures drawn with matplotlib, and the pure functions (`pe.plot.data`) that give their numbers.

matplotlib is needed only when something is drawn. A figure is returned, never shown or closed, and neither
pyplot's state nor rcParams change.
"""

from pe.plot.dial import turn
from pe.plot.dimmer import fade
from pe.plot.planes import rope
from pe.plot.portrait import generator
from pe.plot.puck import slide
from pe.plot.result import Plot

__all__ = ["Plot", "fade", "generator", "rope", "slide", "turn"]
