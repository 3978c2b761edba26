"""Playground: the only folder that an agent may change. Its custodian proposes files to promote and to clean up."""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from atoll import errors
from atoll.candidate import JSON
from atoll.survival.roles import sentinel

type Permission = Literal["observe", "read", "write", "run"]

PERMISSIONS: Sequence[Permission] = ("observe", "read", "write", "run")
MAX_READ, MAX_WRITE, MAX_FILES = 20_000, 20_000, 200
MAX_LOG = 2000
_BACKUP_NAME = re.compile(r"\..*\.\d+\.old", re.DOTALL)


class PlaygroundError(errors.AtollError):
    """A file in a playground cannot be read or written. The message gives the reason."""


@dataclass(slots=True)
class Playground:
    """Folder with a permission level. Nothing is ever deleted. All requests are logged, also refused ones.

    Attributes:
        log: Requests and their results, the newest last.
    """

    root: Path
    permission: Permission = "write"
    commands: Sequence[str] = ()
    log: list[Mapping[str, JSON]] = field(default_factory=list)
    _num_backups: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"Playground {self.root} cannot be created: {error.strerror}.") from error
        self.root = self.root.resolve()

    def find_refusal(self, action: str, target: str) -> str:
        """Returns why an action is refused; empty if it is allowed."""
        if action not in PERMISSIONS:
            return f"{action[:40]!r} is not an action of this world"
        if PERMISSIONS.index(self.permission) < PERMISSIONS.index(action):
            return f"{action} needs the permission '{action}', but the permission is '{self.permission}'"
        if action in ("read", "write") and self.resolve_path(target) is None:
            return f"{target[:80]!a} is outside the playground"
        if action == "run":
            return self._find_command_problem(target)
        return ""

    def _find_command_problem(self, command_line: str) -> str:
        args = command_line.split()
        if not args or args[0] not in self.commands:
            return f"{command_line[:60]!r} is not among the commands {', '.join(self.commands)}"
        for arg in args[1:]:
            has_special_char = any(char in arg for char in ";|&$`<>\\\n'\"*?~")
            if has_special_char or (not arg.startswith("-") and self.resolve_path(arg) is None):
                return f"the argument {arg[:40]!r} is outside the playground or not a plain word"
            if arg.startswith("-") and "=" in arg:
                return f"the option {arg[:40]!r} takes a value, which cannot be checked"
        return ""

    def resolve_path(self, name: str) -> Path | None:
        """Returns the path of a name inside the playground, links resolved; None if it is outside."""
        if not name or "\0" in name:
            return None
        try:
            path = (self.root / name).resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        return path if path.is_relative_to(self.root) and path != self.root else None

    def list_files(self) -> list[Path]:
        """Returns the visible files, without backups made by `write`."""
        paths = (path for path in sorted(self.root.rglob("*")) if not _BACKUP_NAME.fullmatch(path.name))
        return list(itertools.islice(filter(_is_regular_file, paths), MAX_FILES))

    def read(self, name: str) -> str:
        """Returns the text of a file.

        Raises:
            PlaygroundError: The file is missing, not a plain file, or not readable.
        """
        with self._open_file(name) as file:
            return file.read(MAX_READ).decode("utf-8", "replace")

    def write(self, name: str, text: str) -> None:
        """Writes a file. The old content is kept as `.NAME.1.old` and so on.

        Raises:
            PlaygroundError: The file cannot be written, or is a link or a second name of another file.
        """
        path = self.resolve_path(name)
        if path is None or _BACKUP_NAME.fullmatch(path.name):
            raise PlaygroundError(f"{name[:80]!a} may not be written")
        try:
            data = text[:MAX_WRITE].encode("utf-8")
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path):
                with self._open_file(name) as file:
                    if file.read(len(data) + 1) == data:
                        return
            temporary = self._make_backup_path(path)
            with open(temporary, "xb") as file:
                file.write(data)
            if os.path.lexists(path):
                os.rename(path, self._make_backup_path(path))
            os.rename(temporary, path)
        except (OSError, ValueError) as error:
            raise PlaygroundError(f"{name[:80]!a} cannot be written: {_describe_error(error)}") from error

    @contextlib.contextmanager
    def _open_file(self, name: str) -> Iterator[BinaryIO]:
        """Opens a plain file with one name. Pipes, devices and hard links are rejected."""
        path = self.resolve_path(name)
        try:
            if path is None:
                raise FileNotFoundError(errno.ENOENT, "file not found")
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                file_status = os.fstat(descriptor)
                if not stat.S_ISREG(file_status.st_mode) or file_status.st_nlink != 1:
                    raise PlaygroundError(f"{name[:80]!a} is not a plain file with a single name")
                yield file
        except (OSError, ValueError) as error:
            raise PlaygroundError(f"{name[:60]!a} cannot be read: {_describe_error(error)}") from error

    def _make_backup_path(self, path: Path) -> Path:
        index = self._num_backups.get(path, 0)
        while True:
            index += 1
            backup = path.with_name(f".{path.name[:100]}.{index}.old")
            if not os.path.lexists(backup):
                self._num_backups[path] = index
                return backup

    def log_request(self, action: str, target: str, result: str, seconds: float = 0.0) -> None:
        seconds = round(seconds, 4)
        self.log.append({"action": action, "target": target[:200], "answer": result[:200], "seconds": seconds})
        del self.log[:-MAX_LOG]


