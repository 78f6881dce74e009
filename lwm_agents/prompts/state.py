"""The known state: what a history establishes, worked out by code from the log alone.

Folds over the transitions one at a time and never looks at a live tool. What a step may have
changed in ways that can't be followed is forgotten; what is left is certain as far as a log can be:
a change made from outside the session, or a link that it never showed, is not in it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lwm_agents.places.sqlite import ROW_LIMIT, Rows
from lwm_agents.prompts.bash import literal, only_reads
from lwm_agents.prompts.certain import unless_odd
from lwm_agents.prompts.discreet import redacted, shown, shown_json
from lwm_agents.prompts.disk import Disk, Kind
from lwm_agents.prompts.reads import command_of, is_read, query_of
from lwm_agents.prompts.records import Records, mentioned
from lwm_agents.prompts.schemas import Schemas
from lwm_agents.prompts.shell import Machine, absolute_cwd, absorb, simulate
from lwm_agents.prompts.tables import Tables
from lwm_agents.tools.database import DATABASE_TOOLS, render
from lwm_agents.tools.files import FILE_TOOLS
from lwm_agents.tools.shell import SHELL_SPEC
from lwm_agents.values import Action, Json, Observation, ToolSpec, Trajectory, Transition

BUILT_IN = {tool.spec.name: tool.spec.hash for tool in (*FILE_TOOLS, *DATABASE_TOOLS)} | {
    SHELL_SPEC.name: SHELL_SPEC.hash
}
"""The hash of each built-in tool's spec: only their answers have a form that is known exactly."""

_FILE_TOOLS = frozenset(tool.spec.name for tool in FILE_TOOLS)
_SQL_TOOLS = frozenset(tool.spec.name for tool in DATABASE_TOOLS)
_REAL = frozenset({"executed", "rehearsed", "recalled"})
_ELSEWHERE = frozenset({"web", "search", "android"})
"""Domains whose tools do not change this machine's files."""

_LONGEST_LISTING = 200_000  # characters
_SHOWN_CONTENT = 1500  # characters of one known file


