"""Tools: what an agent can call, over a place where it acts."""

from lwm_agents.tools.base import Tool, argument_errors, builtin_tools
from lwm_agents.tools.functions import tool_from
from lwm_agents.tools.place import Place, RealPlace
from lwm_agents.tools.sqlite import database_path

__all__ = [
    "Place",
    "RealPlace",
    "Tool",
    "argument_errors",
    "builtin_tools",
    "database_path",
    "tool_from",
]
