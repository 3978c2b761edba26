"""Commands for a running run: `control`, and `mailbox` to answer the prompts of `--llm mailbox:DIR` by hand."""

import difflib
import math
import re
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from atoll import control as controls
from atoll import errors
from atoll.cli.terminal import options, parsing

if TYPE_CHECKING:
    from atoll import store as stores

LIMIT_NAMES = tuple(field.name for field in fields(controls.Budget))
COUNT_LIMITS = ("iterations", "evaluations", "calls", "tokens")


class Action(StrEnum):
    """Commands to a running run."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    SET = "set"


type ControlCommand = tuple[controls.CommandKind, Mapping[str, Any]]

SIMPLE_COMMANDS: Mapping[Action, ControlCommand] = {
    Action.PAUSE: ("pause", {}),
    Action.RESUME: ("resume", {}),
    Action.STOP: ("stop", {"reason": "stopped by atoll control"}),
}


def control(
    run: options.RunArgument,
    action: Annotated[Action, typer.Argument(metavar="pause|resume|stop|set", help="Command to send.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Limits or settings to change, with 'set'.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    author: options.AuthorOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Control a run while it is running.

    The process of the run obeys within a fraction of a second.

    'set' raises a limit of the budget: iterations, evaluations, calls, tokens, usd or seconds. Any other key is a
    setting of the system. 'stop' finishes the running iterations and saves. The audit log records each command.

    \b
    Examples:
      atoll control latest pause
      atoll control latest resume
      atoll control latest stop
      atoll control latest set iterations=2000 usd=5
      atoll control latest set danger_threshold=0.5
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console
    from atoll.runs import control_requests

    commands_to_send = parse_commands(action, changes or [])
    with options.open_existing_store(store) as run_store:
        receipt = control_requests.send_commands(
            run_store, runs.find_run(run_store, run), commands_to_send, author=parsing.resolve_author(author)
        )
    if as_json:
        sent = zip(receipt.numbers, receipt.commands, strict=True)
        rows = [{"number": command_number, "kind": kind, "data": data} for command_number, (kind, data) in sent]
        console.print_json({"run": receipt.run, "posted": rows, "running": receipt.is_alive})
        return
    console.print_result(receipt.describe())


def parse_commands(action: Action, changes: Sequence[str]) -> list[ControlCommand]:
    """Parses an action and its KEY=VALUE arguments into commands. Raises SetupError if one is invalid."""
    if action != Action.SET:
        if changes:
            raise errors.SetupError(f"'{action}' takes no KEY=VALUE. Use 'atoll control RUN set {' '.join(changes)}'.")
        return [SIMPLE_COMMANDS[action]]
    if not changes:
        raise errors.SetupError("'set' needs KEY=VALUE, e.g. 'atoll control RUN set iterations=2000'.")
    parsed_changes = dict(_parse_change(change) for change in changes)
    limits = {name: value for name, value in parsed_changes.items() if name in LIMIT_NAMES}
    settings = {name: value for name, value in parsed_changes.items() if name not in LIMIT_NAMES}
    parsed_commands: list[ControlCommand] = [("raise", limits), ("set", settings)]
    return [(kind, data) for kind, data in parsed_commands if data]


def _parse_change(change: str) -> tuple[str, Any]:
    name, equals, text = (part.strip() for part in change.partition("="))
    if not equals or not name:
        raise errors.SetupError(f"{change!r} is not KEY=VALUE. Write for example iterations=2000.")
    if name in LIMIT_NAMES:
        return name, _parse_limit(name, text)
    if close_matches := difflib.get_close_matches(name, LIMIT_NAMES, n=1, cutoff=0.75):
        raise errors.SetupError(f"Limit {name} is unknown. Did you mean {close_matches[0]}?")
    try:
        return name, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name, text


def _parse_limit(name: str, text: str) -> float:
    try:
        value = int(text) if name in COUNT_LIMITS else float(text)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        kind = "a whole number" if name in COUNT_LIMITS else "a number"
        raise errors.SetupError(f"{name}={text} is not a limit. Give {kind} above 0.")
    return value


NEXT = "next"
_PROMPT, _REPLY = ".prompt.md", ".reply.md"
_ITERATION = re.compile(r"(\d{6,})-")
_POLL_SECONDS = 0.2


class Letter(NamedTuple):
    """A prompt in a mailbox."""

    name: str
    path: Path
    is_answered: bool

    @property
    def iteration(self) -> int | None:
        match = _ITERATION.match(self.name)
        return int(match[1]) if match else None


def mailbox(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of --llm mailbox:DIR.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", show_default=False, help="Part of a prompt's name, or next.")
    ] = None,
    reply: Annotated[
        str | None, typer.Option("--reply", "-r", metavar="FILE", help="Answer with this file; - reads stdin.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="S", help="Seconds to wait for the score of the answer.")
    ] = 60.0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """List waiting prompts, show one, or answer it and see the score.

    \b
    Examples:
      atoll run my_task --llm mailbox:box &
      atoll mailbox box                       list the waiting prompts
      atoll mailbox box next                  print the oldest one
      atoll mailbox box next --reply my.md    answer it and print its score
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console as terminal

    letters = read_letters(folder)
    if name is None and reply is None:
        _print_list(letters, as_json)
        return 0
    letter = find_letter(letters, name or NEXT)
    if reply is None:
        text = letter.path.read_text("utf-8", "replace")
        if as_json:
            terminal.print_json({"name": letter.name, "iteration": letter.iteration, "prompt": text})
        else:
            terminal.print_result(text)
        return 0
    write_reply(letter, read_reply(reply))
    rows, note = wait_for_scores(store, folder, letter, wait)
    if as_json:
        terminal.print_json({"name": letter.name, "candidates": rows, "note": note})
        return 0
    for row in rows:
        result = row["failure"] or f"score {row['score']:.6g}{', the best so far' if row['is_best'] else ''}"
        terminal.print_result(f"{row['id']}: {result}")
    if not rows:
        terminal.print_result(f"Answered {letter.name}. {note}")
    return 0


