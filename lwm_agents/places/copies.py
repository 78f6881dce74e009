"""A copy for a session: namespaces where this system has them, else pure Python."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from lwm_agents.changes.removal import remove_folder
from lwm_agents.places.commands import SupervisorError
from lwm_agents.places.copy import STATE, CopyPlace
from lwm_agents.places.hidden import hidden_paths
from lwm_agents.places.plain_copy import PlainCopy

log = logging.getLogger(__name__)

Copy = CopyPlace | PlainCopy

_PLAIN = "plain"

_why_not: dict[str, str] = {}


def open_copy(
    root: str | os.PathLike[str],
    database: str | None,
    folder: str | os.PathLike[str],
    *,
    own: tuple[str | os.PathLike[str], ...] = (),
) -> Copy:
    """Take up the copy that is in a session's folder, or make one there.

    `own` are files of ours that nobody inside shall see. Raises Misuse where the root is no
    directory, and SupervisorError where the folder holds a copy that only namespaces can take up.
    """
    folder = Path(folder)
    begun = (folder / STATE).exists()
    if begun or not has_copy(folder):
        reason = None if begun else _why_not.get("copy")
        if reason is None:
            try:
                return CopyPlace(root, database, folder, own=own)
            except SupervisorError as failure:
                if begun:
                    raise
                reason = _why_not["copy"] = str(failure)
        log.info("commands can't be rehearsed: %s", reason)
    hidden = hidden_paths([folder.parent, *own])
    return PlainCopy(root, database, folder / _PLAIN, hidden=hidden)


def has_copy(folder: Path) -> bool:
    """Say whether a folder holds a copy, of either kind."""
    return (folder / STATE).exists() or (folder / _PLAIN / "state.json").exists()


def why_no_namespaces(beside: Path | None = None) -> str | None:
    """Return why commands can't be rehearsed on this system, None where they can.

    It is tried, in a new folder of `beside` (the temporary folder where it is not given).
    """
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        try:
            CopyPlace(folder, None, Path(folder) / "session").close()
        except SupervisorError as failure:
            return str(failure)
        finally:
            remove_folder(os.path.join(folder, "session"))
    return None
