"""Approved tools: scripts, commands and composites, run in the sandbox."""

from atoll.governed.agent.tools.definition import InvalidTool, ToolBuilder, ToolDefinition, ToolStep
from atoll.governed.agent.tools.runner import RuntimeTool, ToolResult, ToolRunner
from atoll.governed.reserved_keys import LoadResult

__all__ = [
    "InvalidTool",
    "LoadResult",
    "RuntimeTool",
    "ToolBuilder",
    "ToolDefinition",
    "ToolResult",
    "ToolRunner",
    "ToolStep",
]
