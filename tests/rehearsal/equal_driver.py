"""Runs sequences of calls in a copy and then for real at the same path, and compares. Prints JSON.

python equal_driver.py FOLDER CALLS SEED [progress], where FOLDER is empty and below no repository,
and PYTHONPATH names the folder of `watcher`. For each
sequence: the calls are rehearsed, and nothing outside may have changed; the rehearsal is committed,
and the tree is pictured; the tree is made anew, the calls are run for real, and all is compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import watcher
from generator import LENGTH, sequence
from pictures import Picture, picture, tell_apart
from scratch import DATABASE, copy_template, make_template, remove

from lwm_agents.errors import LwmError
from lwm_agents.places.copy import CopyPlace
from lwm_agents.places.place import CannotSay, Place, RealPlace
from lwm_agents.rehearsed import Rehearsed
from lwm_agents.scores import masked, same
from lwm_agents.tools.base import builtin_tools
from lwm_agents.values import Action, Json, Observation

TOOLS = builtin_tools(database=True)
TIMEOUT = 30.0
"""Seconds for one command: none should need one."""


@dataclass
class Difference:
    """A call whose rehearsal was not what really happened. `first`: none before it differed."""

    seed: int
    call: int
    first: bool
    tool: str
    arguments: dict[str, object]
    rehearsed: str
    real: str


@dataclass
class Report:
    """What came of it. `leaks` are changes outside during a rehearsal, `commits` what differs
    between a tree after a commit and after running for real."""

    calls: int = 0
    identical: int = 0
    unsaid: int = 0
    sequences: int = 0
    differences: list[Difference] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    tools: dict[str, int] = field(default_factory=dict)


class Comparison:
    """Everything in one folder: the tree, a home, a temporary folder, and sessions' folders."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template"
        self._world = folder / "world"
        self._root = self._world / "root"
        self._sessions = folder / "sessions"
        for name in ("home", "tmp"):
            (self._world / name).mkdir(parents=True)
        (self._world / "home").rmdir()
        make_template(self._template, self._world / "home")
        os.environ |= {"HOME": str(self._world / "home"), "TMPDIR": str(self._world / "tmp")}
        self.report = Report()

    async def one(self, seed: int, calls: int) -> None:
        """Compare one sequence."""
        actions = sequence(seed, str(self._root), calls)
        copy_template(self._template, self._root)
        before = watcher.tree(self._world)
        rehearsed = Rehearsed(str(self._root), DATABASE, self._sessions / str(seed))
        place = rehearsed.begin()
        assert isinstance(place, CopyPlace)
        predicted = await answers(place, actions)
        rehearsed.end()
        if (after := watcher.tree(self._world)) != before:
            changed = [
                path for path in before.keys() | after if before.get(path) != after.get(path)
            ]
            self.report.leaks.append(f"sequence {seed}: {sorted(changed)}")
        committed = self._committed(rehearsed, seed)
        rehearsed.discard()
        self._renew()
        real = RealPlace(self._root, DATABASE, "live")
        happened = await answers(real, actions)
        real.close()
        agree = self._compare(seed, actions, predicted, happened)
        if committed is not None and agree:
            found = tell_apart(committed, picture(self._root))
            self.report.commits += [f"sequence {seed}: {one}" for one in found]
        self._renew()
        self.report.sequences += 1

    def _committed(self, rehearsed: Rehearsed, seed: int) -> Picture | None:
        """Commit, and return what the tree is now; times must be the rehearsal's."""
        try:
            changes = rehearsed.diff()
            rehearsed.commit(changes)
        except (LwmError, OSError) as error:
            self.report.commits.append(f"sequence {seed}: not committed: {error!r}"[:500])
            return None
        wrong = [
            change.path
            for change in changes.inside
            if change.new is not None
            and (state := self._lstat(change.path)) is not None
            and state.st_mtime_ns != change.new.modified_ns
        ]
        self.report.commits += [f"sequence {seed}: the time of {path}" for path in wrong]
        return picture(self._root)

    def _lstat(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(self._root / path)
        except OSError:
            return None

    def _renew(self) -> None:
        for path in self._world.iterdir():
            if path.name not in {"root", "home", "tmp"}:
                remove(path)
        for path in (self._world / "tmp").iterdir():
            remove(path) if path.is_dir() else path.unlink()
        copy_template(self._template, self._root)

    def _compare(
        self,
        seed: int,
        actions: Sequence[Action],
        predicted: Sequence[Observation | CannotSay],
        happened: Sequence[Observation | CannotSay],
    ) -> bool:
        agree = True
        for number, (action, left, right) in enumerate(
            zip(actions, predicted, happened, strict=True)
        ):
            self.report.calls += 1
            self.report.tools[action.tool] = self.report.tools.get(action.tool, 0) + 1
            assert isinstance(right, Observation)
            if isinstance(left, Observation) and equal(left, right, action):
                self.report.identical += 1
                continue
            self.report.unsaid += isinstance(left, CannotSay)
            self.report.differences.append(
                Difference(
                    seed,
                    number,
                    agree,
                    action.tool,
                    dict(action.arguments),
                    said(left, action),
                    said(right, action),
                )
            )
            agree = False
        return agree


async def answers(place: Place, actions: Sequence[Action]) -> list[Observation | CannotSay]:
    """Run the calls one after another; none from outside of the root."""
    found: list[Observation | CannotSay] = []
    for action in actions:
        if not (place.cwd + "/").startswith(place.root + "/"):
            place.cwd = place.root
        arguments = dict(action.arguments)
        if action.tool == "shell":
            arguments["timeout"] = TIMEOUT
        try:
            found.append(await answer(place, action.tool, arguments))
        except CannotSay as reason:
            found.append(reason)
    return found


async def answer(place: Place, name: str, arguments: dict[str, Json]) -> Observation:
    """Run a tool as a session does: a refusal is an error as well."""
    refused = TOOLS[name].refusal(arguments, place.root)
    if refused is not None:
        return Observation(text=refused, source=place.source, is_error=True)
    return await TOOLS[name].run(arguments, place)


def equal(left: Observation, right: Observation, action: Action) -> bool:
    """Say whether two observations are the same after masking: text, error, and structure."""
    if not same(left, right, action):
        return False
    if left.structured == right.structured:
        return True
    one, two = (masked(json.dumps(o.structured), action) for o in (left, right))
    return one == two


def said(observation: Observation | CannotSay, action: Action) -> str:
    if isinstance(observation, CannotSay):
        return f"(cannot say: {observation})"
    return masked(observation.text, action)[:2000] + (
        "" if action.tool != "shell" else f" {json.dumps(observation.structured)}"
    )


async def main() -> None:
    folder, calls, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    above = [path for path in [folder, *folder.parents] if (path / ".git").exists()]
    assert not above, f"commands of git could reach {above}"
    comparison = Comparison(folder)
    seeds = range(1000 * first, 1000 * first + -(-calls // LENGTH))
    for number, seed in enumerate(seeds):
        await comparison.one(seed, min(LENGTH, calls - number * LENGTH))
        if len(sys.argv) > 4:
            report = comparison.report
            print(seed, report.identical, "of", report.calls, file=sys.stderr, flush=True)
    print(json.dumps(asdict(comparison.report)))


if __name__ == "__main__":
    asyncio.run(main())
