"""The shell tool: one Bash command a call, with the working directory kept between calls."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Mapping

from lwm_agents.places.place import Place
from lwm_agents.places.process import OUTPUT_LIMIT, Finished, NoBash
from lwm_agents.places.threads import in_thread
from lwm_agents.tools.terminal import screen_text
from lwm_agents.values import Json, Observation, ToolAnnotations, ToolSpec

DEFAULT_TIMEOUT = 120
LONGEST_TIMEOUT = 3600
"""Seconds."""

SHELL_SPEC = ToolSpec(
    name="shell",
    description=(
        "Run a command in Bash and return what a terminal would show at its end, stdout and stderr "
        "together. The working directory is kept between calls; variables are not. There is no "
        "input to read. A non-zero exit code is shown as a last line `[exit N]`. At the time limit "
        "the command and everything it started are ended."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command, as typed into Bash."},
            "timeout": {
                "type": "number",
                "description": "Time limit in seconds.",
                "exclusiveMinimum": 0,
                "maximum": LONGEST_TIMEOUT,
                "default": DEFAULT_TIMEOUT,
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    ),
    domain="terminal",
)


class Shell:
    """The shell tool."""

    spec = SHELL_SPEC

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:  # noqa: ARG002
        """Return why a command can't be passed to Bash at all, or None."""
        command = arguments["command"]
        if "\0" in command:
            return "A command can't hold the character NUL"
        try:
            os.fsencode(command)
        except UnicodeEncodeError:
            return "The command is not text that UTF-8 can say"
        if not math.isfinite(arguments.get("timeout", DEFAULT_TIMEOUT)):
            return "The timeout must be a number of seconds"
        return None

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Run the command in the place.

        Where the working directory can't be entered, nothing runs, not even elsewhere: whoever
        approved the command saw that directory. The next call starts in the root.
        """
        command, timeout = arguments["command"], float(arguments.get("timeout", DEFAULT_TIMEOUT))
        try:
            finished = await place.bash(command, timeout=timeout)
        except OSError as error:
            return Observation(
                text=_said(error, place), source=place.source, is_error=True, structured=None
            )
        return await in_thread(lambda: _observation(finished, timeout, place))


def _observation(finished: Finished, timeout: float, place: Place) -> Observation:
    text = screen_text(finished.output)
    note = _ending(finished, timeout)
    if note:
        text += ("\n" if text and not text.endswith("\n") else "") + note
    return Observation(
        text=text,
        source=place.source,
        is_error=finished.exit_code != 0,
        structured={
            "exit_code": finished.exit_code,
            "cwd": os.fsencode(place.cwd).decode("utf-8", "backslashreplace"),
            "timed_out": finished.timed_out,
            "truncated": finished.truncated,
        },
        raw=None if text.encode() == finished.output else finished.output,
    )


def _ending(finished: Finished, timeout: float) -> str:
    if finished.timed_out:
        return f"[timed out after {timeout:g} s]"
    if finished.truncated:
        return f"[ended: more than {OUTPUT_LIMIT:,} bytes of output]"
    if finished.exit_code is None:
        return "[ended from outside]"
    return f"[exit {finished.exit_code}]" if finished.exit_code else ""


def _said(error: OSError, place: Place) -> str:
    if isinstance(error, NoBash):
        return str(error)
    if error.errno == errno.E2BIG:
        return "The command is too long for this system; write it to a file and run that"
    if error.filename == place.cwd:
        return _left(error, place)
    return f"The command could not be started: {error.strerror}"


def _left(error: OSError, place: Place) -> str:
    """Say that nothing ran because the working directory can't be entered, and leave it."""
    left = place.cwd
    if left == place.root:
        return f"The working directory can't be used: {left}: {error.strerror}; nothing was run"
    place.cwd = place.root
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    what = f"is gone: {left}" if gone else f"can't be used: {left}: {error.strerror}"
    return (
        f"The working directory {what}; nothing was run, and the next call starts in {place.root}"
    )
