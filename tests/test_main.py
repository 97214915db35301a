"""The command line: what it offers, and one line for everything it cannot do."""

import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import assert_refused, run_command

import pe
from pe.tour import CHAPTERS

MODEL = ["generate", "model.bin", "--tokenizer", "tok.bin"]


@pytest.mark.parametrize(("argv", "named"), [
    (["dance"], "dance"), (["--chapter", "3"], "tour"), (["tour", "3"], "3"),
    (["tour", "--chapter", "0"], "--chapter"),
    (["tour", "--chapter", str(len(CHAPTERS) + 1)], f"1 to {len(CHAPTERS)}"),
    (["tour", "--chapter", "one"], "'one'"), (["tour", "--chapter"], "--chapter"),
    (["generate"], "CHECKPOINT"), (["generate", "model.bin"], "--tokenizer"),
    ([*MODEL, "--steps", "0"], "--steps"), ([*MODEL, "--steps", "2.5"], "'2.5'"),
    ([*MODEL, "--temperature", "-0.5"], "--temperature"), ([*MODEL, "--temperature", "nan"], "'nan'"),
    ([*MODEL, "--temperature", "inf"], "'inf'"), ([*MODEL, "--temperature", "hot"], "'hot'"),
    ([*MODEL, "--seed", "-1"], "--seed"), ([*MODEL, "--rope", "sideways"], "inside"),
    ([*MODEL, "--prompt", "\udcff"], "--prompt"), ([*MODEL, "--no-such-option"], "--no-such-option"),
    (["info", "please"], "please"), (MODEL, "model.bin: No such file"),
])
def test_bad_input_is_one_line_and_status_2(argv, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(run_command(capsys, *argv), named)


def test_help_lists_the_commands_and_every_option_is_explained(capsys):
    status, out, _ = run_command(capsys, "--help")
    assert status == 0 and all(name in out for name in ("tour", "classify", "rope", "generate", "info"))
    status, out, _ = run_command(capsys, "generate", "--help")
    assert status == 0
    for option in ("--tokenizer", "--prompt", "--steps", "--no-cache", "--rope", "--temperature", "--seed"):
        assert option in out


def test_info_says_what_a_bug_report_needs(capsys):
    status, out, err = run_command(capsys, "info")
    assert status == 0 and err == ""
    assert pe.isa() in out and np.__version__ in out and str(pe.get_num_threads()) in out


def test_version(capsys):
    status, out, _ = run_command(capsys, "--version")
    assert status == 0 and out == f"pe {pe.__version__}\n"
    assert run_command(capsys, "info")[1].startswith(out)


def test_module_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "pe", "info"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and pe.isa() in done.stdout and done.stderr == ""
    done = subprocess.run([sys.executable, "-m", "pe", "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1


def test_a_reader_who_leaves_early_sees_no_traceback(tmp_path):
    command = [sys.executable, "-m", "pe", "tour", "--chapter", "9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_a_terminal_without_the_letters_gets_those_it_has(tmp_path):
    command = [sys.executable, "-m", "pe", "tour", "--chapter", "9"]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path,
                          env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and b"5.543  ####" in done.stdout and done.stderr == b""


@pytest.mark.parametrize(("shell", "status", "said"), [
    ("classify 0 >&-", 2, "pe: error: standard output is closed\n"), ("classify a 2>&-", 2, ""),
    ("rope - <&-", 2, "pe: error: standard input is closed\n"),
])
def test_closed_streams_are_no_traceback(shell, status, said):
    done = subprocess.run(f"'{sys.executable}' -m pe {shell}", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (OSError("disk on fire"), 2)])
def test_interruption_and_system_errors(error, status, capsys, monkeypatch):
    def stop(*args):
        raise error

    monkeypatch.setattr("pe.tour.take", stop)
    assert run_command(capsys, "tour")[0] == status
