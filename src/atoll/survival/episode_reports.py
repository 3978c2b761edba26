"""Reads the episodes of a run from the store, and formats and summarizes them."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from atoll import errors, journal, playbook, store
from atoll.candidate import JSON
from atoll.evaluation import BlobRef
from atoll.survival import analysis, live_controls
from atoll.survival.episode import describe_ending
from atoll.survival.episode_proposer import SNAPSHOTS, decompress_turns

LIVE_SETTINGS = live_controls.SETTINGS  # can be changed during an episode
NUM_BINS = 8
MIN_BIN_TURNS = 5  # minimum turns per bin of the exploration curve


class FinishedEpisode(NamedTuple):
    """Metrics of a finished episode.

    Attributes:
        feedback: How it ended.
        snapshots: Blob with its turns; None if they were not saved.
    """

    episode: int
    score: float | None
    metrics: Mapping[str, float]
    feedback: str
    snapshots: BlobRef | None


def iter_finished_episodes(run_store: store.Store, run: str) -> Iterator[FinishedEpisode]:
    return _iter_episodes(run_store.journal(run).read_kinds(journal.UPDATED))


def get_episode(run_store: store.Store, run: str, episode: int) -> FinishedEpisode | None:
    """Returns a finished episode by its number, which is its iteration; None if it is missing or not finished."""
    return next(_iter_episodes(run_store.journal(run).read_step(episode, journal.UPDATED)), None)


def _iter_episodes(records: Iterable[journal.Record]) -> Iterator[FinishedEpisode]:
    for record in records:
        evaluation = record.data["evaluation"]
        if "episode" in (metrics := evaluation.get("metrics", {})):
            ref = evaluation.get("artifacts", {}).get(SNAPSHOTS)
            snapshots = None if ref is None else BlobRef(*ref)
            other_metrics = {name: value for name, value in metrics.items() if name != "episode"}
            score, feedback = evaluation.get("score"), evaluation.get("feedback", "")
            yield FinishedEpisode(int(metrics["episode"]), score, other_metrics, feedback, snapshots)


def load_turns(run_store: store.Store, run: str, episode: int) -> Sequence[Mapping[str, Any]]:
    """Returns the saved turns of a finished episode.

    Raises:
        NotFound: The episode is missing, or its turns were not saved.
    """
    finished = get_episode(run_store, run, episode)
    if finished is not None and finished.snapshots is not None:
        return decompress_turns(run_store.blobs().load_blob(finished.snapshots))
    raise errors.NotFound(
        f"The turns of episode {episode} of run {run} are not stored. A run stores the first three episodes and those "
        "at powers of two. Use --save-run to save all."
    )


def iter_summaries(run_store: store.Store, run: str, episodes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yields the summaries of episodes, with forecasts. Missing episodes are skipped."""
    rows = run_store.candidates(run)
    for episode in episodes:
        row = rows.find(f"{episode}.0")
        if row is not None and isinstance(summary := row.meta.get("life"), Mapping):
            yield summary


