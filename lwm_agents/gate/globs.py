"""Does a pattern of a policy cover what a call names? Paths, commands, SQL and other texts.

Two questions, answered differently on purpose. `covers` is for rules that allow: in doubt, no.
`touches` is for rules that deny or ask: in doubt, yes; and it ignores case, because some file
systems do.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from wcmatch import glob

from lwm_agents.gate.shell_call import NO_FILE, Work
from lwm_agents.gate.shell_effects import command_name
from lwm_agents.gate.shell_syntax import Command, Script, parse_shell
from lwm_agents.gate.shell_tables import SHELLS, WRAPPERS

# Paths need a `*` that stops at a slash and a `**` that does not. PurePath.full_match came with
# Python 3.13 only, and fnmatch knows no slash; wcmatch is a small maintained library for just that.
_FLAGS = glob.GLOBSTAR | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE

_PATH_NAME = re.compile(
    r"(.*_)?(path|file|filename|folder|dir|directory|cwd|root)|source|destination"
)

MAX_NESTING = 5
"""How often a command line may hold another before a rule that restrains is taken to match."""

MAX_COMMANDS = 500
"""A line of more commands is not taken apart: no rule allows it unless it spells out the line."""


def is_path_argument(name: str) -> bool:
    """Say whether an argument of this name holds a path."""
    return bool(_PATH_NAME.fullmatch(name.lower()))


def text_covers(pattern: str, text: str) -> bool:
    """Say whether the pattern is the text's; `*` stands for anything, line breaks included."""
    return fnmatchcase(text, pattern)


def text_touches(pattern: str, text: str) -> bool:
    """Say the same without regard to case and to compatibility forms of characters."""
    return fnmatchcase(_folded(text), _folded(pattern))


def path_covers(pattern: str, path: str, root: str | None) -> bool:
    """Say whether a path lies in a pattern, once `..` and separators are resolved as text.

    A pattern that is not absolute is meant from the root, and never covers what lies outside it.
    """
    form = _path_form(pattern, path, root)
    odd = any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in path)
    drive_relative = re.match(r"[A-Za-z]:(?![/\\])", path)
    if form is None or odd or drive_relative or not path:
        return False
    return _path_matches(pattern, form)


def path_touches(pattern: str, path: str, root: str | None, *, whole_tree: bool) -> bool:
    """Say whether a path may lie in a pattern; with `whole_tree`, or hold what lies in it."""
    form = _path_form(pattern, path, root)
    if form is None:
        # Outside the root, or who knows where: a relative pattern says nothing about it.
        return False
    folded = "/".join(part.rstrip(". ") or part for part in _folded(form).split("/"))
    low = _folded(pattern)
    if _path_matches(low, folded) or _path_matches(low, _folded(form)):
        return True
    prefix = re.split(r"[*?\[]", low, maxsplit=1)[0]
    return whole_tree and (folded == "." or prefix.startswith(folded.rstrip("/") + "/"))


def _path_matches(pattern: str, path: str) -> bool:
    """`src/**` means the folder itself, too."""
    if pattern == "**" or (pattern.endswith("/**") and _path_matches(pattern[:-3] or "/", path)):
        return True
    return bool(glob.globmatch(path, pattern, flags=_FLAGS))


def _path_form(pattern: str, path: str, root: str | None) -> str | None:
    """Return the path as the pattern writes paths: absolute, or from the root; else None."""
    # A backslash is a separator on Windows, and read as one everywhere: one policy, one meaning.
    plain = posixpath.normpath(path.replace("\\", "/")) if path else "."
    base = None if root is None else posixpath.normpath(root.replace("\\", "/"))
    if _is_absolute(pattern):
        if _is_absolute(plain):
            return plain
        return None if base is None else posixpath.normpath(posixpath.join(base, plain))
    if _is_absolute(plain):
        if base is None:
            return None
        if plain == base:
            return "."
        if not plain.startswith(base.rstrip("/") + "/"):
            return None
        return plain[len(base.rstrip("/")) + 1 :]
    if plain == ".." or plain.startswith("../"):
        if base is None:
            return None
        return _path_form(pattern, posixpath.normpath(posixpath.join(base, plain)), root)
    return plain


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(re.match(r"[A-Za-z]:/", path))


