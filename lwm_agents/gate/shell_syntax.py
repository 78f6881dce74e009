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
from functools import cache, lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MAX_BYTES = 50_000
"""Longer texts are not parsed: nobody reads them before approving, either."""

MAX_NODES = 10_000
"""Of a text with more parts than this (words, signs, lists) only the first are read."""


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
    plain_bodies: bool = False  # a here-document that is not expanded holds `[` and code


@lru_cache(maxsize=16)  # a gate asks for the same line once for every rule
def parse_shell(text: str) -> Script:
    """Return what the text says. Never raises: what can't be parsed is a doubt."""
    try:
        source = _spelled(text.encode("utf-8"))
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
    for count, (node, above, close) in enumerate(_nodes(root)):
        if count >= MAX_NODES:
            found.doubts.append(f"it has more than {MAX_NODES:,} parts")
            break
        _read(node, above, close, source, found)
    if found.plain_bodies and any(_reads_lines(command) for command in found.commands):
        found.doubts.append("a here-document holds code that Bash may run as a subscript")
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


@dataclass(frozen=True)
class _Above:
    """The nodes around a node, innermost first: `Node.parent` searches from the root each time."""

    node: Node
    above: _Above | None


_CLOSE = frozenset({
    "variable_assignment", "subscript", "arithmetic_expansion", "test_command", "expansion",
    "declaration_command", "unset_command", "c_style_for_statement", "herestring_redirect",
    "for_statement",
})  # fmt: skip
"""Where Bash may take a text for a variable's value or for arithmetic, and run what is in it."""


def _nodes(root: Node) -> Iterator[tuple[Node, _Above | None, bool]]:
    """Yield every node in the order written, what is around it, and whether it is in `_CLOSE`.

    Without recursion: texts nest as they like.
    """
    stack: list[tuple[Node, _Above | None, bool]] = [(root, None, False)]
    while stack:
        node, above, close = stack.pop()
        yield node, above, close
        arithmetic = node.type == "compound_statement" and node.children[0].type == "(("
        # The commands in a loop or in `$(...)` are commands again.
        within = node.type not in ("command", "do_group", "command_substitution") and (
            close or arithmetic or node.type in _CLOSE
        )
        around = _Above(node, above)
        stack.extend((child, around, within) for child in reversed(node.children))


def _read(node: Node, above: _Above | None, close: bool, source: bytes, found: _Found) -> None:
    kind = node.type
    if kind in _TEXTS:
        if _hides_code(node, close=close):
            found.doubts.append("a quoted word holds code that Bash may run")
    elif kind == "command":
        found.commands.append(_command(node, above))
    elif kind == "file_redirect":
        found.redirects.extend(_redirects(node))
    elif kind == "redirected_statement":
        if all(child.type in ("file_redirect", "comment") for child in node.children):
            found.bare.extend(made for child in node.children for made in _redirects(child))
    elif kind == "heredoc_redirect":
        _read_heredoc(node, source, found)
    elif kind == "comment":
        if node.start_byte and source[node.start_byte - 1] not in b" \t\n;|&()":
            found.doubts.append("a # inside a word was taken for a comment")
    elif kind == "variable_assignment":
        found.assigned.append(_assigned(node))
    elif kind in ("declaration_command", "unset_command"):
        _read_declaration(node, found)
    elif kind in ("for_statement", "select_statement"):
        found.assigned.extend(_text(c) for c in node.children if c.type == "variable_name")
    elif kind == "expansion":
        text = _text(node)
        if text.endswith("@P}"):
            found.doubts.append("${...@P} runs what the variable holds")
        if match := re.match(r"\$\{(\w+)[^=}]{0,200}=", text):
            found.assigned.append(match[1])
    if sum(child.type == "heredoc_redirect" for child in node.children) > 1:
        found.doubts.append("two here-documents start on one line")


def _assigned(node: Node) -> str:
    """Return the name a variable_assignment sets, without a subscript."""
    return re.split(r"[\[+=]", _text(node)[:300], maxsplit=1)[0]


def _read_declaration(node: Node, found: _Found) -> None:
    """`declare`, `typeset`, `local`, `readonly`, `export`, `unset`: names, values and options."""
    for child in node.children[1:]:
        if child.type == "variable_name":
            found.assigned.append(_text(child))
        elif child.type != "variable_assignment":
            value = _value(child)
            if value is None:
                found.doubts.append("only Bash can tell what a declaration names")
            elif value.startswith(("-", "+")) and re.search("[in]", value):
                # -i evaluates values as arithmetic, -n makes a name stand for another.
                found.doubts.append("a declaration changes what values mean")
            else:
                found.assigned.append(re.split(r"[\[+=]", value, maxsplit=1)[0])


