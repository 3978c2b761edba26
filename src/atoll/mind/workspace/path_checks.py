"""What may name a run, a worldline or a file of a workspace: names reach git and the disk, and a model writes some."""

import re
from fnmatch import fnmatchcase

from atoll import errors

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*(?<!\.)")
_MAX_NAME_LENGTH, _MAX_PATH_BYTES = 80, 1000
# As git sees it on file systems that fold case, drop trailing dots and spaces, or know short names.
_GIT_FOLDER = re.compile(r"(?:\.git|git~\d+|\.gitmodules)[ .]*(?::.*)?", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f\\\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class WorkspaceError(errors.SetupError):
    """What a workspace must not do, or cannot; the message says why and what to do."""


def check_name(name: str, kind: str = "worldline") -> str:
    """Returns a name that is fit to be a branch and a file.

    Raises:
        Refused: It is not: it could lead somewhere else.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH or name.endswith(".lock"):
        raise WorkspaceError(
            f"{name!r:.60} cannot name a {kind}: use up to {_MAX_NAME_LENGTH} letters, digits, '-', '_' and single dots, "
            "not '.lock' at the end."
        )
    return name


def check_path(path: str) -> str:
    """Returns the path of a file in a workspace, as git writes it.

    Raises:
        Refused: It leads out of the workspace, into git's own files, or is no path.
    """
    parts = path.split("/")
    if not path or len(path.encode()) > _MAX_PATH_BYTES or _INVISIBLE.search(path):
        raise WorkspaceError(f"{path!r:.60} is no path of a workspace: name a file by its path from the top, with '/'.")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise WorkspaceError(
            f"{path!r:.60} leads out of the workspace or around in it: name a file by its path from the top."
        )
    if any(_GIT_FOLDER.fullmatch(part) for part in parts):
        raise WorkspaceError(f"{path!r:.60} belongs to git: a worldline changes files, and git keeps its own.")
    return path


def is_protected(path: str, patterns: tuple[str, ...]) -> bool:
    """Says whether a path is one of those that no worldline may change: the tests that judge it, say."""
    return any(fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/*") + "/") for pattern in patterns)