def command_parts(text: str) -> tuple[Command, ...] | None:
    """Return the simple commands of a command line; None where they can't all be told."""
    script = parse_shell(text)
    too_many = len(script.commands) > MAX_COMMANDS
    if script.doubts or not script.commands or too_many or _has_more(script):
        return None
    return script.commands


def _has_more(script: Script) -> bool:
    return bool(script.bare_redirects) or len(script.redirects) > sum(
        len(command.redirects) for command in script.commands
    )


def command_covers(pattern: str, command: Command) -> bool:
    """Say whether a simple command is the pattern's.

    Never where it sets variables, sends output to a file, or only Bash knows what it runs: such a
    line must be written out in full in the policy.
    """
    if command.assigned or not command.words or command_name(command.words[0]) is None:
        return False
    if any((r.target.value or "") not in NO_FILE and r.operator != "<" for r in command.redirects):
        return False
    if any((r.target.value or "/dev/").startswith("/dev/tcp") for r in command.redirects):
        return False
    open_words = any(word.value is None for word in command.words)
    if open_words and re.search(r"[?\[]", pattern):
        return False
    return any(fnmatchcase(form, pattern) for form in _forms(command))


@lru_cache(maxsize=64)
def command_touches(pattern: str, text: str) -> bool:
    """Say whether any command in a line may be the pattern's, looking through wrappers.

    A line too long, too deep or too much work to be looked through is taken for one that may.
    """
    # Lines that stand in one another (`bash -c`, `eval`), each once: their number can explode.
    lines, seen, work = [(text, 0)], {text}, Work()
    while lines:
        line, depth = lines.pop()
        script = parse_shell(line) if work.spend(len(line)) else None
        if script is None or script.doubts or depth > MAX_NESTING:
            return True
        if text_touches(pattern, line.strip()):
            return True
        for command in script.commands:
            inner = _lines_in(pattern, command, work)
            if inner is None:
                return True
            lines += [(each, depth + 1) for each in inner if each not in seen]
            seen |= inner
    return False


def _lines_in(pattern: str, command: Command, work: Work) -> set[str] | None:
    """Return the command lines that a command may run; None where it may be the pattern's itself.

    Behind a wrapper (`sudo`, `find`) the command may begin at any word.
    """
    words, lines = command.words, set[str]()
    wrapped = False
    for start in range(len(words)):
        name = command_name(words[start])
        if start and not wrapped:
            break
        if start and name is None:
            continue
        part = Command(words[start:], fed=command.fed)
        size = sum(len(word.text) for word in part.words)
        if name is None or not work.spend(size):
            return None
        if any(text_touches(pattern, form) for form in _forms(part)):
            return None
        wrapped = wrapped or name in WRAPPERS or name in ("find", "fd")
        if name in SHELLS or name in ("eval", "trap", "su", "ssh"):
            values = [word.value or "" for word in part.words[1:]]
            lines |= {*values, command.fed or ""}
            if name in ("eval", "ssh"):  # these join their words; ssh has a host and options first
                lines |= {" ".join(values[first:]) for first in range(min(len(values), 12))}
    return lines - {""}


def _forms(command: Command) -> Iterator[str]:
    """Yield a command as written, and with plain quoting and the plain name of what it runs."""
    words = command.words
    yield " ".join(word.text for word in words)
    plain = [word.text if word.value is None else shlex.quote(word.value) for word in words]
    yield " ".join(plain)
    value = words[0].value
    if value is not None and command_name(words[0]) is not None:
        yield " ".join([shlex.quote(value.rsplit("/", 1)[-1]), *plain[1:]])


def sql_covers(pattern: str, query: str) -> bool:
    """Say whether SQL is one statement, and the pattern's."""
    from lwm_agents.gate.sql_effects import DIALECTS, statements_of

    one = all(statements_of(query, dialect) == 1 for dialect in DIALECTS)
    return one and fnmatchcase(_blanks(query), _blanks(pattern))


def sql_touches(pattern: str, query: str) -> bool:
    """Say whether any statement in the SQL may be the pattern's; in doubt, or too long, yes."""
    from lwm_agents.gate.sql_effects import DIALECTS, plain_statements

    if text_touches(_blanks(pattern), _blanks(query)):
        return True
    for dialect in DIALECTS:
        statements = plain_statements(query, dialect)
        if statements is None or any(text_touches(_blanks(pattern), s) for s in statements):
            return True
    return False


def _blanks(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
