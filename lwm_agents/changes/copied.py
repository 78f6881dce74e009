"""The copy a session worked in, as diff and commit see it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol


class Copied(Protocol):
    """A throw-away copy of the file system. All paths are absolute; links are never followed."""

    @property
    def root(self) -> str:
        """The real path of the session's root."""

    @property
    def database(self) -> str | None:
        """The path of the session's SQLite file, perhaps outside the root."""

    @property
    def began_ns(self) -> int:
        """The time at which the copy was set up, in nanoseconds since 1970."""

    @property
    def splits_links(self) -> bool:
        """Whether a name of a file with several that was written to is a file of its own here."""

    def touched(self) -> Iterator[str]:
        """Yield every path that may differ from the real one, once, parents before children.

        Each is compared by itself: what lies below a deleted folder is named too.
        """

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the state of a path in the copy. None: it is not there."""

    def open(self, path: str) -> int:
        """Open a regular file of the copy for reading; the caller closes the descriptor."""

    def readlink(self, path: str) -> str:
        """Return where a link of the copy points."""

    def xattrs(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes `tree.KEPT` names, none of an overlay's own."""
