"""ParameterEvolver and proposers: only approved values are applied."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from atoll import errors, llm, testing
from atoll.governed import MemoryParameters
from atoll.governed.errors import ReasonRequired, VersionConflict
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.rollout import parameter_evolver, proposers

START = datetime(2026, 4, 18, tzinfo=UTC)


def make_evidence(*values, metric="m", **rest):
    return [Feedback(START + timedelta(hours=n), "e", metric, value, **rest) for n, value in enumerate(values)]


@pytest.fixture
def store():
    subject = MemoryParameters()
    subject.set("rate", 0.5, "start")
    return subject


def propose_half(key, result):
    return proposers.Suggestion(0.25, 0.9)


def make_evolver(store, audit=None):
    return parameter_evolver.ParameterEvolver(store, propose_half, audit_log=None if audit is None else audit.append)


def approve(proposal, by="ann", reason="it pays", is_approved=True):
    return parameter_evolver.Approval.for_proposal(proposal, is_approved=is_approved, approver=by, reason=reason)


def test_propose_changes_nothing(store):  # G33
    assert make_evolver(store).propose("rate", []) == (0.25, 0.9)
    assert store.get("rate") == (0.5, 1)


def test_confidence_must_be_between_0_and_1(store):  # G33
    wild = parameter_evolver.ParameterEvolver(store, lambda key, result: proposers.Suggestion(1, 7.0))
    assert wild.propose("rate", []).confidence == 1.0


def test_parameter_evolver_needs_store_and_proposer(store):  # G36
    for parts in ((None, propose_half), (store, None)):
        with pytest.raises(errors.SetupError, match="needs a"):
            parameter_evolver.ParameterEvolver(*parts)


def test_approved_value_becomes_version_with_reason_and_author(store):  # G34
    audit: list[str] = []
    evolver = make_evolver(store, audit)
    proposal = evolver.make_proposal("rate", 0.25, proposal_id="p1")
    assert evolver.apply(proposal, approve(proposal)) == parameter_evolver.ApplyResult(2)
    change = store.history("rate")[-1]
    assert (change.value, change.reason, change.author) == (0.25, "it pays", "evolver")
    assert "approved by ann" in audit[0]


def test_rejected_value_is_audited_and_changes_nothing(store):  # G34, G35
    audit: list[str] = []
    evolver = make_evolver(store, audit)
    proposal = evolver.make_proposal("rate", 0.25, proposal_id="p1")
    result = evolver.apply(proposal, approve(proposal, is_approved=False, reason="too bold"))
    assert (result.version, result.refusal) == (None, "ann rejected it: too bold")
    assert store.get("rate") == (0.5, 1)
    assert "too bold" in audit[0]


def test_audit_log_cannot_be_turned_off(store, caplog):  # G35
    caplog.set_level("INFO")
    make_evolver(store).decide("rate", 0.25, False, "no", approver="ann")
    assert "ann rejected it: no" in caplog.text


def test_empty_reason_is_rejected(store):  # G34
    with pytest.raises(ReasonRequired):
        make_evolver(store).decide("rate", 0.25, True, " ", approver="ann")
    assert store.get("rate") == (0.5, 1)


def test_proposal_for_older_version_is_a_conflict(store):  # G37 beyond
    evolver = make_evolver(store)
    proposal = evolver.make_proposal("rate", 0.25, proposal_id="p1")
    store.set("rate", 0.7, "meanwhile")
    with pytest.raises(VersionConflict):
        evolver.apply(proposal, approve(proposal))


def test_applying_twice_makes_one_version(store):
    evolver = make_evolver(store)
    proposal = evolver.make_proposal("rate", 0.25, proposal_id="p1")
    assert evolver.apply(proposal, approve(proposal)) == evolver.apply(proposal, approve(proposal))
    assert store.get("rate").version == 2


def test_approval_must_match_content_and_approver(store):
    evolver = make_evolver(store)
    proposal = evolver.make_proposal("rate", 0.25, proposal_id="p1")
    edited = parameter_evolver.ParameterProposal("p1", "rate", 0.9, "evolver", 1)
    other = parameter_evolver.ParameterProposal("p2", "rate", 0.25, "evolver", 1)
    assert "edited after" in evolver.apply(edited, approve(proposal)).refusal
    assert "for proposal p1" in evolver.apply(other, approve(proposal)).refusal
    assert "cannot approve it" in evolver.apply(proposal, approve(proposal, by="evolver")).refusal
    assert "no approver" in evolver.apply(proposal, approve(proposal, by=" ")).refusal
    assert store.get("rate") == (0.5, 1)


def test_several_proposals_can_be_pending(store):  # G37
    evolver = make_evolver(store)
    store.set("other", 1, "start")
    proposals = [evolver.make_proposal(key, 9, proposal_id=key) for key in ("rate", "other", "new")]
    assert [evolver.apply(proposal, approve(proposal)).version for proposal in proposals] == [2, 2, 1]


def test_ema_follows_measurements():
    result = proposers.EMAProposer(alpha=0.5)("k", make_evidence(0, 8, 8))
    assert result.value == 6.0
    assert 0 < result.confidence < 0.5
    assert proposers.EMAProposer(alpha=0.5, get_initial_value=lambda key: 4.0)("k", make_evidence(8)).value == 6.0
    assert proposers.EMAProposer(alpha=1.0)("k", make_evidence(0, 8, confidence=0.5)).value == 4.0


def test_pid_moves_metric_to_target():
    values = {"rate": 0.0}
    pid = proposers.PIDProposer(values.__getitem__, target=3.0, kp=0.2, high=10.0)
    for _ in range(40):  # the metric is twice the parameter
        values["rate"] = pid("rate", make_evidence(2 * values["rate"])).value
    assert values["rate"] == pytest.approx(1.5, abs=0.01)


def test_pid_respects_bounds_without_windup():
    pid = proposers.PIDProposer(lambda key: 1.0, target=100.0, ki=1.0, low=0.0, high=2.0)
    assert pid("k", make_evidence(*[0.0] * 50)).value == 2.0
    assert pid("k", make_evidence(*[0.0] * 50, 101.0)).value < 2.0


def test_thompson_prefers_best_value_and_explores():
    paid = [Feedback(START, "e", "m", 1.0 + 0.01 * n, meta={"value": "a"}) for n in range(30)]
    paid += [Feedback(START, "e", "m", 0.01 * n, meta={"value": "b"}) for n in range(30)]
    result = proposers.ThompsonProposer(["a", "b"])("k", paid)
    assert result == proposers.ThompsonProposer(["a", "b"])("k", paid)
    assert result.value == "a"
    assert result.confidence > 0.9
    early = {proposers.ThompsonProposer(["a", "b"], seed=seed)("k", paid[::30]).value for seed in range(20)}
    assert early == {"a", "b"}


@pytest.mark.parametrize(
    "proposer", [proposers.EMAProposer(metric="x"), proposers.ThompsonProposer([1, 2], metric="x")]
)
def test_proposers_need_evidence(proposer):
    with pytest.raises(errors.SetupError, match="No evidence for metric x"):
        proposer("k", make_evidence(1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: proposers.EMAProposer(alpha=0),
        lambda: proposers.PIDProposer(float, 1.0, low=2, high=1),
        lambda: proposers.ThompsonProposer([1]),
    ],
)
def test_proposers_reject_invalid_settings(wrong):
    with pytest.raises(errors.SetupError):
        wrong()


def test_llm_proposer_shows_current_value_and_evidence(store):
    answer = {"value": 0.4, "confidence": 0.7, "rationale": "late deliveries fell"}
    model = testing.ScriptedLLM(lambda step, call, prompt: f"```json\n{json.dumps(answer)}\n```")
    proposer = proposers.LLMProposer(model, lambda key: store.get(key).value, description="Penalty for risk.")
    assert proposer("rate", make_evidence(1.0, 2.0, metric="late")) == (0.4, 0.7)
    assert proposer.rationale == "late deliveries fell"


def test_llm_proposer_rejects_invalid_value(store):
    def check(value):
        if not isinstance(value, float):
            raise ValueError("it is not a number")

    model = testing.ScriptedLLM(lambda step, call, prompt: '{"value": "much", "confidence": 1}')
    proposer = proposers.LLMProposer(model, lambda key: 1, check=check)
    with pytest.raises(llm.InvalidResponse, match="not a number"):
        proposer("rate", make_evidence(1.0))
