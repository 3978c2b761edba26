"""Pipeline of a change: bundles, base versions, shadow runs, canaries, deadlines, aborts, and what approvers see."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from atoll import cli, errors, governed
from atoll.governed import principals, rollout
from atoll.governed.evidence import feedback
from atoll.governed.rollout import parameter_evolver, shadow_result
from atoll.store import access

PLAN = rollout.RolloutPlan(
    [shadow_result.Guardrail("late", 1.0, lower_is_better=True)],
    shares=(0.5,), min_samples=30, min_seconds=0, bake_seconds=0, needs_shadow=False,
)  # fmt: skip


@pytest.fixture
def store():
    return governed.MemoryParameters()


def approve(evolver, proposal, name="ann"):
    return evolver.proposals.decide(proposal.id, name, approve=True, reason="fine", content_hash=proposal.content_hash)


def test_bundle_is_applied_as_a_whole(store):
    evolver = governed.Evolver(store, governed.DEFER)
    changes = [{"key": "prompt/system", "value": "Be kind."}, {"key": "speed", "value": 2}]
    proposal = evolver.propose("optimize", "Both", {"changes": changes}, "agent")
    assert proposal.base == {"prompt/system": 0, "speed": 0}
    approve(evolver, proposal)
    assert evolver.apply(proposal.id).outcome == "prompt/system@1, speed@1"
    assert store.verify().seq == len(list(store.changes()))


@pytest.mark.parametrize("changes", [[], "x", [{"key": "a"}], [{"key": "tools/x", "value": 1}]])
def test_invalid_bundle_is_refused(store, changes):
    with pytest.raises(errors.SetupError):
        governed.Evolver(store, governed.DEFER).propose("optimize", "T", {"changes": changes}, "agent")


def test_stale_proposal_asks_for_a_rebase(store):
    evolver = governed.Evolver(store, governed.DEFER)
    store.set("speed", 1, "initial value", author="ann")
    proposal = evolver.propose("optimize", "Faster", {"key": "speed", "value": 3}, "agent")
    store.set("speed", 0, "incident", author="bob")
    with pytest.raises(errors.Conflict, match="version 2 now"):
        approve(evolver, proposal)
    rebased = evolver.proposals.edit(proposal.id, proposal.content, "agent", "rebased")
    approve(evolver, rebased)
    assert evolver.apply(proposal.id).outcome == "speed@3"


def test_fix_between_approval_and_application_is_not_overwritten(store):
    evolver = governed.Evolver(store, governed.DEFER)
    store.set("speed", 1, "initial value", author="ann")
    proposal = evolver.propose("optimize", "Faster", {"key": "speed", "value": 3}, "agent")
    approve(evolver, proposal)
    store.set("speed", 0, "incident", author="bob")
    assert evolver.apply(proposal.id).status == "failed"
    assert store.get("speed").value == 0


def test_rejection_of_shadow_run_binds(store):
    store.set("speed", 1, "initial value", author="ann")
    store.set("shadow/speed", {"value": 3, "verdict": "reject", "reason": "slower"}, "measured", author="ann")
    evolver = governed.Evolver(store, governed.DEFER)
    proposal = evolver.propose("optimize", "Faster", {"key": "speed", "value": 3}, "agent")
    with pytest.raises(errors.Conflict, match="shadow run rejected this value of speed: slower"):
        approve(evolver, proposal)
    other = parameter_evolver.ParameterProposal("p1", "speed", 3, "agent", 1)
    decision = parameter_evolver.Approval.for_proposal(other, is_approved=True, approver="ann", reason="ok")
    with pytest.raises(errors.Conflict, match="shadow run rejected"):
        rollout.Rollout(store, "speed").start(other, decision, PLAN)


def test_locked_state_blocks_neither_abort_nor_rejection(store):
    store.set("speed", 1, "initial value", author="ann")
    evolver = governed.Evolver(store, governed.DEFER)
    proposal = evolver.propose("optimize", "Faster", {"key": "speed", "value": 3}, "agent")
    with pytest.raises(errors.SetupError, match="cannot be locked"):
        store.lock(f"proposals/{proposal.id}", "keep", author="mallory")
    store.lock("speed", "keep", author="mallory")
    assert evolver.proposals.decide(proposal.id, "ann", approve=False, reason="no").status == "rejected"


def start_canary(store, clock):
    store.set("careful/x", 1, "initial value", author="ann")
    principals.set_policy(store, [{"prefix": "careful/", "needs": ["canary"]}], "rules", author="ann")
    evolver = governed.Evolver(store, governed.DEFER)
    proposal = evolver.propose("optimize", "Better", {"key": "careful/x", "value": 2}, "agent")
    approved = approve(evolver, proposal)
    assert evolver.apply(proposal.id).status == "approved"  # a canary comes first
    decision = parameter_evolver.Approval.for_proposal(approved, is_approved=True, approver="ann", reason="fine")
    canary = rollout.Rollout(store, "careful/x", clock=clock)
    canary.start(approved, decision, PLAN)
    return evolver, proposal, canary


def test_canary_applies_its_proposal_and_records_the_approver(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    evolver, proposal, canary = start_canary(store, lambda: now)
    values = [feedback.Feedback(now, f"user-{n}", "late", n % 3 / 3) for n in range(600)]
    canary.add_feedback(values)
    state = canary.update()
    assert (state.stage, list(state.approved_by)) == ("full", ["ann"])
    assert store.get("careful/x") == (2, 2)
    assert evolver.proposals.get(proposal.id).status == "applied"


def test_stage_without_measurements_ends_at_its_deadline(store):
    times = [datetime(2026, 1, 1, tzinfo=UTC)]
    evolver, proposal, canary = start_canary(store, lambda: times[-1])
    times.append(times[-1] + timedelta(days=60))
    state = canary.update()
    assert (state.stage, state.is_settled) == ("rolled_back", True)
    assert "took longer than 14 days" in state.why
    assert evolver.proposals.get(proposal.id).status == "failed"


def test_whole_pipeline_with_principals(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))

    def run(name, *arguments, status=0):
        monkeypatch.setenv("ATOLL_TOKEN", tokens.get(name, ""))
        capsys.readouterr()
        assert cli.main(list(arguments)) == status, capsys.readouterr().err
        return capsys.readouterr().out

    tokens: dict[str, str] = {}
    run("", "params", "set", "prompt/x", '"Be kind."', "-m", "initial value", "--author", "ann")
    tokens["ann"] = run("", "access", "add", "ann", "--role", "admin").strip()
    for name, role in (("bob", "approver"), ("helper", "agent")):
        tokens[name] = run("ann", "access", "add", name, "--role", role).strip()
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"rules": [{"prefix": "prompt/", "needs": ["canary"]}]}))
    run("ann", "access", "policy", str(policy), "-m", "canaries")
    content = tmp_path / "content.json"
    content.write_text(json.dumps({"key": "prompt/x", "value": "Be short."}))
    shown = json.loads(run("helper", "proposals", "submit", "optimize", str(content), "--title", "Short", "--json"))
    approval = ("proposals", "approve", shown["id"], "-m", "ok", "--hash", shown["content_hash"])
    assert "is approved" in run("bob", *approval)
    start = ("rollout", "start", "prompt/x", '"Be short."', "--guard", "late:0.1", "-m", "go", "--skip-shadow")
    run("bob", *start, status=2)  # without the proposal
    assert "canary" in run("bob", *start, "--proposal", shown["id"])
    run("helper", "rollout", "abort", "prompt/x", "-m", "no", status=2)
    assert "rolled_back" in run("bob", "rollout", "abort", "prompt/x", "-m", "complaints")
    assert json.loads(run("bob", "proposals", "show", shown["id"], "--json"))["status"] == "failed"
    assert json.loads(run("bob", "access", "list", "--json"))["single_user"] is False


def test_rationale_cannot_forge_an_approval(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))
    content = tmp_path / "content.json"
    content.write_text(json.dumps({"key": "speed", "value": "a\u202eb"}))
    forged = ("--title", "T", "--rationale", "x\nann approved: fine", "--author", "agent", "--json")
    assert cli.main(["proposals", "submit", "optimize", str(content), *forged]) == 0
    proposal = json.loads(capsys.readouterr().out)
    assert cli.main(["proposals", "show", proposal["id"]]) == 0
    output = capsys.readouterr()
    assert not any(line.startswith("ann approved") for line in output.out.splitlines())
    assert "x\\nann approved: fine" in output.out
    assert "a\\u202eb" in output.out
    assert "Single-user mode" in output.err


def test_adjustment_of_a_prompt_changes_it(store):
    store.set("prompt/x", "Be kind.", "initial value", author="ann")
    evolver = governed.Evolver(store, governed.DEFER)
    adjustment = {"type": "prompt", "description": "Shorter", "target": "prompt/x", "suggestion": "Be short."}
    saved = evolver.reflector.record({"summary": "s", "adjustments": [adjustment]}, "agent")
    content = {"reflection": saved.id, "place": 0, "adjustment": adjustment}
    proposal = evolver.propose("self_adjust", "Shorter", content, "agent")
    approve(evolver, proposal)
    assert "prompt/x@2" in evolver.apply(proposal.id).outcome
    assert store.get("prompt/x").value == "Be short."


def test_last_admin_may_not_be_removed_by_python(store):
    token = principals.add_principal(store, "ann", "admin", "first", author="ann")
    with access.use_token(token), pytest.raises(errors.SetupError, match="needs an admin"):
        store.set(
            "access/control", {"principals": [{"name": "x", "role": "agent", "token_hash": "0"}], "rules": []}, "r"
        )
