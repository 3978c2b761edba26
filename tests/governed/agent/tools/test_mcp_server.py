"""MCP server: an MCP client lists and calls approved tools (G95, 4.5)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from atoll import executor, sandbox
from atoll.governed.agent.tools import ToolBuilder, ToolRunner
from atoll.governed.parameters import MemoryParameters

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAY: dict[str, Any] = {
    "name": "say",
    "description": "Says it.",
    "input_schema": SCHEMA,
    "execution_type": "command",
    "command": "echo {{.text}}",
    "read_only": True,
}


@pytest.fixture
def runner() -> Iterator[ToolRunner]:
    opened = ToolRunner(executor.ExecutorConfig(sandbox.Limits(seconds=10.0)))
    yield opened
    opened.close()


def test_mcp_client_lists_and_calls_approved_tools(runner: ToolRunner) -> None:
    mcp = pytest.importorskip("mcp")
    from atoll.governed.agent.tools import mcp_server

    builder = ToolBuilder(MemoryParameters())
    builder.save(SAY, "useful", "ann", "t1")

    async def talk() -> None:
        async with mcp.Client(mcp_server.make_server(builder, runner)) as client:
            (tool,) = (await client.list_tools()).tools
            assert (tool.name, tool.input_schema) == ("say", SCHEMA)
            assert tool.annotations.read_only_hint
            assert tool.meta["version"] == 1
            response = await client.call_tool("say", {"text": "$(id); rm -rf /"})
            assert (response.content[0].text, response.is_error) == ("$(id); rm -rf /\n", False)
            wrong = await client.call_tool("say", {"text": 5})
            assert wrong.is_error
            missing = await client.call_tool("nothing", {})
            assert missing.is_error
            await asyncio.to_thread(builder.save, {**SAY, "name": "more"}, "useful", "ann", "t2")
            assert [tool.name for tool in (await client.list_tools()).tools] == ["more", "say"]  # without a restart

    asyncio.run(talk())
