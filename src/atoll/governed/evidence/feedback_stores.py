"""Feedback channels in files (one folder per entity, one file per UTC day) and in a store."""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from urllib.parse import unquote

import msgspec

from atoll import store
from atoll.governed.evidence import day_files
from atoll.governed.evidence.day_files import LineAppender, LineBlock, LineReader
from atoll.governed.evidence.feedback import (
    Feedback,
    ReportingChannel,
    check_entity,
    check_measurement,
    decode,
    decode_lines,
    encode,
)
from atoll.governed.evidence.log_stores import now
from atoll.governed.evidence.logs import IssuePolicy, ReadIssues, to_utc
from atoll.governed.parameters import file_layout
from atoll.store import event_streams


class FileFeedback(ReportingChannel):
    """Feedback in `FOLDER/ENTITY/YYYY-MM-DD.jsonl`. Any number of processes may report and query at once.

    Args:
        folder: Created if missing.
        on_issue: Treatment of invalid lines: `raise`, `skip`, or `quarantine` a copy.
        clock: Time of a report.

    Attributes:
        issues: Invalid lines so far.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        on_issue: IssuePolicy = "raise",
        with_lock: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        super().__init__(clock)
        self.folder = os.fspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.issues = ReadIssues(on_issue)
        self._appender = LineAppender(with_lock=with_lock)

    def _write(self, record: Feedback) -> None:
        check_measurement(record.entity, record.metric, record.value, record.confidence)
        folder = file_layout.folder_name(record.entity)
        path = os.path.join(self.folder, folder, day_files.make_file_name(record.timestamp))
        self._appender.append(path, encode(record))

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        folder, start = os.path.join(self.folder, file_layout.folder_name(entity)), to_utc(since)
        records = [
            record
            for name in day_files.list_day_files(folder, since=start.date())
            for block in LineReader(os.path.join(folder, name)).iter_blocks()
            for record in self._decode_block(os.path.join(folder, name), block)
            if record.timestamp >= start and (not metric or record.metric == metric)
        ]
        records.sort(key=attrgetter("timestamp"))
        return records

    def list_entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""
        names = [self._read_entity(folder.name) for folder in os.scandir(self.folder) if folder.is_dir()]
        return sorted(entity for entity in names if entity)

    def _read_entity(self, folder: str) -> str:
        if file_layout.TRUNCATION_MARK not in folder:
            return unquote(folder)
        path = os.path.join(self.folder, folder)
        blocks = (
            block
            for name in day_files.list_day_files(path)
            for block in LineReader(os.path.join(path, name)).iter_blocks()
        )
        return next((record.entity for block in blocks for record in self._decode_block(path, block)), "")

    def _decode_block(self, path: str, block: LineBlock) -> Sequence[Feedback]:
        try:
            records = decode_lines(block.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return list(self._decode_each_line(path, block))
        return [
            record
            if record.timestamp.tzinfo is not None
            else msgspec.structs.replace(record, timestamp=to_utc(record.timestamp))
            for record in records
        ]

    def _decode_each_line(self, path: str, block: LineBlock) -> Iterator[Feedback]:
        offset = block.offset
        for line in block.data.split(b"\n"):
            if line.strip():
                try:
                    yield decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    self.issues.add(path, offset, line, error)
            offset += len(line) + 1

    def close(self) -> None:
        self._appender.close()


STREAM = "feedback"


class SQLFeedback(ReportingChannel):
    """Feedback in a store: `SQLFeedback(store.open("atoll.db"))`, indexed by entity.

    Args:
        stream: Name of the channel; several channels can share a store.
        clock: Time of a report.
    """

    def __init__(self, run_store: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        super().__init__(clock)
        self._stream = event_streams.EventStream(run_store.database, stream)

    def _write(self, record: Feedback) -> None:
        self.add(record)

    def add(self, *records: Feedback) -> None:
        """Writes records with their own times in one commit, for imports.

        Raises:
            SetupError: A record is not a valid measurement.
            StoreFailed: The records could not be written.
        """
        for record in records:
            check_measurement(record.entity, record.metric, record.value, record.confidence)
        self._stream.append(
            [
                event_streams.StreamEvent(
                    day_files.to_micros(record.timestamp),
                    record.entity,
                    record.metric,
                    encode(record).decode().rstrip("\n"),
                )
                for record in records
            ]
        )

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        rows = self._stream.list_by_entity(entity, day_files.to_micros(since), metric)
        return [decode(row.data.encode()) for row in rows]

    def list_entities(self) -> Sequence[str]:
        return self._stream.list_entities()
