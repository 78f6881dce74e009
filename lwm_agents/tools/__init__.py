"""Tools: what an agent can call, over a place where it acts."""

from lwm_agents.tools.base import Tool, argument_errors, builtin_tools
from lwm_agents.tools.functions import tool_from

__all__ = [
    "Tool",
    "argument_errors",
    "builtin_tools",
    "tool_from",
]
