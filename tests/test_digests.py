import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.digests import canonical, digest_of, parse, readable

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=30,
)
DEPTH = 100_000
BEYOND_JSON = 12_000
"""Deeper than the json module goes in any supported Python."""


def nested(depth: int, *, as_object: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"in": value} if as_object else [value]
    return value


@given(values)
def test_both_texts_give_the_value_back(value: Any) -> None:
    assert parse(canonical(value)) == value
    assert parse(readable(value)) == value


@given(values)
def test_canonical_is_what_json_writes(value: Any) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("as_object", [False, True])
def test_a_hundred_thousand_levels(as_object: bool) -> None:
    value = nested(DEPTH, as_object=as_object)
    text = canonical(value)
    assert (
        text == ('{"in":' if as_object else "[") * DEPTH + "1" + ("}" if as_object else "]") * DEPTH
    )
    assert canonical(parse(text)) == text
    assert parse(readable(value)) is not None
    assert digest_of(value) != digest_of(nested(DEPTH - 1, as_object=as_object))


@settings(max_examples=15, deadline=None)
@given(values)
def test_deep_and_shallow_texts_agree(value: Any) -> None:
    deep: Any = value
    for _ in range(BEYOND_JSON):
        deep = [deep]
    assert canonical(deep).strip("[]") == canonical(value).strip("[]")
    text = readable(deep)
    assert canonical(parse(text)) == canonical(deep)


def test_keys_are_sorted_and_their_order_can_be_kept() -> None:
    assert canonical({"b": 1, "a": {"d": 2, "c": 3}}) == '{"a":{"c":3,"d":2},"b":1}'
    assert readable({"b": 1, "a": "é"}) == '{"b": 1, "a": "é"}'
    assert list(parse(readable({"b": 1, "a": 2}))) == ["b", "a"]


def test_numbers_that_are_equal_but_not_the_same_differ() -> None:
    assert digest_of(1) != digest_of(1.0) != digest_of(True)


def test_text_that_is_hard_to_store() -> None:
    for text in ("\x00", "\ud800", "a\udcffb", "\u2028", "\U0001f600", '"\\'):
        assert parse(canonical(text)) == text
        assert parse(readable(text)) == text
        assert canonical(text).isascii()


@pytest.mark.parametrize("digits", [599, 600, 4_299, 4_301, 20_000])
def test_integers_beyond_the_interpreters_digit_limit(digits: int) -> None:
    for number in (10**digits - 1, -(10**digits) - 7):
        assert parse(canonical({"n": number})) == {"n": number}
    assert canonical(10**5000) == "1" + "0" * 5000


def test_not_a_number_and_the_infinities() -> None:
    assert canonical([float("nan"), float("inf"), float("-inf")]) == "[NaN,Infinity,-Infinity]"
    back = parse("[NaN,Infinity,-Infinity]")
    assert back[0] != back[0]
    assert back[1:] == [float("inf"), float("-inf")]
    assert canonical([10**5000, float("nan")]).endswith(",NaN]")


@pytest.mark.parametrize(
    "value",
    [{1: "a"}, {None: 1}, [{"a": {True: 1}}], {"a": {1}}, b"bytes", [object()], {("a",): 1}],
    ids=repr,
)
def test_what_json_cannot_say_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical(value)
    with pytest.raises(TypeError):
        readable(value)
    deep = value
    for _ in range(BEYOND_JSON):
        deep = [deep]
    with pytest.raises(TypeError):
        canonical(deep)


@pytest.mark.parametrize("length", [1, 3, 50_000])
def test_a_value_that_contains_itself_is_refused(length: int) -> None:
    first: list[Any] = []
    last = first
    for _ in range(length):
        last.append([])
        last = last[0]
    last.append(first)
    with pytest.raises(ValueError, match="Circular"):
        canonical(first)


def test_one_value_in_two_places_is_no_cycle() -> None:
    shared = nested(3)
    deep = [shared, shared, 10**5000]
    assert canonical(deep).startswith("[[[[1]]],[[[1]]],1000")


BROKEN = ["", "[", "]", "[1", "[1,", "[1 2]", '{"a"', '{"a":', '{"a":1', "{a:1}", '{"a" 1}', "[1]]",
          "nul", '"open', "[1,]", "01", "{,}", '{"a":1,}']  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_text_that_is_not_json(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse(text)
    # The same where only the slow parser can get as far as the mistake.
    with pytest.raises(ValueError):  # noqa: PT011
        parse("[" * BEYOND_JSON + text + "]" * BEYOND_JSON + ("]" if text == "" else ""))
