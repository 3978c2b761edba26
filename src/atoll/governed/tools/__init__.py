"""Tools that an agent proposed and somebody approved: scripts, commands and sequences of them, run in the jail."""

from atoll.governed.shelves import LoadResult
from atoll.governed.tools.definition import ToolStep, ToolDefinition, InvalidTool
from atoll.governed.tools.running import RuntimeTool, ToolResult, ToolRunner
from atoll.governed.tools.toolbox import ToolBuilder

__all__ = ["LoadResult", "RuntimeTool", "ToolStep", "ToolDefinition", "InvalidTool", "ToolResult", "ToolBuilder", "ToolRunner"]
