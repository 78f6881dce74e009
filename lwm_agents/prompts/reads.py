"""Which actions only read, so that the same one again gives the same answer.

For consistency of a simulated world, not for safety: the gate has classifiers of its own.
"""

from __future__ import annotations

import re

from lwm_agents.prompts.bash import only_reads
from lwm_agents.values import Action, ToolSpec

_SHELLS = re.compile(r"(?:^|_)(?:bash|shell|sh|terminal|command|run_command|exec)(?:$|_)")
_READING_NAMES = re.compile(
    r"(?:^|[._])(?:read|get|list|search|find|show|describe|lookup|fetch|view|count|calculate|think"
    r"|query|schema)(?:$|_)|^sql_(?:query|schema)$",
)
_WRITING_NAMES = re.compile(
    r"create|update|delete|remove|set_|add|write|insert|edit|move|send|cancel|book|post|put|execute"
)
_SQL_READ = re.compile(r"[\s(]*(?:select|show|desc|describe|explain|values|with)\b", re.IGNORECASE)
# Verbs of other statements. What begins with none of any dialect's is refused as no SQL at all.
_SQL_OTHER = re.compile(
    r"\W|\s*\b(?:abort|analyze|attach|backup|begin|cache|case|checkpoint|cluster|comment|commit|copy"
    r"|deallocate|declare|detach|discard|do|end|exec|execute|flush|for|grant|handler|if|import|install"
    r"|kill|listen|load|loop|lock|notify|optimize|pragma|prepare|refresh|reindex|release|rename"
    r"|repair|replace|reset|restore|return|revoke|rollback|savepoint|start|stop|truncate|undrop"
    r"|uninstall|unlock|upsert|use|vacuum|while|xa)\b",
    re.IGNORECASE,
)
_SQL_UNSURE = re.compile(
    r"\b(?:insert|update|delete|merge|replace\s+into|into\s+outfile|create|drop|alter|call|set|lock"
    r"|now|rand|random|uuid|sleep|nextval|curdate|curtime|current_\w+|sysdate|last_insert_id)\b"
    r"|;\s*\S",
    re.IGNORECASE,
)


def command_of(action: Action, spec: ToolSpec | None) -> str | None:
    """Return the shell command of an action, None where it is none."""
    command = action.arguments.get("command")
    if not isinstance(command, str):
        return None
    if spec is not None and spec.domain == "terminal":
        return command
    return command if _SHELLS.search(action.tool.lower()) else None


def query_of(action: Action, spec: ToolSpec | None) -> str | None:
    """Return the SQL statement of an action, None where it is none."""
    for name in ("query", "sql", "statement"):
        text = action.arguments.get(name)
        if isinstance(text, str):
            if spec is not None and spec.domain == "database":
                return text
            if "sql" in action.tool.lower():
                return text
    return None


def is_read(action: Action, spec: ToolSpec | None) -> bool:
    """Return whether an action certainly changes nothing and answers alike each time.

    A shell command by what it runs, a SQL statement by its text; any other tool by its own hint,
    or else by a name such as `get_user`. What can't be told is no read.
    """
    command = command_of(action, spec)
    if command is not None:
        return only_reads(command)
    query = query_of(action, spec)
    if query is not None:
        text = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", "''", query)
        return not _SQL_UNSURE.search(text) and bool(
            _SQL_READ.match(text) or not _SQL_OTHER.match(text)
        )
    if spec is not None and spec.annotations.read_only_hint is not None:
        return spec.annotations.read_only_hint
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", action.tool).lower().replace("-", "_")
    return bool(_READING_NAMES.search(name)) and not _WRITING_NAMES.search(name)


def repeats(action: Action, spec: ToolSpec | None) -> bool:
    """Return whether an action done twice in a row certainly answers alike.

    Every read does; so does a command that first moves to an absolute directory and then reads.
    """
    command = command_of(action, spec)
    return is_read(action, spec) or (command is not None and only_reads(command, moving=True))
