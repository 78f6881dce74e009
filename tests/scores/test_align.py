import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.scores.align import ORDER_SHARE, Alignment, Order


def equal(left: str, right: str) -> float:
    return float(left == right)


def first_letter(left: str, right: str) -> float:
    return 0.5 * (left[0] == right[0]) + 0.5 * (left == right)


EQUAL = Alignment(equal)


@pytest.mark.parametrize(
    ("left", "right", "order", "common"),
    [
        ("abcd", "abcd", "given", 1),
        ("abcd", "axcd", "given", 0.75),
        ("abcd", "dcba", "given", 0.25),
        ("abcd", "dcba", "none", 1),
        ("abcd", "dcba", "loose", 1 - ORDER_SHARE + ORDER_SHARE / 4),
        ("aab", "abb", "none", 2 / 3),
        ("ab", "", "given", 0),
        ("", "", "given", 1),
        ("abc", "ab", "given", 0.8),
    ],
)
def test_what_two_sequences_share(left: str, right: str, order: Order, common: float) -> None:
    assert EQUAL.common(left, right, order) == pytest.approx(common)


def test_between_equal_things_the_nearest_are_paired_in_order() -> None:
    left, right = ["a1", "b1", "z"], ["q1", "a2", "b2", "z"]
    # a1 with a2 and b1 with b2 by half, z whole: 2 · (0.5 + 0.5 + 1) / 7
    assert Alignment(first_letter).common(left, right) == pytest.approx(4 / 7)


def test_without_order_the_nearest_are_paired_wherever_they_stand() -> None:
    left, right = ["a1", "b1"], ["b2", "a2"]
    assert Alignment(first_letter).common(left, right, "none") == pytest.approx(0.5)
    assert Alignment(first_letter).common(left, right, "given") == pytest.approx(0.25)


def test_heavier_things_count_for_more() -> None:
    heavy = Alignment(equal, len)
    assert heavy.common(["aaaa", "b"], ["aaaa", "c"]) == pytest.approx(0.8)


def test_thousands_of_things_are_compared_by_equal_ones() -> None:
    left = [str(number) for number in range(6_000)]
    right = [*left[:3_000], "x", *left[3_001:-1], "y"]
    assert EQUAL.common(left, right) == pytest.approx(5_998 / 6_000)
    assert EQUAL.common(left, left[::-1]) < 0.01
    assert EQUAL.common(left, left[::-1], "none") == 1


WORDS = st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "c"]), max_size=8)


@given(WORDS, WORDS, st.sampled_from(["given", "loose", "none"]))
def test_common_is_a_share(left: list[str], right: list[str], order: Order) -> None:
    got = Alignment(first_letter).common(left, right, order)
    assert 0 <= got <= 1
    assert Alignment(first_letter).common(left, left, order) == 1
    if sorted(left) != sorted(right):
        assert got < 1
