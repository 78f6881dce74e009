from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_tools import Scratch, call

from lwm_agents.prompts.bash import literal, only_reads
from lwm_agents.prompts.computed import computed
from lwm_agents.prompts.reads import is_read
from lwm_agents.prompts.state import arithmetic, known_state
from lwm_agents.values import Action, Json, Observation, ToolSpec, Trajectory, Transition

MYSQL = ToolSpec(name="execute_sql", domain="database")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    """Scratch."""
    place = Scratch(tmp_path)
    yield place
    place.close()


async def told(scratch: Scratch, steps: list[str], action: str, characters: int = 5000) -> str:
    for step in steps:
        tool, arguments = call(step)
        await scratch.run(tool, **arguments)
    tool, arguments = call(action)
    state = known_state(scratch.trajectory)
    spec = scratch.trajectory.tool(tool)
    return state.render(Action(tool=tool, arguments=arguments), spec, characters)


def recorded(
    *steps: tuple[str, dict[str, Json], str], tools: tuple[ToolSpec, ...] = ()
) -> Trajectory:
    return Trajectory(
        session="r",
        tools=tools,
        transitions=tuple(
            Transition(
                session="r",
                step=number,
                action=Action(tool=tool, arguments=arguments),
                observation=Observation(
                    text=text, source="executed", is_error=text.startswith("Error")
                ),
            )
            for number, (tool, arguments, text) in enumerate(steps, 1)
        ),
    )


def about(past: Trajectory, tool: str, **arguments: Json) -> str:
    action = Action(tool=tool, arguments=arguments)
    return known_state(past).render(action, past.tool(tool), 5000)


async def test_files_named_by_the_action_show_their_content(scratch: Scratch) -> None:
    text = await told(scratch, ["write a.txt one\n", "write b.txt two\n"], "$ ./run a.txt")
    assert "File a.txt: 4 bytes, 1 lines, content:\none\n" in text
    assert "File b.txt: 4 bytes, 1 lines" in text
    assert "two" not in text


async def test_what_bears_on_the_action_comes_first(scratch: Scratch) -> None:
    text = await told(scratch, ["write a.txt one\n", "write b.txt two\n"], "$ ./run a.txt", 60)
    assert text.startswith("File a.txt")
    assert "b.txt" not in text
    assert len(text) <= 60


async def test_directories_deletions_and_the_working_directory(scratch: Scratch) -> None:
    steps = ["list .", "write d/b x", "$ mkdir d/a", "write gone y", "delete gone", "$ cd d"]
    text = await told(scratch, steps, "$ ./x")
    assert f"Working directory: {scratch.place.root}/d" in text
    assert "Directory d, all entries: a/ b" in text
    assert "Does not exist: gone" in text


async def test_tables_with_their_counts_and_rows(scratch: Scratch) -> None:
    steps = ["sql CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)",
             "sql INSERT INTO item (name) VALUES ('pen'), ('cup')"]  # fmt: skip
    text = await told(scratch, steps, "query SELECT name FROM item, other")
    assert "Table item: 2 rows, columns id, name" in text
    assert "1 | pen\n2 | cup" in text


async def test_a_step_of_unknown_effect_forgets_what_it_may_have_changed(scratch: Scratch) -> None:
    text = await told(scratch, ["write a.txt one\n", "$ python3 -c pass"], "$ ./run a.txt")
    assert "one" not in text


async def test_a_tool_of_unknown_effect_forgets_too(scratch: Scratch) -> None:
    await scratch.run("write_file", path="a.txt", content="one\n")
    other = Transition(
        session="s",
        step=2,
        action=Action(tool="format_code", arguments={"path": "a.txt"}),
        observation=Observation(text="ok", source="executed"),
    )
    past = scratch.trajectory
    past = past.model_copy(update={"transitions": (*past.transitions, other)})
    assert about(past, "shell", command="./run a.txt") == ""


