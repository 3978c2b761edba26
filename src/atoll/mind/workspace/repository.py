"""A git repository as worldlines need it: commits made beside every worktree, by plumbing alone."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll.mind.workspace import git
from atoll.mind.workspace.path_checks import WorkspaceError

LINK_MODE, SUBMODULE_MODE = "120000", "160000"
_COMMITTER_LINE = re.compile(rb"^committer [^\n]*> (\d{1,18}) [+-]\d{4}$", re.MULTILINE)
_DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=none")

# Not what is dirty inside a submodule: git would ask another git there, under the settings of the submodule alone.
_STATUS_COMMAND = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


class TreeEntry(NamedTuple):
    """A file as a commit has it; the size of what is no file is 0."""

    mode: str
    sha: str
    size: int
    path: str


class FileChange(NamedTuple):
    """Lines that a file gained and lost; None: it is binary."""

    path: str
    added: int | None
    deleted: int | None


class Head(NamedTuple):
    """Where the main worktree stands; no branch: it is detached."""

    commit: str
    branch: str | None


class Repository:
    """Reads and writes objects and references; touches no worktree.

    Args:
        folder: The top of the main worktree.
        hold: A descriptor that every call of git inherits.

    Raises:
        Refused: It is no repository with a worktree and a commit that is the user's own.
        SetupError: There is no git that is new enough.
    """

    def __init__(self, folder: Path, lock_fd: int | None = None) -> None:
        self.folder = folder.resolve()
        _require_repository(self.folder)
        self.git = git.Git(self.folder, lock_fd)
        result = self.git.run("rev-parse", "--is-bare-repository", "--git-common-dir", "--git-dir", "--show-prefix")
        is_bare, _, remaining = result.stdout.decode(errors="surrogateescape").partition("\n")
        common_path, _, remaining = remaining.partition("\n")
        git_path, _, _ = remaining.partition("\n")
        if is_bare == "true" or (result.exit_code and "work tree" in result.stderr):
            raise WorkspaceError(f"{folder} is a bare repository: give the folder of a clone that has files.")
        if result.exit_code:
            raise WorkspaceError(f"{folder} is no git repository that can be used: {result.stderr.splitlines()[0]}")
        self.common_dir = Path(os.path.realpath(self.folder / common_path))
        self.git_dir = Path(
            os.path.realpath(self.folder / git_path)
        )  # differs where the folder is a linked worktree itself
        self._require_plain_clone()

    def _require_plain_clone(self) -> None:
        names = {name.lower() for name in self.git.read_records("config", "--list", "--name-only", "-z")}
        if "core.worktree" in names:
            raise WorkspaceError(
                f"{self.folder} keeps its files elsewhere (core.worktree): give the folder of a plain clone."
            )
        if self.get_tip("HEAD") is None:
            raise WorkspaceError(
                f"{self.folder} has no commit yet, and a worldline forks from one: make a first commit."
            )

    def get_head(self) -> Head:
        """Returns the commit and the branch of the main worktree."""
        result = self.git.run("symbolic-ref", "-q", "HEAD")
        return Head(self.resolve_commit("HEAD"), result.stdout.decode().strip() or None)

    def list_uncommitted(self) -> list[str]:
        """Returns the paths of the main worktree that differ from its commit, without those that git ignores."""
        records = self.git.read_records(*_STATUS_COMMAND, "--untracked-files=normal")
        return [record[3:] for record in records]

    def list_changed(self) -> list[str]:
        """Returns the tracked paths of the main worktree that differ from its commit."""
        records = self.git.read_records(*_STATUS_COMMAND, "--untracked-files=no")
        return [record[3:] for record in records]

    def commit_snapshot(self, index: Path, author: str) -> str:
        """Returns a commit of the main worktree as it is, uncommitted changes and all; changes nothing in it.

        Args:
            index: Where a private index may be written; the worktree's own is not touched.
            author: Who makes it.
        """
        head = self.resolve_commit("HEAD")
        self.git("read-tree", head, index=index)
        self.git("add", "--all", "--ignore-errors", index=index)
        tree = self.git.read_line("write-tree", index=index)
        return self.commit_tree(tree, (head,), "Take the uncommitted state along", author, self.get_commit_date(head))

    def get_tip(self, ref: str) -> str | None:
        """Returns the commit that a reference leads to, if it is there."""
        result = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return result.stdout.decode().strip() or None

    def resolve_commit(self, ref: str) -> str:
        commit = self.get_tip(ref)
        if commit is None:
            raise WorkspaceError(f"There is no commit {ref!r:.80} in {self.folder}.")
        return commit

    def get_commit_date(self, commit: str) -> str:
        """Returns when a commit was made, as git takes it: worldlines bear the date of their base, and no clock's."""
        header, _, _ = self.git("cat-file", "commit", commit).partition(b"\n\n")
        match = _COMMITTER_LINE.search(header)
        if match is None:
            raise WorkspaceError(f"The commit {commit[:12]} of {self.folder} does not say when it was made: repair it.")
        return f"@{match[1].decode()} +0000"

    def list_authors(self, commit: str, base: str) -> frozenset[str]:
        """Returns who wrote and who committed what a commit adds to another.

        By `rev-list`, which knows nothing of signatures: `log` starts what a repository names to check them.
        """
        options = ("--no-commit-header", "--format=%an%n%cn")
        output = self.git("rev-list", *options, commit, f"^{base}", "--").decode(errors="replace")
        return frozenset(output.removesuffix("\n").split("\n")) - {""}

    def list_files(self, commit: str) -> list[TreeEntry]:
        """Returns all files of a commit, links and submodules too."""
        return [_parse_entry(record) for record in self.git.read_records("ls-tree", "-r", "-z", "--long", commit)]

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, author: str, date: str = "") -> str:
        """Returns a commit of a tree; without a date it is of this moment."""
        parent_options = [option for parent in parents for option in ("-p", parent)]
        output = self.git(
            "commit-tree", tree, *parent_options, stdin=message.encode(), env=git.make_author_env(author, date)
        )
        return output.decode().strip()

    def numstat(self, base: str, commit: str) -> list[FileChange]:
        """Returns how many lines of which files differ between two commits."""
        return [
            _parse_change(record)
            for record in self.git.read_records("diff-tree", "-r", "-z", "--numstat", *_DIFF_OPTIONS, base, commit)
        ]

    def list_changed_paths(self, base: str, commit: str) -> list[str]:
        """Returns which files differ between two commits."""
        return self.git.read_records("diff-tree", "-r", "-z", "--name-only", *_DIFF_OPTIONS, base, commit)

    def diff(self, base: str, commit: str) -> str:
        """Returns how two commits differ, as a patch."""
        return self.git("diff-tree", "-r", "-p", *_DIFF_OPTIONS, base, commit).decode(errors="replace")

    def merge_trees(self, ours: str, theirs: str) -> str:
        """Returns the tree of a merge that is made in memory.

        Raises:
            Refused: They contradict each other; the message names the files.
        """
        options = ("--write-tree", "--name-only", "--no-messages", "-z")
        result = self.git.run("merge-tree", *options, ours, theirs)
        tree, *conflicts = [field for field in result.stdout.decode(errors="replace").split("\0") if field] or [""]
        if result.exit_code == 1:
            raise WorkspaceError(
                f"It cannot be merged, both changed {', '.join(conflicts[:5])}: fork it again from the head."
            )
        if result.exit_code or not tree:
            raise WorkspaceError(f"It cannot be merged: {result.stderr or 'git did not say why'}")
        return tree

    def list_refs(self, prefix: str) -> Mapping[str, str]:
        """Returns the references below a prefix with the commits that they lead to."""
        output = self.git("for-each-ref", "--format=%(objectname) %(refname)", prefix).decode()
        return {ref: sha for sha, _, ref in (line.partition(" ") for line in output.splitlines())}

    def update_refs(self, updates: Iterable[tuple[str, str | None]]) -> None:
        """Has references lead to commits, or removes them (None): all of them or none."""
        commands = (f"update {ref}\0{new}\0\0" if new else f"delete {ref}\0\0" for ref, new in updates)
        if data := "".join(commands).encode():
            self.git("update-ref", "--no-deref", "-z", "--stdin", stdin=data)


