"""Recall: the log as a world. The same state and the same action gave this before.

A key is the environment and its starting state, the digest of the actions so far, and the action
with the hash of its tool's spec. Only an equal key answers; near ones are for the language world.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock

from lwm_agents.digests import digest_of
from lwm_agents.prompts.computed import IsRead
from lwm_agents.prompts.reads import command_of, is_read, query_of
from lwm_agents.prompts.state import is_built_in
from lwm_agents.retrieval import REAL
from lwm_agents.values import (
    Action,
    Json,
    Observation,
    Signals,
    ToolSpec,
    Trajectory,
    Transition,
)

AGREEMENT = 0.95
"""The least share of keys seen in two recordings or more on which the recordings must agree."""

_PRIOR_AGREED, _PRIOR = 19, 20  # what is assumed of an environment seen once: AGREEMENT itself
_WITHIN = 0.99  # confidence in what the session itself observed
_SESSIONS = 256

StartOf = Callable[[Trajectory], Json]
"""Says what a trajectory's environment and its starting state are, as JSON; None: nobody knows."""


def recorded_start(trajectory: Trajectory) -> Json:
    """Return a recording's dataset and environment; a recorded environment begins alike each time.

    None where it lacks one, as every session on a real machine does.
    """
    if trajectory.dataset is None or trajectory.environment is None:
        return None
    return [trajectory.dataset, trajectory.environment]


def surely_reads(action: Action, spec: ToolSpec | None) -> bool:
    """Return whether an action provably changes nothing, so that the state is the same after it.

    A shell command or a SQL statement by its text, and our own tools. What another tool's name or
    hint promises is no proof.
    """
    text = command_of(action, spec) is not None or query_of(action, spec) is not None
    return (text or is_built_in(spec)) and is_read(action, spec)


class RecallWorld:
    """Answers with what was observed for the same state and action, and with nothing else.

    `trajectories` are recordings to recall from, never any of what is evaluated. `start_of` says
    which of them began in the same state. Whatever they say, a session recalls what it observed
    itself. `is_read` tells the actions that the state does not hang on.
    """

    def __init__(
        self,
        trajectories: Iterable[Trajectory] = (),
        *,
        start_of: StartOf = recorded_start,
        is_read: IsRead = surely_reads,
    ) -> None:
        self._start_of = start_of
        self._is_read = is_read
        self._recorded: dict[str, _Answers] = {}
        self._environments: dict[str, _Environment] = {}
        self._own: OrderedDict[str, _Course] = OrderedDict()
        self._lock = Lock()
        for trajectory in trajectories:
            self._add(trajectory)

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return what was observed before, or None where it was not, or not always the same."""
        with self._lock:
            course = self._course(trajectory)
        if course.lost:
            return None
        key = course.key(action, trajectory.tool(action.tool))
        answers = list(course.answers.get(key, _Answers()).all())
        confidence = _WITHIN
        if not answers:
            start = self._start(trajectory)
            environment = self._environments.get(start or "")
            recorded = self._recorded.get(f"{start} {key}")
            if environment is None or recorded is None or environment.agreement < AGREEMENT:
                return None
            answers = list(recorded.all(but=trajectory.session))
            confidence = environment.agreement
        if not answers or len({(seen.text, seen.is_error) for seen in answers}) > 1:
            return None
        seen = next((seen for seen in answers if seen.error_known), answers[0])
        if seen.confidence is not None:
            confidence = min(confidence, seen.confidence)
        signals = Signals(nearness=1.0, example_match=1.0, length=len(seen.text))
        return seen.model_copy(
            update={"source": "recalled", "confidence": confidence, "signals": signals}
        )

    def _add(self, trajectory: Trajectory) -> None:
        start = self._start(trajectory)
        if start is None:
            return
        environment = self._environments.setdefault(start, _Environment())
        course = _Course()
        for transition in trajectory.transitions:
            key = course.add(transition, trajectory, self._is_read)
            if key is None:
                continue
            answers = self._recorded.setdefault(f"{start} {key}", _Answers())
            before = answers.verdict
            answers.add(trajectory.session, transition.observation)
            environment.count(before, answers.verdict)

    def _start(self, trajectory: Trajectory) -> str | None:
        start = self._start_of(trajectory)
        return None if start is None else digest_of(start)

    def _course(self, trajectory: Trajectory) -> _Course:
        """Return the trajectory's course, taken further from that of the step before."""
        past = trajectory.transitions
        course = self._own.pop(trajectory.session, None)
        if course is None or not course.leads_to(past):
            course = _Course()
        for transition in past[course.taken :]:
            key = course.add(transition, trajectory, self._is_read)
            if key is not None:
                course.answers.setdefault(key, _Answers()).add("", transition.observation)
        self._own[trajectory.session] = course
        while len(self._own) > _SESSIONS:
            self._own.popitem(last=False)
        return course


@dataclass
class _Answers:
    """What was observed for one key, by session."""

    by_session: dict[str, list[Observation]] = field(default_factory=dict)

    def add(self, session: str, seen: Observation) -> None:
        self.by_session.setdefault(session, []).append(seen)

    def all(self, but: str | None = None) -> Iterator[Observation]:
        for session, seen in self.by_session.items():
            if session != but:
                yield from seen

    @property
    def verdict(self) -> str:
        """Whether several sessions agree, differ, or are not several."""
        if len(self.by_session) < 2:
            return "alone"
        return "agree" if len({seen.text for seen in self.all()}) == 1 else "differ"


@dataclass
class _Environment:
    """How far the recordings of one environment bear each other out."""

    verdicts: Counter[str] = field(default_factory=Counter)

    def count(self, before: str, after: str) -> None:
        self.verdicts[before] -= 1
        self.verdicts[after] += 1

    @property
    def agreement(self) -> float:
        agree, differ = self.verdicts["agree"], self.verdicts["differ"]
        return (agree + _PRIOR_AGREED) / (agree + differ + _PRIOR)


@dataclass
class _Course:
    """The actions of a trajectory so far, as a digest. `lost`: nobody knows the state any more."""

    digest: str = ""
    lost: bool = False
    taken: int = 0
    last: Transition | None = None
    answers: dict[str, _Answers] = field(default_factory=dict)

    def leads_to(self, past: tuple[Transition, ...]) -> bool:
        return self.taken == 0 or (self.taken <= len(past) and past[self.taken - 1] is self.last)

    def key(self, action: Action, spec: ToolSpec | None) -> str:
        return digest_of([self.digest, action.digest, None if spec is None else spec.hash])

    def add(self, transition: Transition, trajectory: Trajectory, is_read: IsRead) -> str | None:
        """Take in the next step; return its key where what it gave may be recalled."""
        self.taken += 1
        self.last = transition
        source = transition.observation.source
        if source == "unanswered" or self.lost:
            return None  # nothing happened, or nobody knows to what
        action, spec = transition.action, trajectory.tool(transition.action.tool)
        key = self.key(action, spec)
        if not is_read(action, spec):
            # What was imagined to change something changed nobody knows what.
            self.lost = source == "imagined"
            self.digest = key
        return key if source in REAL else None
