"""Runs git with argument lists, never a program of the repository; checks names and paths, which an LLM may write."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from atoll import errors

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*(?<!\.)")
_MAX_NAME_LENGTH, _MAX_PATH_BYTES = 80, 1000
# Names that mean .git on file systems that ignore case or trailing dots and spaces, or have short names.
_GIT_FOLDER = re.compile(r"(?:\.git|git~\d+|\.gitmodules)[ .]*(?::.*)?", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f\\\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class WorkspaceError(errors.SetupError):
    """A forbidden or impossible operation on a workspace."""


def check_name(name: str, kind: str = "worldline") -> str:
    """Returns a name that is valid as a branch and a file.

    Raises:
        WorkspaceError: The name is invalid.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH or name.endswith(".lock"):
        raise WorkspaceError(
            f"{name!r:.60} cannot name a {kind}. Use up to {_MAX_NAME_LENGTH} letters, digits, '-', '_' and single "
            "dots, without '.lock' at the end."
        )
    return name


def check_path(path: str) -> str:
    """Returns the path of a file in a workspace, as git writes it.

    Raises:
        WorkspaceError: It leaves the workspace, belongs to git, or is not a path.
    """
    parts = path.split("/")
    if not path or len(path.encode()) > _MAX_PATH_BYTES or _INVISIBLE.search(path):
        raise WorkspaceError(f"{path!r:.60} is not a valid path. Use a path from the top of the workspace, with '/'.")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise WorkspaceError(f"{path!r:.60} leads out of the workspace. Use a path from the top, without '.' and '..'.")
    if any(_GIT_FOLDER.fullmatch(part) for part in parts):
        raise WorkspaceError(f"{path!r:.60} belongs to git. Worldlines cannot change git's own files.")
    return path


def is_protected(path: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether worldlines must not change a path, such as the tests."""
    return any(fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/*") + "/") for pattern in patterns)


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
    "core.fsync": "none",  # a kill loses nothing; merges use git's default
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
# Settings with a custom middle name that normal repositories use too. They are overridden: a filter leaves files
# unchanged, and a merge driver causes a conflict.
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
# Any other setting that may name a program, in this or a later version of git, is rejected.
_PROGRAM_KEY = re.compile(
    r"(?:.*(?:program|command|cmd|driver|textconv|helper|editor|pager|hook|askpass|diff-?filter|proxy|exec)"
    r"|clean|smudge|process|vcs|uploadpack|receivepack)"
)
_INTERACTIVE_SECTIONS = frozenset(("alias", "difftool", "mergetool", "guitool", "pager", "color", "http", "https"))


def make_safe_settings(names: Sequence[str]) -> Mapping[str, str]:
    """Returns settings that disable every program named in a repository's configuration.

    Args:
        names: All names that its configuration sets.

    Raises:
        WorkspaceError: It includes files, which can differ between worktrees, or names a program that these settings
            cannot disable.
    """
    settings = {**SAFE_SETTINGS, **dict(_override_named(names))}
    known_names = {name.lower() for name in settings}
    for name in names:
        section, _, key = name.lower().partition(".")
        if section in ("include", "includeif"):
            raise WorkspaceError(
                f"The configuration of this repository includes files ({name!a:.80}), which can name any program. "
                f"Remove the section {section!r} from .git/config, or use a plain clone."
            )
        is_program = _PROGRAM_KEY.fullmatch(key.rpartition(".")[2]) is not None and section not in _INTERACTIVE_SECTIONS
        if is_program and name.lower() not in known_names:
            raise WorkspaceError(
                f"The configuration of this repository names a program ({name!a:.80}), which git could start outside "
                "the sandbox. Remove that line from .git/config, or use a plain clone."
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
    """Result of one git command."""

    exit_code: int
    stdout: bytes
    stderr: str


class Git:
    """Runs git in one repository, from any thread, and counts calls and time.

    Args:
        folder: Top of a worktree. Git does not search above it.
        lock_fd: Descriptor that each git process inherits. The lock lasts until the last process has ended.

    Raises:
        WorkspaceError: The repository's configuration names a program or file that cannot be disabled.
        SetupError: Git is missing or too old.
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
        """Returns the output of a git command.

        Args:
            arguments: The command and its arguments.
            stdin: Its input.
            worktree: Worktree to run in; by default the repository's own.
            index: Private index instead of the worktree's.
            env: Further environment variables: author and date.

        Raises:
            WorkspaceError: The command failed.
        """
        result = self.run(*arguments, stdin=stdin, worktree=worktree, index=index, env=env)
        if result.exit_code:
            raise WorkspaceError(
                f"git {arguments[0]} failed in {self.folder.name}: {result.stderr or 'no error message'}"
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
        """Returns the result of a git command that may fail."""
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
                start_new_session=True,  # Ctrl-C must not stop git in the middle of an iteration
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WorkspaceError(
                f"git {arguments[0]} took longer than {_TIMEOUT_SECONDS:g} s in {self.folder}."
            ) from None
        except OSError as error:
            raise WorkspaceError(f"git cannot run in {worktree or self.folder}: {error.strerror}.") from error
        self.add_usage(time.perf_counter() - start_time)
        return GitResult(
            completed.returncode, completed.stdout, completed.stderr.decode(errors="replace").strip()[-500:]
        )

    def read_line(self, *arguments: str, worktree: Path | None = None, index: Path | None = None) -> str:
        """Returns the one line that a command prints."""
        return self(*arguments, worktree=worktree, index=index).decode(errors="surrogateescape").rstrip("\n")

    def read_records(self, *arguments: str, worktree: Path | None = None) -> list[str]:
        """Returns the records that a command prints with `-z`."""
        output = self(*arguments, worktree=worktree).decode(errors="surrogateescape")
        return [record for record in output.split("\0") if record]

    def start_process(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a git process that answers many requests, which is faster than one process per request."""
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
        with self._lock:
            self.seconds += seconds
            self.num_calls += num_calls

    def _make_environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Returns the complete environment. Of our own, only the search path reaches git."""
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
            "GIT_NO_REPLACE_OBJECTS": "1",  # a hash always means its own content
            "GIT_OPTIONAL_LOCKS": "0",  # reading the main worktree does not write its index
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_COUNT": str(len(self._settings)),
            **config_variables,
            **make_author_env(_DEFAULT_NAME),
            **extra,
        }


def make_author_env(name: str, date: str = "") -> Mapping[str, str]:
    """Returns the environment for a commit. The same date and content give the same commit."""
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
        raise errors.SetupError("git not found, and workspaces need it. Install git.")
    version_text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version = (
        tuple(int(part) for part in version_text.split()[2].split(".")[:2] if part.isdigit()) if version_text else ()
    )
    if version < MIN_VERSION:
        raise errors.SetupError(f"{version_text.strip() or path} is too old for workspaces. Install git 2.38 or newer.")
    _PROGRAM_CACHE.append(os.path.realpath(path))
    return _PROGRAM_CACHE[0]
