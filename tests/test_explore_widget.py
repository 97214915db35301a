"""`Explorer.widget`: the state as traits. What the browser does with them is in test_explore_jupyter.py."""

import numpy as np
import pytest

from pe import explore
from pe.explore.bundle import module


@pytest.fixture
def traitlets():
    pytest.importorskip("anywidget", reason="needs anywidget: pip install -e '.[widget]'")
    return pytest.importorskip("traitlets")


def test_the_traits_are_the_state_both_ways(traitlets):
    figure = explore.generator("slide")
    widget = figure.widget()
    assert figure.widget() is widget
    assert {key: getattr(widget, key) for key in figure.state} == figure.state
    heard = []
    widget.observe(lambda change: heard.append((change["old"], change["new"])), "u")
    widget.u = 2
    assert heard == [(1.2, 2.0)] and figure.state["u"] == 2.0
    assert figure.data().point.tolist() == [3.0, 1.0]
    widget.set_state({"a": -0.1, "d": -0.1, "u": 10})      # what the browser sends
    assert figure.describe() == explore.generator(X=[[-0.1, 1], [0, -0.1]], u=10).describe()
    assert repr(widget) == repr(figure)


def test_widgets_of_two_figures_are_separate(traitlets):
    one, other = explore.generator("turn").widget(), explore.generator("turn").widget()
    one.u = 3
    assert other.u == 0.8


@pytest.mark.parametrize("value", [np.float32(2.5), np.float64(2.5), np.int64(2), 2])
def test_numbers_of_numpy_are_numbers(traitlets, value):
    widget = explore.generator().widget()
    widget.u = value
    assert widget.u == float(value) and type(widget.u) is float


@pytest.mark.parametrize("value, message", [
    (21, r"u must lie in \[0, 20\], got 21.0"), (float("nan"), "got nan"), ("fast", "expected a float"),
    (None, "expected a float")])
def test_what_no_slider_could_show_is_refused(traitlets, value, message):
    figure = explore.generator("turn")
    with pytest.raises(traitlets.TraitError, match=message):
        figure.widget().u = value
    assert figure.state["u"] == 0.8


def test_the_front_end_gets_the_module_and_the_state(traitlets):
    figure = explore.generator("fade")
    sent = figure.widget().get_state()
    assert sent["_esm"] == module("generator")
    assert {key: sent[key] for key in figure.state} == figure.state
    assert sent["config"]["limits"]["u"] == (0.0, 20.0, 0.1) and "--turn:" in sent["config"]["css"]


def test_where_no_kernel_knows_the_widget_the_page_stays(traitlets):
    figure = explore.generator("turn")
    bundle, metadata = figure.widget()._repr_mimebundle_()
    view = bundle.pop("application/vnd.jupyter.widget-view+json")
    assert view["model_id"] == figure.widget().model_id
    assert (bundle, metadata) == figure._repr_mimebundle_()


def test_without_anywidget_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("pe.explore.explorer.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs anywidget: pip install "turn-fade-slide\[widget\]"'):
        explore.generator().widget()