def read_letters(folder: Path) -> list[Letter]:
    """Returns the prompts of a mailbox, oldest first.

    Raises:
        SetupError: The folder does not exist.
    """
    if not folder.is_dir():
        raise errors.SetupError(f"Mailbox {folder} not found. Start a run with --llm mailbox:{folder}.")
    files = [path for path in folder.glob(f"*{_PROMPT}") if path.is_file()]  # not a link to nothing
    paths = sorted(files, key=lambda path: (path.stat().st_mtime, path.name))
    names = [path.name.removesuffix(_PROMPT) for path in paths]
    return [Letter(name, path, (folder / f"{name}{_REPLY}").exists()) for name, path in zip(names, paths, strict=True)]


def find_letter(letters: list[Letter], name: str) -> Letter:
    """Returns the letter whose name contains a text; `next` is the oldest without an answer.

    Raises:
        NotFound: None or several match.
    """
    if name == NEXT:
        waiting = [letter for letter in letters if not letter.is_answered]
        if not waiting:
            raise errors.NotFound("No prompt is waiting.")
        return waiting[0]
    matches = [letter for letter in letters if letter.name == name] or [
        letter for letter in letters if name in letter.name
    ]
    if len(matches) != 1:
        raise errors.NotFound(
            f"{len(matches) or 'No'} prompts match {name!r:.60}. Run 'atoll mailbox DIR' to list them."
        )
    return matches[0]


def read_reply(source: str) -> str:
    """Returns the text of a file, or of stdin for `-`."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{source} cannot be read: {error}.") from error
    if not text.strip():
        raise errors.SetupError(f"The answer in {source} is empty.")
    return text


def write_reply(letter: Letter, text: str) -> None:
    """Writes an answer atomically.

    Raises:
        Conflict: The prompt has an answer.
    """
    if letter.is_answered:
        raise errors.Conflict(f"{letter.name} has an answer already.")
    from atoll.llm.mailbox import write_file  # slow to import

    write_file(letter.path.with_name(f"{letter.name}{_REPLY}"), text)


def wait_for_scores(
    store_url: str, folder: Path, letter: Letter, seconds: float
) -> tuple[list[dict[str, object]], str]:
    """Waits for the candidates of a letter's iteration.

    Returns:
        Their scores, and a note that says why there are none.
    """
    from atoll.store.database import dialect

    deadline = time.monotonic() + seconds
    unknown = f"{store_url} has no run with this mailbox, so the score is not shown here."
    if letter.iteration is None or (dialect.is_file_path(store_url) and not Path(dialect.get_path(store_url)).exists()):
        return [], unknown
    with options.open_existing_store(store_url) as run_store:
        run_id = _find_run(run_store, folder)
        while run_id is not None:
            note = _explain_end(run_store, run_id, folder, letter)  # before the rows: they are saved with the record
            rows = [row for row in run_store.candidates(run_id) if row.step == letter.iteration and row.verdict]
            if rows:
                best = run_store.candidates(run_id).list_best()
                best_id = best[0].id if best else None
                return [
                    {"id": row.id, "score": row.score, "failure": row.failure, "is_best": row.id == best_id}
                    for row in rows
                ], ""
            if note:
                return [], note
            if time.monotonic() >= deadline:
                return [], "No candidate was evaluated yet."
            time.sleep(_POLL_SECONDS)
    return [], unknown


def _explain_end(run_store: "stores.Store", run_id: str, folder: Path, letter: Letter) -> str:
    """Returns why an answer has no candidate and will have none; empty if it still may."""
    for item in read_letters(folder):
        if item.iteration == letter.iteration and not item.is_answered:
            return f"The response was not usable. The next prompt says why: atoll mailbox {folder} next"
    for record in run_store.journal(run_id).read_kinds("applied"):
        if record.step == letter.iteration:
            return f"It brought no candidate: {str(record.data.get('failure') or 'none was new').rstrip('.')}."
    return ""


def _find_run(run_store: "stores.Store", folder: Path) -> str | None:
    """Returns the newest run that uses the mailbox."""
    for run in run_store.list_runs():
        llm = str(run.config.get("run", {}).get("llm", ""))
        if llm.startswith("mailbox:") and Path(llm.removeprefix("mailbox:")).resolve() == folder.resolve():
            return run.id
    return None


def _print_list(letters: list[Letter], as_json: bool) -> None:
    from atoll.cli.terminal import console as terminal

    waiting = [letter for letter in letters if not letter.is_answered]
    if as_json:
        terminal.print_json({"waiting": [letter.name for letter in waiting], "answered": len(letters) - len(waiting)})
        return
    rows = [
        [letter.name, f"{time.time() - letter.path.stat().st_mtime:,.0f} s", f"{letter.path.stat().st_size:,}"]
        for letter in waiting
    ]
    if rows:
        terminal.print_result_table(["waiting", "for", "bytes"], rows, right_aligned=["for", "bytes"])
    terminal.print_result(f"{len(waiting)} waiting, {len(letters) - len(waiting)} answered.")
