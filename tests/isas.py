"""The instruction sets a test runs over: all that this processor has, or the one that PE_ISA forces."""

import os

import pytest

import pe
from pe import _core

NAMES = ["scalar", "avx2", "avx512", "avx512bf16"]
ISAS = [pe.isa()] if os.environ.get("PE_ISA") else NAMES[: NAMES.index(_core.config()["best_isa"]) + 1]

each_isa = pytest.mark.parametrize("isa", ISAS, indirect=True)


def weight_rounding(dtype):
    """How wrong softmax weights may be, relative to themselves: products of pairs round them to bfloat16."""
    return 2.0**-8 if pe.isa() == "avx512bf16" and dtype.name == "bfloat16" else 0.0
