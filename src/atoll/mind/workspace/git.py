"""Git, asked by argument lists and answered in bytes; nothing that a repository brings along is ever started."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from atoll import errors
from atoll.mind.workspace.path_checks import WorkspaceError

SAFE_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.editor": "true",
    "sequence.editor": "true",
    "core.pager": "cat",
    "core.alternateRefsCommand": "true",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.sparseCheckout": "false",
    "core.logAllRefUpdates": "false",
    "core.fsync": "none",  # a kill loses nothing by that; a merge has git's usual care
    "credential.helper": "",
    "protocol.allow": "never",
    "commit.gpgSign": "false",
    "merge.verifySignatures": "false",
    "merge.autoStash": "false",
    "log.showSignature": "false",
    "gpg.format": "openpgp",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "gpg.ssh.allowedSignersFile": os.devnull,
    "gpg.ssh.revocationFile": os.devnull,
    "mailmap.file": os.devnull,
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "diff.external": "",
    "diff.ignoreSubmodules": "dirty",
    "diff.orderFile": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
}
# What honest repositories name too, by a name of their own in the middle: it is overruled by doing nothing. A filter
# leaves a file as it is; a merge by a driver is a conflict.
_NEUTRAL_VALUES = {
    ("filter", "clean"): "",
    ("filter", "smudge"): "",
    ("filter", "process"): "",
    ("filter", "required"): "false",
    ("diff", "command"): "",
    ("diff", "textconv"): "",
    ("merge", "driver"): "false",
    ("branch", "mergeoptions"): "",
    ("credential", "helper"): "",
    ("gpg", "program"): "false",
    ("remote", "uploadpack"): "false",
    ("remote", "receivepack"): "false",
    ("remote", "vcs"): "false",
    ("remote", "proxy"): "",
    ("submodule", "ignore"): "dirty",
}
# Whatever else sounds like a program, of this version of git or one to come, is more than can be overruled by name.
_PROGRAM_KEY = re.compile(
    r"(?:.*(?:program|command|cmd|driver|textconv|helper|editor|pager|hook|askpass|diff-?filter|proxy|exec)"
    r"|clean|smudge|process|vcs|uploadpack|receivepack)"
)
_INTERACTIVE_SECTIONS = frozenset(("alias", "difftool", "mergetool", "guitool", "pager", "color", "http", "https"))


def make_safe_settings(names: Sequence[str]) -> Mapping[str, str]:
    """Returns the settings under which nothing starts that a repository's configuration names.

    Args:
        names: All that its configuration sets.

    Raises:
        Refused: It includes files, which can differ from one worktree to the next, or names a program in a way that
            nothing here overrules.
    """
    settings = {**SAFE_SETTINGS, **dict(_override_named(names))}
    known_names = {name.lower() for name in settings}
    for name in names:
        section, _, key = name.lower().partition(".")
        if section in ("include", "includeif"):
            raise WorkspaceError(
                f"The configuration of this repository includes files ({name!a:.80}), so what git would start is "
                f"not known: remove the section {section!r} from .git/config, or give a plain clone."
            )
        is_program = _PROGRAM_KEY.fullmatch(key.rpartition(".")[2]) is not None and section not in _INTERACTIVE_SECTIONS
        if is_program and name.lower() not in known_names:
            raise WorkspaceError(
                f"The configuration of this repository names a program ({name!a:.80}), which git could start outside "
                "the jail: remove that line from .git/config, or give a plain clone."
            )
    return settings


def _override_named(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        section, _, key = name.partition(".")
        value = _NEUTRAL_VALUES.get((section.lower(), key.rpartition(".")[2].lower()))
        if value is not None and "." in key:
            yield name, value
            if section.lower() == "filter":
                yield f"{section}.{key.rpartition('.')[0]}.required", "false"


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
        self._settings = SAFE_SETTINGS
        self._settings = make_safe_settings(self.read_records("config", "--list", "--name-only", "-z"))

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
            raise WorkspaceError(
                f"git {arguments[0]} failed in {self.folder.name}: {result.stderr or 'it did not say why'}"
            )
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
                env=self._make_environment(
                    {**ceiling, **({"GIT_INDEX_FILE": str(index)} if index else {}), **(env or {})}
                ),
                pass_fds=() if self._lock_fd is None else (self._lock_fd,),
                start_new_session=True,  # Ctrl-C is for us: the step at work needs its calls of git to the end
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WorkspaceError(
                f"git {arguments[0]} took longer than {_TIMEOUT_SECONDS:g} s in {self.folder}."
            ) from None
        except OSError as error:
            raise WorkspaceError(f"git cannot work in {worktree or self.folder}: {error.strerror}.") from error
        self.add_usage(time.perf_counter() - start_time)
        return GitResult(
            completed.returncode, completed.stdout, completed.stderr.decode(errors="replace").strip()[-500:]
        )

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
    environment = {
        f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _make_identity(name).items()
    }
    return environment | ({"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {})


def _make_identity(name: str) -> Mapping[str, str]:
    printable = (
        "".join(character for character in name if character.isprintable() and character not in "<>").strip()
        or _DEFAULT_NAME
    )
    return {"NAME": printable[:80], "EMAIL": EMAIL}


_PROGRAM_CACHE: list[str] = []


def _find_program() -> str:
    if _PROGRAM_CACHE:
        return _PROGRAM_CACHE[0]
    path = shutil.which("git")
    if path is None:
        raise errors.SetupError("There is no git on this machine, and a workspace is a git worktree: install git.")
    version_text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version = (
        tuple(int(part) for part in version_text.split()[2].split(".")[:2] if part.isdigit()) if version_text else ()
    )
    if version < MIN_VERSION:
        raise errors.SetupError(f"{version_text.strip() or path} is too old for workspaces: install git 2.38 or newer.")
    _PROGRAM_CACHE.append(os.path.realpath(path))
    return _PROGRAM_CACHE[0]
