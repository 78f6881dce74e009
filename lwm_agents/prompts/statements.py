"""What one SQLite statement is about: its verb, and the name it makes, changes or takes away."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

# SQLite's own lexical rules: only these five characters are blank, only ASCII letters fold.
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n\f\r]+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<quoted>"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|'[^']*(?:''[^']*)*'|\[[^]]*\])
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class Statement:
    """One statement.

    `verb` is its first word in upper case. `kind` is TABLE, VIEW, INDEX or TRIGGER where it makes,
    alters or drops one. `name` is that of its object, or of the table it writes to, as SQLite
    compares names; "" where the verb takes none. `careful`: IF EXISTS or IF NOT EXISTS.
    `action` is ADD, RENAME or DROP of an ALTER, and `renamed` the new name of its table.
    """

    verb: str
    kind: str = ""
    name: str = ""
    careful: bool = False
    action: str = ""
    renamed: str = ""


def folded(name: str) -> str:
    """Return a name as SQLite compares it."""
    return name.translate(_LOWER)


def statement_of(query: str) -> Statement | None:
    """Return what a statement is about; None where that is not certain.

    Names of other schemas than `main` are not told.
    """
    if "\0" in query or "\ufeff" in query:
        return None
    tokens = _Tokens(query)
    try:
        return _statement(tokens)
    except _UnclearError:
        return None


class _UnclearError(Exception):
    """The statement is of no form that is known here."""


class _Tokens:
    """The tokens of a statement: words in upper case, with what each says as a name."""

    def __init__(self, query: str) -> None:
        self._rest = self._read(query)
        self._next = next(self._rest, ("", None))

    def _read(self, query: str) -> Iterator[tuple[str, str | None]]:
        for found in _TOKEN.finditer(query):
            if found["word"]:
                yield found["word"].upper(), folded(found["word"])
            elif quoted := found["quoted"]:
                end = quoted[-1]
                inner = quoted[1:-1] if end == "]" else quoted[1:-1].replace(end * 2, end)
                yield quoted, folded(inner)
            elif found["sign"]:
                yield found["sign"], None

    def take(self) -> tuple[str, str | None]:
        token, self._next = self._next, next(self._rest, ("", None))
        return token

    def skip(self, *words: str) -> bool:
        """Take the next token where it is one of these words; say whether it was."""
        if self._next[0] not in words:
            return False
        self.take()
        return True

    def need(self, *words: str) -> str:
        token, _ = self.take()
        if token not in words:
            raise _UnclearError
        return token

    def name(self) -> str:
        _, name = self.take()
        if self.skip("."):
            if name != "main":
                raise _UnclearError
            _, name = self.take()
        if not name:
            raise _UnclearError
        return name


def _statement(tokens: _Tokens) -> Statement | None:
    verb, _ = tokens.take()
    if not verb.isidentifier():
        return None
    if verb == "CREATE":
        if tokens.skip("UNIQUE"):
            kind = tokens.need("INDEX")
        else:
            kind = tokens.need("TABLE", "VIEW", "INDEX", "TRIGGER")
        careful = tokens.skip("IF")
        if careful:
            tokens.need("NOT")
            tokens.need("EXISTS")
        return Statement(verb, kind, tokens.name(), careful)
    if verb == "DROP":
        kind = tokens.need("TABLE", "VIEW", "INDEX", "TRIGGER")
        careful = tokens.skip("IF")
        if careful:
            tokens.need("EXISTS")
        return Statement(verb, kind, tokens.name(), careful)
    if verb == "ALTER":
        kind, name = tokens.need("TABLE"), tokens.name()
        action = tokens.need("ADD", "RENAME", "DROP")
        renamed = tokens.name() if action == "RENAME" and tokens.skip("TO") else ""
        return Statement(verb, kind, name, action=action, renamed=renamed)
    if verb in {"INSERT", "REPLACE", "UPDATE", "DELETE"}:
        if tokens.skip("OR"):
            tokens.need("ROLLBACK", "ABORT", "REPLACE", "FAIL", "IGNORE")
        if verb != "UPDATE":
            tokens.need("FROM" if verb == "DELETE" else "INTO")
        return Statement(verb, name=tokens.name())
    return Statement(verb)
