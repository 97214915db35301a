"""Two axes: what a position with two coordinates needs, and two routes to it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import pe
from pe import generators


def two_axes(say):
    """Try flattening, x + y, random planes and the block form on relativity and invertibility."""
    say.chapter("Two coordinates",
        """A picture has rows and columns. Why not number its patches one after the other? And if not,
        what must R_(x,y) = exp(x B1 + y B2) keep?""")
    h = 14
    number = np.arange(h * h).reshape(h, h)
    say.text(f"Distances after flattening a grid of {h} x {h} patches, row by row:")
    say.table(["from", "to", "on the grid", "flattened"], [
        [f"{a}", f"{b}", f"{np.hypot(*np.subtract(b, a)):.1f}", f"{abs(number[b] - number[a])}"]
        for a, b in [((3, 5), (3, 6)), ((3, 5), (4, 5)), ((3, h - 1), (4, 0))]])

    rng = np.random.default_rng(0)
    random = rng.standard_normal((2, 4, 4))
    families = [
        *((f"block form, {k} axes", generators.axial(k)) for k in (2, 3, 4)),
        ("x + y in one plane", 2 * [generators.turn(1.0)]),
        ("two random skew B", random - random.swapaxes(1, 2)),
    ]
    say.text("""Two things are asked for. Relativity: R_p^T R_q depends on q - p only.
        Invertibility: the position can be read off R. pe.generators measures both:""")
    say.table(["generators", "size", "commute", "relativity residual", "positions kept"], [
        [name, f"{len(Bs[0])}x{len(Bs[0])}", f"{generators.commute(Bs):.2f}",
         f"{generators.relativity_residual(Bs):.1e}", "yes" if generators.is_injective(Bs) else "NO"]
        for name, Bs in families])

    def at(Bs, *p):
        return pe.transport(np.tensordot(p, Bs, axes=1), 1.0)

    lost = np.linalg.norm(at(families[3][1], 1, 2) - at(families[3][1], 2, 1))
    x, y = generators.position_of(at(generators.axial(2), 1.25, -3.0), generators.axial(2))
    q, k = rng.standard_normal((2, 1, 4))
    scores = [(pe.apply_rope_2d(q, [a], [b]) @ pe.apply_rope_2d(k, [c], [d]).T).item()
              for a, b, c, d in [(1, 2, 4, 6), (11, 22, 14, 26)]]
    say.text(f"""x + y cannot tell (1, 2) from (2, 1): the two matrices differ by {lost:.0f}. From the
        block form at (1.25, -3) pe.generators.position_of reads ({x:.2f}, {y:.2f}). pe.apply_rope_2d is
        the block form: a query at (1, 2) and a key at (4, 6) score {scores[0]:.6f}, at (11, 22) and
        (14, 26) {scores[1]:.6f}.""")
    say.notice("""both axes turn, each in planes of its own, and generators in different planes
        commute. More axes need more planes and nothing else.""")
    say.careful("""commuting is not only enough but needed, for real x and y. And a position is read
        back within the range where the slowest hand has not wrapped.""")


def quaternions(say):
    """Measure the quaternion route, then solve for a second axis in three and in four dimensions."""
    say.chapter("Quaternions fail, matrices do not",
        """Complex numbers turn a plane, so quaternions should turn for two axes: e^(xi + yj). Where
        does it break?""")
    _, i, j, k = generators.quaternion_matrix(np.eye(4, dtype=int))
    same = [np.array_equal(i @ j, k), np.array_equal(j @ i, -k)]
    say.text(f"""As 4 x 4 matrices: i j = k is {same[0]}, j i = -k is {same[1]}. So e^(xi) e^(yj) is
        not e^(xi + yj), the one step of the derivation that fails. How far relativity is off
        (Frobenius):""")
    pairs = [((0.3, 0.7), (1.1, -0.4)), ((1, 2), (3, 5))]
    say.table(["from", "to", "quaternion i, j", "block form"], [
        [f"{p}", f"{q}", *(f"{generators.relativity_residual(Bs, at=(p, q)):.4g}"
                           for Bs in ((i, j), generators.axial(2)))]
        for p, q in pairs])

    def skew(size, below):
        B = np.full((size, size), Fraction(0))
        for (row, column), value in below.items():
            B[row, column], B[column, row] = Fraction(value), -Fraction(value)
        return B

    def unit(size, row, column):
        return skew(size, {(row, column): 1})

    three = generators.commutant(unit(3, 1, 0), within=[unit(3, 2, 0), unit(3, 2, 1)], method="exact")
    say.text(f"""Matrices then: given B1, which skew B2 commute with it? In three dimensions, B1
        turning the first plane and B2 made of the other two, the solutions have dimension {len(three)}:
        only B2 = 0. In four dimensions B1 has 1, b, c above and B2 has d, e, f in the last row; in
        exact fractions, for f = 1:""")
    rows = []
    for b, c in [(0, 0), (Fraction(3, 10), Fraction(1, 2)), (2, -3)]:
        first = skew(4, {(1, 0): 1, (2, 0): b, (2, 1): c})
        last_row = [unit(4, 3, column) for column in range(3)]
        (second,) = generators.commutant(first, within=last_row, method="exact")
        joint = generators.joint_spectrum([first, second])
        fast = np.abs(joint.freqs).max(axis=1)
        rows.append([f"{b}", f"{c}", *(f"{second[3, column]}" for column in range(3)), f"{fast[0]:.4f}",
                     f"{fast[1]:.4f}"])
    say.table(["b", "c", "d", "e", "f", "B1 turns by", "B2 turns by"], rows)
    say.notice("""d = c f and e = -b f, and f is free. Whatever b and c are, B1 turns one plane and B2
        the other: the general solution is the block form in another basis (pe.generators.joint_spectrum
        finds it).""")
    say.careful("""the inner product Re(q k*) and the Euler formula do carry over to quaternions; it is
        the sum in the exponent that does not.""")
