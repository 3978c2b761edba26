"""The task's files on their way to other machines: sent once to a node, and only if it does not have them."""

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
_SKIPPED_NAMES = ("__pycache__", "node_modules")  # besides all that is hidden


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file or folder.

    Attributes:
        path: Where it lies at home, absolute.
        is_folder: Whether it is one.
        digest: Of all that is in it.
    """

    path: str
    is_folder: bool
    digest: str


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What a task needs on every node: its folder, and what else it may read."""

    files: tuple[TaskFile, ...] = ()

    @classmethod
    def from_paths(cls, paths: Sequence[str]) -> "TaskFiles":
        """Looks at what is to be sent; one path that lies in another goes with it.

        Raises:
            SetupError: It is too much, or cannot be read.
        """
        real = sorted({os.path.abspath(path) for path in paths})
        tops = [path for path in real if not any(path.startswith(other + os.sep) for other in real)]
        size = sum(file.stat().st_size for top in tops for file in _iter_files(top))
        if size > MAX_BYTES:
            raise errors.SetupError(
                f"{', '.join(tops)} hold {size / 2**20:.0f} MiB, and every node would get them: put the data where all "
                f"nodes see it under the same path, in a folder of its own; up to {MAX_BYTES // 2**20} MiB travel."
            )
        return cls(tuple(TaskFile(top, os.path.isdir(top), hash_path(top)) for top in tops))

    def pack(self) -> bytes:
        """Returns all pieces as one archive."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
            for index, task_file in enumerate(self.files):
                for file in _iter_files(task_file.path):
                    archive.add(file, _make_archive_name(index, task_file.path, file), recursive=False)
        return buffer.getvalue()

    def locate(self, path: str) -> tuple[int, str] | None:
        """Returns which piece a path lies in, and where in it; None: it does not travel."""
        for index, task_file in enumerate(self.files):
            if path == task_file.path or path.startswith(task_file.path + os.sep):
                return index, path[len(task_file.path) :]
        return None


class ExtractedFiles:
    """Luggage on a node: where it lay at home if the same lies there, else in a folder of its own.

    Attributes:
        roots: Where each piece is.
    """

    def __init__(self, task_files: TaskFiles, archive: bytes) -> None:
        self._task_files = task_files
        self.roots = [task_file.path for task_file in task_files.files]
        if any(
            not os.path.exists(task_file.path) or hash_path(task_file.path) != task_file.digest
            for task_file in task_files.files
        ):
            folder = _extract(archive)
            self.roots = [_make_root_path(folder, index, task_file) for index, task_file in enumerate(task_files.files)]
            for root in (
                root for root, task_file in zip(self.roots, task_files.files, strict=True) if task_file.is_folder
            ):
                os.makedirs(root, exist_ok=True)  # an empty one leaves no trace in an archive

    def resolve(self, location: tuple[int, str]) -> str:
        """Returns where a path of home is here."""
        index, relative_path = location
        return self.roots[index] + relative_path

    def restore_paths(self, text: str) -> str:
        """Returns a text with the names of home, so that an answer does not hang on where it was found."""
        for task_file, root in zip(self._task_files.files, self.roots, strict=True):
            text = text.replace(root, task_file.path)
        return text


def hash_path(path: str) -> str:
    """Returns a hash of a file, or of all files of a folder with their names."""
    hasher = hashlib.sha256()
    for file in _iter_files(path):
        content = file.read_bytes()
        hasher.update(f"{os.path.relpath(file, path)}\0{len(content)}\0".encode(errors="surrogateescape"))
        hasher.update(content)
    return hasher.hexdigest()


def _iter_files(top: str) -> Iterator[Path]:
    """Yields the files of a folder that travel, sorted; or the file itself."""
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
    """Unpacks an archive unless somebody of this user did so here before; returns the folder."""
    cache_folder = os.path.join(tempfile.gettempdir(), f"atoll-luggage-{os.geteuid()}")
    os.makedirs(cache_folder, mode=0o711, exist_ok=True)
    if os.stat(cache_folder).st_uid != os.geteuid():
        raise errors.SetupError(f"{cache_folder} belongs to somebody else: remove it, or set TMPDIR on the nodes.")
    folder = os.path.join(cache_folder, hashlib.sha256(archive_bytes).hexdigest()[:32])
    if not os.path.isdir(folder):
        temp_folder = tempfile.mkdtemp(dir=cache_folder)
        with tarfile.open(fileobj=io.BytesIO(archive_bytes)) as archive:
            archive.extractall(temp_folder, filter="data")
        os.chmod(temp_folder, 0o755)  # a jail of root's runs as another user
        try:
            os.rename(temp_folder, folder)
        except OSError:  # another seat was first
            shutil.rmtree(temp_folder)
    return folder
