"""Commands `audit verify` and `audit anchor`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = options.make_group("Verify the audit log of all changes.")
KeyOption = Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help="Key that signs anchors.")]


@app.command("verify")
def verify(
    anchors: Annotated[Path | None, typer.Option("--anchors", metavar="FILE", help="Anchors to compare with.")] = None,
    key_file: KeyOption = None,
    exported: Annotated[
        Path | None, typer.Option("--exported", metavar="FILE", help="Verify an exported log instead of the store.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Verify the hash chain of the audit log.

    Exits with status 1 and names the change if one was edited, removed or moved. Anchors also detect changes removed
    from the end and a log that was rewritten.

    \b
    Examples:
      atoll audit verify
      atoll audit verify --anchors anchors.jsonl --key-file secret
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.store.versions import audit

    known_anchors = [audit.Anchor.parse(line) for line in _read_lines(anchors)] if anchors else []
    secret = _read_secret(key_file)
    for known_anchor in known_anchors if secret is not None else ():
        known_anchor.check_signature(secret or b"")
    result = (
        parameter_stores.verify(store, known_anchors)
        if exported is None
        else audit.verify(audit.parse_lines(_read_lines(exported)), known_anchors)
    )
    data: dict[str, Any] = {"changes": result.seq, "hash": result.hash, "anchors": result.num_anchors}
    if as_json:
        console.print_json(data)
    else:
        anchor_note = f" and {result.num_anchors} anchors" if known_anchors else ""
        console.print_result(f"Verified {result.seq} changes{anchor_note}. Last hash: {result.hash}.")


@app.command("anchor")
def anchor(
    key_file: KeyOption = None,
    append: Annotated[
        Path | None, typer.Option("--append", metavar="FILE", help="Append the anchor to this file.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Print a signed hash of the last change.

    Keep it outside the store, where the users of the store cannot change it.

    \b
    Examples:
      atoll audit anchor --key-file secret --append anchors.jsonl
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        param_store.verify()
        line = param_store.anchor(_read_secret(key_file)).to_line()
    if append is None:
        print(line)
        return
    with append.open("a", encoding="utf-8") as file:
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
        raise errors.SetupError(f"{path} is empty. Write a secret key into it.")
    return secret
