"""The one folder that an agent may touch, the steps of permission, and every request that was made of it."""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from atoll import errors
from atoll.candidate import JSON

type Permission = Literal["observe", "read", "write", "run"]

STAGES: Sequence[Permission] = ("observe", "read", "write", "run")
MAX_READ, MAX_WRITE, MAX_FILES = 20_000, 20_000, 200
MAX_LOG = 2000
_OLD = re.compile(r"\..*\.\d+\.old", re.DOTALL)


class Barred(errors.AtollError):
    """What cannot be read or written in a playground; the message says why."""


@dataclass(slots=True)
class Playground:
    """A folder, and who may do what in it. Nothing is ever deleted; whatever is asked is logged, also what is refused.

    Attributes:
        log: Requests and answers, the newest last.
    """

    root: Path
    permission: Permission = "write"
    commands: Sequence[str] = ()
    log: list[Mapping[str, JSON]] = field(default_factory=list)
    _num_old: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"The playground {self.root} cannot be made: {error.strerror}.") from error
        self.root = self.root.resolve()

    def refusal(self, action: str, target: str) -> str:
        """Says why something is not done; empty if it may be."""
        if action not in STAGES:
            return f"{action[:40]!r} is no action of this world"
        if STAGES.index(self.permission) < STAGES.index(action):
            return f"{action} needs the permission '{action}', and there is only '{self.permission}'"
        if action in ("read", "write") and self.inside(target) is None:
            return f"{target[:80]!a} is outside the playground"
        if action == "run":
            return self._wrong_command(target)
        return ""

    def _wrong_command(self, line: str) -> str:
        words = line.split()
        if not words or words[0] not in self.commands:
            return f"{line[:60]!r} is not among the commands {', '.join(self.commands)}"
        for word in words[1:]:
            is_odd = any(each in word for each in ";|&$`<>\\\n'\"*?~")
            if is_odd or (not word.startswith("-") and self.inside(word) is None):
                return f"the argument {word[:40]!r} is outside the playground or no plain word"
            if word.startswith("-") and "=" in word:
                return f"the option {word[:40]!r} takes a value, which nobody has checked"
        return ""

    def inside(self, name: str) -> Path | None:
        """Returns the path that a name means inside the playground, links followed; None if that is elsewhere."""
        if not name or "\0" in name:
            return None
        try:
            path = (self.root / name).resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        return path if path.is_relative_to(self.root) and path != self.root else None

    def files(self) -> list[Path]:
        """Returns the files that there are to see, without what `write` kept of older ones."""
        found = (path for path in sorted(self.root.rglob("*")) if not _OLD.fullmatch(path.name) and _is_plain(path))
        return [path for path, _ in zip(found, range(MAX_FILES), strict=False)]

    def read(self, name: str) -> str:
        """Returns the text of a file.

        Raises:
            Barred: It is not there, no plain file, or cannot be read.
        """
        with self._opened(name) as file:
            return file.read(MAX_READ).decode("utf-8", "replace")

    def write(self, name: str, text: str) -> None:
        """Writes a file; what it said before stays beside it, as `.NAME.1.old` and so on.

        Raises:
            Barred: It cannot be written, or would change what must stay: a link, another name of a file elsewhere.
        """
        path = self.inside(name)
        if path is None or _OLD.fullmatch(path.name):
            raise Barred(f"{name[:80]!a} is no file that may be written")
        try:
            body = text[:MAX_WRITE].encode("utf-8")
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path):
                with self._opened(name) as file:
                    if file.read(len(body) + 1) == body:
                        return
            draft = self._free(path)
            with open(draft, "xb") as file:
                file.write(body)
            if os.path.lexists(path):
                os.rename(path, self._free(path))
            os.rename(draft, path)
        except (OSError, ValueError) as error:
            raise Barred(f"{name[:80]!a} cannot be written: {_why(error)}") from error

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        """Opens a plain file that has one name; anything else (a pipe, a device, a second name) is left alone."""
        path = self.inside(name)
        try:
            if path is None:
                raise FileNotFoundError(errno.ENOENT, "there is no such file")
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                told = os.fstat(handle)
                if not stat.S_ISREG(told.st_mode) or told.st_nlink != 1:
                    raise Barred(f"{name[:80]!a} is no plain file of the playground alone")
                yield file
        except (OSError, ValueError) as error:
            raise Barred(f"there is no file {name[:60]!a} that can be read: {_why(error)}") from error

    def _free(self, path: Path) -> Path:
        """Returns a name beside a file that nothing has yet."""
        number = self._num_old.get(path, 0)
        while True:
            number += 1
            found = path.with_name(f".{path.name[:100]}.{number}.old")
            if not os.path.lexists(found):
                self._num_old[path] = number
                return found

    def note(self, action: str, target: str, answer: str, seconds: float = 0.0) -> None:
        """Logs a request with what became of it."""
        self.log.append(
            {"action": action, "target": target[:200], "answer": answer[:200], "seconds": round(seconds, 4)}
        )
        del self.log[:-MAX_LOG]


def _is_plain(path: Path) -> bool:
    try:
        told = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(told.st_mode) and told.st_nlink == 1


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def digest(path: Path) -> str:
    """Returns what a file says, as a short hash."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
