"""The instruction sets a test runs over: all that this processor has, or the one that PE_ISA forces."""

import os

import pytest

import pe
from pe import _core

NAMES = ["scalar", "avx2", "avx512"]
ISAS = [pe.isa()] if os.environ.get("PE_ISA") else NAMES[: NAMES.index(_core.config()["best_isa"]) + 1]

each_isa = pytest.mark.parametrize("isa", ISAS, indirect=True)
