"""Sources of logs and feedback: a folder of day files, a store, or the journal of a run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from atoll import errors, store
from atoll.cli.terminal import parsing
from atoll.governed.evidence import attribution as attributions
from atoll.governed.evidence import feedback, feedback_stores, log_stores, logs, off_policy, reflectors, replay_report
from atoll.governed.evidence import replayer as replayers
from atoll.governed.evidence import run_log as run_logs
from atoll.governed.evidence.logs import IssuePolicy
from atoll.runs import summary
from atoll.store.database import dialect

RUN_PREFIX = "run:"


class LogSources:
    """A log, its feedback, and the stores that are open for them."""

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
        run_log = run_logs.RunLog(run_store.journal(run), run, run_store.get_run(run).created_at, group_by=group_by)
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
    """Returns the path or URL. Raises SetupError if the file or folder does not exist."""
    if dialect.is_file_path(path_or_url) and not Path(dialect.get_path(path_or_url)).exists():
        raise errors.SetupError(f"{path_or_url} not found. Name a folder of day files, a store, or {RUN_PREFIX}RUN.")
    return path_or_url


@contextmanager
def open_feedback(path_or_url: str) -> Iterator[feedback_stores.FileFeedback | feedback_stores.SQLFeedback]:
    """Opens a feedback folder or store."""
    if Path(path_or_url).is_dir():
        yield feedback_stores.FileFeedback(path_or_url)
        return
    with store.Store(require_path(path_or_url)) as run_store:
        yield feedback_stores.SQLFeedback(run_store)


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
        SetupError: The attribution is unknown.
    """
    if attribution not in attributions.ATTRIBUTIONS:
        raise errors.SetupError(
            f"Attribution {attribution!r} is unknown. Use one of {', '.join(attributions.ATTRIBUTIONS)}."
        )
    replayer = replayers.LogReplayer(
        sources.log, sources.channel, window=window, attribution=attributions.ATTRIBUTIONS[attribution]
    )
    aggregator = reflectors.AggregatorReflector()
    replayer.register(aggregator)
    if collector is not None:
        replayer.register(collector)
    return replayer.replay(since, until, checkpoint_path=checkpoint), aggregator


def list_statistics(aggregator: reflectors.AggregatorReflector) -> Sequence[Mapping[str, Any]]:
    """Returns the statistics of each entity and metric as rows."""
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


def check_columnar(log: str, feedback_path: str | None, attribution: str, checkpoint: Path | None) -> None:
    """Raises SetupError if a columnar replay cannot do this."""
    for path in (log, feedback_path or ""):
        if not path or not Path(path).is_dir():
            raise errors.SetupError(f"--columnar reads folders, and {path or 'the feedback'} is not one. Leave it out.")
    if attribution not in ("", "first") or checkpoint is not None:
        raise errors.SetupError("--columnar supports only --attribution first, and no --resume-from. Leave it out.")


def run_columnar(
    log: str, feedback_path: str, since: datetime, until: datetime, window: timedelta, target: tuple[str, str] | None
) -> tuple[replay_report.ReplayReport, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Replays folders with column operations. Returns report, statistics and, for a metric and a policy, estimates."""
    from atoll.governed.evidence import columnar  # slow import: polars

    replay = columnar.ColumnarReplay(log, feedback_path, since, until, window=window)
    rows = replay.compute_statistics()
    num_entries = replay.decisions.height
    metrics = sorted({row["metric"] for row in rows})
    has_feedback = [replay.pair(metric)["value"].is_not_null().to_numpy() for metric in metrics]
    paired = int(np.logical_or.reduce(has_feedback).sum()) if has_feedback else 0
    report = replay_report.ReplayReport(num_entries, 0, paired, num_entries - paired, issues=replay.num_skipped)
    if target is None:
        return report, rows, ()
    metric, policy = target
    return report, rows, list_estimates(replay.to_logged_data(metric, parse_policy(policy)))


def parse_policy(text: str) -> Mapping[str, float]:
    """Parses a JSON object with the probability of each action.

    Raises:
        SetupError: It is not such an object.
    """
    policy = parsing.parse_value(text)
    if not isinstance(policy, dict) or not all(isinstance(share, int | float) for share in policy.values()):
        raise errors.SetupError(f'{text!r} is not a policy. Write {{"action": probability, ...}}.')
    return policy


def make_collector(metric: str, policy: str) -> off_policy.LoggedDataCollector:
    """Makes a collector for a policy with fixed probabilities of the actions."""
    probabilities = parse_policy(policy)
    return off_policy.LoggedDataCollector(metric, lambda entry: probabilities)


def list_estimates(logged_data: off_policy.LoggedData) -> Sequence[Mapping[str, Any]]:
    """Returns the result of each estimator as a row. All but the naive one need overlap.

    Raises:
        SetupError: No decision has an action, a propensity and the metric.
        InsufficientOverlap: The log says too little about the policy.
    """
    results = [off_policy.estimate(logged_data, method) for method in off_policy.METHODS]
    return [
        {"estimator": result.method, "value": result.value, "interval": result.interval, **result.diagnostics._asdict()}
        for result in results
    ]
