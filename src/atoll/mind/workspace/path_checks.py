"""Checks the names of runs and worldlines and the paths of files. An LLM may have written them."""

import re
from fnmatch import fnmatchcase

from atoll import errors

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*(?<!\.)")
_MAX_NAME_LENGTH, _MAX_PATH_BYTES = 80, 1000
# Names that mean .git on file systems that ignore case or trailing dots and spaces, or have short names.
_GIT_FOLDER = re.compile(r"(?:\.git|git~\d+|\.gitmodules)[ .]*(?::.*)?", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f\\\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class WorkspaceError(errors.SetupError):
    """A forbidden or impossible operation on a workspace."""


def check_name(name: str, kind: str = "worldline") -> str:
    """Returns a name that is valid as a branch and a file.

    Raises:
        WorkspaceError: The name is invalid.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH or name.endswith(".lock"):
        raise WorkspaceError(
            f"{name!r:.60} cannot name a {kind}. Use up to {_MAX_NAME_LENGTH} letters, digits, '-', '_' and single "
            "dots, without '.lock' at the end."
        )
    return name


def check_path(path: str) -> str:
    """Returns the path of a file in a workspace, as git writes it.

    Raises:
        WorkspaceError: It leaves the workspace, belongs to git, or is not a path.
    """
    parts = path.split("/")
    if not path or len(path.encode()) > _MAX_PATH_BYTES or _INVISIBLE.search(path):
        raise WorkspaceError(f"{path!r:.60} is not a valid path. Use a path from the top of the workspace, with '/'.")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise WorkspaceError(f"{path!r:.60} leads out of the workspace. Use a path from the top, without '.' and '..'.")
    if any(_GIT_FOLDER.fullmatch(part) for part in parts):
        raise WorkspaceError(f"{path!r:.60} belongs to git. Worldlines cannot change git's own files.")
    return path


def is_protected(path: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether worldlines must not change a path, such as the tests."""
    return any(fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/*") + "/") for pattern in patterns)
