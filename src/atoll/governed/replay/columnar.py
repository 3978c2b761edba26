"""The same pairing over whole columns, for statistics of logs that are read once (extra `columnar`).

Ours only: field names in our casing, files of `FileLog` and `FileFeedback`, first touch. Bad lines and lines in
progress are left out and counted. Faster than a replay; all decisions of the window are in memory at once.
"""

import io
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from atoll import errors
from atoll.governed.logs import days, moments
from atoll.governed.logs.entry import in_utc
from atoll.governed.ope.logged import Logged
from atoll.governed.replay.replayer import WEEK

LOGGED = ("entity", "action", "propensity")
TOLD = ("entity", "metric", "value")


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
        files = [os.path.join(log, name) for name in days.listed(os.fspath(log), begin.date(), end.date())]
        self.num_left_out = 0
        decisions = self._read(files, LOGGED)
        span = self._pl.col("at").is_between(moments.to_micros(begin), moments.to_micros(end))
        self.decisions = decisions.filter(span).with_row_index("row").sort("at", maintain_order=True)
        folders = [each.path for each in os.scandir(channel) if each.is_dir()]
        told = [os.path.join(each, name) for each in sorted(folders) for name in days.listed(each, begin.date())]
        self.feedback = self._read(told, TOLD).sort("at", maintain_order=True)
        self._window = window // moments.MICROSECOND

    def _read(self, files: Sequence[str], names: Sequence[str]) -> Any:
        pl = self._pl
        kinds = {"propensity": pl.Float64, "value": pl.Float64}
        schema = {name: kinds.get(name, pl.String) for name in ("timestamp", *names)}
        if not files:
            return pl.DataFrame(schema={**{name: schema[name] for name in names}, "at": pl.Int64})
        stamp = pl.col("timestamp").str.to_datetime("%+", time_unit="us", strict=False).dt.timestamp("us")
        found = self._scan(list(files), schema).select(*names, at=stamp)
        good = found.drop_nulls(["at", "entity"])
        self.num_left_out += found.height - good.height
        return good

    def _scan(self, files: list[str], schema: Mapping[str, Any]) -> Any:
        """Reads files together, or one by one where a line of one of them is bad."""
        pl = self._pl
        try:
            return pl.scan_ndjson(files, schema=schema, ignore_errors=True).collect()
        except pl.exceptions.ComputeError:
            if len(files) > 1:
                return pl.concat([self._scan([file], schema) for file in files])
        good = self._good_lines(files[0])
        return (
            pl.read_ndjson(io.BytesIO(good), schema=schema, ignore_errors=True) if good else pl.DataFrame(schema=schema)
        )

    def _good_lines(self, file: str) -> bytes:
        with open(file, "rb") as opened:
            lines = opened.read().split(b"\n")
        good = [line for line in lines[:-1] if _is_object(line)]
        self.num_left_out += sum(bool(line.strip()) for line in lines) - len(good)
        return b"".join(line + b"\n" for line in good)

    def paired(self, metric: str) -> Any:
        """Returns the decisions with the earliest feedback of one metric, in columns `value` and `told_at`."""
        pl = self._pl
        told = self.feedback.filter(pl.col("metric") == metric).select("entity", "value", "at", told_at=pl.col("at"))
        return self.decisions.join_asof(
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
        found = self.paired(metric).drop_nulls(["action", "propensity", "value"])
        if not found.height:
            raise errors.SetupError(f"No decision has an action, a propensity and a {metric}: log them.")
        taken = found["action"].to_numpy()
        names = sorted({*policy, *found["action"].unique().to_list()})
        target = np.tile([float(policy.get(name, 0.0)) for name in names], (found.height, 1))
        actions = np.searchsorted(np.array(names, dtype=object), taken)
        return Logged(actions, found["value"].to_numpy(), found["propensity"].to_numpy(), target)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise errors.MissingExtra("Columns need polars: install it with 'pip install atoll[columnar]'.") from error
    return polars
