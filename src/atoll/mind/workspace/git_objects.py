"""Reads and writes git objects through a few long-lived git processes, in about 0.5 ms each."""

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from atoll import errors
from atoll.mind.workspace import git
from atoll.mind.workspace.git import WorkspaceError

FILE_MODE, PROGRAM_MODE, LINK_MODE, SUBMODULE_MODE, FOLDER_MODE = "100644", "100755", "120000", "160000", "40000"
_OBJECT_KINDS = {FOLDER_MODE: "tree", SUBMODULE_MODE: "commit"}
_MAX_CACHED_FOLDERS = 20_000


class Node(NamedTuple):
    """Entry at a path of a commit."""

    mode: str
    sha: str


type Folder = Mapping[str, Node]


class GitObjects:
    """Reads and writes trees. Thread-safe.

    Args:
        client: Runs git.
        temp_path: Private temporary file that git reads.
    """

    def __init__(self, client: git.Git, temp_path: Path) -> None:
        self._git, self._temp_path = client, temp_path
        self._lock = RLock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folders: dict[str, Folder] = {}

    def read_content(self, sha: str) -> bytes:
        with self._lock:
            return self._read_object(sha)[1]

    def read_size(self, sha: str) -> int:
        """Returns the size of an object without reading it."""
        with self._lock:
            return int(self._request("sizes", f"{sha}\n".encode()).split()[-1])

    def get_tip(self, ref: str) -> str | None:
        """Returns the commit of a ref, or None."""
        with self._lock:
            fields = self._request("sizes", f"{ref}^{{commit}}\n".encode()).split()
            return fields[0].decode() if len(fields) == 3 and fields[1] == b"commit" else None

    def find_node(self, commit: str, path: str) -> Node | None:
        """Returns the file at a path, or None if a file can be created there.

        Raises:
            WorkspaceError: The path, or a folder above it, is a link, a submodule, or a folder in place of a file.
        """
        with self._lock:
            node: Node | None = Node(FOLDER_MODE, self._get_tree(commit))
            parts = path.split("/")
            for depth, part in enumerate(parts, 1):
                assert node is not None
                node = self._read_folder(node.sha).get(part)
                if node is None:
                    return None
                _require_file(node, "/".join(parts[:depth]), path)
            return node

    def commit(self, parents: Sequence[str], files: Mapping[str, bytes], message: str, author: str, date: str) -> str:
        """Returns a commit that changes some files of its first parent. Writes only objects.

        Args:
            parents: Parent commits.
            files: New contents by path. File modes stay the same.
            message: Commit message.
            author: Author and committer.
            date: Date as `@SECONDS +0000`. Equal input gives the same commit.
        """
        with self._lock:
            nodes = {path: self._write_file(parents[0], path, content) for path, content in files.items()}
            tree = self._write_folder(self._get_tree(parents[0]), _nest_paths(nodes))
            identity = f"{git.make_author_env(author)['GIT_AUTHOR_NAME']} <{git.EMAIL}> {date.lstrip('@')}"
            parent_lines = "".join(f"parent {parent}\n" for parent in parents)
            text = f"tree {tree}\n{parent_lines}author {identity}\ncommitter {identity}\n\n{message.rstrip()}\n"
            return self._write_object("commits", text.encode("utf-8", "replace"))

    def update_refs(self, updates: Iterable[tuple[str, str | None]]) -> None:
        """Sets refs to commits, or removes them (None), in one transaction."""
        commands = [f"update {ref}\0{new}\0\0" if new else f"delete {ref}\0\0" for ref, new in updates]
        with self._lock:
            self._request("refs", "".join(("start\0", *commands, "commit\0")).encode())
            self._request("refs", b"")

    def close(self) -> None:
        """Ends the processes. Can be called twice."""
        with self._lock:
            while self._processes:
                _, process = self._processes.popitem()
                process.communicate()

    def _get_tree(self, commit: str) -> str:
        kind, content = self._read_object(commit)
        if kind != "commit":
            raise WorkspaceError(f"{commit!r:.80} is not a commit.")
        return content[5 : content.index(b"\n")].decode()

    def _read_folder(self, sha: str) -> Folder:
        if (folder := self._folders.get(sha)) is None:
            if len(self._folders) > _MAX_CACHED_FOLDERS:
                self._folders.clear()
            folder = self._folders[sha] = dict(_parse_tree(self._read_object(sha)[1], len(sha) // 2))
        return folder

    def _write_file(self, commit: str, path: str, content: bytes) -> Node:
        old = self.find_node(commit, path)
        return Node(old.mode if old else FILE_MODE, self._write_object("files", content))

    def _write_folder(self, sha: str | None, changes: Mapping[str, "Node | NestedNodes"]) -> str:
        """Returns a folder with some changed names."""
        nodes = dict(self._read_folder(sha)) if sha else {}
        for name, change in changes.items():
            if isinstance(change, Node):
                nodes[name] = change
            else:
                child = nodes.get(name)
                nodes[name] = Node(FOLDER_MODE, self._write_folder(child.sha if child else None, change))
        records = (f"{mode} {_OBJECT_KINDS.get(mode, 'blob')} {sha}\t{name}\0" for name, (mode, sha) in nodes.items())
        data = "".join(records).encode(errors="surrogateescape") + b"\0"
        return self._request("folders", data).decode().strip()

    def _write_object(self, command: str, content: bytes) -> str:
        self._temp_path.write_bytes(content)
        try:
            return self._request(command, f"{self._temp_path}\n".encode()).decode().strip()
        finally:
            self._temp_path.unlink()  # overwriting a file takes 3 ms on some file systems

    def _read_object(self, sha: str) -> tuple[str, bytes]:
        start_time = time.perf_counter()
        header = self._request("objects", f"{sha}\n".encode()).split()
        if len(header) != 3:
            raise WorkspaceError(f"Object {sha!r:.80} not found in the repository.")
        content = self._read_bytes("objects", int(header[2]) + 1)[:-1]
        self._git.add_usage(time.perf_counter() - start_time, 0)
        return header[1].decode(), content

    def _request(self, command: str, data: bytes) -> bytes:
        """Sends a request and returns the first line of the response."""
        start_time = time.perf_counter()
        process = self._get_process(command)
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(data)
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self._processes.pop(command).kill()
            raise errors.SetupError(
                f"git {_COMMANDS[command][0]} failed in {self._git.folder}. Check whether the disk is full or another "
                "process holds a lock."
            )
        self._git.add_usage(time.perf_counter() - start_time)
        return line

    def _read_bytes(self, command: str, size: int) -> bytes:
        stream = self._get_process(command).stdout
        assert stream
        return stream.read(size)

    def _get_process(self, name: str) -> subprocess.Popen[bytes]:
        if name not in self._processes:
            self._processes[name] = self._git.start_process(*_COMMANDS[name])
        return self._processes[name]


_COMMANDS = {
    "objects": ("cat-file", "--batch"),
    "sizes": ("cat-file", "--batch-check"),
    "files": ("hash-object", "-w", "--no-filters", "--stdin-paths"),
    "commits": ("hash-object", "-w", "--no-filters", "-t", "commit", "--stdin-paths"),
    "refs": ("update-ref", "--no-deref", "-z", "--stdin"),
    "folders": ("mktree", "-z", "--batch"),
}

type NestedNodes = dict[str, Node | NestedNodes]


def _nest_paths(nodes: Mapping[str, Node]) -> NestedNodes:
    """Returns paths as nested folders."""
    root: NestedNodes = {}
    for path, node in nodes.items():
        *folder_names, name = path.split("/")
        folder = root
        for part in folder_names:
            child = folder.setdefault(part, {})
            if isinstance(child, Node):
                raise WorkspaceError(f"{path!r} is below a file.")
            folder = child
        if name in folder:
            raise WorkspaceError(f"{path!r} is a folder.")
        folder[name] = node
    return root


def _parse_tree(data: bytes, hash_size: int) -> Iterator[tuple[str, Node]]:
    """Parses git's tree format: mode, name and hash of each entry."""
    offset = 0
    while offset < len(data):
        space, end = data.index(b" ", offset), data.index(b"\0", offset)
        name = data[space + 1 : end].decode(errors="surrogateescape")
        yield name, Node(data[offset:space].decode(), data[end + 1 : end + 1 + hash_size].hex())
        offset = end + 1 + hash_size


def _require_file(node: Node, prefix: str, path: str) -> None:
    """Checks that a path leads through folders to a file."""
    if node.mode == LINK_MODE:
        raise WorkspaceError(f"{path!r} leads through the link {prefix!r}. Name the file itself.")
    if node.mode == SUBMODULE_MODE:
        raise WorkspaceError(f"{path!r} is in the submodule {prefix!r}, which is another repository.")
    if (prefix == path) == (node.mode == FOLDER_MODE):
        raise WorkspaceError(f"{prefix!r} is {'a folder' if prefix == path else 'a file'}.")
