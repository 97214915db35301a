"""Context extension: what a model does to its frequencies to read further than it was trained.

Each scaling is a frozen, comparable record with the parameter names and defaults of its publication:
``Rope(dim, base, scaling=pe.scaling.yarn(4.0, 32768))``. w_l is the frequency of plane l before scaling, d =
2L the rotated width, s the factor, L0 the context of training.

>>> import pe
>>> round(pe.Rope(128, 1e6, scaling=pe.scaling.yarn(4.0, 32768)).amplitude, 6)
1.138629
"""

from .._keywords import unknown_name as _unknown_name
from .bands import llama3, yarn
from .common import Scaling
from .interpolation import dynamic_ntk, linear, ntk, proportional
from .lists import longrope

__all__ = ["Scaling", "dynamic_ntk", "linear", "llama3", "longrope", "ntk", "proportional", "yarn"]


def __getattr__(name):
    raise _unknown_name(__name__, name, __all__)
