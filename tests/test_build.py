"""What the build left behind: one extension, one symbol, no surprises for the process that loads it."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import pe
from pe import _core

CORE = Path(_core.__file__)


def binutil(name, *arguments):
    if shutil.which(name) is None:
        pytest.skip(f"{name} (package binutils) is not installed")
    return subprocess.run([name, *arguments, CORE], check=True, capture_output=True, text=True).stdout


def symbols(which):
    return {line.split()[-1].partition("@")[0] for line in binutil("nm", "-D", which).splitlines()}


def test_one_file_serves_every_python():
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    assert CORE.name == "_core.abi3.so" if not free_threaded else CORE.name.startswith("_core.cpython-3")


def test_only_the_init_function_is_exported():
    assert symbols("--defined-only") == {"PyInit__core"}


def test_no_function_can_end_the_process_or_print():
    used = symbols("--undefined-only")
    assert "aligned_alloc" in used  # it is a list of names
    assert not used & {"exit", "_exit", "abort", "printf", "puts", "putchar", "fprintf", "perror", "longjmp"}


def test_one_openmp_run_time_is_linked_and_no_python():
    needed = re.findall(r"NEEDED.*\[(.*)\]", binutil("readelf", "-d"))
    openmp = [name for name in needed if re.search(r"gomp|lib[i]?omp", name)]
    expected = {"off": [], "libgomp": ["libgomp"], "libomp": ["libomp"]}[_core.config()["openmp"]]
    assert [name.partition(".")[0] for name in openmp] == expected
    assert not any("python" in name or "stdc++" in name for name in needed)
    assert "RPATH" not in binutil("readelf", "-d")


def test_no_start_up_code_changes_the_floating_point_unit():
    """Linking with -ffast-math puts a constructor into the file; see also test_parallel.py."""
    assert "set_fast_math" not in binutil("readelf", "-sW")


def test_versions_agree():
    assert metadata.version("turn-fade-slide") == pe.__version__
    root = Path(__file__).parents[1]
    with open(root / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["version"] == pe.__version__
    assert f"\n## {pe.__version__}" in (root / "CHANGELOG.md").read_text()


def test_a_tree_without_a_core_says_what_to_do(tmp_path):
    source = Path(pe.__file__).parent
    shutil.copytree(source, tmp_path / "pe", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    code = f"import sys; sys.path.append({str(Path(np.__file__).parents[1])!r}); import pe"
    command = [sys.executable, "-S", "-c", code]  # -S: an editable install would lend its core
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and "pip install -e ." in last
    assert "During handling" not in process.stderr
    (tmp_path / "pe" / "_core.py").write_text("positions_from_mask = clock = None")      # of another day
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    last = process.stderr.splitlines()[-1]
    assert last.startswith("ImportError: pe's compiled core is older than its Python files")
    assert "pip install -e ." in last and "During handling" not in process.stderr
