"""Logs and feedback by what somebody typed: a folder of day files, a store, or the journal of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from atoll import errors, store
from atoll.cli.terminal import parsing
from atoll.governed.evidence import attribution as evidence_attribution
from atoll.governed.evidence import feedback, feedback_stores, log_stores, logs, off_policy, reflectors, replay_report
from atoll.governed.evidence import replayer as evidence_replayer
from atoll.governed.evidence import run_log as evidence_run_log
from atoll.governed.evidence.logs import IssuePolicy
from atoll.runs import summary
from atoll.store.database import urls

RUN_PREFIX = "run:"


class LogSources:
    """Logs and feedback that were opened together, and the stores to be closed with them."""

    def __init__(self, log: str, channel: str | None, *, store_url: str, on_issue: IssuePolicy, group_by: str) -> None:
        self._open_stores: list[store.Store] = []
        self.is_run = log.startswith(RUN_PREFIX)
        if self.is_run:
            self.log, self.channel = self._open_run_log(log.removeprefix(RUN_PREFIX), store_url, group_by)
            return
        self.log = (
            log_stores.FileLog(require_path(log), on_issue=on_issue)
            if Path(log).is_dir()
            else self._open_stored_log(log)
        )
        self.channel = self._open_feedback(channel, on_issue)

    log: logs.LogSource
    channel: feedback.FeedbackChannel

    def _open_run_log(
        self, run_name: str, store_url: str, group_by: str
    ) -> tuple[logs.LogSource, feedback.FeedbackChannel]:
        run_store = self._open_store(store_url)
        run = summary.find_run(run_store, run_name or summary.LATEST)
        run_log = evidence_run_log.RunLog(
            run_store.journal(run), run, run_store.get_run(run).created_at, group_by=group_by
        )
        return run_log, run_log

    def _open_stored_log(self, store_url: str) -> logs.LogSource:
        return log_stores.SQLLog(self._open_store(store_url))

    def _open_feedback(self, feedback_path: str | None, on_issue: IssuePolicy) -> feedback.FeedbackChannel:
        if feedback_path is None:
            return feedback.MemoryFeedback()
        if Path(feedback_path).is_dir():
            return feedback_stores.FileFeedback(require_path(feedback_path), on_issue=on_issue)
        return feedback_stores.SQLFeedback(self._open_store(feedback_path))

    def _open_store(self, store_url: str) -> store.Store:
        self._open_stores.append(store.Store(require_path(store_url)))
        return self._open_stores[-1]

    def close(self) -> None:
        for open_store in self._open_stores:
            open_store.close()


def require_path(path_or_url: str) -> str:
    """Returns the name of a place that exists.

    Raises:
        SetupError: It does not.
    """
    if urls.is_file_path(path_or_url) and not Path(urls.get_path(path_or_url)).exists():
        raise errors.SetupError(f"There is no {path_or_url}: give a folder of day files, a store, or {RUN_PREFIX}RUN.")
    return path_or_url


def run_replay(
    sources: LogSources,
    since: datetime,
    until: datetime,
    *,
    window: timedelta,
    attribution: str,
    checkpoint: Path | None,
    collector: off_policy.LoggedDataCollector | None = None,
) -> tuple[replay_report.ReplayReport, reflectors.AggregatorReflector]:
    """Replays a log and returns the report and the statistics.

    Raises:
        SetupError: There is no such attribution.
    """
    if attribution not in evidence_attribution.ATTRIBUTIONS:
        raise errors.SetupError(
            f"There is no attribution {attribution!r}: choose one of {', '.join(evidence_attribution.ATTRIBUTIONS)}."
        )
    replayer = evidence_replayer.LogReplayer(
        sources.log, sources.channel, window=window, attribution=evidence_attribution.ATTRIBUTIONS[attribution]
    )
    aggregator = reflectors.AggregatorReflector()
    replayer.register(aggregator)
    if collector is not None:
        replayer.register(collector)
    return replayer.replay(since, until, checkpoint_path=checkpoint), aggregator


def list_statistics(aggregator: reflectors.AggregatorReflector) -> Sequence[Mapping[str, Any]]:
    """Returns all statistics as plain rows, by entity and metric."""
    rows = []
    for entity in aggregator.list_entities():
        for metric in (*aggregator.metrics(entity), ""):
            stats = asdict(aggregator.stats(entity, metric))
            last_timestamp = stats.pop("last_timestamp")
            if metric or stats["pending_count"]:
                rows.append(
                    {"entity": entity, "metric": metric, **stats, "last": last_timestamp and last_timestamp.isoformat()}
                )
    return rows


def make_collector(metric: str, policy: str) -> off_policy.LoggedDataCollector:
    """Makes a collector for a policy that takes each action with a fixed probability.

    Raises:
        SetupError: The policy is no JSON object of probabilities.
    """
    probabilities = parsing.parse_value(policy)
    if not isinstance(probabilities, dict) or not all(
        isinstance(probability, int | float) for probability in probabilities.values()
    ):
        raise errors.SetupError(f'{policy!r} is no policy: write {{"action": probability, ...}}.')
    return off_policy.LoggedDataCollector(metric, lambda entry: probabilities)


def list_estimates(collector: off_policy.LoggedDataCollector) -> Sequence[Mapping[str, Any]]:
    """Returns what every estimator says, as plain rows; all but the naive one need overlap.

    Raises:
        SetupError: No decision has all that is needed.
        TooFar: The log says nothing about the policy.
    """
    logged_data = collector.to_logged_data()
    results = [off_policy.estimate(logged_data, method) for method in off_policy.METHODS]
    return [
        {"estimator": result.method, "value": result.value, "interval": result.interval, **result.diagnostics._asdict()}
        for result in results
    ]