async def test_an_unexpected_answer_forgets(scratch: Scratch) -> None:
    await scratch.run("write_file", path="a.txt", content="one\n")
    (scratch.root / "a.txt").write_text("changed from outside\n")
    text = await told(scratch, ["$ cat a.txt"], "$ ./run a.txt")
    assert "one" not in text


async def test_content_sizes_of_what_is_written_now(scratch: Scratch) -> None:
    assert "The content is 8 bytes, 1 lines" in await told(scratch, [], "write a grüße\n")


def test_unanswered_steps_establish_nothing(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    action = Action(tool="write_file", arguments={"path": "a", "content": "x"})
    seen = Observation(text="unanswered", source="unanswered")
    past = scratch.trajectory.model_copy(
        update={"transitions": (Transition(session="s", step=1, action=action, observation=seen),)}
    )
    assert about(past, "read_file", path="a") == ""
    scratch.close()


RECORD = {"reservation_id": "OI5L9G", "user_id": "sofia_7287", "cabin": "business"}


def test_records_by_the_id_they_go_by() -> None:
    past = recorded(("get_reservation", {"reservation_id": "OI5L9G"}, json.dumps(RECORD)))
    text = about(past, "cancel_reservation", reservation_id="OI5L9G")
    assert f"Record OI5L9G: {json.dumps(RECORD)}" in text
    assert about(past, "cancel_reservation", reservation_id="OTHER1") == ""


def test_a_record_without_its_own_id_goes_by_what_was_asked() -> None:
    past = recorded(("get_user", {"user_id": "sofia_7287"}, '{"name": {"first": "Sofia"}}'))
    assert "Sofia" in about(past, "book", user_id="sofia_7287")


def test_an_update_that_shows_the_record_replaces_it() -> None:
    new = json.dumps(RECORD | {"cabin": "economy"})
    past = recorded(
        ("get_reservation", {"reservation_id": "OI5L9G"}, json.dumps(RECORD)),
        ("update_reservation", {"reservation_id": "OI5L9G", "cabin": "economy"}, new),
    )
    assert f"Record OI5L9G: {new}" in about(past, "get_reservation", reservation_id="OI5L9G")


def test_an_update_that_does_not_show_the_record_makes_it_unknown() -> None:
    past = recorded(
        ("get_user", {"user_id": "sofia_7287"}, '{"credit": 5}'),
        ("send_certificate", {"user_id": "sofia_7287", "amount": 9}, "Sent."),
    )
    assert about(past, "get_user", user_id="sofia_7287") == ""


def test_a_failed_update_leaves_the_record() -> None:
    past = recorded(
        ("get_user", {"user_id": "sofia_7287"}, '{"credit": 5}'),
        ("send_certificate", {"user_id": "sofia_7287"}, "Error: no"),
    )
    assert '"credit": 5' in about(past, "get_user", user_id="sofia_7287")


def test_records_in_a_list() -> None:
    past = recorded(("list_users", {}, '[{"id": 7, "n": "a"}, {"id": 8, "n": "b"}]'))
    assert about(past, "get_user", id=8) == 'Record 8: {"id": 8, "n": "b"}'


def sql(query: str, text: str) -> tuple[str, dict[str, Json], str]:
    return ("execute_sql", {"query": query}, text)


def test_names_a_database_of_another_dialect_showed() -> None:
    past = recorded(
        sql("SHOW TABLES", "[('singer',), ('song',)]"),
        sql(
            "DESC singer",
            "[('id', 'int', 'NO', 'PRI', None, ''), ('name', 'text', '', '')]",
        ),
        sql("SELECT * FROM songs", "Error executing query: Table 'db.songs' doesn't exist"),
        tools=(MYSQL,),
    )
    text = about(past, "execute_sql", query="SELECT age FROM singer")
    assert "Tables: singer, song" in text
    assert "Columns of singer: id, name" in text
    assert "There is no column age in singer" in text
    text = about(
        past, "execute_sql", query="SELECT s.age, o.x FROM song o JOIN singer s ON s.id = o.n"
    )
    assert "There is no column age in singer" in text
    assert "column x" not in text  # nothing is known of the columns of song
    text = about(past, "execute_sql", query="SELECT x FROM songs")
    assert "the error was: Error executing query: Table 'db.songs' doesn't exist" in text
    text = about(past, "execute_sql", query="WITH q AS (SELECT id n FROM singer) SELECT n FROM q")
    assert "There is no" not in text


def test_a_changed_schema_is_forgotten() -> None:
    past = recorded(
        sql("SHOW TABLES", "[('singer',)]"), sql("DROP TABLE singer", "[]"), tools=(MYSQL,)
    )
    assert "singer" not in about(past, "execute_sql", query="SHOW TABLES")


def test_sums_in_arguments_are_worked_out() -> None:
    past = recorded()
    assert about(past, "calculate", expression="(6 - 4) * 2.5") == "(6 - 4) * 2.5 = 5.0"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2", 3), ("2 * (3 + 4)", 14), ("10 / 4", 2.5), ("-3 - 4", -7), ("1-2", -1),
        ("2024-05-01", None), ("5/6/2024", None), ("12", None), ("-5", None), ("1 / 0", None),
        ("555-1234 x", None), ("a + 1", None), ("2 ** 9999", None), ("(1", None), ("", None),
    ],
)  # fmt: skip
def test_arithmetic(text: str, value: float | None) -> None:
    assert arithmetic(text) == value


