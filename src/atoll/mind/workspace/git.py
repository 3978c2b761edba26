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
from atoll.mind.workspace.names import Refused

LEAST = (2, 38)  # merges in memory: `merge-tree --write-tree`
_CALL_SECONDS = 300.0
_NAME, MAIL = "Atoll", "atoll@localhost"


class Ended(NamedTuple):
    """What one call came to."""

    code: int
    out: bytes
    said: str


class Git:
    """Calls git in one repository, from any thread, and counts what that took.

    Args:
        folder: The top of a worktree; git looks nowhere above it.
        hold: A descriptor that every call inherits: whoever waits for its lock also waits for calls that outlived us.

    Raises:
        Refused: The repository's own configuration names what git would start or read, and nothing overrules that.
        SetupError: There is no git, or it is too old.
    """

    def __init__(self, folder: Path, hold: int | None = None) -> None:
        self.folder, self._hold = folder, hold
        self._program = _program()
        self._lock = Lock()
        self.seconds, self.num_calls = 0.0, 0
        self._settings = settings.ALWAYS
        self._settings = settings.against(self.records("config", "--list", "--name-only", "-z"))

    def __call__(
        self,
        *arguments: str,
        given: bytes = b"",
        at: Path | None = None,
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
        ended = self.ask(*arguments, given=given, at=at, index=index, env=env)
        if ended.code:
            raise Refused(f"git {arguments[0]} failed in {self.folder.name}: {ended.said or 'it did not say why'}")
        return ended.out

    def ask(
        self,
        *arguments: str,
        given: bytes = b"",
        at: Path | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Returns how a call ended: for those that may fail and say something by that."""
        since = time.perf_counter()
        place = {"GIT_CEILING_DIRECTORIES": str((at or self.folder).parent)}
        try:
            done = subprocess.run(
                [self._program, "--no-pager", *arguments],
                cwd=at or self.folder,
                input=given,
                capture_output=True,
                env=self._environment({**place, **({"GIT_INDEX_FILE": str(index)} if index else {}), **(env or {})}),
                pass_fds=() if self._hold is None else (self._hold,),
                start_new_session=True,  # Ctrl-C is for us: the step at work needs its calls of git to the end
                timeout=_CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Refused(f"git {arguments[0]} took longer than {_CALL_SECONDS:g} s in {self.folder}.") from None
        except OSError as error:
            raise Refused(f"git cannot work in {at or self.folder}: {error.strerror}.") from error
        self.count(time.perf_counter() - since)
        return Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()[-500:])

    def line(self, *arguments: str, at: Path | None = None, index: Path | None = None) -> str:
        """Returns the one line that a call printed."""
        return self(*arguments, at=at, index=index).decode(errors="surrogateescape").rstrip("\n")

    def records(self, *arguments: str, at: Path | None = None) -> list[str]:
        """Returns what a call printed with `-z`."""
        printed = self(*arguments, at=at).decode(errors="surrogateescape")
        return [each for each in printed.split("\0") if each]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a call that goes on answering: a process of git for every question took more than the answer."""
        return subprocess.Popen(
            [self._program, "--no-pager", *arguments],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment({"GIT_CEILING_DIRECTORIES": str(self.folder.parent)}),
            start_new_session=True,
            pass_fds=() if self._hold is None else (self._hold,),
        )

    def count(self, seconds: float, num_calls: int = 1) -> None:
        """Adds to what git took."""
        with self._lock:
            self.seconds += seconds
            self.num_calls += num_calls

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Returns the whole environment: nothing of ours reaches git but where programs lie."""
        told = {f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(self._settings)}
        told |= {f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(self._settings.values())}
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
            **told,
            **signed(_NAME),
            **more,
        }


def signed(name: str, date: str = "") -> Mapping[str, str]:
    """Returns the environment in which somebody commits; the same date and content give the same commit."""
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _person(name).items()}
    return who | ({"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {})


def _person(name: str) -> Mapping[str, str]:
    shown = "".join(each for each in name if each.isprintable() and each not in "<>").strip() or _NAME
    return {"NAME": shown[:80], "EMAIL": MAIL}


_FOUND: list[str] = []


def _program() -> str:
    if _FOUND:
        return _FOUND[0]
    path = shutil.which("git")
    if path is None:
        raise errors.SetupError("There is no git on this machine, and a workspace is a git worktree: install git.")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(each) for each in said.split()[2].split(".")[:2] if each.isdigit()) if said else ()
    if version < LEAST:
        raise errors.SetupError(f"{said.strip() or path} is too old for workspaces: install git 2.38 or newer.")
    _FOUND.append(os.path.realpath(path))
    return _FOUND[0]
