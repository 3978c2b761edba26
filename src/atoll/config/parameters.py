"""Where parameters are kept, by what somebody typed: a folder of files, or a store beside its runs."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors, governed
from atoll.governed.parameters import folder
from atoll.store import address, audit, refusals

MOST = 2**63 - 1  # the greatest number that a store can hold


def is_folder(url: str) -> bool:
    """Says whether a name means a folder of files: it is one, or ends like one."""
    return url.endswith(os.sep) or Path(url).is_dir()


def open(url: str, *, rules: Path | None = None, is_new: bool = False) -> governed.Parameters:
    """Opens parameters.

    Args:
        rules: A file of schemas by prefix, for new values.
        is_new: Makes what is not there yet.

    Raises:
        SetupError: There is nothing, or something else.
    """
    check = None if rules is None else governed.Rules.load(rules)
    if not is_new and address.is_path(url) and not Path(address.path_of(url)).exists():
        raise errors.SetupError(f"There are no parameters in {url}: name another with --store, or set one.")
    if is_folder(url):
        return governed.FilesParameters(url, check=check)
    return governed.StoredParameters(url, check=check)


def verify(url: str, anchors: Sequence[audit.Anchor] = ()) -> audit.Report:
    """Checks the log of a folder or a store.

    Raises:
        SetupError: There is nothing.
        ChainBroken: It is not what was written.
    """
    if is_folder(url):
        return folder.verify(Path(url), anchors)
    with open(url) as kept:
        return kept.verify(anchors)


def import_folder(kept: governed.Parameters, root: Path, prefix: str = "") -> Sequence[str]:
    """Takes in a folder of the original layout, whatever the case of its field names; returns the keys.

    Raises:
        SetupError: There are no parameters in it, or a file cannot be read.
        VersionConflict: There is such a key already.
    """
    keys = folder.adopt(root, kept.ledger, prefix) if root.is_dir() else ()
    if not keys:
        raise errors.SetupError(f"There are no parameters in {root}: give the folder that holds one folder per key.")
    return keys


def import_values(kept: governed.Parameters, values: Mapping[str, Any], reason: str, author: str) -> Sequence[str]:
    """Sets what differs, all or nothing; returns the keys that changed."""
    now = kept.snapshot().values
    with kept.transaction(reason, author=author) as draft:
        for key, value in values.items():
            held = now.get(key)
            if held is None or json.dumps(held.value) != json.dumps(value):
                draft.set(key, value, expected_version=0 if held is None else held.version)
    return [change.key for change in draft.changes]


def moment(said: str | None) -> int | datetime | None:
    """Reads a number of changes, or a time.

    Raises:
        SetupError: It is neither, or one that no store reaches.
    """
    if said is None:
        return None
    if is_count(said) and not fits(said):
        raise errors.SetupError(f"{said:.40} is no moment: no store has so many changes.")
    try:
        return int(said) if is_count(said) else _time(said)
    except (ValueError, OverflowError) as error:
        raise errors.SetupError(
            f"{said!r:.80} is no moment: give a number of changes or a time like 2026-11-15T12:00."
        ) from error


def _time(said: str) -> datetime:
    """Reads a time; raises ValueError or OverflowError for one that is none, or none in UTC."""
    found = datetime.fromisoformat(said)
    return found if found.tzinfo is None else found.astimezone(UTC)


def value(kept: governed.Parameters, name: str, as_of: str | None = None) -> governed.Value:
    """Returns what KEY, KEY@N or KEY@ALIAS stands for, now or at a moment.

    Raises:
        NotFound: There is no such key, version or alias.
        SetupError: The moment is none.
    """
    key, _, version = name.rpartition("@")
    if key and is_count(version) and not fits(version) and name not in kept:
        raise refusals.VersionNotFound(key, f"{version:.40}")
    return kept.get(name, as_of=moment(as_of))


def is_count(said: str) -> bool:
    """Says whether a text is a whole number of plain digits."""
    return said.isascii() and said.isdigit()


def fits(count: str) -> bool:
    """Says whether a store can hold a whole number; Python itself reads none of over 4,300 digits."""
    return len(digits := count.lstrip("0")) <= len(str(MOST)) and int(digits or "0") <= MOST
