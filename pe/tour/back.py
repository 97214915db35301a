"""The way back from scores to a generator, and the fence around all that have one."""

from __future__ import annotations

import numpy as np

import pe
from pe import generators


def way_back(say):
    """Fit generators to scores of the family and of others, and show what one step cannot know."""
    say.chapter("The way back",
        """A generator gives scores. Given nothing but the scores at gaps 0, 1, 2, ..., can one find the
        generator, or tell that there is none?""")
    u = np.arange(64)
    w = pe.Rope(16).freqs[0]
    noise = np.random.default_rng(0).standard_normal((2, 64))
    rope = np.cos(np.outer(u, w)).sum(axis=1)
    far = 16 + (np.log(np.maximum(u, 1) / 16) * 7.7).astype(int)
    buckets = noise[0][np.where(u < 16, u, np.minimum(far, 31))]
    curves = [
        ("-0.5 u (ALiBi)", -0.5 * u), ("e^(-0.1 u) (decay)", np.exp(-0.1 * u)),
        ("cos 0.3 u", np.cos(0.3 * u)), ("e^(-0.1 u) cos 0.5 u", np.exp(-0.1 * u) * np.cos(0.5 * u)),
        ("u e^(-0.1 u)", u * np.exp(-0.1 * u)), ("RoPE, 8 planes", rope),
        ("-log(1 + u)", -np.log1p(u)), ("1 / (1 + u)", 1 / (1 + u)), ("T5 buckets", buckets),
        ("RoPE and noise", rope + noise[1]),
    ]
    say.text("""Every score of the family obeys a recurrence, like 1, 2, 3, ... or a swinging cosine;
        its length is the size of X. pe.generators.fit_generator looks for it in 64 scores:""")
    rows = []
    for name, scores in curves:
        fit = generators.fit_generator(scores)
        found = ", ".join(fit.classification.kinds) if fit.inside else "outside the family"
        rows.append([name, found, f"{fit.order}" if fit.inside else "-", f"{fit.residual:.0e}"])
    say.table(["scores", "generator", "size", "residual"], rows)
    seen = generators.generator_of(pe.transport(generators.turn(7.0), 1.0))[1, 0]
    true = generators.generator_of(lambda t: pe.transport(generators.turn(7.0), t))[1, 0]
    try:
        generators.generator_of(np.diag([1.0, -1.0]))
        flip = "a generator"
    except ValueError as error:
        flip = str(error).split(".")[0]
    say.text(f"""One step knows a turn only up to whole turns. From A(1) of a turn by 7,
        pe.generators.generator_of finds {seen:.4f}, for cos 7u = cos {seen:.4f}u at every integer; from
        A(t) at all t it finds {true:.4f}. For diag(1, -1) it says: {flip}.""")
    say.notice("""log distance and 1 / (1 + u) can be approximated as well as one likes, and yet no
        size is enough. Buckets and noise are not even near.""")
    say.careful("""64 scores see only what moves within 64 positions: of the sixteen coordinates of
        RoPE they show ten.""")


def fence(say):
    """Put scores of every sort before check_encoding."""
    say.chapter("The fence",
        """Linear, relative, continuous: these three lead to exp(uX). What does a score look like that
        breaks one of them?""")
    rope = pe.Rope(8)
    learned, relative = np.random.default_rng(0).standard_normal((2, 100, 8))

    def turned(q, k, t, s):
        return pe.apply_rope(q, positions=[t], rope=rope) @ pe.apply_rope(k, positions=[s], rope=rope)

    scores = [
        ("q.k", lambda q, k, t, s: q @ k),
        ("RoPE", turned),
        ("q.k - 0.5 (t - s)", lambda q, k, t, s: q @ k - 0.5 * (t - s)),
        ("q.k e^(-0.1 (t - s))", lambda q, k, t, s: q @ k * np.exp(-0.1 * (t - s))),
        ("RoPE - 0.1 (t - s)", lambda q, k, t, s: turned(q, k, t, s) - 0.1 * (t - s)),
        ("learned table", lambda q, k, t, s: (q + learned[t]) @ (k + learned[s])),
        ("raw index added", lambda q, k, t, s: (q + t) @ (k + s)),
        ("table of gaps", lambda q, k, t, s: q @ k + relative[t - s, 0]),
        ("step at gap 5", lambda q, k, t, s: q @ k * (1.0 if t - s < 5 else 0.5)),
        ("tanh(q.k) e^(..)", lambda q, k, t, s: np.tanh(q @ k) * np.exp(-0.1 * (t - s))),
        ("gate from the key", lambda q, k, t, s: q @ k * np.exp(-abs(k[0]) * (t - s))),
        ("q.k - log(1+|t-s|)", lambda q, k, t, s: q @ k - np.log1p(abs(t - s))),
        ("q.k - 0.5 |t - s|", lambda q, k, t, s: q @ k - 0.5 * abs(t - s)),
    ]
    say.text("""pe.generators.check_encoding takes any score(q, k, t, s), tries the three assumptions
        in turn, and recovers X where all hold. A dash is a question that was not reached:""")
    rows, counterexamples = [], []
    for name, score in scores:
        report = generators.check_encoding(score)
        kinds = ", ".join(report.classification.kinds) if report.inside else "none"
        rows.append([name, *_until_the_first_no(report), kinds])
        if not report.inside:
            counterexamples.append([name, _counterexample(report.counterexample)])
    say.table(["score", "linear", "relative", "continuous", "generator"], rows)
    say.text("""Each NO comes with values that show it, found at small positions first:""")
    say.table(["score", "counterexample"], counterexamples)
    say.notice("""everything that passes is made of the rows you know, and recovered from values alone.
        RoPE with ALiBi is one generator with ten coordinates, eight that turn and two that slide.""")
    say.careful("""log distance is linear in q and k, but no finite number of coordinates produces it
        as a map of the query times a map of the key, and |t - s| is two slides glued at 0: linear fails
        in that sense, and last. A gate that moves the clock rather than the score stays inside.""")


def _counterexample(seen):
    """Say in one line what check_encoding found."""
    if "scores" in seen:
        return "t, s = {} and {}: {:.3f}, {:.3f}".format(seen["at t, s"], seen["shifted to"], *seen["scores"])
    if "sum of parts" in seen:
        return f"whole {seen['score']:.3f}, sum of parts {seen['sum of parts']:.3f}"
    if "jump" in seen:
        return f"jumps by {seen['jump']:.2g} at gap {seen['gap']:g}"
    if "difference" in seen:
        return f"X of keys behind misses by {seen['difference']:.2g} at gap {seen['gap']:g}"
    if "gap" in seen:
        return f"no score at gap {seen['gap']:g}"
    return f"{seen['coordinates tried']} coordinates leave {seen['relative error left']:.0e}"


def _until_the_first_no(report):
    """Answers to the three questions; "-" for those behind the first that fails."""
    if not report.linear and report.relative and report.continuous:
        return ["NO", "yes", "yes"]  # all three were tried, and the generator was looked for in vain
    answers = []
    for holds in (report.linear, report.relative, report.continuous):
        answers.append("-" if "NO" in answers else "yes" if holds else "NO")
    return answers
