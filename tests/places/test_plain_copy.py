"""The copy in pure Python against the real place."""

from __future__ import annotations

import asyncio
import codecs
import itertools
import json
import os
import pickle
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from places import call
from plain_world import NOBODY, build, calls, copied_view, real_view

from lwm_agents.errors import Misuse
from lwm_agents.places import plain_moment
from lwm_agents.places.beneath import HAS_DESCRIPTORS
from lwm_agents.places.place import CannotSay, Place, RealPlace
from lwm_agents.places.plain_copy import PlainCopy
from lwm_agents.places.plain_folder import Folder
from lwm_agents.places.plain_layer import Layer
from lwm_agents.places.plain_node import Node, nodes, packed, unpacked
from lwm_agents.places.plain_real import RealFiles, without_case
from lwm_agents.places.plain_touched import touched
from lwm_agents.places.statement import Statement
from lwm_agents.values import Json, Observation

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
DATABASE = "sqlite:///data/shop.db"


def as_nobody(function: Callable[[], object]) -> object:
    """Return what a function gives in a process of its own without special rights."""
    codecs.lookup("unicode_escape")  # the interpreter's own files may be closed to others
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which do not matter here
        child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            answer: tuple[bool, object] = True, function()
        except BaseException:  # noqa: BLE001 (it is raised where it is awaited)
            answer = False, traceback.format_exc()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        done, result = pickle.load(pipe)
    os.waitpid(child, 0)
    assert done, result
    return result


def directly(function: Callable[[], object]) -> object:
    return function()


def said(observation: Observation, root: str, name: str, arguments: dict[str, Json]) -> str:
    """Return an observation for comparison: without its source and the root's own path."""
    random_bytes = name == "read_file" and arguments["path"].endswith(("-wal", "-shm"))
    text = "…" if random_bytes and not observation.is_error else observation.text
    raw = None if random_bytes else observation.raw
    return repr((text, observation.structured, observation.is_error, raw)).replace(root, "{root}")


async def differences(
    base: Path, seed: int, count: int, descriptors: bool
) -> list[tuple[object, ...]]:
    """Run the same calls in both places and return where they differ."""
    real = RealPlace(base / "real", DATABASE, "live")
    copy = PlainCopy(base / "copy", DATABASE, base / "layer", descriptors=descriptors)
    found: list[tuple[object, ...]] = []
    for number, (name, arguments) in enumerate(calls(seed, count)):
        seen = []
        for place in (real, copy):
            own = {
                key: value.replace("{root}", place.root) if isinstance(value, str) else value
                for key, value in arguments.items()
            }
            try:
                observation = await call(place, name, **own)
                seen.append(said(observation, place.root, name, arguments))
            except OSError as error:  # which the database tools let through
                seen.append(repr((type(error), error.errno)))
        if seen[0] != seen[1]:
            found.append((number, name, arguments, *seen))
        if number % 97 == 96:  # another process goes on
            copy.close()
            copy = PlainCopy(base / "copy", DATABASE, base / "layer", descriptors=descriptors)
    real.close()
    copy.close()
    return found


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


def exact(root: Path) -> dict[str, tuple[object, ...]]:
    """Return all that is to stay as it was, the time of last access included.

    But for links: to see where one leads moves that time, and no system lets one ask not to.
    """
    return {
        str(path): (*path.lstat()[:7], path.lstat().st_mtime_ns, path.lstat().st_ctime_ns,
                    path.lstat().st_atime_ns * (not path.is_symlink()))
        for path in [root, *root.rglob("*")]
    }  # fmt: skip


Users = Callable[[Callable[[], object]], object]


def compare(base: Path, as_user: Users, *, descriptors: bool, wal: bool, seed: int) -> None:
    outside = base / "outside"
    outside.mkdir()
    for name in ("real", "copy"):
        (base / name).mkdir()
        build(base / name, outside, wal=wal)
    before, states = real_view(base / "copy"), exact(base / "copy")
    found = as_user(lambda: asyncio.run(differences(base, seed, 500, descriptors)))
    assert found == []
    assert exact(base / "copy") == states
    assert real_view(base / "copy") == before
    copy = PlainCopy(base / "copy", DATABASE, base / "layer")
    assert copied_view(copy, before) == real_view(base / "real")
    copy.close()


@posix
@pytest.mark.parametrize("wal", [False, True])
@pytest.mark.parametrize("as_user", [directly, as_nobody])
def test_every_observation_is_the_real_one(base: Path, as_user: Users, wal: bool) -> None:
    compare(base, as_user, descriptors=HAS_DESCRIPTORS, wal=wal, seed=1 + wal)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize("as_user", [directly, as_nobody])
