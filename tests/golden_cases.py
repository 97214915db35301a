"""Reads the golden numbers of tests/golden/ (its README says where they come from)."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Case:
    """One call, op(*args, **kwargs): what it must give, and its whole entry in the index (`info`)."""

    file: str
    name: str
    op: str
    args: dict
    kwargs: dict
    expect: dict
    peer_out: dict
    info: dict

    def __str__(self):
        return f"{self.file}-{self.name}"

    @property
    def keywords(self):
        return {*self.args, *self.kwargs}


@cache
def arrays(file):
    """Every array of a file, by its key."""
    with np.load(GOLDEN / f"{file}.npz", allow_pickle=False) as z:
        return {name: z[name] for name in z.files}


def op_cases(file):
    """The cases of an attention_* or bias_* file, which carry an index."""
    stored = arrays(file)
    for info in json.loads(str(stored["index"])):
        def pick(group, info=info):
            return {name: _pick(stored, spec, info.get("bits") if group != "expect" else None)
                    for name, spec in info[group].items()}
        yield Case(file, info["name"], info["op"], pick("args"), dict(info["kwargs"]), pick("expect"),
                   pick("peer_out"), info)


def rope_cases(file):
    """The cases of a rope_* file, as (name, namespace of its arrays; scalars as Python values)."""
    groups = {}
    for key, value in arrays(file).items():
        name, _, field = key.partition("/")
        if field:
            groups.setdefault(name, {})[field] = value.item() if value.ndim == 0 else value
    return [(name, SimpleNamespace(**fields)) for name, fields in groups.items()]


def _pick(stored, spec, bits):
    a = stored[spec["array"]]
    if "lead" in spec:                                      # a leading corner: tries strided operands too
        a = a[(..., *map(slice, spec["lead"]))]
    if a.dtype == np.uint16 and bits is not None:           # bit patterns of 16-bit floats
        a = a.view(np.float16 if bits == "f16" else bfloat16())
    return a


def bfloat16():
    """The bfloat16 dtype (ml_dtypes is a test dependency)."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
