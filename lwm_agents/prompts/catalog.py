"""The system prompt (c in the formal core): our own templates, or a folder of published ones.

Our own: `templates/common.md` and one part a domain; a session's prompt is the common part and the
parts of the domains whose tools it has. Qwen-AgentWorld publishes one whole prompt a domain in
`prompts/{mcp,search,terminal,swe,android,web,os}/system_prompt.txt`; `--prompts DIR` uses such
files as they are. What is known of the tools follows either, so that every model sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import get_args

from lwm_agents.errors import ConfigError
from lwm_agents.values import Domain, Trajectory

DOMAINS: tuple[Domain, ...] = get_args(Domain)

QWEN_FOLDERS: Mapping[Domain, str] = {
    "terminal": "terminal",
    "files": "terminal",
    "database": "mcp",
    "web": "web",
    "api": "mcp",
    "search": "search",
    "code": "swe",
    "desktop": "os",
    "android": "android",
}
"""The folder of Qwen-AgentWorld's published prompts that serves each of our domains."""

_OTHER_NAMES: Mapping[str, Domain] = {
    "db": "database",
    "sql": "database",
    "mcp": "api",
    "swe": "code",
    "os": "desktop",
    "bash": "terminal",
    "shell": "terminal",
    "browser": "web",
}


@dataclass(frozen=True)
class Prompts:
    """System prompts by domain. `common`, where not empty, comes before them once."""

    common: str
    parts: Mapping[Domain, str]
    folder: Path | None = None

    @staticmethod
    @cache
    def own() -> Prompts:
        """Return the templates of this package."""
        folder = files("lwm_agents.prompts") / "templates"
        text = {
            name: (folder / f"{name}.md").read_text(encoding="utf-8").strip()
            for name in ("common", *DOMAINS)
        }
        return Prompts(text["common"], {domain: text[domain] for domain in DOMAINS})

    @staticmethod
    def from_folder(folder: str | Path) -> Prompts:
        """Return the prompts below a folder in Qwen-AgentWorld's layout.

        Only what is there is read; a missing file matters when a session needs it (see `text`).
        Raises ConfigError where the folder is none, or a file in it can't be read as UTF-8.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise ConfigError(f"no folder of prompts at {folder}")
        parts: dict[Domain, str] = {}
        for domain, name in QWEN_FOLDERS.items():
            path = folder / name / "system_prompt.txt"
            try:
                parts[domain] = path.read_text(encoding="utf-8")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"can't read the prompt {path}: {error}") from error
        return Prompts("", parts, folder)

    def text(self, domains: Iterable[Domain]) -> str:
        """Return the prompt for tools of these domains, each part once.

        Raises ConfigError where the folder has no file for one of them, naming the file.
        """
        parts = [self.common] if self.common else []
        for domain in domains:
            part = self.parts.get(domain)
            if part is None:
                missing = (self.folder or Path()) / QWEN_FOLDERS[domain] / "system_prompt.txt"
                raise ConfigError(
                    f"no prompt for the domain {domain}: {missing} is missing; "
                    "put it there, or leave --prompts out to use the built-in ones"
                )
            if part not in parts:
                parts.append(part)
        return "\n\n".join(parts)


def domains_of(trajectory: Trajectory) -> Sequence[Domain]:
    """Return the domains of a trajectory's tools, in a fixed order.

    Where it names no tools, as some recordings don't, its own domain; else "api".
    """
    present = {tool.domain for tool in trajectory.tools}
    if not present:
        present = {domain_named(trajectory.domain)}
    return [domain for domain in DOMAINS if domain in present]


def domain_named(name: str | None) -> Domain:
    """Return our domain for a name from a dataset; "api" for what we don't know."""
    if name is None:
        return "api"
    known = next((domain for domain in DOMAINS if domain == name.lower()), None)
    return known or _OTHER_NAMES.get(name.lower(), "api")
