"""A session: one continuous run with its mode, its state and its log."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from lwm_agents.changes.change import Changes
from lwm_agents.committing import Commit
from lwm_agents.config import Config, load_config
from lwm_agents.engines import engine_from
from lwm_agents.engines.base import Engine
from lwm_agents.engines.metered import MeteredEngine
from lwm_agents.errors import Misuse
from lwm_agents.gate import Gate, Policy
from lwm_agents.gate.approvals import Approval, ApprovalRequest, Approver, NoApprover
from lwm_agents.places.place import RealPlace
from lwm_agents.places.sqlite import database_path
from lwm_agents.places.threads import in_thread
from lwm_agents.predicting import predictor
from lwm_agents.rehearsed import Rehearsed, own, session_folder
from lwm_agents.shadow import Shadow
from lwm_agents.store import SessionRecord, Store
from lwm_agents.tools.base import Tool, builtin_tools
from lwm_agents.tools.functions import FunctionTool, tool_from
from lwm_agents.values import Action, Json, Mode, Observation, ToolSpec, Trajectory
from lwm_agents.worlds.base import World
from lwm_agents.worlds.real import RealWorld
from lwm_agents.worlds.rehearsal import RehearsalWorld


class Session:
    """Answers actions in one mode, and logs every one.

        async with Session.open(mode="dry-run", root=".", engine="model.gguf") as session:
            seen = await session.call("shell", command="make clean")

    Calls of one session are answered one after another, in the order they arrive.
    """

    def __init__(self, mode: Mode | None, options: dict[str, Any]) -> None:
        self._mode = mode
        self._options = options
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()
        self._shadow: Shadow | None = None
        self.rehearsed: Rehearsed | None = None
        self._commit: Commit | None = None
        self._ended = False
        now = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        self.id = f"{now}-{secrets.token_hex(4)}"

    @classmethod
    def open(
        cls,
        mode: Mode | None = None,
        *,
        root: str | Path = ".",
        database: str | None = None,
        engine: str | Engine | None = None,
        policy: str | Path | Policy | None = None,
        store: str | Path | Store | None = None,
        tools: Sequence[object] = (),
        approver: Approver | None = None,
        world: World | None = None,
        task: str = "",
        seed: int | None = None,
        prompts: str | Path | None = None,
        rehearsal: bool | None = None,
    ) -> Self:
        """Prepare a session; `async with` begins it.

        `mode` says what happens to an action (`lwm_agents.values.Mode`). `tools` adds Python
        functions, LangChain tools or `ToolSpec`s to the built-in ones. `approver` is asked in
        gated mode; without one the answer is no. `world` takes the place of all worlds that
        predict. `rehearsal` says whether files, shell and SQLite are predicted by running them in a
        throw-away copy; where it is not said, they are, but in compare mode, where the real call
        must not wait. What is not given comes from the config files, and the mode is dry-run where
        they do not say.

        Raises Misuse where an option makes no sense; beginning it raises Misuse, EngineError or
        StoreError.
        """
        if mode is not None and mode not in get_args(Mode):
            raise Misuse(f"there is no mode {mode!r}; use one of {', '.join(get_args(Mode))}")
        if approver is not None and not isinstance(approver, Approver):
            raise Misuse(
                f"not an approver: {approver!r}; a function becomes one with CallbackApprover"
            )
        if engine is not None and not isinstance(engine, str | Engine):
            raise Misuse(f"not an engine: {engine!r}; give a text that names one, or an Engine")
        options = dict(locals())
        del options["cls"], options["mode"]
        return cls(mode, options)

    async def __aenter__(self) -> Self:
        if self._shadow is not None:
            raise Misuse(f"session {self.id} was begun before; open another one")
        try:
            self._shadow = self._begin(**self._options)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        await self._stack.aclose()

    @property
    def mode(self) -> Mode:
        """What this session does with an action."""
        return self._begun.mode

    @property
    def trajectory(self) -> Trajectory:
        """What has happened so far."""
        return self._begun.trajectory

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that this session knows."""
        return self._begun.trajectory.tools

    async def call(self, tool: str, /, **arguments: Json) -> Observation:
        """Call a tool by name with its arguments; see `step`."""
        return await self.step(Action(tool=tool, arguments=arguments))

    async def step(self, action: Action) -> Observation:
        """Answer one action as the mode says, log the transition, and return the observation.

        What a tool would answer, errors and refusals included, is an observation. A world model
        that failed raises EngineError and a log that can't be written StoreError; in a dry run
        nothing has happened then.
        """
        async with self._turn:
            if self._ended:
                raise Misuse(f"session {self.id} has ended; open another one")
            return await self._begun.step(action)

    def diff(self) -> Changes:
        """Return what this dry run would change for real. Raises Misuse in other modes."""
        return self._kept.diff()

    def commit_request(self, *, elsewhere: Sequence[str] = ()) -> ApprovalRequest:
        """Return what must be approved for `commit`: the changes as they are now."""
        self._commit = Commit(self._log, self.id, self._kept, self.diff(), elsewhere=elsewhere)
        return self._commit.request

    async def commit(self, approval: Approval | Approver | None = None) -> list[str]:
        """Make the changes real that `commit_request` asked for; return the absolute paths.

        `approval` is a yes to that request, or who can be asked; without either it is whoever the
        session was opened with. Raises as `lwm_agents.committing.Commit.perform` does.
        """
        async with self._turn:
            if self._commit is None:
                self.commit_request()
            work, self._commit = self._commit, None
            assert work is not None
            try:
                return await work.perform(approval or self._options["approver"])
            finally:
                if work.logged is not None:
                    self._begun.add(work.logged)
                # Nothing may change under a copy: the next call opens it over what is real now.
                await in_thread(self._kept.end)

    async def undo(self) -> list[str]:
        """Give back what was before the commit; return the absolute paths."""
        async with self._turn:
            return await in_thread(self._kept.undo)

    async def discard(self) -> None:
        """Throw away what was rehearsed so far; the next call begins anew from what is real."""
        async with self._turn:
            await in_thread(self._kept.end)
            await in_thread(self._kept.discard)

    @property
    def _kept(self) -> Rehearsed:
        if self._begun.mode != "dry-run" or self.rehearsed is None:
            raise Misuse(f"a session in {self.mode} mode keeps no changes; a dry run does")
        return self.rehearsed

    @property
    def _begun(self) -> Shadow:
        if self._shadow is None:
            raise Misuse("the session has not begun: use `async with Session.open(…) as session`")
        return self._shadow

    def _begin(
        self,
        *,
        root: str | Path,
        database: str | None,
        engine: str | Engine | None,
        policy: str | Path | Policy | None,
        store: str | Path | Store | None,
        tools: Sequence[object],
        approver: Approver | None,
        world: World | None,
        task: str,
        seed: int | None,
        prompts: str | Path | None,
        rehearsal: bool | None,
    ) -> Shadow:
        folder = Path(root).expanduser().resolve()
        if not folder.is_dir():
            raise Misuse(f"the root is no directory: {folder}")
        if database is not None:
            database_path(database, str(folder))
        config = load_config(folder, os.environ)
        mode = self._mode or config.mode
        specs, known = _tools(tools, with_database=database is not None)
        gate = Gate.of(
            mode,
            folder,
            policy or config.policy,
            project_policy=config.project_policy,
            builtin=[n for n, tool in known.items() if not isinstance(tool, FunctionTool)],
            declared={
                name: tool.effect
                for name, tool in known.items()
                if isinstance(tool, FunctionTool) and tool.effect is not None
            },
            dialect="sqlite",
        )
        model = self._engine(engine, config)
        real = None
        if mode != "dry-run":
            real = RealWorld(known, RealPlace(folder, database, mode))
            self._stack.callback(real.place.close)
        log = self._log = self._store(store, config)
        log.create_session(
            SessionRecord(
                id=self.id,
                mode=mode,
                task=task,
                root=str(folder),
                database=database,
                engine=None if model is None else model.name,
            )
        )
        for spec in specs:
            log.pin(spec, session=self.id)
        rehearsed = None
        if rehearsal is None:
            rehearsal = mode in {"dry-run", "gated"}
        if world is None and rehearsal and mode != "live":
            rehearsed = self._rehearsal(mode, folder, database, known, log, real)
        if world is None:
            world = predictor(
                model,
                config,
                log,
                folder,
                rehearsal=rehearsed,
                seed=(config.seed or 0) if seed is None else seed,
                prompts=prompts or config.prompts,
            )
        return Shadow(
            mode=mode,
            root=str(folder),
            trajectory=Trajectory(session=self.id, task=task, tools=specs),
            tools=known,
            gate=gate,
            approver=approver or NoApprover(),
            store=log,
            predictor=world,
            real=real,
            rehearsal=rehearsed,
            meter=model,
        )

    def _rehearsal(
        self,
        mode: Mode,
        root: Path,
        database: str | None,
        known: Mapping[str, Tool],
        log: Store,
        real: RealWorld | None,
    ) -> RehearsalWorld:
        """Return the world that runs our own tools in a copy; in a dry run it is kept."""
        self.rehearsed = Rehearsed(str(root), database, session_folder(log, self.id), own(log))
        world = RehearsalWorld(
            {name: tool for name, tool in known.items() if not isinstance(tool, FunctionTool)},
            self.rehearsed,
            fresh=mode != "dry-run",
            cwd=None if real is None else lambda: real.place.cwd,
        )
        self._stack.callback(world.close)
        return world

    def _engine(self, engine: str | Engine | None, config: Config) -> MeteredEngine | None:
        chosen = engine or config.engine
        if chosen is None:
            return None
        made = engine_from(chosen)
        if isinstance(chosen, str):
            # An engine that was handed in belongs to whoever did, and may serve other sessions.
            self._stack.push_async_callback(made.close)
        return MeteredEngine(made)

    def _store(self, store: str | Path | Store | None, config: Config) -> Store:
        if isinstance(store, Store):
            return store
        return self._stack.enter_context(Store(store or config.store))


def _tools(
    given: Sequence[object], *, with_database: bool
) -> tuple[tuple[ToolSpec, ...], dict[str, Tool]]:
    """Return the specs of every tool, and those tools that can run, by name."""
    tools = builtin_tools(database=with_database)
    specs = {name: tool.spec for name, tool in tools.items()}
    for one in given:
        spec, tool = tool_from(one)
        if spec.name in specs:
            raise Misuse(f"two tools are named {spec.name}")
        specs[spec.name] = spec
        if tool is not None:
            tools[spec.name] = tool
    return tuple(specs.values()), tools
