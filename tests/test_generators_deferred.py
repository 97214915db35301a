"""Answers of a stack: worked out when looked at, and then those of one matrix."""

import copy
import pickle

import numpy as np
import pytest

from pe.generators import Classification, classify, slide, turn
from pe.generators.deferred import FIELDS, Deferred


def test_nothing_is_computed_before_it_is_asked_for():
    asked = []

    def answer_for(matrix):
        asked.append(matrix)
        return classify(matrix)

    answer = Deferred(answer_for, slide())
    assert isinstance(answer, Classification) and asked == []
    assert answer.row == "slide" and answer.kinds == {"slide": 1} and len(asked) == 1


def test_a_stack_gives_the_answers_of_its_matrices():
    stack = np.random.default_rng(0).standard_normal((3, 4, 2, 2))
    answers = classify(stack)
    assert answers.shape == (3, 4)
    for index in np.ndindex(3, 4):
        alone, answer = classify(stack[index]), answers[index]
        assert answer.blocks == alone.blocks and answer.summary() == alone.summary()
        assert np.array_equal(answer.basis, alone.basis) and repr(answer) == repr(alone)


def test_later_changes_of_the_stack_do_not_matter():
    stack = np.array([slide(), turn(1.0)])
    answers = classify(stack)
    stack[:] = 0
    assert [answer.row for answer in answers] == ["slide", "turn"]


def test_a_large_stack_and_empty_ones():
    answers = classify(np.broadcast_to(turn(1.0), (20000, 2, 2)))
    assert answers.shape == (20000,) and answers[-1].row == "turn"
    assert classify(np.zeros((0, 2, 2))).shape == (0,) and classify(np.zeros((3, 0, 0)))[1].blocks == ()


def test_it_copies_and_pickles_as_a_classification():
    answer = classify(np.array([slide()]))[0]
    for again in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert type(again) is Classification and again.row == "slide"


def test_unknown_names_are_attribute_errors():
    answer = classify(np.array([slide()]))[0]
    with pytest.raises(AttributeError, match="colour"):
        _ = answer.colour
    assert "blocks" in FIELDS and not hasattr(answer, "_question_")


def test_bad_matrices_are_refused_at_once():
    with pytest.raises(ValueError, match="finite"):
        classify(np.array([[[np.nan]]]))
