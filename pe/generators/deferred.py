"""An answer that is worked out when it is first looked at: a stack may have a hundred thousand of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from .classification import Classification

FIELDS = frozenset(field.name for field in fields(Classification))


class Deferred(Classification):
    """A Classification whose fields are computed, all at once, when one of them is asked for."""

    def __init__(self, answer_for: Callable[[np.ndarray], Classification], matrix: np.ndarray):
        self.__dict__["_question"] = (answer_for, matrix)

    def __getattr__(self, name):
        if name not in FIELDS or "_question" not in self.__dict__:
            raise AttributeError(f"a Classification has no attribute {name!r}")
        answer_for, matrix = self.__dict__["_question"]
        self.__dict__.update(answer_for(matrix).__dict__)
        del self.__dict__["_question"]
        return self.__dict__[name]

    def __reduce__(self):
        return Classification, tuple(getattr(self, field.name) for field in fields(Classification))
