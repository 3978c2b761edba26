"""Git, asked by argument lists and answered in bytes; nothing that a repository brings along is ever started."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from atoll import errors
from atoll.mind.workspace import settings
from atoll.mind.workspace.names import WorkspaceError

MIN_VERSION = (2, 38)  # merges in memory: `merge-tree --write-tree`
_TIMEOUT_SECONDS = 300.0
_DEFAULT_NAME, EMAIL = "Atoll", "atoll@localhost"


class GitResult(NamedTuple):
    """What one call came to."""

    exit_code: int
    stdout: bytes
    stderr: str


class Git:
    """Calls git in one repository, from any thread, and counts what that took.

    Args:
        folder: The top of a worktree; git looks nowhere above it.
        hold: A descriptor that every call inherits: whoever waits for its lock also waits for calls that outlived us.

    Raises:
        Refused: The repository's own configuration names what git would start or read, and nothing overrules that.
        SetupError: There is no git, or it is too old.
    """

    def __init__(self, folder: Path, lock_fd: int | None = None) -> None:
        self.folder, self._lock_fd = folder, lock_fd
        self._program = _find_program()
        self._lock = Lock()
        self.seconds, self.num_calls = 0.0, 0
        self._settings = settings.SAFE_SETTINGS
        self._settings = settings.make_safe_settings(self.read_records("config", "--list", "--name-only", "-z"))

    def __call__(
        self,
        *arguments: str,
        stdin: bytes = b"",
        worktree: Path | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Returns what a call printed.

        Args:
            arguments: The command and what it is told.
            given: What it reads.
            at: The worktree to work in; None: the repository's own.
            index: A private index instead of the worktree's.
            env: More of the environment: who commits, and when.

        Raises:
            Refused: It failed; the message says how.
        """
        result = self.run(*arguments, stdin=stdin, worktree=worktree, index=index, env=env)
        if result.exit_code:
            raise WorkspaceError(f"git {arguments[0]} failed in {self.folder.name}: {result.stderr or 'it did not say why'}")
        return result.stdout

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        worktree: Path | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> GitResult:
        """Returns how a call ended: for those that may fail and say something by that."""
        start_time = time.perf_counter()
        ceiling = {"GIT_CEILING_DIRECTORIES": str((worktree or self.folder).parent)}
        try:
            completed = subprocess.run(
                [self._program, "--no-pager", *arguments],
                cwd=worktree or self.folder,
                input=stdin,
                capture_output=True,
                env=self._make_environment({**ceiling, **({"GIT_INDEX_FILE": str(index)} if index else {}), **(env or {})}),
                pass_fds=() if self._lock_fd is None else (self._lock_fd,),
                start_new_session=True,  # Ctrl-C is for us: the step at work needs its calls of git to the end
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WorkspaceError(f"git {arguments[0]} took longer than {_TIMEOUT_SECONDS:g} s in {self.folder}.") from None
        except OSError as error:
            raise WorkspaceError(f"git cannot work in {worktree or self.folder}: {error.strerror}.") from error
        self.add_usage(time.perf_counter() - start_time)
        return GitResult(completed.returncode, completed.stdout, completed.stderr.decode(errors="replace").strip()[-500:])

    def read_line(self, *arguments: str, worktree: Path | None = None, index: Path | None = None) -> str:
        """Returns the one line that a call printed."""
        return self(*arguments, worktree=worktree, index=index).decode(errors="surrogateescape").rstrip("\n")

    def read_records(self, *arguments: str, worktree: Path | None = None) -> list[str]:
        """Returns what a call printed with `-z`."""
        output = self(*arguments, worktree=worktree).decode(errors="surrogateescape")
        return [record for record in output.split("\0") if record]

    def start_process(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a call that goes on answering: a process of git for every question took more than the answer."""
        return subprocess.Popen(
            [self._program, "--no-pager", *arguments],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._make_environment({"GIT_CEILING_DIRECTORIES": str(self.folder.parent)}),
            start_new_session=True,
            pass_fds=() if self._lock_fd is None else (self._lock_fd,),
        )

    def add_usage(self, seconds: float, num_calls: int = 1) -> None:
        """Adds to what git took."""
        with self._lock:
            self.seconds += seconds
            self.num_calls += num_calls

    def _make_environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Returns the whole environment: nothing of ours reaches git but where programs lie."""
        config_variables = {f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(self._settings)}
        config_variables |= {f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(self._settings.values())}
        return {
            "PATH": os.pathsep.join((os.path.dirname(self._program), os.defpath)),
            "LC_ALL": "C",
            "HOME": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",  # a hash means the content that it is the hash of
            "GIT_OPTIONAL_LOCKS": "0",  # looking at the main worktree does not write its index
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_COUNT": str(len(self._settings)),
            **config_variables,
            **make_author_env(_DEFAULT_NAME),
            **extra,
        }


def make_author_env(name: str, date: str = "") -> Mapping[str, str]:
    """Returns the environment in which somebody commits; the same date and content give the same commit."""
    environment = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _make_identity(name).items()}
    return environment | ({"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {})


def _make_identity(name: str) -> Mapping[str, str]:
    printable = "".join(character for character in name if character.isprintable() and character not in "<>").strip() or _DEFAULT_NAME
    return {"NAME": printable[:80], "EMAIL": EMAIL}


_PROGRAM_CACHE: list[str] = []


def _find_program() -> str:
    if _PROGRAM_CACHE:
        return _PROGRAM_CACHE[0]
    path = shutil.which("git")
    if path is None:
        raise errors.SetupError("There is no git on this machine, and a workspace is a git worktree: install git.")
    version_text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in version_text.split()[2].split(".")[:2] if part.isdigit()) if version_text else ()
    if version < MIN_VERSION:
        raise errors.SetupError(f"{version_text.strip() or path} is too old for workspaces: install git 2.38 or newer.")
    _PROGRAM_CACHE.append(os.path.realpath(path))
    return _PROGRAM_CACHE[0]
