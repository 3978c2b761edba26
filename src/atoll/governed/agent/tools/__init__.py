"""Tools that an agent proposed and somebody approved: scripts, commands and sequences of them, run in the jail."""

from atoll.governed.agent.tools.builder import ToolBuilder
from atoll.governed.agent.tools.definition import InvalidTool, ToolDefinition, ToolStep
from atoll.governed.agent.tools.runner import RuntimeTool, ToolResult, ToolRunner
from atoll.governed.reserved_keys import LoadResult

__all__ = [
    "LoadResult",
    "RuntimeTool",
    "ToolStep",
    "ToolDefinition",
    "InvalidTool",
    "ToolResult",
    "ToolBuilder",
    "ToolRunner",
]
