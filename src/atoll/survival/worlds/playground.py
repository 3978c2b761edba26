"""The one folder that an agent may touch, the steps of permission, and every request that was made of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from atoll import errors
from atoll.candidate import JSON

type Permission = Literal["observe", "read", "write", "run"]

STAGES: Sequence[Permission] = ("observe", "read", "write", "run")
MAX_READ, MAX_WRITE, MAX_FILES = 20_000, 20_000, 200
MAX_LOG = 2000


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
            return f"{target[:80]!r} is outside the playground"
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
        except (OSError, RuntimeError):
            return None
        return path if path.is_relative_to(self.root) and path != self.root else None

    def files(self) -> list[Path]:
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink())
        return [path for path, _ in zip(found, range(MAX_FILES), strict=False)]

    def read(self, name: str) -> str:
        path = self.inside(name)
        if path is None or not path.is_file():
            raise errors.NotFound(f"There is no file {name[:80]!r} in the playground.")
        return path.read_bytes()[:MAX_READ].decode("utf-8", "replace")

    def write(self, name: str, text: str) -> None:
        path = self.inside(name)
        assert path is not None, "the refusal was asked before"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text[:MAX_WRITE], encoding="utf-8")

    def note(self, action: str, target: str, answer: str, seconds: float = 0.0) -> None:
        """Logs a request with what became of it."""
        self.log.append(
            {"action": action, "target": target[:200], "answer": answer[:200], "seconds": round(seconds, 4)}
        )
        del self.log[:-MAX_LOG]


def digest(path: Path) -> str:
    """Returns what a file says, as a short hash."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
