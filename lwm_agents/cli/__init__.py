"""The command line, `lwm`.

Exit codes: 0 done, 1 failed, 2 misuse. With `--json`, stdout is one JSON document and everything
else goes to stderr.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `lwm`; every error this package raises becomes one message and an exit code."""
    from lwm_agents.cli import output
    from lwm_agents.cli.app import app
    from lwm_agents.errors import LwmError, Misuse

    try:
        app()
    except LwmError as error:
        output.fail(error)
        sys.exit(2 if isinstance(error, Misuse) else 1)
    except KeyboardInterrupt:
        output.errors.print("stopped", style="bold")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away; say nothing, also when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