@dataclass
class KnownState:
    """What a history establishes. `folded` counts the transitions taken in."""

    machine: Machine = field(default_factory=lambda: Machine(Disk()))
    tables: Tables = field(default_factory=Tables)
    schemas: Schemas = field(default_factory=Schemas)
    records: Records = field(default_factory=Records)
    folded: int = 0

    def fold(self, transition: Transition, spec: ToolSpec | None) -> None:
        """Take in the next transition. One that nothing answered changed nothing.

        Where taking it in fails, all is forgotten.
        """
        self.folded += 1

        def work() -> bool:
            self._fold(transition, spec)
            return True

        if not unless_odd(f"step {transition.step}", work, False):
            self._forget()

    def _forget(self) -> None:
        root = self.machine.disk.root
        self.machine = Machine(Disk(), None)
        self.machine.disk.root = root
        self.tables.reset()
        self.schemas, self.records = Schemas(), Records()

    def _fold(self, transition: Transition, spec: ToolSpec | None) -> None:
        action, seen = transition.action, transition.observation
        if seen.source == "unanswered":
            return
        failed = seen.is_error
        command, query = command_of(action, spec), query_of(action, spec)
        if command is not None:
            self._fold_shell(command, seen, spec)
        elif is_built_in(spec) and action.tool in _FILE_TOOLS:
            self._fold_file(action, seen, failed)
        elif is_built_in(spec) and action.tool in _SQL_TOOLS:
            self._fold_sql(action, seen, failed)
        elif query is not None:
            wrote = not is_read(action, spec) and not failed
            self.schemas.absorb(query, seen.text, wrote=wrote)
            if wrote:
                self.tables.reset()  # it may be the same database by another tool
        else:
            read = is_read(action, spec)
            self.records.absorb(action, seen.text, failed=failed, read=read)
            if not read and (spec is None or spec.domain not in _ELSEWHERE):
                # A tool of unknown effect, perhaps on the same machine.
                self.machine.disk.forget_all()
                self.tables.reset()

    def render(
        self, action: Action, spec: ToolSpec | None, characters: int, *, secrets: bool = True
    ) -> str:
        """Return the known state as text for a prompt: what bears on this action first.

        At most `characters` long; "" where nothing is known. Without secrets unless `secrets`.
        """
        return unless_odd(
            action.tool, lambda: self._rendered(action, spec, characters, secrets), ""
        )

    def _rendered(
        self, action: Action, spec: ToolSpec | None, characters: int, secrets: bool
    ) -> str:
        lines = facts(action, spec, self) + self._told(action, spec, secrets)
        if not secrets:
            lines = [redacted(line) for line in lines]
        kept, used = [], 0
        for line in lines:
            if used + len(line) + 1 > characters:
                continue
            kept.append(line)
            used += len(line) + 1
        return "\n".join(kept)

    def _told(self, action: Action, spec: ToolSpec | None, secrets: bool) -> list[str]:
        lines: list[str] = []
        words = _words(action)
        domain = spec.domain if spec is not None else None
        if domain in {None, "terminal", "files", "code", "api"}:
            lines += self._told_disk(words, secrets)
        query = query_of(action, spec)
        if query is not None or domain == "database":
            for table in self.tables.facts():
                lines.append(
                    f"Table {table.name}: {table.count} rows, columns {', '.join(table.columns)}"
                )
                if table.name.lower() in words and table.rows:
                    lines.append(f"Rows of {table.name}:\n{table.rows.rstrip()}")
            lines += self.schemas.lines()
        for name, record in self.records.named(action):
            lines.append(f"Record {name}: {record if secrets else shown_json(record)}")
        return lines

    def _told_disk(self, words: set[str], secrets: bool) -> list[str]:
        machine = self.machine
        lines: list[str] = []
        cwd = absolute_cwd(machine) or machine.cwd
        if cwd not in {None, "."}:
            lines.append(f"Working directory: {cwd}")
        listings = machine.disk.listings()
        named: list[str] = []
        others: list[str] = []
        for path, entry in reversed(machine.disk.entries.items()):
            relevant = bool(words & {path.lower(), path.rsplit("/", 1)[-1].lower()})
            if entry.kind == "absent":
                (named if relevant else others).append(f"Does not exist: {path}")
            elif entry.kind == "directory" and entry.whole:
                children = listings.get(path, {})
                names = " ".join(
                    name + ("/" if kind == "directory" else "")
                    for name, kind in sorted(children.items())
                )
                (named if relevant or path == machine.cwd else others).append(
                    f"Directory {path}, all entries: {names or '(empty)'}"
                )
            elif entry.kind == "file" and entry.content is not None:
                size = len(entry.content.encode("utf-8", "replace"))
                head = f"File {path}: {size} bytes, {entry.content.count(chr(10))} lines"
                if relevant and entry.content:
                    content = shown(entry.content, _SHOWN_CONTENT, secrets=secrets)
                    named.append(f"{head}, content:\n{content}")
                else:
                    (named if relevant else others).append(head)
        return [*lines, *named, *others[:20]]

    def _fold_shell(self, command: str, seen: Observation, spec: ToolSpec | None) -> None:
        machine, ours = self.machine, is_built_in(spec)
        before = machine.copy()
        structured = seen.structured if isinstance(seen.structured, dict) else {}
        code = structured.get("exit_code")
        succeeded: bool | None = None
        if isinstance(code, int):
            succeeded = code == 0
        elif seen.error_known:
            succeeded = not seen.is_error
        expected = simulate(command, machine)
        if expected is not None and seen.source in _REAL and ours:
            if shell_text(expected.text, expected.code).rstrip() != seen.text.rstrip():
                # What had to come out did not: something that the log does not show was at work.
                machine.disk.forget_all()
                machine.cwd = None
                self.tables.reset()
        elif expected is None:
            absorb(command, seen.text, succeeded, machine)
            if not only_reads(command) and not _keeps_databases(before, machine):
                self.tables.reset()
        cwd = structured.get("cwd")
        if isinstance(cwd, str) and cwd.startswith("/"):
            self._learn_cwd(before, command, cwd, failed=succeeded is False)
        elif not ours and machine.cwd != before.cwd:
            # Whether another tool's shell keeps its directory is not known until `pwd` says so.
            machine.cwd = None if only_reads(command) is False else machine.cwd

    def _learn_cwd(self, before: Machine, command: str, cwd: str, *, failed: bool) -> None:
        machine = self.machine
        if machine.disk.root is None and before.cwd == ".":
            moves = re.search(r"\b(cd|pushd|popd|source|eval)\b", command)
            below = machine.cwd
            words = _only_command(command)
            if failed and words is not None and words[0] == "cd":
                machine.disk.learn_root(cwd)  # a `cd` that failed moved nowhere
            elif below == "." and (only_reads(command) or not moves):
                machine.disk.learn_root(cwd)
            elif below and below[0] not in "./" and cwd.endswith(f"/{below}"):
                machine.disk.learn_root(cwd.removesuffix(f"/{below}") or "/")
        key = machine.disk.key(cwd)
        if key is not None and machine.disk.status(key) == "absent":
            machine.disk.forget(key)
            machine.cwd = None  # where the next command runs, its answer will say
            return
        if key is not None and machine.disk.status(key) != "directory":
            machine.disk.make_directory(key, empty=False, made=False)
        machine.cwd = key

    def _fold_file(self, action: Action, seen: Observation, failed: bool) -> None:
        disk, arguments = self.machine.disk, action.arguments
        name = "source" if action.tool == "move_file" else "path"
        path = arguments.get(name)
        key = disk.key(path) if isinstance(path, str) else None
        if key is None:
            if not failed and not is_read(action, None):
                disk.forget_all()
            return
        if failed:
            if seen.text == f"No such file: {path}" or seen.text == f"No such directory: {path}":
                disk.miss(key)
            elif not is_read(action, None):
                disk.forget(key)
            return
        if action.tool == "read_file":
            disk.write(key, seen.text if seen.raw is None else None, made=False)
        elif action.tool == "write_file":
            self._database_file(key)
            disk.write(key, str(arguments.get("content", "")))
        elif action.tool == "edit_file":
            self._database_file(key)
            disk.write(key, _edited(disk.content(key), arguments))
        elif action.tool == "delete_file":
            self._database_file(key)
            disk.remove(key)
        elif action.tool == "list_directory":
            names = _listed(seen)
            if names is None:
                disk.forget(key)
            else:
                disk.list(key, names)
        elif action.tool == "move_file":
            destination = disk.key(str(arguments.get("destination", "")))
            self._database_file(key)
            if destination is None:
                disk.forget_all()
            elif disk.status(key) is None:
                disk.remove(key)
                disk.forget(destination)
            else:
                disk.move(key, destination)

    def _database_file(self, key: str) -> None:
        """A file that was there before may be the database, whatever its name."""
        known = self.machine.disk.entries.get(key)
        made = known is not None and known.made
        if not made and self.machine.disk.status(key) != "absent":
            self.tables.reset()

    def _fold_sql(self, action: Action, seen: Observation, failed: bool) -> None:
        query = action.arguments.get("query")
        real = seen.source in _REAL
        if action.tool == "sql_schema":
            structured = seen.structured if isinstance(seen.structured, dict) else {}
            listed = structured.get("tables")
            if isinstance(listed, list) and not failed:
                names = [str(table.get("name")) for table in listed]
                whole = real and len(names) < ROW_LIMIT and not seen.text.endswith(" more]\n")
                self.tables.saw_schema(names, seen.text, whole=whole)
            return
        if not isinstance(query, str):
            return
        parameters = action.arguments.get("parameters")
        if action.tool == "sql_execute":
            if not failed and not self.tables.alive:
                self.machine.disk.doubt_listings()  # the first write makes the database's file
            self.tables.absorb(query, parameters, seen.text if real else None, failed)
            return
        self.tables.alive = self.tables.alive or not failed
        if real and self.tables.image:
            expected = self.tables.answer(query, parameters, writes=False)
            if expected is not None and sql_text(expected).strip() != seen.text.strip():
                self.tables.reset()


