"""The notebooks: what is stored is what their sources give today, they can be solved, and their figures live.

Pictures are not compared byte for byte: another matplotlib draws them a little differently.
"""

import json
import re
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from notebook_solutions import SOLUTIONS

from pe import check, explore

FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = [pytest.param(path, id=path.stem[:1]) for path in sorted(FOLDER.glob("[0-9]*.py"))]
# What nbconvert's own template asks for, in vain: RequireJS and MathJax.
FOREIGN = re.compile(r"https://cdnjs\.cloudflare\.com/ajax/libs/(require\.js|mathjax)/")


@pytest.fixture(scope="module")
def build():
    for name in ("nbformat", "jupytext", "nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(name, reason=f"needs {name}: pip install -e '.[test]'")
    spec = spec_from_file_location("build_notebooks", FOLDER / "build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(build, tmp_path_factory):
    """Run a notebook in this Python, without a trace in the reader's own Jupyter folders."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        patch.delenv("MPLBACKEND", raising=False)
        patch.setenv("PYTHONWARNINGS", "error::DeprecationWarning:__main__")
        yield build.run


def stored(path):
    return json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(value):
    return value if isinstance(value, str) else "".join(value)


def outputs(notebook):
    """All outputs, with every embedded picture blanked."""
    blank = re.compile(r"data:image/png;base64,[\w+/=\n]+")
    for cell in code(notebook):
        for output in cell["outputs"]:
            data = {kind: blank.sub("(picture)", text(body))
                    for kind, body in output.get("data", {}).items() if kind != "image/png"}
            yield cell["id"], output["output_type"], text(output.get("text", "")), data


def joined(notebook):
    return [cell | {"source": text(cell["source"])} for cell in notebook["cells"]]


def streams(notebook):
    return "".join(words for _, _, words, _ in outputs(notebook))


def test_each_source_has_its_notebook():
    assert SOURCES
    stems = [param.values[0].stem for param in SOURCES]
    assert [path.stem for path in sorted(FOLDER.glob("*.ipynb"))] == stems


@pytest.mark.parametrize("path", SOURCES)
def test_stored_notebook_is_complete_and_small(path):
    notebook = stored(path)
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install -e '.[test]'")
    nbformat.validate(notebook)
    assert path.with_suffix(".ipynb").stat().st_size < 2_000_000
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}, "widget state, or traces of a run"
    counts = [cell["execution_count"] for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    kinds = {output["output_type"] for cell in code(notebook) for output in cell["outputs"]}
    assert "error" not in kinds and kinds >= {"stream", "display_data", "execute_result"}
    for cell, _, words, data in outputs(notebook):
        shown = words + " ".join(data.values())
        assert not re.search(r"0x[0-9a-f]{8,}|(?<![\w.<:/])/(home|root|Users|tmp|work|opt)/", shown), cell
    names = [output.get("name") for cell in code(notebook) for output in cell["outputs"]]
    assert "stderr" not in names


@pytest.mark.parametrize("path", SOURCES)
def test_cells_are_short_and_pictures_are_described(path):
    for cell in code(stored(path)):
        assert len(text(cell["source"]).splitlines()) <= 10, cell["id"]
        for output in cell["outputs"]:
            if output["output_type"] == "display_data" and "image/png" in output["data"]:
                assert len(cell["metadata"]["alt"]) > 40, cell["id"]


@pytest.mark.parametrize("path", SOURCES)
def test_every_exercise_is_asked_once_and_left_open(path):
    notebook, number = stored(path), path.stem[:1]
    asked = [cell for cell in code(notebook) if "pe.check." in text(cell["source"])]
    called = [re.search(r"pe\.check\.(\w+)\(", text(cell["source"]))[1] for cell in asked]
    assert called == [name for name in check.__all__ if name.startswith(f"nb{number}_")]
    for cell in asked:
        assert cell["metadata"]["tags"] == ["exercise"] and "..." in text(cell["source"])
        assert text(cell["outputs"][0]["text"]).startswith("→ This one waits for you")
    assert streams(notebook).count("✓") == 0


@pytest.mark.parametrize("path", SOURCES)
def test_stored_sources_and_outputs_are_those_of_today(build, run, path):
    notebook, fresh = stored(path), build.read(path)
    keys = ("id", "cell_type", "source", "metadata")
    kept = [[*map(cell.get, keys)] for cell in joined(notebook)]
    assert kept == [[*map(cell.get, keys)] for cell in fresh.cells], "run python notebooks/build.py"
    assert list(outputs(notebook)) == list(outputs(run(fresh))), "run python notebooks/build.py"


@pytest.mark.parametrize("path", SOURCES)
def test_the_solved_notebook_gets_every_tick_within_a_minute(build, run, path):
    notebook, begun = build.read(path), time.monotonic()
    for cell in notebook.cells:
        called = re.search(r"pe\.check\.(\w+)\(\w+\)$", cell.source)
        if called:
            cell.source = SOLUTIONS[called[1]] + "\n" + called[0]
    said, own = streams(run(notebook)), [name for name in SOLUTIONS if name.startswith(f"nb{path.stem[0]}_")]
    assert said.count("✓") == len(own) > 0 and "→" not in said
    assert time.monotonic() - begun < 60


@pytest.fixture
def html(tmp_path, request):
    """The stored notebook as nbconvert's HTML page on disk."""
    nbconvert = pytest.importorskip("nbconvert", reason="needs nbconvert: pip install -e '.[test]'")
    exported, _ = nbconvert.HTMLExporter().from_filename(str(request.param.with_suffix(".ipynb")))
    page = tmp_path / "notebook.html"
    page.write_text(exported, encoding="utf-8")
    return page


@pytest.mark.parametrize("html", SOURCES, indirect=True)
def test_figures_live_in_the_exported_page_without_a_network(html, browser):
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    context.set_offline(True)
    page, requests, errors = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(html.as_uri())
    figures = page.locator("[data-pe]")
    assert figures.count() > 0 and page.locator("[data-live]").count() == figures.count()
    for i in range(figures.count()):
        slider, box, x = (figures.nth(i).get_by_test_id(name) for name in ("range-u", "number-u", "x"))
        entries = [float(figures.nth(i).get_by_test_id(f"number-{key}").input_value()) for key in "abcd"]
        portrait = figures.nth(i).get_by_test_id("portrait")
        drawn, before = portrait.inner_html(), float(box.input_value())
        slider.focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
        u = float(box.input_value())
        assert u > before and portrait.inner_html() != drawn
        X = [entries[:2], entries[2:]]
        assert x.inner_text() == dict(explore.generator(X=X, u=u).rows())["x(u)"]
    pictures = [image.get_attribute("alt") for image in page.locator(".jp-RenderedImage img").all()]
    assert pictures and all(alt and len(alt) > 40 for alt in pictures)
    local = ("file:", "data:", "blob:")
    assert [url for url in requests if not url.startswith(local) and not FOREIGN.match(url)] == []
    assert errors == []
    context.close()


@pytest.mark.parametrize("html", SOURCES, indirect=True)
def test_pictures_stand_in_the_exported_page_without_scripts(html, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(html.as_uri())
    for image in page.locator("[data-pe] img, .jp-RenderedImage img").all():
        assert image.is_visible() and image.bounding_box()["width"] > 200 and image.get_attribute("alt")
    assert page.locator("[data-pe] table").first.is_visible()
    context.close()


def test_the_kernel_is_this_python(run, build):
    nbformat = pytest.importorskip("nbformat")
    cell = nbformat.v4.new_code_cell("import sys; print(sys.executable)", id="c0")
    notebook = run(nbformat.v4.new_notebook(cells=[cell], metadata=nbformat.from_dict(build.METADATA)))
    assert Path(streams(notebook).strip()).resolve() == Path(sys.executable).resolve()
