"""Answers that follow from the history, worked out by code instead of imagined.

Only where the answer is certain: a wrong one would be worse than none. They are still labelled
`imagined`: nothing ran.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from lwm_agents.places.sqlite import Rows
from lwm_agents.prompts.certain import unless_odd
from lwm_agents.prompts.disk import Disk
from lwm_agents.prompts.reads import command_of, is_read, query_of, repeats
from lwm_agents.prompts.shell import absolute_cwd, simulate
from lwm_agents.prompts.state import KnownState, is_built_in, known_state, shell_text, sql_text
from lwm_agents.tools.database import DATABASE_TOOLS
from lwm_agents.tools.files import FILE_TOOLS, name_matcher, shown_path
from lwm_agents.values import Action, Json, Observation, ToolSpec, Trajectory, Transition

COMPUTED_CONFIDENCE = 0.99
SETTLED_CONFIDENCE = 0.95
"""Stated priors, where nothing was calibrated."""

IsRead = Callable[[Action, ToolSpec | None], bool]

_TOOLS = {tool.spec.name: tool for tool in (*FILE_TOOLS, *DATABASE_TOOLS)}


def computed(
    trajectory: Trajectory, action: Action, state: KnownState | None = None
) -> Observation | None:
    """Return the observation that certainly follows from the trajectory, or None.

    `state` is the known state after the trajectory, where the caller has it already; it is not
    changed. The arguments must conform to the tool's input schema.
    """
    known = known_state(trajectory) if state is None else state
    return unless_odd(action.tool, lambda: _computed(trajectory, action, known), None)


def _computed(trajectory: Trajectory, action: Action, state: KnownState) -> Observation | None:
    spec = trajectory.tool(action.tool)
    if not is_built_in(spec):
        return None  # other tools have forms and quirks of their own, shells too
    command = command_of(action, spec)
    if command is not None:
        return _shell(command, state)
    if action.tool not in _TOOLS:
        return None
    refused = _refused(action, state)
    if refused is not None:
        return _error(refused)
    query = action.arguments.get("query")
    if isinstance(query, str):
        writes = action.tool == "sql_execute"
        parameters = action.arguments.get("parameters")
        return _sql(state.tables.copy().answer(query, parameters, writes=writes))
    handler = _FILES.get(action.tool)
    return None if handler is None else handler(state.machine.disk, action.arguments)


def repeated(
    trajectory: Trajectory, action: Action, is_read: IsRead = is_read
) -> Observation | None:
    """Return the pinned answer: what the same action gave before with no write in between, or None.

    A read, or a command that twice in a row gave the same and so has settled.
    """
    spec = trajectory.tool(action.tool)
    reading = is_read(action, spec)
    digest = action.digest
    statement = query_of(action, spec) is not None
    if reading or statement:
        for transition in _answered(trajectory):
            if transition.action.digest == digest and (
                # A statement that was refused is refused again; a service's error may pass.
                reading or (transition.observation.is_error and transition.observation.error_known)
            ):
                return _again(transition.observation, COMPUTED_CONFIDENCE)
            if not _left_all_as_it_was(transition, trajectory, is_read):
                break
        if reading:
            return None
    past = list(islice(_answered(trajectory), 2))
    if not past or past[0].action.digest != digest:
        return None
    last, before = past[0], past[1:]
    if repeats(action, spec):
        return _again(last.observation, COMPUTED_CONFIDENCE)
    twice = before and before[0].action.digest == digest
    if twice and before[0].observation.text == last.observation.text:
        return _again(last.observation, SETTLED_CONFIDENCE)
    return None


def _answered(trajectory: Trajectory) -> Iterator[Transition]:
    """Yield the transitions that something answered, latest first."""
    return (t for t in reversed(trajectory.transitions) if t.observation.source != "unanswered")


def _left_all_as_it_was(transition: Transition, trajectory: Trajectory, is_read: IsRead) -> bool:
    """Return whether a step changed nothing: a read, or a failed call of anything but a shell.

    A shell command may fail after it did half its work; a statement or a call of a service that
    is refused did nothing.
    """
    spec = trajectory.tool(transition.action.tool)
    # Not `effect`: that of a `cd` is "read", and yet what comes after it reads elsewhere.
    if is_read(transition.action, spec):
        return True
    failed = transition.observation.is_error and transition.observation.error_known
    return failed and command_of(transition.action, spec) is None


def _again(seen: Observation, confidence: float) -> Observation:
    """Return an observation as the prediction that it comes again.

    What was only imagined is no surer the second time.
    """
    confidence = confidence if seen.confidence is None else min(confidence, seen.confidence)
    return seen.model_copy(update={"source": "imagined", "confidence": confidence})


def _observation(text: str, structured: Json = None, *, is_error: bool = False) -> Observation:
    return Observation(
        text=text,
        source="imagined",
        is_error=is_error,
        structured=structured,
        confidence=COMPUTED_CONFIDENCE,
    )


def _error(text: str) -> Observation:
    return _observation(text, is_error=True)


def _refused(action: Action, state: KnownState) -> str | None:
    """Return why the built-in tool refuses these arguments anywhere, or None."""
    paths = (action.arguments.get(name) for name in ("path", "source", "destination"))
    if state.machine.disk.root is None and any(str(path).startswith("/") for path in paths):
        return None  # whether an absolute path lies inside the root is not known
    return _TOOLS[action.tool].refusal(action.arguments, state.machine.disk.root)


def _shell(command: str, state: KnownState) -> Observation | None:
    machine = state.machine.copy()
    answer = simulate(command, machine)
    if answer is None:
        return None
    structured: dict[str, Json] = {"exit_code": answer.code, "timed_out": False, "truncated": False}
    cwd = absolute_cwd(machine)
    if cwd is not None:
        structured["cwd"] = cwd
    text = shell_text(answer.text, answer.code)
    return _observation(text, structured, is_error=answer.code != 0)


def _sql(answer: Rows | str | None) -> Observation | None:
    if answer is None:
        return None
    if isinstance(answer, str):
        return _error(sql_text(answer))
    structured: dict[str, Json] = {
        "columns": list(answer.columns),
        "rows": [[_json(value) for value in row] for row in answer.rows],
        "row_count": answer.total,
    }
    if answer.affected is not None:
        structured |= {"rows_affected": answer.affected, "last_row_id": answer.last_row_id}
    return _observation(sql_text(answer), structured)


def _json(value: object) -> Json:
    """Return a value as JSON can say it: bytes as x'…', infinities as text."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return value


