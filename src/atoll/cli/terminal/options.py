"""Options and arguments that several verbs share, and what they stand for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors

DEFAULT_STORE = "atoll.db"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="ATOLL_STORE",
        help="Where runs are kept: a file, or postgresql://USER@HOST/DB.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for programs.")]
ReasonOption = Annotated[str, typer.Option("--reason", "-m", metavar="TEXT", help="Why; it stays in the audit log.")]
AuthorOption = Annotated[
    str | None,
    typer.Option("--author", metavar="NAME", envvar="ATOLL_AUTHOR", help="Who you are; else your user name."),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning or end, 'latest' or 'latest~1'.")
]


def open_existing_store(url: str) -> Any:
    """Opens a store that is there already.

    Raises:
        SetupError: There is none, or it is not ours.
    """
    from atoll import store  # SQLAlchemy: 0.2 s that `atoll --help` need not wait for
    from atoll.store.database import urls

    if urls.is_file_path(url) and not Path(urls.get_path(url)).exists():
        raise errors.SetupError(f"There is no store {url}: name another with --store, or make one with 'atoll run'.")
    return store.Store(url)
