"""The command line, run as a user runs it: a process, its exit code, what it prints."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.places.copies import why_no_namespaces

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from stub_server import Reply, Request, StubServer

SAMPLE = Path(__file__).parents[1] / "samples" / "intercode-bash.jsonl"
LWM = [sys.executable, "-c", "from lwm_agents.cli import main; main()"]
Lwm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lwm(tmp_path: Path) -> Lwm:
    """Run `lwm` at 80 columns with a log and a config of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LWM_")} | {
        "LWM_STORE": str(tmp_path / "log.db"),
        "LWM_CONFIG": os.devnull,
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }

    def run(*arguments: object, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LWM, *map(str, arguments)],
            env={**environment, **extra},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )

    return run


@pytest.fixture
def server() -> Iterator[StubServer]:
    """A language model that always says the same."""

    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(body={"data": [{"id": "stub", "max_model_len": 8192}]})
        message = {
            "role": "assistant",
            "content": "<predicted_observation>hm</predicted_observation>",
        }
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Reply(body={"choices": [choice], "usage": usage})

    with StubServer(answer) as stub:
        yield stub


COPIES = why_no_namespaces() is None
COPY = pytest.mark.skipif(not COPIES, reason="this system lets us make no namespaces")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "notes.txt").write_text("a note\n")
    database = sqlite3.connect(root / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    database.close()
    document = {
        "task": "look and clean",
        "root": "work",
        "database": "sqlite:///shop.db",
        "steps": [
            {"tool": "shell", "arguments": {"command": "cat notes.txt"}},
            {"tool": "write_file", "arguments": {"path": "new.txt", "content": "x\n"}},
            {"tool": "read_file", "arguments": {"path": "new.txt"}},
            {"tool": "sql_query", "arguments": {"query": "SELECT count(*) FROM orders"}},
            {"tool": "delete_file", "arguments": {"path": "notes.txt"}},
        ],
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document, indent=2))
    return path


