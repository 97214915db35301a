"""The one fixture that several test modules share."""

import pytest

from pe import _core


@pytest.fixture
def isa(request):
    """Switch the core to the instruction set of the parameter, and back."""
    before = _core.isa()
    _core._set_isa(request.param)
    yield request.param
    _core._set_isa(before)