def known_state(trajectory: Trajectory, state: KnownState | None = None) -> KnownState:
    """Return the known state after a trajectory.

    `state` is one of an earlier part of the same trajectory, which is taken further in place.
    """
    state = state or KnownState()
    for transition in trajectory.transitions[state.folded :]:
        state.fold(transition, trajectory.tool(transition.action.tool))
    return state


def is_built_in(spec: ToolSpec | None) -> bool:
    """Return whether a spec is that of one of our own tools, whose answers' form is known."""
    return spec is not None and BUILT_IN.get(spec.name) == spec.hash


def shell_text(text: str, code: int) -> str:
    """Return what our shell tool shows for an output and an exit code."""
    if not code:
        return text
    return text + ("\n" if text and not text.endswith("\n") else "") + f"[exit {code}]"


def sql_text(answer: Rows | str) -> str:
    """Return what our SQL tools show for rows or for an error message."""
    return f"Error: {answer}" if isinstance(answer, str) else render(answer)


def facts(action: Action, spec: ToolSpec | None, state: KnownState) -> list[str]:
    """Return what follows from the history for this very action, a line each."""
    lines: list[str] = []
    query = query_of(action, spec)
    if query is not None and not is_built_in(spec):
        lines += state.schemas.about(query)
    for name, value in action.arguments.items():
        if isinstance(value, str) and (number := arithmetic(value)) is not None:
            lines.append(f"{value.strip()} = {number}")
        elif name == "content" and isinstance(value, str):
            size = len(value.encode("utf-8", "replace"))
            lines.append(f"The content is {size} bytes, {value.count(chr(10))} lines")
    return lines


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def arithmetic(text: str) -> float | int | None:
    """Return the value of a sum of numbers with + - * / and brackets; None for anything else."""
    if len(text) > 300 or not re.fullmatch(r"[0-9\s.+*/()-]*[+*/-][0-9\s.+*/()-]*", text):
        return None
    if not re.search(r"\d\s*[+*/-]", text) and not re.search(r"\)\s*[+*/-]", text):
        return None
    if re.fullmatch(r"\s*\d+-\d+-\d+\s*|\s*\d+/\d+/\d+\s*", text):
        return None  # a date
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float | int:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("no plain sum")


