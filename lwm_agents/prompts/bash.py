"""What a Bash command certainly says: its literal commands, and whether it only reads.

Parsed with tree-sitter. What hangs on a running shell (variables, globs, substitutions, loops,
background jobs) is not literal. Nothing here decides what is safe to run: the gate does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())
_LONGEST = 20_000
"""Longer commands, in characters, are not looked into."""
_DEEPEST, _MOST = 200, 200
"""Levels of syntax, and commands or words of one, that are looked into as literal."""


@dataclass(frozen=True)
class Command:
    """One simple command, all literal.

    `stdin` is the text of a here-document. `writes` are the files its output goes to, in order,
    with whether it is appended. `silenced`: its error messages go nowhere.
    """

    words: tuple[str, ...]
    stdin: str | None = None
    writes: tuple[tuple[str, bool], ...] = ()
    silenced: bool = False


@dataclass(frozen=True)
class Pipeline:
    """Commands joined by `|`; `joined` is the sign before it: "&&", "||" or ";"."""

    commands: tuple[Command, ...]
    joined: str = ";"


class _NotLiteralError(Exception):
    """Some part means what only a running shell knows."""


@lru_cache(maxsize=1024)
def literal(text: str) -> tuple[Pipeline, ...] | None:
    """Return the pipelines of a command whose every part is literal, else None."""
    root = _parsed(text)
    if root is None or _too_deep(root):
        return None
    try:
        pipelines = tuple(_pipelines(root, ";"))
    except _NotLiteralError:
        return None
    commands = [command for pipeline in pipelines for command in pipeline.commands]
    if len(commands) > _MOST or any(len(command.words) > _MOST for command in commands):
        return None
    return pipelines


@lru_cache(maxsize=1024)
def only_reads(text: str, moving: bool = False) -> bool:
    """Return whether every command in `text` is one that only reads, and answers alike each time.

    Changing the directory is no reading, since what comes after sees it; with `moving`, `cd` to an
    absolute path is let through: the same command again still does the same.
    """
    root = _parsed(text)
    if root is None or not text.strip():
        return False
    if re.search(r"RANDOM|SECONDS|EPOCH|BASHPID|\$\$|/dev/u?random|/proc/|/dev/tcp", text):
        return False
    seen = False
    for node in _walk(root):
        if node.type in {"function_definition", "&", "subscript", "declaration_command"}:
            return False
        if node.type == "file_redirect" and not _harmless(node):
            return False
        if node.type == "command":
            seen = True
            if not _reader(_rough_words(node), moving):
                return False
    return seen


def _parsed(text: str) -> Node | None:
    if len(text) > _LONGEST or "\0" in text:
        return None
    try:
        data = text.encode()
    except UnicodeEncodeError:  # lone surrogates, which no shell is handed
        return None
    root = Parser(_LANGUAGE).parse(_BEYOND_ASCII.sub(_spelled, data)).root_node
    return None if root.has_error else root


# The grammar's scanner looks characters up in a C table of 256 and may crash on those beyond it:
# it is given each byte beyond ASCII as two letters of U+00C0 to U+00CF.
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_SPELLED = re.compile("[\u00c0-\u00cf]{2}")


def _spelled(byte: re.Match[bytes]) -> bytes:
    return "".join(chr(0xC0 + digit) for digit in divmod(byte[0][0], 16)).encode()


def _unspelled(pair: re.Match[str]) -> str:
    return chr((ord(pair[0][0]) - 0xC0) * 16 + ord(pair[0][1]) - 0xC0)


def _too_deep(root: Node) -> bool:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            return True
        level = [child for node in level for child in node.children]
    return False


def _text(node: Node) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    if text.isascii():
        return text
    return _SPELLED.sub(_unspelled, text).encode("latin-1", "replace").decode("utf-8", "replace")


def _walk(node: Node) -> Iterator[Node]:
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.children)


# --- literal commands ------------------------------------------------------------------------


def _pipelines(node: Node, joined: str) -> Iterator[Pipeline]:
    if node.type in {"program", "list"}:
        sign = joined
        for child in node.children:
            if child.type in {"&&", "||", ";"}:
                sign = child.type
            elif child.type in {"\n", "comment"}:
                sign = ";"
            elif child.is_named:
                yield from _pipelines(child, sign)
                sign = ";"
            else:
                raise _NotLiteralError
        return
    if node.type == "pipeline":
        commands = [_command(child) for child in node.children if child.type != "|"]
        yield Pipeline(tuple(commands), joined)
        return
    if node.type == "redirected_statement":
        yield from _redirected(node, joined)
        return
    yield Pipeline((_command(node),), joined)


def _redirected(node: Node, joined: str) -> Iterator[Pipeline]:
    """Yield a statement with redirections.

    The grammar puts `a && b > f` as the redirection of the whole list; Bash gives it to `b`.
    """
    body = node.child_by_field_name("body")
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    if body is None or len(redirects) != len(node.children) - 1:
        raise _NotLiteralError
    if body.type not in {"command", "list", "pipeline"}:
        raise _NotLiteralError
    *before, last = _pipelines(body, joined)
    yield from before
    final = _with_redirects(last.commands[-1], redirects)
    yield Pipeline((*last.commands[:-1], final), last.joined)


def _command(node: Node) -> Command:
    if node.type == "test_command":
        return Command(_test_words(node))
    if node.type == "command":
        return _simple(node)
    if node.type == "redirected_statement":
        pipelines = list(_redirected(node, ""))
        if len(pipelines) == 1 and len(pipelines[0].commands) == 1:
            return pipelines[0].commands[0]
    raise _NotLiteralError


def _simple(node: Node) -> Command:
    words: list[str] = []
    redirects: list[Node] = []
    for child in node.children:
        if child.type == "command_name":
            if child.child_count != 1:
                raise _NotLiteralError
            words.append(_word(child.children[0]))
        elif child.type.endswith("_redirect"):
            redirects.append(child)
        else:
            words.append(_word(child))
    if not words:
        raise _NotLiteralError
    return _with_redirects(Command(tuple(words)), redirects)


def _with_redirects(command: Command, redirects: list[Node]) -> Command:
    stdin, silenced = command.stdin, command.silenced
    writes = list(command.writes)
    for redirect in redirects:
        if redirect.type == "heredoc_redirect":
            stdin = _heredoc(redirect)
            continue
        if redirect.type == "herestring_redirect":
            stdin = _word(redirect.children[-1]) + "\n"
            continue
        descriptor = redirect.child_by_field_name("descriptor")
        number = "1" if descriptor is None else _text(descriptor)
        sign = next((c.type for c in redirect.children if not c.is_named), "")
        target = _word(redirect.children[-1])
        if number == "2" and target == "/dev/null" and sign in {">", ">>"}:
            silenced = True
        elif number == "2" and sign == ">&" and target == "1":
            silenced = True  # errors go where the output goes
        elif sign in {">", ">>", ">|"} and number == "1":
            writes.append((target, sign == ">>"))
        else:
            raise _NotLiteralError
    return Command(command.words, stdin, tuple(writes), silenced)


def _heredoc(node: Node) -> str:
    allowed = {"<<", "heredoc_start", "heredoc_body", "heredoc_end", "\n"}
    if any(child.type not in allowed for child in node.children):
        raise _NotLiteralError
    parts = {child.type: child for child in node.children}
    start, body = _text(parts["heredoc_start"]), parts.get("heredoc_body")
    text = "" if body is None else _text(body)
    if start[0] not in "'\"" and (re.search(r"[$`\\]", text) or "\\" in start):
        raise _NotLiteralError
    return text


def _word(node: Node) -> str:
    text = _text(node)
    if node.type == "number":
        return text
    if node.type == "word":
        if re.search(r"(?<!\\)[*?\[\]{}$`()<>|&;!]", text) or text.startswith("~"):
            raise _NotLiteralError
        return re.sub(r"\\(.)", r"\1", re.sub(r"\\\n", "", text), flags=re.DOTALL)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string":
        inner = text[1:-1]
        if "$" in inner or "`" in inner:
            raise _NotLiteralError
        return re.sub(r'\\([\\"$`])', r"\1", inner.replace("\\\n", ""))
    if node.type == "concatenation":
        return "".join(_word(child) for child in node.children)
    raise _NotLiteralError


def _test_words(node: Node) -> tuple[str, ...]:
    """Return `[ -f x ]` as the words ("[", "-f", "x")."""
    if node.children[0].type != "[" or node.child_count != 3:
        raise _NotLiteralError
    inside = node.children[1]
    if inside.type != "unary_expression" or inside.child_count != 2:
        raise _NotLiteralError
    return ("[", _text(inside.children[0]), _word(inside.children[1]))


# --- reading only ------------------------------------------------------------------------------

_READERS = frozenset(
    {
        *("[", "arch", "awk", "basename", "cal", "cat", "cmp", "column", "comm", "cut", "diff"),
        *("dirname", "du", "echo", "egrep", "expr", "false", "fgrep", "file", "find", "fold"),
        *("gawk", "getconf", "grep", "groups", "head", "hexdump", "hostname", "id", "join", "less"),
        *("locale", "ls", "lsb_release", "mawk", "md5sum", "more", "nl", "nproc", "od", "paste"),
        *("printenv", "printf", "pwd", "readlink", "realpath", "rev", "sed", "seq", "sha1sum"),
        *("sha256sum", "sort", "stat", "strings", "tac", "tail", "test", "tr", "tree", "true"),
        *("tsort", "type", "uname", "uniq", "wc", "whereis", "which", "whoami", "xargs", "xxd"),
        *("zcat", "zgrep"),
    }
)
_LONGEST_SED = 500
_SED_SCRIPT = re.compile(
    r"[\d,$;p =!dq]*|s(?P<sign>[/|#,]).*?(?P=sign).*?(?P=sign)[gpI\d]*", re.DOTALL | re.ASCII
)


def _rough_words(node: Node) -> list[str]:
    """Return the words of a command with quotes taken off; what is not literal as it stands."""
    words = []
    for child in node.children:
        if child.type == "command_name":
            child = child.children[0]
        if child.type == "variable_assignment" or child.type.endswith("_redirect"):
            continue
        try:
            words.append(_word(child))
        except _NotLiteralError:
            words.append(_text(child))
    return words


def _reader(words: list[str], moving: bool = False, inner: bool = False) -> bool:
    """Return whether a command only reads; `inner`: one that another command runs."""
    if not words or words[0] not in _READERS:
        return False
    name, rest = words[0], words[1:]
    if inner and name in {"find", "xargs"}:
        return False
    if name == "cd":
        return moving and len(rest) == 1 and rest[0].startswith("/")
    if name == "find":
        if any(re.match(r"-(delete|fprint|fls|ok)", word) for word in rest):
            return False
        if sum(word in {"-exec", "-execdir"} for word in rest) > 20:
            return False
        return all(
            _reader(rest[index + 1 :], inner=True)
            for index, word in enumerate(rest)
            if word in {"-exec", "-execdir"}
        )
    if name == "xargs":
        while rest and rest[0].startswith("-"):
            takes_value = rest[0] in {"-I", "-n", "-L", "-P", "-d", "-s", "-a", "-E"}
            rest = rest[2 if takes_value else 1 :]
        return not rest or _reader(rest, inner=True)
    if name == "sed":
        scripts = [word for word in rest if not word.startswith("-")][:1]
        options = [word for word in rest if word.startswith("-")]
        quiet = all(option in {"-n", "-E", "-r", "-e", "--quiet"} for option in options)
        plain = bool(scripts) and len(scripts[0]) <= _LONGEST_SED
        return quiet and plain and _SED_SCRIPT.fullmatch(scripts[0]) is not None
    if name in {"awk", "gawk", "mawk"}:
        return not any(re.search(r"[>|]|system|getline|rand|systime|-i\b", word) for word in rest)
    if name == "sort":
        return not any(re.match(r"-\w*[oR]|--(output|random)", word) for word in rest)
    if name in {"uniq", "xxd"}:
        return sum(not word.startswith("-") for word in rest) <= 1 and "-r" not in rest
    if name in {"hostname", "tree"}:
        return not any(word.startswith("-o") for word in rest) and (name == "tree" or not rest)
    if name == "cal":
        return bool(rest)
    if name == "tail":
        return not any(re.match(r"-\w*[fF]|--follow", word) for word in rest)
    return True


def _harmless(redirect: Node) -> bool:
    sign = next((child.type for child in redirect.children if not child.is_named), "")
    target = _text(redirect.children[-1])
    if sign == "<" or target == "/dev/null":
        return True
    return sign in {">&", "<&"} and re.fullmatch("[0-9]", target) is not None
