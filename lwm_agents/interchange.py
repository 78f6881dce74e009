"""The plain exchange format of recorded trajectories: one JSON object a line, one trajectory each.

    {"id", "dataset", "licence", "domain", "task", "env",
     "tools": [{"name", "description", "parameters"}],
     "steps": [{"tool", "arguments", "observation", "is_error": true|false|null, "reward"}]}

`is_error` null means that the recording does not say. What a step lacks was `executed`, which is
what recordings of real environments hold; steps of our own sessions that were not executed carry
`source` (and `confidence`), so that nothing imagined is ever taken for real. `structured` is there
where a tool gave structured content; a tool's `output_schema`, `annotations`, `source_code` and
`domain` where they are known. An observation's `raw` bytes and a transition's timing stay in the
store: this format is text.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lwm_agents.errors import Misuse
from lwm_agents.values import (
    Action,
    Domain,
    Json,
    Observation,
    Source,
    ToolAnnotations,
    ToolSpec,
    Trajectory,
    Transition,
)

MAX_LINE = 1 << 30
"""The longest line read, in bytes, unless told otherwise; memory holds one line at a time."""

_GZIP_MAGIC = b"\x1f\x8b"
_TOOL_DOMAINS: Mapping[str, Domain] = {
    **{name: name for name in get_args(Domain)},
    "db": "database",
}


@dataclass(frozen=True)
class BrokenLine:
    """A line that holds no trajectory. `line` counts from 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class _Plain(BaseModel):
    # Strict: "1" is no reward and 1 no tool name. Extra fields are other writers' own and let by.
    model_config = ConfigDict(strict=True, extra="ignore")


class _PlainTool(_Plain):
    name: str
    description: str | None = None
    parameters: dict[str, Json] | None = None
    output_schema: dict[str, Json] | None = None
    annotations: dict[str, bool | None] | None = None
    source_code: str | None = None
    domain: Domain | None = None


class _PlainStep(_Plain):
    tool: str
    arguments: dict[str, Json] = Field(default_factory=dict)
    observation: str
    is_error: bool | None = None
    reward: float | None = None
    source: Source = "executed"
    confidence: float | None = Field(default=None, ge=0, le=1)
    structured: Json = None


class _PlainTrajectory(_Plain):
    id: str
    dataset: str | None = None
    licence: str | None = None
    domain: str | None = None
    task: str | None = None
    env: str | None = None
    tools: list[_PlainTool] = Field(default_factory=list)
    steps: list[_PlainStep]


def read_trajectories(
    file: str | Path | BufferedReader, *, max_line: int = MAX_LINE
) -> Iterator[Trajectory | BrokenLine]:
    """Yield the trajectories of a file in order, and a BrokenLine for each line that is none.

    Reads `.jsonl`, gzipped or not (told by content, not by name), one line at a time. Blank lines
    are skipped. Raises Misuse where the file can't be opened.
    """
    if not isinstance(file, str | Path):
        yield from _read(file, str(file.name), max_line)
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 - closed below; only opening is guarded
    except OSError as problem:
        raise Misuse(f"can't read {file}: {problem.strerror}") from problem
    with opened:
        yield from _read(opened, str(file), max_line)


def trajectory_from_plain(plain: Mapping[str, Json]) -> Trajectory:
    """Return the trajectory that a plain object says. Raises ValueError naming what is wrong."""
    try:
        given = _PlainTrajectory.model_validate(dict(plain))
    except ValidationError as problem:
        raise ValueError(_in_words(problem)) from problem
    tools = tuple(_tool_from(tool, given.domain) for tool in given.tools)
    hashes = {tool.name: tool.hash for tool in tools}
    return Trajectory(
        session=given.id,
        task=given.task or "",
        tools=tools,
        transitions=tuple(
            Transition(
                session=given.id,
                step=number,
                action=Action(tool=step.tool, arguments=step.arguments),
                observation=Observation(
                    text=step.observation,
                    source=step.source,
                    is_error=bool(step.is_error),
                    error_known=step.is_error is not None,
                    structured=step.structured,
                    confidence=step.confidence,
                ),
                tool_hash=hashes.get(step.tool),
                reward=step.reward,
            )
            for number, step in enumerate(given.steps, 1)
        ),
        environment=given.env,
        dataset=given.dataset,
        licence=given.licence,
        domain=given.domain,
    )


def plain_from_trajectory(trajectory: Trajectory) -> dict[str, Json]:
    """Return the plain object of a trajectory; `trajectory_from_plain` reads it back."""
    return {
        "id": trajectory.session,
        "dataset": trajectory.dataset,
        "licence": trajectory.licence,
        "domain": trajectory.domain,
        "task": trajectory.task,
        "env": trajectory.environment,
        "tools": [_plain_tool(tool, trajectory.domain) for tool in trajectory.tools],
        "steps": [_plain_step(transition) for transition in trajectory.transitions],
    }


