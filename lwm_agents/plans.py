"""Plans: the tool calls to try, from a JSON file.

    {"task": "...", "root": ".", "database": "sqlite:///x.db",
     "steps": [{"tool": "shell", "arguments": {"command": "ls"}}]}

Only `steps` must be there. `root` is relative to the folder of the plan, the file of a SQLite
database to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lwm_agents.errors import PlanError
from lwm_agents.json_source import JsonTextError, Place, read_json
from lwm_agents.values import Action, Json, Value

MAX_BYTES = 16 << 20
"""The longest plan read. One that long was not written by hand: it is some other file."""

_FIRST_TOLD = 10
_SCHEMES = ("sqlite", "postgresql", "mysql")


class Plan(Value):
    """The steps to try, in order, and where.

    `root` is an existing directory, absolute. `database` is a URL; a SQLite one is absolute.
    `lines` holds the line of each step where the plan was read from a file.
    """

    task: str = ""
    root: Path
    database: str | None = None
    steps: tuple[Action, ...]
    lines: tuple[int, ...] = ()

    def unknown_tools(self, known: Iterable[str]) -> tuple[UnknownTool, ...]:
        """Return the steps whose tool is none of those known, which is for the caller to judge."""
        names = list(known)
        return tuple(
            UnknownTool(
                tool=step.tool,
                step=number,
                line=self.lines[number - 1] if self.lines else None,
                suggestion=_nearest(step.tool, names),
            )
            for number, step in enumerate(self.steps, 1)
            if step.tool not in names
        )


class UnknownTool(Value):
    """A step whose tool nobody has, and the known name nearest to it."""

    tool: str
    step: int
    line: int | None
    suggestion: str | None

    def __str__(self) -> str:
        place = f"step {self.step}" + (f" (line {self.line})" if self.line else "")
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{place}: there is no tool {self.tool!r}{hint}"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Step(_Strict):
    tool: str = Field(min_length=1)
    arguments: dict[str, Json] = Field(default_factory=dict)


class _Document(_Strict):
    task: str = ""
    root: str = "."
    database: str | None = None
    steps: list[_Step] = Field(min_length=1)


@dataclass(frozen=True)
class _Problem:
    place: Place
    words: str
    line: int | None = None


@dataclass
class _Origin:
    """What a plan is called, and the line of each of its fields where it has lines."""

    name: str
    lines: Mapping[Place, int] = field(default_factory=dict)

    def error(self, *problems: _Problem) -> PlanError:
        told = [self._tell(problem) for problem in problems]
        more = len(told) - _FIRST_TOLD
        return PlanError("\n".join(told[:_FIRST_TOLD] + [f"and {more} more"] * (more > 0)))

    def _tell(self, problem: _Problem) -> str:
        place = problem.place
        while place not in self.lines and place:
            place = place[:-1]  # a field that is missing has no line; what it is missing in has
        line = problem.line or self.lines.get(place)
        where = f", line {line}" if line else ""
        return f"{self.name}{where}{_field_in_words(problem.place)}: {problem.words}"


def load_plan(path: str | Path, *, root: str | Path | None = None) -> Plan:
    """Read a plan. `root`, where given, takes the place of the plan's own.

    Raises PlanError, naming the file, the line and the field of each thing that is wrong.
    """
    file = Path(path)
    try:
        source = read_json(_read(file))
    except JsonTextError as problem:
        column = f", column {problem.column}" if problem.column else ""
        raise PlanError(f"{file}, line {problem.line}{column}: {problem}") from None
    origin = _Origin(str(file), source.lines)
    if source.repeated:
        place, line = source.repeated[0]
        words = f"written twice, first on line {source.lines[place]}"
        raise origin.error(_Problem(place, words, line))
    return _plan(source.value, file.parent, root, origin)


def plan_from(
    document: Mapping[str, Json], *, base: str | Path = ".", root: str | Path | None = None
) -> Plan:
    """Return the plan that an object says, its root relative to `base`.

    Raises PlanError, naming the field of each thing that is wrong.
    """
    return _plan(dict(document), Path(base), root, _Origin("the plan"))


def _plan(document: Json, base: Path, root: str | Path | None, origin: _Origin) -> Plan:
    if not isinstance(document, dict):
        what = f"a plan is a JSON object, this is {_in_words(document)}"
        raise origin.error(_Problem((), what))
    try:
        given = _Document.model_validate(document)
    except ValidationError as problem:
        raise origin.error(*_problems(problem)) from None
    folder = base / given.root if root is None else Path(root)
    if not folder.is_dir():
        what = f"there is no directory {str(folder)!r}"
        if root is not None:
            raise PlanError(f"can't run a plan there: {what}")
        raise origin.error(_Problem(("root",), what))
    folder = folder.resolve()
    return Plan(
        task=given.task,
        root=folder,
        database=_database(given.database, folder, origin),
        steps=tuple(Action(tool=step.tool, arguments=step.arguments) for step in given.steps),
        lines=tuple(
            origin.lines[place]
            for number in range(len(given.steps))
            if (place := ("steps", number)) in origin.lines
        ),
    )


def _database(url: str | None, root: Path, origin: _Origin) -> str | None:
    if url is None:
        return None
    scheme, mark, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    if not mark or kind not in _SCHEMES:
        what = f"{url!r} is no database URL; write sqlite:///FILE, postgresql://… or mysql://…"
        raise origin.error(_Problem(("database",), what))
    if kind != "sqlite":
        return url
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        what = f"{url!r} names no file; write sqlite:///FILE, relative to the root"
        raise origin.error(_Problem(("database",), what))
    # Joining leaves an absolute path as it is: sqlite:////srv/x.db, sqlite:///C:/x.db.
    return f"{scheme}:///{(root / rest[1:]).as_posix()}"


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise PlanError(f"can't read the plan {str(file)!r}: {reason}") from problem
    if len(data) > MAX_BYTES:
        raise PlanError(f"{file} is no plan: it is longer than {MAX_BYTES >> 20} MiB")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PlanError(f"{file}, line 1: this is UTF-16; save the plan as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        byte = data[problem.start]
        raise PlanError(
            f"{file}, line {line}: byte 0x{byte:02x} is not UTF-8; save the plan as UTF-8"
        ) from problem


def _problems(problem: ValidationError) -> Iterator[_Problem]:
    for error in problem.errors(include_url=False):
        place: Place = error["loc"]
        fields = list((_Step if len(place) > 1 else _Document).model_fields)
        match error["type"]:
            case "extra_forbidden":
                near = _nearest(str(place[-1]), fields)
                hint = f"did you mean {near!r}?" if near else f"there are {', '.join(fields)}"
                yield _Problem(place, f"unknown field; {hint}")
            case "missing":
                yield _Problem(place, "this field is missing")
            case "too_short":
                yield _Problem(place, "a plan has one step at least")
            case "string_too_short":
                yield _Problem(place, "must not be empty")
            case kind:
                wanted = {
                    "string_type": "a string",
                    "list_type": "an array",
                    "dict_type": "an object",
                    "model_type": "an object",
                }.get(kind, error["msg"])
                yield _Problem(place, f"must be {wanted}, not {_in_words(error['input'])}")


def _field_in_words(place: Place) -> str:
    parts = list(place)
    words = ""
    if len(parts) > 1 and parts[0] == "steps" and isinstance(parts[1], int):
        words = f", step {parts[1] + 1}"
        parts = parts[2:]
    name = ""
    for part in parts:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return f'{words}, field "{name}"' if name else words


def _in_words(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value if len(value) < 40 else value[:39] + '…'!r}"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"


def _nearest(word: str, names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(word, list(names), n=1)), None)
