"""Columnar replay: the same pairing with polars, for statistics of large logs (extra `columnar`).

Supports files of `FileLog` and `FileFeedback` with lower-case field names, and first-touch attribution. Bad and
incomplete lines are skipped and counted. Faster than `LogReplayer`, but all decisions are in memory at once.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from atoll import errors
from atoll.governed.evidence import day_files
from atoll.governed.evidence.logs import to_utc
from atoll.governed.evidence.off_policy import LoggedData
from atoll.governed.evidence.replayer import WEEK

CHUNK_BYTES = 1 << 20  # bytes per read
BATCH_LINES = 50_000  # lines decoded at a time
NUMBER_FIELDS = ("propensity", "value")


class _Line(msgspec.Struct, gc=False):
    """Fields of a decision that statistics need. Parsing whole lines with polars takes longer."""

    timestamp: str
    entity: str


class _DecisionLine(_Line, gc=False):
    action: str | None = None
    propensity: float | None = None


class _FeedbackLine(_Line, gc=False):
    metric: str
    value: float


class ColumnarReplay:
    """Decisions of a period and the feedback of their entities.

    Args:
        log: Folder of a `FileLog`.
        channel: Folder of a `FileFeedback`.
        window: Latest arrival of feedback after a decision.

    Attributes:
        num_skipped: Lines that are invalid or incomplete.

    Raises:
        MissingExtra: polars is not installed.
    """

    def __init__(
        self,
        log: str | os.PathLike[str],
        channel: str | os.PathLike[str],
        since: datetime,
        until: datetime,
        *,
        window: timedelta = WEEK,
    ) -> None:
        self._pl = _import_polars()
        start, end = to_utc(since), to_utc(until)
        self._files = [
            os.path.join(log, name) for name in day_files.list_day_files(os.fspath(log), start.date(), end.date())
        ]
        self._span = day_files.to_micros(start), day_files.to_micros(end)
        self.num_skipped = 0
        self.decisions = self._read_decisions(_Line)
        folders = [folder.path for folder in os.scandir(channel) if folder.is_dir()]
        feedback_files = [
            os.path.join(folder, name)
            for folder in sorted(folders)
            for name in day_files.list_day_files(folder, start.date())
        ]
        self.feedback = (
            self._read_feedback(feedback_files)
            .with_columns(_make_entity_expr(self._pl))
            .sort("at", maintain_order=True)
        )
        self._window = window // day_files.MICROSECOND

    def _read_decisions(self, line_type: type[_Line]) -> Any:
        """Returns the decisions of the period in order of time."""
        pl = self._pl
        decisions = (
            self._read(self._files, line_type)
            .filter(pl.col("at").is_between(*self._span))
            .with_columns(_make_entity_expr(pl))
        )
        return decisions if decisions["at"].is_sorted() else decisions.sort("at", maintain_order=True)

    def _read_feedback(self, files: Sequence[str]) -> Any:
        """Returns the feedback. Files with bad lines are read line by line."""
        pl, names = self._pl, ("entity", "metric", "value")
        if not files:
            return self._read(files, _FeedbackLine)
        schema = {name: pl.Float64 if name in NUMBER_FIELDS else pl.String for name in ("timestamp", *names)}
        try:  # all fields are needed, so polars is as fast
            rows = pl.scan_ndjson(files, schema=schema, ignore_errors=True).collect()
        except pl.exceptions.ComputeError:
            return self._read(files, _FeedbackLine)
        valid_rows = rows.select(*names, at=_make_timestamp_expr(pl)).drop_nulls()
        self.num_skipped += rows.height - valid_rows.height
        return valid_rows

    def _read(self, files: Sequence[str], line_type: type[_Line]) -> Any:
        """Returns the valid lines of files as columns, the time as `at`, and counts the others."""
        pl = self._pl
        schema = {name: pl.Float64 if name in NUMBER_FIELDS else pl.String for name in line_type.__struct_fields__}
        timestamp_expr = _make_timestamp_expr(pl)
        frames = [pl.DataFrame(schema=schema).select(pl.exclude("timestamp"), at=_make_timestamp_expr(pl))]
        for rows in self._batches(files, msgspec.json.Decoder(line_type)):
            columns = {name: list(map(attrgetter(name), rows)) for name in schema}
            valid_rows = (
                pl.DataFrame(columns, schema=schema).select(pl.exclude("timestamp"), at=timestamp_expr).drop_nulls("at")
            )
            self.num_skipped += len(rows) - valid_rows.height
            frames.append(valid_rows)
        return pl.concat(frames)

    def _batches(self, files: Sequence[str], decoder: msgspec.json.Decoder[_Line]) -> Iterator[Sequence[_Line]]:
        """Yields decoded lines in batches of about `BATCH`, since Python objects use most of the memory."""
        rows: list[_Line] = []
        for path in files:
            with open(path, "rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    rows += self._decode_lines(chunk + stream.readline(), decoder)
                    if len(rows) >= BATCH_LINES:
                        yield rows
                        rows = []
        yield rows

    def _decode_lines(self, chunk: bytes, decoder: msgspec.json.Decoder[_Line]) -> Sequence[_Line]:
        if not chunk.endswith(b"\n"):  # the last line is incomplete
            self.num_skipped += 1
            chunk = chunk[: chunk.rfind(b"\n") + 1]
        try:
            return decoder.decode_lines(chunk)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            lines = [line for line in chunk.split(b"\n") if line.strip()]
            valid_lines = [parsed for line in lines if (parsed := _decode_line(line, decoder)) is not None]
            self.num_skipped += len(lines) - len(valid_lines)
            return valid_lines

    def pair(self, metric: str) -> Any:
        """Returns the decisions with the earliest feedback of one metric, in the column `value`."""
        return self._pair(self.decisions, metric)

    def _pair(self, decisions: Any, metric: str) -> Any:
        feedback = self.feedback.filter(self._pl.col("metric") == metric).select("entity", "value", "at")
        return decisions.join_asof(
            feedback, on="at", by="entity", strategy="forward", tolerance=self._window - 1, check_sortedness=False
        )

    def compute_statistics(self) -> Sequence[Mapping[str, Any]]:
        """Returns count, sum, mean, variance and bounds per entity and metric, sorted."""
        pl = self._pl
        value, rows = pl.col("value"), []
        for metric in sorted(self.feedback["metric"].unique().to_list()):
            groups = self.pair(metric).drop_nulls("value").group_by("entity")
            summary = groups.agg(
                count=pl.len(),
                sum=value.sum(),
                mean=value.mean(),
                variance=value.var(),
                min=value.min(),
                max=value.max(),
            )
            rows += [{"metric": metric, **row} for row in summary.to_dicts()]
        for row in rows:
            row["variance"] = row["variance"] or 0.0
        return sorted(rows, key=lambda row: (row["entity"], row["metric"]))

    def to_logged_data(self, metric: str, policy: Mapping[str, float]) -> LoggedData:
        """Returns the data of an off-policy estimate for a policy with fixed action probabilities.

        Raises:
            SetupError: No decision has an action, a propensity and the metric.
        """
        num_skipped_before = self.num_skipped  # checked once
        rows = self._pair(self._read_decisions(_DecisionLine), metric).drop_nulls(["action", "propensity", "value"])
        self.num_skipped = num_skipped_before
        if not rows.height:
            raise errors.SetupError(f"No decision has an action, a propensity and the metric {metric}. Log them.")
        taken_actions = rows["action"].to_numpy()
        names = sorted({*policy, *rows["action"].unique().to_list()})
        target = np.tile([float(policy.get(name, 0.0)) for name in names], (rows.height, 1))
        actions = np.searchsorted(np.array(names, dtype=object), taken_actions)
        return LoggedData(actions, rows["value"].to_numpy(), rows["propensity"].to_numpy(), target)


def _make_timestamp_expr(pl: Any) -> Any:
    return pl.col("timestamp").str.to_datetime("%+", time_unit="us", strict=False, cache=False).dt.timestamp("us")


def _make_entity_expr(pl: Any) -> Any:
    return pl.col("entity").cast(pl.Categorical)  # integer keys make joins and groups faster by a third


def _decode_line(line: bytes, decoder: msgspec.json.Decoder[_Line]) -> _Line | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _import_polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise errors.MissingExtra("Columnar replay needs polars: pip install 'atoll[columnar]'.") from error
    return polars
