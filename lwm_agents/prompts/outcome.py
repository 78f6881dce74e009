"""What an imagined text means: whether it is an error, a shell's exit code, its last line end."""

from __future__ import annotations

import json
import re

from lwm_agents.prompts.reads import command_of
from lwm_agents.prompts.state import is_built_in
from lwm_agents.values import Action, Json, ToolSpec, Trajectory

_EXIT = re.compile(r"(?:\A|\n)\[exit (\d{1,3})\]\s*\Z")
_ENDED = re.compile(r"(?:\A|\n)\[(?:timed out after |ended: |ended from outside)[^\n]*\]\s*\Z")
_SHELL_ERROR = re.compile(
    r"(?:[\w./+-]+|\[)(?: \([\w ]+\))?: (?:.*: )?(?:No such file or directory"
    r"|(?:command )?not found|Permission denied|Is a directory|Not a directory|File exists"
    r"|Directory not empty|[Ii]nvalid (?:option|argument)|[Uu]nknown (?:option|predicate)"
    r"|unrecognized option|missing (?:operand|argument)|syntax error|unexpected (?:EOF|end)"
    r"|[Cc]annot |[Cc]an't |paths must precede)"
)
_ERROR = re.compile(
    r"\s*(?:\[?(?:error|exception|fatal|failed)\b\]?\s*[:!]|error (?:executing|in|at|while)\b"
    r"|traceback \(most recent|invalid arguments? for |[\w.]*(?:error|exception): )",
    re.IGNORECASE,
)
# What our own file tools say (lwm_agents.tools.files).
_FILE_ERROR = re.compile(
    r"(?:No such (?:file|directory)|Permission denied|Read-only file system|Already exists"
    r"|Is (?:a directory|the root)|Not (?:a directory|a regular file|possible)|Directory not empty"
    r"|Name too long|Too many links|Outside the root|Larger than [\d,]+ bytes): "
    r"|old_text (?:was not found|occurs \d+ times) in |Nothing to change: "
)
_ENDS = 2000
"""Characters at the beginning and the end of a text that tell what it means."""
_LINES = frozenset(
    {"shell", "list_directory", "search_files", "sql_query", "sql_execute", "sql_schema"}
)


def looks_like_error(text: str, action: Action, spec: ToolSpec | None) -> bool:
    """Return whether a tool's text reports an error, by the rule of the tool's kind.

    A shell: a last line `[exit N]` with N above 0; for shells of others, which show none, a first
    line that is a usual error message. Our file tools: their own messages. Any other tool: a text
    that begins as an error, or JSON with a set `error` and little else.
    """
    if command_of(action, spec) is not None:
        if exit_code(text) is not None or _ended(text):
            return exit_code(text) != 0
        first = text.lstrip()[:_ENDS].split("\n", 1)[0]
        return not is_built_in(spec) and _SHELL_ERROR.match(first) is not None
    if is_built_in(spec) and spec is not None and spec.domain == "files":
        if action.tool == "read_file":  # a file may hold anything: only the whole message counts
            return _FILE_ERROR.fullmatch(_path_off(text, action)) is not None
        return _FILE_ERROR.match(text) is not None
    if _ERROR.match(text[:_ENDS]):
        return True
    if not text.lstrip().startswith("{") or len(text) > 10_000:
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value.get("error")) and len(value) <= 3


def without_echo(text: str, action: Action) -> str | None:
    """Return the text, or what it holds beside a repetition of the action as JSON; None: nothing.

    Small models repeat the call, sometimes with the output as one more field.
    """
    if not text.lstrip().startswith("{") or len(text) > 100_000:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or value.get("name") != action.tool or "arguments" not in value:
        return text
    rest = {key: item for key, item in value.items() if key not in {"name", "arguments"}}
    if not rest:
        return None
    if len(rest) == 1 and next(iter(rest)) in {"output", "observation", "result"}:
        output = next(iter(rest.values()))
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return text


def exit_code(text: str) -> int | None:
    """Return the exit code that a text shows as its last line, or None."""
    found = _EXIT.search(_end(text))
    return None if found is None else int(found[1])


def _ended(text: str) -> bool:
    """Return whether a text says that its command was ended."""
    return _ENDED.search(_end(text)) is not None


def _end(text: str) -> str:
    """Return the last lines of a text, which may be large."""
    if len(text) <= _ENDS:
        return text
    return text[text.rfind("\n", 0, len(text) - _ENDS) + 1 :][-2 * _ENDS :]


def shell_structured(text: str, cwd: str | None) -> dict[str, Json]:
    """Return what our shell tool tells beside its text, as far as it is known."""
    structured: dict[str, Json] = {
        "exit_code": None if _ended(text) else exit_code(text) or 0,
        "timed_out": bool(re.search(r"(?:\A|\n)\[timed out after [^\n]*\]\s*\Z", _end(text))),
        "truncated": bool(re.search(r"(?:\A|\n)\[ended: [^\n]*\]\s*\Z", _end(text))),
    }
    if cwd is not None:
        structured["cwd"] = cwd
    return structured


def with_line_end(text: str, action: Action, trajectory: Trajectory) -> str:
    """Return the text with the line break at its end that the tool prints and models leave out.

    As the tool's last such answer in the history had it; where there is none, as our own tools do.
    """
    if not text or text.endswith("\n") or exit_code(text) is not None or _ended(text):
        return text
    for transition in reversed(trajectory.transitions[-50:]):
        seen = transition.observation
        if transition.action.tool == action.tool and seen.text and not seen.is_error:
            return text + "\n" if seen.text.endswith("\n") else text
    own = action.tool in _LINES and is_built_in(trajectory.tool(action.tool))
    return text + "\n" if own else text


def _path_off(text: str, action: Action) -> str:
    """Return a message without the path that it ends with, so that file contents never match."""
    return text.strip().removesuffix(str(action.arguments.get("path", "")))
