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
from atoll.cli import options, values

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
    from atoll.cli import output
    from atoll.runs import orders

    posts = commands(action, changes or [])
    with options.opened(store) as kept:
        told = orders.tell(kept, runs.find(kept, run), posts, by=values.author(author))
    if as_json:
        posted = zip(told.numbers, told.posts, strict=True)
        rows = [{"number": number, "kind": kind, "data": data} for number, (kind, data) in posted]
        output.print_json({"run": told.run, "posted": rows, "running": told.is_alive})
        return
    output.say(output.out(), told.sentence())


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
