"""The one method every text model has."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lwm_agents.values import Completion, Json, Messages, Sampling


@runtime_checkable
class Engine(Protocol):
    """A text model.

    `name` is what the log calls it. `context` is how many tokens fit, prompt and answer together.
    `local` says whether prompts stay on this machine; those that leave it are redacted first.
    """

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and answer together."""
        ...

    @property
    def local(self) -> bool:
        """Whether prompts stay on this machine."""
        ...

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return one completion. With `schema`, its text is JSON that conforms to it.

        Raises EngineError where there is none.
        """
        ...

    async def close(self) -> None:
        """Give back connections, threads and memory. May be called more than once."""
        ...
