"""The file tools: read, write, edit, list, move, delete, search."""

from __future__ import annotations

import errno
import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lwm_agents.places.beneath import Entry
from lwm_agents.places.paths import Refused, lexical_names
from lwm_agents.places.place import Place
from lwm_agents.places.threads import in_thread
from lwm_agents.values import Json, Observation, ToolAnnotations, ToolSpec

FOUND_LIMIT = 10_000
"""How many paths a search shows."""

_PATH = "Path relative to the root, or absolute and inside it."


class ToolError(Exception):
    """What a tool answers when it can't do what was asked. Its text is the observation."""


@dataclass(frozen=True)
class FileTool:
    """One file tool: its spec, and what it does with a place."""

    spec: ToolSpec
    act: Callable[[Place, dict[str, str]], Observation]

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:
        """Return why these arguments are refused anywhere: a path outside, text not in UTF-8."""
        for name in ("path", "source", "destination"):
            if name in arguments:
                try:
                    lexical_names(arguments[name], root)
                except Refused as refused:
                    return _said(refused, arguments[name], "file")
        for name in ("content", "old_text", "new_text", "pattern"):
            try:
                str(arguments.get(name, "")).encode()
            except UnicodeEncodeError:
                return f"Not text that UTF-8 can say: `{name}`"
        if "old_text" in arguments and arguments["old_text"] == arguments["new_text"]:
            return "Nothing to change: old_text and new_text are the same"
        return None

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Act in the place. The work is done in a thread and never left half done."""
        try:
            return await in_thread(lambda: self.act(place, dict(arguments)), stop=lambda: None)
        except ToolError as error:
            return Observation(text=str(error), source=place.source, is_error=True)


def _read_file(place: Place, arguments: dict[str, str]) -> Observation:
    content = _reading(place, arguments["path"])
    text = content.decode("utf-8", "replace")
    raw = None if text.encode() == content else content
    return Observation(text=text, source=place.source, raw=raw)


def _write_file(place: Place, arguments: dict[str, str]) -> Observation:
    content = arguments["content"].encode()
    _doing(lambda: place.write(arguments["path"], content), arguments["path"])
    text = f"Wrote {len(content)} bytes to {arguments['path']}"
    return Observation(text=text, source=place.source)


def _edit_file(place: Place, arguments: dict[str, str]) -> Observation:
    path = arguments["path"]
    # On bytes, so that the rest of a file stays as it is whatever its encoding and line ends.
    content, old = _reading(place, path), arguments["old_text"].encode()
    first = content.find(old)
    if first < 0:
        raise ToolError(f"old_text was not found in {path}")
    if content.find(old, first + 1) >= 0:
        times = max(2, content.count(old))
        raise ToolError(f"old_text occurs {times} times in {path}; give more of its surroundings")
    changed = content[:first] + arguments["new_text"].encode() + content[first + len(old) :]
    _doing(lambda: place.write(path, changed), path)
    return Observation(text=f"Edited {path}", source=place.source)


def _list_directory(place: Place, arguments: dict[str, str]) -> Observation:
    path = arguments["path"]
    try:
        entries = place.entries(path)
    except OSError as error:
        raise ToolError(_said(error, path, "directory")) from error
    return Observation(
        text="".join(f"{_line(entry)}\n" for entry in entries),
        source=place.source,
        structured={"entries": [{"name": shown(e.name), "type": e.kind} for e in entries]},
    )


def _line(entry: Entry) -> str:
    if entry.kind == "link" and entry.target is not None:
        return f"{shown(entry.name)} -> {shown(entry.target)}"
    return shown(entry.name) + ("/" if entry.kind == "directory" else "")


def _move_file(place: Place, arguments: dict[str, str]) -> Observation:
    source, destination = arguments["source"], arguments["destination"]
    try:
        place.move(source, destination)
    except FileExistsError as error:
        raise ToolError(_said(error, destination, "file")) from error
    except OSError as error:
        raise ToolError(_said(error, f"{source} to {destination}", "file")) from error
    return Observation(text=f"Moved {source} to {destination}", source=place.source)


def _delete_file(place: Place, arguments: dict[str, str]) -> Observation:
    path = arguments["path"]
    _doing(lambda: place.delete(path), path)
    return Observation(text=f"Deleted {path}", source=place.source)


def _search_files(place: Place, arguments: dict[str, str]) -> Observation:
    start = arguments["path"]
    matches = name_matcher(arguments["pattern"])
    try:
        entries = place.entries(start)
    except OSError as error:
        raise ToolError(_said(error, start, "directory")) from error
    names = lexical_names(start, place.root)
    found: list[str] = []
    unread: list[str] = []
    todo: list[tuple[tuple[str, ...], list[Entry]]] = [((), entries)]
    while todo:
        above, entries = todo.pop()
        for entry in entries:
            below = (*above, entry.name)
            if matches("/".join(below)):
                found.append("/".join((*names, *below)))
            if entry.kind == "directory":
                try:
                    todo.append((below, place.entries("/".join((*names, *below)))))
                except OSError:
                    unread.append("/".join((*names, *below)))
    paths = [shown(path) for path in sorted(found)]
    lines = paths[:FOUND_LIMIT] or ["No matches found"]
    if len(paths) > FOUND_LIMIT:
        lines.append(f"[{len(paths) - FOUND_LIMIT} more]")
    lines += [f"[could not read {shown(path)}]" for path in sorted(unread)]
    return Observation(
        text="\n".join(lines) + "\n",
        source=place.source,
        structured={"paths": paths[:FOUND_LIMIT], "count": len(paths)},
    )


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a path below the start of a search matches a glob, whatever the case.

    A pattern without `/` is held against the last name alone, at any depth. With `/` it is held
    against the whole path, and `**` stands for any number of directories.
    """
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    tests = [
        None if part == "**" else re.compile(fnmatch.translate(part), re.IGNORECASE).match
        for part in parts
    ]
    anywhere = "/" not in pattern

    def matches(path: str) -> bool:
        names = path.split("/")[-1:] if anywhere else path.split("/")
        # reached[i]: the names so far are matched by the first i parts.
        reached = [True] + [False] * len(tests)
        for index, test in enumerate(tests):
            reached[index + 1] = reached[index] and test is None
        for name in names:
            after = [False] * (len(tests) + 1)
            for index, test in enumerate(tests):
                if test is None:
                    after[index + 1] = after[index] or reached[index + 1] or reached[index]
                else:
                    after[index + 1] = reached[index] and test(name) is not None
            reached = after
        return reached[-1]

    return matches


