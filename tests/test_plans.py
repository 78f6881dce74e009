import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.errors import PlanError
from lwm_agents.plans import MAX_BYTES, Plan, load_plan, plan_from
from lwm_agents.values import Action

STEP: dict[str, Any] = {"tool": "shell", "arguments": {"command": "ls"}}
DOCS = Path(__file__).parent.parent / "docs" / "plans.md"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "plan.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def told(path: Path, **options: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(path, **options)
    return str(caught.value).replace(f"{path.parent}{os.sep}", "").splitlines()


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


def test_the_plan_in_the_docs_loads(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, block("json")))
    assert plan.task == "Count the unpaid orders and write the number down"
    assert plan.root == tmp_path.resolve()
    assert plan.database == f"sqlite:///{(tmp_path.resolve() / 'shop.db').as_posix()}"
    assert [step.tool for step in plan.steps] == [
        "list_directory",
        "sql_query",
        "write_file",
        "shell",
    ]
    assert plan.steps[2].arguments["content"] == "2\n"
    assert plan.lines == (6, 7, 8, 9)


def test_the_wrong_plan_in_the_docs_says_what_the_docs_say(tmp_path: Path) -> None:
    assert told(write(tmp_path, block("json wrong"))) == block("text").splitlines()


def test_only_steps_must_be_there(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, '{"steps": [{"tool": "sql_schema"}]}'))
    assert plan == Plan(
        root=tmp_path.resolve(), steps=(Action(tool="sql_schema", arguments={}),), lines=(1,)
    )


def test_the_root_is_relative_to_the_plan_and_the_database_to_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "site" / "data").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    document = {"root": "../site", "database": "sqlite:///data/x.db", "steps": [STEP]}
    path = write(tmp_path / "plans", json.dumps(document))
    plan = load_plan(path)
    site = (tmp_path / "site").resolve()
    assert plan.root == site
    assert plan.database == f"sqlite:///{(site / 'data' / 'x.db').as_posix()}"
    moved = load_plan(path, root=".")
    assert moved.root == (tmp_path / "other").resolve()
    assert moved.database == f"sqlite:///{(moved.root / 'data' / 'x.db').as_posix()}"


def test_an_absolute_database_and_those_on_servers_stay_as_they_are(tmp_path: Path) -> None:
    absolute = f"sqlite:///{(tmp_path / 'x.db').as_posix()}"
    for url in (absolute, "postgresql://h/db", "mysql+pymysql://u@h/db"):
        document = {"database": url, "steps": [STEP]}
        assert plan_from(document, base=tmp_path).database == url


def test_a_plan_of_a_dictionary_is_the_plan_of_its_file_without_lines(tmp_path: Path) -> None:
    document = {"task": "t", "steps": [STEP, STEP]}
    from_file = load_plan(write(tmp_path, json.dumps(document)))
    assert plan_from(document, base=tmp_path) == from_file.model_copy(update={"lines": ()})
    with pytest.raises(PlanError, match=r'^the plan, step 1, field "tool": this field is missing$'):
        plan_from({"steps": [{"arguments": {}}]})


