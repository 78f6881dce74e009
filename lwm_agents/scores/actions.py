"""What an action says of the order of its answer's lines or rows."""

from __future__ import annotations

import re
import shlex

from lwm_agents.scores.align import Order
from lwm_agents.values import Action

_QUERY = re.compile(r"\s*(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)
_ORDERED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_LONG = 10_000
"""Commands of more characters are not looked into."""

_ENDS = frozenset((";", "&&", "||", "&", "\n"))
_SILENT = "cd mkdir touch rm mv cp ln chmod chown export set unset source true : shopt umask"
# What prints a line, or none, for each line it reads.
_FILTERS = "awk cat cut egrep fgrep grep head perl sed tail tr wc"
# What prints lines of their own about each file it is given.
_TELLERS = """basename dirname du echo egrep fgrep file grep ls md5sum printf sha1sum sha256sum stat
wc"""


def order_of(action: Action | None) -> Order | None:
    """Return what order is worth in the answer to an action; None where the action does not say.

    A query with ORDER BY: `given`; without: `loose`. A shell command whose only output comes from
    `find`, `ls -U`, `ls -f`, `grep -r`, `rg` or `du`, with nothing that sorts: `none`.
    """
    if action is None:
        return None
    for value in action.arguments.values():
        if isinstance(value, str) and _QUERY.match(value):
            return "given" if _ORDERED.search(_outside_parentheses(value)) else "loose"
    command = action.arguments.get("command")
    return "none" if isinstance(command, str) and _has_no_order(command) else None


def _outside_parentheses(query: str) -> str:
    depth, kept = 0, []
    for part in re.split(r"([()])", query):
        if part in ("(", ")"):
            depth += 1 if part == "(" else -1
        elif depth <= 0:
            kept.append(part)
    return " ".join(kept)


def _has_no_order(command: str) -> bool:
    if len(command) > _LONG:
        return False
    printing = [one for one in _pipelines(command) if one[0] and one[0][0] not in _SILENT.split()]
    if len(printing) != 1:
        return False
    (first, *others) = printing[0]
    if not first or not _lists_without_order(first):
        return False
    filters = [stage for stage in others if stage[:1] != ["xargs"]]
    tellers = [*_runs(first), *(stage[1:] for stage in others if stage[:1] == ["xargs"])]
    return all(stage and stage[0] in _FILTERS.split() for stage in filters) and all(
        _first_command(words) in _TELLERS.split() for words in tellers
    )


def _first_command(words: list[str]) -> str | None:
    """Return the first word that is no option, nor the number or braces of one."""
    return next((word for word in words if not re.match(r"-|\d+$|\{\}$", word)), None)


def _pipelines(command: str) -> list[list[list[str]]]:
    """Return a command's pipelines, each a list of stages, each a list of words."""
    reader = shlex.shlex(command, posix=True, punctuation_chars=";&|\n")
    reader.whitespace = " \t\r"
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        words = list(reader)
    except ValueError:  # a quote that is never closed
        return []
    pipelines: list[list[list[str]]] = [[[]]]
    for word in words:
        if word in _ENDS:
            pipelines.append([[]])
        elif word == "|":
            pipelines[-1].append([])
        else:
            pipelines[-1][-1].append(word)
    return [one for one in pipelines if one != [[]]]


def _lists_without_order(words: list[str]) -> bool:
    flags = "".join(word[1:] for word in words[1:] if re.fullmatch("-[A-Za-z]+", word))
    match words[0]:
        case "find" | "fd" | "rg" | "du":
            return True
        case "ls":
            return "U" in flags or "f" in flags
        case "grep" | "egrep" | "fgrep":
            return "r" in flags or "R" in flags
    return False


def _runs(words: list[str]) -> list[list[str]]:
    """Return the commands that find runs for each file."""
    starts = [n for n, word in enumerate(words) if word in ("-exec", "-execdir", "-ok")]
    return [words[start + 1 :] for start in starts]
