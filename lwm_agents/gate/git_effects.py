"""What a git command can do.

Repository hooks, aliases and configuration can make any git command run a program; these are hints,
like all of `shell_effects`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from lwm_agents.gate.shell_call import (
    DESTROY,
    EXTERNAL,
    READ,
    UNKNOWN,
    WRITE,
    Call,
    Found,
    is_option,
    option_effects,
)
from lwm_agents.gate.shell_tables import GIT, GIT_OPTIONS
from lwm_agents.values import Effect


def git_effects(call: Call) -> Found:
    """Return everything a call of git can do."""
    found: set[Effect] = set()
    rest, at = call.arguments, 0
    while at < len(rest) and (rest[at].value or "").startswith("-"):
        option = rest[at].value or ""
        valued = option in ("-C", "--git-dir", "--work-tree", "--namespace", "-c", "--config-env")
        at += 2 if valued else 1
        if option not in ("-C", "--no-pager", "-P", "--version", "--help", "--bare", "-p"):
            found |= UNKNOWN  # -c and --exec-path can name programs to run
    rest = rest[at:]
    if not rest:
        return frozenset(found | READ)
    subcommand, values = rest[0].value, [word.value for word in rest[1:]]
    if subcommand is None:
        return UNKNOWN
    if subcommand in _CLOSER:
        found |= _CLOSER[subcommand](values)
    else:
        found.add(GIT.get(subcommand, "unknown"))
    if subcommand in ("add", "merge", "revert"):
        return frozenset(found)  # no option of these runs or removes anything
    return frozenset(found | option_effects(GIT_OPTIONS, Call(subcommand, rest[1:])))


Values = Sequence[str | None]


def _has(values: Values, *options: str) -> bool:
    return any(value is not None and is_option(value, o) for value in values for o in options)


def _plain(values: Values) -> list[str]:
    return [value or "" for value in values if not (value or "").startswith("-")]


def _push(values: Values) -> Found:
    forced = _has(
        values, "-f", "--force", "--force-with-lease", "-d", "--delete", "--mirror", "--prune"
    )
    refs = any(re.match(r"[+:]", value or "") for value in values)
    return EXTERNAL | DESTROY if forced or refs else EXTERNAL


def _reset(values: Values) -> Found:
    if any(value is None for value in values):
        return UNKNOWN
    return DESTROY if _has(values, "--hard", "--merge", "--keep") else WRITE


def _clean(values: Values) -> Found:
    return READ if _has(values, "-n", "--dry-run") and None not in values else DESTROY


def _checkout(values: Values) -> Found:
    """Switching is a write; a word that may be a path discards what was changed there."""
    if _has(values, "-f", "--force", "-B") or "--" in values or "." in values:
        return DESTROY
    if _has(values, "-b", "--orphan"):
        return WRITE
    return UNKNOWN


def _restore(values: Values) -> Found:
    return WRITE if _has(values, "--staged") and not _has(values, "--worktree", "-W") else DESTROY


def _unless(
    options: Sequence[str], instead: Found, otherwise: Found = WRITE
) -> Callable[[Values], Found]:
    """One effect with any of these options, another without; unknown where only Bash can tell."""

    def effects(values: Values) -> Found:
        if _has(values, *options):
            return instead
        return UNKNOWN if None in values else otherwise

    return effects


_GIVE_UP = ("--abort", "--skip", "--quit")
"""These throw away a merge, and what was changed to resolve it."""


def _list_or(destroys: Sequence[str], lists: Sequence[str]) -> Callable[[Values], Found]:
    def effects(values: Values) -> Found:
        if _has(values, *destroys):
            return DESTROY
        if None in values:
            return UNKNOWN
        return READ if not _plain(values) or _has(values, *lists) else WRITE

    return effects


def _words(first: Mapping[str, Found], alone: Found, otherwise: Found) -> Callable[[Values], Found]:
    def effects(values: Values) -> Found:
        if not values:
            return alone
        return first.get(values[0] or "", otherwise)

    return effects


def _config(values: Values) -> Found:
    reads = ("--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list")
    return READ if values and values[0] in reads else UNKNOWN  # an alias can hold a program


def _remote(values: Values) -> Found:
    if not values or values[0] in ("-v", "--verbose", "get-url"):
        return READ
    if values[0] in ("show", "update", "prune"):
        return EXTERNAL
    return DESTROY if values[0] in ("remove", "rm") else WRITE


_CLOSER: Mapping[str, Callable[[Values], Found]] = {
    "push": _push,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "branch": _list_or(
        ("-d", "-D", "--delete", "-f", "--force", "-M", "-C"),
        ("-l", "--list", "--contains", "--merged", "--no-merged", "--show-current", "-a", "-r"),
    ),
    "tag": _list_or(("-d", "--delete", "-f", "--force"), ("-l", "--list", "--contains")),
    "config": _config,
    "remote": _remote,
    "switch": _unless(("-f", "--force", "--discard-changes", "-C", "--force-create"), DESTROY),
    "read-tree": _unless(("--reset",), DESTROY),
    "archive": _unless(("--remote",), EXTERNAL | WRITE),
    "mv": _unless(("-f", "--force"), DESTROY),
    "rebase": _unless(_GIVE_UP, DESTROY, UNKNOWN),
    "fsck": _unless(("--lost-found",), WRITE, READ),
    **dict.fromkeys(("merge", "am", "cherry-pick", "revert"), _unless(_GIVE_UP, DESTROY)),
    "notes": _words({"list": READ, "show": READ, "remove": DESTROY, "prune": DESTROY}, READ, WRITE),
    "rm": lambda values: WRITE if _has(values, "--cached") else DESTROY,
    "stash": _words({"list": READ, "show": READ, "drop": DESTROY, "clear": DESTROY}, WRITE, WRITE),
    "reflog": _words({"show": READ, "expire": DESTROY, "delete": DESTROY}, READ, UNKNOWN),
    "worktree": _words(
        {"list": READ, "add": WRITE, "remove": DESTROY, "prune": DESTROY}, READ, UNKNOWN
    ),
    "submodule": _words({"status": READ, "update": EXTERNAL, "add": EXTERNAL}, READ, UNKNOWN),
}
