"""Commands of `tools` and `skills`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.govern import proposals
from atoll.cli.terminal import options, parsing

tools = options.make_group("Manage approved tools.")
skills = options.make_group("Manage approved skills.")

TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="S", help="Time limit of a call in seconds.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name, as in 'list'.")]


@tools.command("list")
def list_tools(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """List approved tools."""
    with options.open_existing_store(store) as run_store:
        definitions = proposals.open_evolver(run_store).tool_builder.load_all()
    _print_items(definitions, ("name", "version", "execution_type", "description"), as_json)


@tools.command("show")
def show_tool(
    name: NameArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Show the definition of a tool."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        definition = proposals.open_evolver(run_store).tool_builder.find(name)
    if as_json:
        console.print_json(definition.to_json())
    else:
        console.print_result(json.dumps(definition.to_json(), ensure_ascii=False, indent=2))


@tools.command("propose")
def propose_tool(
    definition: proposals.ContentArgument,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Propose a tool for approval.

    \b
    Examples:
      atoll tools propose say.json --author agent
      atoll proposals approve p-0123456789ab --reason "read it"
      atoll tools call say --input '{"text": "hello"}'
    """  # noqa: D301 - \b keeps line breaks
    content = parsing.load_mapping(definition)
    proposals.submit("new_tool", definition, str(content.get("name", "a tool")), "", author, store, as_json)


@tools.command("call")
def call_tool(
    name: NameArgument,
    inputs: Annotated[str, typer.Option("--input", metavar="JSON", help="Input of the tool.")] = "{}",
    timeout: TimeoutOption = 30.0,
    unsafe: options.UnsafeOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Run a tool in the sandbox.

    Prints its output. Exits with status 1 if the tool fails.

    \b
    Examples:
      atoll tools call say --input '{"text": "hello"}'
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.governed.agent.tools import RuntimeTool

    try:
        arguments = json.loads(inputs)
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"--input is not valid JSON: {error}.") from None
    with options.open_existing_store(store) as run_store:
        builder, runner = proposals.open_evolver(run_store).tool_builder, _make_runner(timeout, unsafe)
        try:
            result = RuntimeTool(builder.find(name), runner, builder).execute(arguments)
        finally:
            runner.close()
    if as_json:
        console.print_json({"output": result.output, "is_error": result.is_error})
    else:
        console.print_result(result.output.rstrip("\n"))
    return int(result.is_error)


@tools.command("rollback")
def rollback_tool(
    name: NameArgument,
    version: Annotated[int, typer.Argument(min=1, metavar="N", help="Version to restore.")],
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Restore version N as a new version."""
    from atoll import governed
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        new_version = governed.StoredParameters(run_store).rollback(
            f"tools/{name}", version, reason, author=parsing.resolve_author(author)
        )
    console.print_result(f"Restored version {version} of tools/{name} as version {new_version}.")


@tools.command("serve")
def serve(
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, metavar="N", help="Serve over HTTP on this port instead of stdio."),
    ] = None,
    timeout: TimeoutOption = 30.0,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Also serve tools for proposing changes.")
    ] = None,
    unsafe: options.UnsafeOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Serve approved tools over MCP.

    --agent NAME adds CreateTool, LearnSkill and Reflect. They make proposals by NAME, which need approval.

    \b
    Examples:
      atoll tools serve --store atoll.db        command for an MCP client
      atoll tools serve --port 8770             http://127.0.0.1:8770/mcp, until Ctrl-C
      atoll tools serve --agent helper
    """  # noqa: D301 - \b keeps line breaks
    from atoll.governed.agent import agent_tools
    from atoll.governed.agent.tools import mcp_server

    with options.open_existing_store(store) as run_store:
        evolver, runner = proposals.open_evolver(run_store), _make_runner(timeout, unsafe)
        extra_tools = agent_tools.make_proposal_tools(evolver, agent) if agent else ()
        try:
            mcp_server.serve(evolver.tool_builder, runner, port, extra_tools)
        finally:
            runner.close()


@skills.command("list")
def list_skills(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """List approved skills."""
    with options.open_existing_store(store) as run_store:
        definitions = proposals.open_evolver(run_store).skill_learner.load_all()
    _print_items(definitions, ("name", "version", "usage_count", "success_rate", "description"), as_json)


@skills.command("show")
def show_skill(
    name: NameArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Print a skill as SKILL.md."""
    from atoll.cli.terminal import console
    from atoll.governed.agent import skills as skill_files

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.find(name)
    if as_json:
        console.print_json(skill.to_json())
    else:
        console.print_result(skill_files.format_skill(skill).rstrip("\n"))


@skills.command("propose")
def propose_skill(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with a SKILL.md.")],
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Propose a skill from a SKILL.md folder."""
    from atoll import store as stores
    from atoll.governed.agent import skills as skill_files

    skill = skill_files.read_skill(folder)
    with stores.Store(store) as run_store:
        evolver = proposals.open_evolver(run_store)
        proposal = evolver.propose("new_skill", skill.name, skill.to_json(), parsing.resolve_author(author))
    proposals.print_proposal(proposal, as_json)


@skills.command("export")
def export_skill(
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder in which to create the skill's folder.")],
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Write a skill as a SKILL.md folder."""
    from atoll.cli.terminal import console
    from atoll.governed.agent import skills as skill_files

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.find(name)
    console.print_result(str(skill_files.write_skill(skill, folder)))


@skills.command("record-use")
def record_skill_use(
    name: NameArgument,
    success: Annotated[bool, typer.Option("--success/--failure", help="Outcome of the use.")] = True,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Count one use of a skill."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.record_usage(name, success)
    if as_json:
        console.print_json(skill.to_json())
    else:
        console.print_result(f"{name}: {skill.usage_count} uses, {skill.success_rate:.0%} successful")


def _make_runner(seconds: float, unsafe: bool) -> Any:
    from atoll import executor, sandbox
    from atoll.governed.agent.tools import ToolRunner

    return ToolRunner(executor.ExecutorConfig(sandbox.Limits(seconds=seconds), is_unsafe=unsafe))


def _print_items(listing: Any, names: tuple[str, ...], as_json: bool) -> None:
    from atoll.cli.terminal import console

    for message in listing.errors:
        console.print_note(message)
    if as_json:
        console.print_json([item.to_json() for item in listing.items])
        return
    rows = [tuple(_format_value(getattr(item, name)) for name in names) for item in listing.items]
    headings = tuple(name.replace("_", " ") for name in names)
    console.print_result_table(headings, rows, flexible="description")


def _format_value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
