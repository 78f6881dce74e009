import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.errors import Misuse
from lwm_agents.interchange import (
    BrokenLine,
    plain_from_trajectory,
    read_trajectories,
    trajectory_from_plain,
    write_trajectories,
)
from lwm_agents.values import (
    Action,
    Observation,
    ToolAnnotations,
    ToolSpec,
    Trajectory,
    Transition,
)

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.jsonl"))

PLAIN: dict[str, Any] = {
    "id": "t/1",
    "dataset": "d",
    "licence": "MIT",
    "domain": "terminal",
    "task": "list",
    "env": "box",
    "tools": [{"name": "bash", "description": "Run.", "parameters": {"type": "object"}}],
    "steps": [
        {
            "tool": "bash",
            "arguments": {"command": "ls"},
            "observation": "a\n",
            "is_error": None,
            "reward": 0.5,
        }
    ],
}


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def good(number: int) -> bytes:
    return json.dumps(PLAIN | {"id": f"t/{number}"}).encode()


def broken(path: Path) -> list[BrokenLine]:
    return [item for item in read_trajectories(path) if isinstance(item, BrokenLine)]


def ids(path: Path, **options: int) -> list[str]:
    read = read_trajectories(path, **options)
    return [item.session for item in read if isinstance(item, Trajectory)]


