"""The other host of a figure: a widget whose state Python and the reader share.

The browser runs the same module as a page does. Each key of the state is a trait of that name. anywidget is
needed here and nowhere else, and imported when a widget is made.
"""

from __future__ import annotations

from pe.explore.bundle import module
from pe.explore.host import stylesheet


def widget(explorer):
    """Make the widget of an explorer; ``explorer.state`` follows it."""
    import anywidget  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import traitlets  # type: ignore[import-not-found, import-untyped, unused-ignore]

    class Bounded(traitlets.Float):
        """A number that its slider can show."""

        def validate(self, obj, value):
            value = super().validate(obj, float(value) if hasattr(value, "__float__") else value)
            low, high, _ = explorer.config["limits"][self.name]
            if not low <= value <= high:
                raise traitlets.TraitError(f"{self.name} must lie in [{low:g}, {high:g}], got {value}")
            return value

    class ExplorerWidget(anywidget.AnyWidget):
        """An interactive figure whose traits are the values of its controls."""

        _esm = module(explorer.module)
        config = traitlets.Dict(explorer.config | {"css": stylesheet()}).tag(sync=True)

        def __repr__(self):
            return repr(explorer)

        def _repr_mimebundle_(self, **kwargs):
            # the view comes first; the rest stays where no kernel knows it any more
            data, metadata = explorer._repr_mimebundle_()
            view, more = super()._repr_mimebundle_(**kwargs)
            return data | view | {"text/plain": repr(self)}, metadata | more

    traits = {key: Bounded(value).tag(sync=True) for key, value in explorer.state.items()}
    made = type("ExplorerWidget", (ExplorerWidget,), traits)()
    made.observe(lambda change: explorer.state.update({change["name"]: change["new"]}), list(explorer.state))
    return made