def test_every_observation_is_the_real_one_for_long(
    base: Path, as_user: Users, descriptors: bool, seed: int
) -> None:
    compare(base, as_user, descriptors=descriptors, wal=seed % 2 == 0, seed=seed)


QUERIES: list[tuple[str, dict[str, Json]]] = [
    ("sql_schema", {}),
    ("sql_query", {"query": "SELECT count(*) FROM t"}),
    ("sql_execute", {"query": "INSERT INTO t (x) VALUES (1)"}),
    ("sql_execute", {"query": "CREATE TABLE u (x)"}),
    ("list_directory", {"path": "data"}),
    ("sql_query", {"query": "SELECT count(*) FROM t"}),
]


async def answers(place: Place) -> list[str]:
    found = []
    for name, arguments in QUERIES:
        try:
            found.append(said(await call(place, name, **arguments), place.root, name, arguments))
        except OSError as error:
            found.append(repr((type(error), error.errno)))
    place.close()
    return found


@posix
@pytest.mark.parametrize("wal", [False, True])
@pytest.mark.parametrize(
    ("file", "folder"),
    [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555), (0, 0o755), (0o222, 0o755), (0o644, 0),
     (None, 0o755), (None, 0o555)],
)  # fmt: skip
def test_a_database_that_the_user_has_few_rights_to(
    base: Path, file: int | None, folder: int, wal: bool
) -> None:
    for name in ("real", "copy"):
        (base / name).mkdir()
        build(base / name, base, wal=wal)
        if file is None:
            (base / name / "data/shop.db").unlink()
        else:
            (base / name / "data/shop.db").chmod(file)
        (base / name / "data").chmod(folder)
    before = exact(base / "copy")
    real = as_nobody(lambda: asyncio.run(answers(RealPlace(base / "real", DATABASE, "live"))))
    copied = as_nobody(
        lambda: asyncio.run(answers(PlainCopy(base / "copy", DATABASE, base / "layer")))
    )
    assert copied == real
    assert exact(base / "copy") == before


@pytest.fixture
def root(base: Path) -> Path:
    (base / "root").mkdir()
    return base / "root"


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate", "persist"])
async def test_a_copy_taken_while_others_write_is_consistent(
    base: Path, root: Path, mode: str
) -> None:
    path = root / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, filler)")
        connection.executemany(
            "INSERT INTO t VALUES (?, 0, ?)", [(n, "y" * 900) for n in range(400)]
        )
        connection.commit()
    writer = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    try:
        assert writer.stdout.read(1) == b"."
        seen = set()
        for number in range(12):
            copy = PlainCopy(root, "shop.db", base / f"layer{number}")
            try:
                query = "SELECT count(DISTINCT x), max(x) FROM t"
                answer = await call(copy, "sql_query", query=query)
            except CannotSay:  # on a busy machine; never half of a change
                copy.close()
                continue
            assert not answer.is_error, answer.text
            distinct, value = answer.structured["rows"][0]
            assert distinct == 1
            seen.add(value)
            wrote = await call(copy, "sql_execute", query="UPDATE t SET x = -1")
            assert wrote.text == "(400 rows affected)\n"
            check = await call(copy, "sql_execute", query="PRAGMA integrity_check")
            assert check.text == "integrity_check\nok\n(1 row)\n"
            copy.close()
        assert writer.poll() is None
        assert len(seen) > 1
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60)
connection.execute("PRAGMA synchronous=OFF")
connection.execute("PRAGMA cache_size=5")  # so that pages are written before the commit
print(".", end="", flush=True)
while True:
    connection.execute("UPDATE t SET x = x + 1")
    connection.commit()
    time.sleep(0.01)
"""


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA cache_size={sys.argv[2]}")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE t SET x = 5")
print(".", end="", flush=True)
sys.stdin.read()
"""


