"""The exercises of the first notebook: the dog, the man and the clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from .verdict import Hint, call, exercise, number, show

# The systems of exercise 3 and a question that decides each; neither says on which side the letter belongs.
SYSTEMS = {
    "A": "combine a few of its four hours: do you ever land on another one, and which hour undoes 3?",
    "B": "what is h5 followed by h7, and is it in the list?",
    "C": "work out (9 - 5) - 1 and 9 - (5 - 1).",
    "D": "multiply the slide by 2 with the slide by 3 on paper. What kind of matrix comes out, and what undoes it?",
}

# The worlds of exercise 4: name, table, is it a group, and what to say to a function that decides otherwise.
_HOURS = np.arange(12)
_MIRRORS = np.array([  # the six ways to lay a triangle onto itself: three turns, three mirrorings
    [0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4],
    [3, 5, 4, 0, 2, 1], [4, 3, 5, 1, 0, 2], [5, 4, 3, 2, 1, 0]])
_LOOP = np.array([  # a do-nothing move, every move undoes itself, every row and column complete, no associativity
    [0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])
_RENAMED = (_HOURS[:5, None] + _HOURS[:5] + 2) % 5
TABLES = [
    ("the 12-hour clock", (_HOURS[:, None] + _HOURS) % 12, True,
     "It turns down the 12-hour clock, (i + j) % 12, which keeps all four rules. Which of them does your code miss?"),
    ("hours 0 to 4, added without wrapping", _HOURS[:5, None] + _HOURS[:5], False,
     "It accepts a table with entries that are no move at all (4 + 4 = 8, but the moves are 0 to 4). "
     "Which rule is that?"),
    ("the first move wins", np.repeat(_HOURS[:3, None], 3, axis=1), False,
     "It accepts a world without a do-nothing move: there, i followed by j is always i. Doing nothing must work "
     "from the left and from the right."),
    ("the larger of two", np.maximum(_HOURS[:4, None], _HOURS[:4]), False,
     "It accepts max(i, j), where 0 does nothing but no other move can be undone. Which rule asks for a way back?"),
    ("a loop", _LOOP, False,
     "It accepts a table of five moves with a do-nothing move, in which each move undoes itself, but where brackets "
     "matter. One rule of the four is still to be tried, on all triples."),
    ("a renamed five-hour clock", _RENAMED, True,
     "It turns down a five-hour clock in which the moves were renamed: there, move 0 is not the one that does "
     "nothing. The rules only say that there is one."),
    ("turns and mirrorings of a triangle", _MIRRORS, True,
     "It turns down the turns and mirrorings of a triangle, where i then j is not always j then i. Is that one of "
     "the four rules?"),
]


@exercise
def nb1_ex1(answer: Any) -> str:
    """Check a prediction of what attention without position gives for a reordered text.

    Parameters
    ----------
    answer : callable
        ``answer(y, order)``: y (T, D) is the output for a text; the text is then reordered so that the word at place
        i is the one that stood at ``order[i]``. Returns the output for the reordered text, within 1e-6.
    """
    from pe import attention

    rng = np.random.default_rng(1)
    for length in (5, 7):
        x, order = rng.standard_normal((length, 4)), np.roll(np.arange(length), 2)
        order[[0, 1]] = order[[1, 0]]
        y, expected = attention(x, x, x), attention(x[order], x[order], x[order])
        got = _floats(call(answer, y.copy(), order.copy()))
        if got is None or got.shape != y.shape:
            came = "no array of numbers" if got is None else f"an array of shape {got.shape}"
            raise Hint(f"For y of shape {y.shape} your function gives {came}; one row for each word is wanted, {y.shape}.")
        if _near(got, expected):
            continue
        if _near(got, y):
            raise Hint("That is y as it came. The word at place 0 is another one now: where did its row go?")
        if _near(got, y[np.argsort(order)]):
            raise Hint("All rows are there, but the way round is wrong: order[i] tells where the word that is now "
                       "at place i stood before. Swapping two words hides this mistake, a longer shuffle does not.")
        if _near(np.sort(got, axis=0), np.sort(y, axis=0)):
            raise Hint("You have the right rows in the wrong places. Follow one word: where did it stand, where is it now?")
        raise Hint("These are not the rows of y any more. No new number is needed, and no attention: the rows only move.")
    return "Every output moves along with its word, and not one number in it changes."


@exercise
def nb1_ex2(answer: Any) -> str:
    """Check which move of the 12-hour clock undoes h5.

    Parameters
    ----------
    answer : int
        The number of hours forward, 0 to 11.
    """
    hours = number(answer)
    if hours is None or hours != round(hours):
        raise Hint(f"A whole number of hours is wanted, got {show(answer)}.")
    if hours == -5:
        raise Hint("Five back would do it, but this clock only knows moves forward, h0 to h11. Which of them ends "
                   "where five back would?")
    if hours == 5:
        raise Hint("h5 then h5 is ten hours. You want to be back at the start.")
    if hours in (0, 12):
        raise Hint("That move does nothing, so after it you are still five hours ahead.")
    if not 0 <= hours < 12:
        raise Hint("The moves are h0 to h11. Let your number wrap around the clock once more.")
    if (5 + hours) % 12:
        raise Hint(f"h5 then h{hours:.0f} makes h{(5 + hours) % 12:.0f}. The two together should make h0.")
    return "Forward is the only way this clock goes, and still every move can be undone."


@exercise
def nb1_ex3(answer: Any) -> str:
    """Check which of the systems A, B, C, D are groups.

    Parameters
    ----------
    answer : str or iterable of str
        The letters: "AB", or {"A", "B"}.
    """
    try:
        letters = {letter.upper() for part in answer for letter in part if letter.isalpha()}
    except (TypeError, AttributeError):
        letters = set()
    if not letters or not letters <= set(SYSTEMS):
        raise Hint(f'Some of the letters A, B, C, D are wanted, such as "AB"; got {show(answer)}.')
    if letters == set(SYSTEMS):
        raise Hint("Not all four. For each letter, go through the rules one by one and try to break one.")
    wrong = sorted(letters ^ {"A", "D"})
    if wrong:
        raise Hint(f"Look at {wrong[0]} again: {SYSTEMS[wrong[0]]}")
    return "Two of four. One wraps around, the other goes on for ever; both will come back as encodings."


@exercise
def nb1_ex4(answer: Any) -> str:
    """Check a function that decides whether a table of moves is a group, on seven tables.

    Parameters
    ----------
    answer : callable
        ``answer(table)``: table (n, n) of int, ``table[i, j]`` the move that i and j make together; the moves are 0 to
        n - 1. Returns True or False.
    """
    for name, table, truth, hint in TABLES:
        try:
            verdict = call(answer, table.copy())
        except Hint as stopped:
            if isinstance(stopped.__cause__, IndexError) and table.max() >= len(table):
                raise Hint("Your function runs out of the table when an entry is no move at all (4 + 4 = 8, but the "
                           "moves are 0 to 4). Try that rule first and return at once.") from stopped
            raise Hint(f"{stopped} The table was {name}, {len(table)} x {len(table)}.".replace(".. ", ". ")
                       if stopped.__cause__ else str(stopped)) from stopped
        if not isinstance(verdict, (bool, np.bool_)):
            raise Hint(f"True or False is wanted; for {name} your function gives {show(verdict)}.")
        if bool(verdict) != truth:
            raise Hint(hint)
    return f"Right about all {len(TABLES)} worlds, and you needed to know nothing about what their moves do."


@exercise
def nb1_ex5(answer: Any) -> str:
    """Check a counter-example to "squaring carries addition over into addition".

    Parameters
    ----------
    answer : pair of numbers
        a and b for which the two routes differ.
    """
    if isinstance(answer, (bool, np.bool_, str)):
        says = str(answer).strip().lower()
        if says in ("true", "yes"):
            raise Hint("Try a few pairs: square the sum, then add the squares. Do the two routes meet every time?")
        raise Hint("One pair of numbers settles it: answer = (a, b), for which the two routes end at different places.")
    try:
        a, b = (number(value) for value in answer)
    except (TypeError, ValueError):
        a = b = None
    if a is None or b is None:
        raise Hint(f"Two numbers are wanted, (a, b); got {show(answer)}.")
    # Decided by the cross term, not by rounded squares: it vanishes only with a or b.
    if a == 0 or b == 0:
        raise Hint(f"For ({a:g}, {b:g}) both routes end at {(a + b) ** 2:g}. A homomorphism needs that for all pairs: "
                   "look for one where it fails.")
    return (f"Squaring the sum and adding the squares of {a:g} and {b:g} differ by {abs(2 * a * b):g}. "
            "One pair is enough: squaring is a function, and no homomorphism.")


def _floats(value: Any) -> np.ndarray | None:
    """Return an array of numbers, or None where there is none to be made."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _near(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-6))
