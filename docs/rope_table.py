"""Writes the tables of models into docs/rope.md, from what `pe.Rope.from_hf` knows."""

from pathlib import Path

from pe.rope.models import FAMILIES, VISION

TURNS = {"plain": "all", "tail": "the last {part:g}", "mla": "the last `qk_rope_head_dim`"}


def text_models():
    """Return a table of text models, one row for each convention."""
    rows = {}
    for name, family in FAMILIES.items():
        rows.setdefault(_cells(family), []).append(f"`{name}`")
    header = ["`model_type`", "layout", "coordinates that turn", "base, if the config has none", "besides"]
    return _table(header, [(", ".join(names), *cells) for cells, names in rows.items()])


def vision_models():
    """Return a table of vision towers and the presets they are."""
    return _table(["`model_type`", "preset", "base, if the config has none"],
                  [(f"`{name}`", f"`pe.presets.{tower.preset}`", f"{tower.base:g}")
                   for name, tower in VISION.items()])


def _cells(family):
    turning = "the first {part:g}" if family.part < 1 and family.head == "plain" else TURNS[family.head]
    bases = [f"{name} {layer.base:g}" for name, layer in family.layers.items()] or [f"{family.base:g}"]
    besides = [
        f"axes t, h, w, {family.mrope} {list(family.sections)}" if family.mrope else "",
        "`mscale_all_dim` changes the softmax scale" if family.share else "",
        "turns by -p w: `inverse=True`" if family.inverse else "",
        "queries also times `llama_4_scaling_beta`'s factor, beside the rope" if family.tempered else "",
        *(_own(name, layer) for name, layer in family.layers.items())]
    return (family.layout, turning.format(part=family.part), ", ".join(bases),
            "; ".join(filter(None, besides)) or "-")


def _own(name, layer):
    """Return what a layer type has of its own, besides its base."""
    own = {**({} if layer.head_dim is None else {"head_dim": layer.head_dim}), **layer.rope}
    return f"{name} has {', '.join(f'`{key}` {value}' for key, value in own.items())}" if own else ""


def _table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def filled(page):
    """Return the text of the page with its tables as they should be."""
    for name, table in (("text models", text_models()), ("vision models", vision_models())):
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        page = before + start + table + "\n" + rest[rest.index("<!-- end -->"):]
    return page


if __name__ == "__main__":
    path = Path(__file__).with_name("rope.md")
    path.write_text(filled(path.read_text()))
