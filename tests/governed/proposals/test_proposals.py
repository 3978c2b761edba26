"""A proposal waits for somebody else, is bound to its content, and is carried out once (G82 to G88, 4.5)."""

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
from atoll.testing import assertions

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
def desk(store: MemoryParameters, clock: Clock) -> Proposals:
    return Proposals(store, clock=clock)


def submitted(desk: Proposals, content: Mapping[str, Any] = CONTENT, author: str = "agent") -> Proposal:
    return desk.submit("optimize", "Go faster", content, author, rationale="it is slow")


def test_proposal_survives_restart(desk: Proposals, store: MemoryParameters, clock: Clock) -> None:  # G105
    made = submitted(desk)
    assert Proposals(store, clock=clock).list("pending") == [made]


def test_approval_records_name_and_reason(desk: Proposals) -> None:
    done = desk.decide(submitted(desk).id, "ann", approve=True, reason="measured")
    assert done.status == "approved"
    assert [(each.by, each.reason) for each in done.approvals] == [("ann", "measured")]
    for by, reason in (("", "why"), ("ann", " ")):
        with pytest.raises(errors.SetupError, match="needs a reason and a name"):
            desk.decide(submitted(desk).id, by, approve=True, reason=reason)


@pytest.mark.parametrize("name", ["agent", "Agent", " agent ", "AGENT"])
def test_author_cannot_approve(desk: Proposals, name: str) -> None:  # G83
    made = submitted(desk)
    with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
        desk.decide(made.id, name, approve=True, reason="I like it")
    assert desk.get(made.id).status == "pending"


def test_second_decision_is_a_conflict(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=False, reason="no")
    with pytest.raises(AlreadyDecided, match="is rejected, not pending"):
        desk.decide(made.id, "bob", approve=True, reason="yes")


def test_edit_voids_approvals(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="fine")
    edited = desk.edit(made.id, {"key": "speed", "value": 4}, "agent", "better")
    assert (edited.status, edited.reviews) == ("pending", ())
    with pytest.raises(AlreadyDecided, match="was edited after you read it"):
        desk.decide(made.id, "bob", approve=True, reason="fine", content_hash=made.content_hash)
    with pytest.raises(AlreadyDecided, match="not approved"):
        desk.apply(made.id, lambda each: "never")


def test_editor_cannot_approve(desk: Proposals) -> None:
    made = submitted(desk)
    desk.edit(made.id, {"key": "speed", "value": 4}, "ann", "better")
    with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
        desk.decide(made.id, "ann", approve=True, reason="mine")


def test_author_cannot_approve_after_edit_by_another(desk: Proposals) -> None:
    made = submitted(desk)
    desk.edit(made.id, CONTENT, "helper", "same words")
    for name in ("agent", "helper"):
        with pytest.raises(AlreadyDecided, match="authors cannot approve their own"):
            desk.decide(made.id, name, approve=True, reason="mine")


@pytest.mark.parametrize("name", ["ag\u200bent", "\uff41gent", "age\u00adnt", "agent\ufe0f", "POLICY"])
def test_lookalike_of_author_name_cannot_approve(desk: Proposals, name: str) -> None:
    made = submitted(desk)
    with pytest.raises(AlreadyDecided):
        desk.decide(made.id, name, approve=True, reason="I like it")


@pytest.mark.parametrize("name", ["\u0430gent", "a\nb", "\u200b"])
def test_invalid_names_are_rejected(desk: Proposals, name: str) -> None:
    with pytest.raises(errors.SetupError):
        desk.decide(submitted(desk).id, name, approve=True, reason="I like it")


