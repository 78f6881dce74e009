"""The classifier against Bash itself: what is called a read must leave the folder as it was.

Generated lines, most of them nonsense, each with a command that removes one file. Whenever the
classifier calls a line a read, real Bash runs it in a scratch folder, with a PATH of nine harmless
programs, and the file must still be there. The long run: `pytest -m slow tests/gate`.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lwm_agents.gate.shell_effects import shell_effects

BASH = shutil.which("bash")
PROGRAMS = ("ls", "cat", "rm", "touch", "true", "env", "xargs", "find", "sort")

PIECES = (
    *("rm canary", "rm", "canary", "ls", "cat", "echo", "true", "find . -exec ", "xargs ", "env "),
    *("'", '"', "`", "$(", ")", "(", "{", "}", ";", "&&", "|", "||", "&", "\n", "\\", "\\\n", "\t"),
    *("<<EOF\n", "\nEOF\n", "<<'EOF'\n", "<<-EOF\n", "<<E\n", "\nE\n", "<<\\EOF\n", "<<<", "<("),
    *(">(",),
    *("#", " #", "${x:-", "${", "$((", "))", "$[", "]", "[[ ", " ]]", "[ ", "test ", "let ", "x["),
    *("if ", "then ", "fi", "for i in 1; do ", "done", "case x in x) ", "esac", ";;", "until "),
    *("f() ", "f", "function g ", "g", "!", "=", "x=", "=(", "$x", '"$(', "$'", "\\'", '$"', "*"),
    *("eval ", "bash -c ", "trap ", "EXIT", "coproc ", "time ", "alias ls=", "declare ", "export "),
    *("-delete", " \\;", "{}", "+", "~", "\r", "@", "> ", "< ", "2>&1", "&>", "|&", "/dev/null"),
)  # fmt: skip

HIDDEN = (
    "rm canary",
    " rm canary ",
    ";rm canary\n",
    "\nrm canary\n",
    "$(rm canary)",
    "`rm canary`",
)


def lines(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    made = []
    for _ in range(count):
        pieces = [source.choice(PIECES) for _ in range(source.randint(1, 7))]
        text = "".join(piece + source.choice(("", " ")) for piece in pieces)
        at = source.randint(0, len(text))
        made.append(text[:at] + source.choice(HIDDEN) + text[at:])
    return made


def check(folder: Path, seed: int, count: int) -> int:
    """Run every line that is called a read; return how many there were."""
    programs, place = folder / "bin", folder / "place"
    programs.mkdir()
    place.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or "/bin/false")
    canary = place / "canary"
    canary.write_text("here")
    run = 0
    for line in lines(seed, count):
        if shell_effects(line) != {"read"}:
            continue
        run += 1
        subprocess.run(
            [str(BASH), "--norc", "--noprofile", "-c", line.encode()],
            cwd=place,
            env={"PATH": str(programs)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert [each.name for each in place.iterdir()] == ["canary"], line
        assert canary.read_text() == "here", line
    return run


pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")


def test_what_is_called_a_read_changes_nothing_in_real_bash(tmp_path: Path) -> None:
    assert check(tmp_path, seed=1, count=2_500) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_the_same_at_length(tmp_path: Path, seed: int) -> None:
    assert check(tmp_path, seed=seed, count=20_000) >= 100
