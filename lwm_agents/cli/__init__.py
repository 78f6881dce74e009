"""The command line, `lwm`.

Exit codes: 0 done, 1 failed, 2 misuse. With `--json`, stdout is one JSON document and everything
else goes to stderr.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys


def main() -> None:
    """Run `lwm`; every error this package raises becomes one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a sign must not end a run in the middle.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        code = 1  # the reader of our output went away: say nothing
    except OSError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"error: {error.strerror or error}\n")
        code = 1
    if code:
        # What could not be written by now can't be written when Python flushes at exit, either.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.exit(code)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)


def _run() -> int:
    from lwm_agents.cli import output
    from lwm_agents.cli.app import app
    from lwm_agents.errors import LwmError, Misuse

    try:
        app()
    except LwmError as error:
        if "--json" in sys.argv:
            output.print_json({"error": str(error)})
        output.fail(error)
        return 2 if isinstance(error, Misuse) else 1
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return 0
