"""An engine that counts what it was asked."""

from __future__ import annotations

from lwm_agents.engines.base import Engine
from lwm_agents.values import Completion, Json, Messages, Sampling, Usage


class MeteredEngine:
    """Passes everything on to another engine and adds up the tokens since the last `take`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._spent: Usage | None = None

    @property
    def name(self) -> str:
        """What the log calls the engine."""
        return self._engine.name

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and answer together."""
        return self._engine.context

    @property
    def local(self) -> bool:
        """Whether prompts stay on this machine."""
        return self._engine.local

    @property
    def prefills(self) -> bool:
        """Whether the engine takes an assistant's message at the end as the answer's beginning."""
        return bool(getattr(self._engine, "prefills", False))

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return the engine's completion."""
        completion = await self._engine.complete(messages, sampling=sampling, schema=schema)
        before, now = self._spent or Usage(), completion.usage
        self._spent = Usage(
            prompt=before.prompt + now.prompt,
            cached=before.cached + now.cached,
            completion=before.completion + now.completion,
        )
        return completion

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()

    def take(self) -> Usage | None:
        """Return the tokens since the last call of this; None where the engine was not asked."""
        spent, self._spent = self._spent, None
        return spent
