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
from atoll.playbook.bullet import Bullet, clamp_count
from atoll.playbook.delta import Verdict
from atoll.playbook.playbook import HeldEntry, Playbook, held_from_data, held_to_data
from atoll.playbook.refinement import RetiredBullet

MAX_PATCH_CHARS = 3_000  # characters: a larger one is written as a whole, and is the next base
PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


class FullVersion(NamedTuple):
    """A version that is whole."""

    n: int
    playbook: Playbook


class VersionEntry(NamedTuple):
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
    retired: tuple[RetiredBullet, ...]
    counts: Mapping[str, int] = MappingProxyType({})
    is_bare: bool = False


def serialize_version(
    playbook: Playbook,
    parent: int,
    base: FullVersion | None,
    verdicts: Sequence[Verdict],
    retired: Sequence[RetiredBullet],
    *,
    is_bare: bool = False,
) -> tuple[str, bool]:
    """Returns the text of a version, and whether it is whole; a bare one is what a kernel step reads as a playbook."""
    data: dict[str, JSON] = {} if is_bare else {"parent": parent}
    if verdicts:
        data["log"] = [verdict.to_data() for verdict in verdicts]
    if retired:
        data["retired"] = [[item.bullet.to_data(), item.turn, item.reason] for item in retired]
    if is_bare:
        return _dump({**playbook.to_data(), **data}), True
    if base is not None:
        patch = _make_patch(base.playbook, playbook)
        if len(text := _dump(patch)) < MAX_PATCH_CHARS:
            return f'{_dump(data)[:-1]},"base":{base.n},"patch":{text}}}', False
    return f'{_dump(data)[:-1]},"playbook":{playbook.dump()}}}', True


def parse_version(value: str) -> VersionEntry:
    """Reads a version.

    Raises:
        SetupError: It is none.
    """
    try:
        data = json.loads(value)
        verdicts = tuple(map(Verdict.from_data, data.get("log", ())))
        retired = tuple(RetiredBullet(Bullet.from_data(item[0]), item[1], item[2]) for item in data.get("retired", ()))
        if "bullets" in data:  # a bare playbook, as a kernel step keeps it
            counts = {name: clamp_count(count) for name, count in data.get("counts", {}).items()}
            return VersionEntry(0, None, data, verdicts, retired, counts, True)
        base = data.get("base")
        content = data["playbook"] if base is None else data["patch"]
        return VersionEntry(
            clamp_count(data["parent"]), None if base is None else clamp_count(base), content, verdicts, retired
        )
    except PARSE_ERRORS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Name another key.") from error


def load_full(entry: VersionEntry) -> Playbook:
    """Returns the playbook of a version that is whole.

    Raises:
        SetupError: It is none.
    """
    try:
        return Playbook.from_data(entry.data)
    except PARSE_ERRORS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Roll back to another.") from error


def apply_patch(base: Playbook, entry: VersionEntry) -> Playbook:
    """Returns the playbook of a version that is a patch.

    Raises:
        SetupError: It is none.
    """
    try:
        removed, patch = frozenset(entry.data["gone"]), entry.data
        changed = {item["id"]: Bullet.from_data(item) for item in patch["put"]}
        bullets = {id: changed.pop(id, bullet) for id, bullet in base.bullets.items() if id not in removed}
        held_entries = _held_from_patch(base.held, patch["held"]) if "held" in patch else base.held
        return Playbook(
            MappingProxyType(bullets | changed), clamp_count(patch["turn"]), clamp_count(patch["serial"]), held_entries
        )
    except PARSE_ERRORS as error:
        raise errors.SetupError(f"This version is no playbook: {error!s:.200}. Roll back to another.") from error


def _make_patch(base: Playbook, playbook: Playbook) -> Mapping[str, JSON]:
    old_bullets, new_bullets = base.bullets, playbook.bullets
    held_patch: dict[str, JSON] = (
        {"held": _held_to_patch(base.held, playbook.held)} if playbook.held != base.held else {}
    )
    return held_patch | {
        "turn": playbook.turn,
        "serial": playbook.serial,
        "put": [
            bullet.to_data()
            for id, bullet in new_bullets.items()
            if old_bullets.get(id) is not bullet and old_bullets.get(id) != bullet
        ],
        "gone": [id for id in old_bullets if id not in new_bullets],
    }


def _held_to_patch(old_entries: Sequence[HeldEntry], new_entries: Sequence[HeldEntry]) -> list[JSON]:
    """Returns what waits; of what waited in the base its place there: all of it is longer than the rest of a patch."""
    return [old_entries.index(entry) if entry in old_entries else held_to_data([entry])[0] for entry in new_entries]


def _held_from_patch(old_entries: Sequence[HeldEntry], data: Sequence[Any]) -> tuple[HeldEntry, ...]:
    return tuple(
        held_from_data([item])[0] if isinstance(item, Mapping) else old_entries[clamp_count(item)] for item in data
    )


def _dump(data: Mapping[str, JSON]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
