"""Parameters in a folder of plain files, shared by processes of one machine."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock

from atoll import errors, store
from atoll.governed.parameters import folder, layout
from atoll.governed.parameters.parameters import Check, Parameters
from atoll.store import audit, book, entry, ledger, refusals

POLL_SECONDS = 0.01  # between looks at the log for changes of other processes


class FilesBook:
    """A log of lines, an index of it in memory, and the folders that it is projected into.

    A change is one write of one line, so it is there whole or not at all; what a dead process left of a line is cut
    off by the next writer, who also makes up for folders that were not written any more. Writers take turns by a lock
    on a file; readers look at the log's size, and read what is new of it.
    """

    def __init__(self, root: Path, *, is_durable: bool = False) -> None:
        self._root, self._is_durable = root, is_durable
        root.mkdir(parents=True, exist_ok=True)
        self._log = root / layout.AUDIT
        self._index = store.MemoryBook()
        self._offset = 0  # of the log, up to where the index holds it
        self._unsure: Sequence[entry.Entry] = ()  # the last line read: its folders may be missing
        self._turn, self._look = RLock(), RLock()  # of writers; of whoever changes the index
        if not self._log.exists() and any(layout.folders(root)):
            folder.require_original(root)
            folder.adopt(root, ledger.Ledger(self))
        folder.end_last_line(root)

    @contextmanager
    def writing(self) -> Iterator[book.Pen]:
        with self._turn, folder.alone(self._root):
            with self._look:
                self._mend()
                with self._index.writing() as pen:
                    before = pen.tail().seq
                    yield pen
                    made = self._index.entries("", before, None, sys.maxsize)
                    if made:
                        self._check_names(made)
                        self._append(made)
                        self._unsure = made
            self._project(made)
            self._unsure = ()

    def _mend(self) -> None:
        """Makes up for what the last writer did not come to: half a line, folders of a whole one."""
        self._refresh()
        if self._has_tail():
            folder.mend_tail(self._log, self._offset)
            self._refresh()
        self._project(self._unsure)
        self._unsure = ()

    def _has_tail(self) -> bool:
        """Says whether the log ends elsewhere than where the index holds it."""
        return (self._log.stat().st_size if self._log.exists() else 0) != self._offset

    def _check_names(self, made: Sequence[entry.Entry]) -> None:
        """Refuses links, and two keys that a file system without cases would take for one."""
        for each in made:
            layout.check_place(self._root / layout.folder_name(each.key))
        if not (self._root / layout.LOCK.upper()).exists():
            return
        names = {layout.folder_name(key).lower(): key for key in reversed(self._index.keys(""))}
        for each in made:
            if each.n == 1 and names[layout.folder_name(each.key).lower()] != each.key:
                raise refusals.InvalidKey(f"The file system under {self._root} has a key like {each.key} already.")

    def _append(self, made: Sequence[entry.Entry]) -> None:
        lines = [audit.line(each) for each in made]
        text = (lines[0] if len(lines) == 1 else f"[{','.join(lines)}]") + "\n"
        body = text.encode()
        handle = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if os.write(handle, body) < len(body):
                raise OSError("the disk or the quota is full")
            if self._is_durable:
                os.fsync(handle)
        except OSError as error:
            os.truncate(self._log, self._offset)
            raise errors.StoreFailed(f"{self._log} could not be written: {error}.") from error
        finally:
            os.close(handle)
        self._offset += len(body)

    def _project(self, made: Sequence[entry.Entry]) -> None:
        kept = ledger.Ledger(self._index)
        for each in made:
            layout.project(self._root, each, kept.aliases(each.key) if each.kind == entry.ALIAS else {})

    def _refresh(self) -> store.MemoryBook:
        """Reads the whole lines that are new in the log."""
        with self._look:
            try:
                if os.stat(self._log).st_size <= self._offset:
                    return self._index
            except FileNotFoundError:
                return self._index
            with self._log.open("rb") as log:
                log.seek(self._offset)
                fresh = log.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            with self._index.writing() as pen:
                for line in whole.splitlines():
                    self._unsure = self._read(line)
                    for each in self._unsure:
                        pen.put(each)
            self._offset += len(whole)
            return self._index

    def _read(self, line: bytes) -> Sequence[entry.Entry]:
        try:
            return folder.read_line(line)
        except ValueError as error:
            raise errors.StoreFailed(f"{self._log} is damaged ({error}): 'atoll audit verify' says where.") from error

    def head(self, key: str, upto: int | None = None) -> entry.Entry | None:
        return self._refresh().head(key, upto)

    def value(self, key: str) -> tuple[str, int] | None:
        return self._refresh().value(key)

    def version(self, key: str, n: int) -> entry.Entry | None:
        return self._refresh().version(key, n)

    def history(self, key: str, limit: int) -> Sequence[entry.Entry]:
        return self._refresh().history(key, limit)

    def beside(self, key: str, upto: int | None = None) -> Sequence[entry.Entry]:
        return self._refresh().beside(key, upto)

    def keys(self, prefix: str) -> Sequence[str]:
        return self._refresh().keys(prefix)

    def heads(self, prefix: str, upto: int) -> Sequence[entry.Entry]:
        return self._refresh().heads(prefix, upto)

    def entries(self, prefix: str, after: int, upto: int | None, limit: int) -> Sequence[entry.Entry]:
        return self._refresh().entries(prefix, after, upto, limit)

    def newest(self, prefix: str, after: int, limit: int) -> Sequence[entry.Entry]:
        return self._refresh().newest(prefix, after, limit)

    def tail(self) -> book.Tail:
        return self._refresh().tail()

    def seq_at(self, at: str) -> int:
        return self._refresh().seq_at(at)

    def wait(self, after: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            if self._refresh().wait(after, min(left, POLL_SECONDS)):
                return True
            if left <= POLL_SECONDS:
                return self._refresh().wait(after, 0.0)

    def close(self) -> None:
        """There is nothing to free."""


class FilesParameters(Parameters):
    """Parameters in a folder, for people who like to read and copy files.

    Args:
        root: The folder, made where there is none. One of the original layout without a log gets one.
        check: As for `Parameters`.
        clock: Says when a change was made.
        is_durable: Whether a change also survives the death of the machine, which takes longer.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        check: Check | None = None,
        clock: Callable[[], datetime] = ledger.now,
        is_durable: bool = False,
    ) -> None:
        self.root = Path(root)
        super().__init__(FilesBook(self.root, is_durable=is_durable), check=check, clock=clock)

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.Report:
        return folder.verify(self.root, anchors)
