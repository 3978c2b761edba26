"""Git's objects, read and written by a few processes of git that stay: a file, a folder or a commit in half a ms."""

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from atoll import errors
from atoll.mind.workspace import git
from atoll.mind.workspace.names import Refused

FILE, PROGRAM, LINK, MODULE, FOLDER = "100644", "100755", "120000", "160000", "40000"
_KINDS = {FOLDER: "tree", MODULE: "commit"}
_MOST_FOLDERS = 20_000  # that are remembered


class Node(NamedTuple):
    """What stands at a path of a commit."""

    mode: str
    sha: str


type Folder = Mapping[str, Node]


class Objects:
    """Walks and writes trees; used from any thread, one at a time.

    Args:
        calls: Calls git.
        desk: A file that may be written for git to read: nobody else's.
    """

    def __init__(self, calls: git.Git, desk: Path) -> None:
        self._git, self._desk = calls, desk
        self._lock = RLock()
        self._talks: dict[str, subprocess.Popen[bytes]] = {}
        self._folders: dict[str, Folder] = {}

    def body(self, sha: str) -> bytes:
        """Returns the content of an object."""
        with self._lock:
            return self._read(sha)[1]

    def size(self, sha: str) -> int:
        """Returns how many bytes an object has, without reading it."""
        with self._lock:
            return int(self._asked("sizes", f"{sha}\n".encode()).split()[-1])

    def tip(self, ref: str) -> str | None:
        """Returns the commit that a reference leads to now, if it is there."""
        with self._lock:
            found = self._asked("sizes", f"{ref}^{{commit}}\n".encode()).split()
            return found[0].decode() if len(found) == 3 and found[1] == b"commit" else None

    def at(self, commit: str, path: str) -> Node | None:
        """Returns the file at a path, None where there is none and one may be made.

        Raises:
            Refused: A folder, a link, a submodule or something that is no folder stands there, or above it.
        """
        with self._lock:
            node: Node | None = Node(FOLDER, self._tree_of(commit))
            parts = path.split("/")
            for depth, part in enumerate(parts, 1):
                assert node is not None
                node = self._folder(node.sha).get(part)
                if node is None:
                    return None
                _require(node, "/".join(parts[:depth]), path)
            return node

    def commit(self, parents: Sequence[str], files: Mapping[str, bytes], message: str, author: str, date: str) -> str:
        """Returns a commit whose files differ from its first parent's in these; writes objects and nothing else.

        Args:
            parents: The commits that it follows.
            files: New contents by path; the mode stays as it was.
            message: What it is for.
            author: Who wrote it.
            date: When: `@SECONDS +0000`. The same commit made twice is one.
        """
        with self._lock:
            nodes = {path: self._made(parents[0], path, body) for path, body in files.items()}
            tree = self._changed(self._tree_of(parents[0]), _nested(nodes))
            who = f"{git.signed(author)['GIT_AUTHOR_NAME']} <{git.MAIL}> {date.lstrip('@')}"
            above = "".join(f"parent {parent}\n" for parent in parents)
            text = f"tree {tree}\n{above}author {who}\ncommitter {who}\n\n{message.rstrip()}\n"
            return self._written("commits", text.encode("utf-8", "replace"))

    def move(self, updates: Iterable[tuple[str, str | None]]) -> None:
        """Has references lead to commits, or removes them (None): all of them or none."""
        lines = [f"update {ref}\0{new}\0\0" if new else f"delete {ref}\0\0" for ref, new in updates]
        with self._lock:
            self._asked("refs", "".join(("start\0", *lines, "commit\0")).encode())
            self._asked("refs", b"")

    def close(self) -> None:
        """Ends the processes; a second call does nothing."""
        with self._lock:
            while self._talks:
                _, talk = self._talks.popitem()
                talk.communicate()

    def _tree_of(self, commit: str) -> str:
        kind, body = self._read(commit)
        if kind != "commit":
            raise Refused(f"{commit!r:.80} is no commit.")
        return body[5 : body.index(b"\n")].decode()

    def _folder(self, sha: str) -> Folder:
        if (known := self._folders.get(sha)) is None:
            if len(self._folders) > _MOST_FOLDERS:
                self._folders.clear()
            known = self._folders[sha] = dict(_nodes(self._read(sha)[1], len(sha) // 2))
        return known

    def _made(self, commit: str, path: str, body: bytes) -> Node:
        old = self.at(commit, path)
        return Node(old.mode if old else FILE, self._written("files", body))

    def _changed(self, sha: str | None, changes: Mapping[str, "Node | Nested"]) -> str:
        """Returns a folder that differs from another in these names."""
        nodes = dict(self._folder(sha)) if sha else {}
        for name, change in changes.items():
            if isinstance(change, Node):
                nodes[name] = change
            else:
                below = nodes.get(name)
                nodes[name] = Node(FOLDER, self._changed(below.sha if below else None, change))
        lines = (f"{mode} {_KINDS.get(mode, 'blob')} {sha}\t{name}\0" for name, (mode, sha) in nodes.items())
        given = "".join(lines).encode(errors="surrogateescape") + b"\0"
        return self._asked("folders", given).decode().strip()

    def _written(self, talk: str, body: bytes) -> str:
        self._desk.write_bytes(body)
        try:
            return self._asked(talk, f"{self._desk}\n".encode()).decode().strip()
        finally:
            self._desk.unlink()  # to write over a file makes some file systems flush it: 3 ms

    def _read(self, sha: str) -> tuple[str, bytes]:
        since = time.perf_counter()
        head = self._asked("objects", f"{sha}\n".encode()).split()
        if len(head) != 3:
            raise Refused(f"There is no object {sha!r:.80} in the repository.")
        body = self._exactly("objects", int(head[2]) + 1)[:-1]
        self._git.count(time.perf_counter() - since, 0)
        return head[1].decode(), body

    def _asked(self, talk: str, given: bytes) -> bytes:
        """Sends a question and returns the line that answers it."""
        since = time.perf_counter()
        process = self._talk(talk)
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(given)
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self._talks.pop(talk).kill()
            raise errors.SetupError(
                f"git {_TALKS[talk][0]} gave up in {self._git.folder}: see whether its disk is full, or somebody else "
                "holds a lock there."
            )
        self._git.count(time.perf_counter() - since)
        return line

    def _exactly(self, talk: str, size: int) -> bytes:
        stream = self._talk(talk).stdout
        assert stream
        return stream.read(size)

    def _talk(self, name: str) -> subprocess.Popen[bytes]:
        if name not in self._talks:
            self._talks[name] = self._git.start(*_TALKS[name])
        return self._talks[name]


_TALKS = {
    "objects": ("cat-file", "--batch"),
    "sizes": ("cat-file", "--batch-check"),
    "files": ("hash-object", "-w", "--no-filters", "--stdin-paths"),
    "commits": ("hash-object", "-w", "--no-filters", "-t", "commit", "--stdin-paths"),
    "refs": ("update-ref", "--no-deref", "-z", "--stdin"),
    "folders": ("mktree", "-z", "--batch"),
}

type Nested = dict[str, Node | Nested]


def _nested(nodes: Mapping[str, Node]) -> Nested:
    """Returns paths as folders in folders."""
    top: Nested = {}
    for path, node in nodes.items():
        *above, name = path.split("/")
        folder = top
        for part in above:
            below = folder.setdefault(part, {})
            if isinstance(below, Node):
                raise Refused(f"{path!r} lies below a file.")
            folder = below
        if name in folder:
            raise Refused(f"{path!r} is a folder.")
        folder[name] = node
    return top


def _nodes(body: bytes, size: int) -> Iterator[tuple[str, Node]]:
    """Reads a tree as git stores it: mode, name and hash, again and again."""
    at = 0
    while at < len(body):
        space, end = body.index(b" ", at), body.index(b"\0", at)
        name = body[space + 1 : end].decode(errors="surrogateescape")
        yield name, Node(body[at:space].decode(), body[end + 1 : end + 1 + size].hex())
        at = end + 1 + size


def _require(node: Node, place: str, path: str) -> None:
    """Checks that a path goes on through folders and ends at a file."""
    if node.mode == LINK:
        raise Refused(f"{path!r} leads through the link {place!r}: name the file itself.")
    if node.mode == MODULE:
        raise Refused(f"{path!r} lies in the submodule {place!r}, which is another repository: leave it alone.")
    if (place == path) == (node.mode == FOLDER):
        raise Refused(f"{place!r} is {'a folder' if place == path else 'a file'}.")
