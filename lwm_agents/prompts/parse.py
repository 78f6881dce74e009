"""The parser of a world model's answer: observation and reasoning out of whatever it wrote.

The form asked for is `<think>...</think><predicted_observation>...</predicted_observation>`, or,
as in the history, `**Environment Observation:**` and the text. Models break both. What stands
inside the tags is taken as it is, so an observation may itself contain tags and code fences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OPEN = "<predicted_observation>"
CLOSE = "</predicted_observation>"
HEADER = "**Environment Observation:**"

_FLAGS = re.IGNORECASE
_OPEN = re.compile(r"<\s*predicted[_\- ]?observations?\s*>", _FLAGS)
_CLOSE = re.compile(r"<\s*/\s*predicted[_\- ]?observations?\s*>", _FLAGS)
_THINK_OPEN = re.compile(r"<\s*(?:think|thinking|reasoning)\s*>", _FLAGS)
_THINK_CLOSE = re.compile(r"<\s*/\s*(?:think|thinking|reasoning)\s*>", _FLAGS)
_HEADER = re.compile(
    r"[ \t]*(?:#{1,4}[ \t]*)?"
    r"(?:\*\*[ \t]*(?:environment|predicted)?[ \t]*observation[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:)"
    r"|(?:environment|predicted)[ \t]+observation[ \t]*:)[ \t]*(?:\r?\n|$|(?=\S))",
    _FLAGS,
)
_TURN = re.compile(r"[ \t]*#{2,4}[ \t]*turn[ \t]+\d+[ \t]*(?:\r?\n|$)", _FLAGS)
_ACTION = re.compile(
    r"[ \t]*\*\*[ \t]*action[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:)\s*"
    r"(?:(`{3,})[a-z]*[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|$)|[^\n]*(?:\n|$))",
    _FLAGS | re.DOTALL,
)
_NEXT_TURN = re.compile(
    r"\r?\n[ \t]*#{2,4}[ \t]*turn[ \t]+\d+[ \t]*\r?\n\s*\*\*[ \t]*action\b", _FLAGS
)
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[\w+\-]*[ \t]*\r?\n", _FLAGS)
_CONTROL_END = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*\Z")
_CONTROL_CUT = re.compile(
    r"<\|(?:im_end|endoftext|eot_id|end)\|>\s*<\|(?:im_start|start_header_id)\|>"
)
_PARTIAL_CLOSE = re.compile(r"\s*<\s*/\s*(?:p(?:r(?:e[a-z_]*)?)?)?\Z", _FLAGS)


_LONGEST = 1_000_000
"""Characters of an answer that is searched for marks; a longer one is taken as it is."""


@dataclass(frozen=True)
class Parsed:
    """What a model's answer says.

    `observation` is None where the answer holds none: nothing at all, or reasoning only.
    `tagged`: it was marked as the observation, by tags or by the header, so even an empty one was
    meant. `complete`: no tag that was opened was left open.
    """

    observation: str | None
    reasoning: str = ""
    tagged: bool = False
    complete: bool = True


def parse(text: str, reasoning: str = "") -> Parsed:
    """Return the observation in a model's answer. Never raises.

    `reasoning` is thinking that the server split off already; what is found in `text` is added.
    """
    if len(text) > _LONGEST:
        # No model writes so much; searching it for tags would take seconds.
        tagged = text.startswith(HEADER)
        return Parsed(_strip_edges(text.removeprefix(HEADER)), reasoning, tagged=tagged)
    text = _cut_chatter(text)
    thought, rest, thinking_open = _split_thinking(text)
    reasoning = "\n".join(part for part in (reasoning.strip(), thought) if part)
    if thinking_open:
        return Parsed(None, reasoning, complete=False)
    rest = _strip_echo(rest)
    found = _tagged(rest)
    if found is not None:
        content, complete = found
        return Parsed(content, reasoning, tagged=True, complete=complete)
    header = _HEADER.match(rest.lstrip("\r\n"))
    if header:
        body = _strip_edges(_unfence(rest.lstrip("\r\n")[header.end() :]))
        return Parsed(body, reasoning, tagged=True)
    fenced = _unfence(rest)
    if fenced != rest:
        inner = parse(fenced)
        if inner.tagged:
            return Parsed(inner.observation, reasoning, True, inner.complete)
        return Parsed(_strip_edges(fenced), reasoning, tagged=not fenced)
    body = _strip_edges(rest)
    if not body.strip():
        return Parsed(None, reasoning)
    return Parsed(body, reasoning)


def _cut_chatter(text: str) -> str:
    """Drop control tokens at the end and a next turn that the model went on to invent."""
    text = text.removeprefix("\ufeff")
    for cut in (_CONTROL_CUT.search(text), _NEXT_TURN.search(text)):
        # A turn at the very start is an echo of this one, not the next.
        if cut and text[: cut.start()].strip():
            text = text[: cut.start()]
    while end := _CONTROL_END.search(text):
        text = text[: end.start()]
    return text


def _split_thinking(text: str) -> tuple[str, str, bool]:
    """Return (reasoning, the rest, whether only unfinished reasoning is there)."""
    answer = _OPEN.search(text)
    opened = _THINK_OPEN.match(text.lstrip())
    closed = None
    if opened:
        start = len(text) - len(text.lstrip()) + opened.end()
        # The answer's tag may be named inside the thinking, so the close of the thinking counts
        # first; only an answer that nothing closes after it ends the thinking by itself.
        closed = _THINK_CLOSE.search(text, start)
        if closed is None:
            answer = _line_start(_OPEN, text, start) or _OPEN.search(text, start)
            if answer is None:
                header = re.compile(r"^" + _HEADER.pattern, _FLAGS | re.MULTILINE).search(
                    text, start
                )
                if header is None:
                    return text[start:].strip(), "", True
                return text[start : header.start()].strip(), text[header.start() :], False
            return text[start : answer.start()].strip(), text[answer.start() :], False
        if answer and start <= answer.start() < closed.start():
            inner = _CLOSE.search(text, answer.end())
            if inner and inner.end() <= closed.start() and not _OPEN.search(text, closed.end()):
                # <think>...<predicted_observation>X</predicted_observation></think>: the answer
                # was put inside the thinking and nothing follows it.
                if not text[closed.end() :].strip():
                    return (
                        text[start : answer.start()].strip(),
                        text[answer.start() : closed.start()],
                        False,
                    )
            elif inner and inner.start() > closed.start() and not _OPEN.search(text, closed.end()):
                # The thinking was left open and what closed it belongs to the observation.
                return text[start : answer.start()].strip(), text[answer.start() :], False
        return _and_more_thinking(text[start : closed.start()].strip(), text[closed.end() :])
    closed = _THINK_CLOSE.search(text)
    if (
        closed
        and (answer is None or closed.start() < answer.start())
        and not _wrapped_by_header(text)
    ):
        # The template opened the thinking, so the answer starts inside it.
        if _THINK_OPEN.search(text, 0, closed.start()):
            return "", text, False
        return _and_more_thinking(text[: closed.start()].strip(), text[closed.end() :])
    return "", text, False


def _and_more_thinking(thought: str, rest: str) -> tuple[str, str, bool]:
    """Take off further thinking blocks, and stray closing tags, that stand before the answer."""
    while stray := _THINK_CLOSE.match(rest.lstrip()):
        rest = rest.lstrip()[stray.end() :]
    if not _THINK_OPEN.match(rest.lstrip()):
        return thought, rest, False
    more, rest, unfinished = _split_thinking(rest)
    return "\n".join(part for part in (thought, more) if part), rest, unfinished


def _wrapped_by_header(text: str) -> bool:
    return bool(_HEADER.match(text.lstrip()))


def _strip_echo(text: str) -> str:
    """Take off a repetition of this turn's own heading and action."""
    while True:
        stripped = text.lstrip("\r\n")
        match = _TURN.match(stripped) or _ACTION.match(stripped)
        if not match:
            return text
        text = stripped[match.end() :]


