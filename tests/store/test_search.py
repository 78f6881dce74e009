from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.store import SessionRecord, Store
from lwm_agents.store.search import INDEXED, snippet_of, words_of
from lwm_agents.values import Action, Observation, Transition


def add(store: Store, step: int, text: str, **arguments: Any) -> None:
    store.append(
        Transition(
            session="s",
            step=step,
            action=Action(tool="shell", arguments=arguments),
            observation=Observation(text=text, source="executed"),
        )
    )


@pytest.fixture
def store() -> Any:
    with Store(":memory:") as opened:
        opened.create_session(SessionRecord(id="s"))
        add(opened, 1, "Permission denied: /etc/shadow", command="cat /etc/shadow")
        add(opened, 2, "a café in Zürich", command='echo "line one\nline two"')
        add(
            opened,
            3,
            "cat: src/main.py: no such file",
            command="cat src/main.py",
            deep={"x": ["needle"]},
        )
        add(opened, 4, "main py src", command="true", count=4711)
        yield opened


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("permission", [1]),
        ("DENIED permission", [1]),
        ("cat", [3, 1]),
        ("cafe", [2]),
        ("CAFÉ zurich", [2]),
        ("line two", [2]),
        ("src/main.py", [4, 3]),
        ("src main py", [4, 3]),
        ("needle", [3]),
        ("4711", [4]),
        ("shell", [4, 3, 2, 1]),
        ("perm", []),
        ("permission café", []),
        ("", []),
        ("  \t\n", []),
        ("...", []),
        ("... cafe", [2]),
        ("cafe\u0301", [2]),
        ("zürich caf", []),
    ],
)
def test_words_are_found_newest_first(store: Store, text: str, steps: list[int]) -> None:
    assert [hit.step for hit in store.search(text)] == steps


def test_a_hit_says_where_and_shows_the_place(store: Store) -> None:
    add(store, 5, "x " * 500 + "the treasure\nis here" + " y" * 500, command="dig")
    (hit,) = store.search("treasure")
    assert (hit.session, hit.step, hit.tool, hit.source) == ("s", 5, "shell", "executed")
    assert "the treasure is here" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 250
    assert "echo" in store.search("two")[0].snippet


def test_a_limit_is_kept(store: Store) -> None:
    assert [hit.step for hit in store.search("shell", limit=2)] == [4, 3]


@pytest.mark.parametrize(
    "text",
    ['"', '""', "AND", "a OR", "NOT", "NEAR(a b)", "action:cat", "cat*", "^cat", "(", "a -b", "{x}",
     "\0", "\ud800", "'; DROP TABLE transitions; --", "a\0b", "%", "_", "*", "+ -", 'say "hi'],
)  # fmt: skip
def test_nothing_typed_is_an_operator_or_an_error(store: Store, text: str) -> None:
    store.search(text)
    add(store, 9, f"before {text} after")
    if words_of(text):
        assert 9 in [hit.step for hit in store.search(text)]


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_searched(text: str) -> None:
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        add(store, 1, text)
        store.search(text)


def test_a_large_observation_is_found_by_its_head(store: Store) -> None:
    add(store, 5, "hiddenhead " + "z" * INDEXED + " hiddentail", command="x" * (INDEXED + 9))
    assert [hit.snippet[:10] for hit in store.search("hiddenhead")] == ["hiddenhead"]
    assert store.search("hiddentail") == []


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_what_was_written_is_found_by_itself(text: str) -> None:
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        add(store, 1, text)
        assert len(store.search(text)) == bool(words_of(text))


def test_the_snippet_of_a_text_without_the_word_is_its_beginning() -> None:
    assert snippet_of(["zurich"], "", "Zürich is a city") == "Zürich is a city"
    assert snippet_of(["x"]) == ""
