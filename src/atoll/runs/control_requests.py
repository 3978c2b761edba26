"""What is asked of a run under way, whoever asks: checked, left in its inbox, and written down for good.

Every order is an entry of the store's log of changes under `control/RUN`: who, when, what and why, in the chain that
'atoll audit' verifies. What the run made of it stands in its journal, as `controlled`.
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
    """What was left in an inbox.

    Attributes:
        is_alive: Somebody writes the run now, and reads it at once; else it is read when the run resumes.
    """

    run: str
    numbers: Sequence[int]
    commands: Sequence[RequestedCommand]
    is_alive: bool

    def describe(self) -> str:
        """Says in a sentence what was told."""
        note = "" if self.is_alive else " No process writes it now: it will read this when it resumes."
        return f"Told run {self.run}: {'; '.join(_describe_command(kind, data) for kind, data in self.commands)}.{note}"


def send_commands(
    run_store: store.Store, run_id: str, commands: Sequence[RequestedCommand], *, author: str, reason: str = ""
) -> ControlReceipt:
    """Leaves commands in the inbox of a run, and writes down who did.

    Args:
        posts: What `control.Command` knows; settings without their section.
        by: Who asks.
        reason: Why; empty: it goes without saying.

    Raises:
        NotFound: There is no such run.
        SetupError: A setting is not known, or its value is wrong or not finite; or nobody is there to pause, resume or
            stop.
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
        run_store.versions().set(
            f"{KEY_PREFIX}{run_id}", text, reason or _describe_command(kind, data), author
        )  # first: nothing is told unwritten
        numbers.append(run_store.inbox(run_id).post(kind, **data))
    return ControlReceipt(run_id, numbers, checked, is_alive)


def _encode_command(kind: str, data: Mapping[str, Any]) -> str:
    """Returns a command as the log keeps it.

    Raises:
        SetupError: A number in it is not finite, which no store takes.
    """
    try:
        return json.dumps({"kind": kind, "data": dict(data)}, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise errors.SetupError(
            f"A run cannot be told to {_describe_command(kind, data):.200}: give finite numbers."
        ) from error


def _explain_not_running(run_id: str, kind: str, *, is_shared: bool) -> str:
    hint = (
        f"'atoll join {run_id}' goes on unless it is over" if is_shared else f"'atoll resume {run_id}' goes on with it"
    )
    if kind == "resume":
        return f"No process writes run {run_id} now, so nothing is paused: {hint}."
    return f"No process writes run {run_id} now, so there is nothing to {kind}: {hint}."


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
