"""The nearest world: copies what the nearest action seen before gave, without any model.

A copy is `imagined`, not `recalled`: the state may be another. How likely it is to be right was
measured (docs/worlds.md), and the language world copies where that is likelier than its model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from lwm_agents.prompts.filters import filtered, split_pipe
from lwm_agents.prompts.reads import command_of, is_read
from lwm_agents.prompts.state import arithmetic
from lwm_agents.retrieval import Near, Recordings
from lwm_agents.values import Action, Observation, Signals, Trajectory, Transition

SAME = 0.999
"""From this nearness on two actions say the same, but for capitals, blanks and semicolons."""

SURE = 0.94
"""How often the same action gave the same again, and what always gave the same did once more."""

DOUBTFUL = 0.5
"""The same, where equally kindred recordings of it differ."""

AGAIN, STALE = 0.8, 0.4
"""The same, where something may have changed since: for an action that acts, and one that reads."""

PIPED = 0.9
"""A filter worked out on the output of a pipeline's beginning that was seen before."""

_FLOOR, _SLOPE = 0.15, 0.45  # of another action's copy, by nearness
_KINDRED = 0.15  # kinship that decides between recordings that differ
_ENOUGH = 4  # transitions that show what a tool always does
_COMPLAINT = re.compile(r"(?m)^[\w./-]{1,40}: ")  # perhaps of the error stream, not filtered
_PARTS = re.compile(r"[\w./*~$-]+|\S")


@dataclass(frozen=True)
class Copy:
    """An observation copied, and how likely it is the right one."""

    observation: Observation
    confidence: float
    nearness: float


class NearestWorld:
    """Answers with the observation of the nearest action that was really seen.

    It looks at the trajectory itself and at `recordings` of the same place. Names that differ
    between the two actions are exchanged in the copy.
    """

    def __init__(self, recordings: Recordings) -> None:
        self.recordings = recordings

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return the copy, or None where the tool was never seen in this place."""
        copy = self.copy(action, trajectory)
        return None if copy is None else copy.observation

    def copy(self, action: Action, trajectory: Trajectory) -> Copy | None:
        """Return the best copy with how likely it is right; see `step`."""
        copy = self._nearest(action, trajectory)
        if copy is not None and copy.confidence >= SURE:
            return copy
        return self._piped(action, trajectory) or copy

    def _piped(self, action: Action, trajectory: Trajectory) -> Copy | None:
        """Return what the last filter of a pipeline makes of what the rest of it gave before."""
        command = command_of(action, trajectory.tool(action.tool))
        parts = None if command is None else split_pipe(command)
        if parts is None:
            return None
        before = Action(tool=action.tool, arguments={**action.arguments, "command": parts[0]})
        copy = self.copy(before, trajectory)
        if copy is None or copy.confidence < PIPED or _COMPLAINT.search(copy.observation.text):
            return None
        text = filtered(parts[1], copy.observation.text)
        if text is None:
            return None
        signals = Signals(computed=True, nearness=copy.nearness, length=len(text))
        seen = copy.observation.model_copy(
            update={
                "text": text,
                "is_error": False,
                "structured": None,
                "confidence": PIPED,
                "signals": signals,
            }
        )
        return Copy(seen, PIPED, copy.nearness)

    def _nearest(self, action: Action, trajectory: Trajectory) -> Copy | None:
        found = [
            *self.recordings.own(action, trajectory),
            *self.recordings.near(action, trajectory),
        ]
        if not found:
            return None
        found.sort(key=lambda near: -near.score)
        best = found[0]
        seen = best.transition.observation
        confidence = _confidence(
            best,
            found,
            stale=_changed_since(best, action, trajectory),
            reads=is_read(action, trajectory.tool(action.tool)),
        )
        text = seen.text
        if confidence < SURE:
            known = [near.transition for near in found if near.own]
            known += self.recordings.of_tool(action.tool, trajectory)
            if (ruled := _by_rule(action, known)) is not None:
                text, confidence = ruled, SURE
            else:
                text = _adapted(best.transition.action, seen.text, action)
        return Copy(
            Observation(
                text=text,
                source="imagined",
                is_error=seen.is_error,
                error_known=seen.error_known,
                structured=seen.structured if text == seen.text else None,
                confidence=confidence,
                signals=Signals(nearness=best.nearness, example_match=1.0, length=len(text)),
            ),
            confidence,
            best.nearness,
        )


def _confidence(best: Near, found: Sequence[Near], *, stale: bool, reads: bool) -> float:
    if best.nearness < SAME:
        return _FLOOR + _SLOPE * best.nearness
    others = [
        near
        for near in found
        if near.nearness >= SAME
        and near.transition.observation.text != best.transition.observation.text
    ]
    if stale:
        return STALE if reads else AGAIN
    if best.own or all(best.kinship - near.kinship >= _KINDRED for near in others):
        return SURE
    return DOUBTFUL


def _changed_since(best: Near, action: Action, trajectory: Trajectory) -> bool:
    """Return whether something may have been changed since, in this trajectory.

    The same action again, and failed calls of anything but a shell, are taken to change nothing.
    """
    since = [
        one
        for one in trajectory.transitions
        if not (best.own and one.step <= best.transition.step)
        and one.observation.source != "unanswered"
        and one.action.digest != action.digest
    ]
    for one in since:
        spec = trajectory.tool(one.action.tool)
        failed = one.observation.is_error and one.observation.error_known
        if not is_read(one.action, spec) and not (failed and command_of(one.action, spec) is None):
            return True
    return False


def _by_rule(action: Action, known: Sequence[Transition]) -> str | None:
    """Return what a tool always gives, where all that is known of it follows one simple rule.

    It is a constant, or the value of the one sum among its arguments in one of a few forms.
    """
    if len(known) < _ENOUGH:
        return None
    texts = {one.observation.text for one in known}
    if len(texts) == 1:
        return texts.pop()
    total = _sum_in(action)
    if total is None:
        return None
    for form in _FORMS:
        sums = [(_sum_in(one.action), one.observation.text) for one in known]
        fitting = sum(value is not None and form(value) == text for value, text in sums)
        if fitting >= _ENOUGH and fitting >= 0.9 * len(known):
            return form(total)
    return None


def _sum_in(action: Action) -> float | None:
    values = [arithmetic(value) for value in action.arguments.values() if isinstance(value, str)]
    return values[0] if len(values) == 1 else None


_FORMS: tuple[Callable[[float], str], ...] = (
    lambda value: str(round(float(value), 2)),
    lambda value: str(float(value)),
    lambda value: str(int(value)) if float(value).is_integer() else str(float(value)),
    str,
)


def _adapted(done: Action, text: str, action: Action) -> str:
    """Return what `done` gave with the names in which `action` differs put in their places."""
    old, new = (_PARTS.findall(" ".join(_texts(one.arguments))) for one in (done, action))
    if len(old) + len(new) > 2_000:
        return text
    changed: dict[str, str] = {}
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "replace" and j - i == m - k:
            for one, other in zip(old[i:j], new[k:m], strict=True):
                if re.search("[A-Za-z]{2}", one):
                    changed.setdefault(one, other)
    if not changed:
        return text
    names = "|".join(re.escape(name) for name in sorted(changed, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda found: changed[found.group()], text)


def _texts(arguments: Mapping[str, object]) -> list[str]:
    return [str(value) for value in arguments.values()]
