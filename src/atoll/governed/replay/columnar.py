"""The same pairing over whole columns, for statistics of logs that are read once (extra `columnar`).

Ours only: field names in our casing, files of `FileLog` and `FileFeedback`, first touch. Bad lines and lines in
progress are left out and counted. Faster than a replay; all decisions of the window are in memory at once.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from atoll import errors
from atoll.governed.logs import days, moments
from atoll.governed.logs.entry import in_utc
from atoll.governed.ope.logged import Logged
from atoll.governed.replay.replayer import WEEK

CHUNK = 1 << 20  # bytes read at a time
BATCH = 50_000  # lines that are objects at a time
NUMBERS = ("propensity", "value")


class _Line(msgspec.Struct, gc=False):
    """What statistics need of a decision; polars would parse all of the line, which takes longer than this."""

    timestamp: str
    entity: str


class _Decided(_Line, gc=False):
    action: str | None = None
    propensity: float | None = None


class _Told(_Line, gc=False):
    metric: str
    value: float


class Columns:
    """Decisions of a time and the feedback of their entities.

    Args:
        log: The folder of a `FileLog`.
        channel: The folder of a `FileFeedback`.
        window: How late feedback may come.

    Attributes:
        num_left_out: Lines that are no entry, or not yet one.

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
        self._pl = _polars()
        begin, end = in_utc(since), in_utc(until)
        self._files = [os.path.join(log, name) for name in days.listed(os.fspath(log), begin.date(), end.date())]
        self._span = moments.to_micros(begin), moments.to_micros(end)
        self.num_left_out = 0
        self.decisions = self._decided(_Line)
        folders = [each.path for each in os.scandir(channel) if each.is_dir()]
        told = [os.path.join(each, name) for each in sorted(folders) for name in days.listed(each, begin.date())]
        self.feedback = self._told(told).with_columns(_coded(self._pl)).sort("at", maintain_order=True)
        self._window = window // moments.MICROSECOND

    def _decided(self, kind: type[_Line]) -> Any:
        """Returns the decisions of the time in the order in which they were made."""
        pl = self._pl
        found = self._read(self._files, kind).filter(pl.col("at").is_between(*self._span)).with_columns(_coded(pl))
        return found if found["at"].is_sorted() else found.sort("at", maintain_order=True)

    def _told(self, files: Sequence[str]) -> Any:
        """Returns the feedback; where a line of it is bad, as decisions are read."""
        pl, names = self._pl, ("entity", "metric", "value")
        if not files:
            return self._read(files, _Told)
        schema = {name: pl.Float64 if name in NUMBERS else pl.String for name in ("timestamp", *names)}
        try:  # all fields are needed, so polars loses nothing here
            found = pl.scan_ndjson(files, schema=schema, ignore_errors=True).collect()
        except pl.exceptions.ComputeError:
            return self._read(files, _Told)
        good = found.select(*names, at=_stamp(pl)).drop_nulls()
        self.num_left_out += found.height - good.height
        return good

    def _read(self, files: Sequence[str], kind: type[_Line]) -> Any:
        """Returns the good lines of files as columns, the moment as `at`; counts the others."""
        pl = self._pl
        schema = {name: pl.Float64 if name in NUMBERS else pl.String for name in kind.__struct_fields__}
        stamp, found = _stamp(pl), [pl.DataFrame(schema=schema).select(pl.exclude("timestamp"), at=_stamp(pl))]
        for rows in self._batches(files, msgspec.json.Decoder(kind)):
            columns = {name: list(map(attrgetter(name), rows)) for name in schema}
            good = pl.DataFrame(columns, schema=schema).select(pl.exclude("timestamp"), at=stamp).drop_nulls("at")
            self.num_left_out += len(rows) - good.height
            found.append(good)
        return pl.concat(found)

    def _batches(self, files: Sequence[str], decoder: msgspec.json.Decoder[_Line]) -> Iterator[Sequence[_Line]]:
        """Yields lines as they were decoded, about `BATCH` at a time: as objects they take most of the memory."""
        rows: list[_Line] = []
        for file in files:
            with open(file, "rb") as opened:
                while body := opened.read(CHUNK):
                    rows += self._decoded(body + opened.readline(), decoder)
                    if len(rows) >= BATCH:
                        yield rows
                        rows = []
        yield rows

    def _decoded(self, body: bytes, decoder: msgspec.json.Decoder[_Line]) -> Sequence[_Line]:
        if not body.endswith(b"\n"):  # the last line is in progress
            self.num_left_out += 1
            body = body[: body.rfind(b"\n") + 1]
        try:
            return decoder.decode_lines(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            lines = [line for line in body.split(b"\n") if line.strip()]
            good = [found for line in lines if (found := _line(line, decoder)) is not None]
            self.num_left_out += len(lines) - len(good)
            return good

    def paired(self, metric: str) -> Any:
        """Returns the decisions with the earliest feedback of one metric, in the column `value`."""
        return self._paired(self.decisions, metric)

    def _paired(self, decisions: Any, metric: str) -> Any:
        told = self.feedback.filter(self._pl.col("metric") == metric).select("entity", "value", "at")
        return decisions.join_asof(
            told, on="at", by="entity", strategy="forward", tolerance=self._window - 1, check_sortedness=False
        )

    def statistics(self) -> Sequence[Mapping[str, Any]]:
        """Returns count, sum, mean, variance and bounds per entity and metric, sorted."""
        pl = self._pl
        value, rows = pl.col("value"), []
        for metric in sorted(self.feedback["metric"].unique().to_list()):
            found = self.paired(metric).drop_nulls("value").group_by("entity")
            named = found.agg(
                count=pl.len(),
                sum=value.sum(),
                mean=value.mean(),
                variance=value.var(),
                min=value.min(),
                max=value.max(),
            )
            rows += [{"metric": metric, **row} for row in named.to_dicts()]
        for row in rows:
            row["variance"] = row["variance"] or 0.0
        return sorted(rows, key=lambda row: (row["entity"], row["metric"]))

    def logged(self, metric: str, policy: Mapping[str, float]) -> Logged:
        """Returns what an off-policy estimate needs, for a policy that takes actions with fixed probabilities.

        Raises:
            SetupError: No decision has an action, a propensity and the metric.
        """
        counted = self.num_left_out  # once is enough
        found = self._paired(self._decided(_Decided), metric).drop_nulls(["action", "propensity", "value"])
        self.num_left_out = counted
        if not found.height:
            raise errors.SetupError(f"No decision has an action, a propensity and a {metric}: log them.")
        taken = found["action"].to_numpy()
        names = sorted({*policy, *found["action"].unique().to_list()})
        target = np.tile([float(policy.get(name, 0.0)) for name in names], (found.height, 1))
        actions = np.searchsorted(np.array(names, dtype=object), taken)
        return Logged(actions, found["value"].to_numpy(), found["propensity"].to_numpy(), target)


def _stamp(pl: Any) -> Any:
    return pl.col("timestamp").str.to_datetime("%+", time_unit="us", strict=False, cache=False).dt.timestamp("us")


def _coded(pl: Any) -> Any:
    return pl.col("entity").cast(pl.Categorical)  # numbers are joined and grouped in two thirds of the time


def _line(line: bytes, decoder: msgspec.json.Decoder[_Line]) -> _Line | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise errors.MissingExtra("Columns need polars: install it with 'pip install atoll[columnar]'.") from error
    return polars