def shown(name: str) -> str:
    """Return a file's name as one line of text: control characters and stray bytes as escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return re.sub(
        r"[\x00-\x1f\x7f]", lambda found: found[0].encode("unicode_escape").decode(), text
    )


def _reading(place: Place, path: str) -> bytes:
    try:
        return place.read(path)
    except OSError as error:
        raise ToolError(_said(error, path, "file")) from error


def _doing(act: Callable[[], None], path: str) -> None:
    try:
        act()
    except OSError as error:
        raise ToolError(_said(error, path, "file")) from error


_REASONS = {
    errno.EACCES: "Permission denied",
    errno.EPERM: "Permission denied",
    errno.EROFS: "Read-only file system",
    errno.EEXIST: "Already exists",
    errno.EISDIR: "Is a directory",
    errno.ENOTDIR: "Not a directory",
    errno.ENOTEMPTY: "Directory not empty",
    errno.ENAMETOOLONG: "Name too long",
    errno.ELOOP: "Too many links",
    errno.ENOSPC: "No space left on the disk",
    errno.EXDEV: "On another file system",
    errno.EINVAL: "Not possible",
}


def _said(error: OSError, path: str, what: str) -> str:
    """Return an error as the tool says it: the reason, then the path as it was given."""
    if isinstance(error, Refused):
        reason = str(error)
    elif error.errno == errno.ENOENT:
        reason = f"No such {what}"
    else:
        reason = _REASONS.get(error.errno or 0) or error.strerror or type(error).__name__
    path = path if len(path) <= 300 else f"{path[:300]}… ({len(path)} characters)"
    return f"{reason}: {shown_path(path)}"


def shown_path(path: str) -> str:
    """Return a path that was asked for as one line of text, whatever is in it."""
    return re.sub(
        r"[\x00-\x1f\x7f\ud800-\udfff]",
        lambda found: found[0].encode("unicode_escape").decode(),
        path,
    )


def _spec(
    name: str,
    description: str,
    arguments: Mapping[str, str],
    *,
    read_only: bool,
    destructive: bool = False,
    idempotent: bool = False,
) -> ToolSpec:
    # Only contents may be empty; a path, a pattern and the text to look for may not.
    may_be_empty = {"content", "new_text"}
    return ToolSpec(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {
                key: {"type": "string", "description": text}
                | ({} if key in may_be_empty else {"minLength": 1})
                for key, text in arguments.items()
            },
            "required": list(arguments),
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=idempotent,
            open_world_hint=False,
        ),
        domain="files",
    )


FILE_TOOLS = (
    FileTool(
        _spec(
            "read_file",
            "Return the whole content of a text file.",
            {"path": _PATH},
            read_only=True,
            idempotent=True,
        ),
        _read_file,
    ),
    FileTool(
        _spec(
            "write_file",
            "Create a file or replace its whole content, as UTF-8. Missing directories are made.",
            {"path": _PATH, "content": "The whole new content."},
            read_only=False,
            destructive=True,
            idempotent=True,
        ),
        _write_file,
    ),
    FileTool(
        _spec(
            "edit_file",
            "Replace one piece of a text file. old_text must occur in it exactly once.",
            {
                "path": _PATH,
                "old_text": "The text to replace, blanks and line ends included.",
                "new_text": "The text to put there; empty to remove it.",
            },
            read_only=False,
            destructive=True,
        ),
        _edit_file,
    ),
    FileTool(
        _spec(
            "list_directory",
            "List a directory, sorted, one name a line. Directories end with `/`; a link is shown "
            "as `name -> target`. An empty directory gives no text.",
            {"path": f"{_PATH} `.` is the root."},
            read_only=True,
            idempotent=True,
        ),
        _list_directory,
    ),
    FileTool(
        _spec(
            "move_file",
            "Move or rename a file or directory. Fails where the destination exists. Missing "
            "directories above the destination are made.",
            {"source": _PATH, "destination": "The new path, its last name included."},
            read_only=False,
            destructive=False,
        ),
        _move_file,
    ),
    FileTool(
        _spec(
            "delete_file",
            "Delete a file, a link (not what it points to) or an empty directory.",
            {"path": _PATH},
            read_only=False,
            destructive=True,
        ),
        _delete_file,
    ),
    FileTool(
        _spec(
            "search_files",
            "Find files and directories by name below a directory, at any depth, hidden ones "
            "included. Returns their paths relative to the root, sorted, one a line, or `No "
            "matches found`. To search in contents use the shell.",
            {
                "path": f"Directory to start from. {_PATH}",
                "pattern": "Glob, upper and lower case alike. Without `/` it matches names "
                "(`*.py`); with `/` the path below the start (`src/**/test_*.py`).",
            },
            read_only=True,
            idempotent=True,
        ),
        _search_files,
    ),
)