@given(st.text(st.sampled_from("0123456789+-*/(). "), max_size=400))
def test_arithmetic_never_raises(text: str) -> None:
    arithmetic(text)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la /x", "find . -name '*.py' -exec wc -l {} +", "cat a | sort | uniq -c", "grep -r x",
        "sed -n 1,5p f", "awk '{print $1}' f", "[ -f x ] && echo yes", "ls 2>/dev/null",
        "for f in *; do cat $f; done", "echo hi 2>&1", "find . | xargs grep x",
    ],
)  # fmt: skip
def test_reading_commands(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls > f", "sed -i s/a/b/ f", "find . -delete", "find . -exec rm {} +", "cd /x",
        "awk '{print > \"f\"}' f", "sort -o f f", "xargs rm", "make", "python x.py", "date", "",
        "cat /proc/uptime", "tail -f x", "f() { rm x; }; f", "X=1", "cat x &", "git status",
        "echo $(rm x)", "sed 's/a/b/w out' f", "echo $RANDOM", "cal", "command rm x", "(((",
        "tee f",
    ],
)  # fmt: skip
def test_commands_that_may_do_more(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize("text", ["grüße", "日本 語", "\U0010ffff", "À", "\u00c3\u00a9", "a😀b"])
def test_text_beyond_ascii_is_read_as_it_is(text: str) -> None:
    found = literal(f"echo '{text}' > \"{text}\" <<E\n{text}\nE")
    assert found is not None
    command = found[0].commands[0]
    assert (command.words, command.writes) == (("echo", text), ((text, False),))
    assert command.stdin == f"{text}\n"


@settings(max_examples=300)
@given(st.text(st.sampled_from("aß\U0010ffff '\"\\$`>|&;(){}[]<~*?!#\n=-/."), max_size=30))
def test_odd_commands_never_raise(command: str) -> None:
    literal(command)
    only_reads(command)


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ("SELECT 1", True), ("show tables", True), ("DESC t", True), ("SELECT 'delete me'", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True), ("INSERT INTO t VALUES (1)", False),
        ("Can you name the tables?", True), ("TRUNCATE t", False), ("Please drop t", False),
        ("```sql\nTRUNCATE t```", False), ("WITH a AS (SELECT 1) DELETE FROM t", False),
        ("SELECT NOW()", False),
        ("SELECT 1; DROP TABLE t", False), ("SELECT * FROM t INTO OUTFILE 'x'", False),
    ],
)  # fmt: skip
def test_reading_statements(query: str, reads: bool) -> None:
    assert is_read(Action(tool="execute_sql", arguments={"query": query}), MYSQL) is reads


