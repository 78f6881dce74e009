"""How many things a command line takes away, as far as its words say.

    deletions_in("rm a b; git reset --hard; ls") == 3

A floor, not a count: a loop, a wildcard or a folder stands for any number.
"""

from __future__ import annotations

from lwm_agents.gate.shell_call import Work
from lwm_agents.gate.shell_effects import MAX_DEPTH, command_effects, command_name
from lwm_agents.gate.shell_syntax import Command, parse_shell
from lwm_agents.gate.shell_tables import SHELLS

_BY_OPERAND = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "del"})


def deletions_in(text: str) -> int:
    """Return how many deletions a command line names: one for every simple command that destroys,
    every operand of `rm` and its like, every bare `> file`. Never raises.
    """
    total, work, lines = 0, Work(), [(text, 0)]
    while lines:
        line, depth = lines.pop()
        if depth > MAX_DEPTH or not work.spend(len(line)):
            continue
        script = parse_shell(line)
        total += len(script.bare_redirects)
        for command in script.commands:
            if "destroy" not in command_effects(command, work=work):
                continue
            inner = _inner_line(command)
            if inner is None:
                total += _named_by(command)
            else:
                lines.append((inner, depth + 1))
    return total


def _inner_line(command: Command) -> str | None:
    """Return the line that `bash -c`, `eval` or a shell's input holds; None for other commands."""
    name = command_name(command.words[0]) if command.words else None
    values = [word.value or "" for word in command.words]
    if name == "eval":
        return " ".join(values[1:])
    if name in SHELLS:
        if len(values) > 2 and values[1].startswith("-") and "c" in values[1]:
            return values[2]
        return command.fed
    return None


def _named_by(command: Command) -> int:
    """Return 1, or the number of operands where the command is `rm` or runs it."""
    for at, word in enumerate(command.words):
        if command_name(word) in _BY_OPERAND:
            operands = [w for w in command.words[at + 1 :] if not w.text.startswith("-")]
            return max(1, len(operands))
    return 1
