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
from atoll.governed.errors import InvalidKey
from atoll.governed.parameters import file_layout
from atoll.governed.parameters.parameters import Check, Parameters
from atoll.store.versions import audit, change, ledger

POLL_SECONDS = 0.01  # seconds between checks for changes of other processes


class FileChangeLog:
    """Change log in a file, with an index in memory and one folder of files per key.

    A change is one write of one line, so it is complete or missing. The next writer removes a partial line and restores
    missing files of a crashed process. A file lock lets one process write at a time. Readers compare the size of the
    log and read only new lines.
    """

    def __init__(self, root: Path, *, is_durable: bool = False) -> None:
        self._root, self._is_durable = root, is_durable
        root.mkdir(parents=True, exist_ok=True)
        self._log = root / file_layout.AUDIT_FILE
        self._index = store.MemoryChangeLog()
        self._offset = 0  # bytes of the log that are in the index
        self._last_entries: Sequence[change.ChangeEntry] = ()  # last line read; its files may be missing
        self._write_lock, self._index_lock = RLock(), RLock()  # one for writers, one for the index
        if not self._log.exists() and any(file_layout.iter_folders(root)):
            file_layout.check_log_not_removed(root)
            file_layout.import_folder(root, ledger.VersionLedger(self))
        file_layout.end_last_line(root)

    @contextmanager
    def begin_write(self) -> Iterator[change.ChangeWriter]:
        with self._write_lock, file_layout.lock_folder(self._root):
            with self._index_lock:
                self._repair()
                with self._index.begin_write() as writer:
                    seq_before = writer.get_end().seq
                    yield writer
                    entries = self._index.list_entries("", seq_before, None, sys.maxsize)
                    if entries:
                        self._check_names(entries)
                        self._append(entries)
                        self._last_entries = entries
            self._write_folders(entries)
            self._last_entries = ()

    def _repair(self) -> None:
        """Finishes the last change of a crashed writer: its partial line and its missing files."""
        self._refresh()
        if self._has_unread_tail():
            file_layout.repair_tail(self._log, self._offset)
            self._refresh()
        self._write_folders(self._last_entries)
        self._last_entries = ()

    def _has_unread_tail(self) -> bool:
        """Checks whether the log differs from the index."""
        return (self._log.stat().st_size if self._log.exists() else 0) != self._offset

    def _check_names(self, entries: Sequence[change.ChangeEntry]) -> None:
        """Rejects links, and keys that are equal on a case-insensitive file system."""
        for entry in entries:
            file_layout.check_not_link(self._root / file_layout.folder_name(entry.key))
        if not (self._root / file_layout.LOCK_FILE.upper()).exists():
            return
        names = {file_layout.folder_name(key).lower(): key for key in reversed(self._index.list_keys(""))}
        for entry in entries:
            if entry.n == 1 and names[file_layout.folder_name(entry.key).lower()] != entry.key:
                raise InvalidKey(f"{self._root} already has a folder for {entry.key}. Choose another key.")

    def _append(self, entries: Sequence[change.ChangeEntry]) -> None:
        lines = [audit.format_line(entry) for entry in entries]
        text = (lines[0] if len(lines) == 1 else f"[{','.join(lines)}]") + "\n"
        data = text.encode()
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if os.write(fd, data) < len(data):
                raise OSError("the disk or the quota is full")
            if self._is_durable:
                os.fsync(fd)
        except OSError as error:
            os.truncate(self._log, self._offset)
            raise errors.StoreFailed(f"{self._log} could not be written: {error}.") from error
        finally:
            os.close(fd)
        self._offset += len(data)

    def _write_folders(self, entries: Sequence[change.ChangeEntry]) -> None:
        index_ledger = ledger.VersionLedger(self._index)
        for entry in entries:
            file_layout.write_change(
                self._root, entry, index_ledger.get_aliases(entry.key) if entry.kind == change.ALIAS else {}
            )

    def _refresh(self) -> store.MemoryChangeLog:
        """Reads the new complete lines of the log."""
        with self._index_lock:
            try:
                if os.stat(self._log).st_size <= self._offset:
                    return self._index
            except FileNotFoundError:
                return self._index
            with self._log.open("rb") as log:
                log.seek(self._offset)
                new_data = log.read()
            complete = new_data[: new_data.rfind(b"\n") + 1]
            with self._index.begin_write() as writer:
                for line in complete.splitlines():
                    self._last_entries = self._parse_line(line)
                    for entry in self._last_entries:
                        writer.append(entry)
            self._offset += len(complete)
            return self._index

    def _parse_line(self, line: bytes) -> Sequence[change.ChangeEntry]:
        try:
            return file_layout.parse_line(line)
        except ValueError as error:
            raise errors.StoreFailed(f"{self._log} is damaged ({error}). Run 'atoll audit verify'.") from error

    def get_head(self, key: str, end: int | None = None) -> change.ChangeEntry | None:
        return self._refresh().get_head(key, end)

    def get_value(self, key: str) -> tuple[str, int] | None:
        return self._refresh().get_value(key)

    def get_version(self, key: str, version: int) -> change.ChangeEntry | None:
        return self._refresh().get_version(key, version)

    def list_history(self, key: str, limit: int) -> Sequence[change.ChangeEntry]:
        return self._refresh().list_history(key, limit)

    def list_annotations(self, key: str, end: int | None = None) -> Sequence[change.ChangeEntry]:
        return self._refresh().list_annotations(key, end)

    def list_keys(self, prefix: str) -> Sequence[str]:
        return self._refresh().list_keys(prefix)

    def list_heads(self, prefix: str, end: int) -> Sequence[change.ChangeEntry]:
        return self._refresh().list_heads(prefix, end)

    def list_entries(self, prefix: str, after: int, end: int | None, limit: int) -> Sequence[change.ChangeEntry]:
        return self._refresh().list_entries(prefix, after, end, limit)

    def list_newest(self, prefix: str, after: int, limit: int) -> Sequence[change.ChangeEntry]:
        return self._refresh().list_newest(prefix, after, limit)

    def get_end(self) -> change.LogEnd:
        return self._refresh().get_end()

    def get_seq_at(self, timestamp: str) -> int:
        return self._refresh().get_seq_at(timestamp)

    def wait_for_change(self, after: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            remaining = max(deadline - time.monotonic(), 0.0)
            if self._refresh().wait_for_change(after, min(remaining, POLL_SECONDS)):
                return True
            if remaining <= POLL_SECONDS:
                return self._refresh().wait_for_change(after, 0.0)

    def close(self) -> None:
        """Does nothing; no resources are held."""


class FileParameters(Parameters):
    """Parameters in a folder of readable files.

    Args:
        root: Folder; created if missing. A folder in the original layout gets a log.
        check: Same as in `Parameters`.
        clock: Time of a change.
        is_durable: Flush every change to disk, which is slower.
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
        super().__init__(FileChangeLog(self.root, is_durable=is_durable), check=check, clock=clock)

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        return file_layout.verify_folder(self.root, anchors)
