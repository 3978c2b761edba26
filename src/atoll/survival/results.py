"""What lives were like, in the numbers that the command line adds to its JSON."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from atoll.candidate import JSON
from atoll.survival import measures

NUM_LEARNING_EPISODES = 20  # before them nobody can be held to their forecasts
NUM_ACHIEVEMENTS = 22


def sum_episodes(episodes: Sequence[Mapping[str, Any]], *, is_crafter: bool = False) -> dict[str, JSON]:
    """Sums lives up."""
    if not episodes:
        return {}
    causes = Counter(episode["cause"] for episode in episodes if episode["cause"])
    later = episodes[NUM_LEARNING_EPISODES:] or episodes
    calibration = measures.compute_calibration([(pair[0], bool(pair[1])) for episode in later for pair in episode["said"]])
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
        "cvar_reward": measures.compute_cvar([episode["reward"] for episode in episodes]),
        "corrections": sum(episode["corrections"] for episode in episodes),
    }
    world_metrics = [episode["facts"] for episode in episodes if episode.get("facts")]
    result |= {name: fmean(metrics[name] for metrics in world_metrics) for name in (world_metrics[0] if world_metrics else ())}
    return result | ({"crafter_score": compute_crafter_score([episode["unlocked"] for episode in episodes])} if is_crafter else {})


def compute_fear_precision(episodes: Sequence[Mapping[str, Any]], calibration: measures.Calibration) -> float:
    """Returns the share of what is feared that truly hurts; where no world tells, of the alarms that came true."""
    measured = [episode for episode in episodes if episode["right"] is not None and episode["feared"]]
    if not measured:
        return calibration.precision
    correct, feared = (sum(int(episode[name]) for episode in measured) for name in ("right", "feared"))
    return correct / feared


def compute_crafter_score(unlocked: Sequence[Sequence[str]]) -> float:
    """Returns Crafter's score in per cent: exp(mean ln(1 + rate)) - 1 over the achievements' success rates."""
    counts = Counter(name for names in unlocked for name in set(names))
    rates = [100.0 * count / len(unlocked) for count in counts.values()]
    rates += [0.0] * (NUM_ACHIEVEMENTS - len(rates))
    return math.exp(fmean(math.log1p(rate) for rate in rates)) - 1.0
