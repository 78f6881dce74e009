"""The language world: a text model predicts what a tool would answer.

In this order: arguments that break the tool's schema are refused; a repeated read gives the pinned
answer; what follows from the history is worked out; what was seen before for the same action is
copied where nothing speaks against it; only the rest is imagined by the model. Everything is
labelled `imagined`.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

import jsonschema
import referencing.exceptions
from jsonschema.protocols import Validator
from referencing import Registry

from lwm_agents.engines.base import Engine
from lwm_agents.errors import EngineRefused
from lwm_agents.prompts.catalog import Prompts
from lwm_agents.prompts.computed import COMPUTED_CONFIDENCE, IsRead, computed, repeated
from lwm_agents.prompts.discreet import redacted
from lwm_agents.prompts.outcome import (
    looks_like_error,
    shell_structured,
    with_line_end,
    without_echo,
)
from lwm_agents.prompts.parse import HEADER, Parsed, parse
from lwm_agents.prompts.reads import command_of, is_read
from lwm_agents.prompts.render import render
from lwm_agents.prompts.shell import Machine, absolute_cwd
from lwm_agents.prompts.state import KnownState, is_built_in, known_state
from lwm_agents.prompts.tokens import estimate_tokens
from lwm_agents.redaction import redact, redact_json
from lwm_agents.scores import fold, similarity
from lwm_agents.tools.base import argument_errors
from lwm_agents.values import (
    Action,
    Completion,
    Json,
    Message,
    Observation,
    Sampling,
    Signals,
    ToolSpec,
    Trajectory,
    Transition,
)
from lwm_agents.worlds.nearest import SURE, Copy, NearestWorld

ExamplesFor = Callable[[Action, Trajectory], Sequence[Transition]]
"""Gives real transitions like this action, best first, from outside the trajectory."""

PRIOR = 0.5
"""Confidence of what was imagined, where the engine gives no log probabilities."""

CUT, UNMARKED_EMPTY = 0.5, 0.5
"""Factors on the confidence of an answer cut at the token limit, and of an empty completion."""

TRUST = 0.5
"""What a small model's confidence is worth beside a copy's, as measured (docs/worlds.md)."""

_MARGIN = 64  # tokens left free for what the estimate and the chat template may add
_STATE_CHARACTERS = 2400
_SESSIONS = 256
_EXAMPLES, _EXAMPLES_SHARE, _EXAMPLES_TOKENS = 4, 0.15, 1024
"""At most so many examples, in at most so much of the prompt, and in so many tokens."""


class LanguageWorld:
    """A world whose answers a text model imagines. Serves any number of sessions at once.

    `seed` goes to the engine; at temperature 0 a session's answers are pinned. `prompts` are
    the system prompts, our own by default. `examples` gives real transitions to show. With
    `nearest` an answer is copied where a copy is likelier right than what the model says, whose
    own confidence counts `trust` times.
    `max_tokens` limits an answer, reasoning included. `scenario` is text that directs the
    simulation. `is_read` says what only reads, so that its answer is pinned. `known_state` False
    leaves out the known state and all that follows from it, to measure what it does; `pin` False
    asks the model again for repeated reads.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        seed: int = 0,
        temperature: float = 0.0,
        prompts: Prompts | None = None,
        examples: ExamplesFor | None = None,
        nearest: NearestWorld | None = None,
        trust: float = TRUST,
        max_tokens: int = 1024,
        scenario: str = "",
        is_read: IsRead = is_read,
        known_state: bool = True,
        pin: bool = True,
    ) -> None:
        self._engine = engine
        self._seed = seed
        self._temperature = temperature
        self._prompts = prompts or Prompts.own()
        self._examples = examples
        self._nearest = nearest
        self._trust = trust
        self._max_tokens = max_tokens
        self._scenario = scenario
        self._is_read = is_read
        self._knows = known_state
        self._pins = pin
        # An engine may count exactly; the estimate is for those that can't.
        self._count: Callable[[str], int] = getattr(engine, "count_tokens", estimate_tokens)
        self._states: OrderedDict[str, tuple[KnownState, Transition | None]] = OrderedDict()
        self._lock = Lock()

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return the observation predicted, or None where the model gives none that can be used.

        Raises EngineError where the model fails, and ConfigError where a prompt file is missing.
        """
        spec = trajectory.tool(action.tool)
        if spec is None and trajectory.tools:
            return None  # a tool that this session does not have
        if spec is not None and (problem := argument_errors(spec, action.arguments)):
            return _worked_out(
                Observation(
                    text=problem, source="imagined", is_error=True, confidence=COMPUTED_CONFIDENCE
                )
            )
        if self._pins and (pinned := repeated(trajectory, action, self._is_read)):
            return _worked_out(pinned)
        state = self._state(trajectory) if self._knows else None
        if state is not None and (known := computed(trajectory, action, state)):
            return _worked_out(known)
        copy = self._copy(action, trajectory, spec)
        if copy is not None and copy.confidence >= min(SURE, self._trust):
            return copy.observation  # the model could not be likelier right
        answer = await self._imagined(action, trajectory, spec, state)
        return _likelier(answer, copy, self._trust)

    async def _imagined(
        self,
        action: Action,
        trajectory: Trajectory,
        spec: ToolSpec | None,
        state: KnownState | None,
    ) -> Observation | None:
        """Ask the model."""
        told = ""
        if state is not None:
            room = self._state_characters()
            told = state.render(action, spec, room, secrets=self._engine.local)
        cwd = None if state is None else _cwd_after(action, state.machine)
        messages = self._messages(action, trajectory, told)
        if spec is not None and spec.output_schema is not None:
            validator = _validator(spec.output_schema)
            if validator is not None:
                return await self._structured(messages, trajectory, spec.output_schema, validator)
        return await self._text(messages, action, trajectory, spec, cwd)

    def _copy(self, action: Action, trajectory: Trajectory, spec: ToolSpec | None) -> Copy | None:
        copy = None if self._nearest is None else self._nearest.copy(action, trajectory)
        schema = None if spec is None else spec.output_schema
        if copy is not None and schema is not None and copy.observation.structured is None:
            return None
        return copy

    def _messages(self, action: Action, trajectory: Trajectory, told: str) -> tuple[Message, ...]:
        messages = render(
            trajectory,
            action,
            budget_tokens=self._budget(),
            count_tokens=self._count,
            examples=self._examples(action, trajectory)[:_EXAMPLES] if self._examples else (),
            examples_tokens=int(min(_EXAMPLES_TOKENS, self._budget() * _EXAMPLES_SHARE)),
            state=told,
            scenario=self._scenario,
            prompts=self._prompts,
            secrets=self._engine.local,
        )
        return self._discreet(messages)

    def _discreet(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages as they may go to the engine: once more without secrets.

        They are left out of each part before it is shortened; this finds what the parts make up.
        """
        if self._engine.local:
            return messages
        return tuple(
            message.model_copy(update={"content": redacted(message.content)})
            for message in messages
        )

    def _prefill(self) -> tuple[Message, ...]:
        """Return the beginning of the answer where the engine can be made to go on from it.

        A small model that has to write the header itself often writes a Markdown fence or the
        action over again instead.
        """
        if self._prompts.folder is not None or not getattr(self._engine, "prefills", False):
            return ()
        return (Message(role="assistant", content=HEADER + "\n"),)

    def _answer_tokens(self) -> int:
        return max(16, min(self._max_tokens, self._engine.context // 2))

    def _budget(self) -> int:
        return max(1, self._engine.context - self._answer_tokens() - _MARGIN)

    def _state_characters(self) -> int:
        return min(_STATE_CHARACTERS, self._budget())

    def _sampling(self, trajectory: Trajectory, *, stop: bool) -> Sampling:
        return Sampling(
            temperature=self._temperature,
            max_tokens=self._answer_tokens(),
            seed=self._seed,
            # A small model goes on to invent the agent's next turn.
            stop=("\n### Turn ",) if stop and self._prompts.folder is None else (),
            logprobs=True,
            cache_key=trajectory.session,
        )

    def _state(self, trajectory: Trajectory) -> KnownState:
        """Return the known state, taken further from that of the step before where it can be."""
        past = trajectory.transitions
        with self._lock:
            state, last = self._states.pop(trajectory.session, (KnownState(), None))
            follows = state.folded <= len(past) and (
                not state.folded or past[state.folded - 1] is last
            )
            state = known_state(trajectory, state if follows else None)
            self._states[trajectory.session] = (state, past[-1] if past else None)
            while len(self._states) > _SESSIONS:
                self._states.popitem(last=False)
        return state

    async def _text(
        self,
        messages: tuple[Message, ...],
        action: Action,
        trajectory: Trajectory,
        spec: ToolSpec | None,
        cwd: str | None,
    ) -> Observation | None:
        begun = self._prefill()
        completion = await self._engine.complete(
            (*messages, *begun), sampling=self._sampling(trajectory, stop=True)
        )
        # The header marks what follows it as the output; over nothing it is our mark, not the
        # model's.
        answer = _first_of(completion.text) if begun else completion.text
        ours = "".join(message.content for message in begun) if answer.strip() else ""
        said = ours + answer
        parsed = parse(said, completion.reasoning)
        confidence = confidence_of(completion, parsed)
        text = parsed.observation
        shell = command_of(action, spec) is not None
        if text is None:
            # Only a shell command commonly prints nothing, and only a model that ended its answer
            # by itself can have meant that.
            ended = completion.finish_reason == "stop" and not said.strip()
            if not (shell and ended and not parsed.reasoning):
                return None
            text, confidence = "", confidence * UNMARKED_EMPTY
        echoed = without_echo(text, action)
        if echoed is None:
            return None
        text = with_line_end(echoed, action, trajectory)
        built_in = shell and is_built_in(spec)
        return Observation(
            text=text,
            source="imagined",
            is_error=looks_like_error(text, action, spec),
            structured=shell_structured(text, cwd) if built_in else None,
            confidence=confidence,
            signals=_signals(completion, parsed, text),
        )

    async def _structured(
        self,
        messages: tuple[Message, ...],
        trajectory: Trajectory,
        schema: dict[str, Json],
        validator: Validator,
    ) -> Observation | None:
        """Ask for JSON that fits the tool's output schema; once more where it does not fit."""
        sampling = self._sampling(trajectory, stop=False)
        if not self._engine.local:
            schema = redact_json(schema)
        try:
            completion = await self._engine.complete(
                messages, sampling=sampling, schema=_or_error(schema)
            )
        except EngineRefused as refused:
            # Many servers can't be held to a schema; then the model is told, and checked here.
            said, problem = "", str(refused)
        else:
            observation, problem = _checked(completion, validator)
            if observation is not None:
                return observation
            said = completion.text
        problem = problem if self._engine.local else redact(problem)
        asked = (
            f"That was not usable as the tool's output: {problem[:500]}\nWrite it again, as one "
            "JSON value that fits this schema and nothing else:\n"
            + json.dumps(schema, ensure_ascii=False)
        )
        again = (
            *messages,
            Message(role="assistant", content=said or "(no answer)"),
            Message(role="user", content=asked),
        )
        completion = await self._engine.complete(self._discreet(again), sampling=sampling)
        return _checked(completion, validator)[0]


def confidence_of(completion: Completion, parsed: Parsed) -> float:
    """Return how sure an imagined answer is before any calibration, 0.02 to 0.98.

    exp of the least log probability among its tokens: an answer is as sure as its most doubtful
    token (this ranks right from wrong better than the mean). PRIOR without log probabilities. Half
    of that where the answer was cut at the token limit, or its tags left open.
    """
    confidence = PRIOR
    if completion.logprobs:
        confidence = math.exp(min(0.0, min(completion.logprobs)))
    if completion.finish_reason == "length" or not parsed.complete:
        confidence *= CUT
    return min(0.98, max(0.02, confidence))


def _signals(completion: Completion, parsed: Parsed, text: str) -> Signals:
    """Return what is known of how far to trust a model's answer."""
    logprobs = completion.logprobs
    return Signals(
        logprob=sum(logprobs) / len(logprobs) if logprobs else None,
        least=min(logprobs) if logprobs else None,
        cut=completion.finish_reason == "length" or not parsed.complete,
        length=len(text),
    )


def _worked_out(seen: Observation) -> Observation:
    signals = Signals(computed=True, length=len(seen.text))
    return seen.model_copy(update={"signals": signals})


def _likelier(answer: Observation | None, copy: Copy | None, trust: float) -> Observation | None:
    """Return the model's answer or the copy, whichever is likelier right.

    The answer's signals say how it compares with the copy.
    """
    if copy is None:
        return answer
    if answer is None or (answer.confidence or 0.0) * trust < copy.confidence:
        return copy.observation
    match = similarity(fold(answer.text), fold(copy.observation.text))
    signals = (answer.signals or Signals()).model_copy(
        update={"nearness": copy.nearness, "example_match": match}
    )
    return answer.model_copy(update={"signals": signals})


def _first_of(answer: str) -> str:
    """Return a begun answer up to where the model begins it over again."""
    first, _, _ = answer.partition("\n" + HEADER)
    return first if first.strip() else answer


def _cwd_after(action: Action, machine: Machine) -> str | None:
    """Return the shell's directory after an imagined command that can't change it."""
    command = action.arguments.get("command")
    if not isinstance(command, str) or any(
        word in command for word in ("cd", "pushd", "popd", "source", "eval", ". ")
    ):
        return None
    return absolute_cwd(machine)


_ERROR_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"error": {"type": "string", "minLength": 1}},
    "required": ["error"],
    "additionalProperties": False,
}


