"""Solutions of the notebooks' exercises: the source of a cell, without the call that checks it."""

SOLUTIONS = {
    "nb1_ex1": """
def predict(y, order):
    return y[order]
""",
    "nb1_ex2": """
undo_h5 = 12 - 5
""",
    "nb1_ex3": """
which_are_groups = "AD"
""",
    "nb1_ex4": """
def is_group(table):
    n = len(table)
    moves = range(n)
    if not all(0 <= table[i, j] < n for i in moves for j in moves):
        return False
    nothing = [e for e in moves if all(table[e, i] == table[i, e] == i for i in moves)]
    undone = all(any(table[i, j] == table[j, i] == e for j in moves) for e in nothing for i in moves)
    return bool(nothing) and undone and all(
        table[table[i, j], k] == table[i, table[j, k]] for i in moves for j in moves for k in moves)
""",
    "nb1_ex5": """
squaring = (2, 3)
""",
}
