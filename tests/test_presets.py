"""`pe.presets`: frequencies, positions and turned vectors of the models they are named after."""

import doctest

import mpmath
import numpy as np
import pytest
from golden_cases import rope_cases

import pe
from pe import presets

VISION = dict(rope_cases("rope_vision"))
# the preset of a model's size, and the positions its page tells to make
MODELS = {
    "pixtral": (presets.pixtral(64), np.stack(pe.grid_positions(3, 5)[::-1], axis=-1)),
    "qwen2_vl_vision": (presets.qwen2_vl_vision(80), presets.qwen2_vl_vision_positions(4, 6)),
    "llama4_vision": (presets.llama4_vision(88), presets.llama4_vision_positions(4, 4)),
    "dinov3": (presets.dinov3(64), presets.dinov3_positions(3, 5, prefix=5)),
    "sam2": (presets.sam2(32), np.stack(pe.grid_positions(3, 5), axis=-1)),
    "sam3_global": (presets.sam2(32), np.stack(pe.grid_positions(6, 6), axis=-1) * (2 / 6)),
}


def test_docstring_examples_run():
    result = doctest.testmod(presets)
    assert result.attempted > 20 and result.failed == 0


@pytest.mark.parametrize("name", MODELS)
def test_golden_model(name):
    rope, positions = MODELS[name]
    case = VISION[name]
    np.testing.assert_allclose(rope.freqs, case.freqs, rtol=1e-14)
    assert rope.layout == case.layout and rope.dim == case.q.shape[-1]
    np.testing.assert_allclose(positions, case.positions.reshape(positions.shape), rtol=0, atol=1e-15)
    for dtype, unit in ((np.float64, 2.0**-49), (np.float32, 2.0**-22)):
        x = case.q.astype(dtype)
        along = positions if x.shape[-2] == len(positions) else positions[:, None]      # (..., T, H, D)
        along = along if along.ndim == 2 else np.broadcast_to(along, (*x.shape[:-1], 2))
        got = rope.apply(x, along)
        np.testing.assert_allclose(got, case.q_exact, rtol=0, atol=unit * np.abs(x).max() * 4)
        np.testing.assert_allclose(got, case.q_hf32, rtol=0, atol=2e-6 * np.abs(x).max())


def test_keys_of_several_frames():
    """SAM 2 repeats the grid for the keys of each frame, and leaves object pointers alone."""
    case, grid = VISION["sam2"], np.stack(pe.grid_positions(3, 5), axis=-1)
    positions = np.concatenate([grid, grid, np.zeros((3, 2), int)])
    np.testing.assert_array_equal(positions, case.positions_k.reshape(-1, 2))
    got = presets.sam2(32).apply(case.k.astype(np.float64), positions)
    np.testing.assert_allclose(got, case.k_exact, rtol=0, atol=1e-14)


def test_qwen2_vl():
    case = dict(rope_cases("rope_mrope"))["qwen2_vl"]
    rope = presets.qwen2_vl()
    np.testing.assert_allclose(rope.freqs, case.freqs, rtol=1e-14)
    assert rope.layout == case.layout
    positions = np.broadcast_to(case.positions, (*case.q.shape[:-1], 3))
    largest = np.abs(case.q).max()
    bound = rope.error_bound(np.abs(case.positions).max(axis=(0, 1, 2)), np.float64)
    np.testing.assert_allclose(rope.apply(case.q.astype(np.float64), positions), case.q_exact, rtol=0,
                               atol=bound * 1.5 * largest)


@pytest.mark.parametrize("preset, base", [(presets.rope_vit_axial, 100), (presets.sam2, 10000),
                                          (presets.llama4_vision, 10000)])
