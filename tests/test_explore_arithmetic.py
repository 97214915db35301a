"""What the figure's modules compute in the browser, against the same formulas in Python."""

import re
from importlib.resources import files

import chromium
import numpy as np
import pytest

from pe.explore.bundle import bundle, source
from pe.plot import data, trajectories

ARITHMETIC = bundle("matrix", "trajectories") + """
const { transport, study, numbers, plainest, rebase } = $matrix, { flow, heads, still } = $trajectories;
const { decimals } = $numbers;"""
PRESETS = [np.array([[a, b], [c, d]]) for a, b, c, d, _ in data.PRESETS.values()]
SHAPES = [*PRESETS, [[-0.1, 1], [0, -0.1]], [[1, 0], [0, -1]], [[-2, 0], [0, -0.0001]], [[2, 2], [2, 2]],
          [[-1, 0.5], [0, 0]], [[-1, 0.8], [0.3, -0.5]], [[-0.1, 2], [0, -0.3]], [[0, 1], [-0.05, 0]],
          [[0.05, 1], [-1, 0.05]], [[0, 0], [-1, 0]]]
# Entries whose squares vanish.
TINY = [[[1e-160, 1], [-1, 1e-160]], [[0, 1e-200], [-1e-200, 0]], [[1e-200, 0], [0, 2e-200]],
        [[0, 1e-320], [0, 0]]]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium.launch() as browser, chromium.offline(browser, tmp_path_factory.mktemp("page")) as opener:
        yield opener("<p>arithmetic</p>")


def test_arithmetic_against_its_twin(page):
    rng = np.random.default_rng(11)
    cases = [*rng.uniform(-2, 2, (200, 2, 2)), *np.round(rng.uniform(-2, 2, (150, 2, 2)), 2),
             *(rng.integers(-4, 5, (150, 2, 2)) / 4), *(np.array(X, dtype=float) for X in [*SHAPES, TINY[0]])]
    for a, b, size in zip(*rng.uniform(-2, 2, (2, 100)), 10.0 ** rng.uniform(-12, -2, 100), strict=True):
        cases.append(np.array([[a, b], [size * b, a]]))     # nearly defective: D = size b^2
    gaps = rng.uniform(0, 20, len(cases))
    found = page.evaluate(f"cases => {{ {ARITHMETIC}\n return cases.map(([X, u]) => {{ const s = study(X);"
                          "return [transport(X, u), s, numbers(X, u, s)]; }) }",
                          [[X.ravel().tolist(), u] for X, u in zip(cases, gaps.tolist(), strict=True)])
    kinds = set()
    for X, u, (A, study, texts) in zip(cases, gaps, found, strict=True):
        mine = data.transport_2x2(X, u)
        assert np.abs(np.reshape(A, (2, 2)) - mine).max() <= 1e-13 * np.abs(mine).max()
        shown = data.generator(X, u)
        kinds.add(shown.kind)
        assert study["kind"] == shown.kind
        differ = [key for key, (_, text) in shown.numbers().items() if texts[key] != text]
        assert not differ, (X.tolist(), u, differ, texts)
    assert kinds == set(data.KINDS)


def test_another_basis_keeps_the_eigenvalues_and_the_sliders(page):
    cases = [np.array(X, dtype=float).ravel().tolist() for X in SHAPES]
    cases += (np.random.default_rng(3).integers(-40, 41, (300, 4)) / 20).tolist()
    found = page.evaluate(f"cases => {{ {ARITHMETIC}\n return cases.map((X) => rebase(X, [-2, 2, 0.05])); }}",
                          cases)
    mirrored = 0
    for X, other in zip(cases, found, strict=True):
        (a, b, c, d), Y = X, np.reshape(other, (2, 2))
        assert np.abs(Y).max() <= 2
        assert data.invariants([[a, b], [c, d]]) == data.invariants(Y)
        assert data.behaviour([[a, b], [c, d]]) == data.behaviour(Y)
        assert (other == X) == (b == c == a - d == 0), "only a multiple of I looks the same"
        mirrored += other == [a, -b, -c, d]
    assert mirrored > 100


def test_the_plainest_generator_of_a_point(page):
    points = np.random.default_rng(4).uniform(-4, 4, (500, 2)).tolist()
    found = page.evaluate(f"points => {{ {ARITHMETIC}\n const limits = [-2, 2, 0.05];"
                          "return points.map((p) => plainest(p, limits)); }", points)
    reached = 0
    for (trace, determinant), (a, b, c, d) in zip(points, found, strict=True):
        assert a == d and abs(b) == c and max(abs(a), c) <= 2
        assert np.abs([20 * a - round(20 * a), 20 * c - round(20 * c)]).max() < 1e-12, "on the sliders' steps"
        got = data.invariants([[a, b], [c, d]])
        assert abs(float(got[0]) - trace) <= 0.05 + 1e-9
        if abs(trace**2 / 4 - determinant) < 4:
            reached += 1
            assert abs(float(got[1]) - determinant) < 0.21
    assert reached > 300


def test_trajectories_against_their_twin(page):
    found = page.evaluate(f"shapes => {{ {ARITHMETIC}\n return shapes.map((X) => {{ const s = study(X);"
                          "const c = flow(X, s); return [c, heads(c), still(s)]; }) }",
                          [np.ravel(X).tolist() for X in SHAPES + TINY])
    for X, (curves, marks, fixed) in zip(SHAPES + TINY, found, strict=True):
        mine = trajectories.flow(X)
        for theirs, curve in zip(curves, mine, strict=True):
            np.testing.assert_allclose(theirs, curve, atol=1e-9)
        np.testing.assert_allclose(np.reshape(marks, (-1, 3)), trajectories.heads(mine), atol=1e-9)
        np.testing.assert_allclose(fixed, trajectories.still(X), atol=1e-12)


def test_decimals_against_their_twin(page):
    sizes = np.random.default_rng(2).choice([-1, 1], 400) * 10.0 ** np.linspace(-12, 12, 400)
    values = [*sizes.tolist(), 0.0, 0.03125, 0.0099999, 99999.99999, 1e-6, 9.9999e-7]
    found = page.evaluate(f"values => {{ {ARITHMETIC}\n return values.map(decimals); }}", values)
    assert found == [data.decimals(v) for v in values]


MODULES = sorted(path.stem for path in files("pe.explore").iterdir() if path.suffix == ".js")


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_small_and_imports_what_is_exported(name):
    text = source(f"{name}.js")
    assert text.startswith("// ") and len(text.splitlines()) < 200
    exported = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)
    exports = {module: set(exported.findall(source(f"{module}.js"))) for module in MODULES}
    imports = re.findall(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', text, re.MULTILINE)
    assert len(imports) == len(re.findall(r"\bimport\b", text)), "an import that the bundle would not see"
    for words, module in imports:
        assert set(words.split(", ")) <= exports[module]
        for word in words.split(", "):
            assert len(re.findall(rf"\b{word}\b", text)) > 1, f"{word} is not used"
