"""The verb `atoll export`, and where results go."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options

FORMATS = ("--jsonl", "--csv", "--dataset", "--html", "--replay", "--openevolve")

ToOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of stdout.")
]


def export(
    run: options.RunArgument,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="All candidates, one JSON object per line.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="All candidates, for a spreadsheet.")] = False,
    dataset: Annotated[bool, typer.Option("--dataset", help="Prompts, replies and scores, to tune a model.")] = False,
    html: Annotated[bool, typer.Option("--html", help="A page that opens in any browser, offline too.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="All replies, for --llm replay:FILE.")] = False,
    openevolve: Annotated[
        Path | None, typer.Option("--openevolve", metavar="DIR", help="A checkpoint of OpenEvolve's, into a folder.")
    ] = None,
    to: ToOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Writes a run out, in one of six formats.

    Equal runs give equal bytes with --jsonl, --csv and --dataset.

    \b
    Examples:
      atoll export latest --jsonl > run.jsonl
      atoll export latest --csv -o run.csv
      atoll export latest --html -o run.html
      atoll export latest --dataset -o tuning.jsonl
      atoll export latest --replay -o replies.jsonl
      atoll export latest --openevolve checkpoints
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy: help need not wait for it
    from atoll.runs import openevolve as checkpoints

    asked = (jsonl, csv, dataset, html, replay, openevolve is not None)
    wanted = [name for name, is_wanted in zip(FORMATS, asked, strict=True) if is_wanted]
    if len(wanted) != 1:
        said = "no format" if not wanted else f"{' and '.join(wanted)} at once"
        raise errors.SetupError(f"export was given {said}: choose one of {', '.join(FORMATS[:-1])} and {FORMATS[-1]}.")
    with options.opened(store) as kept:
        found = runs.find(kept, run)
        if openevolve is not None:
            print(f"atoll: Written to {checkpoints.export(kept, found, openevolve)}.", file=sys.stderr)
            return
        num_pieces = deliver(pieces(kept, found, wanted[0]), to, is_foreign=True)
    if wanted[0] in ("--dataset", "--replay") and not num_pieces:
        print(f"atoll: Run {found} asked no model, so its {wanted[0][2:]} is empty.", file=sys.stderr)


def pieces(kept: Any, run: str, wanted: str) -> Iterator[str]:
    """Yields a run in a format, one of `FORMATS`, in pieces with their line ends."""
    import json

    from atoll.runs import dataset, page, replaying, spreadsheet

    match wanted:
        case "--jsonl":
            return (f"{line}\n" for line in kept.export(run))
        case "--csv":
            return spreadsheet.to_csv(kept.candidates(run))
        case "--dataset":
            return (f"{json.dumps(record)}\n" for record in dataset.dataset(kept, run))
        case "--replay":
            return (f"{line}\n" for line in replaying.replay_lines(kept, run))
        case _:
            return page.page(kept, run)


def deliver(written: Iterable[str], to: Path | None, *, is_foreign: bool = False) -> int:
    """Writes pieces to a file, whole or not at all, or to stdout; returns how many there were.

    Args:
        written: The pieces, with their line ends.
        to: The file; None: stdout.
        is_foreign: It is somebody else's text, which must not take over a terminal.

    Raises:
        SetupError: The file cannot be written.
    """
    try:
        return _print(written, is_foreign=is_foreign) if to is None else _save(written, to)
    except BrokenPipeError:
        raise  # whoever reads has seen enough; the command line ends quietly
    except OSError as error:
        raise errors.SetupError(f"{to or 'stdout'} cannot be written: {error.strerror}.") from error


def _print(written: Iterable[str], *, is_foreign: bool) -> int:
    from atoll.runs import text

    count = 0
    for count, piece in enumerate(written, 1):  # noqa: B007 - counts
        shown = text.visible(piece) if is_foreign and sys.stdout.isatty() else piece
        sys.stdout.write(shown.encode("utf-8", "backslashreplace").decode())
    sys.stdout.flush()
    return count


def _save(written: Iterable[str], to: Path) -> int:
    if to.exists() and not to.is_file():  # a device or a pipe, which nothing can replace
        with to.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            return sum(1 for piece in written if file.write(piece) >= 0)
    descriptor, part = tempfile.mkstemp(dir=to.parent, prefix=f".{to.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            count = sum(1 for piece in written if file.write(piece) >= 0)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)  # as any new file: a temporary one is for its owner only
        os.replace(part, to)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return count
