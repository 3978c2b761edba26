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
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning or end, 'latest' or 'latest~1'.")
]


def opened(url: str) -> Any:
    """Opens a store that is there already.

    Raises:
        SetupError: There is none, or it is not ours.
    """
    from atoll import store  # SQLAlchemy: 0.2 s that `atoll --help` need not wait for
    from atoll.store import address

    if address.is_path(url) and not Path(address.path_of(url)).exists():
        raise errors.SetupError(f"There is no store {url}: name another with --store, or make one with 'atoll run'.")
    return store.Store(url)
