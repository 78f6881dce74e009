"""What a session leaves in its folder, and what becomes of it: in and after the session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).with_name("places")))

from unprivileged import run_as_user

from lwm_agents import Session, Store
from lwm_agents.errors import ChangesError, Conflict, Misuse
from lwm_agents.gate.approvals import Approval, CallbackApprover, YesApprover, approve
from lwm_agents.places.copies import why_no_namespaces
from lwm_agents.places.copy import CopyPlace
from lwm_agents.rehearsed import Rehearsed, discard_if_any

EVERYTHING = YesApprover({"read", "write", "destroy"})
COPY = pytest.mark.skipif(why_no_namespaces() is not None, reason="no namespaces here")


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWM_CONFIG", os.devnull)
    monkeypatch.delenv("LWM_ENGINE", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "notes.txt").write_text("a note\n")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "log" / "lwm.db")


def folders(store: Store) -> list[str]:
    assert store.path is not None
    sessions = store.path.parent / "sessions"
    return sorted(os.listdir(sessions)) if sessions.exists() else []


@pytest.fixture(params=["namespaces", "plain"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of copy must do the same."""
    if request.param == "plain":
        monkeypatch.setattr("lwm_agents.places.copies._why_not", {"copy": "made so by a test"})
    elif why_no_namespaces() is not None:
        pytest.skip("no namespaces here")
    return str(request.param)


async def test_a_dry_run_that_changed_nothing_leaves_nothing(
    root: Path, store: Store, kind: str
) -> None:
    async with Session.open("dry-run", root=root, store=store) as session:
        assert (await session.call("read_file", path="notes.txt")).source == "rehearsed"
        assert session.diff().summary == "nothing changed"
    assert folders(store) == []


async def test_diff_commit_and_undo_from_elsewhere(root: Path, store: Store, kind: str) -> None:
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("write_file", path="new/file.txt", content="x\n")
        await session.call("delete_file", path="notes.txt")
        with pytest.raises(ChangesError, match="still runs"):
            discard_if_any(store, session.id)
    assert folders(store) == [session.id]
    assert os.listdir(root) == ["notes.txt"]
    found = Rehearsed.of(store, session.id)
    assert isinstance(found.begin(), CopyPlace) == (kind == "namespaces")
    found.end()
    changes = found.diff()
    assert {one.path: one.kind for one in changes.inside} == {
        "new": "added",
        "new/file.txt": "added",
        "notes.txt": "deleted",
    }
    found.commit(changes)
    assert sorted(os.listdir(root)) == ["new"]
    found.undo()
    assert (root / "notes.txt").read_text() == "a note\n"
    discard_if_any(store, session.id)
    assert folders(store) == []
    with pytest.raises(Misuse, match="no changes"):
        Rehearsed.of(store, session.id)


