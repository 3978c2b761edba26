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
from atoll.cli.data import export, import_checkpoint, logs, store
from atoll.cli.govern import audit, params_read, playbook, proposals, rollout, shadow, tools, worldlines
from atoll.cli.inspect import compare, list_runs, show
from atoll.cli.run import control, demo, init, join, run
from atoll.cli.services import dashboard, doctor, llm

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
    "init": init.init,
    "run": run.run,
    "resume": run.resume,
    "join": join.join,
    "control": control.control,
    "list": list_runs.list_runs,
    "show": show.show,
    "best": show.best,
    "diff": compare.diff,
    "lineage": show.lineage,
    "tree": show.tree,
    "compare": compare.compare,
    "report": compare.report,
    "export": export.export,
    "import": import_checkpoint.import_checkpoint,
    "replay": logs.replay,
    "shadow": shadow.shadow,
    "dashboard": dashboard.dashboard,
    "doctor": doctor.doctor,
}
for command_name, command in COMMANDS.items():
    app.command(command_name)(command)
app.add_typer(rollout.app, name="rollout")
app.add_typer(llm.app, name="llm")
app.add_typer(worldlines.app, name="worldlines")
app.add_typer(playbook.app, name="playbook")
app.add_typer(proposals.app, name="proposals")
app.add_typer(tools.tools, name="tools")
app.add_typer(tools.skills, name="skills")
app.add_typer(params_read.app, name="params")
app.add_typer(audit.app, name="audit")
app.add_typer(store.app, name="store")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit status: 0 done, 1 it failed, 2 bad usage, 130 cut by a second Ctrl-C.

    What goes wrong is told in one sentence; a traceback is for bugs.
    """
    try:
        status: int | None = app(args=arguments, prog_name="atoll", standalone_mode=False)
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)  # of the verb, where the parser got so far
        message, command_path = error.format_message(), context.command_path if context else "atoll"
        return _print_error(
            f"{message}{'' if message[-1:] in '.?' else '.'} Try '{command_path} --help'.", error.exit_code
        )
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
    text = doctor.add_checkout_command(sentence)
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
