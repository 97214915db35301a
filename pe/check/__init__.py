"""Answers to the exercises of the notebooks, checked: a tick, or a hint at the likely mistake.

A check prints one line and returns nothing. It never raises on an answer, whatever it is, and it never tells the
solution. ``nb1_ex3`` is the third exercise of the first notebook.
"""

from .notebook1 import nb1_ex1, nb1_ex2, nb1_ex3, nb1_ex4, nb1_ex5

__all__ = ["nb1_ex1", "nb1_ex2", "nb1_ex3", "nb1_ex4", "nb1_ex5"]
