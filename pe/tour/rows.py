"""The list: every row, recognised from its matrix."""

from __future__ import annotations

import numpy as np

import pe


def six_rows(say):
    """Hand the six generators to classify, also in another basis, and then what the list leaves out."""
    say.chapter("Six rows",
        """A(u) = exp(uX) leaves one choice, the matrix X. What can X be? Its eigenvalues -gamma + i theta
        tell: gamma is its fate, theta its rhythm.""")
    turn, fade, slide = pe.generators.turn(1.0), pe.generators.fade(0.1), pe.generators.slide()
    damped = turn - 0.1 * np.eye(2)
    generators = [-fade, np.zeros((1, 1)), fade, turn, damped, slide]
    basis = np.random.default_rng(0).standard_normal((2, 2))

    def elsewhere(X):
        P = basis[:len(X), :len(X)]
        return pe.classify(P @ X @ np.linalg.inv(P)).row

    say.text("""pe.classify(X) names the behaviour. The last column is its answer for the same X in a random
        basis, where the entries of the matrix tell nothing (a single number has but one basis):""")
    answers = [pe.classify(X) for X in generators]
    say.table(["X", "eigenvalues", "row", "in another basis"], [
        [_matrix(X), _eigenvalues(answer), answer.row, elsewhere(X)]
        for X, answer in zip(generators, answers, strict=True)])
    say.text("Who uses which:")
    names = ["forbidden", "NoPE", "decay", "RoPE", "damped RoPE", "ALiBi"]
    say.table(["row", "known as", "shipped in"], [
        [answer.row, name, ", ".join(answer.shipped_in) or "-"]
        for name, answer in zip(names, answers, strict=True)])

    mixed = np.zeros((3, 3))
    mixed[:2, :2], mixed[2:, 2:] = turn, fade
    more = [mixed, slide - 0.1 * np.eye(2), np.kron(np.eye(2), turn) + np.kron(slide, np.eye(2))]
    say.text("Three more, which are none of the six:")
    say.table(["X", "eigenvalues", "row", "kinds"], [
        [_matrix(X), _eigenvalues(answer), answer.row, ", ".join(answer.kinds)]
        for X, answer in [(X, pe.classify(X)) for X in more]])
    _why_no_more(say)
    say.notice("""rotation is the only row that does something, keeps all information and can never blow up.
        That is the corner RoPE sits in.""")
    say.careful("""eigenvalues alone do not name a row: nothing and the slide both have 0 only. What a change
        of basis leaves alone is the Jordan structure, and the weights can absorb that change only as
        q' = P^T q, k' = P^-1 k, not when queries and keys are normalised or tied. Every exp(uX) can be
        undone, a fade too; "keeps all information" means that no direction shrinks towards nothing as the
        gap grows. And the six rows are the pure cases: mixtures and slides that also fade or turn exist as
        well.""")


def _why_no_more(say):
    """Take a generator of all three kinds apart, in a random basis, and put exp(uX) together again."""
    say.text("""Why can there be no more? Jordan's theorem: in a suitable basis, over the complex numbers,
        every X is made of blocks, each an eigenvalue -gamma + i theta and N, ones just above the diagonal.
        These parts commute, so exp(uX) is the product of what each does alone:""")
    say.table(["part", "exp(u part)", "name"], [
        ["-gamma", "e^(-gamma u)", "fade"],
        ["i theta", "cos(theta u) + i sin(theta u)", "turn"],
        ["N", "1 + uN + u^2 N^2/2 + ..., which ends", "slide"]])
    flat = [np.eye(4) * -0.1, np.kron(np.eye(2), pe.generators.turn(1.0)),
            np.kron(pe.generators.slide(), np.eye(2))]
    basis = np.random.default_rng(1).standard_normal((4, 4))
    parts = [basis @ part @ np.linalg.inv(basis) for part in flat]
    miss = np.abs(np.linalg.multi_dot([pe.transport(part, 3.0) for part in parts])
                  - pe.transport(sum(parts), 3.0)).max()
    (kind,) = pe.classify(sum(parts)).kinds
    say.text(f"""A 4 x 4 matrix with all three, in a random basis ("{kind}"): at u = 3 the three moves, one
        after the other, differ from exp(uX) by {miss:.1e} at most. A gamma below 0 is a fade run backwards:
        explode.""")


def _matrix(X):
    return "; ".join(" ".join(f"{entry:g}" for entry in row + 0.0) for row in X)


def _eigenvalues(answer):
    """Each block's eigenvalue, conjugate pairs in one, multiplicity where it is defective."""
    words = []
    for block in answer.blocks:
        real, imag = f"{block.eigenvalue.real + 0.0:g}", abs(block.eigenvalue.imag)
        word = real if imag == 0 else f"±{imag:g}i" if real == "0" else f"{real}±{imag:g}i"
        words.append(word + (f" (x{block.size})" if block.size > 1 else ""))
    return ", ".join(words)
