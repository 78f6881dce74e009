import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.shorten import shorten


def test_short_text_is_untouched() -> None:
    assert shorten("hello", 5) == "hello"


def test_head_and_tail_stay_and_the_marker_counts_what_is_gone() -> None:
    text = "H" * 500 + "T" * 500
    short = shorten(text, 200)
    head, gone, tail = short.split("\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert gone == f"[... {1000 - len(head) - len(tail)} characters left out ...]"


def test_cuts_at_line_ends_where_one_is_near() -> None:
    text = "\n".join(f"line {number}" for number in range(1000))
    lines = shorten(text, 400).split("\n")
    assert all(line.startswith(("line ", "[... ")) or not line for line in lines)
    assert lines[0] == "line 0"
    assert lines[-1] == "line 999"


def test_a_limit_too_small_for_the_marker_keeps_the_head() -> None:
    assert shorten("abcdef" * 20, 4) == "abcd"


def test_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        shorten("x", -1)


@given(st.text(), st.integers(0, 200))
def test_never_longer_than_the_limit_and_stable(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit or short == text
    assert shorten(short, limit) == short
    assert shorten(text, limit) == short
