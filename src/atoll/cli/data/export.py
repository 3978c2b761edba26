"""Commands `export` and `import`, and writing of results to stdout or a file."""

import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll import errors
from atoll.cli.terminal import options

if TYPE_CHECKING:
    from atoll import store as stores

FORMATS = ("jsonl", "csv", "html", "dataset", "responses", "openevolve")
LLM_FORMATS = ("dataset", "responses")  # empty without LLM calls


def export(
    run: options.RunArgument,
    formats: Annotated[
        list[str],
        typer.Option("--format", metavar="F", help="Export: jsonl, csv, html, dataset, responses, openevolve."),
    ],
    output_path: options.OutputOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Export a run.

    jsonl and csv have all candidates, dataset has prompts, responses and scores for fine-tuning, responses has the LLM
    responses for --llm recorded:FILE, html is one page, and openevolve is a checkpoint folder. Equal runs give equal
    bytes with jsonl, csv and dataset.

    \b
    Examples:
      atoll export latest --format jsonl > run.jsonl
      atoll export latest --format html -o run.html
      atoll export latest --format responses -o responses.jsonl
      atoll export latest --format openevolve -o checkpoints
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow import: SQLAlchemy
    from atoll.runs import data_export

    if len(formats) != 1 or formats[0] not in FORMATS:
        raise errors.SetupError(f"--format {' '.join(formats):.40} is not valid. Pass one of {', '.join(FORMATS)}.")
    (export_format,) = formats
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        if export_format == "openevolve":
            if output_path is None:
                raise errors.SetupError("--format openevolve writes a folder. Name it with -o DIR.")
            folder = data_export.export_checkpoint(run_store, run_id, output_path)
            print(f"atoll: Written to {folder}.", file=sys.stderr)
            return
        num_chunks = write_output(iter_chunks(run_store, run_id, export_format), output_path, is_untrusted=True)
    if export_format in LLM_FORMATS and not num_chunks:
        print(f"atoll: Run {run_id} made no LLM calls, so its {export_format} export is empty.", file=sys.stderr)


def iter_chunks(run_store: "stores.Store", run: str, export_format: str) -> Iterator[str]:
    """Yields a run in a text format, in chunks that end with a line break."""
    import json

    from atoll.runs import data_export, html_export

    match export_format:
        case "jsonl":
            return (f"{line}\n" for line in run_store.export(run))
        case "csv":
            return data_export.to_csv(run_store.candidates(run))
        case "dataset":
            return (f"{json.dumps(record)}\n" for record in data_export.iter_finetuning_rows(run_store, run))
        case "responses":
            return (f"{line}\n" for line in data_export.iter_responses(run_store, run))
        case _:
            return html_export.render_html(run_store, run)


def write_output(chunks: Iterable[str], output_path: Path | None, *, is_untrusted: bool = False) -> int:
    """Writes chunks to stdout, or atomically to a file. Returns their number.

    Args:
        chunks: Texts with their line breaks.
        output_path: The file; None means stdout.
        is_untrusted: Escape control characters on a terminal.

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
        raise  # the reader closed the pipe; `main` exits quietly
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
    if output_path.exists() and not output_path.is_file():  # a device or a pipe cannot be replaced
        with output_path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            return sum(1 for chunk in chunks if file.write(chunk) >= 0)
    descriptor, temporary_path = tempfile.mkstemp(dir=output_path.parent, prefix=f".{output_path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            count = sum(1 for chunk in chunks if file.write(chunk) >= 0)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary_path, 0o666 & ~mask)  # temporary files are private; use the mode of a new file
        os.replace(temporary_path, output_path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)
        raise
    return count


def import_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(metavar="DIR", help="OpenEvolve checkpoint or output folder.")],
    task: Annotated[
        Path | None, typer.Argument(metavar="[TASK]", show_default=False, help="Task folder, if DIR is not inside it.")
    ] = None,
    settings: options.ConfigOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Create a run from an OpenEvolve checkpoint.

    Its programs become the first iterations of the run, in their order and with their scores. Only the initial program
    of the folder is evaluated. Continue with 'atoll resume RUN --iterations 100'.

    \b
    Examples:
      atoll import my_task/openevolve_output
      atoll import checkpoints/checkpoint_100 my_task
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, pydantic
    from atoll import store as stores
    from atoll.cli.run import session_output
    from atoll.cli.terminal import console

    run_config = config.with_checkpoint(
        config.load(task or config.find_task_folder(checkpoint), settings=settings), checkpoint, only_checkpoint=True
    )
    with stores.Store(store) as run_store:
        session = runs.Session(run_store, run_config)
        status = session_output.run_session(session, run_store, as_json=as_json, quiet=True)
        name = run_store.database.name
        message = f"Imported {run_config.run.iterations} programs as run {session.run_id} in {name}. Continue:"
        store_option = "" if store == options.DEFAULT_STORE else f" --store {shlex.quote(name)}"
        console.print_note(
            f"{message}\n  {console.get_program_name()} resume {session.run_id} --iterations 100{store_option}"
        )
    return status
