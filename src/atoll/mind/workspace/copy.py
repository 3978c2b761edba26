"""A private repository of a plain folder: for a task that is no repository of its own."""

import shutil
import tempfile
from pathlib import Path

from atoll.mind.workspace import git
from atoll.mind.workspace.names import WorkspaceError

_IGNORED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")
_COMMIT_DATE = "@946684800 +0000"  # always the same, so that the same files are the same commit when a run goes on
_MAX_BYTES = 64 * 2**20


def copy_to_repository(folder: Path) -> Path:
    """Returns the top of a new repository with a copy of a folder's files; whoever asks removes its parent.

    Raises:
        Refused: There is no such folder, it is empty or too large.
    """
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    if not files:
        raise WorkspaceError(f"There is nothing to mend in {folder}: task.repository must name a repository or a folder.")
    if sum(path.lstat().st_size for path in files) > _MAX_BYTES:
        raise WorkspaceError(f"{folder} is too large to copy for every run: make it a git repository.")
    target = Path(tempfile.mkdtemp(prefix="atoll-")) / folder.name
    shutil.copytree(folder, target, symlinks=True, ignore=_IGNORED)
    client = git.Git(target)
    client("init", "-q", "-b", "main")
    client("add", "--all", "--force")
    client("commit", "-q", "--no-verify", "-m", "Begin", env=git.make_author_env("Atoll", _COMMIT_DATE))
    return target
