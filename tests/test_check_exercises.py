"""The checks of the exercises: solutions get a tick, blanks and typical mistakes the hint meant for them."""

import inspect
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from notebook_solutions import SOLUTIONS

import pe
from pe import check
from pe.check import notebook1, verdict

JUNK = [..., None, True, "", "seven", 3.5, np.nan, -np.inf, 10**400, 1j, [], {}, [[1], [1, 2]], ("a", 2),
        object(), np.zeros((2, 2)), len, lambda *_: None, lambda *_: ..., lambda *_: 1 / 0, lambda: 1,
        lambda *_: "x"]


def said(capsys, name, answer):
    assert getattr(check, name)(answer) is None
    return " ".join(capsys.readouterr().out.split())


def solution(name):
    """Return what the solution's cell hands to the check: the last name it binds."""
    names = {}
    exec(SOLUTIONS[name], names)
    return list(names.values())[-1]


def test_every_check_has_a_solution_and_documentation():
    assert set(SOLUTIONS) == set(check.__all__)
    for name in check.__all__:
        function = getattr(check, name)
        assert list(inspect.signature(function).parameters) == ["answer"]
        assert "Parameters\n" in inspect.getdoc(function)


@pytest.mark.parametrize("name", check.__all__)
def test_solutions_pass(capsys, name):
    assert said(capsys, name, solution(name)).startswith("✓ ")


@pytest.mark.parametrize("answer", JUNK, ids=range(len(JUNK)))
@pytest.mark.parametrize("name", check.__all__)
def test_no_answer_is_a_traceback(capsys, name, answer):
    out = said(capsys, name, answer)
    assert out.startswith("→ ") and out.count("→") == 1 and len(out) > 30


@pytest.mark.parametrize("name", check.__all__)
def test_blanks_are_told_from_mistakes(capsys, name):
    assert said(capsys, name, ...) == f"→ {verdict.BLANK}"
    if name in ("nb1_ex1", "nb1_ex4"):
        assert said(capsys, name, lambda *_: ...) == f"→ {verdict.BLANK}"


def swap_two(y, order):
    y[[1, 4]] = y[[4, 1]]
    return y


@pytest.mark.parametrize(("name", "answer", "hint"), [
    ("nb1_ex1", lambda y, order: y, "as it came"),
    ("nb1_ex1", lambda y, order: y[np.argsort(order)], "wrong way round"),
    ("nb1_ex1", swap_two, "wrong places"),
    ("nb1_ex1", lambda y, order: y[::-1], "wrong places"),
    ("nb1_ex1", lambda y, order: y[:, order], "gives shape (5, 5)"),
    ("nb1_ex1", lambda y, order: y[order][0], "gives shape (8,)"),
    ("nb1_ex1", lambda y, order: pe.attention(y[order], y[order], y[order]), "not the rows of y"),
    ("nb1_ex1", lambda y, order: y[order] + 2e-6, "not the rows of y"),
    ("nb1_ex1", lambda y, order: "y[order]", "something else"),
    ("nb1_ex1", lambda y, order: y[order] + 1j, "something else"),
    ("nb1_ex1", lambda y, order: np.ma.array(y[order], mask=True), "something else"),
    ("nb1_ex1", lambda y, order: [[10**400] * 8] * len(y), "something else"),
    ("nb1_ex1", lambda y: y, "stopped with TypeError"),
    ("nb1_ex1", lambda y, order: y[9], "`(\"nb1_ex1\", lambda y, order: y[9]"),
    ("nb1_ex1", lambda y, order: next(iter(())), "with StopIteration."),
    ("nb1_ex1", lambda y, order: print(end=""), "end in return"),
    ("nb1_ex1", np.eye(5), "without brackets"),
    ("nb1_ex2", -5, "all of them forward"), ("nb1_ex2", 5, "h5 then h5 makes h10"),
    ("nb1_ex2", 0, "does nothing"), ("nb1_ex2", 12, "does nothing"),
    ("nb1_ex2", 19, "h0 to h11"), ("nb1_ex2", -6, "h0 to h11"),
    ("nb1_ex2", 6, "makes h11"), ("nb1_ex2", "h7", "whole number"), ("nb1_ex2", 0.2, "whole number"),
    ("nb1_ex3", "A", "Look at D"), ("nb1_ex3", "D", "Look at A"), ("nb1_ex3", "ABD", "Look at B"),
    ("nb1_ex3", {"A", "C", "D"}, "Look at C"), ("nb1_ex3", "all", "A, B, C, D are wanted"),
    ("nb1_ex3", {"A": True, "B": False, "C": False, "D": True}, "not a yes or no for each"),
    ("nb1_ex3", ["A", "E"], "A, B, C, D are wanted"), ("nb1_ex3", 2, "A, B, C, D are wanted"),
    ("nb1_ex5", True, "Do the two routes always meet"), ("nb1_ex5", "yes", "always meet"),
    ("nb1_ex5", False, "Show it"), ("nb1_ex5", "no", "Show it"), ("nb1_ex5", (0, 3), "both routes end at 9"),
    ("nb1_ex5", (1e-200, 1e-200), "both routes end at 0"),
    ("nb1_ex5", (-2.5, 0.0), "both routes end at 6.25"), ("nb1_ex5", 3, "Two numbers"),
    ("nb1_ex5", (1, 2, 3), "Two numbers"), ("nb1_ex5", (1, np.inf), "Two numbers"),
])
def test_typical_mistakes_get_their_hint(capsys, name, answer, hint):
    out = said(capsys, name, answer)
    assert out.startswith("→ ") and hint in out


