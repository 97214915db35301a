"""pe.generators as a whole: its names, and the examples of its documentation."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import pe
from pe import generators

MODULES = [module.name for module in pkgutil.iter_modules(generators.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    outcome = doctest.testmod(importlib.import_module(f"pe.generators.{name}"))
    assert outcome.failed == 0


def test_the_examples_are_many():
    assert "axes" in MODULES
    modules = [importlib.import_module(f"pe.generators.{name}") for name in MODULES]
    assert sum(doctest.testmod(module).attempted for module in modules) > 60


@pytest.mark.parametrize("name", generators.__all__)
def test_every_name_is_there_and_documented(name):
    value = getattr(generators, name)
    assert inspect.isclass(value) or not callable(value) or inspect.getdoc(value)


def test_names_at_the_top_level_are_the_same_objects():
    # pe.sinusoidal is the table, generators.sinusoidal the rotation of its rows
    shared = [name for name in pe.__all__ if name in generators.__all__ and name != "sinusoidal"]
    assert len(shared) > 10 and all(getattr(pe, name) is getattr(generators, name) for name in shared)