def _is_regular_file(path: Path) -> bool:
    try:
        file_status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(file_status.st_mode) and file_status.st_nlink == 1


def _describe_error(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


LARGE_FILE_BYTES = 100_000
MIN_TEXT_BYTES = 40  # minimum length of a text worth promoting


class PlaygroundSurvey(NamedTuple):
    """Files of a playground and proposals about them.

    Attributes:
        promotions: Files that may be worth keeping, with the reason.
        cleanups: Files that may be deleted, with the reason. A user decides.
        files: Name, size and hash of each file.
    """

    promotions: Sequence[tuple[str, str]]
    cleanups: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, int, str]]


class Custodian:
    def __init__(self, playground: Playground) -> None:
        self._playground = playground

    def survey(self) -> PlaygroundSurvey:
        promotions, cleanups, files = [], [], []
        by_hash: dict[str, str] = {}
        for path in self._playground.list_files():
            try:
                size, file_hash = path.stat().st_size, hash_file(path)
            except OSError:
                continue  # deleted meanwhile, or not readable
            name = str(path.relative_to(self._playground.root))
            files.append((name, size, file_hash))
            if size == 0:
                cleanups.append((name, "empty"))
            elif file_hash in by_hash:
                cleanups.append((name, f"same content as {_format_name(by_hash[file_hash])}"))
            elif size > LARGE_FILE_BYTES:
                cleanups.append((name, f"large: {size:,} bytes"))
            elif path.suffix in (".md", ".txt", ".py", ".toml", ".json") and size >= MIN_TEXT_BYTES:
                promotions.append((name, "text of some length; review it before use"))
            by_hash.setdefault(file_hash, name)
        return PlaygroundSurvey(promotions, cleanups, files)

    def describe(self) -> str:
        """Returns the files and cleanup proposals as text."""
        survey = self.survey()
        files = ", ".join(f"{_format_name(name)} ({size} bytes)" for name, size, _ in survey.files) or "none"
        cleanups = "; ".join(
            f"{_format_name(name)}: {reason}" for name, reason in survey.cleanups if sentinel.is_safe_name(name)
        )
        return f"Files: {files}." + (f" To clean up: {cleanups}." if cleanups else "")


def _format_name(name: str) -> str:
    return sentinel.quote_name(name) if sentinel.is_safe_name(name) else "(a file with a hidden name)"
