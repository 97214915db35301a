"""Python in a process of its own, for what would change, freeze or end the one that runs the tests."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def start(code, *, timeout=120, **environment):
    """Run code in a fresh interpreter that finds the helpers beside this file; None removes a variable."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path)} | environment
    variables = {name: value for name, value in variables.items() if value is not None}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=variables, capture_output=True,
                          text=True, timeout=timeout)


def output(code, **options):
    """Return what code printed, and fail with its last words if it failed."""
    process = start(code, **options)
    assert process.returncode == 0, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout.strip()
