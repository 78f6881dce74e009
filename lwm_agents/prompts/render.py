"""From a trajectory and an action to chat messages, as Qwen-AgentWorld lays them out.

    system      what to do, the tools, the scenario, the task; the same bytes all session long
    user        ### Turn 1 / **Action:** / a JSON block         } the history, oldest first
    assistant   **Environment Observation:** / its text         }
    user        known state, real examples, then the action

Known state and examples stand in the last turn only, so that the history is the same text at every
step and an engine's prefix cache holds: a step evaluates its last two turns.
"""

from __future__ import annotations

import json
import operator
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock

from lwm_agents.prompts.catalog import Prompts, domains_of
from lwm_agents.prompts.discreet import redacted, shown, shown_action
from lwm_agents.prompts.parse import HEADER
from lwm_agents.prompts.tokens import estimate_tokens
from lwm_agents.redaction import redact, redact_tool
from lwm_agents.shorten import shorten
from lwm_agents.values import Action, Json, Message, ToolSpec, Trajectory, Transition

CountTokens = Callable[[str], int]

_PER_MESSAGE = 8  # a chat template's own tokens around each message
_SYSTEM_SHARE = 0.5  # of the budget, before tool descriptions are cut down
_LAST_SHARE = 0.4  # of what the system message leaves, kept free for the last turn
_BLOCK_SHARE = 0.5  # of the history's room that a trim leaves filled
_STATE_SHARE, _EXAMPLES_SHARE = 0.5, 0.4  # of the last turn
_EXAMPLE_LENGTH = 800  # characters of an example's observation, and of each of its arguments

