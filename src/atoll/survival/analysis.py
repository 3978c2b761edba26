"""Statistics of episodes: quality of forecasts, tail risk of returns, and metrics of saved turns."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from atoll import errors


class Bin(NamedTuple):
    """Forecasts of similar value: their mean, the frequency of damage, and their number."""

    forecast: float
    happened: float
    size: int


class Calibration(NamedTuple):
    """Quality of a set of forecasts.

    Attributes:
        brier: Mean squared error.
        brier_skill: 1 minus the ratio to the error of always forecasting the base rate; 1 is perfect, 0 is useless.
        auroc: Probability that a forecast before damage is higher than one before no damage.
        precision: Share of forecasts of at least 0.5 that came true.
        ece: Expected calibration error.
    """

    size: int
    base_rate: float
    brier: float
    brier_skill: float
    log_loss: float
    auroc: float
    precision: float
    ece: float
    bins: tuple[Bin, ...]


NO_FORECASTS = Calibration(0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, ())


def compute_calibration(forecasts: Sequence[tuple[float, bool]], num_bins: int = 10) -> Calibration:
    if not forecasts:
        return NO_FORECASTS
    count = len(forecasts)
    base_rate = sum(happened for _, happened in forecasts) / count
    brier = sum((forecast - happened) ** 2 for forecast, happened in forecasts) / count
    base_variance = base_rate * (1 - base_rate)
    bins = _make_bins(forecasts, num_bins)
    high_outcomes = [happened for forecast, happened in forecasts if forecast >= 0.5]
    log_loss = (
        -sum(math.log(max(1e-6, forecast if happened else 1 - forecast)) for forecast, happened in forecasts) / count
    )
    return Calibration(
        count,
        base_rate,
        brier,
        1 - brier / base_variance if base_variance > 0 else 0.0,
        log_loss,
        compute_auroc(forecasts),
        sum(high_outcomes) / len(high_outcomes) if high_outcomes else 0.0,
        sum(item.size * abs(item.forecast - item.happened) for item in bins) / count,
        bins,
    )


def _make_bins(forecasts: Sequence[tuple[float, bool]], num_bins: int) -> tuple[Bin, ...]:
    grouped: dict[int, list[tuple[float, bool]]] = {}
    for pair in forecasts:
        grouped.setdefault(min(num_bins - 1, int(pair[0] * num_bins)), []).append(pair)
    bins = []
    for _, group in sorted(grouped.items()):
        size = len(group)
        bins.append(Bin(sum(f for f, _ in group) / size, sum(h for _, h in group) / size, size))
    return tuple(bins)


def compute_auroc(forecasts: Sequence[tuple[float, bool]]) -> float:
    """Returns the area under the ROC curve; ties count half."""
    ordered = sorted(forecasts)
    positives = sum(happened for _, happened in ordered)
    negatives = len(ordered) - positives
    if not positives or not negatives:
        return 0.5
    rank_sum, start = 0.0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        mean_rank = (start + 1 + end) / 2
        rank_sum += mean_rank * sum(happened for _, happened in ordered[start:end])
        start = end
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def compute_cvar(returns: Sequence[float], alpha: float = 0.1) -> float:
    """Returns the mean of the worst share of returns, at least one of them."""
    if not returns:
        return 0.0
    worst = sorted(returns)[: max(1, int(alpha * len(returns)))]
    return sum(worst) / len(worst)


def read_turns(paths: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """Yields the turns in files that `--save-run` wrote. A folder stands for all its files.

    Raises:
        SetupError: A file is missing or a line is not a turn.
    """
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise errors.SetupError(f"{path} has no *.jsonl files. Name the folder that --save-run wrote.")
        for file in files:
            yield from _read_file(file)


def _read_file(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise errors.SetupError(f"{file} cannot be read: {error}.") from error
    for line_number, line in enumerate(lines, 1):
        try:
            turn = json.loads(line)
            turn["episode"], turn["tick"], turn["rewards"], turn["deltas"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise errors.SetupError(f"Line {line_number} of {file} is not a turn: {error!r:.80}.") from error
        yield turn


def analyze(turns: Iterable[Mapping[str, Any]], top: int = 5) -> dict[str, Any]:
    """Summarizes turns per episode, and the decisions of the curator.

    Args:
        turns: Turns from `read_turns`.
        top: Number of the most common delta targets to list.
    """
    episodes: dict[int, dict[str, Any]] = {}
    outcomes: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    events: Counter[str] = Counter()
    num_turns = 0
    for turn in turns:
        num_turns += 1
        _add_turn(episodes.setdefault(turn["episode"], _new_episode()), turn)
        events.update(str(event["kind"]) for event in turn.get("events", ()))
        for delta in turn["deltas"]:
            outcomes[delta["outcome"]] += 1
            kinds[delta["delta"]["kind"]] += 1
            targets[_get_target(delta)] += 1
    rows = [{"episode": episode, **_summarize_episode(totals)} for episode, totals in sorted(episodes.items())]
    return {
        "episodes": rows,
        "turns": num_turns,
        "mean_ticks": sum(row["ticks"] for row in rows) / max(1, len(rows)),
        "mean_reward": sum(row["reward"] for row in rows) / max(1, len(rows)),
        "updates_per_turn": sum(outcomes.values()) / max(1, num_turns),
        "verdicts": dict(outcomes),
        "kinds": dict(kinds),
        "top_targets": targets.most_common(top),
        "events": dict(events),
    }


def _new_episode() -> dict[str, Any]:
    return {"turns": 0, "ticks": 0, "reward": 0.0, "damage": 0.0, "cause": None, "deltas": 0, "said": [], "lost": []}


def _add_turn(episode: dict[str, Any], turn: Mapping[str, Any]) -> None:
    rewards = turn["rewards"]
    episode["turns"] += 1
    episode["ticks"], episode["cause"] = turn["tick"], turn.get("cause")
    episode["reward"] += rewards.get("external", 0.0)
    episode["damage"] -= rewards.get("damage", 0.0)
    episode["deltas"] += len(turn["deltas"])
    episode["said"].append(turn.get("forecast", 0.0))
    episode["lost"].append(rewards.get("damage", 0.0) < 0)


def _summarize_episode(episode: Mapping[str, Any]) -> dict[str, Any]:
    """Adds forecast metrics for the turn itself. The metrics of the run look further ahead."""
    calibration = compute_calibration(list(zip(episode["said"], episode["lost"], strict=True)))
    row = {name: value for name, value in episode.items() if name not in ("said", "lost")}
    row |= {"reward": round(episode["reward"], 3), "damage": round(episode["damage"], 3)}
    return {**row, "auroc": round(calibration.auroc, 3)}


def _get_target(delta: Mapping[str, Any]) -> str:
    """Returns the section of a delta, or the bullet that it names."""
    change = delta["delta"]
    ids = change.get("ids") or delta.get("ids") or [""]
    return str(change.get("section") or str(ids[0]).partition("-")[0] or "?")
