"""Folder names for entities, as they stand in the layout that others write too."""

import hashlib
from urllib.parse import quote, unquote

LONGEST = 200  # bytes: a name has 255 at most everywhere, and some room is left for suffixes
KEPT = 160


def folder_of(entity: str) -> str:
    """Returns the folder name of an entity: Go's `url.PathEscape`, unless that would leave the tree or be too long.

    Different entities have different names: what is cut ends with a hash and is longer than what is not cut.
    """
    name = quote(entity, safe="$&+=:@")
    if name in (".", ".."):
        return name.replace(".", "%2E")
    if len(name) <= LONGEST:
        return name
    return f"{name[:KEPT]}~{hashlib.sha256(entity.encode('utf-8', 'surrogatepass')).hexdigest()}"


def entity_of(folder: str) -> str | None:
    """Returns the entity of a folder name; None where the name was cut and cannot say."""
    return None if len(folder) > LONGEST else unquote(folder)
