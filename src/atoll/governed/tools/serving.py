"""Approved tools over MCP: whoever speaks it may list and call them. Needs the extra `mcp`."""

import asyncio
import logging
from typing import Any

from atoll import errors
from atoll.governed.tools.definition import ToolDefinition
from atoll.governed.tools.running import RuntimeTool, Workshop
from atoll.governed.tools.toolbox import Toolbox

try:
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError as error:
    raise errors.MissingExtra("Tools are served over MCP by an extra: pip install 'atoll[mcp]'.") from error


def make_server(toolbox: Toolbox, workshop: Workshop) -> Server[Any]:
    """Returns a server of all approved tools.

    They are read from the store at each list and call, so one that is approved, changed or rolled back meanwhile is
    there at once. One that is not safe to run beside itself runs one call at a time.
    """
    locks: dict[str, asyncio.Lock] = {}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        found = await asyncio.to_thread(toolbox.load_all)
        for sentence in found.errors:
            logging.getLogger(__name__).warning(sentence)
        return types.ListToolsResult(tools=[_described(each) for each in found.items])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = await asyncio.to_thread(toolbox.find, params.name)
        except errors.AtollError as error:
            return _result(str(error), True)
        run = RuntimeTool(tool, workshop, toolbox)
        if tool.concurrency_safe:
            return _result(*await asyncio.to_thread(run.execute, params.arguments or {}))
        async with locks.setdefault(tool.name, asyncio.Lock()):
            return _result(*await asyncio.to_thread(run.execute, params.arguments or {}))

    return Server("atoll", on_list_tools=list_tools, on_call_tool=call_tool)


def serve(toolbox: Toolbox, workshop: Workshop, port: int | None = None) -> None:
    """Serves until the input ends, or, at a port of loopback, until Ctrl-C."""
    server = make_server(toolbox, workshop)
    if port is None:
        asyncio.run(_on_standard_streams(server))
        return
    import uvicorn  # comes with mcp

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


async def _on_standard_streams(server: Server[Any]) -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _described(tool: ToolDefinition) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=False,  # a jail holds it: what it writes is gone with the call
        idempotent_hint=tool.read_only,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        annotations=hints,
        _meta={"concurrency_safe": tool.concurrency_safe, "version": tool.version, "is_evolved": True},
    )


def _result(output: str, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=output)], is_error=is_error)