def write_trajectories(file: str | Path | IO[bytes], trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories in the plain format and return how many; gzipped where the name says so.

    Raises Misuse where the file can't be opened for writing.
    """
    if not isinstance(file, str | Path):
        return _write(file, trajectories)
    try:
        opened = open(file, "wb")  # noqa: SIM115 - closed below; only opening is guarded
    except OSError as problem:
        raise Misuse(f"can't write {file}: {problem.strerror}") from problem
    with opened:
        if Path(file).suffix != ".gz":
            return _write(opened, trajectories)
        # No name and no time inside, so that the same trajectories give the same bytes.
        with gzip.GzipFile("", "wb", fileobj=opened, mtime=0) as packed:
            return _write(packed, trajectories)


def _read(file: BufferedReader, name: str, max_line: int) -> Iterator[Trajectory | BrokenLine]:
    packed = file.peek(2)[:2] == _GZIP_MAGIC
    stream: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(max_line)
            too_long = len(line) == max_line and not line.endswith(b"\n")
            while line and too_long and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            # What follows can't be unpacked: this is the last that can be said of the file.
            yield BrokenLine(name, number, f"the compressed data is cut off or damaged: {problem}")
            return
        except OSError as problem:
            yield BrokenLine(name, number, f"can't be read: {problem.strerror}")
            return
        if too_long:
            yield BrokenLine(name, number, f"longer than {max_line} bytes")
        elif not line:
            return
        elif not line.isspace():
            yield _parse(line, name, number)


def _parse(line: bytes, name: str, number: int) -> Trajectory | BrokenLine:
    try:
        # "-sig": some editors put a byte order mark at the start of a file.
        text = line.decode("utf-8-sig").rstrip("\r\n")
        plain = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(plain, dict):
            raise ValueError(f"a trajectory is a JSON object, this is {type(plain).__name__}")
        return trajectory_from_plain(plain)
    except UnicodeDecodeError as problem:
        return BrokenLine(name, number, f"not UTF-8 at byte {problem.start + 1} of the line")
    except json.JSONDecodeError as problem:
        return BrokenLine(name, number, f"not JSON at column {problem.colno}: {problem.msg}")
    except RecursionError:
        return BrokenLine(name, number, "nested too deeply")
    except ValueError as problem:
        return BrokenLine(name, number, str(problem))


def _refuse_constant(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _in_words(problem: ValidationError) -> str:
    errors = problem.errors(include_url=False, include_input=False)
    place = ""
    for part in errors[0]["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place.lstrip('.')}: {errors[0]['msg']}{more}"


def _tool_from(tool: _PlainTool, domain: str | None) -> ToolSpec:
    hints = ToolAnnotations.model_fields.keys() & (tool.annotations or {}).keys()
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        input_schema={"type": "object"} if tool.parameters is None else tool.parameters,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(**{hint: (tool.annotations or {})[hint] for hint in hints}),
        source_code=tool.source_code,
        domain=tool.domain or _domain_of_tools(domain),
    )


def _domain_of_tools(domain: str | None) -> Domain:
    return _TOOL_DOMAINS.get(domain or "", "api")


def _plain_tool(tool: ToolSpec, domain: str | None) -> dict[str, Json]:
    plain: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
    }
    if tool.output_schema is not None:
        plain["output_schema"] = tool.output_schema
    if hints := tool.annotations.model_dump(exclude_none=True):
        plain["annotations"] = hints
    if tool.source_code is not None:
        plain["source_code"] = tool.source_code
    if tool.domain != _domain_of_tools(domain):
        plain["domain"] = tool.domain
    return plain


def _plain_step(transition: Transition) -> dict[str, Json]:
    seen = transition.observation
    plain: dict[str, Json] = {
        "tool": transition.action.tool,
        "arguments": transition.action.arguments,
        "observation": seen.text,
        "is_error": seen.is_error if seen.error_known else None,
        "reward": transition.reward,
    }
    if seen.source != "executed":
        plain["source"] = seen.source
    if seen.confidence is not None:
        plain["confidence"] = seen.confidence
    if seen.structured is not None:
        plain["structured"] = seen.structured
    return plain


def _write(stream: IO[bytes] | gzip.GzipFile, trajectories: Iterable[Trajectory]) -> int:
    written = 0
    for trajectory in trajectories:
        # ASCII escapes: a lone surrogate in a tool's output has no UTF-8 form.
        text = json.dumps(plain_from_trajectory(trajectory))
        stream.write(text.encode("ascii") + b"\n")
        written += 1
    return written