@pytest.mark.parametrize(
    ("tool", "reads"),
    [
        ("get_user", True), ("list_orders", True), ("searchFlights", True), ("calculate", True),
        ("update_user", False), ("get_or_create_user", False), ("cancel_order", False),
        ("x", False),
    ],
)  # fmt: skip
def test_reading_by_name(tool: str, reads: bool) -> None:
    assert is_read(Action(tool=tool), None) is reads


def test_a_tools_own_hint_counts_before_its_name() -> None:
    spec = ToolSpec.model_validate({"name": "get_it", "annotations": {"read_only_hint": False}})
    assert not is_read(Action(tool="get_it"), spec)


NAMES = st.sampled_from(["bash", "execute_sql", "get_x", "set_x"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(NAMES, st.text(max_size=40), st.text(max_size=60)), max_size=8))
def test_any_history_can_be_folded(steps: list[tuple[str, str, str]]) -> None:
    past = recorded(*((tool, {"command": a, "query": a, "id": a}, text) for tool, a, text in steps))
    assert len(about(past, "bash", command="ls")) <= 5000


def test_taking_a_state_further_is_the_same_as_starting_over() -> None:
    past = recorded(
        ("bash", {"command": "mkdir /a && echo x > /a/f"}, ""),
        ("get_user", {"user_id": "u_1"}, '{"n": 1}'),
        ("bash", {"command": "rm /a/f"}, ""),
    )
    part = past.model_copy(update={"transitions": past.transitions[:1]})
    further = known_state(past, known_state(part))
    assert further.machine.disk.entries == known_state(past).machine.disk.entries
    assert further.records == known_state(past).records
    assert further.folded == 3


NESTED = [
    "true && " * 9000,
    "ls; " * 20_000,
    "(" * 50_000,
    "$(" * 20_000,
    "xargs " * 3300,
    "find . " + "-exec find . " * 1500,
    "find . " + "-exec awk x " * 1600,
    "sed 's" + "/" * 9000 + "'",
    "mkdir " + "a/" * 9000,
    "touch " + " ".join(f"f{number}" for number in range(3000)),
    "printf '%s" + "y" * 9000 + "' " + "a " * 4000,
    "cat <<A\nx\nA\n" * 1500,
    "echo a > b; cat b b >> c; cat c c >> b; " * 300,
    " " * 100_000 + "x",
    "'" * 100_001,
    "\ud800" * 100,
]


@pytest.mark.parametrize("text", NESTED, ids=range(len(NESTED)))
@pytest.mark.parametrize("tool", ["shell", "sql_execute", "read_file"])
def test_nothing_that_a_call_says_can_break_the_state(
    tool: str, text: str, scratch: Scratch
) -> None:
    name = {"shell": "command", "sql_execute": "query", "read_file": "path"}[tool]
    action = Action(tool=tool, arguments={name: text})
    seen = Observation(text="", source="executed", structured={"exit_code": 0})
    past = scratch.trajectory.model_copy(
        update={
            "transitions": (
                Transition(session="s", step=1, action=action, observation=seen),
                Transition(session="s", step=2, action=action, observation=seen),
            )
        }
    )
    state = known_state(past)
    spec = past.tool(tool)
    assert len(state.render(action, spec, 2000)) <= 2000
    answer = computed(past, action, state)
    assert answer is None or answer.source == "imagined"
    assert is_read(action, spec) in {True, False}


def test_a_step_that_can_not_be_read_forgets_all(scratch: Scratch) -> None:
    made = Action(tool="write_file", arguments={"path": "a", "content": "x"})
    odd = Action(tool="list_directory", arguments={"path": "."})
    entries = Observation(text="", source="imagined", structured={"entries": ["no entry"]})
    past = scratch.trajectory.model_copy(
        update={
            "transitions": (
                Transition(
                    session="s",
                    step=1,
                    action=made,
                    observation=Observation(text="Wrote 1 bytes to a", source="executed"),
                ),
                Transition(session="s", step=2, action=odd, observation=entries),
            )
        }
    )
    state = known_state(past)
    assert state.folded == 2
    assert not state.machine.disk.entries
