"""What a plain copy keeps of the names that differ from the real files: a tree of nodes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lwm_agents.places.beneath import Kind


@dataclass
class Node:
    """One name: something real, seen here or moved here, or something made here.

    `real` is the absolute path of what it really is, None for what was made here. `content` names
    the bytes of a file in the layer; with `real` as well, it is a copy taken while the file had the
    size and time of change (ns) in `copied`. `mode`, `uid` and `gid` are those of what has a
    content or was made here. `mtime_ns` is the time of the last change to a directory's names, or
    None where there was none. `names` holds what differs below a directory, by its folded name;
    None is a name that is gone. A `hidden` node is a name that others made for real after it could
    have come to be here; it is not seen, and is not gone either.
    """

    name: str = ""
    real: str | None = None
    content: str | None = None
    copied: tuple[int, int] | None = None
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int | None = None
    hidden: bool = False
    names: dict[str, Node | None] = field(default_factory=dict)

    @property
    def unchanged(self) -> bool:
        """Whether this is a real thing with everything below it, as it really is."""
        return self.real is not None and self.content is None and not self.names


Packed = list[list[Any]]
"""Nodes as JSON can say them: depth, key and fields of each, a parent before what is below it.

Flat, because a JSON reader gives up on what is nested as deeply as directories can be.
"""


def packed(top: Node) -> Packed:
    """Return a node and everything below it for JSON."""
    found: Packed = []
    todo: list[tuple[int, str, Node | None]] = [(0, "", top)]
    while todo:
        depth, key, node = todo.pop()
        found.append([depth, key, None if node is None else _fields(node)])
        if node is not None:
            todo += [(depth + 1, below, child) for below, child in node.names.items()]
    return found


def unpacked(packed: Packed) -> Node:
    """Return the node that `packed` took apart."""
    path: list[Node] = []
    for depth, key, fields in packed:
        node = None if fields is None else _node(fields)
        del path[depth:]
        if path:
            path[-1].names[key] = node
        if node is not None:
            path.append(node)
    return path[0]


def nodes(top: Node) -> Iterator[Node]:
    """Yield a node and every node below it."""
    todo = [top]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in node.names.values() if child is not None]


def parts(path: str) -> tuple[str, list[str]]:
    """Return an absolute path as what it starts from, such as `/` or `C:\\`, and its names."""
    drive, rest = os.path.splitdrive(path)
    if os.altsep:
        rest = rest.replace(os.altsep, os.sep)
    return drive + os.sep, [name for name in rest.split(os.sep) if name]


def kind_of(mode: int) -> Kind:
    """Return what an entry of this mode is listed as."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def made_state(node: Node, kept: os.stat_result | None) -> os.stat_result:
    """Return the state of a file whose bytes are kept in the layer, or of a directory made here."""
    if kept is None:
        first, mtime_ns = [stat.S_IFDIR | node.mode, 0, 0, 2], node.mtime_ns or 0
    else:
        first = [stat.S_IFREG | node.mode, kept.st_ino, kept.st_dev, 1]
        mtime_ns = kept.st_mtime_ns
    first += [node.uid, node.gid, 0 if kept is None else kept.st_size]
    return _state(first, (mtime_ns, mtime_ns, mtime_ns))


def with_mtime(state: os.stat_result, mtime_ns: int | None) -> os.stat_result:
    """Return the state of a directory whose names changed at this time, or never did."""
    if mtime_ns is None:
        return state
    return _state(list(state[:7]), (state.st_atime_ns, mtime_ns, mtime_ns))


def _state(first: list[int], times_ns: tuple[int, int, int]) -> os.stat_result:
    """Return a state: mode, inode, device, links, owner, group, size; access, change, change."""
    exact: dict[str, float] = {}
    for name, time_ns in zip(("atime", "mtime", "ctime"), times_ns, strict=True):
        exact |= {f"st_{name}": time_ns / 1e9, f"st_{name}_ns": time_ns}
    return os.stat_result([*first, *(time_ns // 10**9 for time_ns in times_ns)], exact)


def _fields(node: Node) -> dict[str, Any]:
    return {
        key: value for key, value in vars(node).items() if key in _EMPTY and value != _EMPTY[key]
    }


_EMPTY = {key: value for key, value in vars(Node()).items() if key != "names"}
"""What is not written down of a node."""


def _node(fields: Mapping[str, Any]) -> Node:
    node = Node(**fields)
    if node.copied is not None:
        node.copied = (node.copied[0], node.copied[1])
    return node
