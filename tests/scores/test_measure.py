"""Fidelity as a whole: what each kind scores, and what holds for any two texts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.scores import DISAGREEMENT_CAP, Fidelity, fidelity, fold, same
from lwm_agents.scores.measure import ALMOST
from lwm_agents.values import Action, Observation


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


def test_of_huge_texts_only_head_and_tail_count_for_similarity_but_all_for_exact() -> None:
    text = "line of a log\n" * 80_000
    middle = len(text) // 2
    other = text[:middle] + "something else" + text[middle:]
    got = fidelity(imagined(other), happened(text))
    assert not got.exact
    assert got.similarity > 0.99
    assert 0.9 < got.score < 1
    assert fidelity(imagined(text + "\n"), happened(text)).exact


@given(st.text(max_size=60), st.text(max_size=60), st.booleans(), st.booleans())
def test_every_pair_scores_between_nought_and_one(
    left: str, right: str, left_error: bool, right_error: bool
) -> None:
    got = fidelity(imagined(left, is_error=left_error), happened(right, is_error=right_error))
    assert 0 <= got.score <= 1
    assert 0 <= got.similarity <= 1
    assert got.exact == (fold(left) == fold(right))
    assert (got.score == 1) == (got.exact_after_masking and left_error == right_error)
    assert got.exact_after_masking or not got.exact
    assert all(0 <= mark <= 1 for mark in got.rubric.model_dump().values())


def compare(left: str, right: str, command: str = "") -> Fidelity:
    action = Action(tool="shell", arguments={"command": command}) if command else None
    return fidelity(imagined(left), happened(right), action)


@pytest.mark.parametrize(
    ("left", "right", "kind", "score"),
    [
        ("4", "5", "text", 0),
        ("a\nb\nc\nd", "a\nx\nc\nd", "text", 0.75),
        ('{"b": [1, 2], "a": 1}', '{"a":1,"b":[1,2]}', "json", 1),
        ('{"a": 1}', '{"a": 2}', "json", 1 / 3),
        ("{'a': None}", '{"a": null}', "json", 1),
        ("[(1, 'x'), (2, 'y')]", "[(1, 'x'), (2, 'z')]", "rows", 0.9 * 0.625 + 0.1),
        ("[]", "[(1,)]", "rows", 0),
        ("1|x\n2|y", "1|x\n2|y\n", "table", 1),
        ('- link "Home" [ref=e1]', '- link "Home" [ref=e4]', "snapshot", 1),
        ('- link "Home" [ref=e1]', '- button "Home" [ref=e1]', "snapshot", 0),
        ("at 2026-01-02T03:04:05Z", "at 2026-01-02T03:04:09Z", "text", 1),
    ],
)
def test_each_kind_is_compared_by_what_it_is_made_of(
    left: str, right: str, kind: str, score: float
) -> None:
    got = compare(left, right)
    assert got.kind == kind
    assert got.score == pytest.approx(score)
    assert got.exact_after_masking == (score == 1)


def test_what_reads_as_json_on_one_side_only_is_compared_as_text() -> None:
    got = compare('{"a": 1', '{"a": 1}')
    assert got.kind == "text"
    assert 0 < got.score < 1
    assert got.rubric.format == 0


def test_masking_makes_exact_but_leaves_the_baselines_numbers_alone() -> None:
    got = compare("took 12 ms", "took 340 ms")
    assert (got.score, got.exact, got.exact_after_masking) == (1, False, True)
    assert got.similarity < 1


def test_the_more_is_right_the_higher_the_score() -> None:
    right = [f"src/file{number}.py: {number * 31 % 17} lines" for number in range(12)]
    wrong = [f"lib/other{number}.c, {number + 40} words" for number in range(12)]
    scores = [compare("\n".join(right[:n] + wrong[n:]), "\n".join(right)).score for n in range(13)]
    assert scores == sorted(set(scores))
    assert scores[-1] == 1


def test_what_is_not_exact_is_never_one() -> None:
    rows = "\n".join(f"{number} | x" for number in range(2000))
    assert ALMOST >= compare(rows + "\n2000 | x", rows).score > 0.98


def test_an_action_without_order_makes_any_order_exact() -> None:
    left, right = "./a\n./b\n./c", "./c\n./a\n./b"
    assert compare(left, right).score < 1
    assert compare(left, right, "find . -type f").score == 1
    assert compare(left, right, "find . -type f | sort").score < 1
    assert compare("./a\n./b", right, "find . -type f").score == pytest.approx(0.8)


def test_order_by_makes_order_count() -> None:
    left, right = "[(1, 'x'), (2, 'y')]", "[(2, 'y'), (1, 'x')]"

    def score(query: str) -> float:
        action = Action(tool="sql_query", arguments={"query": query})
        return fidelity(imagined(left), happened(right), action).score

    assert score("SELECT * FROM t") == pytest.approx(0.95)
    assert score("SELECT * FROM t ORDER BY a") == pytest.approx(0.5)


def test_same_is_stricter_than_exact_after_masking() -> None:
    one, other = happened("took 12 ms\na  b\n"), happened("took 340 ms\na b\n")
    assert fidelity(one, other).exact_after_masking
    assert not same(one, other)
    assert same(happened("took 12 ms\n"), happened("took 340 ms\n"))
    assert not same(happened("took 12 ms\n"), happened("took 340 ms"))
    assert not same(happened("x"), happened("x", is_error=True))


def test_same_sorts_where_the_action_gives_no_order() -> None:
    action = Action(tool="shell", arguments={"command": "ls -U"})
    assert same(happened("a\nb\n"), happened("b\na\n"), action)
    assert not same(happened("a\nb\n"), happened("b\na\n"))
    assert not same(happened("a\nb\n"), happened("b\nb\n"), action)


TEXTS = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="ab1 \n|-,\t[]{}():\"'", max_size=80),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=12,
    ).flatmap(lambda value: st.sampled_from([json.dumps(value), repr(value)])),
    st.lists(
        st.sampled_from(
            ["- button \"Save\" [ref=e5]", "  - text: x", "a | b", "1 | 2", "(2 rows)", "total 4",
             "-rw-r--r-- 1 r r 5 Jan  2 03:04 a", "took 12 ms", "---+---", "x\ty", "1,2"]
        ),
        max_size=6,
    ).map("\n".join),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_any_two_texts_have_a_fidelity_and_the_same_either_way(left: str, right: str) -> None:
    got, back = compare(left, right), compare(right, left)
    assert 0 <= got.score <= 1
    assert got.score == pytest.approx(back.score)
    assert got.kind == back.kind
    assert (got.score == 1) == got.exact_after_masking
    assert all(0 <= mark <= 1 for mark in got.rubric.model_dump().values())
    if bool(fold(left)) != bool(fold(right)):
        assert got.score == 0


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_any_text_is_itself(text: str) -> None:
    got = compare(text, text)
    assert got.score == 1
    assert set(got.rubric.model_dump().values()) == {1.0}
    assert same(happened(text), happened(text))


@pytest.mark.parametrize("opening", ["[", '{"a":', "(", "- list:\n  ", "((1,),"])
def test_no_depth_is_too_deep(opening: str) -> None:
    got = compare(opening * 5_000 + "1", opening * 5_000 + "2")
    assert 0 <= got.score < 1


@pytest.mark.parametrize(
    "text",
    [
        "-" * 30_000 + "x",
        " " * 30_000 + "took 12 ms",
        "took 12 ms" + " " * 30_000 + "x",
        "1." * 10_000 + " cpu ",
        "- link " + "/" * 30_000 + " [",
        '["' + "a\\\\" * 10_000,
        "w/ " * 10_000 + "!",
        "⟦" * 30_000,
        "real\n" * 10_000,
        "0x" + "5" * 30_000,
        " " * 300_000 + "x" + " " * 300_000,
        "git " * 10_000,
        "find stat ls date " * 3_000,
    ],
)
def test_no_text_takes_for_ever(text: str) -> None:
    assert compare(text, text + " y").score < 1
    assert compare("q", text, f"SELECT {text}").score < 1
    assert compare("q", text, f"git stat date mktemp tempfile {text}").score < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "word ",
        "a | b\n",
        '{"a": [1, 2]}\n',
        "x",
        "2026-01-02T03:04:05Z \n",
        '- button "x":\n',
        "[1,",
    ],
)
def test_ten_megabytes_are_compared_by_their_ends(line: str) -> None:
    text = line * (10_000_000 // len(line))
    got = compare(text + "a", "b" + text)
    assert 0 <= got.score < 1
