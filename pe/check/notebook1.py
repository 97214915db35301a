"""The exercises of the first notebook: the dog, the man and the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops import attention
from .verdict import Hint, call, exercise, number, show

_HOURS = np.arange(12)

# The systems of exercise 3: is it a group, and a question that decides it without saying how.
SYSTEMS = {
    "A": (True, "combine its four hours in a few ways. Do you land on a fifth, and which hour undoes 3?"),
    "B": (False, "what is 5 hours followed by 7, and is it in the list?"),
    "C": (False, "work out (9 - 5) - 1 and 9 - (5 - 1)."),
    "D": (True, "multiply the slide by 2 with the slide by 3 on paper. What comes out, and what undoes it?"),
}

# Every move of this one undoes itself, each row and column holds every move, and still brackets matter.
_LOOP = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])
# The six ways to lay a triangle onto itself: three turns, three mirrorings.
_TRIANGLE = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4],
                      [3, 5, 4, 0, 2, 1], [4, 3, 5, 1, 0, 2], [5, 4, 3, 2, 1, 0]])

# The worlds of exercise 4: table, is it a group, and what to say to a function that decides otherwise.
TABLES = [
    ((_HOURS[:, None] + _HOURS) % 12, True,
     "It turns down the 12-hour clock, (i + j) % 12, which keeps all four rules. Which of them does your "
     "code see broken?"),
    (_HOURS[:5, None] + _HOURS[:5], False,
     "It accepts a table with entries that are no move: 4 + 4 = 8, but the moves are 0 to 4. Which rule is "
     "that?"),
    (np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]]), False,
     "It accepts three moves of which 1 and 2 together make 3, which is none of the three. The other rules "
     "hold as far as the table goes, so that one has to be asked by itself."),
    (np.repeat(_HOURS[:3, None], 3, axis=1), False,
     "It accepts a world in which i followed by j is always i. A do-nothing move has to do nothing from the "
     "left and from the right: is there one?"),
    (np.tile(_HOURS[:3], (3, 1)), False,
     "It accepts a world in which i followed by j is always j. Every move does nothing there when it comes "
     "first, and none when it comes second. What has to hold on which side?"),
    (np.maximum(_HOURS[:4, None], _HOURS[:4]), False,
     "It accepts max(i, j), where 0 does nothing and 3 leads nowhere but to 3. Which rule asks for a way "
     "back?"),
    (_LOOP, False,
     "It accepts a world of five moves, each of which undoes itself, but where brackets matter. That rule is "
     "about triples: try them all."),
    ((_HOURS[:5, None] + _HOURS[:5] + 2) % 5, True,
     "It turns down a five-hour clock whose moves were renamed: the one that does nothing is not number 0 "
     "there. The rules say only that there is one."),
    (_TRIANGLE, True,
     "It turns down the turns and mirrorings of a triangle, where i then j is not always j then i. Is that "
     "one of the four rules?"),
]


@exercise
def nb1_ex1(answer: Any) -> str:
    """Check a prediction of what attention without position gives for a reordered text.

    Parameters
    ----------
    answer : callable
        ``answer(y, order)``: y (T, D) is the output for a text, which is then reordered so that place i holds
        the word that stood at ``order[i]``. Returns the output for the reordered text, right to within 1e-6.
    """
    rng = np.random.default_rng(1)
    for length in (5, 7):
        x, order = rng.standard_normal((length, 8)), np.roll(np.arange(length), 2)
        order[:2] = order[1::-1]
        y, expected = attention(x, x, x), attention(x[order], x[order], x[order])
        got = _floats(call(answer, y.copy(), order.copy()))
        if got is None or got.shape != y.shape:
            came = "something else" if got is None else f"shape {got.shape}"
            raise Hint(f"One row of numbers for each word is wanted, shape {y.shape}; your function gives "
                       f"{came}.")
        if _near(got, expected):
            continue
        if _near(got, y):
            raise Hint("That is y as it came. Another word stands at place 0 now: where is its row?")
        if _near(got, y[np.argsort(order)]):
            raise Hint("The rows went the wrong way round: order[i] is where the word that is now at place i "
                       "stood before. (Swapping two words hides this mistake; a longer shuffle does not.)")
        if _near(np.sort(got, axis=0), np.sort(y, axis=0)):
            raise Hint("The right rows in the wrong places. Follow one word: where did it stand, where is it "
                       "now?")
        raise Hint("These are not the rows of y any more. No number changes, so nothing is to be computed.")
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
        raise Hint(f"A whole number of hours is wanted; got {show(answer)}.")
    if hours == -5:
        raise Hint("Five back would do it, but the moves of this clock are h0 to h11, all of them forward. "
                   "Which one ends where five back would?")
    if hours in (0, 12):
        raise Hint("That move does nothing: after it you are still five hours ahead.")
    if not 0 < hours < 12:
        raise Hint("The moves are h0 to h11. Let your number go round the clock until it is one of them.")
    if (5 + hours) % 12:
        raise Hint(f"h5 then h{hours:.0f} makes h{(5 + hours) % 12:.0f}. Together they should do nothing.")
    return "This clock goes forward only, and still every move can be undone."


@exercise
def nb1_ex3(answer: Any) -> str:
    """Check which of the systems A, B, C, D are groups.

    Parameters
    ----------
    answer : str or iterable of str
        Their letters: "AB", or {"A", "B"}.
    """
    if isinstance(answer, dict):
        raise Hint("Only the letters of those that are groups are wanted, not a yes or no for each.")
    try:
        letters = {letter.upper() for part in answer for letter in part if letter.isalpha()}
    except (TypeError, AttributeError):
        letters = set()
    if not letters or not letters <= set(SYSTEMS):
        raise Hint(f'Some of the letters A, B, C, D are wanted, such as "BC"; got {show(answer)}.')
    for letter, (group, question) in SYSTEMS.items():
        if group != (letter in letters):
            raise Hint(f"Look at {letter} again: {question}")
    return "One of them comes back to where it began, the other goes on for ever. You will meet both again."


@exercise
def nb1_ex4(answer: Any) -> str:
    """Check a function that decides whether a table of moves is a group; it is tried on nine tables.

    Parameters
    ----------
    answer : callable
        ``answer(table)``: an array (n, n) of int; the moves are 0 to n - 1, and ``table[i, j]`` is what i and
        j make together. Returns True or False.
    """
    for table, group, hint in TABLES:
        try:
            verdict = call(answer, table.copy())
        except Hint as stopped:
            if isinstance(stopped.__cause__, IndexError) and table.max() >= len(table):
                i, j = np.argwhere(table == table.max())[0]
                raise Hint(f"Your function looks up an entry that is no move: {i} and {j} make "
                           f"{table[i, j]}, but the moves are 0 to {len(table) - 1}. Try that rule first, "
                           "and return at once.") from stopped
            raise
        if not isinstance(verdict, (bool, np.bool_)):
            raise Hint(f"True or False is wanted; your function gives {show(verdict)}.")
        if bool(verdict) != group:
            raise Hint(hint)
    return f"Right about all {len(TABLES)} worlds, without knowing what a single one of their moves does."


@exercise
def nb1_ex5(answer: Any) -> str:
    """Check a counter-example to "squaring carries addition over into addition".

    Parameters
    ----------
    answer : pair of numbers
        a and b for which the two routes end at different numbers.
    """
    if isinstance(answer, (bool, np.bool_, str)):
        if str(answer).strip().lower() in ("true", "yes"):
            raise Hint("Try a few pairs: square the sum, then add the squares. Do the two routes always "
                       "meet?")
        raise Hint("Show it: one pair (a, b) for which the two routes end at different numbers is enough.")
    try:
        a, b = (number(value) for value in answer)
    except (TypeError, ValueError):
        a = b = None
    if a is None or b is None:
        raise Hint(f"Two numbers are wanted, (a, b); got {show(answer)}.")
    # The cross term 2ab decides, not rounded squares: it is zero only where a or b is, or where both vanish.
    if 2 * a * b == 0:
        raise Hint(f"For ({a:g}, {b:g}) both routes end at {a * a + b * b:g}. A homomorphism needs that of "
                   "all pairs: look for one that fails.")
    return f"The routes miss each other by {abs(2 * a * b):g}. Squaring is a function, but no homomorphism."


def _floats(value: Any) -> NDArray[np.float64] | None:
    """Return an array of real numbers, or None where there is none to be made."""
    try:
        # A generator is no array yet; complex, masked and quoted numbers would lose what they are.
        array = np.asanyarray(list(value) if isinstance(value, Iterator) else value)
        real = array.dtype.kind in "biufO" and not np.ma.is_masked(array)
        return np.asarray(array, dtype=np.float64) if real else None
    except (TypeError, ValueError, OverflowError):
        return None


def _near(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-6))
