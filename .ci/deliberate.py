"""Call one function of deliberate.c on a NumPy array: `sum` prints 3.0, the two mistakes end the process."""

import ctypes
import sys

import numpy as np

from pe import _core

core, name = ctypes.CDLL(_core.__file__), sys.argv[1]
function = getattr(core, f"deliberate_{name}")
function.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
function.restype = ctypes.c_int if name == "overflow" else ctypes.c_float
x = np.ones(3, np.int32 if name == "overflow" else np.float32)
print(function(x.ctypes.data, x.size))
