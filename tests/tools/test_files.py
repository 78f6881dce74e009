"""The file tools on real files."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import call, tree

from lwm_agents.errors import Misuse, PromiseError
from lwm_agents.places.beneath import Beneath
from lwm_agents.places.paths import Refused, lexical_names
from lwm_agents.places.place import RealPlace
from lwm_agents.tools.files import name_matcher
from lwm_agents.values import Mode

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "root-evil"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def place(root: Path) -> Iterator[RealPlace]:
    real = RealPlace(root, None, "live")
    yield real
    real.close()


def test_no_dry_run_builds_the_real_place(root: Path) -> None:
    with pytest.raises(PromiseError):
        RealPlace(root, None, "dry-run")
    modes: tuple[Mode, ...] = ("gated", "compare", "live")
    for mode in modes:
        assert RealPlace(root, None, mode).source == "executed"


def test_a_root_that_is_no_directory(root: Path) -> None:
    with pytest.raises(Misuse, match="root"):
        RealPlace(root / "missing", None, "live")
    (root / "file").write_text("")
    with pytest.raises(Misuse, match="root"):
        RealPlace(root / "file", None, "live")


async def test_write_then_read(place: RealPlace, root: Path) -> None:
    wrote = await call(place, "write_file", path="new/deep/a.txt", content="héllo\r\n\tx")
    assert (wrote.text, wrote.is_error) == ("Wrote 10 bytes to new/deep/a.txt", False)
    assert (root / "new/deep/a.txt").read_bytes() == "héllo\r\n\tx".encode()
    seen = await call(place, "read_file", path=str(root / "new/deep/a.txt"))
    assert (seen.text, seen.raw, seen.source) == ("héllo\r\n\tx", None, "executed")
    assert os.listdir(root / "new/deep") == ["a.txt"]


async def test_not_utf8_keeps_its_bytes(place: RealPlace, root: Path) -> None:
    (root / "latin.txt").write_bytes(b"caf\xe9\x00")
    seen = await call(place, "read_file", path="latin.txt")
    assert (seen.text, seen.raw) == ("caf\ufffd\x00", b"caf\xe9\x00")
    await call(place, "edit_file", path="latin.txt", old_text="ca", new_text="CA")
    assert (root / "latin.txt").read_bytes() == b"CAf\xe9\x00"


async def test_a_large_file_is_read_whole(place: RealPlace, root: Path) -> None:
    content = b"0123456789abcde\n" * 700_000
    (root / "large").write_bytes(content)
    assert (await call(place, "read_file", path="large")).text.encode() == content
    with (root / "larger").open("wb") as file:
        file.truncate(101 * 1024 * 1024)
    seen = await call(place, "read_file", path="larger")
    assert (seen.text, seen.is_error) == ("Larger than 104,857,600 bytes: larger", True)


@posix
async def test_writing_keeps_the_mode_and_follows_a_link_inside(
    place: RealPlace, root: Path
) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o751)
    (root / "link").symlink_to("run.sh")
    await call(place, "write_file", path="link", content="new")
    assert (root / "link").is_symlink()
    assert (root / "run.sh").read_text() == "new"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o751
    await call(place, "write_file", path="fresh", content="")
    os.umask(mask := os.umask(0))
    assert stat.S_IMODE((root / "fresh").stat().st_mode) == 0o666 & ~mask


async def test_edit(place: RealPlace, root: Path) -> None:
    (root / "a").write_text("one two two")
    for old, said in (
        ("three", "old_text was not found in a"),
        ("two", "old_text occurs 2 times in a; give more of its surroundings"),
    ):
        seen = await call(place, "edit_file", path="a", old_text=old, new_text="x")
        assert (seen.text, seen.is_error) == (said, True)
    (root / "b").write_text("aaa")
    assert (await call(place, "edit_file", path="b", old_text="aa", new_text="x")).is_error
    assert (await call(place, "edit_file", path="b", old_text="a", new_text="a")).is_error
    assert (await call(place, "edit_file", path="b", old_text="", new_text="a")).is_error
    seen = await call(place, "edit_file", path="a", old_text="one ", new_text="")
    assert (seen.text, (root / "a").read_text()) == ("Edited a", "two two")


@posix
async def test_list(place: RealPlace, root: Path) -> None:
    (root / "b").mkdir()
    (root / "a\nb").write_text("")
    (root / "B.txt").write_text("")
    (root / "link").symlink_to("b")
    (root / os.fsdecode(b"caf\xe9")).write_text("")
    seen = await call(place, "list_directory", path=".")
    assert seen.text == "B.txt\na\\nb\nb/\ncaf\\xe9\nlink -> b\n"
    assert seen.structured["entries"][2] == {"name": "b", "type": "directory"}
    assert (await call(place, "list_directory", path="b")).text == ""
    assert (await call(place, "list_directory", path="link")).text == ""
    assert (await call(place, "list_directory", path="B.txt")).text == "Not a directory: B.txt"
    assert (await call(place, "list_directory", path="c")).text == "No such directory: c"


async def test_move(place: RealPlace, root: Path) -> None:
    (root / "a").write_text("a")
    (root / "d").mkdir()
    (root / "d/x").write_text("x")
    (root / "empty").mkdir()
    for source, destination, said in (
        ("a", "d/x", "Already exists: d/x"),
        ("d", "empty", "Already exists: empty"),
        ("a", "a", "Already exists: a"),
        ("missing", "b", "No such file: missing to b"),
        ("d", "d/inside/e", "Not possible: d to d/inside/e"),
        (".", "b", "Is the root: . to b"),
    ):
        before = (root / "a").read_text(), (root / "d/x").read_text()
        seen = await call(place, "move_file", source=source, destination=destination)
        assert (seen.text, seen.is_error) == (said, True)
        assert ((root / "a").read_text(), (root / "d/x").read_text()) == before
    assert (await call(place, "move_file", source="a", destination="new/b")).text == (
        "Moved a to new/b"
    )
    assert (await call(place, "move_file", source="d", destination="e")).is_error is False
    assert (root / "new/b").read_text() == "a"
    assert (root / "e/x").read_text() == "x"
    assert not (root / "a").exists()


@posix
async def test_delete(place: RealPlace, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/x").write_text("x")
    (root / "link").symlink_to("d")
    assert (await call(place, "delete_file", path="d")).text == "Directory not empty: d"
    assert (await call(place, "delete_file", path=".")).text == "Is the root: ."
    assert (await call(place, "delete_file", path="link")).text == "Deleted link"
    assert (root / "d/x").exists()
    assert not (await call(place, "delete_file", path="d/x")).is_error
    assert not (await call(place, "delete_file", path="d/")).is_error
    assert (await call(place, "delete_file", path="d")).text == "No such file: d"
    assert os.listdir(root) == []


@posix
async def test_search(place: RealPlace, root: Path, outside: Path) -> None:
    for name in ("src/a.py", "src/pkg/B.PY", "src/.hidden/c.py", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "src/out").symlink_to(outside)
    found = await call(place, "search_files", path=".", pattern="*.py")
    assert found.text == "src/.hidden/c.py\nsrc/a.py\nsrc/pkg/B.PY\n"
    assert found.structured == {"paths": found.text.split(), "count": 3}
    found = await call(place, "search_files", path="src", pattern="pkg/*")
    assert found.text == "src/pkg/B.PY\n"
    found = await call(place, "search_files", path=".", pattern="secret*")
    assert (found.text, found.is_error) == ("No matches found\n", False)
    found = await call(place, "search_files", path="nowhere", pattern="*")
    assert (found.text, found.is_error) == ("No such directory: nowhere", True)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a/b/C.PY", True),
        ("*.py", "a.py/b", False),
        ("a/*.py", "a/x.py", True),
        ("a/*.py", "a/b/x.py", False),
        ("a/**/x.py", "a/x.py", True),
        ("a/**/x.py", "a/b/c/x.py", True),
        ("**/x.py", "x.py", True),
        ("**", "a/b", True),
        ("**/*", "a/b", True),
        ("a/**", "a/b/c", True),
        ("[ab]?", "x/a1", True),
        ("[!ab]?", "a1", False),
        ("[z-a]", "z", False),
        ("[", "[", True),
    ],
)
def test_name_matcher(pattern: str, path: str, matches: bool) -> None:
    assert name_matcher(pattern)(path) is matches


ESCAPES = [
    "../root-evil/secret.txt",
    "..",
    "a/../../root-evil/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "{root}-evil/secret.txt",
    "{root}/../root-evil/secret.txt",
    "link/secret.txt",
    "chain/secret.txt",
    "absolute/secret.txt",
    "file-link",
    "inside/../../root-evil/secret.txt",
    "inside/up/root-evil/secret.txt",
    "a\0b",
    "\ud800",
]


@posix
@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize("escape", ESCAPES)
async def test_no_way_out(root: Path, outside: Path, escape: str, descriptors: bool) -> None:
    (root / "inside").mkdir()
    (root / "keep").write_text("kept")
    (root / "link").symlink_to("../root-evil")
    (root / "two").symlink_to("link")
    (root / "chain").symlink_to("two")
    (root / "absolute").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "inside/up").symlink_to("../..")
    files = Beneath(str(root), descriptors=descriptors)
    path = escape.format(root=root) if "{" in escape else escape
    before = tree(root.parent)
    for act in (
        lambda: files.read(path),
        lambda: files.entries(path),
        lambda: files.write(path, b"x"),
        lambda: files.move("keep", path),
    ):
        if escape == "file-link" and act is not None:
            with pytest.raises((Refused, FileExistsError)):
                act()
            continue
        with pytest.raises(Refused):
            act()
    if escape != "file-link":  # to delete a link is to delete a name inside
        with pytest.raises(Refused):
            files.delete(path)
    assert tree(root.parent) == before
    files.close()


@posix
async def test_refusal_is_lexical_and_touches_nothing(place: RealPlace, root: Path) -> None:
    for path in ("../x", "a/../../x", "/etc/passwd", f"{root}-evil/x", "a\0"):
        with pytest.raises(Refused):
            lexical_names(path, str(root))
        seen = await call(place, "read_file", path=path)
        assert seen.is_error
        assert "\0" not in seen.text
    with pytest.raises(Refused):
        lexical_names(f"{root}/a", None)
    assert lexical_names(f"{root}/a//./b/../c/", str(root)) == ["a", "b", "..", "c"]
    seen = await call(place, "write_file", path="a", content="\ud800")
    assert seen.text == "Not text that UTF-8 can say: `content`"
    assert os.listdir(root) == []


@posix
async def test_a_link_swapped_in_at_the_wrong_moment(root: Path, outside: Path) -> None:
    """One thread swaps a directory for a link to outside as fast as it can."""
    (root / "real").mkdir()
    (root / "real/secret.txt").write_text("mine")
    (root / "evil").symlink_to(outside)
    files = Beneath(str(root))
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("real", "evil"):
                try:
                    os.rename(root / name, root / "door")
                    os.rename(root / "door", root / name)
                except OSError:  # a write found no door and made one
                    shutil.rmtree(root / "door", ignore_errors=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for number in range(3000):
            try:
                seen.add(files.read("door/secret.txt"))
                files.write("door/secret.txt", b"mine")
                files.write(f"door/new{number % 5}", b"x")
                files.delete(f"door/new{number % 5}")
            except OSError:
                continue
    finally:
        done.set()
        swapper.join()
        files.close()
    assert seen <= {b"mine"}
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


@posix
async def test_links_that_stay_inside_are_followed(place: RealPlace, root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/x").write_text("x")
    (root / "link").symlink_to("a/b")
    (root / "absolute").symlink_to(root / "a")
    (root / "a/up").symlink_to("../a/b/x")
    (root / "loop").symlink_to("loop")
    for path in ("link/x", "absolute/b/x", "a/up", "link/../b/x", f"{root}/link/x"):
        assert (await call(place, "read_file", path=path)).text == "x"
    assert (await call(place, "read_file", path="loop")).text == "Too many links: loop"
    (root / "dangling").symlink_to("a/new")
    await call(place, "write_file", path="dangling", content="made")
    assert (root / "a/new").read_text() == "made"


@posix
async def test_pipes_devices_and_sockets_are_not_opened(place: RealPlace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "sock"))
        for name in ("pipe", "sock"):
            said = f"Not a regular file: {name}"
            assert (await call(place, "read_file", path=name)).text == said
            assert (await call(place, "write_file", path=name, content="x")).text == said
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)
    assert (await call(place, "read_file", path=".")).text == "Is a directory: ."
    assert (await call(place, "write_file", path=".", content="")).text == "Is a directory: ."


async def test_odd_names(place: RealPlace, root: Path) -> None:
    for name in ("a b", "日本語.txt", "-rf", "~", "$HOME", "'q'", "tab\tname", "e\u0301"):
        await call(place, "write_file", path=name, content=name)
        assert (root / name).read_text() == name
        assert (await call(place, "read_file", path=name)).text == name
    seen = await call(place, "write_file", path="n" * 300, content="")
    assert seen.text.startswith("Name too long: nnn")
    assert (await call(place, "read_file", path="a/" * 5000)).is_error
    assert (await call(place, "read_file", path="line\nbreak")).text == (
        "No such file: line\\nbreak"
    )


@posix
async def test_reading_changes_nothing(place: RealPlace, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/a").write_text("a")
    for path in (root / "d/a", root / "d", root):
        os.utime(path, ns=(1, 1))  # so old that any read would move the time of last access
    before = tree(root), [path.stat().st_atime_ns for path in (root, root / "d", root / "d/a")]
    await call(place, "read_file", path="d/a")
    await call(place, "list_directory", path="d")
    await call(place, "search_files", path=".", pattern="*")
    after = [path.stat().st_atime_ns for path in (root, root / "d", root / "d/a")]
    assert (after, tree(root)) == (before[1], before[0])


@posix
async def test_permission_is_data(place: RealPlace, root: Path) -> None:
    (root / "closed").write_text("closed")
    (root / "fixed").write_text("fixed")
    (root / "locked").mkdir()
    os.chmod(root, 0o777)  # so that only the file's own mode forbids to replace it
    for name, mode in (("closed", 0), ("fixed", 0o444), ("locked", 0)):
        (root / name).chmod(mode)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may do anything
    try:
        seen = [
            await call(place, "read_file", path="closed"),
            await call(place, "write_file", path="fixed", content="x"),
            await call(place, "edit_file", path="fixed", old_text="fixed", new_text="x"),
            await call(place, "list_directory", path="locked"),
            await call(place, "search_files", path=".", pattern="f*"),
        ]
    finally:
        os.seteuid(user)
    assert [observation.text for observation in seen] == [
        "Permission denied: closed",
        "Permission denied: fixed",
        "Permission denied: fixed",
        "Permission denied: locked",
        "fixed\n[could not read locked]\n",
    ]


def test_without_the_modules_of_linux() -> None:
    script = """
import asyncio, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import lwm_agents.tools.base, lwm_agents.places.beneath, lwm_agents.tools.database
import lwm_agents.tools.files, lwm_agents.tools.functions, lwm_agents.places.place
import lwm_agents.places.process, lwm_agents.tools.shell, lwm_agents.places.sqlite
import lwm_agents.tools.terminal, lwm_agents.places.threads
"""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