def measure_forecasts(summaries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the calibration of damage forecasts, with the bins of a reliability diagram."""
    forecasts = [(pair[0], bool(pair[1])) for summary in summaries for pair in summary.get("said", ())]
    calibration = analysis.compute_calibration(forecasts)
    return {**calibration._asdict(), "bins": [item._asdict() for item in calibration.bins]}


def compute_exploration_curve(turns: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, float]]:
    """Returns the share of turns that entered a new cell, by forecast danger."""
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
    turn: Mapping[str, Any] = json.loads(text)
    return turn


NUM_LEARNING_EPISODES = 20  # forecast metrics skip these episodes, because the model is still learning
NUM_ACHIEVEMENTS = 22


def sum_episodes(episodes: Sequence[Mapping[str, Any]], *, is_crafter: bool = False) -> dict[str, JSON]:
    if not episodes:
        return {}
    causes = Counter(episode["cause"] for episode in episodes if episode["cause"])
    later = episodes[NUM_LEARNING_EPISODES:] or episodes
    forecasts = [(pair[0], bool(pair[1])) for episode in later for pair in episode["said"]]
    calibration = analysis.compute_calibration(forecasts)
    encounters = sum(episode["encounters"] for episode in episodes)
    result: dict[str, JSON] = {
        "episodes": len(episodes),
        "mean_ticks": fmean(episode["ticks"] for episode in episodes),
        "mean_reward": fmean(episode["reward"] for episode in episodes),
        "best_score": max(episode["score"] for episode in episodes),
        "deaths": causes.total(),
        "death_causes": dict(causes.most_common()),
        "avoidance_rate": sum(episode["avoided"] for episode in episodes) / encounters if encounters else 0.0,
        "coverage": fmean(episode["coverage"] for episode in episodes),
        "information_gained": fmean(episode["bits"] for episode in episodes),
        "brier_skill": calibration.brier_skill,
        "auroc": calibration.auroc,
        "calibration_error": calibration.ece,
        "fear_precision": compute_fear_precision(episodes, calibration),
        "policy_changes": sum(episode["policy_changes"] for episode in episodes),
        "cvar_reward": analysis.compute_cvar([episode["reward"] for episode in episodes]),
        "corrections": sum(episode["corrections"] for episode in episodes),
    }
    if num_cut := sum(episode.get("cut", False) for episode in episodes):
        result["alive_at_max_turns"] = num_cut
    if evasions := sum((Counter(episode.get("evasions", {})) for episode in episodes), Counter[str]()):
        result["evasions"] = dict(evasions)
    llm_episodes = [episode for episode in episodes if "rule_plans" in episode]
    if llm_episodes:
        result["rule_plans"] = sum(episode["rule_plans"] for episode in llm_episodes)
        result["turns"] = sum(episode["turns"] for episode in llm_episodes)
    world_metrics = [episode["facts"] for episode in episodes if episode.get("facts")]
    for name in world_metrics[0] if world_metrics else ():
        result[name] = fmean(metrics[name] for metrics in world_metrics)
    if is_crafter:
        result["crafter_score"] = compute_crafter_score([episode["unlocked"] for episode in episodes])
    return result


def compute_fear_precision(episodes: Sequence[Mapping[str, Any]], calibration: analysis.Calibration) -> float:
    """Returns the share of feared tiles that hurt. Without ground truth: the precision of the forecasts."""
    measured = [episode for episode in episodes if episode["right"] is not None and episode["feared"]]
    if not measured:
        return calibration.precision
    correct, feared = (sum(int(episode[name]) for episode in measured) for name in ("right", "feared"))
    return correct / feared


def compute_crafter_score(unlocked: Sequence[Sequence[str]]) -> float:
    """Returns the Crafter score in percent: exp(mean ln(1 + rate)) - 1 over the success rates of all achievements."""
    counts = Counter(name for names in unlocked for name in set(names))
    rates = [100.0 * count / len(unlocked) for count in counts.values()]
    rates += [0.0] * (NUM_ACHIEVEMENTS - len(rates))
    return math.exp(fmean(math.log1p(rate) for rate in rates)) - 1.0


EMPTY_PLAYBOOK = "an empty playbook"


def format_candidate(content: str) -> str:
    """Returns the playbook as `atoll playbook show` prints it. Other content is returned unchanged."""
    try:
        return playbook.Playbook.load(content).to_text() or "The playbook is empty."
    except errors.SetupError:
        return content


def format_one_line(content: str) -> str:
    """Returns the result of the episode that wrote a playbook, in a few words."""
    try:
        book = playbook.Playbook.load(content)
    except errors.SetupError:
        return content
    outcome: Any = json.loads(content).get("lived")
    if not outcome:
        return f"a playbook of {len(book)} bullets" if len(book) else EMPTY_PLAYBOOK
    ending = describe_ending(outcome.get("cause"), is_cut=outcome.get("cut", False))
    return f"episode {outcome['episode']}: {outcome['ticks']} ticks, {ending}"
