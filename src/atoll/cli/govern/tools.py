"""The verbs `atoll tools list|show|add|call|rollback|serve` and `atoll skills list|show|add|export|used`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.govern import proposals
from atoll.cli.terminal import options, parsing

tools = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after tools that agents proposed and somebody approved: see, call, serve, go back.",
)
skills = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after skills that agents learnt: see them, bring them in, hand them on as SKILL.md.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As 'list' shows it.")]


@tools.command("list")
def list_tools(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Lists the tools that were approved."""
    with options.open_existing_store(store) as run_store:
        definitions = proposals.open_evolver(run_store).tool_builder.load_all()
    _print_items(definitions, ("name", "version", "execution_type", "description"), as_json)


@tools.command("show")
def show_tool(
    name: NameArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Shows a tool's definition, with what it runs."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        definition = proposals.open_evolver(run_store).tool_builder.find(name)
    if as_json:
        console.print_json(definition.to_json())
    else:
        console.print_line(console.get_stdout_console(), json.dumps(definition.to_json(), ensure_ascii=False, indent=2))


@tools.command("add")
def add_tool(
    definition: proposals.ContentArgument,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Proposes a tool; it is there when somebody else has approved it.

    \b
    Examples:
      atoll tools add say.json --author agent
      atoll proposals approve p-0123456789ab --reason "read it"
      atoll tools call say --input '{"text": "hello"}'
    """  # noqa: D301 - \b keeps the lines of the examples apart
    content = parsing.load_mapping(definition)
    proposals.submit("new_tool", definition, str(content.get("name", "a tool")), "", author, store, as_json)


@tools.command("call")
def call_tool(
    name: NameArgument,
    inputs: Annotated[str, typer.Option("--input", metavar="JSON", help="What its schema asks for.")] = "{}",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="S", help="How long it may take.")] = 30.0,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Run it where this machine has no jail.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Calls a tool in the jail and prints what it puts out; exits 1 if it failed.

    \b
    Examples:
      atoll tools call say --input '{"text": "hello"}'
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.governed.agent.tools import RuntimeTool

    try:
        arguments = json.loads(inputs)
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"--input is no JSON: {error}.") from None
    with options.open_existing_store(store) as run_store:
        builder, runner = proposals.open_evolver(run_store).tool_builder, _make_runner(seconds, unsafe)
        try:
            result = RuntimeTool(builder.find(name), runner, builder).execute(arguments)
        finally:
            runner.close()
    if as_json:
        console.print_json({"output": result.output, "is_error": result.is_error})
    else:
        console.print_line(console.get_stdout_console(), result.output.rstrip("\n"))
    return int(result.is_error)


@tools.command("rollback")
def rollback_tool(
    name: NameArgument,
    version: Annotated[int, typer.Argument(min=1, metavar="N", help="The version to go back to.")],
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Makes an old version of a tool the newest one; the history keeps everything."""
    from atoll import governed
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        new_version = governed.StoredParameters(run_store).rollback(
            f"tools/{name}", version, reason, author=parsing.resolve_author(author)
        )
    console.print_line(
        console.get_stdout_console(), f"tools/{name} is at version {new_version}, as it was in version {version}."
    )


@tools.command("serve")
def serve(
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, metavar="N", help="HTTP on loopback.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="S", help="How long a call may take.")] = 30.0,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Run them where this machine has no jail.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Serves the approved tools over MCP: on standard input and output, or at a port of this machine alone.

    \b
    Examples:
      atoll tools serve --store atoll.db        as the command of an MCP client
      atoll tools serve --port 8770             http://127.0.0.1:8770/mcp, until Ctrl-C
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.governed.agent.tools import mcp_server

    with options.open_existing_store(store) as run_store:
        runner = _make_runner(seconds, unsafe)
        try:
            mcp_server.serve(proposals.open_evolver(run_store).tool_builder, runner, port)
        finally:
            runner.close()


@skills.command("list")
def list_skills(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Lists the skills that were approved."""
    with options.open_existing_store(store) as run_store:
        definitions = proposals.open_evolver(run_store).skill_learner.load_all()
    _print_items(definitions, ("name", "version", "usage_count", "success_rate", "description"), as_json)


@skills.command("show")
def show_skill(
    name: NameArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Shows a skill as its SKILL.md."""
    from atoll.cli.terminal import console
    from atoll.governed.agent import skills as kinds

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.find(name)
    if as_json:
        console.print_json(skill.to_json())
    else:
        console.print_line(console.get_stdout_console(), kinds.format_skill(skill).rstrip("\n"))


@skills.command("add")
def add_skill(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a SKILL.md.")],
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Proposes a skill from a SKILL.md, ours or anybody's; it is there when somebody else has approved it."""
    from atoll import store as stores
    from atoll.governed.agent import skills as kinds

    skill = kinds.read_skill(folder)
    with stores.Store(store) as run_store:
        evolver = proposals.open_evolver(run_store)
        proposal = evolver.propose("new_skill", skill.name, skill.to_json(), parsing.resolve_author(author))
    proposals.print_proposal(proposal, as_json)


@skills.command("export")
def export_skill(
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a folder of its name is made.")],
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Writes a skill as a folder with a SKILL.md, which other agents read."""
    from atoll.cli.terminal import console
    from atoll.governed.agent import skills as kinds

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.find(name)
    console.print_line(console.get_stdout_console(), str(kinds.write_skill(skill, folder)))


@skills.command("used")
def record_skill_use(
    name: NameArgument,
    success: Annotated[bool, typer.Option("--well/--in-vain", help="How it went.")] = True,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Counts a use of a skill."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        skill = proposals.open_evolver(run_store).skill_learner.record_usage(name, success)
    if as_json:
        console.print_json(skill.to_json())
    else:
        console.print_line(
            console.get_stdout_console(), f"{name}: {skill.usage_count} uses, {skill.success_rate:.0%} of them well"
        )


def _make_runner(seconds: float, unsafe: bool) -> Any:
    from atoll import executor, sandbox
    from atoll.governed.agent.tools import ToolRunner

    return ToolRunner(executor.ExecutorConfig(sandbox.Limits(seconds=seconds), is_unsafe=unsafe))


def _print_items(listing: Any, names: tuple[str, ...], as_json: bool) -> None:
    from atoll.cli.terminal import console

    for sentence in listing.errors:
        console.print_line(console.get_stderr_console(), sentence)
    if as_json:
        console.print_json([item.to_json() for item in listing.items])
        return
    rows = [tuple(_format_value(getattr(item, name)) for name in names) for item in listing.items]
    headings = tuple(name.replace("_", " ") for name in names)
    console.print_table(console.get_stdout_console(), headings, rows, flexible="description")


def _format_value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
