"""The rules that keep the source simple, as far as a program can check them."""

import ast
import doctest
import fnmatch
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pe
from pe import _core, ops, reference

ROOT = Path(__file__).parents[1]
C_FILES = sorted((ROOT / "csrc").glob("*.[ch]"))
PYTHON_FILES = sorted(path for folder in ("pe", "benchmarks", "tests", "docs")
                      for path in (ROOT / folder).rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "pe").rglob("*.js"), *(ROOT / "pe").rglob("*.css"), ROOT / ".ci/run"])
README = (ROOT / "README.md").read_text()
OPS = ops.__all__
KERNELS = [name for name in OPS if isinstance(getattr(ops, name), _core.Op)]
PUBLIC = [name for name in pe.__all__ if callable(getattr(pe, name))]

with open(ROOT / "pyproject.toml", "rb") as file:
    PROJECT = tomllib.load(file)["project"]


def relative(path):
    return str(path.relative_to(ROOT))


def c_code(path):
    """Return a C file without its comments and string literals."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def test_the_files_are_found():
    assert len(C_FILES) >= 20 and len(PYTHON_FILES) >= 30 and len(SCRIPTS) >= 2
    assert {"apply_rope", "attention", "alibi_bias"} <= set(KERNELS) <= set(OPS) <= set(PUBLIC)


def test_every_c_file_has_its_place_in_contributing():
    places = re.findall(r"^\| (.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    named = [Path(name).name for place in places for name in re.findall("`(.*?)`", place)]
    files = [path.name for path in C_FILES]
    assert [name for name in files if not any(fnmatch.fnmatch(name, place) for place in named)] == []


# One place only


@pytest.mark.parametrize(("what", "pattern", "where"), [
    ("Python, NumPy", r"include\s*[<\"](Python|numpy/)|\bPy[A-Z_]\w*|\bnpy_\w+", r"module\.c|py_\w+\.[ch]"),
    ("OpenMP", r"#include\s*<omp\.h>|#\s*pragma\s+omp|\b(omp|GOMP|kmp)_\w+|_OPENMP", r"parallel\.c"),
    ("threads and forks", r"\bpthread_\w+|_Thread_local|\bthrd_\w+", r"parallel\.c"),
    ("CPU detection", r"cpuid|__builtin_cpu_|xgetbv", r"cpu\.c"),
    ("choice of instruction set", r"\bpe_kernels_(scalar|avx2|avx512)\b", r"kernels\.c|micro_\w+\.c"),
    ("intrinsics", r"\b_mm\d*_\w+|\b__m(128|256|512)[di]?\b|immintrin", r"vec_\w+\.h"),
    ("conversion of 16-bit values", r"\b(load|store)_(half|bfloat)\b", r"vec_\w+\.h|rows\.inc\.h"),
    ("the environment", r"\bgetenv\b", r"module\.c"),
])
def test_one_place_only(what, pattern, where):
    places = {path.name for path in C_FILES if re.search(pattern, c_code(path))}
    assert places, f"nothing here is about {what}: is the pattern right?"
    assert {name for name in places if not re.fullmatch(where, name)} == set()


# What C code may not do


FORBIDDEN = {
    "end the process": r"\b(exit|_Exit|abort|quick_exit|assert)\s*\(",
    "print": r"\b(f|s|sn|d)?printf\s*\(|\bf?puts\s*\(|\bputchar\s*\(|\bperror\s*\(|\bstderr\b",
    "unroll by a compiler's pragma": r"#\s*pragma\s+(GCC|clang|unroll)",
    "count a size of the caller's in an int": r"\bint\s+\w+\s*=\s*0\s*;\s*\w+\s*<\s*(\w+(->|\.))?[MNDVT]\b",
    "read caller's memory as aligned": r"\*\s*\(\s*(const\s+)?(float|double|int64_t)\s*\*\s*\)\s*\(?p->",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_c_file_may(what):
    assert [path.name for path in C_FILES if re.search(FORBIDDEN[what], c_code(path))] == []


def test_kernels_allocate_nothing():
    for path in C_FILES:
        if path.name.startswith(("vec_", "micro")) or path.name.endswith(".inc.h"):
            assert not re.search(r"\b(m|c|re|aligned_)alloc\b|\bfree\s*\(", c_code(path)), path.name


def test_no_flag_changes_the_meaning_of_floating_point():
    flags = (ROOT / "setup.py").read_text()
    assert "-ffp-contract=off" in flags
    for flag in ("-ffast-math", "-Ofast", "-funsafe-math", "-ffinite-math", "-fassociative-math", "=native"):
        assert flag not in flags


# Size and form


@pytest.mark.parametrize("path", [*C_FILES, *PYTHON_FILES, *SCRIPTS], ids=relative)
def test_no_file_is_more_than_one_idea(path):
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("path", C_FILES, ids=relative)
def test_c_lines_fit_the_screen(path):
    assert [i for i, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120] == []


def test_nothing_is_left_unfinished():
    unfinished = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
    files = [*C_FILES, *PYTHON_FILES, *SCRIPTS]
    assert [relative(path) for path in files if unfinished.search(path.read_text())] == []


def test_no_file_knows_the_machine_it_was_written_on():
    files = [*C_FILES, *PYTHON_FILES, *SCRIPTS]
    # not "*.*", which would read what a reader keeps beside the README
    patterns = ("*.py", "*.md", "*.toml", ".gitignore", "docs/*.*", ".ci/*", "tests/*/*.md")
    files += [path for pattern in patterns for path in ROOT.glob(pattern)]
    home = re.compile(r"(?<![\w.<:/])/(home|root|Users|tmp|work|opt)/")
    texts = [path for path in files if path.is_file() and path.suffix != ".png"]
    assert ROOT / "README.md" in texts
    assert [relative(path) for path in texts if home.search(path.read_text())] == []


def test_tests_are_no_package():
    """A package, or a conftest.py at the root, would put the source tree before an installed pe."""
    assert not list(ROOT.glob("conftest.py")) and not (ROOT / "tests/__init__.py").exists()
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert "--import-mode=importlib" in tomllib.load(file)["tool"]["pytest"]["ini_options"]["addopts"]
    assert "sys.path" not in (ROOT / "tests/conftest.py").read_text()


# The public names


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_numpydoc_documentation(name):
    value = getattr(pe, name)
    text = inspect.getdoc(value)
    assert text and re.match(r"[A-Z][^\n]*[.:]?(\n|$)", text)
    sections = re.findall(r"^([A-Z]\w+(?: \w+)?)\n-+$", text, flags=re.MULTILINE)
    if inspect.isclass(value):
        return
    signature = inspect.signature(value)
    documented = text.partition("\nReturns\n")[0]
    assert "Parameters" in sections or not signature.parameters
    for parameter in signature.parameters:
        assert re.search(rf"^(.*, )?\*?{parameter}(,.*)?( :|$)", documented, flags=re.MULTILINE), parameter
    assert "Returns" in sections or signature.return_annotation in (None, "None")
    assert "Examples" in sections
    if name in OPS:
        assert "Raises" in sections and ("References" in sections or "See Also" in sections)


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_a_twin_of_the_same_signature(name):
    def form(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert form(getattr(reference, name)) == form(getattr(pe, name))


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_types(name):
    signature = inspect.signature(getattr(pe, name))
    annotations = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
    assert inspect.Signature.empty not in annotations


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_test_in_the_matrix_and_a_benchmark(name):
    assert name in (ROOT / "tests/test_matrix.py").read_text()
    assert any(name in path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))


def test_the_twins_are_numpy_and_nothing_else():
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(reference))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module if not node.level else "." + (node.module or ""))
    assert "numpy" in imported
    assert not any(name.endswith(("_core", "ops", "_check")) or name.startswith("scipy") for name in imported)


def test_every_module_of_pe_says_in_its_first_line_what_it_is():
    for path in PYTHON_FILES:
        text = ast.get_docstring(ast.parse(path.read_text()))
        assert text and len(text.splitlines()[0]) > 10, relative(path)


# README: what it tells the reader to type exists and runs


def fenced(*languages):
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/rope.md"])
def test_pages_are_doctests_as_they_stand(page):
    """`python -m doctest` takes a page with its fences: a blank line ends what a session prints."""
    examples = re.findall(r"^>>> ", (ROOT / page).read_text(), flags=re.MULTILINE)
    tried = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert tried == (0, len(examples)) and examples


def test_readme_names_the_two_commands():
    commands = "\n".join(fenced("bash", "sh", "shell", "console"))
    assert 'pip install -e ".[plot]" && python -m pe' in commands
    assert 'pip install -e ".[test]" && pytest' in commands


def test_readme_commands_and_files_exist():
    for extra in re.findall(r"pip install \S*\.\[([\w,]+)\]", README):
        assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])
    for module in re.findall(r"python -m ([\w.]+)", README):
        ours = ROOT / module.replace(".", "/")
        runs = ours.with_suffix(".py").exists() or (ours / "__main__.py").exists()
        assert runs or module in ("venv", "pip", "pytest", "timeit")
    for target in re.findall(r"\]\(([^)#:]+)\)|srcset=\"([^\":]+)\"|src=\"([^\":]+)\"", README):
        assert (ROOT / next(filter(None, target))).exists(), target
    for name in re.findall(r"`pe\.([a-z_]\w*)", README):
        assert hasattr(pe, name), name


def test_readme_examples_run(tmp_path):
    """Sessions with prompts print what they show; plain blocks run one after the other, in one process."""
    blocks = fenced("python", "pycon")
    assert blocks
    plain = [block for block in blocks if ">>>" not in block]
    process = subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(plain)], cwd=tmp_path, text=True,
                             capture_output=True, env=os.environ | {"MPLBACKEND": "Agg"}, timeout=120)
    assert process.returncode == 0, process.stderr
    names = {"np": np, "pe": pe}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for block in blocks:
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, "README.md", "README.md", 0)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
    assert runner.failures == 0