def test_interleaved_halves_against_mpmath(preset, base):
    """x turns the first half of a head and y the last, pairs adjacent: every coordinate in 40 digits."""
    x = np.random.default_rng(0).normal(size=(6, 8))
    positions = np.stack(pe.grid_positions(2, 3), axis=-1)
    got = preset(8).apply(x, positions)
    with mpmath.workdps(40):
        for token, plane in np.ndindex(6, 4):
            axis, j = divmod(plane, 2)
            angle = int(positions[token, axis]) * mpmath.mpf(base) ** (-mpmath.mpf(4 * j) / 8)
            a, b = (mpmath.mpf(float(v)) for v in x[token, 2 * plane:2 * plane + 2])
            want = [float(a * mpmath.cos(angle) - b * mpmath.sin(angle)),
                    float(a * mpmath.sin(angle) + b * mpmath.cos(angle))]
            np.testing.assert_allclose(got[token, 2 * plane:2 * plane + 2], want, atol=1e-15)


def test_the_order_of_axes_shows_on_a_grid_that_is_no_square():
    """Swapped axes agree on a diagonal, and on nothing else."""
    x = np.random.default_rng(1).normal(size=(15, 64))
    columns, rows = pe.grid_positions(3, 5)
    for preset in (presets.pixtral, presets.qwen2_vl_vision, presets.rope_vit_axial):
        orders = (rows, columns), (columns, rows)
        right, swapped = (preset(64).apply(x, np.stack(order, axis=-1)) for order in orders)
        same = np.isclose(right, swapped).all(axis=1)
        np.testing.assert_array_equal(same, rows == columns)


def test_scores_depend_on_both_gaps_alone():
    q, k = np.random.default_rng(2).normal(size=(2, 1, 64))
    for preset in (presets.pixtral, presets.qwen2_vl_vision, presets.rope_vit_axial, presets.dinov3):
        rope = preset(64)
        near, far = ((rope.apply(q, [[y, x]]) @ rope.apply(k, [[y - 2, x + 1]]).T).item()
                     for y, x in ((2, 0), (57, 31)))
        assert near == pytest.approx(far, abs=1e-12)


def test_dinov3_does_not_see_the_size_of_an_image():
    """Corners of a finer grid stand where the coarse patch that holds them does, on average."""
    coarse, fine = presets.dinov3_positions(3, 5), presets.dinov3_positions(6, 10)
    means = fine.reshape(3, 2, 5, 2, 2).mean(axis=(1, 3)).reshape(15, 2)
    np.testing.assert_allclose(means, coarse, atol=1e-15)
    assert (np.abs(fine) < 1).all() and presets.dinov3_positions(0, 5, prefix=2).tolist() == [[0, 0], [0, 0]]


def test_provenance_names_the_model_and_its_paper():
    for name, (rope, _) in MODELS.items():
        assert rope.provenance.paper and rope.provenance.formula, name
    assert presets.rope_vit_axial(16).provenance.family == "rope_vit"


@pytest.mark.parametrize("make, error, words", [
    (lambda: presets.rope_vit_axial(6), ValueError, "dim must be a multiple of 4.*6"),
    (lambda: presets.dinov3(64.0), TypeError, "dim .*integer.*64.0"),
    (lambda: presets.pixtral(64, base=0.5), ValueError, "base must be at least 1.*0.5"),
    (lambda: presets.qwen2_vl(128, sections=(16, 24, 25)), ValueError, "sections .*add up to D/2 = 64.*25"),
    (lambda: presets.qwen2_vl_vision_positions(3, 4), ValueError, "height must be a multiple of merge=2.*3"),
    (lambda: presets.qwen2_vl_vision_positions(4, 4, merge=0), ValueError, "merge .*at least 1"),
    (lambda: presets.dinov3_positions(3, 5, prefix=-1), ValueError, "prefix .*at least 0"),
    (lambda: presets.llama4_vision_positions(-1, 5), ValueError, "height"),
])
def test_bad_values(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'qwen2_5_vl_vision'; did you mean 'qwen2_vl_vision'"):
        presets.qwen2_5_vl_vision  # noqa: B018
    with pytest.raises(TypeError, match=r"pixtral\(\) is missing dim; call presets.pixtral\(64\)"):
        presets.pixtral()
