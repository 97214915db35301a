"""What setup.py asks of a compiler before it is used."""

import importlib.util
from pathlib import Path

import pytest
from processes import output

SETUP = Path(__file__).parents[1] / "setup.py"


@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed")
def test_a_compiler_of_several_words_is_asked_as_a_whole():
    """CC="ccache gcc": its first word alone compiles nothing, and OpenMP would be left out without a word."""
    report = output(f"""
        import runpy, types
        import setuptools
        setuptools.setup = lambda **_: None
        names = runpy.run_path({str(SETUP)!r})
        builder = types.SimpleNamespace(compiler=types.SimpleNamespace(compiler=["env", "PE_TRIED=1", "cc"]))
        texts = ["int main(void) {{ return 0; }}", "int main(void) {{ return 1; }}", "no C"]
        print(*(names["BuildCore"].works(builder, text) for text in texts))
    """)
    assert report.split() == ["True", "False", "False"]