@COPY
async def test_another_process_goes_on_with_it(root: Path, store: Store) -> None:
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("shell", command="mkdir below; cd below; echo one > one")
    code = (
        "import asyncio, sys\n"
        "from lwm_agents import Store\n"
        "from lwm_agents.rehearsed import Rehearsed\n"
        "copy = Rehearsed.of(Store(sys.argv[1]), sys.argv[2]).begin()\n"
        "print(asyncio.run(copy.bash('pwd; cat one', timeout=9)).output.decode())\n"
        "copy.close()\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(store.path), session.id],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{root}/below\none\n\n", done.stderr


async def test_a_commit_needs_a_yes_to_exactly_what_was_shown(
    root: Path, store: Store, kind: str
) -> None:
    kept: list[Approval] = []
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("write_file", path="pay.txt", content="82000")
        with pytest.raises(Misuse, match="nobody approved"):
            await session.commit()
        with pytest.raises(Misuse, match="nobody approved"):
            await session.commit(CallbackApprover(lambda request: False))
        kept.append(approve(session.commit_request(), "me"))
        await session.call("write_file", path="pay.txt", content="820000")
        session.commit_request()
        with pytest.raises(Misuse, match="other changes"):
            await session.commit(kept[0])
        assert os.listdir(root) == ["notes.txt"]
        good = approve(session.commit_request(), "me")
        await session.commit(good)
        assert (root / "pay.txt").read_text() == "820000"
        await session.undo()
        with pytest.raises((Misuse, ChangesError)):
            await session.commit(good)
    assert os.listdir(root) == ["notes.txt"]
    approved = store.approvals(session.id)
    assert [one.tool for one in approved] == ["commit"]
    assert store.in_doubt() == []


async def test_a_change_underneath_is_a_conflict_and_is_logged(
    root: Path, store: Store, kind: str
) -> None:
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("write_file", path="notes.txt", content="mine")
        (root / "notes.txt").write_text("somebody else's")
        with pytest.raises(Conflict, match="notes.txt"):
            await session.commit(EVERYTHING)
    assert (root / "notes.txt").read_text() == "somebody else's"
    last = store.trajectory(session.id).transitions[-1]
    assert (last.action.tool, last.observation.is_error) == ("commit", True)
    assert store.in_doubt() == []


@COPY
async def test_a_command_that_wants_the_network_goes_no_further(root: Path, store: Store) -> None:
    """What it would do without one is not what it would do, and must not be taken for it."""
    wants = "echo before > before; (exec 3<>/dev/tcp/192.0.2.1/80) 2>&1; echo after > after"
    async with Session.open("dry-run", root=root, store=store) as session:
        seen = await session.call("shell", command=wants)
        assert seen.source == "unanswered"
        assert "denied: network (192.0.2.1:80)" in seen.text
        listed = await session.call("list_directory", path=".")
        assert listed.text == "before\nnotes.txt\n"
        request = session.commit_request()
        assert request.effects == {"write", "unknown"}
        assert "could not be rehearsed to the end" in (request.difference or "")
        with pytest.raises(Misuse, match="nobody approved"):
            await session.commit(YesApprover())
    assert Rehearsed.of(store, session.id).unsaid() == ["denied: network (192.0.2.1:80)"]


@COPY
async def test_only_what_was_named_is_committed_and_said_so(
    root: Path, store: Store, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("shell", command=f"echo x > {beside}/one; echo y > {tmp_path}/two")
        with pytest.raises(Misuse, match="nothing changed at or below"):
            session.commit_request(elsewhere=[str(tmp_path / "nothing")])
        session.commit_request(elsewhere=[str(beside)])
        assert [path for path in await session.commit(EVERYTHING) if "one" in path]
    assert os.listdir(beside) == ["one"]
    assert not (tmp_path / "two").exists()
    last = store.trajectory(session.id).transitions[-1].observation.text
    assert last == "committed: elsewhere: 1 file added"


@COPY
def test_a_users_diff_shows_what_he_changed_and_nothing_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    for above in [tmp_path, *tmp_path.parents]:
        if str(above) not in {"/", "/tmp"}:
            above.chmod(above.stat().st_mode | 0o055)
    code = (
        "import asyncio, os\n"
        "from lwm_agents import Session, Store\n"
        "from lwm_agents.errors import Conflict\n"
        "from lwm_agents.gate.approvals import YesApprover\n"
        "from lwm_agents.rehearsed import Rehearsed\n"
        "home = os.environ['HOME']\n"
        "os.mkdir(home + '/root')\n"
        "for name in 'ab':\n"
        "    open(f'{home}/root/{name}', 'w').write('old')\n"
        "os.link(home + '/root/a', home + '/root/linked')\n"
        "async def main():\n"
        "    log = Store(home + '/log/lwm.db')\n"
        "    async with Session.open('dry-run', root=home + '/root', store=log) as session:\n"
        "        await session.call('shell', command='echo new >> b; ls /tmp > /dev/null')\n"
        "        print(session.diff().summary)\n"
        "    print(Rehearsed.of(log, session.id).diff().summary)\n"
        "    async with Session.open('dry-run', root=home + '/root', store=log) as session:\n"
        "        await session.call('shell', command='echo new >> a')\n"
        "        try:\n"
        "            await session.commit(YesApprover())\n"
        "        except Conflict as conflict:\n"
        "            print('hard link' in str(conflict))\n"
        "asyncio.run(main())\n"
    )
    done = run_as_user(["-c", code], tmp_path, environment={"LWM_CONFIG": os.devnull})
    assert done.stdout == "1 file changed\n1 file changed\nTrue\n", done.stderr


async def test_discard_begins_anew(root: Path, store: Store, kind: str) -> None:
    async with Session.open("dry-run", root=root, store=store) as session:
        await session.call("delete_file", path="notes.txt")
        await session.discard()
        assert (await session.call("read_file", path="notes.txt")).text == "a note\n"
    assert folders(store) == []


@pytest.mark.parametrize("mode", ["gated", "compare", "live"])
async def test_only_a_dry_run_keeps_changes(root: Path, store: Store, mode: str) -> None:
    async with Session.open(mode, root=root, store=store) as session:  # type: ignore[arg-type]
        await session.call("list_directory", path=".")
        with pytest.raises(Misuse, match="keeps no changes"):
            session.diff()
        with pytest.raises(Misuse, match="keeps no changes"):
            await session.commit(EVERYTHING)


@COPY
async def test_our_own_log_is_not_in_the_copy(root: Path, tmp_path: Path) -> None:
    store = Store(root / "lwm.db")
    async with Session.open("dry-run", root=root, store=store) as session:
        for command in ("cat lwm.db", "ls sessions", "cat *"):
            seen = await session.call("shell", command=command)
            assert seen.source == "unanswered"
            assert "a secret that is hidden" in seen.text
        for tool, arguments in (
            ("read_file", {"path": "lwm.db"}),
            ("delete_file", {"path": "lwm.db"}),
            ("list_directory", {"path": "sessions"}),
            ("move_file", {"source": "lwm.db", "destination": "x"}),
        ):
            assert (await session.call(tool, **arguments)).source == "unanswered"
        assert (await session.call("shell", command="echo x > new; ls")).source == "rehearsed"
        assert session.diff().summary == "1 file added"
    assert store.count() == 8


def test_calls_at_once_share_one_copy(root: Path, store: Store, kind: str) -> None:
    async def work() -> list[str]:
        async with Session.open("dry-run", root=root, store=store) as session:
            names = [f"{number}.txt" for number in range(10)]
            await asyncio.gather(
                *(session.call("write_file", path=name, content=name) for name in names)
            )
            listed = await session.call("list_directory", path=".")
            return listed.text.split()

    assert sorted(asyncio.run(work())) == sorted(["notes.txt", *(f"{n}.txt" for n in range(10))])
