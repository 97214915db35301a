"""The fixtures that several test modules share."""

import gc

import chromium
import pytest

from pe import _core


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what runs under every instruction set already: `-m "not each_isa"` is the rest."""
    for item in items:
        if "isa" in getattr(item, "fixturenames", ()):
            item.add_marker("each_isa")


def pytest_collection_finish():
    """Let the collector pass over the tests themselves: walking some ten thousand takes it seconds in all."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def isa(request):
    """Switch the core to the instruction set of the parameter, and back."""
    before = _core.isa()
    _core._set_isa(request.param)
    yield request.param
    _core._set_isa(before)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    with chromium.launch() as started:
        yield started


@pytest.fixture
def open_page(browser, tmp_path):
    """Open HTML from disk, with the network cut."""
    with chromium.offline(browser, tmp_path) as opener:
        yield opener
