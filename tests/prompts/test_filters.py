import os
import shutil
import subprocess

import pytest

from lwm_agents.prompts.filters import filtered, split_pipe

TEXT = "b 2 x:y\na 10 z\nb 2 x:y\n\nc  3\n  d 1 e:f:g\n"
COMMANDS = [
    "awk '{print $1}'",
    "awk '{print $2, $1}'",
    "awk -F: '{print $2}'",
    "awk -F ':' '{ print $1 }'",
    "cat",
    "cut -d: -f2",
    "cut -d ' ' -f 1",
    "cut -d: -f2-",
    "grep b",
    "grep -v b",
    "grep -c b",
    "grep -i B",
    "grep nothing",
    "head -2",
    "head -n 2",
    "head -n -1",
    "head",
    "tail -1",
    "tail -n +2",
    "tail -n 3",
    "tail -n 99",
    "sort",
    "sort -r",
    "sort -u",
    "sort -n",
    "sort -nr",
    "uniq",
    "uniq -c",
    "uniq -d",
    "wc -l",
    "wc -w",
    "wc -c",
    "md5sum",
    "sha256sum",
    "tr -d '\\n'",
    "tr '\\n' ' '",
    "tr a b",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", [TEXT, "", "one\n", "b\nb\na\n"], ids=["text", "", "one", "runs"])
def test_a_filter_gives_what_the_real_one_gives(command: str, text: str) -> None:
    real = subprocess.run(
        ["bash", "-c", command],
        input=text,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        check=False,
    )
    assert filtered(command, text) == real.stdout


@pytest.mark.parametrize(
    "command",
    [
        "awk '{print NR}'",
        "sed s/a/b/",
        "grep 'a.*b'",
        "grep -E b",
        "head -c 3",
        "sort -k2",
        "sort -nu",
        "tail -f",
        "wc",
        "cat file",
        "uniq -i",
        "head -2 > out",
        "xargs rm",
        "tr a-z A-Z",
        "head $X",
    ],
)
def test_what_is_not_sure_is_not_worked_out(command: str) -> None:
    assert filtered(command, TEXT) is None


def test_letters_beyond_ascii_are_left_alone() -> None:
    assert filtered("sort", "é\na\n") is None


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ls -l | head -3", ("ls -l", "head -3")),
        ("a | b 'x|y' | c", ("a | b 'x|y'", "c")),
        (r"find . -exec ls {} \; | wc -l", (r"find . -exec ls {} \;", "wc -l")),
        ("awk '{print $2}' f | sort", ("awk '{print $2}' f", "sort")),
    ],
)
def test_a_pipeline_is_parted_at_its_last_pipe(command: str, parts: tuple[str, str]) -> None:
    assert split_pipe(command) == parts


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "a || b",
        "a; b | c",
        "a && b | c",
        "a | b > f",
        "a $(b | c)",
        "(a | b)",
        'a "$(b | c)" | d',
        "a | b &",
        "a 'open | b",
        "| a",
        "a |& b",
    ],
)
def test_what_is_more_than_one_plain_pipeline_is_not_parted(command: str) -> None:
    assert split_pipe(command) is None
