from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.scores import DISAGREEMENT_CAP, fidelity, fold, similarity
from lwm_agents.scores.text import PAIR_LIMIT
from lwm_agents.values import Observation


def imagined(text: str, *, is_error: bool = False) -> Observation:
    return Observation(text=text, source="imagined", is_error=is_error, confidence=0.5)


def happened(text: str, *, is_error: bool = False, error_known: bool = True) -> Observation:
    return Observation(text=text, source="executed", is_error=is_error, error_known=error_known)


def test_the_same_text_scores_one() -> None:
    got = fidelity(imagined("a.txt\nb.txt\n"), happened("a.txt\nb.txt\n"))
    assert (got.score, got.exact, got.error_agreement, got.similarity) == (1.0, True, True, 1.0)


def test_blanks_and_line_ends_do_not_count() -> None:
    got = fidelity(imagined("  total 4\r\n a\t\tb "), happened("total 4\na b\n"))
    assert got.exact
    assert got.score == 1.0
    assert not fidelity(imagined("ab"), happened("a b")).exact


def test_similarity_is_difflibs_ratio() -> None:
    left, right = "-rw-r--r-- 1 root root 12 notes", "-rw-r--r-- 1 root root 47 notes.txt"
    got = fidelity(imagined(left), happened(right))
    assert not got.exact
    assert got.similarity == SequenceMatcher(None, left, right, autojunk=False).ratio()


def test_an_empty_prediction_of_something_scores_nothing_and_so_does_the_reverse() -> None:
    assert fidelity(imagined(""), happened("3 files")).score == 0
    assert fidelity(imagined(" \n"), happened("3 files")).score == 0
    assert fidelity(imagined("3 files"), happened("")).score == 0
    assert fidelity(imagined(""), happened("\n")).score == 1


@pytest.mark.parametrize(
    "prediction", [None, Observation(text="gone", source="unanswered", is_error=True)]
)
def test_no_answer_scores_nothing_even_where_its_words_fit(prediction: Observation | None) -> None:
    got = fidelity(prediction, happened("gone", is_error=True))
    assert (got.score, got.exact, got.error_agreement, got.similarity) == (0, False, False, 0)
    assert fidelity(prediction, happened("gone", error_known=False)).error_agreement is None


@pytest.mark.parametrize("is_error", [True, False])
def test_taking_an_error_for_a_success_caps_the_score(is_error: bool) -> None:
    same = fidelity(imagined("ls: x", is_error=not is_error), happened("ls: x", is_error=is_error))
    assert same.exact
    assert same.error_agreement is False
    assert same.score == DISAGREEMENT_CAP
    other = fidelity(imagined("q", is_error=not is_error), happened("ls: x", is_error=is_error))
    assert other.score == 0, "the cap raises nothing"


def test_errors_can_not_disagree_where_the_recording_does_not_say() -> None:
    got = fidelity(imagined("ls: x", is_error=True), happened("ls: x", error_known=False))
    assert got.error_agreement is None
    assert got.score == 1


def test_long_texts_are_compared_by_words_in_order() -> None:
    rows = [f"row {n} holds {n * 7919 % 10007}" for n in range(800)]
    text = "\n".join(rows)
    assert len(text) ** 2 / 60 > PAIR_LIMIT
    changed = fidelity(imagined(text.replace("row 400 ", "row 401 ")), happened(text))
    assert not changed.exact
    assert 0.99 < changed.similarity < 1
    half = fidelity(imagined("\n".join(rows[:400])), happened(text))
    assert 0.6 < half.similarity < 0.7


def test_compact_json_has_words_too() -> None:
    text = "{" + ",".join(f'"key{n}":{n * 7919}' for n in range(800)) + "}"
    got = fidelity(imagined(text.replace("7919", "8000")), happened(text))
    assert 0.9 < got.similarity < 1


@pytest.mark.parametrize(
    ("left", "right", "least", "most"),
    [
        ("a" * 200_000, "ab" * 100_000, 0, 1),  # cubic for difflib by characters
        ("x, " * 100_000, "x, " * 50_000, 0.6, 0.7),  # cubic for difflib by words
        ("!?" * 300_000, "?" * 100_000, 0, 1),
        (" " * 5_000, " " * 5_000, 1, 1),
    ],
)
def test_texts_that_difflib_would_never_finish(
    left: str, right: str, least: float, most: float
) -> None:
    assert least <= similarity(left, right) <= most


def test_of_huge_texts_only_head_and_tail_count_for_similarity_but_all_for_exact() -> None:
    text = "line of a log\n" * 200_000
    middle = len(text) // 2
    other = text[:middle] + "something else" + text[middle:]
    got = fidelity(imagined(other), happened(text))
    assert not got.exact
    assert got.similarity > 0.99
    assert fidelity(imagined(text + "\n"), happened(text)).exact


@given(st.text(max_size=60), st.text(max_size=60), st.booleans(), st.booleans())
def test_every_pair_scores_between_nought_and_one(
    left: str, right: str, left_error: bool, right_error: bool
) -> None:
    got = fidelity(imagined(left, is_error=left_error), happened(right, is_error=right_error))
    assert 0 <= got.score <= 1
    assert 0 <= got.similarity <= 1
    assert got.exact == (fold(left) == fold(right))
    assert (got.score == 1) == (got.exact and left_error == right_error)


@given(st.text(max_size=200))
def test_folding_leaves_single_spaces_and_no_other_blanks(text: str) -> None:
    assert fold(text) == " ".join(text.split())
