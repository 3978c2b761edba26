"""The verbs `atoll audit verify` and `atoll audit anchor`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check the log of all changes of parameters, and keep its end where nobody can change it.",
)
KeyOption = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The secret that anchors are signed with.")
]


@app.command("verify")
def verify(
    anchors: Annotated[
        Path | None,
        typer.Option("--anchors", metavar="FILE", help="What 'atoll audit anchor' wrote; lines may add up."),
    ] = None,
    key: KeyOption = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="A log that 'atoll params export --log' wrote.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Checks that every change is what was written, in its order; exits 1 and says where it is not.

    An edit, a change left out and changes that changed places are found by the chain of hashes; a tail that was cut
    off, and a log that was written anew, by anchors.

    \b
    Examples:
      atoll audit verify
      atoll audit verify --anchors anchors.jsonl --key secret
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.store.versions import audit

    known_anchors = [audit.Anchor.parse(line) for line in _read_lines(anchors)] if anchors else []
    secret = _read_secret(key)
    for known_anchor in known_anchors if secret is not None else ():
        known_anchor.check_signature(secret or b"")
    result = (
        parameter_stores.verify(store, known_anchors)
        if log is None
        else audit.verify(audit.parse_lines(_read_lines(log)), known_anchors)
    )
    data: dict[str, Any] = {"changes": result.seq, "hash": result.hash, "anchors": result.num_anchors}
    if as_json:
        console.print_json(data)
    else:
        anchor_note = f", and met {result.num_anchors} anchors" if known_anchors else ""
        console.print_line(
            console.get_stdout_console(),
            f"All {result.seq} changes are what was written{anchor_note}. The end is {result.hash}.",
        )


@app.command("anchor")
def anchor(
    key: KeyOption = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Add a line to this file.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Prints the end of the log, to be kept where nobody who writes the store can change it.

    \b
    Examples:
      atoll audit anchor --key secret -o anchors.jsonl
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        param_store.verify()
        line = param_store.anchor(_read_secret(key)).to_line()
    if output_path is None:
        print(line)
        return
    with output_path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n") if path.stat().st_size else []
    except (OSError, UnicodeDecodeError) as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error


def _read_secret(path: Path | None) -> bytes | None:
    try:
        secret = None if path is None else path.read_bytes().strip()
    except OSError as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error
    if secret == b"":
        raise errors.SetupError(f"{path} is empty: put a secret into it.")
    return secret
