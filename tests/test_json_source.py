import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.json_source import MAX_DEPTH, JsonTextError, Place, read_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def places(value: Any, place: Place = ()) -> set[Place]:
    found = {place}
    if isinstance(value, dict):
        for name, inner in value.items():
            found |= places(inner, (*place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found |= places(inner, (*place, index))
    return found


@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_field_of_any_json_has_a_line(value: Any, indent: int | None, ascii_: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    source = read_json(text)
    assert source.value == value
    assert set(source.lines) == places(value)
    assert source.repeated == []
    lines = text.split("\n")
    for place, line in source.lines.items():
        if place and isinstance(place[-1], str):
            assert json.dumps(place[-1], ensure_ascii=ascii_) in lines[line - 1]


def test_lines_by_hand() -> None:
    text = '{"a":\n [1,\n  {"b": 2,\n   "\\u0063": "x, y: {"}],\n "d": {}\n}'
    assert read_json(text).lines == {
        (): 1,
        ("a",): 1,
        ("a", 0): 2,
        ("a", 1): 3,
        ("a", 1, "b"): 3,
        ("a", 1, "c"): 4,
        ("d",): 5,
    }


def test_a_field_written_twice_is_noted_however_it_is_spelt() -> None:
    source = read_json('{"a": 1,\n "b": [{"c": 1, "c": 2}],\n\n "\\u0061": 3}')
    assert source.repeated == [(("b", 0, "c"), 2), (("a",), 4)]
    assert source.lines[("a",)] == 1


@pytest.mark.parametrize(
    "text", ["[" * MAX_DEPTH + "]" * MAX_DEPTH, '{"a":' * 200 + "1" + "}" * 200]
)
def test_nesting_up_to_the_limit(text: str) -> None:
    assert read_json(text).value == json.loads(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_deeper_nesting_names_its_line(depth: int) -> None:
    with pytest.raises(JsonTextError, match="nested more than 200 deep") as caught:
        read_json("\n" + "[" * depth + "]" * depth)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "the file is empty"),
        (" \n ", 2, 2, "the file is empty"),
        ('{"a": 1,\n}', 1, 8, "a comma stands before a closing bracket"),
        ('{"a": [1, 2,\n ]}', 1, 12, "a comma stands before a closing bracket"),
        ('{"a": 1', 1, 8, "the text ends too early"),
        ('{"a": [1, 2\n', 2, 1, "the text ends too early"),
        ('{"a": 1\n "b": 2}', 2, 2, "a comma is missing before this"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("{\"a\": 'x'}", 1, 7, "double quotes"),
        ('{"a": 1, // one\n "b": 2}', 1, 10, "no comments"),
        ('# plan\n{"a": 1}', 1, 1, "no comments"),
        ('{"a": True}', 1, 7, "write true, false or null"),
        ('{"a": None}', 1, 7, "write true, false or null"),
        ('{"a": "x\ny"}', 1, 9, "a line end in a string as \\n"),
        ('{"a": "C:\\x"}', 1, 10, "a backslash in a string as \\\\"),
        ('{"a": "x}', 1, 7, "the string that starts here is not closed"),
        ('{"a": 1}\n{"a": 2}', 2, 1, "something follows it"),
        ("{a: 1}", 1, 2, "a field in double quotes"),
        ('{\n"a": NaN}', 2, None, "never NaN"),
        ('{"b": "NaN",\n\n"a": -Infinity}', 3, None, "never NaN"),
        ('{"a":\n' + "9" * 5000 + "}", 2, None, "4300 digits"),
    ],
)
def test_what_is_wrong_is_told_in_plain_words(
    text: str, line: int, column: int | None, words: str
) -> None:
    with pytest.raises(JsonTextError) as caught:
        read_json(text)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert caught.value.column == column


@given(st.text(alphabet='{}[]:,"\\ \n01tfnNaI-.e', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    problem = None
    try:
        source = read_json(text)
    except JsonTextError as caught:
        problem = caught
    if problem is None:
        assert set(source.lines) >= places(source.value)
    else:
        assert 1 <= problem.line <= text.count("\n") + 1
