"""Run the notebooks and write each as .ipynb beside its .py: `python notebooks/build.py [NAME ...]`.

The .py files (jupytext's percent format) are the sources. The same source gives the same bytes: cell ids are
counted, and nothing that depends on time or machine is kept.
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}}


def read(path):
    """Return the source at `path` as a notebook without outputs."""
    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for i, cell in enumerate(notebook.cells):
        cell.id = f"c{i:02}"
        cell.metadata.pop("lines_to_next_cell", None)
    return notebook


def run(notebook):
    """Execute `notebook` in place, in a fresh kernel; an error in a cell ends it."""
    NotebookClient(notebook, timeout=60, kernel_name="python3", record_timing=False, coalesce_streams=True,
                   resources={"metadata": {"path": str(FOLDER)}}).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    nbformat.validate(notebook)
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("[0-9]*.py")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            path.with_suffix(".ipynb").write_text(nbformat.writes(run(read(path))) + "\n", encoding="utf-8")
            print(path.with_suffix(".ipynb").name)
