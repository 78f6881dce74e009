"""What the tests of tools share: a place, and a call as a session makes it."""

from __future__ import annotations

from pathlib import Path

from lwm_agents.places.place import Place
from lwm_agents.tools import Tool, argument_errors, builtin_tools
from lwm_agents.values import Json, Observation

TOOLS = builtin_tools(database=True)


async def call(place: Place, name: str, **arguments: Json) -> Observation:
    """Run a tool whose arguments were checked; a refusal is an error as well."""
    tool: Tool = TOOLS[name]
    refused = argument_errors(tool.spec, arguments) or tool.refusal(arguments, place.root)
    if refused:
        return Observation(text=refused, source=place.source, is_error=True)
    return await tool.run(arguments, place)


def tree(folder: Path) -> dict[str, object]:
    """Return every name below a folder with its kind, content, mode and time of change."""
    found: dict[str, object] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        state = path.lstat()
        content = (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
        found[str(path)] = (state.st_mode, state.st_mtime_ns, state.st_ino, content)
    return found