def test_there_are_samples_of_three_datasets() -> None:
    assert [path.stem for path in SAMPLES] == ["intercode-bash", "intercode-sql", "tau-airline"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_real_recordings_come_back_as_they_were(path: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    read = [item for item in read_trajectories(path) if isinstance(item, Trajectory)]
    assert len(read) == len(lines)
    assert [plain_from_trajectory(trajectory) for trajectory in read] == lines
    assert {t.observation.source for item in read for t in item.transitions} == {"executed"}
    packed = tmp_path / "again.jsonl.gz"
    assert write_trajectories(packed, read) == len(lines)
    assert list(read_trajectories(packed)) == read


def test_what_a_plain_trajectory_becomes() -> None:
    trajectory = trajectory_from_plain(PLAIN)
    assert trajectory.session == "t/1"
    assert trajectory.environment == "box"
    assert trajectory.tools[0].domain == "terminal"
    (transition,) = trajectory.transitions
    assert transition.step == 1
    assert transition.action == Action(tool="bash", arguments={"command": "ls"})
    assert transition.tool_hash == trajectory.tools[0].hash
    assert transition.reward == 0.5
    assert transition.observation == Observation(text="a\n", source="executed", error_known=False)


@pytest.mark.parametrize(("said", "is_error"), [(None, False), (False, False), (True, True)])
def test_null_is_kept_apart_from_false(said: bool | None, is_error: bool) -> None:
    plain = PLAIN | {"steps": [PLAIN["steps"][0] | {"is_error": said}]}
    trajectory = trajectory_from_plain(plain)
    seen = trajectory.transitions[0].observation
    assert (seen.is_error, seen.error_known) == (is_error, said is not None)
    assert plain_from_trajectory(trajectory) == plain


def test_nothing_imagined_is_read_back_as_executed() -> None:
    imagined = Observation(text="x", source="imagined", confidence=0.25, structured={"rows": [1]})
    tool = ToolSpec(
        name="query",
        output_schema={"type": "string"},
        annotations=ToolAnnotations(read_only_hint=True),
        source_code="def query(): ...",
        domain="database",
    )
    trajectory = Trajectory(
        session="own",
        tools=(tool,),
        transitions=(
            Transition(
                session="own",
                step=1,
                action=Action(tool="query"),
                observation=imagined,
                tool_hash=tool.hash,
            ),
        ),
    )
    plain = plain_from_trajectory(trajectory)
    assert plain["steps"][0]["source"] == "imagined"
    assert trajectory_from_plain(json.loads(json.dumps(plain))) == trajectory


def test_least_that_a_trajectory_can_be_and_fields_of_others() -> None:
    least = trajectory_from_plain({"id": "x", "steps": [], "cost": 3})
    assert least == Trajectory(session="x")


@given(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_text_and_any_argument_survive(
    tmp_path_factory: pytest.TempPathFactory, text: str, value: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    plain = PLAIN | {
        "task": text,
        "steps": [PLAIN["steps"][0] | {"observation": text, "arguments": {"a": value}}],
    }
    write_trajectories(path, [trajectory_from_plain(plain)])
    (read,) = read_trajectories(path)
    assert isinstance(read, Trajectory)
    assert plain_from_trajectory(read) == plain


def test_text_that_has_no_utf_8_form_survives(tmp_path: Path) -> None:
    plain = PLAIN | {"task": "\ud800 \x00 \u2028"}
    path = tmp_path / "odd.jsonl"
    write_trajectories(path, [trajectory_from_plain(plain)])
    (read,) = read_trajectories(path)
    assert isinstance(read, Trajectory)
    assert read.task == "\ud800 \x00 \u2028"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON at column 2"),
        (b"[1]", "a trajectory is a JSON object, this is list"),
        (b'"x"', "a trajectory is a JSON object"),
        (b'{"id": "\xff", "steps": []}', "not UTF-8 at byte 9"),
        (b'{"steps": []}', "id: Field required"),
        (b'{"id": 7, "steps": []}', "id: Input should be a valid string"),
        (b'{"id": "x"}', "steps: Field required"),
        (b'{"id": "x", "steps": [{"tool": "t", "observation": null}]}', "steps[0].observation: "),
        (
            b'{"id": "x", "steps": [{"tool": "t", "arguments": [], "observation": ""}]}',
            "steps[0].arguments: ",
        ),
        (
            b'{"id": "x", "steps": [{"tool": "t", "observation": "", "is_error": "no"}]}',
            "steps[0].is_error: ",
        ),
        (
            b'{"id": "x", "steps": [{"tool": "t", "observation": "", "source": "real"}]}',
            "steps[0].source: ",
        ),
        (
            b'{"id": "x", "steps": [{"tool": "t", "observation": "", "reward": NaN}]}',
            "NaN is not JSON",
        ),
        (b'{"id": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b'{"id": ' + b"9" * 5_000 + b"}", "limit"),
    ],
)
def test_a_broken_line_is_told_with_its_place_and_the_rest_is_read(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = write(tmp_path / "some.jsonl", good(1), b"", line, good(4))
    assert ids(path) == ["t/1", "t/4"]
    (told,) = broken(path)
    assert (told.file, told.line) == (str(path), 3)
    assert reason in told.reason
    assert str(told).startswith(f"{path}:3: ")


def test_a_line_longer_than_the_limit_is_told_and_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "long.jsonl", good(1), b'{"id": "' + b"x" * 5_000 + b'"}', good(3))
    assert ids(path, max_line=1_000) == ["t/1", "t/3"]
    told = [i for i in read_trajectories(path, max_line=1_000) if isinstance(i, BrokenLine)]
    assert [(item.line, item.reason) for item in told] == [(2, "longer than 1000 bytes")]
    assert ids(path, max_line=len(good(1)) + 1) == ["t/1", "t/3"], "a line of just the limit fits"


@pytest.mark.parametrize("cut", ["cut off", "damaged"])
def test_a_damaged_gzip_gives_what_can_be_had_and_says_so(tmp_path: Path, cut: str) -> None:
    # Three members, as `cat a.gz b.gz c.gz` makes; the last one is spoilt.
    whole = [gzip.compress(good(number) + b"\n") for number in (1, 2, 3)]
    spoilt = whole[2][:-12] if cut == "cut off" else whole[2][:20] + b"\x00\x01" + whole[2][22:]
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(whole[0] + whole[1] + spoilt)
    assert ids(path)[:2] == ["t/1", "t/2"]
    (told,) = broken(path)
    assert told.line >= 3
    assert "cut off or damaged" in told.reason


def test_gzip_is_told_by_content_and_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    packed = tmp_path / "named-wrongly.jsonl"
    packed.write_bytes(gzip.compress(good(1)))
    assert ids(packed) == ["t/1"]
    plain = tmp_path / "named-wrongly.jsonl.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + good(2) + b"\r\n")
    assert ids(plain) == ["t/2"]


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert list(read_trajectories(write(tmp_path / "empty.jsonl"))) == []


def test_an_open_file_is_read_where_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path / "two.jsonl", good(1), good(2))
    with path.open("rb") as file:
        assert len(list(read_trajectories(file))) == 2


def test_files_that_can_not_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"can't read .*absent\.jsonl: No such file"):
        list(read_trajectories(tmp_path / "absent.jsonl"))
    with pytest.raises(Misuse, match=r"can't read .*directory"):
        list(read_trajectories(tmp_path))
    with pytest.raises(Misuse, match=r"can't write .*: No such file"):
        write_trajectories(tmp_path / "no" / "folder.jsonl", [])


def test_the_same_trajectories_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_trajectories(tmp_path / name, [trajectory_from_plain(PLAIN)])
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
