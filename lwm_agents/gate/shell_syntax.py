"""What a line of Bash says, by its grammar: simple commands, redirections, assignments.

    parse_shell("A=1 git log > out")    one Command, words git and log, A assigned,
                                        and one Redirect, > to out

Commands inside pipes, lists, loops, functions, subshells, `$(...)`, backticks, `<(...)` and
here-documents are all listed. Nothing is run or expanded: a word that only Bash can finish
(`$x`, `{a,b}`, `$(...)`) has no value. Where this grammar (tree-sitter-bash) and Bash are known to
differ, or the text does not parse, `doubts` says so, and whoever reads the script must assume the
worst.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MAX_BYTES = 1_000_000
"""Longer texts are not parsed: nobody reads them before approving, either."""


@dataclass(frozen=True)
class Word:
    """One word of a command: as written, and its value if Bash would find the same every time.

    `wild` says that it begins with an unquoted `*`, `?` or `[`, so that a file's name can stand in
    its place, even one that looks like an option.
    """

    text: str
    value: str | None
    wild: bool = False


@dataclass(frozen=True)
class Command:
    """One simple command: its words, the variables set before it, the text fed to it."""

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    fed: str | None = None
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class Redirect:
    """A redirection to or from a file: the operator without its descriptor, and the target."""

    operator: str
    target: Word


@dataclass(frozen=True)
class Script:
    """Everything found in a text, and why it may not be everything."""

    commands: tuple[Command, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    bare_redirects: tuple[Redirect, ...] = ()
    assigned: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass
class _Found:
    commands: list[Command] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    bare: list[Redirect] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def parse_shell(text: str) -> Script:
    """Return what the text says. Never raises: what can't be parsed is a doubt."""
    try:
        source = text.encode("utf-8")
    except UnicodeEncodeError:
        return Script(doubts=("it is not valid text",))
    if len(source) > MAX_BYTES:
        return Script(doubts=(f"it is longer than {MAX_BYTES:,} bytes",))
    found = _Found()
    if odd := _odd_character(text):
        # The grammar takes some of these for blanks where Bash does not.
        found.doubts.append(f"it contains the character {odd}")
    root = _parser().parse(source).root_node
    if root.has_error:
        found.doubts.append("it could not be parsed")
    for node in _nodes(root):
        _read(node, found)
    return Script(
        commands=tuple(found.commands),
        redirects=tuple(found.redirects),
        bare_redirects=tuple(found.bare),
        assigned=tuple(found.assigned),
        doubts=tuple(dict.fromkeys(found.doubts)),
    )


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _nodes(root: Node) -> Iterator[Node]:
    """Yield every node in the order written, without recursion: texts nest as they like."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _read(node: Node, found: _Found) -> None:
    kind = node.type
    if kind == "command":
        found.commands.append(_command(node))
    elif kind == "file_redirect":
        _read_redirect(node, found)
    elif kind == "heredoc_redirect":
        _read_heredoc(node, found)
    elif kind == "comment":
        if node.start_byte and _byte_before(node) not in b" \t\n;|&()":
            found.doubts.append("a # inside a word was taken for a comment")
    elif kind == "variable_assignment":
        found.assigned.append(_text(node).split("=", 1)[0].rstrip("+").split("[", 1)[0])
    elif kind in ("declaration_command", "unset_command"):
        hidden = any(_hides_code(_text(child)) for child in node.children)
        if hidden:
            found.doubts.append("a quoted word holds code that Bash may run")
        found.assigned.extend(
            _text(child) for child in node.children if child.type == "variable_name"
        )
    elif kind == "test_command":
        if any(child.type == "raw_string" and _hides_code(_text(child)) for child in _nodes(node)):
            found.doubts.append("a quoted word holds code that Bash may run")
    elif kind == "expansion" and re.search(r"@P\}$", _text(node)):
        found.doubts.append("${...@P} runs what the variable holds")


def _command(node: Node) -> Command:
    words: list[Word] = []
    assigned: list[str] = []
    redirects: list[Redirect] = []
    fed: str | None = None
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(_text(child).split("=", 1)[0].rstrip("+").split("[", 1)[0])
        elif child.type == "command_name":
            words.append(_word(child.children[0]) if child.children else _word(child))
        elif child.type == "herestring_redirect":
            fed = _word(child.children[-1]).value
        elif child.type == "file_redirect":
            redirects.extend(_redirects(child))
        elif child.type != "comment":
            words.append(_word(child))
    # Redirections and here-documents hang on a statement around the command.
    above = node.parent
    while above is not None and above.type in ("redirected_statement", "negated_command"):
        for child in above.children:
            if child.type == "heredoc_redirect":
                words.extend(_word(extra) for extra in child.children_by_field_name("argument"))
                body = next((c for c in child.children if c.type == "heredoc_body"), None)
                fed = _text(body) if body is not None else fed
            elif child.type == "herestring_redirect":
                fed = _word(child.children[-1]).value
            elif child.type == "file_redirect":
                redirects.extend(_redirects(child))
        above = above.parent
    return Command(tuple(words), tuple(assigned), fed, tuple(redirects))


def _read_redirect(node: Node, found: _Found) -> None:
    made = _redirects(node)
    found.redirects.extend(made)
    parent = node.parent
    alone = (
        parent is not None
        and parent.type == "redirected_statement"
        and all(child.type in ("file_redirect", "comment") for child in parent.children)
    )
    if alone:
        found.bare.extend(made)


def _redirects(node: Node) -> list[Redirect]:
    """Return the file redirections of a node; none for a copied or closed descriptor."""
    operator = next((c.type for c in node.children if not c.is_named), "")
    targets = [c for c in node.children if c.is_named and c.type != "file_descriptor"]
    if operator in (">&", "<&") and targets and re.fullmatch(rb"\d+-?|-", targets[0].text or b""):
        targets = targets[1:]
    return [Redirect(operator, _word(target)) for target in targets]


def _byte_before(node: Node) -> bytes:
    root = node
    while root.parent is not None:
        root = root.parent
    at = node.start_byte - root.start_byte
    return (root.text or b"")[at - 1 : at] if at > 0 else b" "


def _read_heredoc(node: Node, found: _Found) -> None:
    """Doubt every here-document that is not plain text between plain marks.

    The grammar loses its way in some of them, leaves backticks alone and skips what comes first.
    """
    start = next((c for c in node.children if c.type == "heredoc_start"), None)
    end = next((c for c in node.children if c.type == "heredoc_end"), None)
    mark = "" if start is None else _text(start)
    if not re.fullmatch(r"""\w+|'\w+'|"\w+"|\\\w+""", mark):
        found.doubts.append("the end of a here-document is quoted in an unusual way")
    parent = node.parent
    if parent is not None and sum(c.type == "heredoc_redirect" for c in parent.children) > 1:
        found.doubts.append("two here-documents start on one line")
    if start is None or end is None or _text(end).strip("\t") != mark.strip("'\"\\"):
        found.doubts.append("a here-document does not end")
        return
    root = node
    while root.parent is not None:
        root = root.parent
    body = (root.text or b"")[start.end_byte - root.start_byte : end.start_byte - root.start_byte]
    if re.fullmatch(r"\w+", mark) and re.search(rb"\$\(|`|\$\[|@P\}", body):
        found.doubts.append("a here-document runs commands")


def _word(node: Node) -> Word:
    text = _text(node)
    return Word(text, _value(node), wild=text[:1] in ("*", "?", "["))


def _value(node: Node) -> str | None:
    """Return what Bash would make of a word, or None where that depends on anything."""
    text = _text(node)
    kind = node.type
    if kind == "concatenation":
        parts = [_value(child) for child in node.children]
        if any(part is None for part in parts) or _has_braces(text):
            return None
        return "".join(part for part in parts if part is not None)
    if kind in ("word", "number", "test_operator", "variable_name", "heredoc_start"):
        if node.named_child_count or _has_braces(text):
            return None
        return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], text, flags=re.S)
    if kind == "raw_string":
        return text[1:-1]
    if kind == "string":
        if any(child.is_named and child.type != "string_content" for child in node.children):
            return None
        return re.sub(
            r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], text[1:-1], flags=re.S
        )
    if kind == "ansi_c_string":
        return _ansi_c(text[2:-1])
    if kind == "process_substitution":
        return "/dev/fd/63"
    if not node.is_named:
        return text
    return None


_BRACES = re.compile(r"(?<!\\)\{[^{}]*(,|\.\.)[^{}]*\}", re.S)


def _has_braces(text: str) -> bool:
    return bool(_BRACES.search(text))


_SIMPLE_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b",
    "f": "\f", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def _ansi_c(body: str) -> str | None:
    """Return what `$'body'` means (Bash manual, 3.1.2.4), or None for what is seldom used."""
    unknown = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal unknown
        escape = match[1]
        if escape in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[escape]
        code = int(escape[1:], 16) if escape[0] in "xuU" and escape[1:] else None
        if code is None and escape[0] in "01234567":
            code = int(escape, 8) & 0xFF
        if code is None or code > 0x10FFFF:
            unknown = True
            return ""
        return chr(code)

    pattern = r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)"
    value = re.sub(pattern, replaced, body, flags=re.S)
    return None if unknown or "\0" in value else value


def _hides_code(text: str) -> bool:
    return text.startswith("'") and ("$(" in text or "`" in text)


def _odd_character(text: str) -> str | None:
    for character in text:
        if character in "\n\t" or " " <= character <= "~":
            continue
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"):
            return f"U+{ord(character):04X}"
    return None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
