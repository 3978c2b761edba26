"""A version of a playbook as text: the whole, or what changed since a version that is whole.

A turn changes a few bullets. Ten thousand turns that each wrote the whole playbook would take gigabytes, so most
versions name a base and say what is different from it; no version ever needs more than itself and its base.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from atoll import errors
from atoll.candidate import JSON
from atoll.playbook.bullet import Bullet, counted
from atoll.playbook.delta import Verdict
from atoll.playbook.playbook import Held, Playbook, held_data, held_of
from atoll.playbook.refinement import Retired

LARGEST_PATCH = 3_000  # characters: a larger one is written as a whole, and is the next base
FAULTS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


class Base(NamedTuple):
    """A version that is whole."""

    n: int
    playbook: Playbook


class Entry(NamedTuple):
    """What a version says beside its playbook.

    Attributes:
        parent: The version that it was made from; 0: none.
        base: The version that its patch belongs to; None: it is whole.
        data: The playbook or the patch.
        counts: Of the verdicts, by outcome, and of what was retired, where only that is told.
        is_bare: Whether it is a playbook by itself, which a kernel step lives by: what follows it must be so too.
    """

    parent: int
    base: int | None
    data: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    retired: tuple[Retired, ...]
    counts: Mapping[str, int] = MappingProxyType({})
    is_bare: bool = False


def write(
    playbook: Playbook,
    parent: int,
    base: Base | None,
    verdicts: Sequence[Verdict],
    retired: Sequence[Retired],
    *,
    is_bare: bool = False,
) -> tuple[str, bool]:
    """Returns the text of a version, and whether it is whole; a bare one is what a kernel step reads as a playbook."""
    data: dict[str, JSON] = {} if is_bare else {"parent": parent}
    if verdicts:
        data["log"] = [each.to_data() for each in verdicts]
    if retired:
        data["retired"] = [[each.bullet.to_data(), each.turn, each.reason] for each in retired]
    if is_bare:
        return _dump({**playbook.to_data(), **data}), True
    if base is not None:
        patch = _patch(base.playbook, playbook)
        if len(text := _dump(patch)) < LARGEST_PATCH:
            return f'{_dump(data)[:-1]},"base":{base.n},"patch":{text}}}', False
    return f'{_dump(data)[:-1]},"playbook":{playbook.dump()}}}', True


def read(value: str) -> Entry:
    """Reads a version.

    Raises:
        SetupError: It is none.
    """
    try:
        data = json.loads(value)
        verdicts = tuple(map(Verdict.from_data, data.get("log", ())))
        retired = tuple(Retired(Bullet.from_data(each[0]), each[1], each[2]) for each in data.get("retired", ()))
        if "bullets" in data:  # a bare playbook, as a kernel step keeps it
            counts = {name: counted(count) for name, count in data.get("counts", {}).items()}
            return Entry(0, None, data, verdicts, retired, counts, True)
        base = data.get("base")
        content = data["playbook"] if base is None else data["patch"]
        return Entry(counted(data["parent"]), None if base is None else counted(base), content, verdicts, retired)
    except FAULTS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Name another key.") from error


def whole(entry: Entry) -> Playbook:
    """Returns the playbook of a version that is whole.

    Raises:
        SetupError: It is none.
    """
    try:
        return Playbook.from_data(entry.data)
    except FAULTS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Roll back to another.") from error


def patched(base: Playbook, entry: Entry) -> Playbook:
    """Returns the playbook of a version that is a patch.

    Raises:
        SetupError: It is none.
    """
    try:
        gone, patch = frozenset(entry.data["gone"]), entry.data
        put = {each["id"]: Bullet.from_data(each) for each in patch["put"]}
        bullets = {id: put.pop(id, bullet) for id, bullet in base.bullets.items() if id not in gone}
        held = _held_of(base.held, patch["held"]) if "held" in patch else base.held
        return Playbook(MappingProxyType(bullets | put), counted(patch["turn"]), counted(patch["serial"]), held)
    except FAULTS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Roll back to another.") from error


def _patch(base: Playbook, playbook: Playbook) -> Mapping[str, JSON]:
    before, now = base.bullets, playbook.bullets
    held: dict[str, JSON] = {"held": _held_data(base.held, playbook.held)} if playbook.held != base.held else {}
    return held | {
        "turn": playbook.turn,
        "serial": playbook.serial,
        "put": [each.to_data() for id, each in now.items() if before.get(id) is not each and before.get(id) != each],
        "gone": [id for id in before if id not in now],
    }


def _held_data(before: Sequence[Held], now: Sequence[Held]) -> list[JSON]:
    """Returns what waits; of what waited in the base its place there: all of it is longer than the rest of a patch."""
    return [before.index(each) if each in before else held_data([each])[0] for each in now]


def _held_of(before: Sequence[Held], data: Sequence[Any]) -> tuple[Held, ...]:
    return tuple(held_of([each])[0] if isinstance(each, Mapping) else before[counted(each)] for each in data)


def _dump(data: Mapping[str, JSON]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
