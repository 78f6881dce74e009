from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.scores import fold, similarity
from lwm_agents.scores.text import PAIR_LIMIT, Line, in_order, lines_of


def test_similarity_is_difflibs_ratio() -> None:
    left, right = "-rw-r--r-- 1 root root 12 notes", "-rw-r--r-- 1 root root 47 notes.txt"
    ratio = SequenceMatcher(None, left, right, autojunk=False).ratio()
    assert similarity(left, right) == ratio


def test_long_texts_are_compared_by_words_in_order() -> None:
    rows = [f"row {n} holds {n * 7919 % 10007}" for n in range(800)]
    text = "\n".join(rows)
    assert len(text) ** 2 / 60 > PAIR_LIMIT
    assert 0.99 < similarity(text.replace("row 400 ", "row 401 "), text) < 1
    assert 0.6 < similarity("\n".join(rows[:400]), text) < 0.7


def test_compact_json_has_words_too() -> None:
    text = "{" + ",".join(f'"key{n}":{n * 7919}' for n in range(800)) + "}"
    assert 0.9 < similarity(text.replace("7919", "8000"), text) < 1


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


@given(st.text(max_size=200))
def test_folding_leaves_single_spaces_and_no_other_blanks(text: str) -> None:
    assert fold(text) == " ".join(text.split())


def test_a_wrong_number_shares_nothing_with_the_right_one() -> None:
    assert Line("15").likeness(Line("16")) == 0
    assert Line("total 15").likeness(Line("total 16")) == 0.5
    assert Line("price 1.5").likeness(Line("price 1.6")) == 0.5


def test_half_of_a_lines_likeness_goes_by_what_words_are_made_of() -> None:
    # No word is the same. Of 4 + 4 + 4 for the words and 1 for each of four signs, `txt` and the
    # signs are: 8 of 16.
    assert Line("./a/b.txt").likeness(Line("./c/d.txt")) == (0 + 8 / 16) / 2


def test_letters_beyond_ascii_count_one_by_one() -> None:
    assert 0.3 < Line("没有那个文件").likeness(Line("没有这个文件")) < 0.5


def test_lines_of_blanks_are_none() -> None:
    assert lines_of("a  b\n\n \t\n c\r\n") == [Line("a b"), Line("c")]


def test_very_long_lines_are_compared_as_bags_of_words() -> None:
    words = [str(number) for number in range(5_000)]
    assert in_order(words, words[::-1]) == 1
    assert in_order(words[:100], words[:100][::-1]) < 0.05


@given(st.text(max_size=40), st.text(max_size=40))
def test_lines_are_as_alike_either_way(left: str, right: str) -> None:
    one, other = Line(fold(left)), Line(fold(right))
    assert one.likeness(other) == other.likeness(one)
    assert 0 <= one.likeness(other) <= 1
    assert one.likeness(one) == 1
