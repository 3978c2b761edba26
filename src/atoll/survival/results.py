"""What lives were like, in the numbers that the command line adds to its JSON."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from atoll.candidate import JSON
from atoll.survival import measures

LEARNING_LIVES = 20  # before them nobody can be held to their forecasts
NUM_ACHIEVEMENTS = 22


def summed(lives: Sequence[Mapping[str, Any]], *, is_crafter: bool = False) -> dict[str, JSON]:
    """Sums lives up."""
    if not lives:
        return {}
    causes = Counter(life["cause"] for life in lives if life["cause"])
    later = lives[LEARNING_LIVES:] or lives
    found = measures.calibration([(said[0], bool(said[1])) for life in later for said in life["said"]])
    encounters = sum(life["encounters"] for life in lives)
    result: dict[str, JSON] = {
        "episodes": len(lives),
        "mean_ticks": fmean(life["ticks"] for life in lives),
        "mean_reward": fmean(life["reward"] for life in lives),
        "best_score": max(life["score"] for life in lives),
        "deaths": causes.total(),
        "death_causes": dict(causes.most_common()),
        "avoidance_rate": sum(life["avoided"] for life in lives) / encounters if encounters else 0.0,
        "coverage": fmean(life["coverage"] for life in lives),
        "information_gained": fmean(life["bits"] for life in lives),
        "brier_skill": found.brier_skill,
        "auroc": found.auroc,
        "calibration_error": found.ece,
        "fear_precision": fear_precision(lives, found),
        "policy_changes": sum(life["policy_changes"] for life in lives),
        "cvar_reward": measures.cvar([life["reward"] for life in lives]),
        "corrections": sum(life["corrections"] for life in lives),
    }
    told = [life["facts"] for life in lives if life.get("facts")]
    result |= {name: fmean(each[name] for each in told) for name in (told[0] if told else ())}
    return result | ({"crafter_score": crafter_score([life["unlocked"] for life in lives])} if is_crafter else {})


def fear_precision(lives: Sequence[Mapping[str, Any]], found: measures.Calibration) -> float:
    """Returns the share of what is feared that truly hurts; where no world tells, of the alarms that came true."""
    known = [life for life in lives if life["right"] is not None and life["feared"]]
    if not known:
        return found.precision
    right, feared = (sum(int(life[name]) for life in known) for name in ("right", "feared"))
    return right / feared


def crafter_score(unlocked: Sequence[Sequence[str]]) -> float:
    """Returns Crafter's score in per cent: exp(mean ln(1 + rate)) - 1 over the achievements' success rates."""
    counts = Counter(name for names in unlocked for name in set(names))
    rates = [100.0 * count / len(unlocked) for count in counts.values()]
    rates += [0.0] * (NUM_ACHIEVEMENTS - len(rates))
    return math.exp(fmean(math.log1p(rate) for rate in rates)) - 1.0
