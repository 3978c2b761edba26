"""Statistics of saved turns: metrics per episode and changes of the playbook."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.survival import forecast_metrics


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
    calibration = forecast_metrics.compute_calibration(list(zip(episode["said"], episode["lost"], strict=True)))
    row = {name: value for name, value in episode.items() if name not in ("said", "lost")}
    row |= {"reward": round(episode["reward"], 3), "damage": round(episode["damage"], 3)}
    return {**row, "auroc": round(calibration.auroc, 3)}


def _get_target(delta: Mapping[str, Any]) -> str:
    """Returns the section of a delta, or the bullet that it names."""
    change = delta["delta"]
    ids = change.get("ids") or delta.get("ids") or [""]
    return str(change.get("section") or str(ids[0]).partition("-")[0] or "?")