@pytest.mark.parametrize(("name", "answer"), [
    ("nb1_ex1", lambda y, order: [y[i].tolist() for i in order]),
    ("nb1_ex1", lambda y, order: y[order] + 1e-7),
    ("nb1_ex1", lambda y, order: (y[i] for i in order)),
    ("nb1_ex2", np.int64(7)), ("nb1_ex2", 7.0), ("nb1_ex2", Fraction(7)), ("nb1_ex5", (Fraction(1, 2), 2)),
    ("nb1_ex3", {"D", "A"}), ("nb1_ex3", ["a", "d"]), ("nb1_ex3", "A, D"),
    ("nb1_ex4", lambda table: np.bool_(is_group(table))),
    ("nb1_ex5", [1, -1]), ("nb1_ex5", np.array([1.0, 1e-9])), ("nb1_ex5", (1e8, 1e-8)),
])
def test_right_answers_in_other_clothes_pass(capsys, name, answer):
    assert said(capsys, name, answer).startswith("✓ ")


def is_group(table, *, closure=True, first=False, sides=True, inverses=True, brackets=True, swap=False):
    """The four rules, each of which can be left out; `first` and `swap` are rules that there are not."""
    moves = range(len(table))
    if closure and not np.isin(table, moves).all():
        return False
    nothing = [e for e in moves if all(table[i, e] == i and (not sides or table[e, i] == i) for i in moves)]
    if not nothing or first and nothing[0] != 0:
        return False
    if inverses and not all(any(table[j, i] == nothing[0] for j in moves) for i in moves):
        return False
    if swap and not np.array_equal(table, table.T):
        return False
    return not brackets or all(table[table[i, j], k] == table[i, table[j, k]]
                               for i in moves for j in moves for k in moves)


@pytest.mark.parametrize(("answer", "hint"), [
    (lambda table: True, "entries that are no move"),
    (lambda table: False, "turns down the 12-hour clock"),
    (lambda table: is_group(table, closure=False, inverses=False), "4 and 4 make 8, but the moves"),
    (lambda table: is_group(table, closure=False), "1 and 2 make 3, but the moves are 0 to 2"),
    (lambda t: is_group(t, closure=False, brackets=False), "1 and 2 together make 3"),
    (lambda table: is_group(table.T, sides=False), "i followed by j is always j"),
    (lambda t: is_group(t, closure=False, inverses=False, brackets=False), "entries that are no move"),
    (lambda table: is_group(table, sides=False), "i followed by j is always i"),
    (lambda table: is_group(table, inverses=False), "max(i, j)"),
    (lambda table: is_group(table, brackets=False), "where brackets matter"),
    (lambda table: is_group(table, first=True), "moves were renamed"),
    (lambda table: is_group(table, swap=True), "always j then i"),
    (lambda table: int(is_group(table)), "True or False is wanted"),
    (lambda table: table[99], "stopped with IndexError"),
    (True, "without brackets"),
])
def test_each_forgotten_rule_of_a_group_is_found(capsys, answer, hint):
    out = said(capsys, "nb1_ex4", answer)
    assert out.startswith("→ ") and hint in out


def test_a_table_that_is_changed_stays_as_it_was(capsys):
    def vandal(table):
        verdict = is_group(table)
        table[:] = 0
        return verdict

    for _ in range(2):
        assert said(capsys, "nb1_ex4", vandal).startswith("✓ ")


def test_the_worlds_are_what_the_checks_say():
    """`check_group_axioms` is the judge of the tables, and of the four systems of the third exercise."""
    for table, group, _ in notebook1.TABLES:
        big = np.full((99, 99), -1)
        big[: len(table), : len(table)] = table
        assert pe.check_group_axioms(range(len(table)), big.item).is_group == group

    def hours(a, b):
        return (a + b) % 12

    slides = [np.array([[1.0, t], [0.0, 1.0]]) for t in (-3.0, 0.0, 1.5, 2.5)]

    def is_slide(m):
        return m[0, 0] == m[1, 1] == 1 and m[1, 0] == 0

    judged = {
        "A": pe.check_group_axioms([0, 3, 6, 9], hours),
        "B": pe.check_group_axioms(range(1, 12), hours),
        "C": pe.check_group_axioms(range(-3, 4), np.subtract, contains=lambda n: n == int(n)),
        "D": pe.check_group_axioms(slides, np.matmul, contains=is_slide, inverse=np.linalg.inv),
    }
    assert {letter: report.is_group for letter, report in judged.items()} == {
        letter: group for letter, (group, _) in notebook1.SYSTEMS.items()}


def test_lines_fit_a_notebook(capsys):
    for name in check.__all__:
        for answer in (solution(name), *JUNK):
            getattr(check, name)(answer)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_checks_load_no_notebook_and_no_plotting():
    code = ("import sys, pe; assert 'pe.check' not in sys.modules; pe.check.nb1_ex2(7);"
            "assert not {'IPython', 'matplotlib', 'scipy', 'nbformat'} & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0 and done.stdout.startswith("✓ "), done.stderr