# --- file tools: the messages are those of lwm_agents.tools.files ------------------------------


def _read(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    key, kind = _at(disk, arguments["path"])
    if key is None:
        return None
    content = disk.content(key)
    if content is not None:
        return _observation(content)
    return _missing(kind, "file", arguments["path"], {"directory": "Is a directory"})


def _write(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    key, kind = _at(disk, arguments["path"])
    if key is None:
        return None
    if kind == "directory":
        return _error(f"Is a directory: {_shown(arguments['path'])}")
    if not (_made(disk, key) if kind == "file" else kind == "absent" and _creatable(disk, key)):
        return None
    size = len(str(arguments["content"]).encode())
    return _observation(f"Wrote {size} bytes to {arguments['path']}")


def _edit(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    path, old = arguments["path"], str(arguments["old_text"])
    key, kind = _at(disk, path)
    if key is None:
        return None
    content = disk.content(key)
    if content is None:
        return _missing(kind, "file", path, {"directory": "Is a directory"})
    first = content.find(old)
    if first < 0:
        return _error(f"old_text was not found in {path}")
    if content.find(old, first + 1) >= 0:
        times = max(2, content.count(old))
        return _error(f"old_text occurs {times} times in {path}; give more of its surroundings")
    return _observation(f"Edited {path}") if _made(disk, key) else None


def _list(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    key, kind = _at(disk, arguments["path"])
    if key is None:
        return None
    children = disk.children(key)
    if children is None:
        return _missing(kind, "directory", arguments["path"], {"file": "Not a directory"})
    if "link" in children.values():
        return None  # where a link leads is not kept
    names = sorted(children)
    return _observation(
        "".join(f"{name}{'/' if children[name] == 'directory' else ''}\n" for name in names),
        {"entries": [{"name": name, "type": children[name]} for name in names]},
    )


def _move(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    source, destination = str(arguments["source"]), str(arguments["destination"])
    (old, kind), (new, there) = _at(disk, source), _at(disk, destination)
    if old is None or new is None or new == old or new.startswith(old + "/") or old == ".":
        return None
    if len(source) + len(destination) > 280:
        return None  # the tool shortens such a message
    if kind == "absent":
        return _error(f"No such file: {_shown(f'{source} to {destination}')}")
    if kind in {"file", "directory", "link"} and there in {"file", "directory", "link"}:
        return _error(f"Already exists: {_shown(destination)}")
    sure = kind in {"file", "directory"} and there == "absent" and disk.writable(old)
    if sure and _made(disk, old) and _creatable(disk, new):
        return _observation(f"Moved {source} to {destination}")
    return None


def _delete(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    path = arguments["path"]
    key, kind = _at(disk, path)
    if key is None or key == ".":
        return None
    children = disk.children(key)
    if kind == "absent":
        return _error(f"No such file: {_shown(path)}")
    if kind == "directory" and disk.holds_something(key):
        return _error(f"Directory not empty: {_shown(path)}") if disk.writable(key) else None
    if (kind == "file" or children == {}) and disk.writable(key) and _made(disk, key):
        return _observation(f"Deleted {path}")
    return None


def _search(disk: Disk, arguments: Mapping[str, Json]) -> Observation | None:
    path = arguments["path"]
    key, kind = _at(disk, path)
    if key is None or key.startswith("/"):
        return None
    if disk.children(key) is None:
        return _missing(kind, "directory", path, {"file": "Not a directory"})
    matches = name_matcher(str(arguments["pattern"]))
    found: list[str] = []
    todo = [key]
    while todo:
        above = todo.pop()
        children = disk.children(above)
        if children is None:
            return None
        for name, child in children.items():
            whole = posixpath.normpath(posixpath.join(above, name))
            if matches(posixpath.relpath(whole, key)):
                found.append(whole)
            if child == "directory":
                todo.append(whole)
    lines = sorted(found)
    return _observation(
        "".join(f"{line}\n" for line in lines) or "No matches found\n",
        {"paths": lines, "count": len(lines)},
    )


_FILES: dict[str, Callable[[Disk, Mapping[str, Json]], Observation | None]] = {
    "read_file": _read,
    "write_file": _write,
    "edit_file": _edit,
    "list_directory": _list,
    "move_file": _move,
    "delete_file": _delete,
    "search_files": _search,
}


def _at(disk: Disk, path: Json) -> tuple[str | None, str | None]:
    key = disk.key(path) if isinstance(path, str) and len(path) <= 300 else None
    return key, None if key is None else disk.status(key)


def _missing(
    kind: str | None, what: str, path: Json, otherwise: Mapping[str, str]
) -> Observation | None:
    if kind == "absent":
        return _error(f"No such {what}: {_shown(path)}")
    reason = otherwise.get(kind or "")
    return None if reason is None else _error(f"{reason}: {_shown(path)}")


def _shown(path: Json) -> str:
    return shown_path(str(path))


def _made(disk: Disk, key: str) -> bool:
    known = disk.entries.get(key)
    return known is not None and known.made


def _creatable(disk: Disk, key: str) -> bool:
    """Return whether a file can certainly be created at an absent key, its directories made."""
    above = posixpath.dirname(key) or "."
    while disk.status(above) == "absent" and above not in {".", "/"}:
        above = posixpath.dirname(above) or "."
    known = disk.entries.get(above)
    return known is not None and known.kind == "directory" and known.made
