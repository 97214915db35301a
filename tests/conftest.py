"""The fixtures that several test modules share."""

import chromium
import pytest

from pe import _core


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
