"""The figure in JupyterLab and in Notebook 7: real servers with kernels, a real browser, no other network.

Each application is taken once through the life of a notebook: opened as a stranger's, run, moved by keyboard,
read and set from Python, run again and again, saved, and opened as one's own when its kernel is gone.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import chromium
import pytest

import pe
from pe import explore

APPS = {"jupyterlab": ("lab/tree", ["--LabApp.expose_app_in_browser=True"]),
        "notebook": ("notebooks", ["--JupyterNotebookApp.expose_app_in_browser=True"])}
TOKEN = "figure"
CELLS = ["import pe\npe.explore.generator('turn')",
         "figure = pe.explore.generator('slide')\nw = figure.widget()\nw", "print(figure.state)",
         "w.b, w.u = 0.5, 2.0"]
PAGE, WIDGET, READ, SET = range(4)
# Notebook 7 says this of itself when it starts.
KNOWN = re.compile(r"reading 'schema'")


@contextmanager
def serving(app, folder):
    """Run a server whose settings, kernels and signatures live in `folder`; give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    private = {name: str(folder / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR",
                                                     "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")}
    command = [sys.executable, "-m", app, "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
               "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}",
               f"--ServerApp.root_dir={folder}", "--ServerApp.terminals_enabled=False", *APPS[app][1]]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log,
                               env=os.environ | private | {"PYTHONPATH": str(Path(pe.__file__).parents[1])})
    try:
        begun = time.monotonic()
        while True:
            try:
                ask(port, "status")
                break
            except OSError:
                if process.poll() is not None or time.monotonic() - begun > 60:
                    pytest.fail((folder / "server.log").read_text())
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def ask(port, what, method="GET"):
    """Call the server's interface."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{what}", method=method,
                                     headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or "null")


def strangers_notebook(path):
    """Write a notebook with the outputs of another machine, unsigned here."""
    page = {"text/html": explore.generator("turn").html(), "text/plain": repr(explore.generator("turn"))}
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "gone", "version_major": 2,
                                                         "version_minor": 1}}
    cells = [{"cell_type": "code", "id": f"c{i}", "source": source, "metadata": {}, "execution_count": None,
              "outputs": []} for i, source in enumerate(CELLS)]
    for index, data in ((PAGE, page), (WIDGET, page | view)):
        cells[index]["outputs"] = [{"output_type": "execute_result", "execution_count": 1, "data": data,
                                    "metadata": {}}]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4,
                                "nbformat_minor": 5}), encoding="utf-8")


class Notebook:
    """A notebook in the browser, by its own commands rather than its menus."""

    def __init__(self, page, url):
        self.page, self.url = page, url

    def open(self):
        self.page.goto(self.url)
        self.page.wait_for_function("""() => { const panel = window.jupyterapp?.shell.currentWidget;
            return panel?.context?.isReady && panel.sessionContext.session?.kernel?.status === "idle"; }""",
                                    timeout=60_000)

    def do(self, command):
        self.page.evaluate("(name) => window.jupyterapp.commands.execute(name)", command)

    def run(self, *cells):
        self.page.evaluate("""async (cells) => { const { content } = window.jupyterapp.shell.currentWidget;
            for (const index of cells) {
              content.activeCellIndex = index;
              content.deselectAll();
              await window.jupyterapp.commands.execute("notebook:run-cell");
            } }""", cells)

    def cell(self, index):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def until(self, index, words):
        """Run a cell until it prints these words: messages to the kernel take a moment to arrive."""
        begun, found = time.monotonic(), None
        while time.monotonic() - begun < 10:
            self.run(index)
            found = self.cell(index).locator(".jp-OutputArea-output").inner_text().strip()
            if found == words:
                return
        pytest.fail(f"{found!r} is not {words!r}")


def state(cell):
    return {key: float(cell.get_by_test_id(f"number-{key}").input_value()) for key in "abcdu"}


def move(notebook, cell):
    """Move every slider by the keys that notebook applications would like to keep; return the state."""
    keyboard = notebook.page.keyboard
    for key in "abcdu":
        slider, number = (cell.get_by_test_id(f"{kind}-{key}") for kind in ("range", "number"))
        before, step = float(number.input_value()), 0.1 if key == "u" else 0.05
        slider.focus()
        for press, steps in (("ArrowRight", 1), ("ArrowUp", 2), ("ArrowLeft", 1), ("ArrowDown", 0),
                             ("PageUp", 10), ("PageDown", 0), ("ArrowRight", 1)):
            keyboard.press(press)
            assert float(number.input_value()) == pytest.approx(before + steps * step), (key, press)
    after = state(cell)
    shown = explore.generator(X=[[after["a"], after["b"]], [after["c"], after["d"]]], u=after["u"]).data()
    assert cell.get_by_test_id("x").inner_text() == shown.numbers()["x"][1]
    return after


@pytest.mark.parametrize("app", APPS)
def test_the_life_of_a_notebook(app, tmp_path):
    for name in (app, "ipykernel", "anywidget"):
        pytest.importorskip(name, reason=f"needs {name}: pip install -e '.[test,widget]' jupyterlab notebook")
    strangers_notebook(tmp_path / "figure.ipynb")
    with (chromium.launch(resolve="MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as browser,
          serving(app, tmp_path) as port):
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        requests, errors = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: said.text.startswith("Error: <") and errors.append(said.text))
        notebook = Notebook(page, f"http://127.0.0.1:{port}/{APPS[app][0]}/figure.ipynb?token={TOKEN}")

        notebook.open()     # a stranger's: scripts are not run, the picture and the numbers stand
        html, widget = notebook.cell(PAGE), notebook.cell(WIDGET)
        for cell in (html, widget):
            image = cell.locator("img")
            image.wait_for()
            assert "A turn goes round" in image.get_attribute("alt") and image.bounding_box()["width"] > 300
            assert cell.locator("table").inner_text().count("6.2832") == 1
            assert cell.get_by_test_id("range-u").count() == 0

        notebook.do("notebook:run-all-cells")
        for cell in (html, widget):
            cell.get_by_test_id("range-u").wait_for()
        move(notebook, html)
        moved = move(notebook, widget)
        assert page.locator(".jp-Cell").count() == len(CELLS), "a key of the figure made a cell"
        notebook.until(READ, str(moved))
        notebook.run(SET)
        page.wait_for_function("""() => [...document.querySelectorAll(".jp-Cell")][1]
            .querySelector("[data-lm-suppress-shortcuts]").shadowRoot.querySelector("[data-testid=number-u]")
            .value === "2" """)
        moved |= {"b": 0.5, "u": 2.0}
        assert state(widget) == moved
        notebook.until(READ, str(moved))
        assert page.evaluate("location.hash") == ""

        notebook.run(*[PAGE, WIDGET] * 20)
        widget.get_by_test_id("range-u").wait_for()
        assert page.locator("[data-lm-suppress-shortcuts] >> visible=true").count() == 2
        assert page.locator("[data-live]").count() == 1

        notebook.do("docmanager:save")
        saved = json.loads((tmp_path / "figure.ipynb").read_text(encoding="utf-8"))
        assert "widgets" not in saved["metadata"]
        for session in ask(port, "sessions"):
            ask(port, f"sessions/{session['id']}", "DELETE")
        notebook.open()     # one's own, with a kernel that knows nothing: the page is alive all the same
        html.get_by_test_id("range-u").wait_for()
        move(notebook, html)
        local = f"http://127.0.0.1:{port}/"
        assert [url for url in requests if not url.startswith((local, "data:", "blob:"))] == []
        assert [error for error in errors if not KNOWN.search(error)] == []
