"""Answers to the exercises of the notebooks, checked: a tick, or a hint at the likely mistake.

A check prints and returns nothing. A wrong answer, or a function of the reader's that stops with an error, is
a hint, no traceback; the solution is never told. ``nb1_ex3``: third exercise of the first notebook.
"""

from .notebook1 import nb1_ex1, nb1_ex2, nb1_ex3, nb1_ex4, nb1_ex5

__all__ = ["nb1_ex1", "nb1_ex2", "nb1_ex3", "nb1_ex4", "nb1_ex5"]