def test_proposal_cannot_be_edited_while_applying(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")

    def carry_out(each: Proposal) -> str:
        with pytest.raises(AlreadyDecided, match="is applying"):
            desk.edit(made.id, {"key": "speed", "value": 99}, "agent", "quickly")
        return "speed@1"

    assert desk.apply(made.id, carry_out).status == "applied"


def test_apply_after_crash_uses_same_token(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")
    tokens: list[str] = []

    def carry_out(each: Proposal) -> str:
        tokens.append(each.token)
        if len(tokens) == 1:
            raise errors.StoreFailed("the disk is full")
        return "done"

    with pytest.raises(errors.StoreFailed):
        desk.apply(made.id, carry_out)
    assert desk.get(made.id).status == "applying"
    desk.apply(made.id, carry_out)
    assert tokens[0] == tokens[1]


def test_close_cannot_approve(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(quorum={"medium": 2}))
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")
    statuses: list[Any] = ["approved", "applied", "pending"]
    for status in statuses:
        with pytest.raises(errors.SetupError, match="cannot be closed as"):
            desk.close(made.id, status, "agent", "me")
    with pytest.raises(AlreadyDecided):
        desk.auto_approve(made.id, "please")
    with pytest.raises(errors.SetupError, match="no risk"):
        desk.submit("optimize", "x", CONTENT, "agent", risk="nonsense")  # type: ignore[arg-type]


def test_unreadable_proposal_does_not_hide_others(desk: Proposals, store: MemoryParameters) -> None:
    made = submitted(desk)
    store.set("proposals/odd", 5, "by hand", author="ann")
    assert desk.list() == [made]


def test_quorum_needs_different_approvers(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(quorum={"high": 2}))
    made = desk.submit("new_tool", "A tool", {"name": "x"}, "agent")
    assert desk.decide(made.id, "ann", approve=True, reason="ok").status == "pending"
    with pytest.raises(AlreadyDecided, match="has already decided"):
        desk.decide(made.id, "Ann", approve=True, reason="ok again")
    assert desk.decide(made.id, "bob", approve=True, reason="ok").status == "approved"


def test_only_named_approvers_decide(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(approvers=("ann",)))
    with pytest.raises(AlreadyDecided, match="not one of the approvers"):
        desk.decide(submitted(desk).id, "bob", approve=True, reason="ok")


def test_undecided_proposal_expires(desk: Proposals, clock: Clock) -> None:
    made = submitted(desk)
    clock.at += timedelta(days=7)
    assert desk.get(made.id).status == "expired"
    with pytest.raises(AlreadyDecided, match="expired at"):
        desk.decide(made.id, "ann", approve=True, reason="late")


def test_proposal_is_applied_once(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")
    done: list[str] = []

    def carry_out(each: Proposal) -> str:
        done.append(each.id)
        return "speed@3"

    assert desk.apply(made.id, carry_out).outcome == "speed@3"
    with pytest.raises(AlreadyDecided, match="is applied"):
        desk.apply(made.id, carry_out)
    assert done == [made.id]


def test_failed_application_is_recorded(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")

    def carry_out(each: Proposal) -> str:
        raise ValueError("no such key")

    assert (desk.apply(made.id, carry_out).status, desk.get(made.id).outcome) == ("failed", "ValueError: no such key")


def test_one_of_many_concurrent_decisions_wins(desk: Proposals) -> None:
    made = submitted(desk)

    def decide(number: int) -> bool:
        try:
            desk.decide(made.id, f"person {number}", approve=number % 2 == 0, reason="so")
        except AlreadyDecided:
            return False
        return True

    assert sum(assertions.run_concurrently(decide, 8)) == 1
    assert len(desk.get(made.id).reviews) == 1


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
    desk: Proposals, store: MemoryParameters, content: Mapping[str, Any]
) -> None:  # G98
    with pytest.raises(SecretFound, match="looks like it contains a secret"):
        submitted(desk, content)
    assert list(store.changes()) == []


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": object()}, {"x": {1: {2}}}, {"x": "y" * 1_100_000}])
def test_invalid_content_is_rejected(desk: Proposals, content: Mapping[str, Any]) -> None:
    with pytest.raises(errors.SetupError):
        submitted(desk, content)


def test_every_step_is_in_the_audit_log(desk: Proposals, store: MemoryParameters) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="measured twice")
    desk.apply(made.id, lambda each: "speed@3")
    said = [(each.author, each.reason) for each in store.changes()]
    assert said == [
        ("agent", "proposed: Go faster"),
        ("ann", "approved: measured twice"),
        ("ann", "applying"),
        ("ann", "applied: speed@3"),
    ]


def _never(proposal: Proposal) -> bool:
    time.sleep(5)
    return True


class TestDeciders:
    def test_missing_decider_rejects_everything(self, desk: Proposals) -> None:  # G83
        assert run_decider(desk, submitted(desk), None).status == "rejected"

    def test_defer_leaves_proposal_pending(self, desk: Proposals) -> None:
        assert run_decider(desk, submitted(desk), approval.DEFER).status == "pending"

    @pytest.mark.parametrize(("answer", "status"), [(True, "approved"), (False, "rejected"), (1, "rejected")])
    def test_function_decides(self, desk: Proposals, answer: Any, status: str) -> None:
        assert run_decider(desk, submitted(desk), Decider("ann", lambda each: answer)).status == status

    def test_exception_of_decider_rejects(self, desk: Proposals) -> None:
        def approve(proposal: Proposal) -> bool:
            raise RuntimeError("no network")

        done = run_decider(desk, submitted(desk), Decider("ann", approve))
        assert (done.status, done.reviews[0].reason) == ("rejected", "ann failed: RuntimeError: no network")

    def test_timeout_of_decider_rejects(self, desk: Proposals) -> None:
        done = run_decider(desk, submitted(desk), Decider("ann", _never, seconds=0.05))
        assert (done.status, "within 0.05 seconds" in done.reviews[0].reason) == ("rejected", True)

    def test_author_cannot_be_decider(self, desk: Proposals) -> None:
        assert run_decider(desk, submitted(desk), Decider("agent", lambda each: True)).status == "rejected"

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
        desk = Proposals(store, Policy(auto_approve_read_only=True))
        assert run_decider(desk, desk.submit(kind, "A skill", content, "agent"), None).status == status


class TestWebhook:
    def message(self, made: Proposal, clock: Clock, **changes: Any) -> bytes:
        said = {
            "proposal": made.id,
            "content_hash": made.content_hash,
            "by": "ann",
            "approve": True,
            "reason": "looked at it",
            "nonce": "n1",
            "at": clock().isoformat(),
        }
        return json.dumps({**said, **changes}).encode()

    def test_signed_message_decides(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        made = submitted(desk)
        inbox = approval.SignedDecisions(desk, store, KEY, clock=clock)
        body = self.message(made, clock)
        assert inbox.accept(body, f"sha256={approval.sign(body, KEY)}").status == "approved"

    def test_repeated_message_is_rejected(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        inbox = approval.SignedDecisions(desk, store, KEY, clock=clock)
        first, second = submitted(desk), submitted(desk)
        body = self.message(first, clock)
        inbox.accept(body, approval.sign(body, KEY))
        for each in (body, self.message(second, clock)):  # the nonce was used, whatever it says now
            with pytest.raises(approval.InvalidSignature, match="was already used"):
                inbox.accept(each, approval.sign(each, KEY))
        assert desk.get(second.id).status == "pending"

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
        self, desk: Proposals, store: MemoryParameters, clock: Clock, changes: dict[str, Any]
    ) -> None:
        made = submitted(desk)
        body = self.message(made, clock, **changes)
        with pytest.raises(approval.InvalidSignature):
            approval.SignedDecisions(desk, store, KEY, clock=clock).accept(body, approval.sign(body, KEY))
        assert desk.get(made.id).status == "pending"

    def test_changed_byte_breaks_signature(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        made = submitted(desk)
        body = self.message(made, clock)
        signature = approval.sign(body, KEY)
        for place in range(0, len(body), 7):
            forged = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises(approval.InvalidSignature):
                approval.SignedDecisions(desk, store, KEY, clock=clock).accept(forged, signature)
        assert desk.get(made.id).status == "pending"

    def test_short_webhook_key_is_rejected(self, desk: Proposals, store: MemoryParameters) -> None:
        with pytest.raises(errors.SetupError, match="at least 16"):
            approval.SignedDecisions(desk, store, b"short")
