"""Engines and worlds whose answers you write, for tests of agents and of this package.

engine = ScriptedEngine(["hello.txt", "done"])
async with Session.open(mode="dry-run", engine=engine, store=":memory:") as session: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lwm_agents.errors import EngineRefused
from lwm_agents.values import (
    Action,
    Completion,
    Json,
    Message,
    Messages,
    Observation,
    Sampling,
    Trajectory,
)

Answer = str | Completion | Exception
"""A scripted answer: a text, a whole completion, or an exception to raise."""


class ScriptedEngine:
    """A real engine that answers from a script.

    `answers` is a list, used up in order, or a function of the messages. After the last answer of
    a list every further call raises EngineRefused. `requests` keeps the messages of each call,
    `samplings` and `schemas` what came with them.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Messages], Answer],
        *,
        name: str = "scripted",
        context: int = 32_768,
        local: bool = True,
    ) -> None:
        self._answer = answers if callable(answers) else None
        self._answers = iter(()) if callable(answers) else iter(answers)
        self._name = name
        self._context = context
        self._local = local
        self.requests: list[tuple[Message, ...]] = []
        self.samplings: list[Sampling] = []
        self.schemas: list[dict[str, Json] | None] = []

    @property
    def name(self) -> str:
        """What the log calls this engine."""
        return self._name

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and answer together."""
        return self._context

    @property
    def local(self) -> bool:
        """Whether prompts stay on this machine."""
        return self._local

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return the next answer. Raises what the script says, or EngineRefused at its end."""
        self.requests.append(tuple(messages))
        self.samplings.append(sampling)
        self.schemas.append(schema)
        answer = self._answer(messages) if self._answer else next(self._answers, None)
        if answer is None:
            raise EngineRefused(f"the script has no answer for request {len(self.requests)}")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completion) else Completion(text=answer)

    async def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class ScriptedWorld:
    """A world that answers with one text, or with what a function of action and trajectory says."""

    def __init__(
        self,
        answer: str | Callable[[Action, Trajectory], Observation | None],
        confidence: float = 0.5,
    ) -> None:
        self._answer = answer
        self._confidence = confidence
        self.actions: list[Action] = []

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return the scripted observation."""
        self.actions.append(action)
        if callable(self._answer):
            return self._answer(action, trajectory)
        return Observation(text=self._answer, source="imagined", confidence=self._confidence)
