"""Versions of a playbook as text: a full playbook, or a patch to a full version.

A turn changes a few bullets, and 10,000 full playbooks would take gigabytes. So most versions are patches. Reading a
patch needs only the patch and its base.
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

MAX_PATCH_CHARS = 3_000  # a larger patch is stored as a full version, the next base
PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


class FullVersion(NamedTuple):
    """A version with a full playbook."""

    n: int
    playbook: Playbook


class VersionEntry(NamedTuple):
    """Parsed text of a version.

    Attributes:
        parent: Version that it was made from; 0 means none.
        base: Full version that the patch belongs to; None for a full version.
        data: The playbook or the patch.
        counts: Number of verdicts by outcome and of retired bullets, if the version has only counts.
        is_bare: True for a plain playbook written by an evolver. Later versions must be bare too.
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
    """Returns the text of a version and whether it is full. An evolver reads bare versions as playbooks."""
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
    """Parses the text of a version.

    Raises:
        SetupError: The text is not a version.
    """
    try:
        data = json.loads(value)
        verdicts = tuple(map(Verdict.from_data, data.get("log", ())))
        retired = tuple(RetiredBullet(Bullet.from_data(item[0]), item[1], item[2]) for item in data.get("retired", ()))
        if "bullets" in data:  # a bare playbook, written by an evolver
            counts = {name: clamp_count(count) for name, count in data.get("counts", {}).items()}
            return VersionEntry(0, None, data, verdicts, retired, counts, True)
        base = data.get("base")
        content = data["playbook"] if base is None else data["patch"]
        base = None if base is None else clamp_count(base)
        return VersionEntry(clamp_count(data["parent"]), base, content, verdicts, retired)
    except PARSE_ERRORS as error:
        raise errors.SetupError(f"The version is not a playbook: {error!s:.200}. Use another key.") from error


def load_full(entry: VersionEntry) -> Playbook:
    """Returns the playbook of a full version.

    Raises:
        SetupError: The data is not a playbook.
    """
    try:
        return Playbook.from_data(entry.data)
    except PARSE_ERRORS as error:
        raise errors.SetupError(f"The version is not a playbook: {error!s:.200}. Roll back.") from error


def apply_patch(base: Playbook, entry: VersionEntry) -> Playbook:
    """Returns the playbook of a patch.

    Raises:
        SetupError: The patch is not valid.
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
        raise errors.SetupError(f"The version is not a playbook: {error!s:.200}. Roll back.") from error


def _make_patch(base: Playbook, playbook: Playbook) -> Mapping[str, JSON]:
    old_bullets, new_bullets = base.bullets, playbook.bullets
    pairs = ((old_bullets.get(id), bullet) for id, bullet in new_bullets.items())
    patch: dict[str, JSON] = {"turn": playbook.turn, "serial": playbook.serial}
    patch["put"] = [new.to_data() for old, new in pairs if old is not new and old != new]  # identity is faster
    patch["gone"] = [id for id in old_bullets if id not in new_bullets]
    return patch | ({"held": _held_to_patch(base.held, playbook.held)} if playbook.held != base.held else {})


def _held_to_patch(old_entries: Sequence[HeldEntry], new_entries: Sequence[HeldEntry]) -> list[JSON]:
    """Returns the held deltas; those of the base as their index in it, which keeps patches short."""
    return [old_entries.index(entry) if entry in old_entries else held_to_data([entry])[0] for entry in new_entries]


def _held_from_patch(old_entries: Sequence[HeldEntry], data: Sequence[Any]) -> tuple[HeldEntry, ...]:
    return tuple(
        held_from_data([item])[0] if isinstance(item, Mapping) else old_entries[clamp_count(item)] for item in data
    )


def _dump(data: Mapping[str, JSON]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
