"""Commands for a running run: pause, resume, stop, set.

A command is checked, written to the change log under `control/RUN` with author and reason, and posted to the inbox.
`atoll audit` verifies the log. The journal records the effect as `controlled`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atoll import config, control, errors, store

type Action = Literal["pause", "resume", "stop", "set"]
type RequestedCommand = tuple[control.CommandKind, Mapping[str, Any]]

KEY_PREFIX = "control/"


@dataclass(frozen=True, slots=True)
class ControlReceipt:
    """Commands that were posted to a run.

    Attributes:
        is_alive: Whether the run is running and reads them now; otherwise it reads them when it resumes.
    """

    run: str
    numbers: Sequence[int]
    commands: Sequence[RequestedCommand]
    is_alive: bool

    def describe(self) -> str:
        note = "" if self.is_alive else " It is not running and will read this when it resumes."
        return (
            f"Sent to run {self.run}: {'; '.join(_describe_command(kind, data) for kind, data in self.commands)}.{note}"
        )


def send_commands(
    run_store: store.Store, run_id: str, commands: Sequence[RequestedCommand], *, author: str, reason: str = ""
) -> ControlReceipt:
    """Posts commands to the inbox of a run and records their author.

    Args:
        commands: Kinds and data of `control.Command`; settings without their section.

    Raises:
        NotFound: The run does not exist.
        SetupError: A setting is unknown, its value is invalid, or the run is not running.
    """
    stored_config = run_store.get_run(run_id).config
    system = stored_config.get("system", "")
    checked = [(kind, config.check_live_settings(system, data) if kind == "set" else data) for kind, data in commands]
    is_alive = run_store.has_writer(run_id)
    for kind, _ in checked:
        if not is_alive and kind in ("pause", "resume", "stop"):
            raise errors.SetupError(_explain_not_running(run_id, kind, is_shared="shared" in stored_config))
    encoded = [_encode_command(kind, data) for kind, data in checked]
    numbers = []
    for (kind, data), text in zip(checked, encoded, strict=True):
        # First the change log: no command takes effect without a record.
        run_store.versions().set(f"{KEY_PREFIX}{run_id}", text, reason or _describe_command(kind, data), author)
        numbers.append(run_store.inbox(run_id).post(kind, **data))
    return ControlReceipt(run_id, numbers, checked, is_alive)


def _encode_command(kind: str, data: Mapping[str, Any]) -> str:
    """Returns a command as JSON for the change log.

    Raises:
        SetupError: A number in it is not finite.
    """
    try:
        return json.dumps({"kind": kind, "data": dict(data)}, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise errors.SetupError(f"Cannot {_describe_command(kind, data):.200}: give finite numbers.") from error


def _explain_not_running(run_id: str, kind: str, *, is_shared: bool) -> str:
    command = "join" if is_shared else "resume"
    return f"Run {run_id} is not running, so there is nothing to {kind}. Continue it with 'atoll {command} {run_id}'."


def _describe_command(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "raise":
            return f"raise the limits to {_format_pairs(data)}, where they are lower"
        case "set":
            return f"set {_format_pairs(data)}"
        case _:
            return kind


def _format_pairs(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in data.items())
