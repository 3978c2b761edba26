"""Options and arguments that several verbs share, and what they stand for."""

import os
from pathlib import Path
from typing import Annotated

import typer

from atoll import errors, store

DEFAULT_STORE = "atoll.db"

StoreOption = Annotated[
    str, typer.Option("--store", metavar="URL", envvar="ATOLL_STORE", help="Where runs are kept: a file or a URL.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for programs.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or 'latest'.")]


def opened(url: str) -> store.Store:
    """Opens a store that is there already.

    Raises:
        SetupError: There is none, or it is not ours.
    """
    path = Path(url.removeprefix("sqlite:///"))
    if "://" not in url.removeprefix("sqlite:///") and not path.exists():
        raise errors.SetupError(f"There is no store {url}: name another with --store, or make one with 'atoll run'.")
    return store.Store(os.fspath(url))
