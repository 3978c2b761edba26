"""Options and arguments that several verbs share. An option of one name has one meaning in every verb."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll import errors

if TYPE_CHECKING:
    from atoll import store

DEFAULT_STORE = "atoll.db"
INITIAL_NAMES = ("initial", "start")  # names of the initial candidate on the command line; `start` is the old one

StoreOption = Annotated[
    str,
    typer.Option("--store", metavar="URL", envvar="ATOLL_STORE", help="Store: a file or postgresql://USER@HOST/DB."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to this path instead of stdout.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most N rows.")]
ReasonOption = Annotated[str, typer.Option("--reason", "-m", metavar="TEXT", help="Reason, recorded in the audit log.")]
AuthorOption = Annotated[
    str | None,
    typer.Option("--author", metavar="NAME", envvar="ATOLL_AUTHOR", help="Your name; default: your user name."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable.")
]
LLMOption = Annotated[
    str | None, typer.Option("--llm", metavar="MODEL", help="LLM, e.g. openai:NAME[@URL], local, config; none: no LLM.")
]
UnsafeOption = Annotated[bool, typer.Option("--unsafe", help="Allow LLM-written code without a sandbox.")]
IslandOption = Annotated[int | None, typer.Option("--island", min=0, metavar="N", help="Only this island.")]
FeedbackOption = Annotated[
    str | None, typer.Option("--feedback", "-f", metavar="SOURCE", help="Feedback folder or store.")
]
GuardOption = Annotated[
    list[str] | None,
    typer.Option("--guard", metavar="METRIC[:MARGIN][:lower]", help="Guardrail metric and allowed loss."),
]
AlphaOption = Annotated[float, typer.Option("--alpha", metavar="X", help="False-positive rate.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="YAML", help="OpenEvolve configuration file.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Run id, a unique part of it, latest, or latest~1.")]
CandidateArgument = Annotated[
    str | None, typer.Argument(metavar="CANDIDATE", help="Candidate id such as 12.0, best, or initial.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Key of the parameter.")]
ValueArgument = Annotated[str, typer.Argument(metavar="VALUE", help="JSON or plain text; @FILE reads a file.")]


def make_group(help_text: str) -> typer.Typer:
    """Makes a group of verbs."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help=help_text)


def open_existing_store(url: str) -> "store.Store":
    """Opens a store that exists.

    Raises:
        SetupError: The store does not exist, or it is not a store of Atoll.
    """
    from atoll import store as stores  # SQLAlchemy takes 0.2 s to import, which `atoll --help` must not spend
    from atoll.store.database import dialect

    if dialect.is_file_path(url) and not Path(dialect.get_path(url)).exists():
        raise errors.SetupError(f"Store {url} not found. Name another with --store, or create one with 'atoll run'.")
    return stores.Store(url)


def find_candidate(run_store: "store.Store", run_id: str, name: str) -> "store.Row":
    """Finds a candidate by its id, or by the names `best` and `initial`."""
    from atoll.runs import progress

    return progress.find_candidate(run_store, run_id, progress.INITIAL if name in INITIAL_NAMES else name)