def test_a_byte_order_mark_and_windows_line_ends_are_no_harm(tmp_path: Path) -> None:
    text = json.dumps({"steps": [STEP]}, indent=1).replace("\n", "\r\n").encode()
    plan = load_plan(write(tmp_path, b"\xef\xbb\xbf" + text))
    assert plan.steps == (Action(tool="shell", arguments={"command": "ls"}),)
    assert plan.lines == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan.json, line 1, column 1: not JSON: the file is empty"),
        (
            '{"steps": [\n {"tool": "shell",}\n]}',
            "plan.json, line 2, column 18: not JSON: "
            "a comma stands before a closing bracket; remove it",
        ),
        ("[]", "plan.json, line 1: a plan is a JSON object, this is an array"),
        ("null", "plan.json, line 1: a plan is a JSON object, this is null"),
        ("{}", 'plan.json, line 1, field "steps": this field is missing'),
        ('{"steps":\n[]}', 'plan.json, line 1, field "steps": a plan has one step at least'),
        (
            '{\n"steps": {}}',
            'plan.json, line 2, field "steps": must be an array, not an object',
        ),
        (
            '{"steps": [\n"ls"]}',
            "plan.json, line 2, step 1: must be an object, not the string 'ls'",
        ),
        (
            '{"steps": [\n{\n"arguments": {}}]}',
            'plan.json, line 2, step 1, field "tool": this field is missing',
        ),
        (
            '{"steps": [{"tool": ""}]}',
            'plan.json, line 1, step 1, field "tool": must not be empty',
        ),
        (
            '{"steps": [{"tool": "a"},\n{"tool": "b",\n"arguments": "ls"}]}',
            'plan.json, line 3, step 2, field "arguments": '
            "must be an object, not the string 'ls'",
        ),
        (
            '{"task": 3,\n"steps": [{"tool": "a"}]}',
            'plan.json, line 1, field "task": must be a string, not the number 3',
        ),
        (
            '{"steps": [{"tool": "a"}],\n"root": true}',
            'plan.json, line 2, field "root": must be a string, not true',
        ),
        (
            '{"steps": [{"tool": "a"}],\n"taks": "x"}',
            "plan.json, line 2, field \"taks\": unknown field; did you mean 'task'?",
        ),
        (
            '{"steps": [{"tool": "a"}],\n"x": "x"}',
            'plan.json, line 2, field "x": unknown field; there are task, root, database, steps',
        ),
        (
            '{"steps": [{"tool": "a",\n"tool": "b"}]}',
            'plan.json, line 2, step 1, field "tool": written twice, first on line 1',
        ),
        (
            '{"steps": [{"tool": "a",\n"arguments": {"e": {"x": 1,\n"x": 2}}}]}',
            'plan.json, line 3, step 1, field "arguments.e.x": written twice, first on line 2',
        ),
        (
            '{"steps": [{"tool": "a"}],\n"root": "absent"}',
            "plan.json, line 2, field \"root\": there is no directory 'absent'",
        ),
        (
            '{"steps": [{"tool": "a"}],\n"root": "\\u0000"}',
            "plan.json, line 2, field \"root\": there is no directory '\\x00'",
        ),
        (
            '{"steps": [{"tool": "a"}],\n"database": "shop.db"}',
            "plan.json, line 2, field \"database\": 'shop.db' is no database URL; "
            "write sqlite:///FILE, postgresql://… or mysql://…",
        ),
        (
            '{"steps": [{"tool": "a"}],\n"database": ""}',
            "plan.json, line 2, field \"database\": '' is no database URL; "
            "write sqlite:///FILE, postgresql://… or mysql://…",
        ),
        (
            '{"steps": [{"tool": "a"}],\n"database": "sqlite://:memory:"}',
            "plan.json, line 2, field \"database\": 'sqlite://:memory:' names no file; "
            "write sqlite:///FILE, relative to the root",
        ),
        (
            '{"steps":\n' + "[" * 300 + "]" * 300 + "}",
            "plan.json, line 2: nested more than 200 deep",
        ),
        (
            b'{\n"task": "caf\xe9"}',
            "plan.json, line 2: byte 0xe9 is not UTF-8; save the plan as UTF-8",
        ),
        (
            '{"steps": []}'.encode("utf-16"),
            "plan.json, line 1: this is UTF-16; save the plan as UTF-8",
        ),
    ],
)
def test_a_wrong_plan_names_the_file_the_line_and_the_field(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    assert told(write(tmp_path, text)) == [message]


def test_everything_that_is_wrong_is_told_at_once_but_not_without_end(tmp_path: Path) -> None:
    lines = told(write(tmp_path, json.dumps({"steps": [{"tol": "a"}] * 9})))
    assert len(lines) == 11
    assert lines[-1] == "and 8 more"


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    assert told(tmp_path / "absent.json") == [
        "can't read the plan 'absent.json': No such file or directory"
    ]
    assert "can't read the plan" in told(tmp_path)[0]
    assert "can't read the plan" in told(Path("a\0b"))[0]


def test_a_huge_file_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 1_000)  # sparse: it takes no room
    assert told(path) == ["plan.json is no plan: it is longer than 16 MiB"]


def test_a_root_given_in_place_of_the_plans_must_exist(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"root": "absent", "steps": [STEP]}))
    assert load_plan(path, root=tmp_path).root == tmp_path.resolve()
    (line,) = told(path, root=tmp_path / "gone")
    assert line == "can't run a plan there: there is no directory 'gone'"


def test_a_tool_nobody_has_is_listed_and_no_error(tmp_path: Path) -> None:
    text = '{"steps": [{"tool": "shell"},\n{"tool": "shel"},\n{"tool": "zzz"}]}'
    unknown = load_plan(write(tmp_path, text)).unknown_tools(["shell", "read_file"])
    assert [str(tool) for tool in unknown] == [
        "step 2 (line 2): there is no tool 'shel'; did you mean shell?",
        "step 3 (line 3): there is no tool 'zzz'",
    ]
    (alone,) = plan_from({"steps": [{"tool": "shel"}]}).unknown_tools([])
    assert str(alone) == "step 1: there is no tool 'shel'"
