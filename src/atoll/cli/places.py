"""Logs and feedback by what somebody typed: a folder of day files, a store, or the journal of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from atoll import errors, store
from atoll.cli import values
from atoll.governed import feedback, journals, logs, ope, reflectors, replay
from atoll.governed.logs.issues import Policy
from atoll.runs import lookup
from atoll.store import address

RUN = "run:"


class Place:
    """Logs and feedback that were opened together, and the stores to be closed with them."""

    def __init__(self, log: str, channel: str | None, *, kept: str, on_issue: Policy, by: str) -> None:
        self._open: list[store.Store] = []
        self.is_run = log.startswith(RUN)
        if self.is_run:
            self.log, self.channel = self._journal(log.removeprefix(RUN), kept, by)
            return
        self.log = logs.FileLog(there(log), on_issue=on_issue) if Path(log).is_dir() else self._stored(log)
        self.channel = self._channel(channel, on_issue)

    log: logs.LogSource
    channel: feedback.FeedbackChannel

    def _journal(self, name: str, kept: str, by: str) -> tuple[logs.LogSource, feedback.FeedbackChannel]:
        opened = self._store(kept)
        run = lookup.find(opened, name or lookup.LATEST)
        made = journals.JournalLog(opened.journal(run), run, opened.run(run).created_at, by=by)
        return made, made

    def _stored(self, where: str) -> logs.LogSource:
        return logs.StoredLog(self._store(where))

    def _channel(self, where: str | None, on_issue: Policy) -> feedback.FeedbackChannel:
        if where is None:
            return feedback.MemoryFeedback()
        if Path(where).is_dir():
            return feedback.FileFeedback(there(where), on_issue=on_issue)
        return feedback.StoredFeedback(self._store(where))

    def _store(self, where: str) -> store.Store:
        self._open.append(store.Store(there(where)))
        return self._open[-1]

    def close(self) -> None:
        for each in self._open:
            each.close()


def there(where: str) -> str:
    """Returns the name of a place that exists.

    Raises:
        SetupError: It does not.
    """
    if address.is_path(where) and not Path(address.path_of(where)).exists():
        raise errors.SetupError(f"There is no {where}: give a folder of day files, a store, or {RUN}RUN.")
    return where


def replayed(
    place: Place,
    since: datetime,
    until: datetime,
    *,
    window: timedelta,
    attribution: str,
    checkpoint: Path | None,
    collector: ope.Collector | None = None,
) -> tuple[replay.Report, reflectors.Aggregator]:
    """Replays a log and returns the report and the statistics.

    Raises:
        SetupError: There is no such attribution.
    """
    if attribution not in replay.ATTRIBUTIONS:
        raise errors.SetupError(
            f"There is no attribution {attribution!r}: choose one of {', '.join(replay.ATTRIBUTIONS)}."
        )
    replayer = replay.Replayer(place.log, place.channel, window=window, attribution=replay.ATTRIBUTIONS[attribution])
    aggregator = reflectors.Aggregator()
    replayer.register(aggregator)
    if collector is not None:
        replayer.register(collector)
    return replayer.replay(since, until, checkpoint_path=checkpoint), aggregator


def statistics(aggregator: reflectors.Aggregator) -> Sequence[Mapping[str, Any]]:
    """Returns all statistics as plain rows, by entity and metric."""
    rows = []
    for entity in aggregator.entities():
        for metric in (*aggregator.metrics(entity), ""):
            found = asdict(aggregator.stats(entity, metric))
            last = found.pop("last_timestamp")
            if metric or found["pending_count"]:
                rows.append({"entity": entity, "metric": metric, **found, "last": last and last.isoformat()})
    return rows


def collector(metric: str, policy: str) -> ope.Collector:
    """Makes a collector for a policy that takes each action with a fixed probability.

    Raises:
        SetupError: The policy is no JSON object of probabilities.
    """
    chances = values.value(policy)
    if not isinstance(chances, dict) or not all(isinstance(each, int | float) for each in chances.values()):
        raise errors.SetupError(f'{policy!r} is no policy: write {{"action": probability, ...}}.')
    return ope.Collector(metric, lambda entry: chances)


def estimates(collected: ope.Collector) -> Sequence[Mapping[str, Any]]:
    """Returns what every estimator says, as plain rows; all but the naive one need overlap.

    Raises:
        SetupError: No decision has all that is needed.
        TooFar: The log says nothing about the policy.
    """
    logged = collected.logged()
    found = [ope.estimate(logged, method) for method in ope.METHODS]
    return [
        {"estimator": each.method, "value": each.value, "interval": each.interval, **each.diagnostics._asdict()}
        for each in found
    ]
