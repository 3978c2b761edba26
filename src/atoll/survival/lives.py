"""The lives of a run as a store keeps them, for whoever watches or looks back."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors, journal, store
from atoll.evaluation import BlobRef
from atoll.survival import measures, reins
from atoll.survival.episodes import SNAPSHOTS, decompress_turns

LIVE_SETTINGS = reins.SETTINGS  # what can be set while somebody lives
NUM_BINS = 8
MIN_BIN_TURNS = 5  # turns that a bin of the curve needs to say anything


class FinishedEpisode(NamedTuple):
    """A life that is over, in numbers.

    Attributes:
        feedback: How it ended, in words.
        snapshots: Where its turns are kept; None: they are not.
    """

    episode: int
    score: float | None
    metrics: Mapping[str, float]
    feedback: str
    snapshots: BlobRef | None


def iter_finished_episodes(run_store: store.Store, run: str) -> Iterator[FinishedEpisode]:
    """Yields the lives of a run that are over, in their order."""
    return _iter_episodes(run_store.journal(run).read_kinds("observed"))


def get_episode(run_store: store.Store, run: str, episode: int) -> FinishedEpisode | None:
    """Returns one life that is over; None: it is not over, or there is none. A life has the number of its step."""
    return next(_iter_episodes(run_store.journal(run).read_step(episode, "observed")), None)


def _iter_episodes(records: Iterable[journal.Record]) -> Iterator[FinishedEpisode]:
    for record in records:
        evaluation = record.data["evaluation"]
        if "episode" in (metrics := evaluation.get("metrics", {})):
            ref = evaluation.get("artifacts", {}).get(SNAPSHOTS)
            snapshots = None if ref is None else BlobRef(*ref)
            other_metrics = {name: value for name, value in metrics.items() if name != "episode"}
            yield FinishedEpisode(int(metrics["episode"]), evaluation.get("score"), other_metrics, evaluation.get("feedback", ""), snapshots)


def load_turns(run_store: store.Store, run: str, episode: int) -> Sequence[Mapping[str, Any]]:
    """Returns the turns of a life that is over, as they were kept.

    Raises:
        NotFound: There is no such life, or its turns were not kept.
    """
    finished = get_episode(run_store, run, episode)
    if finished is not None and finished.snapshots is not None:
        return decompress_turns(run_store.blobs().load_blob(finished.snapshots))
    raise errors.NotFound(
        f"The turns of life {episode} of run {run} are not kept: those of the first three lives are, and of each power "
        "of two; --save-run keeps all."
    )


def iter_summaries(run_store: store.Store, run: str, episodes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yields lives as they summed themselves up, forecasts included; those that are not there are left out."""
    rows = run_store.candidates(run)
    for episode in episodes:
        row = rows.find(f"{episode}.0")
        if row is not None and isinstance(summary := row.meta.get("life"), Mapping):
            yield summary


def measure_forecasts(summaries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns what forecasts of damage were worth, with the bins of a reliability diagram."""
    forecasts = [(pair[0], bool(pair[1])) for summary in summaries for pair in summary.get("said", ())]
    calibration = measures.compute_calibration(forecasts)
    return {**calibration._asdict(), "bins": [item._asdict() for item in calibration.bins]}


def compute_exploration_curve(turns: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, float]]:
    """Returns how often somebody stepped where they had never been, by the danger that they foresaw."""
    visited: set[tuple[int, ...]] = set()
    counts: dict[int, list[float]] = {}
    for turn in turns:
        position, danger = (turn["episode"], *turn["state"]["position"]), float(turn["forecast"])
        bin_counts = counts.setdefault(min(NUM_BINS - 1, int(danger * NUM_BINS)), [0.0, 0.0, 0.0])
        bin_counts[0] += 1
        bin_counts[1] += danger
        bin_counts[2] += position not in visited
        visited.add(position)
    return [
        {"danger": total / size, "explored": explored / size, "size": size}
        for size, total, explored in (counts[index] for index in sorted(counts))
        if size >= MIN_BIN_TURNS
    ]


def parse_turn(text: str) -> Mapping[str, Any]:
    """Reads a turn that a life under way showed."""
    turn: Mapping[str, Any] = json.loads(text)
    return turn
