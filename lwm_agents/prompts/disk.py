"""Files and directories as far as a history establishes them."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import Literal

_LONGEST, _DEEPEST = 1000, 100
"""Characters and directories of a path beyond which nothing is certain."""

Kind = Literal["file", "directory", "link", "absent"]


@dataclass(frozen=True)
class Entry:
    """What is known of one path.

    `content` is a file's text, None where it is not known. `whole`: all entries of the directory
    are known. `made`: written, created or changed in this history, so writing there works.
    """

    kind: Kind
    content: str | None = None
    whole: bool = False
    made: bool = False


class Disk:
    """What is certain of a disk. Paths are absolute, or relative to where the session began.

    `root` is where that is, once the history has shown it. A link that the history never showed is
    not known here; paths through links that it did show are never certain.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.root: str | None = None

    def copy(self) -> Disk:
        """Return a disk that can change without changing this one."""
        other = Disk()
        other.entries, other.root = dict(self.entries), self.root
        return other

    def key(self, path: str, cwd: str | None = ".") -> str | None:
        """Return the name of `path`, seen from `cwd`, that entries go by; None: can't be sure."""
        if not path or "\0" in path or not _ordinary(path):
            return None
        if not path.startswith("/"):
            if cwd is None:
                return None
            path = posixpath.join(cwd, path)
        if ".." in path.split("/") and not self._steps_up_safely(path):
            return None
        path = posixpath.normpath(path)
        path = "/" + path.lstrip("/") if path.startswith("/") else path
        if self.root and (path == self.root or path.startswith(self.root.rstrip("/") + "/")):
            return posixpath.relpath(path, self.root)
        if path == ".." or path.startswith("../"):
            return (
                None if self.root is None else posixpath.normpath(posixpath.join(self.root, path))
            )
        return path

    def learn_root(self, root: str) -> None:
        """Take in where the session began; absolute names below it become relative."""
        if self.root is not None:
            return
        self.root = root
        for path in [path for path in self.entries if path.startswith("/")]:
            name = self.key(path)
            if name is not None and name != path:
                self.entries.setdefault(name, self.entries[path])
                del self.entries[path]

    def status(self, key: str) -> Kind | None:
        """Return what is at `key`; None where the history does not say."""
        entry = self.entries.get(key)
        if entry is not None:
            return entry.kind
        if key in {".", "/"}:
            return "directory"
        above = _above(key)
        kind = self.status(above)
        if kind == "absent":
            return "absent"
        known = self.entries.get(above)
        return "absent" if known is not None and known.kind == "directory" and known.whole else None

    def content(self, key: str) -> str | None:
        """Return the text of the file at `key`, None where it is none or not known."""
        entry = self.entries.get(key)
        return entry.content if entry is not None and entry.kind == "file" else None

    def children(self, key: str) -> dict[str, Kind] | None:
        """Return the entries of a directory by name, None where not all are known."""
        entry = self.entries.get(key)
        if entry is None or entry.kind != "directory" or not entry.whole:
            return None
        return {
            posixpath.basename(path): child.kind
            for path, child in self.entries.items()
            if child.kind != "absent" and path != key and _above(path) == key
        }

    def listings(self) -> dict[str, dict[str, Kind]]:
        """Return the known entries of every directory, by its key."""
        found: dict[str, dict[str, Kind]] = {}
        for path, entry in self.entries.items():
            if entry.kind != "absent" and path not in {".", "/"}:
                found.setdefault(_above(path), {})[posixpath.basename(path)] = entry.kind
        return found

    def holds_something(self, key: str) -> bool:
        """Return whether a directory certainly has an entry."""
        return any(
            entry.kind != "absent" and path != key and _above(path) == key
            for path, entry in self.entries.items()
        )

    def writable(self, key: str) -> bool:
        """Return whether the history shows that something can be created or deleted at `key`."""
        above = self.entries.get(_above(key))
        return above is not None and above.kind == "directory" and above.made

    def write(self, key: str, content: str | None, *, made: bool = True) -> None:
        """Take in that a file is there with this text (None: text not known)."""
        known = self.entries.get(key)
        if made:
            self._unalias(key)
            if known is not None and known.kind == "link":
                self.forget_all()  # what it led to has changed
                return
        elif known is not None and known.kind == "link":
            return  # what it leads to was read
        self._parents(key, made)
        made = made or self._made(key)
        self.drop_below(key)
        self.entries[key] = Entry("file", content, made=made)

    def make_directory(self, key: str, *, empty: bool, made: bool = True) -> None:
        """Take in that a directory is there; `empty`: it was made just now."""
        if made and empty:
            self._unalias(key)
        self._parents(key, made and empty)
        known = self.entries.get(key)
        if known is not None and known.kind in {"directory", "link"} and not empty:
            return
        self.drop_below(key)
        self.entries[key] = Entry("directory", whole=empty, made=made and empty)

    def list(self, key: str, names: dict[str, Kind]) -> None:
        """Take in all entries of a directory."""
        found = self.entries.get(key)
        if found is not None and found.kind == "link":
            return
        self._parents(key, False)
        for path in [p for p in self.entries if _above(p) == key and p != key]:
            if posixpath.basename(path) not in names:
                self.drop_below(path)
                del self.entries[path]
        self.entries[key] = Entry("directory", whole=True, made=self._made(key))
        for name, kind in names.items():
            path = posixpath.normpath(posixpath.join(key, name))
            known = self.entries.get(path)
            if known is None:
                self.entries[path] = Entry(kind)
            elif known.kind != kind:
                self.drop_below(path)
                self.entries[path] = Entry(kind)

    def remove(self, key: str) -> None:
        """Take in that nothing is at `key` any more, and that this session took it away."""
        self._unalias(key)
        self.drop_below(key)
        if self.status(key) != "absent":  # else not even its directory need be there
            self._parents(key, True)
        self.entries[key] = Entry("absent")

    def miss(self, key: str) -> None:
        """Take in that nothing was found at `key`."""
        known = self.entries.get(key)
        if known is not None and known.kind == "link":
            return  # the link is there; what it leads to is not
        self.drop_below(key)
        self.entries[key] = Entry("absent")

    def move(self, source: str, destination: str) -> None:
        """Take in that what was at `source` is at `destination` now."""
        moved = {
            path: entry
            for path, entry in self.entries.items()
            if path == source or path.startswith(source + "/")
        }
        self.remove(source)
        self._unalias(destination)
        self.drop_below(destination)
        self.entries.pop(destination, None)
        self._parents(destination, True)
        for path, entry in moved.items():
            self.entries[destination + path[len(source) :]] = entry

    def forget(self, key: str) -> None:
        """Take in that `key` may have changed in any way."""
        self._unalias(key)
        known = self.entries.get(key)
        if known is not None and known.kind == "link":
            self.forget_all()
            return
        self.drop_below(key)
        self.entries.pop(key, None)
        above = self.entries.get(_above(key))
        if above is not None and above.whole:
            self.entries[_above(key)] = replace(above, whole=False)

    def doubt_listings(self) -> None:
        """Take in that any directory may have got a new entry."""
        for path, entry in self.entries.items():
            if entry.whole:
                self.entries[path] = replace(entry, whole=False)

    def forget_all(self) -> None:
        """Take in that anything may have changed."""
        self.entries.clear()

    def drop_below(self, key: str) -> None:
        """Drop what is known of everything inside a directory."""
        inside = "" if key == "." else key.rstrip("/") + "/"
        for path in [p for p in self.entries if p != key and p.startswith(inside)]:
            if key != "." or not path.startswith("/"):
                del self.entries[path]

    def _made(self, key: str) -> bool:
        known = self.entries.get(key)
        return known is not None and known.made

    def _parents(self, key: str, made: bool) -> None:
        """Take in that every directory above `key` is there."""
        above = _above(key)
        if above == key:
            return
        kind = self.status(above)
        known = self.entries.get(above)
        if known is not None and known.kind == "directory":
            if made and not known.made:
                self.entries[above] = replace(known, made=True)
        else:
            # A directory that was certainly absent is new, so all its entries are known.
            self.entries[above] = Entry("directory", whole=kind == "absent", made=made)
        self._parents(above, made and kind == "absent")

    def _unalias(self, key: str) -> None:
        """Take in that `key` changes, perhaps under another name too.

        While the root is not known, an absolute path and a relative one may be the same place.
        """
        if self.root is None:
            absolute = key.startswith("/")
            for path in [p for p in self.entries if p.startswith("/") != absolute]:
                del self.entries[path]

    def _through_link(self, key: str) -> bool:
        """Return whether a directory above `key` is a link."""
        above = _above(key)
        while above not in {".", "/"}:
            entry = self.entries.get(above)
            if entry is not None and entry.kind == "link":
                return True
            above = _above(above)
        return False

    def _steps_up_safely(self, path: str) -> bool:
        """Return whether each `..` in a path leaves a directory that is no link."""
        parts = path.split("/")
        for index, part in enumerate(parts):
            above = "/".join(parts[:index]) or ("/" if path.startswith("/") else ".")
            if part == ".." and index and parts[index - 1] not in {"..", ".", ""}:
                known = self.entries.get(posixpath.normpath(above))
                if known is None or known.kind != "directory":
                    return False
        return True


def _ordinary(path: str) -> bool:
    """Return whether a path is of a length and depth that every file system takes."""
    if len(path) > _LONGEST or path.count("/") > _DEEPEST:
        return False
    return max(len(part.encode("utf-8", "replace")) for part in path.split("/")) <= 255


def _above(key: str) -> str:
    return posixpath.dirname(key) or ("/" if key.startswith("/") else ".")
