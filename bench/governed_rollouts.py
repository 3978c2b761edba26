"""Simulated rollouts in a world that moves: false rollbacks and harmful promotions, beside the former method.

One run is a rollout with the default shares: 200 measurements per hour, at least four hours per step, an update every
hour, 48 hours at most. The former method pooled all measurements of each arm over all steps and took them as
independent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from atoll.governed import statistics
from atoll.governed.rollout import shadow_result, state

ALPHA = 0.05
MARGIN = 0.1  # standard deviations
NUM_ENTITIES = 2000
PER_HOUR = 200
STEP_HOURS = 4
MAX_HOURS = 48
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class World:
    """Measurements with noise of standard deviation 1; higher is better.

    Attributes:
        effect: Effect of the candidate.
        drift: Change of the mean per hour.
        cycle: Amplitude of a daily cycle.
        entity_deviation: Standard deviation of the means of entities.
        num_active: Number of entities that report; few entities report often.
    """

    effect: float = 0.0
    drift: float = 0.0
    cycle: float = 0.0
    entity_deviation: float = 0.0
    num_active: int = NUM_ENTITIES


CASES: Mapping[str, World] = {
    "A/A": World(),
    "A/A, drift up 0.03 per hour": World(drift=0.03),
    "A/A, drift down 0.03 per hour": World(drift=-0.03),
    "A/A, daily cycle of 1": World(cycle=1.0),
    "A/A, 300 entities that differ by 1": World(entity_deviation=1.0, num_active=300),
    "harm 0.1": World(effect=-0.1),
    "harm 0.1, drift up": World(effect=-0.1, drift=0.03),
    "harm 0.1, drift down": World(effect=-0.1, drift=-0.03),
    "harm 0.1, daily cycle": World(effect=-0.1, cycle=1.0),
    "harm 0.1, 300 entities that differ by 1": World(effect=-0.1, entity_deviation=1.0, num_active=300),
    "harm 0.3": World(effect=-0.3),
    "harm 0.3, drift up": World(effect=-0.3, drift=0.03),
    "harm 0.3, drift down": World(effect=-0.3, drift=-0.03),
    "harm 0.3, daily cycle": World(effect=-0.3, cycle=1.0),
    "harm 0.3, 300 entities that differ by 1": World(effect=-0.3, entity_deviation=1.0, num_active=300),
}


def former_evidence(rollout: state.RolloutState) -> statistics.Evidence:
    """Returns the evidence of the pooled comparison."""
    arms = rollout.moments("score", "baseline"), rollout.moments("score", "candidate")
    return statistics.compare_means(*arms, alpha=ALPHA, expected=rollout.plan.expected)


def new_evidence(rollout: state.RolloutState) -> statistics.Evidence:
    return rollout.evidence("score")


def simulate(world: World, seed: int, get_evidence: Callable[[state.RolloutState], statistics.Evidence]) -> str:
    """Returns the end of one rollout: rolled_back, full, or canary if it has not ended after `MAX_HOURS`."""
    rng = np.random.default_rng(seed)
    guardrail = shadow_result.Guardrail("score", MARGIN)
    plan = state.RolloutPlan([guardrail], min_samples=20)
    rollout = state.RolloutState("k", 1, f"p{seed}", "agent", f"p{seed}", 1, plan, START, stage="canary")
    means = rng.normal(0, 1, world.num_active) * world.entity_deviation
    names = (f"e{index}" for index in range(world.num_active))
    buckets = np.array([state.compute_bucket(rollout.salt, "k", name) for name in names])
    hours_in_step = 0
    for hour in range(MAX_HOURS):
        measured = _measure(world, rng, hour, rollout.share, means, buckets)
        if get_evidence is former_evidence:
            rollout = _add_moments(rollout, measured)
        else:
            rollout = rollout.with_measurements(_make_measurements(hour, *measured))
        evidence = get_evidence(rollout)
        if guardrail.is_breached(evidence.interval):
            return "rolled_back"
        hours_in_step += 1
        has_exposure = rollout.count_new("score") >= plan.min_samples
        if hours_in_step < STEP_HOURS or not has_exposure:
            continue
        if rollout.step + 1 < len(plan.shares):
            rollout, hours_in_step = rollout.move_to("canary", START, "next", step=rollout.step + 1), 0
        elif guardrail.is_satisfied(evidence.interval):
            return "full"
    return "canary"


def _measure(world: World, rng: Any, hour: int, share: float, means: Any, buckets: Any) -> tuple[Any, Any, Any]:
    """Returns entities, values, and whether each entity is treated."""
    entities = rng.integers(0, world.num_active, PER_HOUR)
    hours = hour + np.sort(rng.random(PER_HOUR))
    is_treated = buckets[entities] < share
    levels = world.drift * hours + world.cycle * np.sin(2 * np.pi * hours / 24) + world.effect * is_treated
    return entities, rng.normal(size=PER_HOUR) + levels + means[entities], is_treated


def _make_measurements(hour: int, entities: Any, values: Any, is_treated: Any) -> list[state.Measurement]:
    timestamp = START + timedelta(hours=hour)
    rows = zip(entities.tolist(), values.tolist(), is_treated.tolist(), strict=True)
    return [
        state.Measurement("score", "candidate" if treated else "baseline", f"e{entity}", value, timestamp)
        for entity, value, treated in rows
    ]


def _add_moments(rollout: state.RolloutState, measured: tuple[Any, Any, Any]) -> state.RolloutState:
    """Adds measurements to the pooled moments only, which is all that the former method used."""
    _, values, is_treated = measured
    arms = {}
    for arm, chosen in (("baseline", values[~is_treated]), ("candidate", values[is_treated])):
        total = rollout.moments("score", arm)
        if len(chosen):
            total.merge(statistics.Moments(len(chosen), float(chosen.mean()), float(chosen.var() * len(chosen))))
        arms[arm] = total.to_data()
    return replace(rollout, arms={"score": arms})


def run_cases(num_runs: int) -> list[list[object]]:
    """Returns a row for each case: shares of rollbacks and promotions of the former and the new method."""
    rows: list[list[object]] = []
    for name, world in CASES.items():
        row: list[object] = [name]
        for get_evidence in (former_evidence, new_evidence):
            ends = [simulate(world, seed, get_evidence) for seed in range(num_runs)]
            row += [ends.count("rolled_back") / num_runs, ends.count("full") / num_runs]
        rows.append(row)
    return rows
