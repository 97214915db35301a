"""From a clock to a law: groups, translations between groups, and groups with one real parameter."""

from __future__ import annotations

import numpy as np

import pe


def clock(say):
    """Check the four axioms on clocks and squares, and on two systems that fail."""
    say.chapter("A clock and its four rules",
        """Positions can be shifted, and shifts can be undone. What are the rules of any system of moves
        like that? A 12-hour clock keeps all four.""")

    def forward(a, b):
        return (a + b) % 12

    say.text("Moves of the hour hand, h5 being five hours forward:")
    undo_5 = next(h for h in range(12) if forward(5, h) == 0)
    say.table(["rule", "says", "on the clock"], [
        ["closure", "two moves make a move", f"h5 then h4 = h{forward(5, 4)}, h7 then h8 = h{forward(7, 8)}"],
        ["identity", "one move does nothing", f"h5 then h0 = h{forward(5, 0)}"],
        ["inverses", "every move can be undone", f"h5 then h{undo_5} = h{forward(5, undo_5)}"],
        ["associativity", "brackets do not matter",
         f"(h2 h3) h4 = h{forward(forward(2, 3), 4)}, h2 (h3 h4) = h{forward(2, forward(3, 4))}"]])

    def positive(n):
        return n >= 1

    def two_by_two(m):
        return np.shape(m) == (2, 2)

    quarter = np.array([[0, -1], [1, 0]])
    square = [np.linalg.matrix_power(quarter, n) for n in range(4)]
    matrices = [2 * np.eye(2), quarter, np.eye(2), np.diag([1.0, 0.0])]
    every_matrix = pe.check_group_axioms(matrices, np.matmul, contains=two_by_two, inverse=np.linalg.inv)
    systems = [
        ("hours of the clock, plus", pe.check_group_axioms(range(12), forward)),
        ("quarter turns, times", pe.check_group_axioms(square, np.matmul)),
        ("positive whole numbers, plus", pe.check_group_axioms(range(1, 8), np.add, contains=positive)),
        ("2x2 matrices, times", every_matrix),
    ]
    say.text(f"""pe.check_group_axioms tries all 12^2 = {12**2} pairs and 12^3 = {12**3} triples of the
        clock, and three other systems:""")
    axioms = ("closure", "identity", "inverses", "associativity")
    say.table(["system", "closed", "identity", "inverses", "associative", "group"], [
        [name, *("yes" if getattr(report, answer) else "NO" for answer in (*axioms, "is_group"))]
        for name, report in systems])
    squash = every_matrix.witness["inverses"][0]
    flat = squash @ [[5, 5], [3, 99]]
    say.notice(f"""positive whole numbers under plus have no zero and no way back. Among the matrices the
        witness against inverses is the squash {squash.astype(int).tolist()}: it sends (5, 3) and (5, 99)
        both to ({flat[0, 0]:.0f}, {flat[1, 1]:.0f}), and nothing can tell them apart again. Matrices that
        can be undone do form a group; all encodings to come live in it.""")


def slide_rule(say):
    """Measure how far three functions are from carrying one operation over into another."""
    say.chapter("The slide rule",
        """Two systems can be one and the same under other names. How does one tell? A translation must not
        care whether you combine first or translate first.""")
    mark = np.log10([2.0, 3.0])
    say.text(f"""A slide rule multiplies by adding lengths: 2 is engraved at log10(2) = {mark[0]:.4f}, 3 at
        {mark[1]:.4f}; end to end they reach {mark.sum():.4f}, where {10 ** mark.sum():.0f} is engraved.""")
    rows = [("log", "times to plus", np.log, np.multiply, np.add),
            ("exp", "plus to times", np.exp, np.add, np.multiply),
            ("square", "plus to plus", np.square, np.add, np.add)]
    say.text("pe.homomorphism_defect is the difference between the two routes, here for a = 2 and b = 3:")
    say.table(["function", "carries", "combine, translate", "translate, combine", "defect"], [
        [name, carries, f"{f(op_in(2.0, 3.0)):.4f}", f"{op_out(f(2.0), f(3.0)):.4f}",
         f"{pe.homomorphism_defect(f, 2.0, 3.0, op_in=op_in, op_out=op_out):.2g}"]
        for name, carries, f, op_in, op_out in rows])
    say.notice("""the exponential turns addition into multiplication: e^(a+b) = e^a e^b. Keep that shape in
        mind. Squaring is no such translation; it misses by the cross term 2ab = 12.""")


def group_law(say):
    """Show A(2) A(3) = A(5) for turn, fade and slide, and what fails it."""
    say.chapter("Turn, fade, slide",
        """What if there is a move for every real number t, and time adds up: A(u) A(v) = A(u + v)? Then
        A(t) = exp(tX), and one matrix X says everything.""")
    turn, fade, slide = pe.generators.turn(1.0), pe.generators.fade(0.1), pe.generators.slide()

    def show(a, b, c):
        return [f"{a[0, 0]:.4f}", f"{a[1, 0]:.4f}", f"{np.squeeze(b):.4f}", f"{c[0, 1]:.0f}"]

    at = {t: [pe.transport(X, t) for X in (turn, fade, slide)] for t in (2.0, 3.0, 5.0)}
    product = [two @ three for two, three in zip(at[2.0], at[3.0], strict=True)]
    say.text("""pe.transport(X, t) computes exp(tX). The turn has X = [[0, -1], [1, 0]], the fade X = -0.1,
        the slide X = [[0, 1], [0, 0]]; the slide's upper right entry is how far (x, y) slides: (x + t y,
        y).""")
    say.table(["", "turn: cos", "sin", "fade", "slide"],
              [[f"A({t:.0f})", *show(*a)] for t, a in at.items()] + [["A(2) A(3)", *show(*product)]])

    def hurried(t):
        return pe.transport(turn, 0.01 * t * t)

    ts = np.linspace(-3, 3, 13)
    laws = [("turn", lambda t: pe.transport(turn, t)), ("fade", lambda t: pe.transport(fade, t)),
            ("slide", lambda t: pe.transport(slide, t)), ("hurried: angle 0.01 t^2", hurried)]
    say.text("""pe.group_law_residual(A, ts) is how far A(u) A(v) is from A(u + v) at worst, relative to their
        size, here for u and v from -3 to 3:""")
    say.table(["A(t)", "residual"], [[name, f"{pe.group_law_residual(A, ts):.1e}"] for name, A in laws])

    ticks = [1, 10, 1000, 100000]
    turned = pe.transport(turn, 1.0)
    misses = [np.abs(np.linalg.matrix_power(np.eye(2) + turn / n, n) - turned).max() for n in ticks]
    say.text("""X is what happens in one small tick, exp(X) what many small ticks add up to. How far n ticks
        of I + X/n are from the turn by 1:""")
    say.table(["ticks n", "miss"], [[f"{n}", f"{miss:.1e}"] for n, miss in zip(ticks, misses, strict=True)])
    t, size = 239 - 169 * np.sqrt(2.0), np.exp(239.0)
    say.notice("""turn, fade and slide obey the law to the last digit, for any t. The hurried turn is no
        group: going on for 3 after 2 is not the same as going 5.""")
    say.careful(f"""the theorem needs A to be continuous. A(m + n sqrt 2) = e^m obeys the law exactly, and
        at t = 239 - 169 sqrt 2 = {t:.4f}, a hair from 0, it is {size:.1e}.""")
