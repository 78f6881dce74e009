import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.scores.trees import DEPTH, Tree, compare_trees, is_rows, paths, read_tree


def tree(text: str) -> Tree:
    found = read_tree(text)
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('{"a": 1, "b": 2}', '{\n  "b": 2,\n  "a": 1\n}'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
        ("[1, 2.0]", "[1.0, 2]"),
        ("{'a': True, 'b': None}", '{"a": true, "b": null}'),
        ("('it''s',)".replace("''", "\\'"), '("it\'s",)'),
        ('{"a": 1}\n{"a": 2}\n', '{"a":1}\n\n{"a":2}'),
        ("[(Decimal('1.50'), datetime.date(2024, 1, 2))]",
         "[ (Decimal('1.50'), datetime.date(2024, 1, 2)) ]"),
        ('{"pid": ⟦pid⟧}', '{"pid":⟦pid⟧}'),
        ("{}", "{ }"),
    ],
)  # fmt: skip
def test_what_says_the_same_is_equal(left: str, right: str) -> None:
    assert tree(left) == tree(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("[1]", "[2]"),
        ("[1]", '["1"]'),
        ("[1]", "[true]"),
        ("[1]", "(1)"),
        ("[[]]", "[{}]"),
        ("[null]", '["null"]'),
        ("[b'a']", "['a']"),
        ("[Decimal('1')]", "[1]"),
        ('{"a": 1}', '{"a": 1, "b": null}'),
        ("[1, 2]", "[2, 1]"),
        ("[123456789012345678]", "[123456789012345679]"),
    ],
)
def test_what_does_not_is_not(left: str, right: str) -> None:
    assert tree(left) != tree(right)


@pytest.mark.parametrize(
    "text",
    ["", "word", "1", '"a"', "[1", "[1]]", "[1}", "[1 2]", "[,]", "{1:}", '{"a" 1}', '{"a": 1, 2}',
     "[a]", "[1] x", "[drafts] see below [1]", "[1, ...]", "{'a': {}", "(see above)", "[" * 500],
)  # fmt: skip
def test_other_text_is_no_tree(text: str) -> None:
    assert read_tree(text) is None


def test_what_is_too_deep_is_no_tree() -> None:
    assert read_tree("[" * DEPTH + "1" + "]" * DEPTH) is not None
    assert read_tree("[" * (DEPTH + 1) + "1" + "]" * (DEPTH + 1)) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES) | st.dictionaries(st.text(max_size=4), VALUES))
def test_all_json_is_read(value: object) -> None:
    assert tree(json.dumps(value)) == tree(json.dumps(value, indent=1, ensure_ascii=False))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(), st.text(max_size=8), st.none())))
def test_all_rows_are_read(rows: list[tuple[object, ...]]) -> None:
    assert is_rows(tree(repr(rows)))


@pytest.mark.parametrize(
    ("left", "right", "likeness"),
    [
        ('{"a": 1}', '{"a": 2}', 1 / 3),  # the key, 1 of 3
        ('{"a": 1, "b": 2}', '{"a": 1}', 6 / 9),
        ('{"a": 1}', '{"b": 1}', 0),
        ('{"a": "not found at all"}', '{"a": "not found"}', (2 + 4 * 2 / 3) / 6),
        ("[1, 2, 3, 4]", "[1, 3, 4]", 6 / 7),
        ('[{"i": 1, "n": 5}, {"i": 2, "n": 6}]', '[{"i": 1, "n": 5}, {"i": 2, "n": 7}]', 20 / 24),
        ("[]", "{}", 0),
        ("[]", "[1]", 0),
    ],
)  # fmt: skip
def test_trees_share_keys_and_values(left: str, right: str, likeness: float) -> None:
    assert compare_trees(tree(left), tree(right), "given") == pytest.approx(likeness)
    assert compare_trees(tree(right), tree(left), "given") == pytest.approx(likeness)


def test_rows_are_compared_cell_by_cell_and_squared() -> None:
    left, right = tree("[(1, 'a'), (2, 'b')]"), tree("[(1, 'a'), (2, 'c')]")
    assert compare_trees(left, right, "given") == pytest.approx((1 + 0.25) / 2)


def test_items_in_any_order() -> None:
    left, right = tree("[1, 2, 3]"), tree("[3, 2, 1]")
    assert compare_trees(left, right, "none") == 1
    assert compare_trees(left, right, "given") == pytest.approx(1 / 3)


def test_paths_say_where_what_type_stands() -> None:
    assert paths(tree('{"a": [{"n": 1}, {"n": "x"}], "b": {}}')) == {
        ":object",
        "/a:array",
        "/a/*:object",
        "/a/*/n:number",
        "/a/*/n:string",
        "/b:object",
    }
