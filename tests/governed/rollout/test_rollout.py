"""Rollouts: stages, sticky assignment, automatic rollback."""

import random
from datetime import UTC, datetime, timedelta

import hypothesis
import pytest
from hypothesis import strategies as st

from atoll import errors
from atoll.governed import MemoryParameters, rollout
from atoll.governed.errors import ParameterNotFound, ReasonRequired, VersionConflict
from atoll.governed.evidence import feedback
from atoll.governed.rollout import parameter_evolver, shadow_result

KEY = "rate"
GUARD = shadow_result.Guardrail("errors", 0.1, lower_is_better=True)
PLAN = rollout.RolloutPlan([GUARD], min_samples=30, min_seconds=3600)
PROMOTE = shadow_result.ShadowResult(sample_size=99, verdict="promote", reason="it gains")


class Clock:
    def __init__(self):
        self.now = datetime(2026, 4, 18, tzinfo=UTC)

    def __call__(self):
        return self.now

    def pass_hours(self, hours):
        self.now += timedelta(hours=hours)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    parameters = MemoryParameters()
    parameters.set(KEY, 1.0, "start")
    return parameters


def start_rollout(store, clock, plan=PLAN, *, value=2.0, id="p1", is_approved=True):
    canary = rollout.Rollout(store, KEY, clock=clock)
    proposal = parameter_evolver.ParameterProposal(id, KEY, value, "evolver", store.get(KEY).version)
    approval = parameter_evolver.Approval.for_proposal(
        proposal, is_approved=is_approved, approver="ann", reason="worth a try"
    )
    canary.start(proposal, approval, plan)
    return canary


def report_errors(canary, harm=0.0, count=4000, seed=0):
    """Reports errors of many entities, more for those with the candidate."""
    rng, state = random.Random(seed), canary.state()
    records = []
    for number in range(count):
        entity = f"e{number}"
        treated = rollout.is_treated(state.salt, KEY, entity, state.share)
        records.append(feedback.Feedback(canary._clock(), entity, "errors", rng.gauss(1 + harm * treated, 0.2)))
    canary.add_feedback(records)


def run_to_end(canary, clock, harm=0.0, limit=8):
    stages = []
    for number in range(limit):
        report_errors(canary, harm, seed=number)
        clock.pass_hours(2)
        state = canary.update()
        stages.append((state.stage, state.share))
        if state.stage in ("full", "rolled_back"):
            break
    return stages


def test_harmless_value_passes_all_stages(store, clock):  # spec 4.3, 10
    canary = start_rollout(store, clock)
    assert canary.state().stage == "proposed"
    canary.add_shadow_result(shadow_result.ShadowResult(reason="unclear"))
    assert canary.state().stage == "shadow"
    assert canary.add_shadow_result(PROMOTE).share == 0.01
    assert run_to_end(canary, clock) == [("canary", 0.05), ("canary", 0.1), ("canary", 0.25), ("full", 1.0)]
    assert store.get(KEY) == (2.0, 2)
    clock.pass_hours(30)
    assert canary.update().is_settled
    assert canary.update() == canary.state()


def test_harm_is_rolled_back_by_one_update(store, clock):  # spec 4.3, 10
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    report_errors(canary, harm=1.0)
    state = canary.update()
    assert (state.stage, state.is_settled) == ("rolled_back", True)
    assert "errors changed by" in state.why
    assert store.get(KEY) == (1.0, 1)
    assert canary.value_for("e1") == (1.0, "baseline")


def test_harm_after_full_rollout_is_rolled_back_on_locked_key(store, clock):  # G20, spec 4.3, 10
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    run_to_end(canary, clock)
    store.lock(KEY, "frozen for the holidays")
    for number in range(200):
        canary.observe(f"e{number}", "errors", 9.0, arm="candidate")
    assert canary.update().stage == "rolled_back"
    change = store.history(KEY)[-1]
    assert (change.value, change.kind, change.author) == (1.0, "rollback", "rollout")
    assert "guardrail breached" in change.reason
    assert store.get_lock(KEY) is not None