def document(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the one JSON document on stdout."""
    return json.loads(done.stdout)


def test_a_dry_run_prints_one_document_and_changes_nothing(
    lwm: Lwm, plan: Path, server: StubServer
) -> None:
    done = lwm("dry-run", plan, "--engine", server.url, "--json", "--no-rehearsal")
    assert done.returncode == 0, done.stderr
    said = document(done)
    assert said["mode"] == "dry-run"
    assert said["unanswered"] == 0
    assert [step["source"] for step in said["steps"]] == ["imagined"] * 5
    assert set(said["steps"][0]) >= {
        "step", "tool", "arguments", "source", "confidence", "is_error", "observation",
        "structured", "latency_ms", "fidelity",
    }  # fmt: skip
    # What follows from the history is worked out, not asked of the model.
    assert said["steps"][2]["observation"] == "x\n"
    work = plan.parent / "work"
    assert sorted(p.name for p in work.iterdir()) == ["notes.txt", "shop.db"]
    shown = lwm("show", said["session"])
    assert "≈ imagined" in shown.stdout
    assert "nothing real happens" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_without_an_engine_steps_are_unanswered_and_it_failed(lwm: Lwm, plan: Path) -> None:
    done = lwm("dry-run", plan, "--no-rehearsal")
    assert done.returncode == 1
    assert "? unanswered" in done.stdout
    assert "lwm model pull" in done.stdout


@COPY
def test_rehearse_diff_commit_undo_discard(lwm: Lwm, plan: Path) -> None:
    work = plan.parent / "work"
    done = lwm("dry-run", plan, "--json")
    assert done.returncode == 0, done.stderr
    said = document(done)
    assert {step["source"] for step in said["steps"]} == {"rehearsed"}
    assert said["steps"][3]["observation"] == "count(*)\n0\n(1 row)\n"
    assert sorted(os.listdir(work)) == ["notes.txt", "shop.db"]
    session = said["session"]
    shown = lwm("diff", session)
    assert "+++ b/new.txt" in shown.stdout
    assert "-a note" in shown.stdout
    assert shown.stdout.endswith("1 file added, 1 deleted\n")
    assert document(lwm("diff", session, "--json"))["summary"] == "1 file added, 1 deleted"
    refused = lwm("commit", session, "--yes")
    assert refused.returncode == 2
    assert "--allow destroy" in refused.stderr
    assert "--yes" in lwm("commit", session).stderr
    assert sorted(os.listdir(work)) == ["notes.txt", "shop.db"]
    committed = lwm("commit", session, "--yes", "--allow", "destroy")
    assert committed.returncode == 0, committed.stderr
    assert f"lwm undo {session}" in committed.stdout
    assert sorted(os.listdir(work)) == ["new.txt", "shop.db"]
    again = lwm("commit", session, "--yes", "--allow", "destroy")
    assert again.returncode == 2
    assert "nothing to commit" in again.stderr
    assert lwm("undo", session).returncode == 0
    assert sorted(os.listdir(work)) == ["notes.txt", "shop.db"]
    assert (work / "notes.txt").read_text() == "a note\n"
    assert lwm("discard", session).returncode == 0
    gone = lwm("diff", session)
    assert gone.returncode == 2
    assert "no changes" in gone.stderr


def test_run_gated_asks_nobody_without_a_terminal(lwm: Lwm, plan: Path, server: StubServer) -> None:
    done = lwm("run", plan, "--engine", server.url, "--json")
    assert done.returncode == 1
    sources = [step["source"] for step in document(done)["steps"]]
    # It stopped where it would have had to ask.
    assert sources == (["rehearsed", "unanswered"] if COPIES else ["unanswered"])


def test_run_yes_stops_at_what_cannot_be_undone(lwm: Lwm, plan: Path, server: StubServer) -> None:
    arguments = ("run", plan, "--engine", server.url, "--json", "--yes")
    done = lwm(*arguments)
    sources = [step["source"] for step in document(done)["steps"]]
    read = "rehearsed" if COPIES else "executed"
    assert sources == [read, "executed", "executed", read, "unanswered"]
    assert done.returncode == 1
    work = plan.parent / "work"
    assert (work / "notes.txt").exists()
    done = lwm(*arguments, "--allow", "destroy")
    assert done.returncode == 0, done.stderr
    assert not (work / "notes.txt").exists()
    assert lwm("run", plan, "--allow", "destroy").returncode == 2
    assert lwm("run", plan, "--yes", "--allow", "everything").returncode == 2


def test_compare_shows_what_differed(lwm: Lwm, plan: Path, server: StubServer) -> None:
    done = lwm("run", plan, "--mode", "compare", "--engine", server.url)
    assert done.returncode == 0, done.stderr
    assert "EXECUTED" in done.stdout
    assert "-hm" in done.stdout
    assert "+a note" in done.stdout
    assert "fidelity" in done.stdout


def test_approval_at_a_terminal(lwm: Lwm, plan: Path, server: StubServer, tmp_path: Path) -> None:
    """A person at a pseudo-terminal says y once and n once."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "LWM_STORE": str(tmp_path / "tty.db"), "LWM_CONFIG": os.devnull}
    process = subprocess.Popen(
        [*LWM, "run", str(plan), "--engine", server.url, "--json"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    seen, answers = b"", [b"y\n", b"n\n"]
    asked = 0
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
            if seen.count(b"[y/N]") > asked and answers:
                asked += 1
                os.write(ours, answers.pop(0))
    except OSError:
        pass  # the other end is closed: it is done
    finally:
        os.close(ours)
    assert process.stdout is not None
    with process, process.stdout:
        said = json.loads(process.stdout.read())
    sources = [step["source"] for step in said["steps"]]
    if COPIES:  # what only reads is not asked for
        assert sources == ["rehearsed", "executed", "executed", "rehearsed", "unanswered"]
        assert b"what would change" in seen
    else:
        assert sources == ["executed", "unanswered"]
    assert b"new.txt" in seen
    assert b"expected outcome" in seen


def test_a_failed_step_is_a_failure_wherever_it_stands(lwm: Lwm, tmp_path: Path) -> None:
    path = tmp_path / "fails.json"
    path.write_text(
        json.dumps(
            {"steps": [{"tool": "shell", "arguments": {"command": f"exit {n}"}} for n in (0, 3)]}
        )
    )
    assert lwm("run", path, "--mode", "live").returncode == 1
    assert lwm("run", path, "--mode", "live", "--keep-going").returncode == 1


def test_nothing_that_is_shown_is_taken_for_markup(lwm: Lwm, tmp_path: Path) -> None:
    command = "echo '[/tmp] [red]x :100: [/q]'"
    path = tmp_path / "markup:100:.json"
    step = {"tool": "shell", "arguments": {"command": command}}
    path.write_text(json.dumps({"task": "clean [/tmp/x] :100:", "steps": [step]}))
    ran = lwm("run", path, "--mode", "live")
    assert ran.returncode == 0, ran.stderr
    assert "[/tmp] [red]x :100: [/q]" in ran.stdout
    assert "clean [/tmp/x] :100:" in lwm("sessions").stdout
    assert ":100:" in lwm("search", "red").stdout
    assert lwm("doctor", "--store", tmp_path / "l[/a].db").returncode == 0


def test_ctrl_c_says_what_was_done(lwm: Lwm, tmp_path: Path) -> None:
    path = tmp_path / "slow.json"
    steps = [
        {"tool": "shell", "arguments": {"command": c}} for c in ("echo one", "touch x; sleep 50")
    ]
    path.write_text(json.dumps({"steps": steps}))
    environment = {**os.environ, "LWM_STORE": str(tmp_path / "log.db"), "LWM_CONFIG": os.devnull}
    process = subprocess.Popen(
        [*LWM, "run", str(path), "--mode", "live", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        # Tests that run in the background are born with Ctrl-C ignored, and so would this be.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    with process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "x").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    said = json.loads(stdout)
    assert [step["observation"] for step in said["steps"]] == ["one\n"]
    assert "step 2" in said["error"]
    assert "Traceback" not in stderr
    shown = document(lwm("show", said["session"], "--json"))
    assert [started["step"] for started in shown["in_doubt"]] == [2]


def test_output_that_cannot_be_written_is_one_line(lwm: Lwm, plan: Path) -> None:
    log = str(plan.parent / "x.db")
    for arguments in (("sessions",), ("sessions", "--json"), ("run", str(plan), "--mode", "live")):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*LWM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                env={**os.environ, "LWM_CONFIG": os.devnull, "LWM_STORE": log},
            )  # fmt: skip
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
    assert lwm("run", plan, "--mode", "live", PYTHONIOENCODING="ascii").returncode == 0


def test_infinity_is_still_json(lwm: Lwm, tmp_path: Path) -> None:
    path = tmp_path / "infinite.json"
    path.write_text(
        '{"steps": [{"tool": "shell", "arguments": {"command": "ls", "timeout": 1e999}}]}'
    )

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    said = json.loads(lwm("dry-run", path, "--json").stdout, parse_constant=refuse)
    assert said["steps"][0]["arguments"]["timeout"] == "inf"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"steps": [\n {"tool": "shell", "arguments": {"command": 7}}, ]}', "line 2"),
        ('{"steps": [\n{"tool": "shell"},\n{"tol": "shell"}]}', "tol"),
        ('{"steps": []}', "steps"),
        ("not json", "line 1"),
        ('{"root": "no/such", "steps": [{"tool": "shell"}]}', "root"),
    ],
)
def test_a_wrong_plan_is_misuse(lwm: Lwm, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    done = lwm("dry-run", path, "--json")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert said in document(done)["error"]
    assert "no/such.json" in lwm("dry-run", "no/such.json").stderr


def test_an_unreachable_engine_says_where_and_how_to_start_one(lwm: Lwm, plan: Path) -> None:
    done = lwm("dry-run", plan, "--engine", "http://127.0.0.1:9/v1", "--json", "--no-rehearsal")
    assert done.returncode == 1
    assert "http://127.0.0.1:9" in done.stderr
    assert "vllm serve" in done.stderr
    assert document(done)["error"] is not None
    assert "Traceback" not in done.stderr


def test_the_log_from_end_to_end(lwm: Lwm, plan: Path, server: StubServer, tmp_path: Path) -> None:
    assert "no log at" in lwm("sessions").stderr  # and none is made by looking
    session = document(lwm("run", plan, "--mode", "live", "--json"))["session"]
    listed = document(lwm("sessions", "--json"))
    assert [s["id"] for s in listed["sessions"]] == [session]
    assert listed["in_doubt"] == []
    assert session in lwm("sessions").stdout
    assert document(lwm("search", "notes", "--json"))["hits"]
    assert "nothing found" in lwm("search", 'AND "OR ( zzz').stdout
    again = document(lwm("replay", session, "--engine", server.url, "--json"))
    assert again["steps"][0]["happened"] == "a note\n"
    assert again["steps"][0]["predicted"].strip() == "hm"
    assert lwm("replay", session).returncode == 2  # no engine
    exported = tmp_path / "out.jsonl.gz"
    assert lwm("export", exported).returncode == 0
    assert lwm("export").stdout.count("\n") == 1
    imported = document(lwm("import", exported, "--json", LWM_STORE=str(tmp_path / "other.db")))
    assert imported["sessions"] == 1
    assert lwm("show", "no-such-session").returncode == 2
    assert lwm("sessions", "delete", session).returncode == 2  # nobody to ask
    assert lwm("sessions", "delete", session, "--yes").returncode == 0
    assert "empty" in lwm("sessions").stdout


def test_broken_lines_are_named(lwm: Lwm, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(SAMPLE.read_text().splitlines()[0] + "\n{broken\n")
    done = lwm("import", path, "--json")
    assert done.returncode == 1
    assert document(done)["sessions"] == 1
    assert "broken.jsonl:2" in done.stderr


def test_fidelity(lwm: Lwm, server: StubServer) -> None:
    done = lwm("fidelity", SAMPLE, "--engine", server.url, "--limit", 3, "--json")
    assert done.returncode == 0, done.stderr
    (score,) = document(done)["datasets"].values()
    assert score["n"] == 3
    assert set(score) >= {
        "n", "exact", "error_agreement", "similarity", "fidelity", "unanswered",
        "seconds_per_step",
    }  # fmt: skip
    table = lwm("fidelity", SAMPLE, "--engine", server.url, "--limit", 3)
    assert "intercode-bash" in table.stdout
    assert lwm("fidelity", SAMPLE).returncode == 2
    assert lwm("fidelity", "no.jsonl", "--engine", server.url).returncode == 2


def test_fidelity_without_a_model(lwm: Lwm, tmp_path: Path) -> None:
    for world in ("nearest", "recall"):
        done = lwm("fidelity", SAMPLE, "--world", world, "--json")
        assert done.returncode == 0, done.stderr
        said = document(done)
        assert (said["world"], said["engine"]) == (world, None)
        (score,) = said["datasets"].values()
        assert score["n"] > 3
        assert set(score["sources"]) <= {"imagined", "recalled", "unanswered"}
    split = document(
        lwm("fidelity", SAMPLE, "--world", "nearest", "--split-examples", "--limit", 1, "--json")
    )
    assert split["examples"]["left_out"] >= 1


def test_fidelity_goes_on_where_it_was_killed(lwm: Lwm, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    whole = document(lwm("fidelity", SAMPLE, "--world", "nearest", "--out", rows, "--json"))
    lines = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    again = document(lwm("fidelity", SAMPLE, "--world", "nearest", "--resume", rows, "--json"))
    assert len(rows.read_bytes().splitlines()) == len(lines)
    for one, other in zip(whole["datasets"].values(), again["datasets"].values(), strict=True):
        assert (one["n"], one["exact"], one["tools"]) == (
            other["n"], other["exact"], other["tools"],
        )  # fmt: skip
    first = json.loads(lines[0])
    assert set(first) >= {
        "dataset", "id", "step", "tool", "predicted", "happened", "source", "confidence",
        "signals", "fidelity",
    }  # fmt: skip
    other_world = lwm("fidelity", SAMPLE, "--world", "recall", "--resume", rows)
    assert other_world.returncode == 2
    assert "another run" in other_world.stderr
    assert lwm("fidelity", SAMPLE, "--resume", rows, "--out", rows).returncode == 2
    assert lwm("fidelity", SAMPLE, "--world", "recall", "--resume", SAMPLE).returncode == 2


def test_doctor_and_models(lwm: Lwm, tmp_path: Path, server: StubServer) -> None:
    found = {f["what"]: f for f in document(lwm("doctor", "--json"))["findings"]}
    assert found["engine"]["state"] == "missing"
    assert "lwm model pull" in found["engine"]["fix"]
    assert found["log"]["state"] == "ok"
    assert lwm("doctor", "--engine", server.url).returncode == 0
    broken = lwm("doctor", "--engine", "http://127.0.0.1:9/v1", "--json")
    assert broken.returncode == 1
    (tmp_path / "log.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    broken = lwm("doctor", "--json")
    assert broken.returncode == 1
    states = {f["what"]: f["state"] for f in document(broken)["findings"]}
    assert states["log"] == "broken"
    listed = lwm("model", "list", "--json", XDG_DATA_HOME=str(tmp_path / "data"))
    assert document(listed) == {"models": []}


def test_demo_without_a_model_still_runs(lwm: Lwm) -> None:
    said = document(lwm("demo", "--json"))
    assert said["unchanged"] is True
    assert {step["source"] for step in said["compare"]["steps"]} == {"executed"}
    if COPIES:
        assert said["dry-run"]["unanswered"] == 0
        assert {step["fidelity"] for step in said["compare"]["steps"]} == {1.0}
        changed = {one["path"]: one["kind"] for one in said["changes"]["inside"]}
        assert changed == {
            "todo.txt": "added",
            "shop.db": "modified",
            "build": "deleted",
            "build/app.o": "deleted",
        }


def test_help_and_version(lwm: Lwm) -> None:
    assert lwm("--version").stdout.startswith("lwm-agents ")
    for command in ("dry-run", "run", "sessions", "show", "replay", "fidelity", "doctor", "demo"):
        assert lwm(command, "--help").returncode == 0
    assert lwm("no-such-command").returncode == 2