@posix
@pytest.mark.parametrize(("mode", "dies"), [("delete", True), ("delete", False), ("wal", False)])
async def test_a_transaction_that_others_left_or_hold_open(
    base: Path, root: Path, mode: str, dies: bool
) -> None:
    """What one left behind is undone as for real; what is still open is not seen yet."""
    with closing(sqlite3.connect(root / "shop.db")) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x, filler)")
        connection.executemany(
            "INSERT INTO t VALUES (?, 0, ?)", [(n, "y" * 900) for n in range(99)]
        )
        connection.commit()
    # With little cache, what is changed is written to the file before the transaction ends.
    holder = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER, root / "shop.db", "1" if dies else "9999"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.read(1) == b"."
    if dies:
        holder.kill()
        holder.wait()
    assert (root / ("shop.db-wal" if mode == "wal" else "shop.db-journal")).exists()
    calls = [("sql_query", "SELECT sum(x) FROM t"), ("sql_execute", "UPDATE t SET x = x + 1"),
             ("sql_query", "SELECT sum(x) FROM t")]  # fmt: skip
    copy = PlainCopy(root, "shop.db", base / "layer")
    copied = [(await call(copy, name, query=query)).text for name, query in calls[:1]]
    assert list(copy.touched()) == []
    copied += [(await call(copy, name, query=query)).text for name, query in calls[1:]]
    gone = ["-shm", "-wal"] if mode == "wal" else ["-journal"] if dies else []
    assert [path for path in copy.touched() if path != str(root)] == [
        f"{root}/shop.db{suffix}" for suffix in ["", *gone]
    ]
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    real = RealPlace(root, "shop.db", "live")
    really = [(await call(real, name, query=query)).text for name, query in calls]
    if dies:
        assert really[0] == "Error: attempt to write a readonly database\n".strip()
    assert copied == really
    copy.close()
    real.close()


async def test_a_database_written_without_pause_is_not_guessed_at(
    base: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_moment, "COPY_TIME", 0.2)
    with (root / "shop.db").open("wb") as file:
        file.truncate(20 * 1024 * 1024)  # so long a copy that the writer is never missed
    done = threading.Event()

    def write() -> None:
        for number in itertools.count():
            os.utime(root / "shop.db", ns=(number, number))
            if done.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    copy = PlainCopy(root, "shop.db", base / "layer")
    try:
        with pytest.raises(CannotSay, match="no consistent copy"):
            await call(copy, "sql_schema")
    finally:
        done.set()
        writer.join()
        copy.close()


async def test_the_next_process_goes_on(base: Path, root: Path) -> None:
    (root / "old").mkdir()
    (root / "old/a").write_text("a")
    (root / "old/b").write_text("b")
    copy = PlainCopy(root, "shop.db", base / "layer")
    await call(copy, "move_file", source="old", destination="new/place")
    await call(copy, "write_file", path="new/place/a", content="changed")
    await call(copy, "sql_execute", query="CREATE TABLE t (x)")
    copy.close()
    script = """
import asyncio, os, sys
from lwm_agents.places.plain_copy import PlainCopy
from lwm_agents.tools import builtin_tools
copy = PlainCopy(sys.argv[1], "shop.db", sys.argv[2])
tools = builtin_tools(database=True)
async def main():
    for name, arguments in (("read_file", {"path": "new/place/a"}), ("sql_schema", {}),
                            ("delete_file", {"path": "new/place/b"})):
        print((await tools[name].run(arguments, copy)).text)
asyncio.run(main())
print(copy.began_ns)
"""
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", script, root, base / "layer"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == (f"changed\nCREATE TABLE t (x);\n\nDeleted new/place/b\n{copy.began_ns}\n")
    copy = PlainCopy(root, "shop.db", base / "layer")
    assert [path.removeprefix(f"{root}/") for path in copy.touched()] == [
        str(root), "new", "new/place", "new/place/a", "new/place/b", "old", "old/a", "old/b",
        "shop.db",
    ]  # fmt: skip
    state = copy.lstat(str(root / "new/place/a"))
    assert state is not None
    assert (stat.S_ISREG(state.st_mode), state.st_size) == (True, 7)
    assert copy.lstat(str(root / "new/place/b")) is None
    assert copy.lstat(str(root / "old/a")) is None
    copy.close()
    assert (root / "old/a").read_text() == "a"
    with pytest.raises(Misuse, match="another root or database"):
        PlainCopy(root, None, base / "layer")


@posix
def test_killed_at_any_moment_the_copy_is_whole(base: Path, root: Path) -> None:
    with closing(sqlite3.connect(root / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [("y" * 500,) for _ in range(500)])
        connection.commit()
    draw = random.Random(5)
    for _ in range(4):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, root, base / "layer"], stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        for _ in range(draw.randrange(1, 20)):
            worker.stdout.read(1)
        worker.kill()
        worker.wait()
        worker.stdout.close()
        copy = PlainCopy(root, "shop.db", base / "layer")
        for path in copy.touched():
            state = copy.lstat(path)
            if state is not None and stat.S_ISREG(state.st_mode):
                os.close(copy.open(path))
        query = Statement("execute", "PRAGMA integrity_check")
        assert asyncio.run(copy.sql(query))[0].rows == (("ok",),)
        rows = asyncio.run(copy.sql(Statement("query", "SELECT count(DISTINCT x) FROM t")))
        assert rows[0].rows == ((1,),)
        asyncio.run(copy.sql(Statement("execute", "UPDATE t SET x = 0")))
        assert {entry.name for entry in copy.entries(".")} <= {"shop.db", "d", "e"}
        copy.close()


