"""Computed answers against what the real tools answer, and where nothing must be computed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_tools import Scratch, call

from lwm_agents.prompts.computed import computed, repeated
from lwm_agents.values import Action, Observation, ToolSpec, Trajectory, Transition

MADE = "sql CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL)"
ROWS = "sql INSERT INTO item (name, price) VALUES ('pen', 1.5), ('cup', 4), ('ink', NULL)"

SURE = {
    # name: (history, action)
    "read a file written earlier": (["write a.txt one\ntwo\n"], "read a.txt"),
    "read an empty file": (["write a.txt "], "read a.txt"),
    "read after an edit": (["write a.txt one two", "edit a.txt two 2"], "read a.txt"),
    "read by another spelling": (["write d/a.txt x"], "read ./d//a.txt"),
    "read after a move": (["write a.txt x", "move a.txt d/b.txt"], "read d/b.txt"),
    "read what was moved away": (["write a.txt x", "move a.txt b.txt"], "read a.txt"),
    "read a deleted file": (["write a.txt x", "delete a.txt"], "read a.txt"),
    "read a file read before": (["$ printf 'a\\nb\\n' > a.txt", "read a.txt"], "read a.txt"),
    "read a directory": (["write d/a.txt x"], "read d"),
    "read beside known entries": (["write d/a.txt x", "list d"], "read d/b.txt"),
    "read what was missing": (["read gone.txt"], "read gone.txt"),
    "read what a here-document wrote": (["write d/x y", "$ cat > d/f <<'E'\na $b\nE"], "read d/f"),
    "read what echo wrote": (["$ echo hi > a.txt", "$ echo ho >> a.txt"], "read a.txt"),
    "read a touched file": (["list .", "$ touch n.txt"], "read n.txt"),
    "read a copy": (["list .", "write a.txt x", "$ cp a.txt b.txt"], "read b.txt"),
    "write over a file": (["write a.txt x"], "write a.txt grüße\n"),
    "write beside a written file": (["write d/a.txt x", "list d"], "write d/b.txt yz"),
    "write onto a directory": (["write d/a.txt x"], "write d x"),
    "edit": (["write a.txt one two"], "edit a.txt one 1"),
    "edit text that is not there": (["write a.txt one two"], "edit a.txt three 3"),
    "edit text that is there twice": (["write a.txt one one"], "edit a.txt one 1"),
    "edit a deleted file": (["write a.txt x", "delete a.txt"], "edit a.txt x y"),
    "list a new directory": (["list .", "write d/b x", "write d/a x", "$ mkdir d/c"], "list d"),
    "list an empty directory": (["$ mkdir d", "list d"], "list d"),
    "list after a deletion": (["write d/a x", "write d/b x", "list d", "delete d/a"], "list d"),
    "list a removed directory": (["$ mkdir d", "$ rm -r d"], "list d"),
    "list a file": (["write a.txt x"], "list a.txt"),
    "move onto something": (["write a x", "write b y"], "move a b"),
    "move what is gone": (["write a x", "delete a"], "move a b"),
    "move to a free name": (["list .", "write a x"], "move a b"),
    "delete a written file": (["write d/a x"], "delete d/a"),
    "delete twice": (["write a x", "delete a"], "delete a"),
    "delete a full directory": (["write b y", "write d/a x"], "delete d"),
    "search below a new directory": (
        ["list .", "write d/a.py x", "write d/e/b.py x", "write d/c.txt x"],
        "search d *.py",
    ),
    "search in vain": (["list .", "write d/a.py x"], "search d *.md"),
    "path outside the root": ([], "read ../a"),
    "cat": (["write a.txt one\ntwo\n"], "$ cat a.txt"),
    "cat two": (["write a x\n", "write b y\n"], "$ cat a b"),
    "head": (["write a 1\n2\n3\n4\n"], "$ head -n 2 a"),
    "tail in a pipe": (["write a 1\n2\n3\n4\n"], "$ cat a | tail -n 1"),
    "count lines": (["write a 1\n2\n3"], "$ wc -l a"),
    "count bytes": (["write a grüße"], "$ cat a | wc -c"),
    "count words": (["write a one two\nthree\n"], "$ cat a | wc -w"),
    "ls": (["list .", "write d/b.txt x", "write d/a.txt x"], "$ ls d"),
    "count entries": (["list .", "write d/b x", "write d/a x"], "$ ls d | wc -l"),
    "pwd at the start": (["$ true"], "$ pwd"),
    "pwd after cd": (["$ mkdir d && cd d"], "$ pwd"),
    "cat below the working directory": (["write d/a x\n", "$ cd d"], "$ cat a"),
    "up and out": (["write d/e/a x\n", "$ cd d/e", "$ cd .."], "$ cat e/a"),
    "echo": ([], "$ echo 'a  b' c"),
    "output that goes to the last file": (["write d/a x", "$ echo q > d/x > d/y"], "read d/x"),
    "what a forced removal does not make": (["list .", "$ rm -rf e/f/g"], "list e"),
    "a directory with a slash at its end": (["list .", "write d/b x"], "$ ls d/"),
    "a pipe into a new file": (["write d/a x\n", "list d"], "$ cat d/a | wc -l > d/n"),
    "grep": (["write a red 1\nblue 2\nred 3\n"], "$ grep red a"),
    "grep in vain": (["write a x\n"], "$ grep red a"),
    "count matches": (["write a red 1\nblue 2\nred 3\n"], "$ grep -c red a"),
    "test of a deleted file": (["write a x", "$ rm a"], "$ [ -f a ] && echo yes || echo no"),
    "mkdir, then list": (["list .", "write d/a x"], "$ mkdir d/e && ls d"),
    "write and count at once": (["write d/a x"], "$ echo hello > d/a && wc -c d/a"),
    "select all": ([MADE, ROWS], "query SELECT * FROM item"),
    "count rows": ([MADE, ROWS], "query SELECT count(*) FROM item"),
    "sum and average": ([MADE, ROWS], "query SELECT sum(price), avg(price) FROM item"),
    "order and limit": ([MADE, ROWS], "query SELECT name FROM item ORDER BY name DESC LIMIT 2"),
    "group": ([MADE, ROWS], "query SELECT price IS NULL AS x, count(*) FROM item GROUP BY 1"),
    "after an update": (
        [MADE, ROWS, "sql UPDATE item SET price = price * 2"],
        "query SELECT * FROM item WHERE price > 3",
    ),
    "rows an update changes": ([MADE, ROWS], "sql UPDATE item SET price = 0 WHERE id < 3"),
    "rows a delete takes": ([MADE, ROWS], "sql DELETE FROM item WHERE price IS NULL"),
    "key of an insert": ([MADE, ROWS], "sql INSERT INTO item (name) VALUES ('jar')"),
    "a column that is not there": ([MADE, ROWS], "query SELECT colour FROM item"),
    "a key used twice": ([MADE, ROWS], "sql INSERT INTO item (id) VALUES (1)"),
    "a table made twice": ([MADE], MADE),
    "a dropped table": ([MADE, "sql DROP TABLE item"], "query SELECT * FROM item"),
    "a mistyped statement": ([MADE], "query SELECT FROM WHERE"),
    "a write through the reading tool": ([MADE], "query DELETE FROM item"),
}


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    """Scratch."""
    place = Scratch(tmp_path)
    yield place
    place.close()


@pytest.mark.parametrize("name", SURE)
async def test_follows_from_the_history(name: str, scratch: Scratch) -> None:
    history, action = SURE[name]
    for step in history:
        tool, arguments = call(step)
        await scratch.run(tool, **arguments)
    tool, arguments = call(action)
    answer = computed(scratch.trajectory, Action(tool=tool, arguments=arguments))
    happened = await scratch.run(tool, **arguments)
    assert answer is not None
    assert (answer.text, answer.is_error) == (happened.text, happened.is_error)
    assert answer.structured == happened.structured or "cwd" not in (answer.structured or {})
    assert answer.source == "imagined"
    assert answer.confidence == pytest.approx(0.99)


def test_there_are_at_least_twenty_named_cases() -> None:
    assert len(SURE) >= 20


UNSURE = {
    "a file never seen": ([], "read a.txt"),
    "a directory never listed": (["write d/a x"], "list ."),
    "a listing of a directory that was there": (["$ mkdir -p d"], "list d"),
    "after a program of unknown effect": (["write a x", "$ make"], "read a"),
    "after a script": (["write a x", "$ python3 x.py"], "$ cat a"),
    "after a variable": (["write a x", "$ rm $F"], "read a"),
    "after a glob": (["write a x", "$ rm *"], "read a"),
    "after a loop": (["write a x", "$ for f in a b; do rm $f; done"], "read a"),
    "after a background job": (["write a x", "$ sleep 9 && rm a &"], "read a"),
    "after a failed chain": (["write a x", "$ false && rm a; rm nothing"], "read nothing"),
    "after sed -i": (["write a x", "$ sed -i s/x/y/ a"], "read a"),
    "a pipe into tee": (["write a x", "$ echo y | tee a"], "read a"),
    "after eval": (["write a x", "$ eval 'rm a'"], "read a"),
    "after chmod": (["write a x", "$ chmod 000 a"], "read a"),
    "through a link": (["write d/a x", "$ ln -s d e"], "read e/a"),
    "a directory that was touched": (["$ touch d"], "list d"),
    "where a touched link leads": (["$ ln -s d e", "list .", "$ touch e"], "read d"),
    "under a forced removal": (["$ rm -rf d/e"], "write d/e x"),
    "a listing that a database joined": (["list .", MADE], "list ."),
    "the date": ([], "$ date"),
    "an ls that sorts by locale": (["list .", "write d/B x", "write d/a x"], "$ ls d"),
    "a long listing": (["list .", "write d/a x"], "$ ls -l d"),
    "a regular expression": (["write a x.y\n"], "$ grep 'x.*' a"),
    "control characters on a terminal": (["write a one\rtwo\n"], "$ cat a"),
    "echo that interprets": ([], "$ echo -e 'a\\tb'"),
    "a variable": ([], "$ echo $HOME"),
    "an error message of the machine's language": (["write a x", "delete a"], "$ cat a"),
    "a table that was there": (["query SELECT 1"], "query SELECT * FROM item"),
    "a table perhaps made before": (
        ["sql CREATE TABLE IF NOT EXISTS item (id INTEGER)"],
        "query SELECT count(*) FROM item",
    ),
    "rows from a table that was there": (
        [MADE, "sql INSERT INTO item (name) SELECT name FROM old"],
        "query SELECT count(*) FROM old",
    ),
    "a random number": ([MADE, ROWS], "query SELECT random() FROM item"),
    "the time": ([MADE], "query SELECT date('now')"),
    "the schema table": ([MADE], "query SELECT name FROM sqlite_master"),
    "after a program that may write the database": (
        [MADE, ROWS, "$ ./x"],
        "query SELECT * FROM item",
    ),
    "digits of another script": (["write a x\n"], "$ head -n ٣ a"),
    "a digit that is no number": ([], "$ printf 'a\\n' | head -n ²"),
    "a number without end": (["write a x\n"], f"$ head -n {'9' * 5000} a"),
    "a chain of a thousand": ([], "$ " + "true && " * 1200 + "true"),
    "a path of a thousand directories": ([], "$ [ -e " + "a/" * 1000 + "b ]"),
    "output that doubles": (
        ["write d/a xy"],
        "$ " + "cat d/a d/a > d/b; cat d/b d/b > d/a; " * 40 + "true",
    ),
    "a removal named twice": (["write d/a x"], "$ rm d/a d/a"),
    "a removal of what is inside": (["list .", "write d/e/a x"], "$ rm -r d/e d/e/a"),
    "a removal of where the shell is": (["$ mkdir d", "$ cd d"], "$ rm -rf ."),
    "a removal of what is above": (["$ mkdir d", "$ cd d"], "$ rm -rf .."),
    "a directory removed from within": (["$ mkdir d", "$ cd d", "$ rm -rf ../d"], "$ pwd"),
    "a file emptied before it is read": (["write d/a hi\n"], "$ cat d/a > d/a"),
    "what is left of it": (["write d/a hi\n", "$ cat d/a > d/a"], "$ cat d/a"),
    "a file that grows while it is read": (["write d/a hi\n"], "$ cat d/a >> d/a"),
    "a pipe that reads what it empties": (["write d/a hi\n"], "$ cat d/a | head > d/a"),
    "a listing that counts its own output": (["list .", "write d/a x"], "$ ls d | wc -l > d/n"),
    "a file with a slash": (["write d/a x\n"], "$ cat d/a/"),
    "a test of a file with a slash": (["write d/a x\n"], "$ test -f d/a/"),
    "a listing of a file with a slash": (["write d/a x\n"], "$ ls d/a/"),
    "a touch of a file with a slash": (["write d/a x\n"], "$ touch d/a/"),
    "a move to a name with a slash": (["list .", "write d/a x\n"], "$ mv d/a d/b/"),
    "a file with a slash and a dot": (["write d/a x\n"], "$ cat d/a/."),
    **{
        f"the control character {ord(sign)}": ([], f"$ echo 'a{sign}b'")
        for sign in "\r\x1b\x08\x0b\x0c\x1c\x85\x9b"
    },
    "words parted by a control character": ([], "$ echo 'a\x1fb' | wc -w"),
    "a lone surrogate": ([], "$ echo \ud800"),
    "a database before it was seen": ([], "query SELECT 1"),
}


@pytest.mark.parametrize("name", UNSURE)
async def test_is_not_computed(name: str, scratch: Scratch) -> None:
    history, action = UNSURE[name]
    for step in history:
        tool, arguments = call(step)
        await scratch.run(tool, **arguments)
    tool, arguments = call(action)
    assert computed(scratch.trajectory, Action(tool=tool, arguments=arguments)) is None


PATHS = ["a", "b.txt", "d", "d/a", "d/e/c", "./d/../a", "e"]
STATEMENTS = [
    "CREATE TABLE t (a, b)",
    "CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)",
    "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
    "INSERT INTO t (b) VALUES ('z')",
    "INSERT INTO t SELECT a + 10, b || a FROM t",
    "UPDATE t SET b = a || 'q' WHERE a > 1",
    "DELETE FROM t WHERE a = 2",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS u",
    "ALTER TABLE t RENAME TO u",
    "CREATE TABLE u AS SELECT * FROM t",
    "CREATE INDEX i ON t (b)",
    "INSERT INTO t VALUES (random(), 'r')",
]
QUERIES = [
    "SELECT * FROM t",
    "SELECT count(*), sum(a) FROM t",
    "SELECT b FROM u ORDER BY b DESC LIMIT 1",
    "SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT nothing FROM t",
]
COMMANDS = [
    "cat {}", "rm {}", "rm -rf {}", "mkdir {}", "mkdir -p {}", "touch {}", "ls {}", "wc -l {}",
    "echo hi > {}", "echo ho >> {}", "cd {}", "cd ..", "pwd", "mv {} {}", "cp {} {}", "rmdir {}",
    "cat {} | head -n 1", "[ -d {} ] && echo yes || echo no", "mkdir {} && echo x > {}",
    "sort -o {} {}", "ln -s {} {}", "rm {}; ls", "echo a > {}; cat {}", "grep -c h {}", "ls -A {}",
    "cat {} > {}", "false || touch {}", "tail -1 {} 2>/dev/null", "cat > {} <<'E'\nq\nE",
    "(cd {} && ls)", "mv {} {} 2>&1", "cp -r {} {}",
]  # fmt: skip


def _random_step(draw: random.Random) -> str:
    path, other = draw.choice(PATHS), draw.choice(PATHS)
    kind = draw.random()
    if kind < 0.5:
        return "$ " + draw.choice(COMMANDS).format(path, other)
    if kind < 0.6:
        return "sql " + draw.choice(STATEMENTS)
    if kind < 0.7:
        return "query " + draw.choice(QUERIES)
    return draw.choice(
        [
            f"read {path}", f"write {path} one\ntwo\n", f"edit {path} one 1", f"delete {path}",
            f"list {path}", "list .", f"move {path} {other}", f"search {path} *a*",
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
async def test_whatever_is_computed_is_what_happens(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    answered = 0
    for episode in range(4):
        root = tmp_path / str(episode)
        root.mkdir()
        scratch = Scratch(root)
        # What was there before the session, and is not in its log.
        (root / "d").mkdir()
        (root / "d" / "a").write_text("before\n")
        if draw.random() < 0.3:
            (root / "e").symlink_to("d")
            await scratch.run("list_directory", path=".")  # a link is known once it was shown
        for _ in range(25):
            tool, arguments = call(_random_step(draw))
            if arguments.get("source") == arguments.get("destination") and tool == "move_file":
                continue
            action = Action(tool=tool, arguments=arguments)
            answer = computed(scratch.trajectory, action)
            again = repeated(scratch.trajectory, action)
            happened = await scratch.run(tool, **arguments)
            past = [t.action for t in scratch.trajectory.transitions]
            if answer is not None:
                answered += 1
                assert (answer.text, answer.is_error) == (happened.text, happened.is_error), past
            if again is not None and again.confidence == 0.99:
                assert again.text == happened.text, past
        scratch.close()
    assert answered >= 2


def _history(*steps: tuple[str, str, str], tools: tuple[ToolSpec, ...] = ()) -> Trajectory:
    return Trajectory(
        session="s",
        tools=tools,
        transitions=tuple(
            Transition(
                session="s",
                step=number,
                action=Action(tool=tool, arguments={"command": argument}),
                observation=Observation(text=text, source="executed"),
            )
            for number, (tool, argument, text) in enumerate(steps, 1)
        ),
    )


def _bash(command: str) -> Action:
    return Action(tool="bash", arguments={"command": command})


def test_a_repeated_read_is_pinned() -> None:
    past = _history(("bash", "find /x", "/x\n"), ("bash", "ls /y", "z\n"))
    again = repeated(past, _bash("find /x"))
    assert again is not None
    assert (again.text, again.source) == ("/x\n", "imagined")


@pytest.mark.parametrize(
    "between", ["rm /x", "make", "cd /y", "echo hi > /x/f", "sed -i s/a/b/ f", "find /x -delete"]
)
def test_a_write_in_between_unpins(between: str) -> None:
    past = _history(("bash", "ls", "a\n"), ("bash", between, ""))
    assert repeated(past, _bash("ls")) is None


def test_a_read_elsewhere_is_not_pinned_whatever_the_gate_calls_the_move() -> None:
    past = _history(("bash", "ls", "a\n"), ("bash", "cd sub", ""))
    moved = past.transitions[1].model_copy(update={"effect": "read"})
    past = past.model_copy(update={"transitions": (past.transitions[0], moved)})
    assert repeated(past, _bash("ls")) is None


def test_what_a_read_answered_before_the_last_write_is_not_pinned() -> None:
    past = _history(("bash", "ls", "a\n"), ("bash", "touch b", ""), ("bash", "ls", "a\nb\n"))
    again = repeated(past, _bash("ls"))
    assert again is not None
    assert again.text == "a\nb\n"


def test_a_write_is_pinned_only_once_it_has_settled() -> None:
    once = _history(("bash", "mkdir /x", ""))
    assert repeated(once, _bash("mkdir /x")) is None
    twice = _history(("bash", "mkdir /x", "exists\n"), ("bash", "mkdir /x", "exists\n"))
    again = repeated(twice, _bash("mkdir /x"))
    assert again is not None
    assert again.text == "exists\n"


@pytest.mark.parametrize("command", ["date", "ps aux", "head -c 4 /dev/urandom", "echo $RANDOM"])
def test_what_changes_by_itself_is_not_pinned(command: str) -> None:
    assert repeated(_history(("bash", command, "x\n")), _bash(command)) is None


def test_a_repeated_imagined_read_is_no_surer() -> None:
    past = _history(("bash", "ls", "a\n"))
    first = past.transitions[0]
    seen = first.observation.model_copy(update={"source": "imagined", "confidence": 0.3})
    past = past.model_copy(
        update={"transitions": (first.model_copy(update={"observation": seen}),)}
    )
    again = repeated(past, _bash("ls"))
    assert again is not None
    assert again.confidence == pytest.approx(0.3)


def test_unanswered_steps_are_no_answer_to_repeat() -> None:
    past = _history(("bash", "ls", "unanswered"))
    first = past.transitions[0]
    seen = first.observation.model_copy(update={"source": "unanswered"})
    past = past.model_copy(
        update={"transitions": (first.model_copy(update={"observation": seen}),)}
    )
    assert repeated(past, _bash("ls")) is None


def test_the_form_of_other_peoples_tools_is_not_presumed() -> None:
    other = ToolSpec(name="read_file", description="theirs", domain="files")
    written = Transition(
        session="s",
        step=1,
        action=Action(tool="write_file", arguments={"path": "a", "content": "x"}),
        observation=Observation(text="ok", source="executed"),
    )
    past = Trajectory(session="s", tools=(other,), transitions=(written,))
    assert computed(past, Action(tool="read_file", arguments={"path": "a"})) is None


def test_another_shell_may_have_quirks() -> None:
    # A recorded one prints `If` for `echo "If you need more"`.
    assert computed(_history(), _bash("echo a b")) is None


def test_a_refused_call_in_between_leaves_a_read_pinned() -> None:
    read = Action(tool="get_user", arguments={"id": 1})
    refused = Action(tool="update_user", arguments={"id": 1})
    past = Trajectory(
        session="s",
        transitions=(
            Transition(
                session="s",
                step=1,
                action=read,
                observation=Observation(text="u", source="executed"),
            ),
            Transition(
                session="s",
                step=2,
                action=refused,
                observation=Observation(text="Error: no", source="executed", is_error=True),
            ),
        ),
    )
    again = repeated(past, read)
    assert again is not None
    assert again.text == "u"
    changed = past.transitions[1].model_copy(
        update={"observation": Observation(text="ok", source="executed")}
    )
    past = past.model_copy(update={"transitions": (past.transitions[0], changed)})
    assert repeated(past, read) is None
