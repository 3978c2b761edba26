"""Command line. One file per group of verbs. Verbs import what they need when they run, so that help is fast."""

import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
import typer.core
import typer.main

import atoll
from atoll import errors
from atoll.cli import aliases
from atoll.cli.data import export, logs, store
from atoll.cli.govern import audit, params_read, playbook, proposals_from_logs, rollout, tools, worldlines
from atoll.cli.inspect import compare, show
from atoll.cli.run import control, run, start
from atoll.cli.services import completion, dashboard, doctor, llm

UNWRITABLE_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF)  # a full disk, a closed stream

# In the order of `--help`.
COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "demo": start.demo,
    "init": start.init,
    "check": start.check,
    "doctor": doctor.doctor,
    "run": run.run,
    "resume": run.resume,
    "join": run.join,
    "control": control.control,
    "mailbox": control.mailbox,
    "list": show.list_runs,
    "show": show.show,
    "best": show.best,
    "diff": compare.diff,
    "lineage": show.lineage,
    "tree": show.tree,
    "compare": compare.compare,
    "report": compare.report,
    "dashboard": dashboard.dashboard,
    "export": export.export,
    "import": export.import_checkpoint,
    "completion": completion.completion,
    "help": completion.show_help,
}
GROUPS: Mapping[str, typer.Typer] = {
    "store": store.app,
    "llm": llm.app,
    "worldlines": worldlines.app,
    "proposals": proposals_from_logs.app,
    "playbook": playbook.app,
    "params": params_read.app,
    "rollout": rollout.app,
    "logs": logs.app,
    "audit": audit.audit_app,
    "access": audit.access_app,
    "tools": tools.tools,
    "skills": tools.skills,
}
WHOLE_TREE = ("help", "completion")  # commands that read all other commands
# Headings of `--help`, and the commands and groups below each.
SECTIONS: Mapping[str, Sequence[str]] = {
    "Start": ("demo", "init", "check", "doctor", "help", "completion"),
    "Run": ("run", "resume", "control", "join", "mailbox"),
    "Inspect": ("list", "show", "best", "diff", "lineage", "tree", "compare", "report", "dashboard"),
    "Data and LLMs": ("export", "import", "store", "llm"),
    "Govern": (
        *("params", "proposals", "rollout", "logs", "audit", "access"),
        *("playbook", "tools", "skills", "worldlines"),
    ),
}


class SectionedGroup(typer.core.TyperGroup):
    """Root command whose help lists the commands in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(100)) for name in names if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(f"atoll {atoll.__version__}")
        raise typer.Exit


def root_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Evolve programs, prompts, plans and parameters.

    \b
    Examples:
      atoll demo                              a run of 10 seconds, without an API key
      atoll init program my_task              create a task folder; atoll init asks what you have
      atoll check my_task                     measure time and noise of an evaluation
      atoll run my_task --budget 60s          evolve it
      atoll best latest                       print the best candidate
    """  # noqa: D301 - \b keeps the lines of the example apart
    if context.invoked_subcommand is None:
        print(context.get_help())


def _make_app(commands: Mapping[str, Callable[..., int | None]], groups: Mapping[str, typer.Typer]) -> typer.Typer:
    result = typer.Typer(
        cls=SectionedGroup,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    result.callback(invoke_without_command=True)(root_command)
    for name, command in commands.items():
        result.command(name)(command)
    for name, group in groups.items():
        result.add_typer(group, name=name)
    return result


app = _make_app(COMMANDS, GROUPS)


@functools.cache
def _build_parser(name: str) -> Callable[..., int | None]:
    """Returns the parser of one command or group. Those of all, for any other name, take 0.1 s to build."""
    if name in COMMANDS:
        return typer.main.get_command(_make_app({name: COMMANDS[name]}, {}))
    return typer.main.get_command(_make_app({}, {name: GROUPS[name]}) if name in GROUPS else app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0 success, 1 failure, 2 wrong usage, 130 second Ctrl-C.

    Errors are printed as one sentence. Only bugs print a traceback.
    """
    words, hints = aliases.translate(sys.argv[1:] if arguments is None else arguments)
    for hint in hints:
        _print_error(hint, 0)
    is_single = words and words[0] not in WHOLE_TREE and (words[0] in COMMANDS or words[0] in GROUPS)
    parse = _build_parser(words[0] if is_single else "")
    try:
        status = parse(args=words, prog_name="atoll", standalone_mode=False)
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)  # command that the parser reached
        default_path = f"atoll {words[0]}" if is_single else "atoll"
        message, command_path = error.format_message(), context.command_path if context else default_path
        return _print_error(
            f"{message}{'' if message[-1:] in '.?' else '.'} Try '{command_path} --help'.", error.exit_code
        )
    except (errors.SetupError, errors.NotFound, errors.Conflict) as error:
        return _print_error(str(error), 2)
    except errors.AtollError as error:
        return _print_error(str(error), 1)
    except OSError as error:
        if error.errno == errno.EPIPE:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes stdout at exit
            return 0  # the reader closed the pipe
        if error.errno not in UNWRITABLE_ERRORS:
            raise
        return _print_error(f"The output could not be written: {error.strerror}.", 1)
    return status or 0


def _print_error(sentence: str, status: int) -> int:
    """Prints one sentence on stderr. Control characters, which may come from untrusted text, are escaped."""
    text = doctor.add_checkout_command(sentence)
    escaped = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], text)
    with contextlib.suppress(OSError):  # stderr is closed
        print(f"atoll: {escaped}", file=sys.stderr)
    return status
