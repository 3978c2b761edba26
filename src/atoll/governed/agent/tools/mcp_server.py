"""MCP server of approved tools. Needs the extra `mcp`."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from atoll import errors
from atoll.governed.agent.agent_tools import ProposalTool
from atoll.governed.agent.tools.definition import ToolBuilder, ToolDefinition
from atoll.governed.agent.tools.runner import RuntimeTool, ToolRunner

try:
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError as error:
    raise errors.MissingExtra("Serving tools over MCP needs an extra: pip install 'atoll[mcp]'.") from error


def make_server(builder: ToolBuilder, runner: ToolRunner, extra_tools: Sequence[ProposalTool] = ()) -> Server[Any]:
    """Returns an MCP server of all approved tools, and of tools for proposals.

    Each request reads the store, so approvals and rollbacks take effect at once. Calls of a tool that is not
    `concurrency_safe` run one at a time.
    """
    locks: dict[str, asyncio.Lock] = {}
    extra_by_name = {tool.name: tool for tool in extra_tools}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        loaded = await asyncio.to_thread(builder.load_all)
        for message in loaded.errors:
            logging.getLogger(__name__).warning(message)
        tools: list[ToolDefinition | ProposalTool] = [*loaded.items, *extra_tools]
        return types.ListToolsResult(tools=[_describe(tool) for tool in tools])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name in extra_by_name:
            return _make_result(*await asyncio.to_thread(extra_by_name[params.name].execute, params.arguments or {}))
        try:
            tool = await asyncio.to_thread(builder.find, params.name)
        except errors.AtollError as error:
            return _make_result(str(error), True)
        runtime_tool = RuntimeTool(tool, runner, builder)
        if tool.concurrency_safe:
            return _make_result(*await asyncio.to_thread(runtime_tool.execute, params.arguments or {}))
        async with locks.setdefault(tool.name, asyncio.Lock()):
            return _make_result(*await asyncio.to_thread(runtime_tool.execute, params.arguments or {}))

    return Server("atoll", on_list_tools=list_tools, on_call_tool=call_tool)


def serve(
    builder: ToolBuilder, runner: ToolRunner, port: int | None = None, extra_tools: Sequence[ProposalTool] = ()
) -> None:
    """Serves over stdio until the input ends, or over HTTP on a loopback port until Ctrl-C."""
    server = make_server(builder, runner, extra_tools)
    if port is None:
        asyncio.run(_serve_stdio(server))
        return
    import uvicorn  # installed with mcp

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _describe(tool: ToolDefinition | ProposalTool) -> types.Tool:
    if isinstance(tool, ProposalTool):
        return types.Tool(name=tool.name, description=tool.description, input_schema=dict(tool.input_schema))
    hints = types.ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=False,  # the sandbox discards all files after the call
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


def _make_result(output: str, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=output)], is_error=is_error)
