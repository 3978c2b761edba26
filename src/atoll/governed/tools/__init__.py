"""Tools that an agent proposed and somebody approved: scripts, commands and sequences of them, run in the jail."""

from atoll.governed.shelves import LoadResult
from atoll.governed.tools.definition import Step, ToolDefinition, ToolRefused
from atoll.governed.tools.running import RuntimeTool, ToolResult, Workshop
from atoll.governed.tools.toolbox import Toolbox

__all__ = ["LoadResult", "RuntimeTool", "Step", "ToolDefinition", "ToolRefused", "ToolResult", "Toolbox", "Workshop"]
