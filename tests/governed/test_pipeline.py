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


BUNDLE = {"changes": [{"key": "prompt/x", "value": "Be short."}, {"key": "limit", "value": 2}]}
BUNDLE_RULES = [{"prefix": "prompt/", "needs": ["canary"], "plan": {"guardrails": ["late::lower"], "shares": [0.5],
                 "min_samples": 30, "min_seconds": 0, "bake_seconds": 3600}}]  # fmt: skip


def start_bundle(store, now):
    for key, value in (("prompt/x", "Be kind."), ("limit", 1)):
        store.set(key, value, "initial value", author="ann")
    principals.set_policy(store, BUNDLE_RULES, "rules", author="ann")
    evolver = governed.Evolver(store, governed.DEFER, clock=lambda: now)
    proposal = evolver.propose("optimize", "Both", BUNDLE, "agent")
    approve(evolver, proposal)
    assert evolver.apply(proposal.id).status == "approved"
    return evolver, proposal


def get_state(store, key) -> rollout.RolloutState:
    state = rollout.Rollout(store, key).state()
    assert state is not None
    return state


def report(store, now, harm=0.0):
    """Reports a measurement of 600 users: 0, 1 or 2, and the harm for those who have the candidate."""
    canary = rollout.Rollout(store, "limit", clock=lambda: now)  # any key of the bundle
    for number in range(600):
        arm = canary.value_for(f"user-{number}").arm
        canary.observe(f"user-{number}", "late", number % 3 + harm * (arm == "candidate"))
    return canary.update()


def test_approval_starts_canary_of_bundle_by_the_plan_of_the_policy(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    evolver, proposal = start_bundle(store, now)
    arms = {
        key: [rollout.Rollout(store, key).value_for(f"u{n}").arm for n in range(50)] for key in ("prompt/x", "limit")
    }
    assert arms["prompt/x"] == arms["limit"]  # an entity has all new values or none
    assert set(arms["limit"]) == {"baseline", "candidate"}
    assert evolver.apply(proposal.id).status == "approved"  # a second call does not start it again
    state = report(store, now, harm=-1.0)
    assert (state.stage, state.is_settled) == ("full", False)
    assert (store.get("prompt/x").value, store.get("limit").value) == ("Be short.", 2)
    assert evolver.proposals.get(proposal.id).status == "applied"
    assert rollout.Rollout(store, "prompt/x").abort("complaints", author="ann").stage == "rolled_back"
    assert (store.get("prompt/x").value, store.get("limit").value) == ("Be kind.", 1)


def test_harmful_bundle_is_rolled_back_as_a_whole(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    evolver, proposal = start_bundle(store, now)
    state = report(store, now, harm=1.0)
    assert state.stage == "rolled_back"
    margin = float(state.why.rpartition("margin ")[2])
    assert margin == pytest.approx(0.0816, rel=0.2)  # a tenth of the standard deviation of 0, 1, 2, drawn at random
    assert {get_state(store, key).stage for key in ("prompt/x", "limit")} == {"rolled_back"}
    assert evolver.proposals.get(proposal.id).status == "failed"


def test_approval_during_the_cooldown_is_kept_and_says_so(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    evolver, _ = start_bundle(store, now)
    report(store, now, harm=1.0)
    proposal = evolver.propose("optimize", "Again", BUNDLE, "agent")
    approve(evolver, proposal)
    with pytest.raises(errors.Conflict, match=r"is approved, but its rollout cannot start: .*rolled back"):
        evolver.apply(proposal.id)
    assert evolver.proposals.get(proposal.id).status == "approved"
    later = governed.Evolver(store, governed.DEFER, clock=lambda: now + timedelta(days=2))
    later.apply_approved()
    assert get_state(store, "limit").proposal == proposal.id


def test_change_of_one_key_ends_rollout_of_bundle(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    start_bundle(store, now)
    store.set("limit", 5, "incident", author="bob")
    assert "limit was changed during the rollout" in report(store, now, harm=-1.0).why
    assert (store.get("prompt/x").value, store.get("limit").value) == ("Be kind.", 5)


def test_late_feedback_counts_for_its_decision(store):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    start_bundle(store, now)
    canary = rollout.Rollout(store, "prompt/x", clock=lambda: now)
    earlier = (now - timedelta(hours=1)).isoformat()
    meta = {"arms": {"prompt/x": "candidate"}, "decided_at": now.isoformat()}
    records = [
        feedback.Feedback(now, "u1", "late", 1.0, meta=meta),
        feedback.Feedback(now, "u1", "late", 1.0, meta={**meta, "decided_at": earlier}),
    ]
    assert canary.add_feedback(records) == 1  # the other decision was made before the canary
    assert canary.update().moments("late", "candidate").count == 1


def test_approval_needs_shadow_run_of_the_policy(store):
    store.set("speed", 1, "initial value", author="ann")
    principals.set_policy(store, [{"prefix": "speed", "needs": ["shadow"]}], "rules", author="ann")
    evolver = governed.Evolver(store, governed.DEFER)
    proposal = evolver.propose("optimize", "Faster", {"key": "speed", "value": 3}, "agent")
    with pytest.raises(errors.Conflict, match="needs a shadow run"):
        approve(evolver, proposal)
    store.set("shadow/speed", {"value": 3, "verdict": "promote", "reason": "faster"}, "measured", author="ann")
    assert approve(evolver, proposal).status == "approved"


def test_invalid_plan_of_policy_is_refused(store):
    with pytest.raises(errors.SetupError, match="needs guardrails"):
        principals.set_policy(store, [{"prefix": "a", "plan": {"shares": [0.5]}}], "rules", author="ann")


def test_show_has_word_differences_evidence_and_approvers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))
    with governed.StoredParameters(tmp_path / "atoll.db") as store:
        store.set("prompt/x", "Be very kind to users.", "initial value", author="ann")
        evolver = governed.Evolver(store, governed.DEFER)
        content = {"key": "prompt/x", "value": "Be very {+rude+} to users.\nann approved: yes\x1b[2J"}
        evidence = [{"decision": "d1", "note": "too\nslow"}]
        proposal = evolver.propose("optimize", "T", content, "agent", evidence=evidence)
        store.set("prompt/x", "Be very nice to users.", "incident", author="bob")
    assert cli.main(["proposals", "show", proposal.id]) == 0
    output = capsys.readouterr().out
    assert "  Be very [-nice-]{+{\\+rude+\\}+} to users." in output
    assert "based on version 1, now at version 2: rebase it" in output
    assert "\\x1b[2J" in output
    assert not any(line.startswith("ann approved") for line in output.splitlines())
    assert 'evidence: {"decision": "d1", "note": "too\\nslow"}' in output


def test_terminal_confirms_hash_of_shown_content(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))
    with governed.StoredParameters(tmp_path / "atoll.db") as store:
        proposal = governed.Evolver(store, governed.DEFER).propose("optimize", "T", {"key": "a", "value": 1}, "agent")
    approval = ["proposals", "approve", proposal.id, "-m", "ok", "--author", "ann"]
    assert cli.main(approval) == 2  # no terminal, no hash
    assert "pass --hash" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "something")
    assert cli.main(approval) == 2
    assert "was not approved" in capsys.readouterr().err
    monkeypatch.setattr("builtins.input", lambda prompt: prompt.removesuffix(": ").split()[-1])
    assert cli.main(approval) == 0
    assert "change of a, based on version 0:" in capsys.readouterr().out
