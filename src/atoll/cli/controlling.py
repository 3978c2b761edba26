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
from atoll.cli import options

LIMITS = tuple(field.name for field in fields(steering.Budget))
COUNTS = ("iterations", "evaluations", "calls", "tokens")


class Action(StrEnum):
    """What can be asked of a run."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    SET = "set"


type Post = tuple[steering.Kind, Mapping[str, Any]]

PLAIN: Mapping[Action, Post] = {
    Action.PAUSE: ("pause", {}),
    Action.RESUME: ("resume", {}),
    Action.STOP: ("stop", {"reason": "stopped by atoll control"}),
}


def control(
    run: options.RunArgument,
    action: Annotated[Action, typer.Argument(metavar="pause|resume|stop|set", help="What it should do.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="What 'set' changes.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Pauses, resumes, stops or changes a run under way.

    The run obeys in its own process, within a fraction of a second.

    'set' with iterations, evaluations, calls, tokens, usd or seconds raises that limit of the run's budget; any other
    key is a setting of the run's system that its engine is told from then on. A stop lets the steps at work finish and
    saves.

    \b
    Examples:
      atoll control latest pause
      atoll control latest resume
      atoll control latest stop
      atoll control latest set iterations=2000 usd=5
      atoll control latest set danger_threshold=0.5      of a run of lives
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import config, runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli import output

    posts = commands(action, changes or [])
    with options.opened(store) as kept:
        found = runs.find(kept, run)
        system = kept.run(found).config.get("system", "")
        posts = [(kind, config.told(system, data) if kind == "set" else data) for kind, data in posts]
        is_alive = kept.holder(found) is not None
        if not is_alive and action != Action.SET:
            raise errors.SetupError(_refusal(found, action))
        numbers = [kept.inbox(found).post(kind, **data) for kind, data in posts]
    if as_json:
        posted = [{"number": n, "kind": kind, "data": data} for n, (kind, data) in zip(numbers, posts, strict=True)]
        output.print_json({"run": found, "posted": posted, "running": is_alive})
        return
    when = "" if is_alive else " No process writes it now: it will read this when it resumes."
    output.say(output.out(), f"Told run {found}: {'; '.join(_told(kind, data) for kind, data in posts)}.{when}")


def commands(action: Action, changes: Sequence[str]) -> list[Post]:
    """Returns what to post.

    Raises:
        SetupError: The changes are not understood.
    """
    if action != Action.SET:
        if changes:
            raise errors.SetupError(f"'{action}' changes no keys: write 'atoll control RUN set {' '.join(changes)}'.")
        return [PLAIN[action]]
    if not changes:
        raise errors.SetupError("'set' needs what to change: 'atoll control RUN set iterations=2000'.")
    read = dict(_read(each) for each in changes)
    limits = {name: value for name, value in read.items() if name in LIMITS}
    settings = {name: value for name, value in read.items() if name not in LIMITS}
    posts: list[Post] = [("raise", limits), ("set", settings)]
    return [(kind, data) for kind, data in posts if data]


def _read(change: str) -> tuple[str, Any]:
    name, equals, said = (part.strip() for part in change.partition("="))
    if not equals or not name:
        raise errors.SetupError(f"{change!r} is not understood: write KEY=VALUE, e.g. iterations=2000.")
    if name in LIMITS:
        return name, _limit(name, said)
    if close := difflib.get_close_matches(name, LIMITS, n=1, cutoff=0.75):
        raise errors.SetupError(f"There is no limit {name}; the nearest is {close[0]}.")
    try:
        return name, tomllib.loads(f"value = {said}")["value"]
    except tomllib.TOMLDecodeError:
        return name, said


def _limit(name: str, said: str) -> float:
    try:
        value = int(said) if name in COUNTS else float(said)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        kind = "a whole number" if name in COUNTS else "a number"
        raise errors.SetupError(f"{name}={said} is no limit: give {kind} above 0.")
    return value


def _refusal(run: str, action: Action) -> str:
    again = f"'atoll resume {run}' goes on with it"
    if action == Action.RESUME:
        return f"No process writes run {run} now, so nothing is paused: {again}."
    return f"No process writes run {run} now, so there is nothing to {action}: {again}."


def _told(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "raise":
            return f"raise the limits to {_pairs(data)}, where they are lower"
        case "set":
            return f"set {_pairs(data)}"
        case _:
            return kind


def _pairs(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in data.items())