def _or_error(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema that lets through `{"error": "..."}` too, for a call that fails."""
    if '"$ref": "#"' in json.dumps(schema) or "$id" in schema:
        return schema
    shared: dict[str, Json] = {
        key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema
    }
    inner = {key: value for key, value in schema.items() if key not in shared}
    return {**shared, "anyOf": [inner, _ERROR_SCHEMA]}


def _validator(schema: dict[str, Json]) -> Validator | None:
    """Return the validator of an output schema in its own dialect; None where it is no schema."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except (jsonschema.SchemaError, RecursionError):
        return None
    # A registry of our own: the default one would fetch a reference over the network.
    return kind(schema, registry=Registry())


def _checked(completion: Completion, validator: Validator) -> tuple[Observation | None, str]:
    """Return the observation that a JSON answer makes, or None and what is wrong with it."""
    parsed = parse(completion.text, completion.reasoning)
    if parsed.observation is None:
        return None, "there was no output"
    try:
        value = json.loads(parsed.observation)
    except (ValueError, RecursionError) as problem:
        return None, f"no JSON: {problem}"
    confidence = confidence_of(completion, parsed)
    text = json.dumps(value, ensure_ascii=False)
    signals = _signals(completion, parsed, text)
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except (referencing.exceptions.Unresolvable, RecursionError):
        error = None
    if error is None:
        return (
            Observation(
                text=text,
                source="imagined",
                structured=value,
                confidence=confidence,
                signals=signals,
            ),
            "",
        )
    if isinstance(value, dict) and set(value) == {"error"} and isinstance(value["error"], str):
        return (
            Observation(
                text=value["error"],
                source="imagined",
                is_error=True,
                confidence=confidence,
                signals=signals,
            ),
            "",
        )
    return None, f"{error.json_path}: {error.message[:300]}"