WORKER = """
import asyncio, sys
from lwm_agents.places.plain_copy import PlainCopy
from lwm_agents.places.statement import Statement
copy = PlainCopy(sys.argv[1], "shop.db", sys.argv[2])
number = 0
while True:
    copy.write("d/a", b"x" * number)
    print(".", end="", flush=True)
    asyncio.run(copy.sql(Statement("execute", f"UPDATE t SET x = hex(zeroblob({number})) || 'y'")))
    print(".", end="", flush=True)
    copy.move("d", "e")
    copy.move("e", "d")
    number += 1
"""


async def test_what_it_can_not_say(base: Path, root: Path) -> None:
    copy = PlainCopy(root, None, base / "layer")
    with pytest.raises(CannotSay, match="commands"):
        await copy.bash("true", timeout=1)
    with pytest.raises(Misuse, match="no database"):
        await copy.sql(Statement("schema"))
    copy.close()
    with pytest.raises(Misuse, match="root"):
        PlainCopy(root / "missing", None, base / "layer2")


@posix
def test_whether_a_directory_is_empty_that_no_one_may_list(base: Path, root: Path) -> None:
    root.chmod(0o777)
    (root / "blind").mkdir()
    if os.geteuid() == 0:
        os.chown(root / "blind", NOBODY, NOBODY)
    (root / "blind").chmod(0o333)

    def act() -> tuple[str, str]:
        copy = PlainCopy(root, None, base / "layer")
        with pytest.raises(CannotSay) as raised:
            copy.delete("blind")
        copy.write("blind/x", b"")
        with pytest.raises(OSError, match="not empty") as refused:
            copy.delete("blind")
        return str(raised.value), type(refused.value).__name__

    assert as_nobody(act) == (
        f"whether it is empty, since it can't be read: {root}/blind",
        "OSError",
    )


