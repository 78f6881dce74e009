"""The folder in which a plain copy lies: its tree of nodes, and the bytes of its files."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from lwm_agents.errors import Misuse
from lwm_agents.places.plain_node import Node, nodes, packed, unpacked
from lwm_agents.places.plain_real import EFFECTIVE

_VERSION = 1


class Folder:
    """What is kept on disk.

    `state.json` is replaced as a whole. In `files` lie the bytes of each file under a number, never
    written again, except for those of a database, which SQLite writes. `tops` are the nodes that
    everything else is below, by what an absolute path starts from. Raises Misuse where the folder
    was made for another root or database.
    """

    def __init__(self, path: str, root: str, database: str | None) -> None:
        self._path = path
        self._state = os.path.join(path, "state.json")
        self._about = {"version": _VERSION, "root": root, "database": database}
        self._saved = ""
        self._dropped: set[str] = set()
        self.tops: dict[str, Node] = {}
        self.began_ns = time.time_ns()
        self._next = 1
        if os.path.exists(self._state):
            self._load()
            return
        os.makedirs(os.path.join(path, "files"), mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            # Whoever may open this has rights that go beyond modes, as root mostly has.
            closed = os.open(self._closed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o000)
            os.close(closed)
        self.save()

    def save(self) -> None:
        """Write the state in one step, then remove the bytes that nothing refers to any more."""
        state = json.dumps(
            {
                **self._about,
                "began_ns": self.began_ns,
                "next": self._next,
                "tops": {anchor: packed(top) for anchor, top in self.tops.items()},
            }
        )
        if state != self._saved:
            beside = f"{self._state}.tmp"
            Path(beside).write_text(state, encoding="utf-8")
            os.replace(beside, self._state)
            self._saved = state
        if self._dropped:
            for content in self._dropped - self.contents():
                with suppress(OSError):
                    os.unlink(self.file(content))
                    if "/" in content:
                        os.rmdir(os.path.dirname(self.file(content)))
            self._dropped.clear()

    def contents(self) -> set[str]:
        """Return the name of every content that a node refers to."""
        return {
            node.content
            for top in self.tops.values()
            for node in nodes(top)
            if node.content is not None
        }

    def file(self, content: str) -> str:
        """Return the path where a content lies."""
        return os.path.join(self._path, "files", *content.split("/"))

    def number(self) -> str:
        """Return a name for a new content."""
        self._next += 1
        return str(self._next - 1)

    def drop(self, content: str) -> None:
        """Have the bytes of a content removed with the next save, unless a node refers to them."""
        self._dropped.add(content)

    def rules(self) -> bool:
        """Return whether modes don't bind the caller, as they mostly don't bind root."""
        return os.access(self._closed, os.R_OK | os.W_OK, effective_ids=EFFECTIVE)

    @property
    def _closed(self) -> str:
        return os.path.join(self._path, "closed")

    def _load(self) -> None:
        self._saved = Path(self._state).read_text(encoding="utf-8")
        state = json.loads(self._saved)
        if {key: state.get(key) for key in self._about} != self._about:
            raise Misuse(f"this folder holds a copy of another root or database: {self._path}")
        self.began_ns, self._next = state["began_ns"], state["next"]
        self.tops = {anchor: unpacked(found) for anchor, found in state["tops"].items()}
