"""Everything this package raises.

    LwmError
    ├── Misuse                 the caller can fix it; the message names the fix
    │   ├── ConfigError        a config, policy or scenario file is wrong
    │   ├── PlanError          a plan file is wrong; names the line and the field
    │   └── PromiseError       something real was asked of a dry run
    ├── EngineError            a text model failed; never shown to an agent as an observation
    │   ├── EngineUnreachable  no answer, with the URL and how to start a server
    │   └── EngineRefused      it answered, but not with a completion
    ├── ChangesError           a rehearsal's changes could not be applied, or taken back
    │   ├── Conflict           the real files are not what they were; names every path and why
    │   └── CommitFailed       the system refused a step; everything is as it was before
    └── StoreError             the log could not be read or written
        ├── StoreFull          the disk is full
        ├── StoreReadOnly      the file or its folder can't be written
        ├── StoreCorrupt       the file is not a sound database
        ├── StoreTooNew        written by a newer version of this package
        └── StoreBusy          another process kept it locked too long

Three kinds never mix. What a tool would itself answer, such as "no such file", is data: an
`Observation` with `is_error`. A world model that failed is an `EngineError`. A wrong call is
`Misuse`.
"""

from __future__ import annotations

from collections.abc import Mapping


class LwmError(Exception):
    """Base of everything this package raises."""


class Misuse(LwmError):
    """The call or a file it names is wrong; the message says how to put it right."""


class ConfigError(Misuse):
    """A config, policy or scenario file can't be used."""


class PlanError(Misuse):
    """A plan can't be used; the message names the line and the field."""


class PromiseError(Misuse):
    """Something real was asked for in a mode that promises nothing real happens."""


class EngineError(LwmError):
    """A text model could not complete."""


class EngineUnreachable(EngineError):
    """No engine answered at the address given."""


class EngineRefused(EngineError):
    """The engine answered with an error, or with something that is no completion."""


class ChangesError(LwmError):
    """A rehearsal's changes could not be applied to the real files, or taken back."""


class Conflict(ChangesError):
    """The real files are not what they were. `paths` says why, for every path in the way."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = dict(paths)
        listed = "".join(f"\n  {path!a}: {why}" for path, why in self.paths.items())
        super().__init__(f"the real files are not what they were:{listed}")


class CommitFailed(ChangesError):
    """The system refused a step of a commit or an undo; what was begun has been taken back."""


class StoreError(LwmError):
    """The log could not be read or written."""


class StoreFull(StoreError):
    """The disk that holds the log is full."""


class StoreReadOnly(StoreError):
    """The log, or the folder it lies in, can't be written."""


class StoreCorrupt(StoreError):
    """The file is not a sound lwm-agents log."""


class StoreTooNew(StoreError):
    """The log was written by a newer version of this package."""


class StoreBusy(StoreError):
    """Another process kept the log locked for longer than we wait."""
