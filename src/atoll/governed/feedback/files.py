"""Feedback in files: a folder per entity, in it a file per UTC day."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from urllib.parse import unquote

import msgspec

from atoll.governed.feedback.record import Feedback, check, check_entity, decode, decode_lines, encode
from atoll.governed.logs import days
from atoll.governed.logs.appending import Appender
from atoll.governed.logs.entry import in_utc
from atoll.governed.logs.files import now
from atoll.governed.logs.issues import Issues, Policy
from atoll.governed.logs.lines import Block, Lines
from atoll.governed.parameters import layout


class FileFeedback:
    """A channel in `FOLDER/ENTITY/YYYY-MM-DD.jsonl`. Any number of processes may report and query at the same time.

    Args:
        folder: Made where there is none.
        on_issue: What to do about a line that is no feedback: `raise`, `skip` it, or `quarantine` a copy.
        clock: Stamps what is reported.

    Attributes:
        issues: What could not be read so far.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        on_issue: Policy = "raise",
        with_lock: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.folder = os.fspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.issues, self._clock = Issues(on_issue), clock
        self._appender = Appender(with_lock=with_lock)

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        check(entity, metric, value, confidence)
        noted = dict(meta) if meta else None
        made = Feedback(in_utc(self._clock()), entity, metric, value, confidence, noted, decision_id, observed_at)
        path = os.path.join(self.folder, layout.folder_name(entity), days.name_of(made.timestamp))
        self._appender.append(path, encode(made))
        return made

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        folder, begin = os.path.join(self.folder, layout.folder_name(entity)), in_utc(since)
        found = [
            each
            for name in days.listed(folder, since=begin.date())
            for block in Lines(os.path.join(folder, name)).blocks()
            for each in self._records(os.path.join(folder, name), block)
            if each.timestamp >= begin and (not metric or each.metric == metric)
        ]
        found.sort(key=attrgetter("timestamp"))
        return found

    def entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""
        found = [self._entity(each.name) for each in os.scandir(self.folder) if each.is_dir()]
        return sorted(entity for entity in found if entity)

    def _entity(self, folder: str) -> str:
        if layout.CUT not in folder:
            return unquote(folder)
        path = os.path.join(self.folder, folder)
        lines = (block for name in days.listed(path) for block in Lines(os.path.join(path, name)).blocks())
        return next((each.entity for block in lines for each in self._records(path, block)), "")

    def _records(self, path: str, block: Block) -> Sequence[Feedback]:
        try:
            found = decode_lines(block.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return list(self._one_by_one(path, block))
        return [
            each
            if each.timestamp.tzinfo is not None
            else msgspec.structs.replace(each, timestamp=in_utc(each.timestamp))
            for each in found
        ]

    def _one_by_one(self, path: str, block: Block) -> Iterator[Feedback]:
        offset = block.offset
        for line in block.body.split(b"\n"):
            if line.strip():
                try:
                    yield decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    self.issues.take(path, offset, line, error)
            offset += len(line) + 1

    def close(self) -> None:
        self._appender.close()
