"""To shadow a tool is to stand in front of it: what one action comes to in each mode.

`lwm_agents.session` builds a Shadow and hands it one action at a time. Only a Shadow that was given
a real world can execute, and in a dry run there is none to give.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lwm_agents.digests import parse, readable
from lwm_agents.engines.metered import MeteredEngine
from lwm_agents.errors import Misuse, PromiseError
from lwm_agents.gate.approvals import Approval, ApprovalRequest, Approver, matches
from lwm_agents.gate.caps import Spent
from lwm_agents.gate.effects import FILE_TOOLS
from lwm_agents.gate.gate import Gate, Verdict
from lwm_agents.places.threads import in_thread
from lwm_agents.scores import fidelity
from lwm_agents.store import Store
from lwm_agents.tools.base import Tool, argument_errors
from lwm_agents.values import Action, Mode, Observation, ToolSpec, Trajectory, Transition
from lwm_agents.worlds.base import World
from lwm_agents.worlds.real import RealWorld
from lwm_agents.worlds.rehearsal import RehearsalWorld

log = logging.getLogger(__name__)

NO_WORLD = "unanswered: no world can say what this call would do; nothing was executed or made up"
NO_ENGINE = (
    "unanswered: no language model is set, so nothing can predict this call; nothing was executed. "
    "Name one with --engine or LWM_ENGINE, or get one with "
    "`lwm model pull Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`"
)
NEEDS_ENGINE = NO_ENGINE.removeprefix("unanswered: ")
APPROVAL_SECONDS = 300.0
"""How long after it was asked for an approval may be used."""


@dataclass(frozen=True)
class Call:
    """One action on its way: what is known of its tool, and what the gate makes of it."""

    action: Action
    spec: ToolSpec
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """What a call came to: the observation, and what was predicted where it was executed.

    `asked_seconds` is how long somebody took to say yes or no.
    """

    observation: Observation
    prediction: Observation | None = None
    started_id: str | None = None
    asked_seconds: float = 0.0


class Shadow:
    """Answers one action after another in one mode, and logs each.

    `tools` are those that can run, by name; a tool in the trajectory that is not among them can be
    predicted only. `predictor` is the world that answers without executing, None where there is
    none; `meter` tells what it cost in tokens. `rehearsal` is the part of it that runs tools in a
    copy; in the real modes it answers reads, and shows what an approval would change. `real` is
    None in a dry run, always.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        root: str,
        trajectory: Trajectory,
        tools: Mapping[str, Tool],
        gate: Gate,
        approver: Approver,
        store: Store,
        predictor: World | None,
        real: RealWorld | None,
        rehearsal: RehearsalWorld | None = None,
        meter: MeteredEngine | None = None,
    ) -> None:
        if (real is None) != (mode == "dry-run"):
            raise PromiseError("a dry run has no real world, and every other mode has one")
        self.trajectory = trajectory
        self.mode = mode
        self._root = root
        self._tools = tools
        self._gate = gate
        self._approver = approver
        self._store = store
        self._predictor = predictor
        self._real = real
        self._rehearsal = rehearsal
        self._meter = meter
        self._spent = Spent()

    async def step(self, action: Action) -> Observation:
        """Answer one action, append the transition to the log and to the trajectory.

        Raises Misuse where the arguments are no JSON.
        """
        action = _own(action)
        started_at, clock = time.time(), time.perf_counter()
        spec = self.trajectory.tool(action.tool)
        verdict = self._gate.judge(action, spec, self._spent)
        outcome = await self._outcome(action, spec, verdict)
        observation, prediction = outcome.observation, outcome.prediction
        usage = None if self._meter is None else self._meter.take()
        transition = Transition(
            session=self.trajectory.session,
            step=len(self.trajectory.transitions) + 1,
            action=action,
            observation=observation,
            effect=verdict.effect,
            tool_hash=None if spec is None else spec.hash,
            started_at=started_at,
            latency_ms=(time.perf_counter() - clock - outcome.asked_seconds) * 1000,
            prediction=prediction,
            fidelity=_score(prediction, observation, action),
            engine=None if usage is None or self._meter is None else self._meter.name,
            usage=usage,
        )
        self._store.append(transition, started_id=outcome.started_id)
        self.add(transition)
        return observation

    def add(self, transition: Transition) -> None:
        """Take what is in the log already into the trajectory."""
        transitions = (*self.trajectory.transitions, transition)
        self.trajectory = self.trajectory.model_copy(update={"transitions": transitions})

    async def _outcome(self, action: Action, spec: ToolSpec | None, verdict: Verdict) -> Outcome:
        if spec is None:
            known = ", ".join(tool.name for tool in self.trajectory.tools)
            return Outcome(_unanswered(f"there is no tool {action.tool!r}; known: {known}"))
        said = argument_errors(spec, action.arguments)
        if said is None and (tool := self._tools.get(action.tool)) is not None:
            said = tool.refusal(action.arguments, self._root)
        if said is not None:
            # What a tool refuses before it acts, it refuses anywhere.
            refusing = "rehearsed" if self._real is None else self._real.place.source
            return Outcome(Observation(text=said, source=refusing, is_error=True))
        if verdict.decision.answer == "deny":
            rule = f" ({verdict.decision.rule})" if verdict.decision.rule else ""
            return Outcome(_unanswered(f"denied, not executed: {verdict.decision.reason}{rule}"))
        self._spent += verdict.cost
        return await self._answer(Call(action, spec, verdict), self._real)

    async def _answer(self, call: Call, real: RealWorld | None) -> Outcome:
        if real is None:
            return Outcome(await self._predict(call) or self._no_answer())
        if call.action.tool not in self._tools:
            text = f"{call.action.tool} is known by its spec only, so it can't be executed"
            return Outcome(_unanswered(text))
        decision = call.verdict.decision
        # Where nobody but the mode asks, it asks because running a command is more than reading.
        asks = decision.answer == "ask"
        if not asks or decision.rule is None:
            seen = await self._read(call, real)
            if seen is not None:
                return Outcome(seen)
        if asks:
            return await self._ask_and_execute(call, real)
        if self.mode == "compare":
            return await self._execute_and_predict(call, real)
        return await self._execute(call, real)

    async def _read(self, call: Call, real: RealWorld) -> Observation | None:
        """Answer what only reads from a fresh copy, in gated mode: it may write all the same.

        None where it must be executed to be answered. A command moves the working directory.
        """
        reads = self.mode == "gated" and call.verdict.effect == "read"
        if self._rehearsal is None or not reads or call.action.tool in FILE_TOOLS:
            return None
        seen = await self._rehearsal.step(_own(call.action), self.trajectory)
        if seen is not None and self._rehearsal.copy is not None:
            real.place.cwd = self._rehearsal.copy.cwd
        await self._rehearsal.forget()
        return seen

    def _no_answer(self) -> Observation:
        text = NO_ENGINE if self._meter is None else NO_WORLD
        reason = None if self._rehearsal is None else self._rehearsal.reason
        if reason is not None:
            text = f"unanswered: {reason}; {text.removeprefix('unanswered: ')}"
        return _unanswered(text)

    async def _predict(self, call: Call) -> Observation | None:
        if self._predictor is None:
            return None
        seen = await self._predictor.step(_own(call.action), self.trajectory)
        if seen is not None and seen.source == "executed":
            raise PromiseError(f"a world that predicts says that it executed {call.action.tool}")
        return seen

    async def _predict_or_not(self, call: Call) -> Observation | None:
        """Predict where the call is, or may be, executed anyway: a failed world stops nothing."""
        try:
            return await self._predict(call)
        except Exception as failure:  # noqa: BLE001 - else what was executed would not be logged
            log.warning("no prediction of %s: %s", call.action.tool, failure)
            return None

    async def _execute_and_predict(self, call: Call, real: RealWorld) -> Outcome:
        """Predict while the real call runs; neither sees the other, and neither can stop it.

        Where a copy predicts, the real call waits: the files under a copy must not change.
        """
        if self._rehearsal is not None:
            prediction = await self._predict_or_not(call)
            await self._rehearsal.forget()
            return replace(await self._execute(call, real), prediction=prediction)
        predicting = asyncio.ensure_future(self._predict_or_not(call))
        try:
            outcome = await self._execute(call, real)
        except BaseException:
            predicting.cancel()
            raise
        return replace(outcome, prediction=await predicting)

    async def _ask_and_execute(self, call: Call, real: RealWorld) -> Outcome:
        prediction = await self._predict_or_not(call)
        difference = await self._foreseen(prediction)
        expires_at = time.time() + APPROVAL_SECONDS
        asked = self._request(call, real, expires_at, prediction, difference)
        clock = time.perf_counter()
        approval = await self._approver.decide(asked)
        seconds = time.perf_counter() - clock
        moved = None if approval is None or difference is None else await self._moved()
        if self._rehearsal is not None:
            await self._rehearsal.forget()
        if approval is None:
            text = f"not executed: nobody approved it ({call.verdict.decision.reason})"
            return Outcome(_unanswered(text), prediction, asked_seconds=seconds)
        # Asked again of the world as it is now: the tool and the folder must still be the same.
        if not matches(approval, self._request(call, real, expires_at), time.time()):
            text = "not executed: the approval is of another call, or has expired"
            return Outcome(_unanswered(text), prediction, asked_seconds=seconds)
        if moved:
            text = f"not executed: what was shown is no longer what would change: {moved}"
            return Outcome(_unanswered(text), prediction, asked_seconds=seconds)
        outcome = await self._execute(call, real, approval)
        return replace(outcome, prediction=prediction, asked_seconds=seconds)

    async def _foreseen(self, prediction: Observation | None) -> str | None:
        """Return what the call would change, where it was rehearsed."""
        if self._rehearsal is None or prediction is None or prediction.source != "rehearsed":
            return None
        changes = await in_thread(self._rehearsal.rehearsed.diff)
        return changes.render()

    async def _moved(self) -> str | None:
        """Return what changed for real since the call was rehearsed, where it matters; or None."""
        if self._rehearsal is None:
            return None
        found = await in_thread(self._rehearsal.rehearsed.conflicts)
        return "; ".join(f"{path}: {why}" for path, why in found.items()) or None

    def _request(
        self,
        call: Call,
        real: RealWorld,
        expires_at: float,
        prediction: Observation | None = None,
        difference: str | None = None,
    ) -> ApprovalRequest:
        return ApprovalRequest(
            tool=call.action.tool,
            arguments=_own(call.action).arguments,
            effects=call.verdict.effects,
            tool_hash=call.spec.hash,
            cwd=real.place.cwd,
            root_or_url=_where(call, real),
            session=self.trajectory.session,
            expires_at=expires_at,
            prediction=prediction,
            difference=difference,
        )

    async def _execute(
        self, call: Call, real: RealWorld, approval: Approval | None = None
    ) -> Outcome:
        """Execute once. What may change anything is first logged as started, durably."""
        started_id = None
        if call.verdict.effect != "read" or approval is not None:
            if approval is not None:
                self._store.approve(
                    self.trajectory.session, call.action, approval, effect=call.verdict.effect
                )
            started_id = self._store.start(
                self.trajectory.session,
                len(self.trajectory.transitions) + 1,
                call.action,
                approval_id=None if approval is None else approval.id,
            )
        seen = await real.step(call.action, self.trajectory)
        if seen is None:
            raise PromiseError(f"the real world can't run {call.action.tool}")
        return Outcome(seen, started_id=started_id)


def lacks_engine(text: str) -> bool:
    """Say whether an observation is unanswered for want of a language model."""
    return text.endswith(NEEDS_ENGINE)


def _where(call: Call, real: RealWorld) -> str:
    """Return what a call acts on: the database of an SQL tool, else the root."""
    database = real.place.database
    return database if call.spec.domain == "database" and database else real.place.root


def _own(action: Action) -> Action:
    """Return a copy that shares nothing with the action.

    What is judged, shown and approved must be what runs, whatever happens meanwhile to the lists
    and objects that the caller, a world or an approver holds.
    """
    try:
        arguments = parse(readable(action.arguments))
    except (TypeError, ValueError) as problem:
        raise Misuse(f"the arguments of {action.tool} are no JSON: {problem}") from problem
    return Action(tool=action.tool, arguments=arguments)


def _score(prediction: Observation | None, happened: Observation, action: Action) -> float | None:
    """How near the prediction came; None where there is none, or nothing happened to compare."""
    if prediction is None or happened.source != "executed":
        return None
    return fidelity(prediction, happened, action).score


def _unanswered(text: str) -> Observation:
    return Observation(text=text, source="unanswered", is_error=True)
