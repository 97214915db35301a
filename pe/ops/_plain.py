"""What the ops share: the entry in C that takes plain calls, and the step down into the C core."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .. import _check, _core
from .._keywords import explain_keywords
from ..rope import LAYOUTS, Rope
from ..state import RetentionState

_Op = TypeVar("_Op", bound=Callable[..., Any])
# What an entry asks Python for, in the order of `pe_python` in csrc/py_entry.h.
_PYTHON = (Rope, operator.attrgetter("_plan", "dim", "softmax_scale"), LAYOUTS, _check.plan_1d,
           _check.plan_2d, _check.rate_of, RetentionState)
# Not functools' own choice, which in later Pythons leaves annotations to an attribute that functions have.
_SHOWN = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


def plain_first(op: _Op) -> _Op:
    """Decorate an op so that its entry in C takes a plain call, and the function hears of the others alone.

    `__wrapped__` is the way of these others, which any call may go.
    """
    checked = explain_keywords(op)
    parameters = inspect.signature(op).parameters.values()
    entry = _core.Op(
        checked, tuple(each.name for each in parameters),
        tuple(... if each.default is each.empty else each.default for each in parameters),
        sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters), _PYTHON)
    return cast(_Op, functools.update_wrapper(entry, checked, _SHOWN))


def run(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    result = kernel(*arguments)
    if result is NotImplemented:
        raise RuntimeError(f"{kernel.__name__} refused arguments that pe._check had passed, a defect of pe "
                           f"and not of the call; please report it with the shapes and dtypes")
    return result