@posix
async def test_a_database_that_a_link_leads_to_outside_the_root(base: Path, root: Path) -> None:
    with closing(sqlite3.connect(base / "far.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    (root / "shop.db").symlink_to("../far.db")
    before = exact(base)
    copy = PlainCopy(root, "shop.db", base / "layer")
    assert not (await call(copy, "sql_execute", query="INSERT INTO t VALUES (1)")).is_error
    assert (await call(copy, "sql_query", query="SELECT * FROM t")).text == "x\n1\n(1 row)\n"
    assert (await call(copy, "list_directory", path=".")).text == "shop.db -> ../far.db\n"
    assert list(copy.touched()) == [str(base / "far.db")]
    copy.close()
    after = exact(base)
    assert {path: after[path] for path in before if path != str(base)} == {
        path: before[path] for path in before if path != str(base)
    }


@posix
async def test_what_is_hidden_can_be_reached_in_no_way(base: Path, root: Path) -> None:
    (root / "home/.ssh").mkdir(parents=True)
    (root / "home/.ssh/key").write_text("secret")
    (root / "home/.netrc").write_text("secret")
    (root / "home/.netrc-not").write_text("fine")
    (root / "link").symlink_to("home/.ssh")
    hidden = [str(root / "home/.ssh"), str(root / "home/.netrc")]
    copy = PlainCopy(root, "home/.netrc", base / "layer", hidden=hidden)
    for path in ("home/.ssh/key", "link/key", "home/.netrc", f"{root}/home/.ssh/key"):
        for name, arguments in (
            ("read_file", {}), ("delete_file", {}), ("write_file", {"content": ""})
        ):  # fmt: skip
            seen = await call(copy, name, path=path, **arguments)
            assert seen.text == f"Permission denied: {path}"
    for source in ("home/.ssh", "home/.netrc"):
        assert (await call(copy, "move_file", source=source, destination="x")).is_error
    assert (await call(copy, "move_file", source="home", destination="moved")).text.startswith("M")
    assert (await call(copy, "read_file", path="moved/.netrc-not")).text == "fine"
    for path in ("moved/.ssh/key", "moved/.netrc"):
        assert (await call(copy, "read_file", path=path)).text == f"Permission denied: {path}"
    assert (await call(copy, "list_directory", path="moved/.ssh")).is_error
    copy.close()


async def test_a_database_that_was_only_read_is_not_touched(base: Path, root: Path) -> None:
    with closing(sqlite3.connect(root / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    copy = PlainCopy(root, "shop.db", base / "layer")
    assert not (await call(copy, "sql_schema")).is_error
    assert (await call(copy, "sql_execute", query="INSERT INTO u VALUES (1)")).is_error
    assert list(copy.touched()) == []
    copy.close()


@posix
def test_directories_deeper_than_paths_are_long(base: Path, root: Path) -> None:
    for name in ("a", "b"):
        place = PlainCopy(root, None, base / "layer")
        place.write("/".join([name * 40] * 120) + "/file", name.encode())
        place.close()
    place = PlainCopy(root, None, base / "layer")
    assert place.read("/".join(["a" * 40] * 120) + "/file") == b"a"
    assert len(list(place.touched())) == 1 + 2 * 121
    place.close()


def test_nodes_of_any_depth_are_kept() -> None:
    deepest = top = Node(real="/")
    for number in range(5000):
        deepest.names["gone"] = None
        deepest.names["next"] = below = Node("next", mode=number)
        deepest = below
    kept = unpacked(json.loads(json.dumps(packed(top))))
    assert [node.mode for node in nodes(kept)] == [node.mode for node in nodes(top)]
    assert sum(None in node.names.values() for node in nodes(kept)) == 5000


def test_names_in_another_case_where_the_system_tells_no_difference(base: Path, root: Path) -> None:
    (root / "Old").write_text("old")
    layer = Layer(RealFiles(str(root)), Folder(str(base / "layer"), str(root), None))
    layer.fold = without_case
    above = layer.find(str(root))
    layer.set(str(root / "Straße"), layer.new_file(b"x", None, above))
    layer.set(str(root / "Old"), None)
    assert layer.find(str(root / "STRASSE")).name == "Straße"
    assert layer.lstat(str(root / "OLD")) is None
    assert [entry.name for entry in layer.entries(layer.find(str(root)))] == ["Straße"]
    assert list(touched(layer)) == [str(root), str(root / "Old"), str(root / "Straße")]
    layer.real.close()


def test_without_what_only_linux_has(base: Path, root: Path) -> None:
    """As far as Linux can play another system: what is missing there is missing here."""
    (root / "d").mkdir()
    (root / "d/a").write_text("a")
    with closing(sqlite3.connect(root / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = {path: state[:9] for path, state in exact(root).items()}
    script = """
import os, sys
for name in ("O_NOATIME", "O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
             "listxattr", "getxattr", "setxattr", "statvfs", "pathconf", "geteuid", "getegid",
             "getgroups", "fchown", "fchmod", "chown", "copy_file_range", "mkfifo", "openat"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for names in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd):
    names.clear()
import asyncio
from lwm_agents.places import beneath, plain_copy
from lwm_agents.tools import builtin_tools
sys.platform = "other"
assert not beneath.HAS_DESCRIPTORS
copy = plain_copy.PlainCopy(sys.argv[1], "shop.db", sys.argv[2])
tools = builtin_tools(database=True)
async def main():
    for name, arguments in (
        ("write_file", {"path": "new/b", "content": "b"}),
        ("edit_file", {"path": "d/a", "old_text": "a", "new_text": "c"}),
        ("move_file", {"source": "d", "destination": "e"}),
        ("read_file", {"path": "e/a"}),
        ("delete_file", {"path": "e"}),
        ("delete_file", {"path": "new/b"}),
        ("sql_execute", {"query": "INSERT INTO t VALUES (1)"}),
        ("sql_query", {"query": "SELECT * FROM t"}),
        ("search_files", {"path": ".", "pattern": "*"}),
        ("read_file", {"path": "e/a/x"}),
    ):
        print((await tools[name].run(arguments, copy)).text)
asyncio.run(main())
print([os.path.relpath(path, copy.root) for path in copy.touched()], copy.xattrs(copy.root))
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, root, base / "layer"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "Wrote 1 bytes to new/b",
        "Edited d/a",
        "Moved d to e",
        "c",
        "Directory not empty: e",
        "Deleted new/b",
        "(1 row affected, last row id 1)",
        "",
        "x",
        "1",
        "(1 row)",
        "",
        "e",
        "e/a",
        "new",
        "shop.db",
        "",
        "Not a directory: e/a/x",
        "['.', 'd', 'd/a', 'e', 'e/a', 'new', 'shop.db'] {}",
    ]
    assert {path: state[:9] for path, state in exact(root).items()} == before