def _command(node: Node, around: _Above | None) -> Command:
    words: list[Word] = []
    assigned: list[str] = []
    redirects: list[Redirect] = []
    fed: str | None = None
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(_assigned(child))
        elif child.type == "command_name":
            words.append(_word(child.children[0]) if child.children else _word(child))
        elif child.type == "herestring_redirect":
            fed = _word(child.children[-1]).value
        elif child.type == "file_redirect":
            redirects.extend(_redirects(child))
        elif child.type != "comment":
            words.append(_word(child))
    # Redirections and here-documents hang on a statement around the command.
    while around is not None and around.node.type in ("redirected_statement", "negated_command"):
        for child in around.node.children:
            if child.type == "heredoc_redirect":
                words.extend(_word(extra) for extra in child.children_by_field_name("argument"))
                body = next((c for c in child.children if c.type == "heredoc_body"), None)
                fed = _text(body) if body is not None else fed
            elif child.type == "herestring_redirect":
                fed = _word(child.children[-1]).value
            elif child.type == "file_redirect":
                redirects.extend(_redirects(child))
        around = around.above
    return Command(tuple(words), tuple(assigned), fed, tuple(redirects))


def _reads_lines(command: Command) -> bool:
    return bool(command.words) and command.words[0].value in ("read", "mapfile", "readarray")


def _redirects(node: Node) -> list[Redirect]:
    """Return the file redirections of a node; none for a copied or closed descriptor."""
    if node.type != "file_redirect":
        return []
    operator = next((c.type for c in node.children if not c.is_named), "")
    targets = [c for c in node.children if c.is_named and c.type != "file_descriptor"]
    if operator in (">&", "<&") and targets and re.fullmatch(rb"\d+-?|-", targets[0].text or b""):
        targets = targets[1:]
    return [Redirect(operator, _word(target)) for target in targets]


def _read_heredoc(node: Node, source: bytes, found: _Found) -> None:
    """Doubt every here-document that is not plain text between plain marks.

    The grammar loses its way in some of them, leaves backticks alone and skips what comes first.
    """
    start = next((c for c in node.children if c.type == "heredoc_start"), None)
    end = next((c for c in node.children if c.type == "heredoc_end"), None)
    mark = "" if start is None else _text(start)
    if not re.fullmatch(r"""\w+|'\w+'|"\w+"|\\\w+""", mark):
        found.doubts.append("the end of a here-document is quoted in an unusual way")
    if start is None or end is None or _text(end).strip("\t") != mark.strip("'\"\\"):
        found.doubts.append("a here-document does not end")
        return
    body = source[start.end_byte : end.start_byte]
    if re.fullmatch(r"\w+", mark) and re.search(rb"\$\(|`|\$\[|@P\}", body):
        found.doubts.append("a here-document runs commands")
    if b"[" in body and (b"$(" in body or b"`" in body):
        found.plain_bodies = True


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


def _has_braces(text: str) -> bool:
    """Say whether Bash may make several words of it: `{a,b}`, `{1..9}`."""
    return "{" in text and ("," in text or ".." in text)


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


_TEXTS = frozenset({"raw_string", "ansi_c_string", "string", "word", "concatenation"})


def _hides_code(node: Node, *, close: bool) -> bool:
    """Say whether a text holds `$(` or a backtick that Bash may yet come to run.

    Bash runs what stands in a subscript when it takes a text for a number or for a variable's name:
    `x='a[$(rm y)]'; echo $((x))`. So a bracket before the code is enough anywhere; where a variable
    gets its value (`close`) parts of it are, because others may follow.
    """
    if node.type == "ansi_c_string" and _value(node) is None:
        return True
    if node.type == "string":
        parts = [_text(child) for child in node.children if child.type == "string_content"]
    else:
        value = _value(node)
        if value is None:
            return False  # its parts are looked at one by one
        parts = [value]
    text = re.sub(r"\\([$`\\])", r"\1", "".join(parts))
    if close:
        unclosed = text.rfind("[") > text.rfind("]")
        return "$(" in text or "`" in text or unclosed or text.endswith("$")
    after = text.partition("[")[2]
    return "$(" in after or "`" in after


def _odd_character(text: str) -> str | None:
    for character in text:
        if character in "\n\t" or " " <= character <= "~":
            continue
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"):
            return f"U+{ord(character):04X}"
    return None


def _text(node: Node) -> str:
    return _unspelled((node.text or b"").decode("utf-8", "replace"))


def _spelled(source: bytes) -> bytes:
    """Return UTF-8 with every byte beyond ASCII spelled as two letters of U+00C0 to U+00CF.

    The grammar's scanner looks characters up in a C table of 256 and crashes on some beyond it.
    """
    return re.sub(
        rb"[\x80-\xff]",
        lambda m: "".join(chr(0xC0 + digit) for digit in divmod(m[0][0], 16)).encode(),
        source,
    )


def _unspelled(text: str) -> str:
    if text.isascii():
        return text
    pairs = re.sub(
        "([\u00c0-\u00cf])([\u00c0-\u00cf])",
        lambda m: chr((ord(m[1]) - 0xC0) * 16 + ord(m[2]) - 0xC0),
        text,
    )
    return pairs.encode("latin-1", "replace").decode("utf-8", "replace")