def _line_start(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """Return the first match that stands at the start of a line."""
    for match in pattern.finditer(text, start):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not line.strip() or _HEADER.match(line):
            return match
    return None


def _tagged(text: str) -> tuple[str, bool] | None:
    """Return (content, closed) of the answer's tags, or None where the answer has none."""
    opened = _line_start(_OPEN, text)
    if opened is None:
        inline = _OPEN.search(text)
        if inline:
            # "Here it is: <predicted_observation>x</predicted_observation>" on one line; tags that
            # an untagged observation merely mentions don't end it.
            tail = text[inline.end() :].rstrip()
            closing = list(_CLOSE.finditer(tail))
            if closing and closing[-1].end() == len(tail):
                opened = inline
    if opened is None:
        return _only_closed(text)
    end, after = _matching_close(text, opened.end())
    if end is None:
        body = _PARTIAL_CLOSE.sub("", text[opened.end() :])
        complete = False
        # Tags opened twice and closed once.
        closing = list(_CLOSE.finditer(body))
        if closing:
            body, complete = body[: closing[-1].start()], True
            again = _OPEN.match(body.lstrip())
            if again:
                body = body.lstrip()[again.end() :]
        return _strip_edges(body), complete
    body = _unwrap(text[opened.end() : end])
    if not body.strip():
        later = _line_start(_OPEN, text, after)
        if later:
            return _tagged(text[later.start() :])
    return _strip_edges(body), True


def _only_closed(text: str) -> tuple[str, bool] | None:
    """Return what stands before a closing tag that nothing opened, at the end of the answer."""
    closed = _CLOSE.search(text)
    if closed is None or _OPEN.search(text):
        return None
    if text[closed.end() :].strip("` \r\n"):
        line = text[text.rfind("\n", 0, closed.start()) + 1 : closed.start()]
        if line.strip():
            return None  # mentioned within a line, and more follows: part of the observation
    body = text[: closed.start()]
    header = _HEADER.match(body.lstrip("\r\n"))
    if header:
        body = body.lstrip("\r\n")[header.end() :]
    return _strip_edges(body), True


def _matching_close(text: str, start: int) -> tuple[int | None, int]:
    """Return (start, end) of the closing tag that belongs to the tag opened before `start`."""
    depth, position = 1, start
    while True:
        closed = _CLOSE.search(text, position)
        if closed is None:
            return None, len(text)
        depth += len(_OPEN.findall(text, position, closed.start())) - 1
        if depth <= 0:
            return closed.start(), closed.end()
        position = closed.end()


def _unwrap(body: str) -> str:
    """Take off a second pair of the same tags, and the header, directly inside the first."""
    while True:
        stripped = body.strip()
        opened = _OPEN.match(stripped)
        if opened:
            end, after = _matching_close(stripped, opened.end())
            if end is not None and after == len(stripped):
                body = stripped[opened.end() : end]
                continue
        header = _HEADER.match(body.lstrip("\r\n"))
        if header:
            body = body.lstrip("\r\n")[header.end() :]
            continue
        return body


def _unfence(text: str) -> str:
    """Return the inside of a code fence that encloses all of `text`, else `text` itself."""
    opened = _FENCE.match(text)
    if not opened:
        return text
    fence = opened.group(1)
    lines = text[opened.end() :].rstrip().split("\n")
    if lines[-1].strip() != fence:
        return text
    if any(line.lstrip().startswith(fence) for line in lines[:-1]):
        return text  # more than one block: the fences are part of the observation
    return "\n".join(lines[:-1])


def _strip_edges(text: str) -> str:
    """Drop the one line break after an opening and the one before a closing mark."""
    text = text.removeprefix("\r\n").removeprefix("\n")
    return text.removesuffix("\n").removesuffix("\r")
