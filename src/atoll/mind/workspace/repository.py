"""Git repository for worldlines. Commits are made without a worktree."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll.mind.workspace import git
from atoll.mind.workspace.git import WorkspaceError

_STORE_FILE = "atoll.db"  # the store of a run that was started in the repository
LINK_MODE, SUBMODULE_MODE = "120000", "160000"
_COMMITTER_LINE = re.compile(rb"^committer [^\n]*> (\d{1,18}) [+-]\d{4}$", re.MULTILINE)
_DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=none")

# Changes inside submodules are ignored. Git would start another git there, with the submodule's own settings.
_STATUS_COMMAND = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


class TreeEntry(NamedTuple):
    """Entry of a commit. The size of anything but a file is 0."""

    mode: str
    sha: str
    size: int
    path: str


class FileChange(NamedTuple):
    """Added and deleted lines of a file; None for a binary file."""

    path: str
    added: int | None
    deleted: int | None


class Head(NamedTuple):
    """Commit and branch of the main worktree; no branch if detached."""

    commit: str
    branch: str | None


class Repository:
    """Reads and writes objects and refs. Does not change worktrees.

    Args:
        folder: Top of the main worktree.
        lock_fd: Descriptor that each git process inherits.

    Raises:
        WorkspaceError: The folder is not a plain repository with a worktree and a commit.
        SetupError: Git is missing or too old.
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
            raise WorkspaceError(f"{folder} is a bare repository. Use a clone with files.")
        if result.exit_code:
            raise WorkspaceError(f"{folder} is not a usable git repository: {result.stderr.splitlines()[0]}")
        self.common_dir = Path(os.path.realpath(self.folder / common_path))
        self.git_dir = Path(
            os.path.realpath(self.folder / git_path)
        )  # differs where the folder is a linked worktree itself
        self._require_plain_clone()

    def _require_plain_clone(self) -> None:
        names = {name.lower() for name in self.git.read_records("config", "--list", "--name-only", "-z")}
        if "core.worktree" in names:
            raise WorkspaceError(f"{self.folder} has its files elsewhere (core.worktree). Use a plain clone.")
        if self.get_tip("HEAD") is None:
            raise WorkspaceError(f"{self.folder} has no commit yet, and worldlines fork from one. Make a first commit.")

    def get_head(self) -> Head:
        """Returns the commit and the branch of the main worktree."""
        result = self.git.run("symbolic-ref", "-q", "HEAD")
        return Head(self.resolve_commit("HEAD"), result.stdout.decode().strip() or None)

    def list_uncommitted(self) -> list[str]:
        """Returns the paths of the main worktree that differ from its commit, without ignored ones and stores."""
        records = self.git.read_records(*_STATUS_COMMAND, "--untracked-files=normal")
        return [record[3:] for record in records if not record[3:].startswith(_STORE_FILE)]

    def list_changed(self) -> list[str]:
        """Returns the tracked paths of the main worktree that differ from its commit."""
        records = self.git.read_records(*_STATUS_COMMAND, "--untracked-files=no")
        return [record[3:] for record in records]

    def commit_snapshot(self, index: Path, author: str) -> str:
        """Returns a commit of the main worktree with its uncommitted changes, without changing it.

        Args:
            index: Path for a private index; the worktree's own index is not used.
            author: Author of the commit.
        """
        head = self.resolve_commit("HEAD")
        self.git("read-tree", head, index=index)
        self.git("add", "--all", "--ignore-errors", index=index)
        tree = self.git.read_line("write-tree", index=index)
        return self.commit_tree(tree, (head,), "Take the uncommitted state along", author, self.get_commit_date(head))

    def get_tip(self, ref: str) -> str | None:
        """Returns the commit of a ref, or None."""
        result = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return result.stdout.decode().strip() or None

    def resolve_commit(self, ref: str) -> str:
        commit = self.get_tip(ref)
        if commit is None:
            raise WorkspaceError(f"Commit {ref!r:.80} not found in {self.folder}.")
        return commit

    def get_commit_date(self, commit: str) -> str:
        """Returns the date of a commit in git's format. Worldlines use the date of their base."""
        header, _, _ = self.git("cat-file", "commit", commit).partition(b"\n\n")
        match = _COMMITTER_LINE.search(header)
        if match is None:
            raise WorkspaceError(f"The commit {commit[:12]} of {self.folder} has no valid date. Repair it.")
        return f"@{match[1].decode()} +0000"

    def list_authors(self, commit: str, base: str) -> frozenset[str]:
        """Returns authors and committers of the commits that are in one commit and not in another.

        Uses `rev-list`, which ignores signatures. `log` may start a program to check them.
        """
        options = ("--no-commit-header", "--format=%an%n%cn")
        output = self.git("rev-list", *options, commit, f"^{base}", "--").decode(errors="replace")
        return frozenset(output.removesuffix("\n").split("\n")) - {""}

    def list_files(self, commit: str) -> list[TreeEntry]:
        """Returns all entries of a commit, including links and submodules."""
        return [_parse_entry(record) for record in self.git.read_records("ls-tree", "-r", "-z", "--long", commit)]

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, author: str, date: str = "") -> str:
        """Returns a commit of a tree, by default with the current date."""
        parent_options = [option for parent in parents for option in ("-p", parent)]
        output = self.git(
            "commit-tree", tree, *parent_options, stdin=message.encode(), env=git.make_author_env(author, date)
        )
        return output.decode().strip()

    def numstat(self, base: str, commit: str) -> list[FileChange]:
        """Returns the changed lines per file between two commits."""
        return [
            _parse_change(record)
            for record in self.git.read_records("diff-tree", "-r", "-z", "--numstat", *_DIFF_OPTIONS, base, commit)
        ]

    def list_changed_paths(self, base: str, commit: str) -> list[str]:
        """Returns the files that differ between two commits."""
        return self.git.read_records("diff-tree", "-r", "-z", "--name-only", *_DIFF_OPTIONS, base, commit)

    def diff(self, base: str, commit: str) -> str:
        """Returns a patch between two commits."""
        return self.git("diff-tree", "-r", "-p", *_DIFF_OPTIONS, base, commit).decode(errors="replace")

    def merge_trees(self, ours: str, theirs: str) -> str:
        """Merges two commits in memory and returns the tree.

        Raises:
            WorkspaceError: The merge has conflicts. The message names the files.
        """
        options = ("--write-tree", "--name-only", "--no-messages", "-z")
        result = self.git.run("merge-tree", *options, ours, theirs)
        tree, *conflicts = [field for field in result.stdout.decode(errors="replace").split("\0") if field] or [""]
        if result.exit_code == 1:
            raise WorkspaceError(
                f"The merge has conflicts: both changed {', '.join(conflicts[:5])}. Fork again from the head."
            )
        if result.exit_code or not tree:
            raise WorkspaceError(f"The merge failed: {result.stderr or 'no error message'}")
        return tree

    def list_refs(self, prefix: str) -> Mapping[str, str]:
        """Returns the refs below a prefix with their commits."""
        output = self.git("for-each-ref", "--format=%(objectname) %(refname)", prefix).decode()
        return {ref: sha for sha, _, ref in (line.partition(" ") for line in output.splitlines())}

    def update_refs(self, updates: Iterable[tuple[str, str | None]]) -> None:
        """Sets refs to commits, or removes them (None), in one transaction."""
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
    """Checks that a folder has its own `.git`. Repositories further up and links do not count."""
    try:
        mode = os.lstat(folder / ".git").st_mode
    except OSError:
        is_bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        reason = "is a bare repository. Use a clone with files" if is_bare else "is not a git repository"
        raise WorkspaceError(f"{folder} {reason}.") from None
    if stat.S_ISLNK(mode):
        raise WorkspaceError(f"{folder / '.git'} is a link. Use the folder that it points to.")


_IGNORED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")
_COMMIT_DATE = "@946684800 +0000"  # fixed, so that a resumed run gets the same commit
_MAX_BYTES = 64 * 2**20


def copy_to_repository(folder: Path) -> Path:
    """Copies a folder into a new repository and returns its top. The caller removes the parent folder.

    Raises:
        WorkspaceError: The folder is missing, empty or too large.
    """
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    if not files:
        raise WorkspaceError(f"{folder} has no files to repair. Set task.repository to a repository or a folder.")
    if sum(path.lstat().st_size for path in files) > _MAX_BYTES:
        raise WorkspaceError(f"{folder} is too large to copy for every run. Make it a git repository.")
    target = Path(tempfile.mkdtemp(prefix=f"atoll-{os.getpid()}-")) / folder.name
    shutil.copytree(folder, target, symlinks=True, ignore=_IGNORED)
    client = git.Git(target)
    client("init", "-q", "-b", "main")
    client("add", "--all", "--force")
    client("commit", "-q", "--no-verify", "-m", "Begin", env=git.make_author_env("Atoll", _COMMIT_DATE))
    return target
