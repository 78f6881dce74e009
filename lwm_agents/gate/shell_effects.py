"""What a Bash command can do, by the grammar and by tables of well-known commands.

    shell_effects("git log | head") == {"read"}
    shell_effects("rm -r build; curl https://example.com") == {"destroy", "external"}

The result is a hint: it colours an approval, and policies and `--yes` go by it. It carries no
safety: in `gated` even a read is answered from a copy. Whatever is not known for certain is
`unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from lwm_agents.gate.shell_call import (
    DESTROY,
    EXTERNAL,
    NO_FILE,
    READ,
    UNKNOWN,
    WRITE,
    Call,
    Found,
    Work,
    option_effects,
    reduced,
)
from lwm_agents.gate.shell_programs import PROGRAMS
from lwm_agents.gate.shell_syntax import MAX_BYTES, Command, Redirect, Word, parse_shell
from lwm_agents.gate.shell_tables import (
    ALIASES,
    COMMANDS,
    DESTROY_WORD,
    FAMILIES,
    RISKY_VARIABLES,
    SHELLS,
    WRAPPER_FLAGS,
    WRAPPERS,
    Family,
)
from lwm_agents.values import Effect

MAX_DEPTH = 5
"""How often a command line may hold another (`bash -c`, `eval`) before we stop looking."""

_STANDARD_FOLDERS = re.compile(r"/(usr/)?(local/)?s?bin/")
_LISTS_CODE_IN_NAMES = frozenset({"[", "test", "printf", "read", "let", "readarray", "mapfile"})
_SILENT = frozenset({":", "true", "false", "test", "["})
_FILTERS = frozenset({"cat", "head", "tail", "sort", "uniq", "tr", "cut", "tac", "rev"})
_EMPTY = frozenset({"echo -n", "cat /dev/null", "printf ''", 'printf ""'})
_NAMES_VARIABLES = frozenset({"read", "printf", "readarray", "mapfile", "getopts", "let"})


def shell_effects(text: str, *, depth: int = 0, work: Work | None = None) -> Found:
    """Return everything a command line can do; {"read"} where nothing worse was found.

    Never raises, and takes about a second at most: what is too long, too deep or too much is
    unknown.
    """
    work = work or Work()
    if depth > MAX_DEPTH or not work.spend(len(text)):
        return UNKNOWN | _words_to_fear(text)
    script = parse_shell(text)
    found: set[Effect] = set()
    if script.doubts:
        found |= UNKNOWN | _words_to_fear(text)
    for command in script.commands:
        found |= command_effects(command, depth=depth, work=work)
    for redirect in script.redirects:
        found |= _redirect_effects(redirect)
    if any(r.operator in (">", ">|", "&>") and _is_file(r) for r in script.bare_redirects):
        found |= DESTROY  # `> file` empties the file
    if any(RISKY_VARIABLES.fullmatch(name) for name in script.assigned):
        found |= UNKNOWN
    return reduced(found)


def _words_to_fear(text: str) -> Found:
    """Return what the words of a text would do if they were commands: all there is to go by."""
    found: set[Effect] = set()
    for word in re.split(r"[\s;|&(){}<>`$'\"]+", text[:MAX_BYTES]):
        if word in COMMANDS:
            found.add(COMMANDS[word].effect)
        if re.match(r"/dev/(tcp|udp)/", word):
            found |= EXTERNAL
    return frozenset(found) & (DESTROY | EXTERNAL)


def command_effects(command: Command, *, depth: int = 0, work: Work | None = None) -> Found:
    """Return everything one simple command can do, its redirections apart."""
    found: set[Effect] = set()
    if any(RISKY_VARIABLES.fullmatch(name) for name in command.assigned):
        found |= UNKNOWN
    if _empties(command):
        found |= DESTROY
    found |= _argv_effects(command.words, command.fed, depth, work or Work())
    return reduced(found)


def _empties(command: Command) -> bool:
    """Say whether a command is known to leave a file empty: `: > f`, `tee f < /dev/null`."""
    words, values = command.words, [word.value for word in command.words]
    into = [r for r in command.redirects if r.operator in (">", ">|", "&>") and _is_file(r)]
    nothing = command.fed == "" or any(
        r.operator == "<" and r.target.value == "/dev/null" for r in command.redirects
    )
    if not words:
        return bool(into)
    name = values[0]
    if name == "tee":
        return nothing and not any(re.match(r"-\w*a|--a", value or "") for value in values)
    if not into:
        return False
    if name in _FILTERS and nothing:
        return True
    # `sort f > f`: Bash empties the file before anything reads it.
    targets = {r.target.value for r in into} - {None}
    if name not in ("echo", "printf") and not targets.isdisjoint(values):
        return True
    return name in _SILENT or " ".join(word.text for word in words) in _EMPTY


def _argv_effects(words: Sequence[Word], fed: str | None, depth: int, work: Work) -> Found:
    if not words:
        return READ
    name = command_name(words[0])
    if name is None or depth > MAX_DEPTH:
        # What runs can't be told; what stands behind it may still name something worse.
        return UNKNOWN
    arguments = words[1:]
    if name in _LISTS_CODE_IN_NAMES and any(
        "$(" in (word.value or "") or "`" in (word.value or "") for word in arguments
    ):
        return UNKNOWN  # Bash evaluates subscripts in variable names: test -v 'a[$(rm x)]'
    if name in _NAMES_VARIABLES and any(
        RISKY_VARIABLES.fullmatch(re.split(r"[\[=]", word.value or "", maxsplit=1)[0])
        for word in arguments
    ):
        return UNKNOWN  # read PATH
    if len(arguments) == 1 and arguments[0].value in ("--version", "--help"):
        return READ
    if not work.spend(len(words)):
        return UNKNOWN
    call = Call(name, arguments, fed, depth, work)
    if name in PROGRAMS:
        return PROGRAMS[name](call)
    if name in _RUNNERS:
        return _RUNNERS[name](call)
    if name in FAMILIES:
        return _family(FAMILIES[name], call)
    if name.startswith("mkfs"):
        return DESTROY
    if name in COMMANDS:
        known = COMMANDS[name]
        return frozenset({known.effect}) | option_effects(known.options, call)
    return UNKNOWN


def command_name(word: Word) -> str | None:
    """Return the plain name of the command a word runs; None where that can't be told.

    A path into a standard folder counts as the name at its end; any other path could be anything.
    """
    value = word.value
    if not value or word.wild or not value.isascii() or re.search(r"[*?\[]", word.text[1:]):
        return None
    if "/" in value:
        if not _STANDARD_FOLDERS.match(value) or ".." in value:
            return None
        value = value.rsplit("/", 1)[1]
    return ALIASES.get(value, value)


def _family(family: Family, call: Call) -> Found:
    found: set[Effect] = {family.base} if family.base else set()
    values = call.values
    if not values:
        return frozenset(found | {family.otherwise})
    first = values[0]
    if any(value and DESTROY_WORD.match(value) for value in values):
        found |= DESTROY
    if any(DESTROY_WORD.match(value or "") for value in values[:2]) and None not in values:
        return frozenset(found)  # `docker rm x`, `docker volume rm x`
    if first is None:
        found |= {family.otherwise, "unknown"}
    elif first in family.first:
        found.add(family.first[first])
    elif first.startswith("-"):
        # Which word is the subcommand depends on whether the option takes a value.
        found.add(family.otherwise)
        named = {family.first[v] for v in values if v is not None and v in family.first}
        found |= named - {"read"}
    else:
        found.add(family.otherwise)
    return frozenset(found)


def _wrapped(call: Call) -> Found:
    """Look through `sudo -u x`, `env A=1`, `timeout 5`, `xargs -n1` at the command they run."""
    name, values = call.name, call.values
    if name == "command" and values[:1] in (["-v"], ["-V"]):
        return READ
    if name == "env" and any(re.match(r"-[a-z0]*S|--split", value or "") for value in values):
        return UNKNOWN  # one word that env splits by rules of its own
    found: set[Effect] = set()
    if name == "time" and any(re.match(r"-o|--o", value or "") for value in values):
        found |= WRITE
    rest, doubts = _behind_options(name, call.arguments)
    if doubts:
        found |= UNKNOWN | _suspects(call.arguments)
    if not rest:
        return frozenset(found) or READ
    if name != "xargs":
        return _argv_effects(rest, call.fed, call.depth + 1, call.work) | found
    # What it reads becomes more words, perhaps options, and stands for the replacement mark.
    mark = next((m[1] for v in values if (m := re.match(r"-[Ii](.*)|--replace=", v or ""))), "")
    if "-I" in values[:-1]:
        mark = values[values.index("-I") + 1] or ""
    inner = [Word("", None) if (mark or "{}") in (word.value or "") else word for word in rest]
    return _argv_effects([*inner, Word("", None)], None, call.depth + 1, call.work) | found


def _behind_options(name: str, arguments: Sequence[Word]) -> tuple[list[Word], bool]:
    """Return the words of the command a wrapper runs, and whether that is in any doubt."""
    with_value, positional = WRAPPERS[name]
    valued = with_value.split()
    at, doubts = 0, False
    while at < len(arguments):
        value = arguments[at].value
        if value is None:
            return list(arguments[at:]), True
        if name in ("env", "sudo", "doas") and re.match(r"[A-Za-z_]\w*=", value):
            doubts = doubts or bool(RISKY_VARIABLES.fullmatch(value.split("=", 1)[0]))
        elif value == "--":
            return list(arguments[at + 1 :]), doubts
        elif value.startswith("-") and value != "-":
            shell = name in ("sudo", "doas") and value in ("-s", "-i", "-e")
            attached = any(len(o) == 2 and value.startswith(o) for o in valued)
            known = value.split("=", 1)[0] in valued or value in WRAPPER_FLAGS or attached
            doubts = doubts or shell or not (known or re.fullmatch(r"-\d+", value))
            if value in valued:
                at += 1
        elif positional:
            positional -= 1
        else:
            break
        at += 1
    return list(arguments[at:]), doubts


def _suspects(words: Sequence[Word]) -> Found:
    """Return what is worst in any command that may begin somewhere in these words."""
    found: set[Effect] = set()
    for start, word in enumerate(words):
        name = command_name(word)
        if name == "dd":
            found |= DESTROY
        elif name is not None and name in COMMANDS:
            found.add(COMMANDS[name].effect)
            if start < 20:
                found |= option_effects(COMMANDS[name].options, Call(name, words[start + 1 :]))
    return frozenset(found) & (DESTROY | EXTERNAL)


def _shell(call: Call) -> Found:
    for index, word in enumerate(call.arguments):
        value = word.value
        if value is None:
            return UNKNOWN
        if re.fullmatch(r"-[a-zA-Z]+", value) and "c" in value:
            rest = [w for w in call.arguments[index + 1 :] if not (w.value or "").startswith("-")]
            if not rest or rest[0].value is None:
                return UNKNOWN
            return shell_effects(rest[0].value, depth=call.depth + 1, work=call.work)
        if not value.startswith("-"):
            return UNKNOWN  # a script file
    if call.fed is not None:
        return UNKNOWN | shell_effects(call.fed, depth=call.depth + 1, work=call.work)
    return UNKNOWN


def _eval(call: Call) -> Found:
    values = call.values
    if any(value is None for value in values):
        # Look at what is written, too: `eval "rm $x"` has no value but says enough.
        known = " ".join(word.value or word.text.strip('"') for word in call.arguments)
        return UNKNOWN | shell_effects(known, depth=call.depth + 1, work=call.work)
    return shell_effects(
        " ".join(value or "" for value in values), depth=call.depth + 1, work=call.work
    )


def _trap(call: Call) -> Found:
    if not call.arguments or call.arguments[0].value in ("-", "", "-p", "-l"):
        return READ
    value = call.arguments[0].value
    return UNKNOWN if value is None else shell_effects(value, depth=call.depth + 1, work=call.work)


def _su(call: Call) -> Found:
    found: Found = UNKNOWN
    for option, word in pairwise(call.arguments):
        if option.value in ("-c", "--command") and word.value is not None:
            found |= shell_effects(word.value, depth=call.depth + 1, work=call.work)
    return found


_SSH_VALUED = "BbcDEeFIiJLlmOopQRSWw"


def _ssh(call: Call) -> Found:
    """What is destroyed at the other end is destroyed, too."""
    found: set[Effect] = {"external"}
    values, at, host = call.values, 0, False
    while at < len(values):
        value = values[at]
        if value is None and not host:
            # It may be several words: options, the host, and a command.
            found |= _words_to_fear(" ".join(word.text for word in call.arguments)) & DESTROY
        if value is not None and re.match(r"-[A-Za-z0-9]", value):
            if value[1] in "FoEeS":
                found |= UNKNOWN  # a ProxyCommand or a configuration file runs programs here
            at += 2 if len(value) == 2 and value[1] in _SSH_VALUED else 1
        elif host:
            break
        else:
            host, at = True, at + 1
    text = " ".join(word.value or '"$x"' for word in call.arguments[at:])
    found |= shell_effects(text, depth=call.depth + 1, work=call.work) & DESTROY
    if call.fed is not None:
        found |= shell_effects(call.fed, depth=call.depth + 1, work=call.work) & DESTROY
    return frozenset(found)


def _run_inside(call: Call, start: int) -> tuple[list[Word], int]:
    """Return the command in `-exec COMMAND... ;` or `... {} +`, and where what follows begins."""
    inner: list[Word] = []
    for at in range(start, len(call.arguments)):
        value = call.arguments[at].value
        if value == ";" or (value == "+" and call.arguments[at - 1].value == "{}"):
            return inner, at + 1
        inner.append(Word("", None) if "{}" in (value or "") else call.arguments[at])
    return inner, len(call.arguments)


def _find(call: Call) -> Found:
    found: set[Effect] = {"read"}
    if call.open_ended:
        found |= UNKNOWN
    at = 0
    while at < len(call.arguments):
        value, at = call.arguments[at].value, at + 1
        if value == "-delete":
            found |= DESTROY
        elif value in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            found |= WRITE
        elif value in ("-exec", "-execdir", "-ok", "-okdir"):
            inner, at = _run_inside(call, at)
            found |= _argv_effects(inner, None, call.depth + 1, call.work) if inner else UNKNOWN
    return frozenset(found)


def _fd(call: Call) -> Found:
    found: set[Effect] = {"read"}
    if call.open_ended:
        found |= UNKNOWN
    at = 0
    while at < len(call.arguments):
        value, at = call.arguments[at].value, at + 1
        if value in ("-x", "-X", "--exec", "--exec-batch"):
            inner, at = _run_inside(call, at)
            found |= _argv_effects([*inner, Word("", None)], None, call.depth + 1, call.work)
        elif value and re.match(r"-[a-zA-Z]*[xX]|--exec", value):
            found |= UNKNOWN
    return frozenset(found)


_RUNNERS: Mapping[str, Callable[[Call], Found]] = {
    "eval": _eval, "trap": _trap, "su": _su, "runuser": _su, "ssh": _ssh, "find": _find, "fd": _fd,
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(WRAPPERS, _wrapped),
}  # fmt: skip
"""Programs that run others named in their arguments."""


def _redirect_effects(redirect: Redirect) -> Found:
    target = redirect.target.value
    if target is None:
        # `> $x` may be /dev/tcp/…; reading `< $x` may connect, too.
        return UNKNOWN
    if re.match(r"/dev/(tcp|udp)/", target):
        return EXTERNAL
    if redirect.operator == "<":
        return READ
    if target in NO_FILE or re.match(r"/dev/fd/|/dev/pts/", target):
        return READ
    if re.match(r"/+(proc|sys)/", target):
        return UNKNOWN
    return DESTROY if re.match(r"/+dev/", target) else WRITE


def _is_file(redirect: Redirect) -> bool:
    target = redirect.target.value
    return target is None or not target.startswith("/dev/")
