"""Paths as text: the names below a root that one means. Nothing is opened or changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

_LINKS = 40


class Refused(OSError):
    """The root's own rules forbid it. The text says why, without the path."""


def lexical_names(path: str, root: str | None) -> list[str]:
    """Return the names of a path below the root, `..` included.

    Raises Refused where the text alone leaves the root, or is no path at all. Nothing is touched.
    """
    names = _names(path, root)
    depth = 0
    for name in names:
        depth += -1 if name == ".." else 1
        if depth < 0:
            raise Refused("Outside the root")
    return names


def _names(path: str, root: str | None) -> list[str]:
    if "\0" in path:
        raise Refused("Not a path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise Refused("Not a path") from None
    names = split(path)
    if os.path.isabs(path) or path.startswith("/") or os.path.splitdrive(path)[0]:
        above = split(root) if root is not None else None
        if above is None or [os.path.normcase(n) for n in names[: len(above)]] != [
            os.path.normcase(n) for n in above
        ]:
            raise Refused("Outside the root")
        names = names[len(above) :]
    if os.name == "nt" and any(":" in name for name in names):
        raise Refused("Not a path")  # a drive or a hidden stream of a file
    return names


def split(path: str) -> list[str]:
    """Return the names in a path."""
    return [name for name in path.replace(os.sep, "/").split("/") if name not in {"", "."}]


def resolved(
    path: str, root: str, target: Callable[[list[str]], str], *, follow: bool = True
) -> list[str]:
    """Return the names below the root that a path means, free of links and `..`.

    `target` returns where the link with the given names below the root points, and raises OSError
    where there is none: with EINVAL where there is something else. Without `follow` the last name
    may be a link's own. Raises Refused, and OSError for too many links.
    """
    todo = _names(path, root)[::-1]
    done: list[str] = []
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            if not done:
                raise Refused("Outside the root")
            done.pop()
            continue
        done.append(name)
        if not todo and not follow:
            break
        try:
            leads_to = target(done)
        except OSError as error:
            if error.errno != errno.EINVAL and ".." not in todo:
                return done + todo[::-1]  # not there, or not to be read: the walk says which
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        done = [] if os.path.isabs(leads_to) else done[:-1]
        todo.extend(reversed(_names(leads_to, root)))
    return done
