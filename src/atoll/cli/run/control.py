"""Command `control`."""

import difflib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from atoll import control as controls
from atoll import errors
from atoll.cli.terminal import options, parsing

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
