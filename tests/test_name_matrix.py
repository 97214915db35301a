"""`python -m pe classify`: matrices in, names out."""

import io
import json
from fractions import Fraction

import numpy as np
import pytest
from command_line import assert_refused, run_command

from pe import classify
from pe.generators import direct_sum, fade, nope, rope, slide, turn
from pe.name_matrix import as_dictionary, parse, portraits, run, sentence


@pytest.mark.parametrize(("matrix", "words"), [
    ("0 1; 0 0", ["slide (ALiBi): polynomial growth", "BLOOM, MPT", "exp(uX) slides, growing like u."]),
    ("0 -1; 1 0", ["turn (RoPE): bounded both ways", "Llama", "turns once in 6.28319 positions"]),
    ("-0.1 -1; 1 -0.1", ["damped RoPE", "fades to half in 6.93147"]),
    ("-0.1", ["fade (decay)", "6.93147"]), ("0", ["nothing (NoPE)", "leaves a coordinate as it is"]),
    ("1/10", ["explode (forbidden)", "doubles in 6.93147"]),
    ("0, 1, 0; 0, 0, 1; 0, 0, 0;", ["slide (ALiBi)", "growing like u^2"]),
    ("-0.1 1;0 -0.1", ["beyond", "fading slide"]),
])  # fmt: skip
def test_text_says_what_it_does(matrix, words, capsys):
    status, out, err = run_command(capsys, "classify", matrix)
    assert status == 0 and err == ""
    for word in words:
        assert word in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80 and all(line == line.rstrip() for line in out.splitlines())


def test_json_is_the_classification(capsys):
    status, out, _ = run_command(capsys, "classify", "--json", "0 -1 0; 1 0 0; 0 0 -0.5")
    answer = json.loads(out)
    expected = classify(direct_sum(turn(1.0), fade(0.5)))
    assert status == 0 and answer == json.loads(json.dumps(as_dictionary(expected)))
    assert answer["row"] == "mixed" and answer["kinds"] == {"turn": 1, "fade": 1}
    first = answer["blocks"][0]
    assert first["wavelength"] == pytest.approx(2 * np.pi) and first["half_life"] is None


@pytest.mark.parametrize("text", [
    "0 1; 0 0", "0,1;0,0;", "[[0, 1], [0, 0]]", "[[0 1]\n [0 0]]", "0 1\n0 0\n", " 0 1;\n 0 0 ",
    "[0, 1; 0, 0]",
])  # fmt: skip
def test_a_matrix_as_python_numpy_and_a_file_write_it(text):
    assert parse(text).tolist() == [[0, 1], [0, 0]]


def test_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", slide())
    (tmp_path / "x.json").write_text("[[0, 1], [0, 0]]")
    texts = [run_command(capsys, "classify", name)[1] for name in ("x.npy", "x.json", "0 1; 0 0")]
    assert len(set(texts)) == 1


def test_exact_takes_decimals_as_fractions(capsys, tmp_path):
    (tmp_path / "x.json").write_text("[[-0.1, 1e-20], [0, -0.1]]")
    for matrix in ("-0.1 1e-20; 0 -1/10", tmp_path / "x.json"):
        assert "fading slide" in run_command(capsys, "classify", "--exact", matrix)[1]
        assert "fading slide" not in run_command(capsys, "classify", matrix)[1]
    assert parse("0.1 1/3; 0 -2").tolist() == [[Fraction(1, 10), Fraction(1, 3)], [0, -2]]


@pytest.mark.parametrize(("matrix", "named"), [
    ("", "empty"), ("0 1; 0", "rows of 2, 1 numbers"), ("0 a; 0 0", "'a'"),
    ("0 1", "0 1 has shape (1, 2); expected one square matrix"),
    ("1/0", "'1/0'"), ("inf 0; 0 0", "'inf'"), ("1e999", "beyond 1.8e308; scale it down"),
    ("1e-999", "below 4.9e-324 that are not 0; scale it up"), ("0 1;;0 0", "rows of 2, 0, 2"),
    ("[]", "empty"), ("no.npy", "no.npy: No such file"),
    ("no.json", "no.json: No such file"),
])  # fmt: skip
def test_bad_matrices_are_one_line_and_status_2(matrix, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(run_command(capsys, "classify", matrix), named)
    assert_refused(run_command(capsys, "classify", matrix, "--exact", "--json"), named)


@pytest.mark.parametrize(("content", "named"), [
    (b"[[0, 1], [0", "holds no matrix"), (b"{}", "shape ()"), (b'[["a", 1], [0, 0]]', "real numbers"),
    (b"[[NaN, 0], [0, 0]]", "finite"), (b"[[0, 1], [0]]", "shape (2,)"), (b"\xff\xfe", "holds no matrix"),
    (b"[[[0]]]", "one square matrix"),
])  # fmt: skip
def test_bad_json_files(content, named, capsys, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    assert_refused(run_command(capsys, "classify", tmp_path / "x.json"), named)


def test_bad_npy_files(capsys, tmp_path):
    path = tmp_path / "x.npy"
    for content in (b"", b"not an array", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        assert_refused(run_command(capsys, "classify", path), "holds no matrix")
    np.save(path, np.array([[object()]]), allow_pickle=True)
    assert_refused(run_command(capsys, "classify", path), "holds no matrix")
    np.save(path, np.array([[1j]]))
    assert_refused(run_command(capsys, "classify", path), "imaginary")


def arrows(lines):
    return [line[2:].split(" ") for line in lines[2:]]


def test_a_portrait_points_where_the_flow_goes():
    lines = portraits(classify(turn(1.0)))
    grid = arrows(lines)
    assert len(grid) == 9 and len(grid[0]) == 17
    assert grid[4][8] == "·"  # the fixed point
    assert (grid[4][16], grid[0][8], grid[4][0], grid[8][8]) == ("↑", "←", "↓", "→")
    grid = arrows(portraits(classify(slide())))
    assert set(grid[0]) == {"→"} and set(grid[4]) == {"·"} and set(grid[8]) == {"←"}
    grid = arrows(portraits(classify(-np.eye(2))))
    assert (grid[0][0], grid[0][16], grid[8][0], grid[8][16]) == ("↘", "↙", "↗", "↖")


def test_a_terminal_without_arrows_gets_strokes():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    run("0 -1; 1 0", exact=False, as_json=False, out=out)
    out.flush()
    grid = arrows(["", *out.buffer.getvalue().decode("ascii").splitlines()[-10:]])
    assert (grid[4][16], grid[0][8], grid[4][0], grid[8][8], grid[4][8]) == ("^", "<", "v", ">", ".")


def test_larger_matrices_show_their_kinds():
    lines = portraits(classify(direct_sum(turn([1.0, 0.5]), slide(), fade(0.1), nope(1))))
    assert lines[1].split() == ["turn", "slide"] and max(map(len, lines)) <= 80
    assert portraits(classify(nope(3))) == []
    assert portraits(classify([[-1.0]]))[6].strip().startswith("→")
    assert portraits(classify(np.zeros((0, 0)))) == []


def test_sentence_counts_equal_blocks():
    assert sentence(classify(nope(3))) == "Over a gap u, exp(uX) leaves a coordinate as it is (x3)."
    assert "does nothing" in sentence(classify(np.zeros((0, 0))))


def test_a_large_matrix_fits_on_a_screen(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", rope(128))
    _, out, _ = run_command(capsys, "classify", "x.npy")
    assert len(out.splitlines()) <= 24 and max(map(len, out.splitlines())) <= 80
    assert "turns once in 6.283 to 5.441e+04 positions (x64)." in " ".join(out.split())
