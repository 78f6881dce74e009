"""Runs actions with the real tools in a scratch place, and keeps the trajectory."""

from __future__ import annotations

from pathlib import Path

from lwm_agents.places.place import RealPlace
from lwm_agents.tools.base import Tool, builtin_tools
from lwm_agents.values import Action, Json, Observation, Trajectory, Transition

TOOLS: dict[str, Tool] = builtin_tools(database=True)


class Scratch:
    """A real root and database, and what happened there so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = RealPlace(
            root, "sqlite:///scratch.db", "live", environment={"LC_ALL": "C.UTF-8"}
        )
        self.trajectory = Trajectory(
            session="scratch", tools=tuple(tool.spec for tool in TOOLS.values())
        )

    async def run(self, tool: str, **arguments: Json) -> Observation:
        """Run one action for real, and append it to the trajectory."""
        action = Action(tool=tool, arguments=arguments)
        refused = TOOLS[tool].refusal(arguments, str(self.place.root))
        if refused is not None:
            seen = Observation(text=refused, source="executed", is_error=True)
        else:
            seen = await TOOLS[tool].run(arguments, self.place)
        transition = Transition(
            session="scratch",
            step=len(self.trajectory.transitions) + 1,
            action=action,
            observation=seen,
        )
        self.trajectory = self.trajectory.model_copy(
            update={"transitions": (*self.trajectory.transitions, transition)}
        )
        return seen

    def close(self) -> None:
        """Give the place back."""
        self.place.close()


def call(text: str) -> tuple[str, dict[str, Json]]:
    """Return the tool and arguments of a short form: `$ command`, `read a`, `sql …`, …"""
    verb, _, rest = text.partition(" ")
    if verb == "$":
        return "shell", {"command": rest}
    if verb == "write":
        path, _, content = rest.partition(" ")
        return "write_file", {"path": path, "content": content}
    if verb == "edit":
        path, old, new = rest.split(" ")
        return "edit_file", {"path": path, "old_text": old, "new_text": new}
    if verb == "move":
        source, destination = rest.split(" ")
        return "move_file", {"source": source, "destination": destination}
    if verb == "search":
        path, pattern = rest.split(" ")
        return "search_files", {"path": path, "pattern": pattern}
    if verb in {"query", "sql"}:
        return ("sql_query" if verb == "query" else "sql_execute"), {"query": rest}
    if verb == "schema":
        return "sql_schema", {}
    name = {"read": "read_file", "list": "list_directory", "delete": "delete_file"}[verb]
    return name, {"path": rest}
