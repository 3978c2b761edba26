"""Files of a task on other machines. Each node gets them once, unless it has the same files already."""

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from atoll import errors

MAX_BYTES = 256 * 2**20
_SKIPPED_NAMES = ("__pycache__", "node_modules")  # and all hidden files


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file or folder of a task.

    Attributes:
        path: Absolute path on the coordinator.
        is_folder: Whether it is a folder.
        digest: Hash of its content.
    """

    path: str
    is_folder: bool
    digest: str


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """Files that a task needs on every node: its folder, and its readable paths."""

    files: tuple[TaskFile, ...] = ()

    @classmethod
    def from_paths(cls, paths: Sequence[str]) -> "TaskFiles":
        """Collects files to send; a path inside another path is sent with it.

        Raises:
            SetupError: The files are too large or unreadable.
        """
        real = sorted({os.path.abspath(path) for path in paths})
        tops = [path for path in real if not any(path.startswith(other + os.sep) for other in real)]
        size = sum(file.stat().st_size for top in tops for file in _iter_files(top))
        if size > MAX_BYTES:
            raise errors.SetupError(
                f"{', '.join(tops)} hold {size / 2**20:.0f} MiB; at most {MAX_BYTES // 2**20} MiB are sent to the "
                "nodes. Put the data in another folder that all nodes see under the same path."
            )
        return cls(tuple(TaskFile(top, os.path.isdir(top), hash_path(top)) for top in tops))

    def pack(self) -> bytes:
        """Returns all files as one tar archive."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
            for index, task_file in enumerate(self.files):
                for file in _iter_files(task_file.path):
                    archive.add(file, _make_archive_name(index, task_file.path, file), recursive=False)
        return buffer.getvalue()

    def locate(self, path: str) -> tuple[int, str] | None:
        """Returns the index of the task file that contains a path, and the path inside it; None: it is not sent."""
        for index, task_file in enumerate(self.files):
            if path == task_file.path or path.startswith(task_file.path + os.sep):
                return index, path[len(task_file.path) :]
        return None


class ExtractedFiles:
    """Task files on a node: at their original path if the node has the same files, otherwise in a cache folder.

    Attributes:
        roots: Path of each task file on this node.
    """

    def __init__(self, task_files: TaskFiles, archive: bytes) -> None:
        self._task_files = task_files
        self.roots = [task_file.path for task_file in task_files.files]
        if not all(os.path.exists(file.path) and hash_path(file.path) == file.digest for file in task_files.files):
            folder = _extract(archive)
            self.roots = [_make_root_path(folder, index, task_file) for index, task_file in enumerate(task_files.files)]
            for root, task_file in zip(self.roots, task_files.files, strict=True):
                if task_file.is_folder:
                    os.makedirs(root, exist_ok=True)  # archives have no empty folders

    def resolve(self, location: tuple[int, str]) -> str:
        """Returns the path on this node of a located path."""
        index, relative_path = location
        return self.roots[index] + relative_path

    def restore_paths(self, text: str) -> str:
        """Replaces paths of this node by those of the coordinator, so that results do not depend on the node."""
        for task_file, root in zip(self._task_files.files, self.roots, strict=True):
            text = text.replace(root, task_file.path)
        return text


def hash_path(path: str) -> str:
    """Returns a hash of a file, or of the names and contents of all files in a folder."""
    hasher = hashlib.sha256()
    for file in _iter_files(path):
        content = file.read_bytes()
        hasher.update(f"{os.path.relpath(file, path)}\0{len(content)}\0".encode(errors="surrogateescape"))
        hasher.update(content)
    return hasher.hexdigest()


def _iter_files(top: str) -> Iterator[Path]:
    """Yields the files of a folder to send, sorted; or the file itself."""
    if os.path.isfile(top):
        yield Path(top)
    for folder, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name not in _SKIPPED_NAMES and not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not name.startswith(".") and path.suffix != ".pyc":
                yield path


def _make_root_path(folder: str, index: int, task_file: TaskFile) -> str:
    top = os.path.join(folder, str(index))
    return top if task_file.is_folder else os.path.join(top, os.path.basename(task_file.path))


def _make_archive_name(index: int, top: str, file: Path) -> str:
    relative_path = file.name if os.path.isfile(top) else os.path.relpath(file, top)
    return os.path.join(str(index), relative_path)


def _extract(archive_bytes: bytes) -> str:
    """Extracts an archive, unless it was extracted here before; returns the folder."""
    cache_folder = os.path.join(tempfile.gettempdir(), f"atoll-files-{os.geteuid()}")
    os.makedirs(cache_folder, mode=0o711, exist_ok=True)
    if os.stat(cache_folder).st_uid != os.geteuid():
        raise errors.SetupError(f"{cache_folder} belongs to another user. Remove it, or set TMPDIR on the nodes.")
    folder = os.path.join(cache_folder, hashlib.sha256(archive_bytes).hexdigest()[:32])
    if not os.path.isdir(folder):
        temp_folder = tempfile.mkdtemp(dir=cache_folder)
        with tarfile.open(fileobj=io.BytesIO(archive_bytes)) as archive:
            archive.extractall(temp_folder, filter="data")
        os.chmod(temp_folder, 0o755)  # a sandbox started by root runs as another user
        try:
            os.rename(temp_folder, folder)
        except OSError:  # another actor was first
            shutil.rmtree(temp_folder)
    return folder
