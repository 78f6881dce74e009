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
    option_effects,
)
from lwm_agents.values import Effect


def _move(call: Call) -> Found:
    """`mv x /dev/null` and `cp /dev/null x` lose what was there."""
    values = [word.value or "" for word in call.arguments]
    return DESTROY if any(value in ("/dev/null", "/dev/zero") for value in values) else WRITE


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
    listing = bool(re.fullmatch(r"-?[tvzjJf]*t[tvzjJf]*", first)) or first == "--list"
    found: set[Effect] = {"read" if listing else "write"}
    if any(re.match(r"[^/]+@?[^/]*:", word.value or "") for word in call.arguments):
        found |= EXTERNAL
    return frozenset(found | option_effects(options, call))


def _rsync(call: Call) -> Found:
    options: dict[str, Effect] = {
        "--delete": "destroy",
        "--delete-before": "destroy",
        "--delete-after": "destroy",
        "--delete-excluded": "destroy",
        "--remove-source-files": "destroy",
        "--rsh": "unknown",
        "-e": "unknown",
    }
    found: set[Effect] = {"write"}
    if any(":" in (word.value or ":") for word in call.arguments):
        found |= EXTERNAL
    return frozenset(found | option_effects(options, call))


_SAFE_SED = re.compile(
    r"(?:(?:\d+|\$|/[^/\n;{}]*/)(?:,(?:\d+|\$|/[^/\n;{}]*/))?)?\s*"
    r"(?:[pdq=]|s([/|#,])[^\n;\\{}]*?\1[^\n;\\{}]*?\1[gipI0-9]*)"
)


def _sed(call: Call) -> Found:
    """Only scripts that print, delete lines or substitute are known to run and write nothing."""
    found: set[Effect] = {"read"}
    script_seen = False
    skip_value = False
    for word in call.arguments:
        value = word.value
        if value is None:
            found |= UNKNOWN
        elif value.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", value):
            found |= WRITE
        elif re.match(r"-[nrEsuz]*e$|--expression$", value):
            skip_value = True
        elif value.startswith("-"):
            if not re.fullmatch(r"-[nrEsuz]+|--quiet|--regexp-extended", value):
                found |= UNKNOWN
        elif skip_value or not script_seen:
            script_seen, skip_value = True, False
            parts = [part.strip() for part in value.split(";") if part.strip()]
            if not all(_SAFE_SED.fullmatch(part) for part in parts):
                found |= UNKNOWN
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
    while rest:
        value = rest.pop(0)
        if value is None:
            found |= UNKNOWN
        elif value.startswith("-"):
            option = "-" + value.lstrip("-")
            if option in valued and rest:
                operand = rest.pop(0)
                if option == "-cmd" and operand is not None:
                    found |= _statements(operand)
                elif option == "-init":
                    found |= UNKNOWN
        else:
            positional.append(value)
    statements = positional[1:] or ([call.fed] if call.fed is not None else [])
    for statement in statements:
        found |= _statements(statement)
    return frozenset(found) if statements else frozenset(found | UNKNOWN)


def _statements(text: str) -> Found:
    if re.search(r"^\s*\.", text, re.M):
        # A dot-command of the sqlite3 shell: some run programs.
        harmless = re.fullmatch(r"\s*\.(tables|schema|databases|indexes|dbinfo)\s*[\w.]*\s*", text)
        return READ if harmless else UNKNOWN
    # Imported here: sqlglot takes a while to load, and few commands hold SQL.
    from lwm_agents.gate.sql_effects import sql_effects

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
        found |= UNKNOWN if re.search(r"\\[!a-zA-Z]", statement) else _statements(statement)
    if not statements:
        found |= UNKNOWN
    return frozenset(found)


PROGRAMS: Mapping[str, Callable[[Call], Found]] = {
    "git": git_effects, "mv": _move, "cp": _move, "dd": _dd, "tar": _tar, "rsync": _rsync,
    "sed": _sed, "awk": _awk, "uniq": _uniq, "xxd": _uniq, "hostname": _hostname,
    "sqlite3": _sqlite3, "psql": _client, "mysql": _client,
}  # fmt: skip
