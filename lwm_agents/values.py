"""The words of this project as frozen values: actions, tools, observations, transitions.

A language world model (Qwen-AgentWorld, arXiv 2606.24597) is a conditional text generator: from a
system prompt, a history and an action it predicts the next observation. These are its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lwm_agents.digests import digest_of

Json = Any
"""Whatever a JSON text can say: None, bool, int, float, str, list, dict."""

Source = Literal["executed", "rehearsed", "recalled", "imagined", "unanswered"]
"""Where an observation comes from, and nothing else.

executed    the tool ran in the real place
rehearsed   its code ran in a throw-away copy
recalled    observed before for the same state and action
imagined    a language model predicted it
unanswered  nothing could say, and nothing was made up
"""

Effect = Literal["read", "write", "destroy", "external", "unknown"]
"""What a call can do: read; write what can be undone; destroy; leave the machine; or who knows."""

Mode = Literal["dry-run", "gated", "compare", "live"]
"""What a session does with an action.

dry-run  nothing real happens
gated    reads are answered; anything else is predicted, asked, then executed
compare  everything is executed and predicted; both are logged and scored
live     everything is executed and logged
"""

MODE_IN_WORDS: Mapping[Mode, str] = {
    "dry-run": "nothing real happens",
    "gated": "reads are answered; anything else is predicted, asked, then executed",
    "compare": "everything is EXECUTED and predicted; both are logged and scored",
    "live": "everything is EXECUTED and logged",
}

Domain = Literal[
    "terminal", "files", "database", "web", "api", "search", "code", "desktop", "android"
]
"""The kind of environment a tool belongs to; it selects the part of the system prompt."""


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolAnnotations(Value):
    """What a tool says about itself (the MCP names). A hint can make the gate stricter only."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolSpec(Value):
    """What is known of a tool without being able to run it.

    `input_schema` and `output_schema` are JSON Schemas. `source_code` is the text of a Python
    tool's function, when known; it helps a language model predict what the tool answers.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Json] = Field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Json] | None = None
    annotations: ToolAnnotations = ToolAnnotations()
    source_code: str | None = None
    domain: Domain = "api"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what the tool promises; a pinned tool whose hash changed is another tool."""
        return digest_of(
            {
                "name": self.name,
                "description": self.description,
                "input_schema": self.input_schema,
                "output_schema": self.output_schema,
                "annotations": self.annotations.model_dump(),
            }
        )


class Action(Value):
    """One tool call."""

    tool: str
    arguments: dict[str, Json] = Field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of tool and arguments (see `lwm_agents.digests`)."""
        return digest_of({"tool": self.tool, "arguments": self.arguments})


class Signals(Value):
    """What is known of how far to trust one prediction, before what happened is known.

    `logprob` is the mean, `least` the lowest log probability of the answer's tokens, natural.
    `nearness` (0..1) says how near the best recalled example's action is, `example_match` how
    like that example's observation the answer is, `agreement` how like a second sample it is.
    `stated` is the confidence that the world itself gave, before calibration. Each is None where
    nobody knows. `computed`: code worked the answer out. `cut`: the model did
    not end it. `length` is its number of characters.
    """

    logprob: float | None = Field(default=None, allow_inf_nan=False)
    least: float | None = Field(default=None, allow_inf_nan=False)
    nearness: float | None = Field(default=None, ge=0, le=1)
    example_match: float | None = Field(default=None, ge=0, le=1)
    agreement: float | None = Field(default=None, ge=0, le=1)
    stated: float | None = Field(default=None, ge=0, le=1)
    computed: bool = False
    cut: bool = False
    length: int = Field(default=0, ge=0)


class Observation(Value):
    """What came back from an action.

    `text` is all of it, as an agent would read it; shortening happens only where an agent or a
    prompt reads. `raw` holds the bytes where `text` is not their exact UTF-8 decoding.
    `structured` is the content a program reads: rows, an exit code. `confidence` is 0..1, and None
    for what was executed or rehearsed; `signals` is what it was made from. `error_known` is False
    where a recording does not say whether it was an error; `is_error` is False then and means
    nothing.
    """

    text: str
    source: Source
    is_error: bool = False
    error_known: bool = True
    structured: Json = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    raw: bytes | None = None
    signals: Signals | None = None


class Usage(Value):
    """What a completion cost, in tokens. `cached` prompt tokens were not evaluated again."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


class Transition(Value):
    """One action with its observation and everything needed to train on it or audit it.

    `step` counts from 1 in its session. `started_at` is in seconds since the epoch, `latency_ms`
    in milliseconds. `prediction` is what a world said where the action was also executed, and
    `fidelity` (0..1) how near it came.
    """

    session: str
    step: int
    action: Action
    observation: Observation
    effect: Effect = "unknown"
    tool_hash: str | None = None
    started_at: float = 0.0
    latency_ms: float = 0.0
    prediction: Observation | None = None
    fidelity: float | None = None
    reward: float | None = None
    engine: str | None = None
    usage: Usage | None = None


class Trajectory(Value):
    """The transitions of one session in order, with what a world may know of where they happened.

    `environment` names the machine or recorded environment, `licence` the terms of a dataset.
    """

    session: str
    task: str = ""
    tools: tuple[ToolSpec, ...] = ()
    transitions: tuple[Transition, ...] = ()
    environment: str | None = None
    dataset: str | None = None
    licence: str | None = None
    domain: str | None = None

    def tool(self, name: str) -> ToolSpec | None:
        """Return the spec of the named tool, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)


class Message(Value):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Value):
    """How to draw a completion.

    `cache_key` names a conversation whose prompts grow from a common prefix, so that an engine can
    keep them in one slot or replica. `logprobs` asks for the log probability of each token.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    cache_key: str | None = None


class Completion(Value):
    """What a text model answered.

    `reasoning` is thinking that the server split off; `logprobs` one natural logarithm a token.
    `finish_reason` is "stop", or "length" where the answer was cut at `Sampling.max_tokens`.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"
    usage: Usage = Usage()
    logprobs: tuple[float, ...] | None = None


Messages = Sequence[Message]
