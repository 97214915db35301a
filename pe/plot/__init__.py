"""Static figures drawn with matplotlib, and the pure functions (`pe.plot.data`) that give their numbers.

matplotlib is needed only when something is drawn. A figure is returned, never shown or closed, and neither
pyplot's state nor rcParams change.
"""

from pe.plot.portrait import GeneratorPlot, generator

__all__ = ["GeneratorPlot", "generator"]
