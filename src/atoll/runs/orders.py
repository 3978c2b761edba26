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
type Post = tuple[control.Kind, Mapping[str, Any]]

KEY = "control/"


@dataclass(frozen=True, slots=True)
class Told:
    """What was left in an inbox.

    Attributes:
        is_alive: Somebody writes the run now, and reads it at once; else it is read when the run resumes.
    """

    run: str
    numbers: Sequence[int]
    posts: Sequence[Post]
    is_alive: bool

    def sentence(self) -> str:
        """Says in a sentence what was told."""
        when = "" if self.is_alive else " No process writes it now: it will read this when it resumes."
        return f"Told run {self.run}: {'; '.join(_said(kind, data) for kind, data in self.posts)}.{when}"


def tell(kept: store.Store, run: str, posts: Sequence[Post], *, by: str, reason: str = "") -> Told:
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
    begun = kept.run(run).config
    system = begun.get("system", "")
    checked = [(kind, config.told(system, data) if kind == "set" else data) for kind, data in posts]
    is_alive = kept.is_written(run)
    for kind, _ in checked:
        if not is_alive and kind in ("pause", "resume", "stop"):
            raise errors.SetupError(_refusal(run, kind, is_shared="shared" in begun))
    written = [_written(kind, data) for kind, data in checked]
    numbers = []
    for (kind, data), said in zip(checked, written, strict=True):
        kept.versions().set(f"{KEY}{run}", said, reason or _said(kind, data), by)  # first: nothing is told unwritten
        numbers.append(kept.inbox(run).post(kind, **data))
    return Told(run, numbers, checked, is_alive)


def _written(kind: str, data: Mapping[str, Any]) -> str:
    """Returns a command as the log keeps it.

    Raises:
        SetupError: A number in it is not finite, which no store takes.
    """
    try:
        return json.dumps({"kind": kind, "data": dict(data)}, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise errors.SetupError(f"A run cannot be told to {_said(kind, data):.200}: give finite numbers.") from error


def _refusal(run: str, kind: str, *, is_shared: bool) -> str:
    again = f"'atoll join {run}' goes on unless it is over" if is_shared else f"'atoll resume {run}' goes on with it"
    if kind == "resume":
        return f"No process writes run {run} now, so nothing is paused: {again}."
    return f"No process writes run {run} now, so there is nothing to {kind}: {again}."


def _said(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "raise":
            return f"raise the limits to {_pairs(data)}, where they are lower"
        case "set":
            return f"set {_pairs(data)}"
        case _:
            return kind


def _pairs(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in data.items())
