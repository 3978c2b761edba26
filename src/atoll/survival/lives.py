"""The lives of a run as a store keeps them, for whoever watches or looks back."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors, journal, store
from atoll.evaluation import BlobRef
from atoll.survival import measures, reins
from atoll.survival.episodes import SNAPSHOTS, unpacked

STEERED = reins.SETTINGS  # what can be set while somebody lives
NUM_BINS = 8
FEW = 5  # turns that a bin of the curve needs to say anything


class Told(NamedTuple):
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


def lived(kept: store.Store, run: str) -> Iterator[Told]:
    """Yields the lives of a run that are over, in their order."""
    return _told(kept.journal(run).of_kind("observed"))


def life(kept: store.Store, run: str, episode: int) -> Told | None:
    """Returns one life that is over; None: it is not over, or there is none. A life has the number of its step."""
    return next(_told(kept.journal(run).of_step(episode, "observed")), None)


def _told(records: Iterable[journal.Record]) -> Iterator[Told]:
    for record in records:
        found = record.data["evaluation"]
        if "episode" in (metrics := found.get("metrics", {})):
            ref = found.get("artifacts", {}).get(SNAPSHOTS)
            snapshots = None if ref is None else BlobRef(*ref)
            told = {name: value for name, value in metrics.items() if name != "episode"}
            yield Told(int(metrics["episode"]), found.get("score"), told, found.get("feedback", ""), snapshots)


def turns(kept: store.Store, run: str, episode: int) -> Sequence[Mapping[str, Any]]:
    """Returns the turns of a life that is over, as they were kept.

    Raises:
        NotFound: There is no such life, or its turns were not kept.
    """
    found = life(kept, run, episode)
    if found is not None and found.snapshots is not None:
        return unpacked(kept.blobs().body(found.snapshots))
    raise errors.NotFound(
        f"The turns of life {episode} of run {run} are not kept: those of the first three lives are, and of each power "
        "of two; --save-run keeps all."
    )


def summaries(kept: store.Store, run: str, episodes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yields lives as they summed themselves up, forecasts included; those that are not there are left out."""
    rows = kept.candidates(run)
    for episode in episodes:
        row = rows.find(f"{episode}.0")
        if row is not None and isinstance(life := row.meta.get("life"), Mapping):
            yield life


def reliability(lives: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns what forecasts of damage were worth, with the bins of a reliability diagram."""
    said = [(each[0], bool(each[1])) for life in lives for each in life.get("said", ())]
    found = measures.calibration(said)
    return {**found._asdict(), "bins": [each._asdict() for each in found.bins]}


def curve(turns: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, float]]:
    """Returns how often somebody stepped where they had never been, by the danger that they foresaw."""
    visited: set[tuple[int, ...]] = set()
    counts: dict[int, list[float]] = {}
    for turn in turns:
        spot, danger = (turn["episode"], *turn["state"]["position"]), float(turn["forecast"])
        cell = counts.setdefault(min(NUM_BINS - 1, int(danger * NUM_BINS)), [0.0, 0.0, 0.0])
        cell[0] += 1
        cell[1] += danger
        cell[2] += spot not in visited
        visited.add(spot)
    return [
        {"danger": total / size, "explored": fresh / size, "size": size}
        for size, total, fresh in (counts[place] for place in sorted(counts))
        if size >= FEW
    ]


def read_turn(text: str) -> Mapping[str, Any]:
    """Reads a turn that a life under way showed."""
    found: Mapping[str, Any] = json.loads(text)
    return found
