"""Proposals: approval, content hashes, deciders, signed messages, single application (G82 to G88, 4.5)."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from atoll import errors
from atoll.governed import approval
from atoll.governed.approval import AlreadyDecided, Decider, Policy, Proposal, Proposals, SecretFound, run_decider
from atoll.governed.parameters import MemoryParameters
from atoll.testing import fakes

CONTENT: Mapping[str, Any] = {"key": "speed", "value": 3}
KEY = b"0123456789abcdef0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> MemoryParameters:
    return MemoryParameters()


@pytest.fixture
def proposals(store: MemoryParameters, clock: Clock) -> Proposals:
    return Proposals(store, clock=clock)


def submit(proposals: Proposals, content: Mapping[str, Any] = CONTENT, author: str = "agent") -> Proposal:
    return proposals.submit("optimize", "Go faster", content, author, rationale="it is slow")


def approve(proposals: Proposals, proposal_id: str, name: str, reason: str) -> Proposal:
    content_hash = proposals.get(proposal_id).content_hash
    return proposals.decide(proposal_id, name, approve=True, reason=reason, content_hash=content_hash)


def test_approval_needs_hash(proposals: Proposals) -> None:
    with pytest.raises(errors.SetupError, match="needs the hash"):
        proposals.decide(submit(proposals).id, "ann", approve=True, reason="measured")


def test_proposal_survives_restart(proposals: Proposals, store: MemoryParameters, clock: Clock) -> None:  # G105
    proposal = submit(proposals)
    assert Proposals(store, clock=clock).list("pending") == [proposal]


def test_approval_records_name_and_reason(proposals: Proposals) -> None:
    done = approve(proposals, submit(proposals).id, "ann", "measured")
    assert done.status == "approved"
    assert [(review.by, review.reason) for review in done.approvals] == [("ann", "measured")]
    for by, reason in (("", "why"), ("ann", " ")):
        with pytest.raises(errors.SetupError, match="needs a reason and a name"):
            approve(proposals, submit(proposals).id, by, reason)


@pytest.mark.parametrize("name", ["agent", "Agent", " agent ", "AGENT"])
def test_author_cannot_approve(proposals: Proposals, name: str) -> None:  # G83
    proposal = submit(proposals)
    with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
        approve(proposals, proposal.id, name, "I like it")
    assert proposals.get(proposal.id).status == "pending"


def test_second_decision_is_a_conflict(proposals: Proposals) -> None:
    proposal = submit(proposals)
    proposals.decide(proposal.id, "ann", approve=False, reason="no")
    with pytest.raises(AlreadyDecided, match="is rejected, not pending"):
        approve(proposals, proposal.id, "bob", "yes")


def test_edit_voids_approvals(proposals: Proposals) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "fine")
    edited = proposals.edit(proposal.id, {"key": "speed", "value": 4}, "agent", "better")
    assert (edited.status, edited.reviews) == ("pending", ())
    with pytest.raises(AlreadyDecided, match="was edited after you read it"):
        proposals.decide(proposal.id, "bob", approve=True, reason="fine", content_hash=proposal.content_hash)
    with pytest.raises(AlreadyDecided, match="not approved"):
        proposals.apply(proposal.id, lambda proposal: "never")


def test_editor_cannot_approve(proposals: Proposals) -> None:
    proposal = submit(proposals)
    proposals.edit(proposal.id, {"key": "speed", "value": 4}, "ann", "better")
    with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
        approve(proposals, proposal.id, "ann", "mine")


def test_author_cannot_approve_after_edit_by_another(proposals: Proposals) -> None:
    proposal = submit(proposals)
    proposals.edit(proposal.id, CONTENT, "helper", "same words")
    for name in ("agent", "helper"):
        with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
            approve(proposals, proposal.id, name, "mine")


@pytest.mark.parametrize("name", ["ag\u200bent", "\uff41gent", "age\u00adnt", "agent\ufe0f", "POLICY"])
def test_lookalike_of_author_name_cannot_approve(proposals: Proposals, name: str) -> None:
    proposal = submit(proposals)
    with pytest.raises(AlreadyDecided):
        approve(proposals, proposal.id, name, "I like it")


@pytest.mark.parametrize("name", ["\u0430gent", "a\nb", "\u200b"])
def test_invalid_names_are_rejected(proposals: Proposals, name: str) -> None:
    with pytest.raises(errors.SetupError):
        approve(proposals, submit(proposals).id, name, "I like it")


def test_proposal_cannot_be_edited_while_applying(proposals: Proposals) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "ok")

    def apply_change(applied: Proposal) -> str:
        with pytest.raises(AlreadyDecided, match="is applying"):
            proposals.edit(proposal.id, {"key": "speed", "value": 99}, "agent", "quickly")
        return "speed@1"

    assert proposals.apply(proposal.id, apply_change).status == "applied"


def test_apply_after_crash_uses_same_token(proposals: Proposals) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "ok")
    tokens: list[str] = []

    def apply_change(applied: Proposal) -> str:
        tokens.append(applied.token)
        if len(tokens) == 1:
            raise errors.StoreFailed("the disk is full")
        return "done"

    with pytest.raises(errors.StoreFailed):
        proposals.apply(proposal.id, apply_change)
    assert proposals.get(proposal.id).status == "applying"
    proposals.apply(proposal.id, apply_change)
    assert tokens[0] == tokens[1]


def test_close_cannot_approve(store: MemoryParameters) -> None:
    proposals = Proposals(store, Policy(quorum={"medium": 2}))
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "ok")
    statuses: list[Any] = ["approved", "applied", "pending"]
    for status in statuses:
        with pytest.raises(errors.SetupError, match="cannot be closed as"):
            proposals.close(proposal.id, status, "agent", "me")
    with pytest.raises(AlreadyDecided):
        proposals.auto_approve(proposal.id, "please")
    with pytest.raises(errors.SetupError, match="is unknown"):
        proposals.submit("optimize", "x", CONTENT, "agent", risk="nonsense")  # type: ignore[arg-type]


def test_unreadable_proposal_does_not_hide_others(proposals: Proposals, store: MemoryParameters) -> None:
    proposal = submit(proposals)
    store.set("proposals/odd", 5, "by hand", author="ann")
    assert proposals.list() == [proposal]


def test_quorum_needs_different_approvers(store: MemoryParameters) -> None:
    proposals = Proposals(store, Policy(quorum={"high": 2}))
    proposal = proposals.submit("new_tool", "A tool", {"name": "x"}, "agent")
    assert approve(proposals, proposal.id, "ann", "ok").status == "pending"
    with pytest.raises(AlreadyDecided, match="has already decided"):
        approve(proposals, proposal.id, "Ann", "ok again")
    assert approve(proposals, proposal.id, "bob", "ok").status == "approved"


def test_only_named_approvers_decide(store: MemoryParameters) -> None:
    proposals = Proposals(store, Policy(approvers=("ann",)))
    with pytest.raises(AlreadyDecided, match="not one of the approvers"):
        approve(proposals, submit(proposals).id, "bob", "ok")


def test_undecided_proposal_expires(proposals: Proposals, clock: Clock) -> None:
    proposal = submit(proposals)
    clock.at += timedelta(days=7)
    assert proposals.get(proposal.id).status == "expired"
    with pytest.raises(AlreadyDecided, match="expired at"):
        approve(proposals, proposal.id, "ann", "late")


def test_proposal_is_applied_once(proposals: Proposals) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "ok")
    done: list[str] = []

    def apply_change(applied: Proposal) -> str:
        done.append(applied.id)
        return "speed@3"

    assert proposals.apply(proposal.id, apply_change).outcome == "speed@3"
    with pytest.raises(AlreadyDecided, match="is applied"):
        proposals.apply(proposal.id, apply_change)
    assert done == [proposal.id]


def test_failed_application_is_recorded(proposals: Proposals) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "ok")

    def apply_change(applied: Proposal) -> str:
        raise ValueError("no such key")

    assert (proposals.apply(proposal.id, apply_change).status, proposals.get(proposal.id).outcome) == (
        "failed",
        "ValueError: no such key",
    )


def test_one_of_many_concurrent_decisions_wins(proposals: Proposals) -> None:
    proposal = submit(proposals)

    def decide(number: int) -> bool:
        try:
            proposals.decide(
                proposal.id,
                f"person {number}",
                approve=number % 2 == 0,
                reason="so",
                content_hash=proposal.content_hash,
            )
        except AlreadyDecided:
            return False
        return True

    assert sum(fakes.run_concurrently(decide, 8)) == 1
    assert len(proposals.get(proposal.id).reviews) == 1


@pytest.mark.parametrize(
    "content",
    [
        {"script": "curl -H 'x: " + "AKIA" + "IOSFODNN7EXAMPLE'"},
        {"deep": [{"password": "hunter2secret"}]},
        {"password": ["hunter2hunter2"]},
        {"key": "db/password", "value": "hunter2hunter2"},
        {"name": "PASSWORD", "value": "hunter2hunter2"},
        {"script": "use " + "glpat-" + "abcdefghij0123456789"},
        {"script": "use " + "sk_live_" + "abcdefghij0123456789"},
        {"script": "AK\u200bIA" + "IOSFODNN7EXAMPLE"},
    ],
)
def test_secret_is_rejected_and_nothing_is_written(
    proposals: Proposals, store: MemoryParameters, content: Mapping[str, Any]
) -> None:  # G98
    with pytest.raises(SecretFound, match="looks like a secret"):
        submit(proposals, content)
    assert list(store.changes()) == []


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": object()}, {"x": {1: {2}}}, {"x": "y" * 1_100_000}])
def test_invalid_content_is_rejected(proposals: Proposals, content: Mapping[str, Any]) -> None:
    with pytest.raises(errors.SetupError):
        submit(proposals, content)


def test_every_step_is_in_the_audit_log(proposals: Proposals, store: MemoryParameters) -> None:
    proposal = submit(proposals)
    approve(proposals, proposal.id, "ann", "measured twice")
    proposals.apply(proposal.id, lambda proposal: "speed@3")
    reasons = [(change.author, change.reason) for change in store.changes()]
    assert reasons == [
        ("agent", "proposed: Go faster"),
        ("ann", "approved: measured twice"),
        ("ann", "applying"),
        ("ann", "applied: speed@3"),
    ]


def _never(proposal: Proposal) -> bool:
    time.sleep(5)
    return True


class TestDeciders:
    def test_missing_decider_rejects_everything(self, proposals: Proposals) -> None:  # G83
        assert run_decider(proposals, submit(proposals), None).status == "rejected"

    def test_defer_leaves_proposal_pending(self, proposals: Proposals) -> None:
        assert run_decider(proposals, submit(proposals), approval.DEFER).status == "pending"

    @pytest.mark.parametrize(("answer", "status"), [(True, "approved"), (False, "rejected"), (1, "rejected")])
    def test_function_decides(self, proposals: Proposals, answer: Any, status: str) -> None:
        assert run_decider(proposals, submit(proposals), Decider("ann", lambda proposal: answer)).status == status

    def test_exception_of_decider_rejects(self, proposals: Proposals) -> None:
        def approve(proposal: Proposal) -> bool:
            raise RuntimeError("no network")

        done = run_decider(proposals, submit(proposals), Decider("ann", approve))
        assert (done.status, done.reviews[0].reason) == ("rejected", "ann failed: RuntimeError: no network")

    def test_timeout_of_decider_rejects(self, proposals: Proposals) -> None:
        done = run_decider(proposals, submit(proposals), Decider("ann", _never, seconds=0.05))
        assert (done.status, "within 0.05 seconds" in done.reviews[0].reason) == ("rejected", True)

    def test_author_cannot_be_decider(self, proposals: Proposals) -> None:
        assert run_decider(proposals, submit(proposals), Decider("agent", lambda proposal: True)).status == "rejected"

    @pytest.mark.parametrize(
        ("kind", "content", "status"),
        [
            ("new_skill", {"name": "greet", "prompt": "Say hello."}, "approved"),
            ("new_skill", {"name": "greet", "scripts": {"a.sh": "echo"}}, "rejected"),
            ("new_skill", {"name": "greet", "required_tools": ["shell"]}, "rejected"),
            ("new_tool", {"name": "greet"}, "rejected"),
            ("self_adjust", {"lesson": "x"}, "rejected"),
        ],
    )
    def test_only_text_skills_are_auto_approved(
        self, store: MemoryParameters, kind: Any, content: Mapping[str, Any], status: str
    ) -> None:  # G84
        proposals = Proposals(store, Policy(auto_approve_read_only=True))
        assert run_decider(proposals, proposals.submit(kind, "A skill", content, "agent"), None).status == status


class TestWebhook:
    def message(self, proposal: Proposal, clock: Clock, **changes: Any) -> bytes:
        fields = {
            "proposal": proposal.id,
            "content_hash": proposal.content_hash,
            "by": "ann",
            "approve": True,
            "reason": "looked at it",
            "nonce": "n1",
            "at": clock().isoformat(),
        }
        return json.dumps({**fields, **changes}).encode()

    def test_signed_message_decides(self, proposals: Proposals, store: MemoryParameters, clock: Clock) -> None:
        proposal = submit(proposals)
        inbox = approval.SignedDecisions(proposals, store, KEY, clock=clock)
        body = self.message(proposal, clock)
        assert inbox.accept(body, f"sha256={approval.sign(body, KEY)}").status == "approved"

    def test_repeated_message_is_rejected(self, proposals: Proposals, store: MemoryParameters, clock: Clock) -> None:
        inbox = approval.SignedDecisions(proposals, store, KEY, clock=clock)
        first, second = submit(proposals), submit(proposals)
        body = self.message(first, clock)
        inbox.accept(body, approval.sign(body, KEY))
        for message in (body, self.message(second, clock)):  # the nonce is used, with any content
            with pytest.raises(approval.InvalidSignature, match="was already used"):
                inbox.accept(message, approval.sign(message, KEY))
        assert proposals.get(second.id).status == "pending"

    @pytest.mark.parametrize(
        "changes",
        [
            {"at": "2029-12-31T23:00:00+00:00"},
            {"at": "2030-01-01T01:00:00+00:00"},
            {"at": "soon"},
            {"approve": "yes"},
            {"by": ""},
            {"nonce": 5},
        ],
    )
    def test_old_or_invalid_message_changes_nothing(
        self, proposals: Proposals, store: MemoryParameters, clock: Clock, changes: dict[str, Any]
    ) -> None:
        proposal = submit(proposals)
        body = self.message(proposal, clock, **changes)
        with pytest.raises(approval.InvalidSignature):
            approval.SignedDecisions(proposals, store, KEY, clock=clock).accept(body, approval.sign(body, KEY))
        assert proposals.get(proposal.id).status == "pending"

    def test_changed_byte_breaks_signature(self, proposals: Proposals, store: MemoryParameters, clock: Clock) -> None:
        proposal = submit(proposals)
        body = self.message(proposal, clock)
        signature = approval.sign(body, KEY)
        for number in range(0, len(body), 7):
            forged = body[:number] + bytes([body[number] ^ 1]) + body[number + 1 :]
            with pytest.raises(approval.InvalidSignature):
                approval.SignedDecisions(proposals, store, KEY, clock=clock).accept(forged, signature)
        assert proposals.get(proposal.id).status == "pending"

    def test_short_webhook_key_is_rejected(self, proposals: Proposals, store: MemoryParameters) -> None:
        with pytest.raises(errors.SetupError, match="at least 16"):
            approval.SignedDecisions(proposals, store, b"short")