def _only_command(command: str) -> tuple[str, ...] | None:
    """Return the words of a command that is one literal simple command, else None."""
    pipelines = literal(command)
    if not pipelines or len(pipelines) != 1 or len(pipelines[0].commands) != 1:
        return None
    return pipelines[0].commands[0].words


def _edited(content: str | None, arguments: dict[str, Json]) -> str | None:
    old, new = arguments.get("old_text"), arguments.get("new_text")
    if content is None or not isinstance(old, str) or not isinstance(new, str):
        return None
    return content.replace(old, new, 1) if content.count(old) == 1 else None


def _listed(seen: Observation) -> dict[str, Kind] | None:
    """Return the entries a listing shows, None where they can't be told from its text."""
    names: dict[str, Kind] = {}
    if len(seen.text) > _LONGEST_LISTING:
        return None
    structured = seen.structured.get("entries") if isinstance(seen.structured, dict) else None
    if isinstance(structured, list):
        for entry in structured:
            kind = entry.get("type")
            if kind not in {"file", "directory", "link"} or "\\" in entry.get("name", "\\"):
                return None
            names[entry["name"]] = kind
        return names
    for line in seen.text.split("\n"):
        if "\\" in line:
            return None
        if " -> " in line:
            names[line.split(" -> ")[0]] = "link"
        elif line:
            names[line.removesuffix("/")] = "directory" if line.endswith("/") else "file"
    return names


def _keeps_databases(before: Machine, after: Machine) -> bool:
    """Return whether only files that this session made, or that were not there, have changed."""
    changed = set(before.disk.entries.items()) ^ set(after.disk.entries.items())
    if not after.disk.entries and before.disk.entries:
        return False
    for path, _ in changed:
        known = before.disk.entries.get(path)
        there = before.disk.status(path)
        if not (there in {"absent", "directory"} or (known is not None and known.made)):
            return False
    return bool(changed)


def _words(action: Action) -> set[str]:
    """Return the words, paths and last names of paths in an action's arguments, lower case."""
    words: set[str] = set()
    for text in [*mentioned(action), *(v for v in action.arguments.values() if isinstance(v, str))]:
        for word in re.findall(r"[\w./@:-]+", text[:2000]):
            words |= {
                word.lower(),
                word.removeprefix("./").lower(),
                word.rsplit("/", 1)[-1].lower(),
            }
    return words
