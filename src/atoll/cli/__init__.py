"""The command line. One file per group of verbs; what they need is imported when they run, so that help is instant."""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

import atoll
from atoll import errors
from atoll.cli import (
    auditing,
    checking,
    comparing,
    controlling,
    demo,
    dialogues,
    exporting,
    extras,
    importing,
    initialising,
    joining,
    listing,
    modelling,
    parameters,
    playing,
    proposing,
    replaying,
    reviewing,
    rolling,
    running,
    serving,
    shadowing,
    showing,
    storing,
    tooling,
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
UNWRITABLE_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF)  # a full disk, a closed stream

# In the order in which somebody meets them; `--help` lists them so.
COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "demo": demo.demo,
    "init": initialising.init,
    "run": running.run,
    "resume": running.resume,
    "join": joining.join,
    "control": controlling.control,
    "list": listing.list_runs,
    "show": showing.show,
    "best": showing.best,
    "diff": comparing.diff,
    "lineage": showing.lineage,
    "tree": dialogues.tree,
    "compare": comparing.compare,
    "report": comparing.report,
    "export": exporting.export,
    "import": importing.import_checkpoint,
    "replay": replaying.replay,
    "shadow": shadowing.shadow,
    "dashboard": serving.dashboard,
    "doctor": checking.doctor,
}
for command_name, command in COMMANDS.items():
    app.command(command_name)(command)
app.add_typer(rolling.app, name="rollout")
app.add_typer(modelling.app, name="llm")
app.add_typer(reviewing.app, name="worldlines")
app.add_typer(playing.app, name="playbook")
app.add_typer(proposing.app, name="proposals")
app.add_typer(tooling.tools, name="tools")
app.add_typer(tooling.skills, name="skills")
app.add_typer(parameters.app, name="params")
app.add_typer(auditing.app, name="audit")
app.add_typer(storing.app, name="store")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit status: 0 done, 1 it failed, 2 bad usage, 130 cut by a second Ctrl-C.

    What goes wrong is told in one sentence; a traceback is for bugs.
    """
    try:
        status: int | None = app(args=arguments, prog_name="atoll", standalone_mode=False)
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)  # of the verb, where the parser got so far
        message, command_path = error.format_message(), context.command_path if context else "atoll"
        return _print_error(f"{message}{'' if message[-1:] in '.?' else '.'} Try '{command_path} --help'.", error.exit_code)
    except (errors.SetupError, errors.NotFound, errors.Conflict) as error:
        return _print_error(str(error), 2)
    except errors.AtollError as error:
        return _print_error(str(error), 1)
    except OSError as error:
        if error.errno == errno.EPIPE:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter complains at its end
            return 0  # whoever reads has seen enough
        if error.errno not in UNWRITABLE_ERRORS:
            raise
        return _print_error(f"The output could not be written: {error.strerror}.", 1)
    return status or 0


def _print_error(sentence: str, status: int) -> int:
    """Says one sentence, in which the words of others may stand: what could take over a terminal is spelled out."""
    text = extras.add_checkout_command(sentence)
    escaped = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], text)
    with contextlib.suppress(OSError):  # nobody listens
        print(f"atoll: {escaped}", file=sys.stderr)
    return status


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(f"atoll {atoll.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Evolves code, prompts, plans and parameters on islands, with LLMs and without them.

    \b
    Examples:
      atoll demo                              a small real run on this machine, with no key
      atoll init llmsr my_task                a task folder that runs as it is
      atoll run my_task --budget 60s          evolve it
      atoll best latest                       what was found
    """  # noqa: D301 - \b keeps the lines of the example apart
    if context.invoked_subcommand is None:
        print(context.get_help())
