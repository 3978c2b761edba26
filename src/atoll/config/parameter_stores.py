"""Opens parameters by URL: a folder of files, or a store with runs."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors, governed
from atoll.governed import reserved_keys
from atoll.governed.parameters import file_layout
from atoll.store.database import dialect
from atoll.store.versions import audit
from atoll.store.versions.errors import VersionNotFound

RULES_VARIABLE = "ATOLL_RULES"  # environment variable with the file of the rules
MAX_INTEGER = 2**63 - 1  # largest integer of a store


def is_folder(url: str) -> bool:
    """Says whether a URL is a folder of files: it exists as one, or ends with a slash."""
    return url.endswith(os.sep) or Path(url).is_dir()


def open_parameters(url: str, *, rules: Path | None = None, create: bool = False) -> governed.Parameters:
    """Opens parameters.

    Args:
        url: Folder or store.
        rules: File with JSON Schemas by key prefix, for new values.
        create: Whether to create the folder or store if it does not exist.

    Raises:
        SetupError: The URL does not exist, or holds something else.
    """
    validator = load_rules(rules)
    if not create and dialect.is_file_path(url) and not Path(dialect.get_path(url)).exists():
        raise errors.SetupError(f"No parameters found in {url}. Name another store with --store, or set one.")
    if is_folder(url):
        return governed.FileParameters(url, check=validator)
    return governed.StoredParameters(url, check=validator)


def load_rules(file: Path | None = None) -> governed.Rules | None:
    """Reads rules from a file, or from the one in the environment variable ATOLL_RULES; None: there are none."""
    path = file or os.environ.get(RULES_VARIABLE)
    return governed.Rules.load(path) if path else None


def verify(url: str, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
    """Verifies the audit log of a folder or a store.

    Raises:
        SetupError: The URL does not exist.
        ChainBroken: The log was changed after it was written.
    """
    if is_folder(url):
        return file_layout.verify_folder(Path(url), anchors)
    with open_parameters(url) as parameters:
        return parameters.verify(anchors)


def import_folder(parameters: governed.Parameters, root: Path, prefix: str = "") -> Sequence[str]:
    """Imports a folder of Flyto's layout, with field names in any case, and returns the keys.

    Raises:
        SetupError: The folder has no parameters, or a file cannot be read.
        VersionConflict: A key exists already.
    """
    for key in file_layout.list_folder_keys(root) if root.is_dir() else ():
        reserved_keys.check_not_reserved(prefix + key)
    keys = file_layout.import_folder(root, parameters.ledger, prefix) if root.is_dir() else ()
    if not keys:
        raise errors.SetupError(f"No parameters found in {root}. Name a folder that has one folder per key.")
    return keys


def import_values(
    parameters: governed.Parameters, values: Mapping[str, Any], reason: str, author: str
) -> Sequence[str]:
    """Sets the values that differ, all or none, and returns the changed keys."""
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
        SetupError: The text is neither, or the number is too large.
    """
    if text is None:
        return None
    if is_digits(text) and not is_in_range(text):
        raise errors.SetupError(f"{text:.40} is too large for a number of changes.")
    try:
        return int(text) if is_digits(text) else _parse_time(text)
    except (ValueError, OverflowError) as error:
        raise errors.SetupError(
            f"{text!r:.80} is not a time. Give a number of changes or a time like 2026-11-15T12:00."
        ) from error


def _parse_time(text: str) -> datetime:
    """Reads a time; raises ValueError or OverflowError if it is not valid, also in UTC."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo is None else parsed.astimezone(UTC)


def read_value(parameters: governed.Parameters, name: str, as_of: str | None = None) -> governed.Value:
    """Returns the value of KEY, KEY@N or KEY@ALIAS, now or at an earlier time.

    Raises:
        NotFound: The key, version or alias does not exist.
        SetupError: `as_of` is not valid.
    """
    key, _, version = name.rpartition("@")
    if key and is_digits(version) and not is_in_range(version) and name not in parameters:
        raise VersionNotFound(key, f"{version:.40}")
    return parameters.get(name, as_of=parse_as_of(as_of))


def is_digits(text: str) -> bool:
    """Says whether a text consists of ASCII digits."""
    return text.isascii() and text.isdigit()


def is_in_range(count: str) -> bool:
    """Says whether a store can hold an integer, given as digits; `int` fails for more than 4,300 of them."""
    return len(digits := count.lstrip("0")) <= len(str(MAX_INTEGER)) and int(digits or "0") <= MAX_INTEGER
