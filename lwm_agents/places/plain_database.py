"""The SQLite database of a plain copy: its files laid out where SQLite can work on them.

SQLite names a database's other files after it, so the four lie together in a folder of the layer:
`7/db`, `7/db-wal`, `7/db-journal`, `7/db-shm`. Those that are there are what the world shows
beside the database, before a statement and after it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lwm_agents.places.paths import resolved
from lwm_agents.places.place import CannotSay
from lwm_agents.places.plain_layer import Layer
from lwm_agents.places.plain_moment import SUFFIXES, copy_at_once, database_files, may
from lwm_agents.places.plain_node import Node, parts


@contextmanager
def laid_out(layer: Layer, database: str, stopped: threading.Event) -> Iterator[str]:
    """Yield the path at which to open the database, and take up afterwards what became of it.

    Raises CannotSay where no consistent copy of it can be had, and OSError.
    """
    try:
        path = _final(layer, database)
        state = layer.lstat(path)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        path, state = database, None
    if state is None and not _may_make(layer, os.path.dirname(path)):
        yield layer.folder.file("none/db")  # no such folder: it can't be opened, nor made
    elif state is not None and not stat.S_ISREG(state.st_mode):
        yield layer.folder.file("none/db")
    elif state is not None and not may(layer, layer.find(path), os.R_OK):
        with _unreadable(layer) as closed:
            yield closed
    else:
        base = _lay_out(layer, path, stopped)
        try:
            with _in_the_way(layer, path, base), _rights(layer, path, base):
                yield layer.folder.file(base)
        finally:
            _take_up(layer, path, base)


def _final(layer: Layer, database: str) -> str:
    """Return the path of the database with every link followed, wherever it leads."""
    anchor, _ = parts(database)

    def target(names: list[str]) -> str:
        return layer.readlink(os.path.join(anchor, *names))

    return os.path.join(anchor, *resolved(database, anchor, target))


def _may_make(layer: Layer, path: str) -> bool:
    """Return whether the caller may make a file in what has this path."""
    try:
        state = layer.lstat(path)
        if state is None or not stat.S_ISDIR(state.st_mode):
            return False
        return may(layer, layer.find(path), os.W_OK | os.X_OK)
    except NotADirectoryError:
        return False


@contextmanager
def _unreadable(layer: Layer) -> Iterator[str]:
    folder = layer.folder.file(layer.folder.number())
    os.mkdir(folder, 0o700)
    path = os.path.join(folder, "db")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o000))
        yield path
    finally:
        shutil.rmtree(folder)


def _lay_out(layer: Layer, path: str, stopped: threading.Event) -> str:
    """Bring the database's files together in the layer and return the name of its content."""
    found = database_files(layer, path)
    main = found[""].content if "" in found else None
    if main is not None and main.endswith("/db") and _in_place(layer, found, main):
        return main
    number = layer.folder.number()
    os.mkdir(layer.folder.file(number), 0o700)
    base = f"{number}/db"
    try:
        found = copy_at_once(layer, path, base, stopped)
    except BaseException:
        shutil.rmtree(layer.folder.file(number))
        raise
    for suffix, node in found.items():
        state, copied = layer.stat(node), os.lstat(layer.folder.file(base + suffix))
        own = layer.own(path + suffix)
        if own.content is None:
            own.copied = copied.st_size, copied.st_mtime_ns
        else:
            layer.folder.drop(own.content)
        own.content = base + suffix
        own.mode, own.uid, own.gid = stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid
    if "" in found:
        for suffix in SUFFIXES:
            there = layer.lstat(path + suffix)
            if suffix not in found and (there is None or stat.S_ISREG(there.st_mode)):
                layer.hide(path + suffix)  # what others make beside theirs is not of this one
    layer.folder.save()
    return base


def _in_place(layer: Layer, found: dict[str, Node], main: str) -> bool:
    """Return whether the files lie together already.

    A file that nothing refers to was left by a process that died while SQLite worked: with it
    SQLite puts the database right.
    """
    used = layer.folder.contents()
    return all(
        found[suffix].content == main + suffix if suffix in found else main + suffix not in used
        for suffix in SUFFIXES
    )


@contextmanager
def _in_the_way(layer: Layer, path: str, base: str) -> Iterator[None]:
    """Let SQLite meet the directories that have the names of files which it would make."""
    made = []
    try:
        for suffix in SUFFIXES[1:]:
            state = layer.lstat(path + suffix)
            if state is not None and stat.S_ISDIR(state.st_mode):
                os.mkdir(layer.folder.file(base + suffix))
                made.append(layer.folder.file(base + suffix))
            elif state is not None and not stat.S_ISREG(state.st_mode):
                raise CannotSay(f"with a link or a device beside the database: {path}{suffix}")
        yield
    finally:
        for name in made:
            os.rmdir(name)


@contextmanager
def _rights(layer: Layer, path: str, base: str) -> Iterator[None]:
    """Let SQLite meet the rights that the caller has to the database's files and their folder."""
    folder = os.path.dirname(layer.folder.file(base))
    modes = {folder: 0o700 if may(layer, layer.find(os.path.dirname(path)), os.W_OK) else 0o500}
    for suffix, node in database_files(layer, path).items():
        modes[layer.folder.file(base + suffix)] = sum(
            bit for want, bit in ((os.R_OK, 0o400), (os.W_OK, 0o200)) if may(layer, node, want)
        )
    limited = {name: mode for name, mode in modes.items() if mode not in (0o700, 0o600)}
    if limited and layer.folder.rules():
        raise CannotSay(f"on a file system that can't be written: {path}")
    # The folder last: where it can't be entered its files can't be reached either.
    for name in sorted(limited, reverse=True):
        os.chmod(name, limited[name])
    try:
        yield
    finally:
        for name in sorted(limited):
            with suppress(FileNotFoundError):
                os.chmod(name, 0o700 if name == folder else 0o600)


def _take_up(layer: Layer, path: str, base: str) -> None:
    """Make the world show the files that lie in the layer now."""
    above, main = layer.find(os.path.dirname(path)), None
    for suffix in SUFFIXES:
        content, node = base + suffix, None
        with suppress(FileNotFoundError):
            node = layer.find(path + suffix)
        taken = node is not None and node.content == content
        lies = os.path.lexists(layer.folder.file(content))
        if lies and not taken:
            layer.set(path + suffix, _made(layer, content, main, above))
        elif taken and not lies:
            layer.set(path + suffix, None)
            layer.hide(path + suffix)
        if suffix == "" and lies:
            main = layer.find(path)
        if suffix == "-shm" and lies and node is not None and node.copied is not None:
            # An index into the log, for those who have it open: to change it is no change.
            state = os.lstat(layer.folder.file(content))
            node.copied = state.st_size, state.st_mtime_ns
    with suppress(OSError):
        os.rmdir(os.path.dirname(layer.folder.file(base)))  # where no database was made after all


def _made(layer: Layer, content: str, database: Node | None, above: Node) -> Node:
    """Return the node of a file that SQLite made: it gets the database's mode, and from root its
    owner."""
    state = os.lstat(layer.folder.file(content))
    os.chmod(layer.folder.file(content), 0o600)
    if database is None:
        mode, uid, gid = stat.S_IMODE(state.st_mode), state.st_uid, layer.group(above)
    elif hasattr(os, "geteuid") and os.geteuid() == 0:
        mode, uid, gid = database.mode & 0o777, database.uid, database.gid
    else:
        mode, uid, gid = database.mode & 0o777, state.st_uid, layer.group(above)
    return Node(content=content, mode=mode, uid=uid, gid=gid)
