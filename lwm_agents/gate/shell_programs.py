"""What single well-known programs can do, where a table of options does not say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lwm_agents.gate.git_effects import git_effects
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
    is_option,
    option_effects,
)
from lwm_agents.values import Effect


def _move(call: Call) -> Found:
    """`mv x /dev/null` and `cp /dev/null x` lose what was there."""
    values = [word.value or "" for word in call.arguments]
    lost = any(
        value in ("/dev/null", "/dev/zero") or is_option(value, "--remove-destination")
        for value in values
    )
    return DESTROY if lost else WRITE


def _dd(call: Call) -> Found:
    if None in call.values:
        return UNKNOWN
    outputs = [(w.value or "")[3:] for w in call.arguments if (w.value or "").startswith("of=")]
    return DESTROY if any(output not in NO_FILE for output in outputs) else READ


def _tar(call: Call) -> Found:
    options: dict[str, Effect] = {
        "--to-command": "unknown",
        "--checkpoint-action": "unknown",
        "--use-compress-program": "unknown",
        "--info-script": "unknown",
        "--new-volume-script": "unknown",
        "--rsh-command": "external",
        "--remove-files": "destroy",
        "--delete": "destroy",
        "--recursive-unlink": "destroy",
        "-I": "unknown",
        "-F": "unknown",
    }
    first = call.arguments[0].value or "" if call.arguments else ""
    listing = bool(re.fullmatch(r"-?[tvzjJf]+", first) and "t" in first) or first == "--list"
    found: set[Effect] = {"read" if listing else "write"}
    if any(re.match(r"[^/]+:", word.value or "") for word in call.arguments):
        found |= EXTERNAL
    return frozenset(found | option_effects(options, call))


def _rsync(call: Call) -> Found:
    options: dict[str, Effect] = {
        "--remove-source-files": "destroy",
        "--rsh": "unknown",
        "--rsync-path": "unknown",
        "--daemon": "unknown",
        "-e": "unknown",
    }
    found: set[Effect] = {"write"}
    if any(":" in (word.value or ":") for word in call.arguments):
        found |= EXTERNAL
    if any((value or "").startswith("--del") for value in call.values):
        found |= DESTROY  # --delete, --delete-during, --delete-excluded…
    return frozenset(found | option_effects(options, call))


_SAFE_SED = re.compile(
    r"(?:(?:\d+|\$|/[^/\n;{}]*/)(?:,(?:\d+|\$|/[^/\n;{}]*/))?)?\s*"
    r"(?:[pdq=]|s([/|#,])[^\n;\\{}]*?\1[^\n;\\{}]*?\1[gipI0-9]*)"
)


def _sed(call: Call) -> Found:
    """Only scripts that print, delete lines or substitute are known to run and write nothing.

    In place, one that deletes every line, or prints only what it is told to (`-n`), destroys.
    """
    found: set[Effect] = {"read"}
    in_place = quiet = empties = False
    script_seen = False
    skip_value = False
    for word in call.arguments:
        value = word.value
        if value is None:
            found |= UNKNOWN
        elif value.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", value):
            found |= WRITE
            in_place = True
            quiet = quiet or bool(re.match(r"-[a-hj-z]*n", value))
        elif re.match(r"-[nrEsuz]*e$|--expression$", value):
            skip_value = True
            quiet = quiet or "n" in value[:-1]
        elif value.startswith("-"):
            quiet = quiet or "n" in value
            if not re.fullmatch(r"-[nrEsuz]+|--quiet|--regexp-extended", value):
                found |= UNKNOWN
        elif skip_value or not script_seen:
            script_seen, skip_value = True, False
            parts = [part.strip() for part in value.split(";") if part.strip()]
            empties = empties or any(part in ("d", "1,$d") for part in parts)
            known = sum(map(len, parts)) < 1_000  # the pattern tries every pair of marks
            if not known or not all(_SAFE_SED.fullmatch(part) for part in parts):
                found |= UNKNOWN
    if in_place and (quiet or empties):
        found |= DESTROY
    return frozenset(found)


def _awk(call: Call) -> Found:
    """A program without system(), pipes, redirections, getline and loading only reads."""
    values = call.values
    if any(value is None for value in values):
        return UNKNOWN
    plain = [value or "" for value in values if not re.match(r"-[Fv]", value or "")]
    options = any(value.startswith("-") and value != "-" for value in plain)
    program = " ".join(value or "" for value in values)
    risky = re.search(r"system|getline|@|[|]|>(?!=)|printf?\s*>", program)
    return UNKNOWN if options or risky else READ


def _uniq(call: Call) -> Found:
    """The second file of `uniq` and of `xxd` is written."""
    if call.open_ended:
        return UNKNOWN
    files = [w for w in call.arguments if not (w.value or "").startswith("-")]
    revert = call.name == "xxd" and any(
        re.match(r"-[a-z]*r", w.value or "") for w in call.arguments
    )
    return WRITE if len(files) > 1 or revert else READ


def _hostname(call: Call) -> Found:
    """`hostname NAME` sets it."""
    return READ if all((w.value or "").startswith("-") for w in call.arguments) else UNKNOWN


def _sqlite3(call: Call) -> Found:
    valued = ("-cmd", "-separator", "-newline", "-nullvalue", "-init", "-vfs", "-maxsize")
    positional: list[str] = []
    found: set[Effect] = set()
    rest = call.values
    rest.reverse()
    while rest:
        value = rest.pop()
        if value is None:
            found |= UNKNOWN
        elif value.startswith("-"):
            option = "-" + value.lstrip("-")
            if option in valued and rest:
                operand = rest.pop()
                if option == "-cmd" and operand is not None:
                    found |= _statements(operand, call.work)
                elif option == "-init":
                    found |= UNKNOWN
        else:
            positional.append(value)
    statements = positional[1:] or ([call.fed] if call.fed is not None else [])
    for statement in statements:
        found |= _statements(statement, call.work)
    return frozenset(found) if statements else frozenset(found | UNKNOWN)


def _statements(text: str, work: Work) -> Found:
    if re.search(r"^[^\S\n]*\.", text, re.M):
        # A dot-command of the sqlite3 shell: some run programs.
        harmless = re.fullmatch(
            r"\.(tables|schema|databases|indexes|dbinfo)(\s+[\w.]+)?", text.strip()
        )
        return READ if harmless else UNKNOWN
    # Imported here: sqlglot takes a while to load, and few commands hold SQL.
    from lwm_agents.gate.sql_effects import sql_effects, tokens_in

    if not work.spend(100 + 60 * tokens_in(text)):  # much slower to read than Bash
        return UNKNOWN
    return sql_effects(text)


_LOCAL_HOST = re.compile(
    r"(-h|--host=)?(localhost|127\.0\.0\.1|::1|/.*)|\w+://(\w+(:[^@/]*)?@)?(localhost|127\.0\.0\.1)[:/].*"
)


def _client(call: Call) -> Found:
    """psql and mysql: the SQL they are given, and whether the server may be elsewhere."""
    found: set[Effect] = set()
    values = call.values
    statements: list[str] = [call.fed] if call.fed is not None else []
    for index, value in enumerate(values):
        following = values[index + 1] if index + 1 < len(values) else None
        if value is None:
            found |= UNKNOWN
        elif value in ("-c", "-e", "--command", "--execute") and following is not None:
            statements.append(following)
        elif match := re.match(r"--(?:command|execute)=(.*)|-[ce](.+)", value, re.S):
            statements.append(match[1] or match[2])
        elif re.match(r"-h|--host|.*://|.*\bhost(addr)?=", value):
            host = (following or "") if value in ("-h", "--host") else value
            if not _LOCAL_HOST.fullmatch(host):
                found |= EXTERNAL
    for statement in statements:
        found |= (
            UNKNOWN if re.search(r"\\[!a-zA-Z]", statement) else _statements(statement, call.work)
        )
    if not statements:
        found |= UNKNOWN
    return frozenset(found)


PROGRAMS: Mapping[str, Callable[[Call], Found]] = {
    "git": git_effects, "mv": _move, "cp": _move, "dd": _dd, "tar": _tar, "rsync": _rsync,
    "sed": _sed, "awk": _awk, "uniq": _uniq, "xxd": _uniq, "hostname": _hostname,
    "sqlite3": _sqlite3, "psql": _client, "mysql": _client,
}  # fmt: skip
