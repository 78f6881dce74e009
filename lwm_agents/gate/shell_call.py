"""A call of a program, as the classifiers of shell commands see it, and its options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lwm_agents.gate.shell_syntax import Word
from lwm_agents.values import Effect

Found = frozenset[Effect]
"""Everything a call can do."""

READ: Found = frozenset({"read"})
WRITE: Found = frozenset({"write"})
DESTROY: Found = frozenset({"destroy"})
EXTERNAL: Found = frozenset({"external"})
UNKNOWN: Found = frozenset({"unknown"})

NO_FILE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"})
"""What can be written to without a trace."""


MAX_WORK = 250_000
"""How much of one command line is looked at: characters, those in nested lines each time again."""


@dataclass
class Work:
    """How much may still be looked at; when nothing is left, the answer is unknown."""

    left: int = MAX_WORK

    def spend(self, amount: int) -> bool:
        """Take the amount off and say whether there was so much."""
        self.left -= amount
        return self.left >= 0


@dataclass(frozen=True)
class Call:
    """A program's plain name, its arguments, and the text fed to it where that is known.

    `depth` counts the command lines it is nested in (`bash -c`, `eval`); `work` is what may still
    be looked at.
    """

    name: str
    arguments: Sequence[Word]
    fed: str | None = None
    depth: int = 0
    work: Work = field(default_factory=Work)

    @property
    def values(self) -> list[str | None]:
        """The arguments' values; None for a word that only Bash can finish."""
        return [word.value for word in self.arguments]

    @property
    def open_ended(self) -> bool:
        """Whether a word without a value, or with a wildcard first, may turn out an option."""
        return any(word.value is None or word.wild for word in self.arguments)


def option_effects(options: Mapping[str, Effect], call: Call) -> Found:
    """Return what the options found add; unknown where a word might turn out to be one."""
    found: set[Effect] = set()
    if options and call.open_ended:
        found |= UNKNOWN
    for value in call.values:
        found |= {
            e for option, e in options.items() if value is not None and is_option(value, option)
        }
    return frozenset(found)


def is_option(value: str, option: str) -> bool:
    """Say whether a word may be this option: abbreviated, in a cluster, with a value attached."""
    if option.startswith("--"):
        given = value.split("=", 1)[0]
        return len(given) > 2 and given.startswith("--") and option.startswith(given)
    if option.startswith("-"):
        return value.startswith("-") and not value.startswith("--") and option[1] in value
    return value.startswith(option)


def reduced(effects: Collection[Effect]) -> Found:
    """Leave out what is implied: `write` beside `destroy`, `read` beside anything; never empty."""
    found = set(effects) - {"read"}
    if "destroy" in found:
        found -= {"write"}
    return frozenset(found) or READ
