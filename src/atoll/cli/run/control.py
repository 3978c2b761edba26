"""The verb `atoll control`."""

import difflib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from atoll import control as steering
from atoll import errors
from atoll.cli.terminal import options, parsing

LIMIT_NAMES = tuple(field.name for field in fields(steering.Budget))
COUNT_LIMITS = ("iterations", "evaluations", "calls", "tokens")


class Action(StrEnum):
    """What can be asked of a run."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    SET = "set"


type ControlCommand = tuple[steering.CommandKind, Mapping[str, Any]]

SIMPLE_COMMANDS: Mapping[Action, ControlCommand] = {
    Action.PAUSE: ("pause", {}),
    Action.RESUME: ("resume", {}),
    Action.STOP: ("stop", {"reason": "stopped by atoll control"}),
}


def control(
    run: options.RunArgument,
    action: Annotated[Action, typer.Argument(metavar="pause|resume|stop|set", help="What it should do.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="What 'set' changes.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    author: options.AuthorOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Pauses, resumes, stops or changes a run under way.

    The run obeys in its own process, within a fraction of a second.

    'set' with iterations, evaluations, calls, tokens, usd or seconds raises that limit of the run's budget; any other
    key is a setting of the run's system that its engine is told from then on. A stop lets the steps at work finish and
    saves. Who asked what is written into the store's log ('atoll audit').

    \b
    Examples:
      atoll control latest pause
      atoll control latest resume
      atoll control latest stop
      atoll control latest set iterations=2000 usd=5
      atoll control latest set danger_threshold=0.5      of a run of lives
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
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
    console.print_line(console.get_stdout_console(), receipt.describe())


def parse_commands(action: Action, changes: Sequence[str]) -> list[ControlCommand]:
    """Returns what to post.

    Raises:
        SetupError: The changes are not understood.
    """
    if action != Action.SET:
        if changes:
            raise errors.SetupError(f"'{action}' changes no keys: write 'atoll control RUN set {' '.join(changes)}'.")
        return [SIMPLE_COMMANDS[action]]
    if not changes:
        raise errors.SetupError("'set' needs what to change: 'atoll control RUN set iterations=2000'.")
    parsed_changes = dict(_parse_change(change) for change in changes)
    limits = {name: value for name, value in parsed_changes.items() if name in LIMIT_NAMES}
    settings = {name: value for name, value in parsed_changes.items() if name not in LIMIT_NAMES}
    parsed_commands: list[ControlCommand] = [("raise", limits), ("set", settings)]
    return [(kind, data) for kind, data in parsed_commands if data]


def _parse_change(change: str) -> tuple[str, Any]:
    name, equals, text = (part.strip() for part in change.partition("="))
    if not equals or not name:
        raise errors.SetupError(f"{change!r} is not understood: write KEY=VALUE, e.g. iterations=2000.")
    if name in LIMIT_NAMES:
        return name, _parse_limit(name, text)
    if close_matches := difflib.get_close_matches(name, LIMIT_NAMES, n=1, cutoff=0.75):
        raise errors.SetupError(f"There is no limit {name}; the nearest is {close_matches[0]}.")
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
        raise errors.SetupError(f"{name}={text} is no limit: give {kind} above 0.")
    return value
