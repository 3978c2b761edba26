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
from atoll.cli.terminal import options

FORMAT_OPTIONS = ("--jsonl", "--csv", "--dataset", "--html", "--replay", "--openevolve")

OutputOption = Annotated[
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
    output_path: OutputOption = None,
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
    from atoll.runs import openevolve_export as checkpoints

    flags = (jsonl, csv, dataset, html, replay, openevolve is not None)
    formats = [name for name, is_selected in zip(FORMAT_OPTIONS, flags, strict=True) if is_selected]
    if len(formats) != 1:
        problem = "no format" if not formats else f"{' and '.join(formats)} at once"
        raise errors.SetupError(
            f"export was given {problem}: choose one of {', '.join(FORMAT_OPTIONS[:-1])} and {FORMAT_OPTIONS[-1]}."
        )
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        if openevolve is not None:
            print(f"atoll: Written to {checkpoints.export_checkpoint(run_store, run_id, openevolve)}.", file=sys.stderr)
            return
        num_chunks = write_output(iter_chunks(run_store, run_id, formats[0]), output_path, is_untrusted=True)
    if formats[0] in ("--dataset", "--replay") and not num_chunks:
        print(f"atoll: Run {run_id} asked no model, so its {formats[0][2:]} is empty.", file=sys.stderr)


def iter_chunks(run_store: Any, run: str, format_option: str) -> Iterator[str]:
    """Yields a run in a format, one of `FORMATS`, in pieces with their line ends."""
    import json

    from atoll.runs import data_export, html_export

    match format_option:
        case "--jsonl":
            return (f"{line}\n" for line in run_store.export(run))
        case "--csv":
            return data_export.to_csv(run_store.candidates(run))
        case "--dataset":
            return (f"{json.dumps(record)}\n" for record in data_export.iter_finetuning_rows(run_store, run))
        case "--replay":
            return (f"{line}\n" for line in data_export.iter_responses(run_store, run))
        case _:
            return html_export.render_html(run_store, run)


def write_output(chunks: Iterable[str], output_path: Path | None, *, is_untrusted: bool = False) -> int:
    """Writes pieces to a file, whole or not at all, or to stdout; returns how many there were.

    Args:
        written: The pieces, with their line ends.
        to: The file; None: stdout.
        is_foreign: It is somebody else's text, which must not take over a terminal.

    Raises:
        SetupError: The file cannot be written.
    """
    try:
        return (
            _print_chunks(chunks, is_untrusted=is_untrusted)
            if output_path is None
            else _save_chunks(chunks, output_path)
        )
    except BrokenPipeError:
        raise  # whoever reads has seen enough; the command line ends quietly
    except OSError as error:
        raise errors.SetupError(f"{output_path or 'stdout'} cannot be written: {error.strerror}.") from error


def _print_chunks(chunks: Iterable[str], *, is_untrusted: bool) -> int:
    from atoll.runs import text_format

    count = 0
    for count, chunk in enumerate(chunks, 1):  # noqa: B007 - counts
        text_to_print = text_format.escape_control(chunk) if is_untrusted and sys.stdout.isatty() else chunk
        sys.stdout.write(text_to_print.encode("utf-8", "backslashreplace").decode())
    sys.stdout.flush()
    return count


def _save_chunks(chunks: Iterable[str], output_path: Path) -> int:
    if output_path.exists() and not output_path.is_file():  # a device or a pipe, which nothing can replace
        with output_path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            return sum(1 for chunk in chunks if file.write(chunk) >= 0)
    descriptor, temporary_path = tempfile.mkstemp(dir=output_path.parent, prefix=f".{output_path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            count = sum(1 for chunk in chunks if file.write(chunk) >= 0)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary_path, 0o666 & ~mask)  # as any new file: a temporary one is for its owner only
        os.replace(temporary_path, output_path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)
        raise
    return count
