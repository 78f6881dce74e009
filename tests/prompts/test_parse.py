import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.prompts.parse import Parsed, parse

OPEN, CLOSE, H = (
    "<predicted_observation>",
    "</predicted_observation>",
    "**Environment Observation:**",
)
CODE = '```json\n{"name": "shell", "arguments": {"command": "ls"}}\n```'

CASES = {
    # name: (answer, observation, reasoning)
    "plain": ("a.txt\nb.txt", "a.txt\nb.txt", ""),
    "tags": (f"{OPEN}\na.txt\n{CLOSE}", "a.txt", ""),
    "tags on one line": (f"{OPEN}a.txt{CLOSE}", "a.txt", ""),
    "thinking and tags": (
        f"<think>\nlist it\n</think>\n\n{OPEN}\na.txt\n{CLOSE}",
        "a.txt",
        "list it",
    ),
    "thinking opened by the template": (
        f"list it\n</think>\n{OPEN}\na.txt\n{CLOSE}",
        "a.txt",
        "list it",
    ),
    "thinking without tags": ("<think>list it</think>\na.txt\n", "a.txt", "list it"),
    "thinking opened by the template, no tags": ("list it</think>\na.txt", "a.txt", "list it"),
    "empty thinking": (f"<think>\n\n</think>\n\n{OPEN}\nx\n{CLOSE}", "x", ""),
    "thinking never closed": (f"<think>so it is\n{OPEN}\nx\n{CLOSE}", "x", "so it is"),
    "thinking closed twice": (f"<think>a</think></think>{OPEN}x{CLOSE}", "x", "a"),
    "thinking twice": (f"<think>a</think>\n<think>b</think>\n{OPEN}x{CLOSE}", "x", "a\nb"),
    "thinking names the tag": (
        f"<think>I answer in {OPEN} tags</think>\n{OPEN}x{CLOSE}",
        "x",
        f"I answer in {OPEN} tags",
    ),
    "thinking holds a draft": (
        f"<think>maybe {OPEN}y{CLOSE}?</think>{OPEN}x{CLOSE}",
        "x",
        f"maybe {OPEN}y{CLOSE}?",
    ),
    "answer inside the thinking": (f"<think>so\n{OPEN}x{CLOSE}</think>", "x", "so"),
    "upper case": ("<THINK>a</THINK><Predicted_Observation>x</PREDICTED_OBSERVATION>", "x", "a"),
    "blanks in tags": ("< predicted_observation >\nx\n</ predicted_observation >", "x", ""),
    "close missing": (f"{OPEN}\nx\ny", "x\ny", ""),
    "close cut off": (f"{OPEN}\nx\n</predicted_obs", "x", ""),
    "open missing": (f"x\ny\n{CLOSE}", "x\ny", ""),
    "open missing after thinking": (f"<think>a</think>\nx\n{CLOSE}", "x", "a"),
    "open missing after header": (f"{H}\nx\n{CLOSE}", "x", ""),
    "nested twice": (f"{OPEN}{OPEN}x{CLOSE}{CLOSE}", "x", ""),
    "opened twice, closed once": (f"{OPEN}\n{OPEN}\nx\n{CLOSE}", "x", ""),
    "answer given twice": (f"{OPEN}x{CLOSE}\n{OPEN}x{CLOSE}", "x", ""),
    "first empty, second not": (f"{OPEN}\n{CLOSE}\n{OPEN}\nx\n{CLOSE}", "x", ""),
    "text before": (f"The tool would print:\n{OPEN}\nx\n{CLOSE}", "x", ""),
    "text before on the line": (f"Output: {OPEN}x{CLOSE}", "x", ""),
    "text after": (f"{OPEN}\nx\n{CLOSE}\nThis lists the files.", "x", ""),
    "header": (f"{H}\nx\n", "x", ""),
    "header on the line": (f"{H} x", "x", ""),
    "header without stars": ("Environment Observation:\nx", "x", ""),
    "header as heading": (f"### {H}\nx", "x", ""),
    "header, colon outside": ("**Environment Observation**:\nx", "x", ""),
    "header then tags": (f"{H}\n{OPEN}\nx\n{CLOSE}", "x", ""),
    "tags then header": (f"{OPEN}\n{H}\nx\n{CLOSE}", "x", ""),
    "thinking then header": (f"<think>a</think>\n\n{H}\nx", "x", "a"),
    "fence": ("```\nx\ny\n```", "x\ny", ""),
    "fence with language": ('```json\n{"a": 1}\n```\n', '{"a": 1}', ""),
    "fence in header": (f"{H}\n```\nx\n```", "x", ""),
    "tags in a fence": (f"```\n{OPEN}\nx\n{CLOSE}\n```", "x", ""),
    "tags in an xml fence after thinking": (
        f"<think>a</think>\n```xml\n{OPEN}x{CLOSE}\n```",
        "x",
        "a",
    ),
    "turn heading echoed": (f"### Turn 3\n{OPEN}x{CLOSE}", "x", ""),
    "action echoed": (f"### Turn 3\n**Action:**\n{CODE}\n\n{H}\nx", "x", ""),
    "action echoed before bare text": (f"**Action:**\n{CODE}\nx", "x", ""),
    "next turn invented": (f"{H}\nx\n\n### Turn 4\n**Action:**\n{CODE}", "x", ""),
    "control token at the end": ("x<|im_end|>", "x", ""),
    "conversation goes on": ("x<|im_end|>\n<|im_start|>user\nmore", "x", ""),
    # Nothing, and what only looks like nothing.
    "nothing": ("", None, ""),
    "blanks": (" \n\n", None, ""),
    "thinking only": ("<think>hm, let me see", None, "hm, let me see"),
    "thinking closed, then nothing": ("<think>hm</think>\n", None, "hm"),
    "echo only": (f"### Turn 3\n**Action:**\n{CODE}\n", None, ""),
    "empty between tags": (f"{OPEN}{CLOSE}", "", ""),
    "empty between tags on lines": (f"{OPEN}\n{CLOSE}", "", ""),
    "empty after header": (f"{H}\n", "", ""),
    "empty fence": ("```\n```", "", ""),
    # Observations that hold such marks themselves.
    "a file about tags": (
        f"{OPEN}\nuse {OPEN}x{CLOSE} here\n{CLOSE}",
        f"use {OPEN}x{CLOSE} here",
        "",
    ),
    "a file about thinking": (f"{OPEN}\n<think>x</think>\n{CLOSE}", "<think>x</think>", ""),
    "fence kept in tags": (f"{OPEN}\n```\nx\n```\n{CLOSE}", "```\nx\n```", ""),
    "two fences": ("```\na\n```\ntext\n```\nb\n```", "```\na\n```\ntext\n```\nb\n```", ""),
    "text around a fence": ("# Use\n```\na\n```", "# Use\n```\na\n```", ""),
    "tag mentioned": (f"grep: {OPEN} not found\n2 files", f"grep: {OPEN} not found\n2 files", ""),
    "close mentioned": (f"see {CLOSE} in a\nb", f"see {CLOSE} in a\nb", ""),
    "thinking mentioned": ("1: <think> and </think>\n2: x", "1: <think> and </think>\n2: x", ""),
    "indentation kept": (f"{OPEN}\n    def f():\n{CLOSE}", "    def f():", ""),
    "blank lines kept": (f"{OPEN}\n\nx\n\n{CLOSE}", "\nx\n", ""),
    "carriage returns": (f"{OPEN}\r\nx\r\n{CLOSE}", "x", ""),
    "html s": ("<s>old</s> new", "<s>old</s> new", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_parse(name: str) -> None:
    answer, observation, reasoning = CASES[name]
    parsed = parse(answer)
    assert (parsed.observation, parsed.reasoning) == (observation, reasoning)


def test_there_are_at_least_forty_cases() -> None:
    assert len(CASES) >= 40


def test_reasoning_split_off_by_the_server_is_kept() -> None:
    assert parse(f"<think>b</think>{OPEN}x{CLOSE}", "a") == Parsed("x", "a\nb", tagged=True)


@pytest.mark.parametrize(
    ("answer", "tagged", "complete"),
    [
        ("x", False, True),
        (f"{OPEN}x{CLOSE}", True, True),
        (f"{OPEN}x", True, False),
        (f"{H}\nx", True, True),
        ("<think>x", False, False),
    ],
)
def test_says_whether_marked_and_whole(answer: str, tagged: bool, complete: bool) -> None:
    parsed = parse(answer)
    assert (parsed.tagged, parsed.complete) == (tagged, complete)


PIECES = st.lists(
    st.sampled_from(
        [
            OPEN,
            CLOSE,
            H,
            "<think>",
            "</think>",
            "```",
            "```json",
            "\n",
            " ",
            "x",
            "### Turn 2",
            "**Action:**",
            "{",
            "<|im_end|>",
            "<|im_start|>",
            "</s>",
            "<",
            "/",
            "\r\n",
            "<PREDICTED_OBSERVATION>",
        ]
    ),
    max_size=14,
).map("".join)


@given(PIECES | st.text())
def test_never_raises(answer: str) -> None:
    parsed = parse(answer)
    assert parsed.observation is None or isinstance(parsed.observation, str)


@given(PIECES)
def test_adds_nothing(answer: str) -> None:
    observation = parse(answer).observation
    assert observation is None or observation in answer


MARKS = (
    "\r",
    "observation",
    "think",
    "reasoning",
    "```",
    "~~~",
    "turn",
    "action",
    "<|",
    "</s>",
    "<end_of_turn>",
)


@given(
    st.text(st.characters(codec="utf-8")).filter(lambda t: not any(m in t.lower() for m in MARKS))
)
def test_tagged_text_comes_back_whole(text: str) -> None:
    assert parse(f"{OPEN}\n{text}\n{CLOSE}").observation == text


@given(
    st.text(min_size=1).filter(
        lambda t: (
            not any(m in t.lower() for m in MARKS) and t == t.strip("\r\n\ufeff") and t.strip()
        )
    )
)
def test_bare_text_is_the_observation_and_parsing_again_changes_nothing(text: str) -> None:
    once = parse(text).observation
    assert once == text
    assert parse(once).observation == once


@pytest.mark.parametrize("mark", ["", "**Environment Observation:**\n"])
def test_an_answer_larger_than_any_model_gives_is_taken_whole(mark: str) -> None:
    text = "a b c </think> \n" * 200_000 + "end"
    assert parse(mark + text).observation == text
    assert parse(mark + text).tagged is bool(mark)
