"""Stratified comparison: drift, clusters, bounded state, and the sample ratio test of rollouts."""

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from atoll import governed
from atoll.governed import rollout
from atoll.governed.evidence import feedback
from atoll.governed.rollout import parameter_evolver, shadow_result, state, strata

START = datetime(2026, 1, 1, tzinfo=UTC)


def compare(values):
    """Adds (step, block, arm, entity, value) and returns the evidence."""
    comparison = strata.StratifiedComparison()
    for step, block, arm, entity, value in values:
        comparison.add(step, block, arm, strata.compute_group(entity), value)
    return comparison, comparison.get_evidence(500, 1.0, alpha=0.05, expected=200)


def draw(effect=0.0, drift=0.0, *, seed=0, num_entities=2000, shares=(0.1, 0.5)):
    rng = random.Random(seed)
    for step, share in enumerate(shares):
        for block in range(10 * step, 10 * step + 10):
            for _ in range(200):
                entity = rng.randrange(num_entities)
                is_treated = entity / num_entities < share
                value = rng.gauss(0, 1) + drift * block + effect * is_treated
                yield step, block, "candidate" if is_treated else "baseline", f"e{entity}", value


@pytest.mark.parametrize("drift", [0.0, 0.1, -0.1])
def test_drift_does_not_look_like_an_effect(drift):
    for seed in range(5):
        _, evidence = compare(draw(drift=drift, seed=seed))
        assert evidence.interval.low < 0 < evidence.interval.high
        assert abs(evidence.estimate) < 0.15


@pytest.mark.parametrize("drift", [0.0, 0.1, -0.1])
def test_effect_is_found_under_drift(drift):
    _, evidence = compare(draw(effect=-0.5, drift=drift))
    assert evidence.interval.high < 0
    assert evidence.estimate == pytest.approx(-0.5, abs=0.15)


def test_repeated_measurements_of_one_entity_are_one_cluster():
    rng = random.Random(1)
    means = {f"e{index}": rng.gauss(0, 1) for index in range(40)}
    values = [
        (0, block, "candidate" if index < 20 else "baseline", f"e{index}", means[f"e{index}"])
        for block in range(200)
        for index in range(40)
    ]
    _, evidence = compare(values)
    assert evidence.interval.high - evidence.interval.low > 0.6  # 8,000 independent values would give 0.1


def test_few_treated_entities_decide_nothing():
    values = [(0, 0, arm, f"{arm}{n % 3}", 9.0 * (arm == "candidate")) for n in range(300) for arm in
              ("candidate", "baseline")]  # fmt: skip
    assert compare(values)[1].interval == (float("-inf"), float("inf"))


def test_state_survives_json_and_stays_small():
    comparison, evidence = compare(draw(shares=(0.1, 0.3, 0.5)))
    data = json.loads(json.dumps(comparison.to_data()))
    loaded = strata.StratifiedComparison.from_data(data)
    assert loaded.get_evidence(500, 1.0, alpha=0.05, expected=200) == evidence
    assert len(json.dumps(data)) < 20_000


def test_wrong_split_is_rolled_back():
    store = governed.MemoryParameters()
    store.set("speed", 1, "initial value", author="ann")
    now = [START]
    canary = rollout.Rollout(store, "speed", clock=lambda: now[0])
    proposal = parameter_evolver.ParameterProposal("p1", "speed", 2, "agent", 1)
    decision = parameter_evolver.Approval.for_proposal(proposal, is_approved=True, approver="ann", reason="ok")
    guardrail = shadow_result.Guardrail("late", 1.0, lower_is_better=True)
    canary.start(proposal, decision, rollout.RolloutPlan([guardrail], shares=(0.5,), needs_shadow=False))
    # Half of the treated entities never report.
    entities = [f"e{n}" for n in range(1000) if n % 2 or not state.is_treated("p1", "speed", f"e{n}", 0.5)]
    canary.add_feedback(feedback.Feedback(START, entity, "late", 1.0) for entity in entities)
    now[0] += timedelta(hours=1)
    ended = canary.update()
    assert ended.stage == "rolled_back"
    assert "the split is wrong" in ended.why
