"""Where parameters are kept, by what somebody typed: a folder of files, or a store beside its runs."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors, governed
from atoll.governed.parameters import file_layout
from atoll.store.database import urls
from atoll.store.versions import audit
from atoll.store.versions import errors as versions_errors

MAX_INTEGER = 2**63 - 1  # the greatest number that a store can hold


def is_folder(url: str) -> bool:
    """Says whether a name means a folder of files: it is one, or ends like one."""
    return url.endswith(os.sep) or Path(url).is_dir()


def open_parameters(url: str, *, rules: Path | None = None, create: bool = False) -> governed.Parameters:
    """Opens parameters.

    Args:
        rules: A file of schemas by prefix, for new values.
        is_new: Makes what is not there yet.

    Raises:
        SetupError: There is nothing, or something else.
    """
    validator = None if rules is None else governed.Rules.load(rules)
    if not create and urls.is_file_path(url) and not Path(urls.get_path(url)).exists():
        raise errors.SetupError(f"There are no parameters in {url}: name another with --store, or set one.")
    if is_folder(url):
        return governed.FileParameters(url, check=validator)
    return governed.StoredParameters(url, check=validator)


def verify(url: str, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
    """Checks the log of a folder or a store.

    Raises:
        SetupError: There is nothing.
        ChainBroken: It is not what was written.
    """
    if is_folder(url):
        return file_layout.verify_folder(Path(url), anchors)
    with open_parameters(url) as parameters:
        return parameters.verify(anchors)


def import_folder(parameters: governed.Parameters, root: Path, prefix: str = "") -> Sequence[str]:
    """Takes in a folder of the original layout, whatever the case of its field names; returns the keys.

    Raises:
        SetupError: There are no parameters in it, or a file cannot be read.
        VersionConflict: There is such a key already.
    """
    keys = file_layout.import_folder(root, parameters.ledger, prefix) if root.is_dir() else ()
    if not keys:
        raise errors.SetupError(f"There are no parameters in {root}: give the folder that holds one folder per key.")
    return keys


def import_values(
    parameters: governed.Parameters, values: Mapping[str, Any], reason: str, author: str
) -> Sequence[str]:
    """Sets what differs, all or nothing; returns the keys that changed."""
    current_values = parameters.snapshot().values
    with parameters.transaction(reason, author=author) as transaction:
        for key, value in values.items():
            current = current_values.get(key)
            if current is None or json.dumps(current.value) != json.dumps(value):
                transaction.set(key, value, expected_version=0 if current is None else current.version)
    return [change.key for change in transaction.changes]


def parse_as_of(text: str | None) -> int | datetime | None:
    """Reads a number of changes, or a time.

    Raises:
        SetupError: It is neither, or one that no store reaches.
    """
    if text is None:
        return None
    if is_digits(text) and not is_in_range(text):
        raise errors.SetupError(f"{text:.40} is no moment: no store has so many changes.")
    try:
        return int(text) if is_digits(text) else _parse_time(text)
    except (ValueError, OverflowError) as error:
        raise errors.SetupError(
            f"{text!r:.80} is no moment: give a number of changes or a time like 2026-11-15T12:00."
        ) from error


def _parse_time(text: str) -> datetime:
    """Reads a time; raises ValueError or OverflowError for one that is none, or none in UTC."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo is None else parsed.astimezone(UTC)


def read_value(parameters: governed.Parameters, name: str, as_of: str | None = None) -> governed.Value:
    """Returns what KEY, KEY@N or KEY@ALIAS stands for, now or at a moment.

    Raises:
        NotFound: There is no such key, version or alias.
        SetupError: The moment is none.
    """
    key, _, version = name.rpartition("@")
    if key and is_digits(version) and not is_in_range(version) and name not in parameters:
        raise versions_errors.VersionNotFound(key, f"{version:.40}")
    return parameters.get(name, as_of=parse_as_of(as_of))


def is_digits(text: str) -> bool:
    """Says whether a text is a whole number of plain digits."""
    return text.isascii() and text.isdigit()


def is_in_range(count: str) -> bool:
    """Says whether a store can hold a whole number; Python itself reads none of over 4,300 digits."""
    return len(digits := count.lstrip("0")) <= len(str(MAX_INTEGER)) and int(digits or "0") <= MAX_INTEGER
