"""A session's folder: the copy it rehearses in, and what can be done with what changed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lwm_agents.changes import journal
from lwm_agents.changes.change import Changes
from lwm_agents.changes.checks import conflicts
from lwm_agents.changes.commit import commit
from lwm_agents.changes.compare import compare, selected
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.diff import diff
from lwm_agents.changes.overlay import Layer, OverlayCopied
from lwm_agents.changes.tree import Tree
from lwm_agents.changes.undo import discard, recover, undo
from lwm_agents.errors import Misuse
from lwm_agents.places.copies import Copy, has_copy, open_copy
from lwm_agents.places.copy import CopyPlace, CopyState
from lwm_agents.store import Store

SESSIONS = "sessions"
"""The folder beside the log that holds one folder for each session that rehearsed something."""


class Rehearsed:
    """What one session rehearsed: kept in `folder`, until it is discarded.

    `own` are files of ours that nobody inside a copy shall see. All methods block.
    """

    def __init__(
        self, root: str, database: str | None, folder: Path, own: Sequence[Path] = ()
    ) -> None:
        self._root = root
        self._database = database
        self._own = tuple(own)
        self.folder = folder
        self.copy: Copy | None = None
        self._running: Callable[[], None] | None = None

    @classmethod
    def of(cls, store: Store, session: str) -> Rehearsed:
        """Return what a logged session rehearsed. Raises Misuse where it rehearsed nothing."""
        record = store.session(session)
        found = cls(record.root or ".", record.database, session_folder(store, session), own(store))
        if not has_copy(found.folder):
            raise Misuse(f"session {session} has no changes: nothing was rehearsed, or discarded")
        return found

    def begin(self) -> Copy:
        """Open the copy; it goes on from what is in the folder. Raises as `open_copy` does."""
        if self.copy is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            running = journal.running(str(self.folder))
            try:
                self.copy = open_copy(self._root, self._database, self.folder, own=self._own)
            except BaseException:
                running.release()
                raise
            self._running = running.release
        return self.copy

    def close(self) -> None:
        """End what runs in the copy. Where nothing was changed the folder goes."""
        if self.copy is None:
            return
        try:
            with _seen(self.copy) as copied:
                tops = set(self.copy.layers) if isinstance(self.copy, CopyPlace) else set()
                changed = any(path not in tops for path in copied.touched())
        finally:
            self.end()
        if not changed and journal.read(str(self.folder)) is None:
            self.discard()

    def diff(self) -> Changes:
        """Return what the session would change for real."""
        with self._copied() as copied:
            return diff(copied)

    def unsaid(self) -> list[str]:
        """Return why commands that began in the copy could not be rehearsed to their end.

        What they had changed until then is in the copy; what they would have changed is not.
        """
        state = CopyState.read(self.folder)
        return [] if state is None else state.unsaid

    def conflicts(self) -> dict[str, str]:
        """Return which paths inside that it would change are no longer what they were, and why."""
        real = Tree()
        try:
            with self._copied() as copied:
                chosen = list(selected(compare(copied, real), copied, ()))
                return conflicts(chosen, copied, real)
        finally:
            real.close()

    def commit(self, changes: Changes, *, elsewhere: Sequence[str] = ()) -> list[str]:
        """Make what was shown real; see `lwm_agents.changes.commit`."""
        self.recover()
        with self._copied() as copied:
            return commit(copied, changes, folder=str(self.folder), elsewhere=elsewhere)

    def undo(self) -> list[str]:
        """Give back what was before the commit; see `lwm_agents.changes.undo`."""
        self.recover()
        return undo(str(self.folder))

    def recover(self) -> str | None:
        """Finish or undo a commit that a crash cut short; None where none was."""
        return recover(str(self.folder)) if self.folder.is_dir() else None

    def discard(self) -> None:
        """Throw away what was rehearsed, and what was kept for an undo."""
        self.recover()
        discard(str(self.folder))

    @contextmanager
    def _copied(self) -> Iterator[Copied]:
        was_open = self.copy is not None
        copy = self.begin()
        try:
            with _seen(copy) as copied:
                yield copied
        finally:
            if not was_open:
                self.end()

    def end(self) -> None:
        """End what runs in the copy, whatever it changed."""
        copy, running = self.copy, self._running
        self.copy = self._running = None
        if copy is not None:
            copy.close()
        if running is not None:
            running()


def session_folder(store: Store, session: str) -> Path:
    """Return where a session's copy lies: beside the log. Raises Misuse for a log in memory."""
    if store.path is None:
        raise Misuse("a log in memory has no folder for a rehearsal; name a file")
    return store.path.absolute().parent / SESSIONS / session


def discard_if_any(store: Store, session: str) -> None:
    """Throw away what a session rehearsed, where anything is left of it."""
    if store.path is not None and (folder := session_folder(store, session)).is_dir():
        recover(str(folder))
        discard(str(folder))


def own(store: Store) -> list[Path]:
    """Return the files of ours that nobody inside a copy shall see."""
    if store.path is None:
        return []
    path = store.path.absolute()
    return [
        *(path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")),
        path.parent / SESSIONS,
    ]


@contextmanager
def _seen(copy: Copy) -> Iterator[Copied]:
    """Give a copy as diff and commit see it."""
    if not isinstance(copy, CopyPlace):
        yield copy
        return
    assert copy.root_fd is not None
    layers = [Layer(path, upper) for path, upper in copy.layers.items()]
    copied = OverlayCopied(
        copy.root,
        copy.database,
        copy.began_ns,
        copy.root_fd,
        layers,
        copy.prepared,
        copy.hidden,
        splits_links=copy.without_root,
    )
    try:
        yield copied
    finally:
        copied.close()
