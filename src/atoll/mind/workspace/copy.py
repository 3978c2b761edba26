"""A private repository of a plain folder: for a task that is no repository of its own."""

import shutil
import tempfile
from pathlib import Path

from atoll.mind.workspace import git
from atoll.mind.workspace.names import Refused

_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")
_DATE = "@946684800 +0000"  # always the same, so that the same files are the same commit when a run goes on
_LARGEST = 64 * 2**20


def copied(folder: Path) -> Path:
    """Returns the top of a new repository with a copy of a folder's files; whoever asks removes its parent.

    Raises:
        Refused: There is no such folder, it is empty or too large.
    """
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    if not files:
        raise Refused(f"There is nothing to mend in {folder}: task.repository must name a repository or a folder.")
    if sum(path.lstat().st_size for path in files) > _LARGEST:
        raise Refused(f"{folder} is too large to copy for every run: make it a git repository.")
    place = Path(tempfile.mkdtemp(prefix="atoll-")) / folder.name
    shutil.copytree(folder, place, symlinks=True, ignore=_LEFT_OUT)
    calls = git.Git(place)
    calls("init", "-q", "-b", "main")
    calls("add", "--all", "--force")
    calls("commit", "-q", "--no-verify", "-m", "Begin", env=git.signed("Atoll", _DATE))
    return place