def test_locked_key_stays_in_canary(store, clock):
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    store.lock(KEY, "frozen")
    assert run_to_end(canary, clock, limit=5)[-1] == ("canary", 0.25)
    assert "frozen" in canary.state().why
    store.unlock(KEY, "continue")
    assert canary.update().stage == "full"


def test_external_change_ends_rollout(store, clock):
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    store.set(KEY, 7.0, "by hand")
    assert run_to_end(canary, clock)[-1] == ("rolled_back", 0.0)
    assert store.get(KEY) == (7.0, 2)


def test_rejecting_shadow_run_ends_rollout(store, clock):
    canary = start_rollout(store, clock)
    assert canary.add_shadow_result(shadow_result.ShadowResult(verdict="reject", reason="worse")).stage == "rolled_back"
    with pytest.raises(errors.Conflict, match="past its shadow"):
        canary.add_shadow_result(PROMOTE)


def test_stage_needs_min_samples_and_min_time(store, clock):
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    clock.pass_hours(9)
    assert canary.update().share == 0.01
    report_errors(canary)
    assert canary.update().share == 0.05
    report_errors(canary, seed=1)
    assert canary.update().share == 0.05


@hypothesis.given(st.text(max_size=20), st.text(max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_growing_share_keeps_treated_entities(key, entity, one, other):  # spec 4.3, 10
    less, more = sorted((one, other))
    hypothesis.assume(not any("\ud800" <= letter <= "\udfff" for letter in key + entity))
    if rollout.is_treated("salt", key, entity, less):
        assert rollout.is_treated("salt", key, entity, more)
    assert rollout.compute_bucket("salt", key, entity) == rollout.compute_bucket("salt", key, entity)


@pytest.mark.parametrize("share", [0.01, 0.25])
def test_treated_share_is_close_to_plan(share):
    treated = sum(rollout.is_treated("p1", KEY, f"e{n}", share) for n in range(20_000))
    assert treated == pytest.approx(20_000 * share, rel=0.15)


def test_entity_gets_same_value_in_other_process(store, clock):
    canary = start_rollout(store, clock, rollout.RolloutPlan([GUARD], shares=[0.5], needs_shadow=False))
    again = rollout.Rollout(store, KEY, clock=clock)
    served = {f"e{n}": canary.value_for(f"e{n}") for n in range(100)}
    assert served == {entity: again.value_for(entity) for entity in served}
    assert {value.value for value in served.values()} == {1.0, 2.0}


def test_rollout_survives_restart(store, clock):  # spec 4.3, 10
    start_rollout(store, clock).add_shadow_result(PROMOTE)
    for number in range(4):
        fresh = rollout.Rollout(store, KEY, clock=clock)
        report_errors(fresh, seed=number)
        clock.pass_hours(2)
        fresh.update()
    state = rollout.Rollout(store, KEY).state()
    assert state is not None
    assert state.stage == "full"


def test_concurrent_updates_both_count(store, clock):
    one = start_rollout(store, clock, rollout.RolloutPlan([GUARD], needs_shadow=False))
    other = rollout.Rollout(store, KEY, clock=clock)
    for canary in (one, other):
        for number in range(5):
            canary.observe(f"e{number}", "errors", 1.0, arm="candidate")
    one.update()
    assert other.update().moments("errors", "candidate").count == 10


def test_channel_feedback_is_counted_once(store, clock):
    canary = start_rollout(store, clock, rollout.RolloutPlan([GUARD], needs_shadow=False))
    channel = feedback.MemoryFeedback(clock=clock)
    clock.pass_hours(1)
    for number in range(8):
        channel.report(f"e{number}", "errors", 1.0, meta={"arm": "candidate"})
        channel.report(f"e{number}", "unguarded", 1.0)
    assert canary.update(channel).moments("errors", "candidate").count == 0  # too recent: counted by the next update
    for _ in range(3):
        clock.pass_hours(1)
        assert canary.update(channel).moments("errors", "candidate").count == 8


def test_every_stage_is_in_audit_log_with_reason(store, clock):  # spec 4.3, 10
    canary = start_rollout(store, clock)
    canary.add_shadow_result(PROMOTE)
    run_to_end(canary, clock)
    reasons = [change.reason for change in store.history(rollout.state_key(KEY))]
    assert reasons[:2] == ["worth a try", "shadow run of 99 pairs: it gains"]
    assert "on to 5%" in reasons[2]
    assert "all guardrails satisfied" in reasons[-1]


def test_rollback_starts_cooldown(store, clock):  # spec 4.3, 10
    start_rollout(store, clock).add_shadow_result(shadow_result.ShadowResult(verdict="reject", reason="worse"))
    with pytest.raises(errors.Conflict, match="Wait until"):
        start_rollout(store, clock, id="p2")
    clock.pass_hours(25)
    assert start_rollout(store, clock, id="p2").state().proposal == "p2"


def test_start_rejects_active_rollout_and_missing_approval(store, clock):
    with pytest.raises(errors.Conflict, match="rejected"):
        start_rollout(store, clock, is_approved=False)
    start_rollout(store, clock)
    with pytest.raises(errors.Conflict, match="is active"):
        start_rollout(store, clock, id="p2")


def test_start_rejects_other_version_or_key(store, clock):
    canary = rollout.Rollout(store, KEY, clock=clock)
    stale = parameter_evolver.ParameterProposal("p1", KEY, 2.0, "evolver", 0)
    with pytest.raises(VersionConflict):
        canary.start(
            stale, parameter_evolver.Approval.for_proposal(stale, is_approved=True, approver="ann", reason="ok"), PLAN
        )
    other = parameter_evolver.ParameterProposal("p1", "other", 2.0, "evolver")
    with pytest.raises(errors.SetupError, match="other"):
        canary.start(
            other, parameter_evolver.Approval.for_proposal(other, is_approved=True, approver="ann", reason="ok"), PLAN
        )
    missing = parameter_evolver.ParameterProposal("p1", "new", 2.0, "evolver")
    with pytest.raises(ParameterNotFound):
        rollout.Rollout(store, "new").start(
            missing,
            parameter_evolver.Approval.for_proposal(missing, is_approved=True, approver="ann", reason="ok"),
            PLAN,
        )


def test_abort_needs_reason(store, clock):
    canary = start_rollout(store, clock)
    with pytest.raises(ReasonRequired):
        canary.abort(" ", author="bob")
    assert canary.abort("I do not like it", author="bob").stage == "rolled_back"
    assert store.history(rollout.state_key(KEY))[-1].author == "bob"
    with pytest.raises(errors.Conflict, match="has ended"):
        canary.abort("again", author="bob")


def test_update_without_rollout_is_rejected(store, clock):
    with pytest.raises(errors.NotFound, match="Start one"):
        rollout.Rollout(store, KEY, clock=clock).update()
    assert rollout.Rollout(store, KEY).state() is None
    assert rollout.Rollout(store, KEY).value_for("e1") == (1.0, "baseline")


@pytest.mark.parametrize(
    "wrong", [{"guardrails": []}, {"shares": []}, {"shares": [0.5, 0.1]}, {"shares": [1.0]}, {"min_samples": -1}]
)
def test_invalid_plans_are_rejected(wrong):
    with pytest.raises(errors.SetupError):
        rollout.RolloutPlan(**{"guardrails": [GUARD], **wrong})


def test_harmless_value_is_rarely_rolled_back(clock):
    back = 0
    for seed in range(40):
        store = MemoryParameters()
        store.set(KEY, 1.0, "start")
        canary = start_rollout(
            store, clock, rollout.RolloutPlan([GUARD], shares=[0.1], needs_shadow=False, min_seconds=10**9)
        )
        rng = random.Random(seed)
        for _ in range(15):
            arms = ["candidate"] * 8 + ["baseline"] * 32
            drawn = [(rng.lognormvariate(0, 1), {"arm": arm}) for arm in arms]
            canary.add_feedback(feedback.Feedback(clock(), "e", "errors", value, meta=meta) for value, meta in drawn)
            if canary.update().stage == "rolled_back":
                back += 1
                break
    assert back <= 4