# Every "<|…|>" of any template, and the tokens that have no bar.
_CONTROL = re.compile(
    r"<(?=[|｜]|(?:start|end)_of_(?:turn|image)>|/?s>|(?:bos|eos|pad|unk|mask)>|unused\d{1,6}>"
    r"|/?(?:think|tool_(?:call|response)s?)>|</?SYS>>)"
    r"|[|｜](?=>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT"
    r"|ARGS|CALL_ID|IMG|PREFIX|MIDDLE|SUFFIX|THINK)\])"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Turn:
    """One rendered turn of the history, with its size in tokens."""

    user: Message
    assistant: Message
    tokens: int


@dataclass
class _History:
    """The latest turns of one session, as many as were kept within `room` tokens."""

    room: int
    transitions: list[weakref.ref[Transition]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    used: int = 0

    def is_of(self, transitions: Sequence[Transition], room: int) -> bool:
        """Return whether these transitions begin with those taken in."""
        count = len(self.transitions)
        if room != self.room or count > len(transitions):
            return False
        return all(map(operator.is_, map(operator.call, self.transitions), transitions))

    def add(self, transition: Transition, turn: Turn | None) -> None:
        """Take in the next turn.

        Whenever the history no longer fits, its oldest turns go until half of the room is free. So
        what is kept depends on the past alone, and moves only at a trim.
        """
        self.transitions.append(weakref.ref(transition))
        if turn is None:
            return
        self.turns.append(turn)
        self.used += turn.tokens
        if self.used > self.room:
            gone = 0
            while gone < len(self.turns) and self.used > self.room * _BLOCK_SHARE:
                self.used -= self.turns[gone].tokens
                gone += 1
            del self.turns[:gone]


def render(
    trajectory: Trajectory,
    action: Action,
    *,
    budget_tokens: int,
    count_tokens: CountTokens = estimate_tokens,
    examples: Sequence[Transition] = (),
    examples_tokens: int | None = None,
    state: str = "",
    scenario: str = "",
    prompts: Prompts | None = None,
    secrets: bool = True,
) -> tuple[Message, ...]:
    """Return the messages that ask for the observation of `action` after `trajectory`.

    They take at most about `budget_tokens` as `count_tokens` counts. When the history is too long
    its oldest half goes at once, so that what is left stays the same text for many steps. The
    action always stays; only single arguments longer than the whole budget are shortened. `state`
    and `examples` fill what room the last turn has, the examples at most `examples_tokens`; they
    come best first, and the best stands last, next to the action. `scenario` is text that directs
    the simulation. Without `secrets`, those in the trajectory, the action, the examples and the
    scenario are left out; `state` and `prompts` are taken as they are.
    """
    if not secrets:
        action, scenario = shown_action(action), redacted(scenario)
    limit = observation_limit(budget_tokens)
    system = system_text(
        trajectory,
        scenario,
        prompts or Prompts.own(),
        int(budget_tokens * _SYSTEM_SHARE),
        count_tokens,
        secrets=secrets,
    )
    room = max(0, budget_tokens - count_tokens(system) - _PER_MESSAGE)
    last_room = int(room * _LAST_SHARE)
    history_room = room - last_room
    turns = _kept_turns(trajectory, history_room, limit, count_tokens, secrets)
    number = len(trajectory.transitions) + 1
    heading = _heading(action, number, None)
    if count_tokens(heading) > room:
        heading = _heading(action, number, max(100, room // 2))
    spare = last_room - count_tokens(heading) - _PER_MESSAGE
    if spare < 0:
        # An action larger than its share: older history makes room for it in this step.
        turns = _make_room(turns, history_room + spare)
    blocks = _blocks(state, examples, max(0, spare), examples_tokens, count_tokens, secrets)
    messages = [Message(role="system", content=system)]
    for turn in turns:
        messages += (turn.user, turn.assistant)
    messages.append(Message(role="user", content="".join([*blocks, heading])))
    return tuple(messages)


def observation_limit(budget_tokens: int) -> int:
    """Return how many characters of one observation a prompt of this size shows."""
    return max(400, min(6000, budget_tokens // 2))


def clean(text: str) -> str:
    """Return data as it may stand in a prompt.

    A chat template's control tokens are broken up, so that no observation can end its turn and
    begin another; lone surrogates, which UTF-8 can't say, become U+FFFD.
    """
    text = _CONTROL.sub(lambda found: found.group() + " ", text)
    return _SURROGATES.sub("\ufffd", text)


def action_json(action: Action, limit: int | None = None) -> str:
    """Return an action as one line of JSON, strings beyond `limit` characters shortened."""
    try:
        arguments: Json = action.arguments if limit is None else _short(action.arguments, limit)
        text = json.dumps({"name": action.tool, "arguments": arguments}, ensure_ascii=False)
    except RecursionError:
        text = json.dumps({"name": action.tool, "arguments": "(nested too deeply to show)"})
    return clean(text)


def system_text(
    trajectory: Trajectory,
    scenario: str,
    prompts: Prompts,
    limit_tokens: int,
    count_tokens: CountTokens,
    *,
    secrets: bool = True,
) -> str:
    """Return the system message: the same for all steps of one session."""
    base = prompts.text(domains_of(trajectory))
    task = trajectory.task if secrets else redacted(trajectory.task)
    ending = "".join(
        f"\n\n## {title}\n{clean(text.strip())}"
        for title, text in (("Scenario", scenario), ("Task of the agent", task))
        if text.strip()
    )
    text = ""
    for detail in range(4):
        tools = _tools_text(trajectory.tools, detail, secrets)
        text = f"{base}{tools}{shorten(ending, 4 * limit_tokens)}"
        if count_tokens(text) <= limit_tokens:
            break
    return text


def _tools_text(tools: Sequence[ToolSpec], detail: int, secrets: bool) -> str:
    if not tools:
        return ""
    return "\n\n## Tools\n" + "\n".join(
        _tool_text(tool.hash, _Held(tool), detail, secrets) for tool in tools
    )


class _Held:
    """A tool spec as an argument of a cached function whose key is its hash and source."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return hash((self.spec.hash, self.spec.source_code))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Held)
            and self.spec.hash == other.spec.hash
            and self.spec.source_code == other.spec.source_code
        )


@lru_cache(maxsize=2048)
def _tool_text(_hash: str, held: _Held, detail: int, secrets: bool) -> str:
    """Return what is known of a tool. Detail 0 is all; 1 no source; 2 names only; 3 one line."""
    spec = held.spec if secrets else redact_tool(held.spec)
    if detail == 3:
        return clean(f"- {spec.name}")
    names = ", ".join(spec.input_schema.get("properties", {}))
    if detail == 2:
        first = spec.description.strip().split("\n")[0]
        return clean(f"- {spec.name}({names}): {shorten(first, 200)}")
    lines = [f"### {spec.name}"]
    if spec.description.strip():
        lines.append(spec.description.strip())
    if spec.input_schema.get("properties"):
        lines.append(
            f"Arguments: {json.dumps(spec.input_schema['properties'], ensure_ascii=False)}"
        )
    if spec.output_schema is not None:
        lines.append(f"Output schema: {json.dumps(spec.output_schema, ensure_ascii=False)}")
    if detail == 0 and spec.source_code:
        lines.append(f"Its code:\n```python\n{shorten(spec.source_code.strip(), 4000)}\n```")
    return clean("\n".join(lines))


_histories: OrderedDict[tuple[str, int, int, bool], _History] = OrderedDict()
_HISTORIES_KEPT = 256


def _kept_turns(
    trajectory: Trajectory, room: int, limit: int, count_tokens: CountTokens, secrets: bool
) -> Sequence[Turn]:
    """Return the turns of the history that fit into `room` tokens.

    A session's turns are kept for its next step, which then adds its own only.
    """
    key = (trajectory.session, limit, id(count_tokens), secrets)
    with _turns_lock:
        # Taken out meanwhile: a step of the same session in another thread starts over.
        history = _histories.pop(key, None)
    past = trajectory.transitions
    if history is None or not history.is_of(past, room):
        history = _History(room)
    for number in range(len(history.transitions), len(past)):
        turn = _turn(past[number], number + 1, limit, count_tokens, secrets)
        history.add(past[number], turn)
    kept = list(history.turns)
    with _turns_lock:
        _histories[key] = history
        while len(_histories) > _HISTORIES_KEPT:
            _histories.popitem(last=False)
    return kept


_turns: OrderedDict[
    tuple[int, int, int, int, bool], tuple[weakref.ref[Transition], Turn | None]
] = OrderedDict()
_turns_lock = Lock()
_TURNS_KEPT = 8192


def _turn(
    transition: Transition, number: int, limit: int, count_tokens: CountTokens, secrets: bool
) -> Turn | None:
    """Return the rendered turn, or None for one that nothing answered: it taught nothing.

    Kept while the transition lives: a long history is rendered once, not at every step.
    """
    key = (id(transition), number, limit, id(count_tokens), secrets)
    found = _turns.get(key)
    if found is not None and found[0]() is transition:
        return found[1]
    turn = None
    if transition.observation.source != "unanswered":
        action = transition.action if secrets else shown_action(transition.action)
        user = _heading(action, number, limit)
        text = shown(transition.observation.text, limit, secrets=secrets)
        assistant = f"{HEADER}\n{clean(text)}"
        if not secrets:
            user, assistant = redact(user), redact(assistant)
        tokens = count_tokens(user) + count_tokens(assistant) + 2 * _PER_MESSAGE
        turn = Turn(
            Message(role="user", content=user),
            Message(role="assistant", content=assistant),
            tokens,
        )
    with _turns_lock:
        _turns[key] = (weakref.ref(transition), turn)
        while len(_turns) > _TURNS_KEPT:
            _turns.popitem(last=False)
    return turn


def _heading(action: Action, number: int, limit: int | None) -> str:
    return f"### Turn {number}\n**Action:**\n```json\n{action_json(action, limit)}\n```"


def _make_room(turns: Sequence[Turn], room: int) -> Sequence[Turn]:
    """Return the latest turns that fit into the room."""
    used = sum(turn.tokens for turn in turns)
    start = 0
    while start < len(turns) and used > room:
        used -= turns[start].tokens
        start += 1
    return turns[start:]


def _blocks(
    state: str,
    examples: Sequence[Transition],
    room: int,
    examples_tokens: int | None,
    count_tokens: CountTokens,
    secrets: bool,
) -> list[str]:
    """Return the known-state and example blocks that fit into `room` tokens."""
    blocks: list[str] = []
    if state.strip():
        for characters in (len(state), room * 3, room * 2, room):
            block = f"### Known state\n{clean(shorten(state.strip(), characters))}\n\n"
            used = count_tokens(block)
            if used <= (
                room * _STATE_SHARE if examples else room * (_STATE_SHARE + _EXAMPLES_SHARE)
            ):
                blocks.append(block)
                room -= used
                break
    if examples_tokens is not None:
        room = min(room, examples_tokens)
    kept: list[str] = []
    for example in examples:
        done = example.action if secrets else shown_action(example.action)
        text = (
            f"**Action:** {action_json(done, _EXAMPLE_LENGTH)}\n{HEADER}\n"
            f"{clean(shown(example.observation.text, _EXAMPLE_LENGTH, secrets=secrets))}\n"
        )
        used = count_tokens(text)
        if used > room:
            continue
        room -= used
        kept.append(text)
    if kept:
        blocks.append(
            "### Examples\nReal outputs of similar actions in other runs: "
            "take their form, and their values only where they hold here.\n\n"
            + "\n".join(reversed(kept))
            + "\n"
        )
    return blocks


def _short(value: Json, limit: int) -> Json:
    if isinstance(value, str):
        return shorten(value, limit)
    if isinstance(value, dict):
        return {key: _short(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item, limit) for item in value]
    return value
