"""Run the command line inside the tests' own process."""

from pe.__main__ import main


def run_command(capsys, *argv):
    """Return exit status, stdout and stderr of ``python -m pe argv``."""
    try:
        status = main([*map(str, argv)])
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()


def assert_refused(result, *words):
    """Expect exit status 2, nothing on stdout, and one line on stderr that holds the words."""
    status, out, err = result
    assert status == 2 and out == ""
    assert err.startswith("pe: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    for word in words:
        assert word in err
