import pytest

from lwm_agents.scores import DISAGREEMENT_CAP, Rubric, fidelity
from lwm_agents.values import Action, Observation


def marks(left: str, right: str, command: str = "", *, is_error: bool = False) -> Rubric:
    predicted = Observation(text=left, source="imagined", is_error=is_error, confidence=0.5)
    action = Action(tool="shell", arguments={"command": command})
    return fidelity(predicted, Observation(text=right, source="executed"), action).rubric


def test_what_is_exact_after_masking_has_full_marks() -> None:
    got = marks("took 12 ms", "took 40 ms")
    assert set(got.model_dump().values()) == {1.0}


def test_format_looks_at_structure_and_not_at_values() -> None:
    assert marks('{"a": 1, "b": "x"}', '{"a": 2, "b": "y"}').format == 1
    assert marks('{"a": "1"}', '{"a": 1}').format == 0.5
    assert marks("a is 1", '{"a": 1}').format == 0
    assert marks("12 red/apples", "7 green/pears").format == 1
    assert marks("no such file", "7 green/pears\n8 red/plums").format < 0.5


def test_factuality_is_f1_of_words_and_numbers() -> None:
    assert marks("a 1 b 2", "a 1 b 3").factuality == 0.75
    assert marks("a 1", "a 1 b 3").factuality == pytest.approx(2 * 2 / 6)
    assert marks("b 2 a 1", "a 1 b 2").factuality == 1


def test_consistency_wants_nothing_invented_and_the_action_repeated() -> None:
    assert marks("a b", "a b c d").consistency == 1
    assert marks("a z", "a b c d").consistency == 0.5
    assert marks("a z", "a b c d", "cat z").consistency == 1
    # `x` of the action is in what happened and not in the prediction.
    assert marks("no such file", "no such file: x", "cat x").consistency == 0


def test_realism_wants_the_length_and_the_shapes_of_what_happened() -> None:
    assert marks("3 apples", "4 apples").realism == 1
    assert marks("3 apples", "3 apples\n" * 4).realism == pytest.approx((0.25 + 1) / 2)
    assert marks("a: 12/9", "3 apples").realism < 0.5


@pytest.mark.parametrize("tell", ["```", "<think>", "As an AI, ...", "The output would be:", "..."])
def test_realism_is_halved_where_a_model_speaks(tell: str) -> None:
    plain, told = marks("3 apples\nxx", "4 apples"), marks(f"3 apples\n{tell}", "4 apples")
    assert told.realism < plain.realism
    assert marks(f"3 apples\n{tell}", f"4 apples\n{tell}").realism == 1


def test_an_error_taken_for_a_success_may_look_right_but_is_not() -> None:
    got = marks("took 12 ms", "took 40 ms", is_error=True)
    assert (got.format, got.realism) == (1, 1)
    assert got.factuality == got.consistency == got.quality == DISAGREEMENT_CAP


def test_no_answer_has_no_marks() -> None:
    got = fidelity(None, Observation(text="x", source="executed"))
    assert set(got.rubric.model_dump().values()) == {0.0}
    assert set(marks("", "x").model_dump().values()) == {0.0}
