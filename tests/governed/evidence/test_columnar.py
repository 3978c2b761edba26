"""ColumnarReplay: same statistics as the replayer."""

from datetime import timedelta

import pytest

pytest.importorskip("polars")

from atoll import errors
from atoll.governed.evidence import columnar, feedback_stores, log_stores, logs, off_policy, reflectors
from atoll.governed.evidence.replayer import LogReplayer
from bench import governed_logs as bench


def test_columnar_replay_matches_log_replayer(tmp_path):
    bench.generate(tmp_path, 3000)
    window = timedelta(minutes=1)
    replayer = LogReplayer(
        log_stores.FileLog(tmp_path / "log"), feedback_stores.FileFeedback(tmp_path / "feedback"), window=window
    )
    aggregator = reflectors.AggregatorReflector()
    replayer.register(aggregator)
    report = replayer.replay(bench.START, bench.END)
    with (tmp_path / "log" / "2026-04-18.jsonl").open("a") as file:
        file.write('nonsense\n{"timestamp":"2026-0')
    columns = columnar.ColumnarReplay(tmp_path / "log", tmp_path / "feedback", bench.START, bench.END, window=window)
    result = columns.compute_statistics()
    assert sum(row["count"] for row in result) == report.paired > 0
    assert columns.num_skipped == 2
    for row in result[::50]:
        stats = aggregator.stats(row["entity"], row["metric"])
        assert row["count"] == stats.count
        assert [row[name] for name in ("sum", "mean", "variance", "min", "max")] == pytest.approx(
            [stats.sum, stats.mean, stats.variance, stats.min, stats.max]
        )


def test_columnar_replay_provides_data_for_estimate(tmp_path):
    log, channel = log_stores.FileLog(tmp_path / "log"), feedback_stores.FileFeedback(tmp_path / "feedback")
    for number in range(200):
        action = ("left", "right")[number % 2]
        log.append(logs.LogEntry(bench.START, f"d{number}", f"e{number}", None, None, action, 0.5))
    channel = feedback_stores.FileFeedback(tmp_path / "feedback", clock=lambda: bench.START)
    for number in range(200):
        channel.report(f"e{number}", "won", float(number % 2))
    columns = columnar.ColumnarReplay(log.folder, channel.folder, bench.START, bench.END)
    logged = columns.to_logged_data("won", {"left": 0.2, "right": 0.8})
    assert off_policy.estimate(logged, "dr").value == pytest.approx(0.8, abs=0.02)
    with pytest.raises(errors.SetupError, match="lost"):
        columns.to_logged_data("lost", {"left": 1.0})


def test_empty_log_has_no_statistics(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "feedback").mkdir()
    columns = columnar.ColumnarReplay(tmp_path / "log", tmp_path / "feedback", bench.START, bench.END)
    assert columns.compute_statistics() == []