def _parse_entry(record: str) -> TreeEntry:
    fields, _, path = record.partition("\t")
    mode, _, sha, size = fields.split()
    return TreeEntry(mode, sha, int(size) if size.isdigit() else 0, path)


def _parse_change(record: str) -> FileChange:
    added, deleted, path = record.split("\t", 2)
    return FileChange(path, None if added == "-" else int(added), None if deleted == "-" else int(deleted))


def _require_repository(folder: Path) -> None:
    """Checks that a folder holds a repository of its own: one further up is not meant, and a link leads elsewhere."""
    try:
        mode = os.lstat(folder / ".git").st_mode
    except OSError:
        is_bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        reason = (
            "is a bare repository: give the folder of a clone that has files" if is_bare else "is no git repository"
        )
        raise WorkspaceError(f"{folder} {reason}.") from None
    if stat.S_ISLNK(mode):
        raise WorkspaceError(f"{folder / '.git'} is a link to another place: give the folder that it belongs to.")


_IGNORED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")
_COMMIT_DATE = "@946684800 +0000"  # always the same, so that the same files are the same commit when a run goes on
_MAX_BYTES = 64 * 2**20


def copy_to_repository(folder: Path) -> Path:
    """Returns the top of a new repository with a copy of a folder's files; whoever asks removes its parent.

    Raises:
        Refused: There is no such folder, it is empty or too large.
    """
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    if not files:
        raise WorkspaceError(
            f"There is nothing to mend in {folder}: task.repository must name a repository or a folder."
        )
    if sum(path.lstat().st_size for path in files) > _MAX_BYTES:
        raise WorkspaceError(f"{folder} is too large to copy for every run: make it a git repository.")
    target = Path(tempfile.mkdtemp(prefix="atoll-")) / folder.name
    shutil.copytree(folder, target, symlinks=True, ignore=_IGNORED)
    client = git.Git(target)
    client("init", "-q", "-b", "main")
    client("add", "--all", "--force")
    client("commit", "-q", "--no-verify", "-m", "Begin", env=git.make_author_env("Atoll", _COMMIT_DATE))
    return target
