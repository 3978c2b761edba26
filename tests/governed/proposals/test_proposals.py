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


def test_a_proposal_is_there_after_a_restart(desk: Proposals, store: MemoryParameters, clock: Clock) -> None:  # G105
    made = submitted(desk)
    assert Proposals(store, clock=clock).list("pending") == [made]


def test_an_approval_is_a_decision_with_a_name_and_a_reason(desk: Proposals) -> None:
    done = desk.decide(submitted(desk).id, "ann", approve=True, reason="measured")
    assert done.status == "approved"
    assert [(each.by, each.reason) for each in done.approvals] == [("ann", "measured")]
    for by, reason in (("", "why"), ("ann", " ")):
        with pytest.raises(errors.SetupError, match="needs a reason and a name"):
            desk.decide(submitted(desk).id, by, approve=True, reason=reason)


@pytest.mark.parametrize("name", ["agent", "Agent", " agent ", "AGENT"])
def test_nobody_approves_a_change_of_their_own(desk: Proposals, name: str) -> None:  # G83
    made = submitted(desk)
    with pytest.raises(AlreadyDecided, match="a change of their own"):
        desk.decide(made.id, name, approve=True, reason="I like it")
    assert desk.get(made.id).status == "pending"


def test_a_second_decision_is_a_conflict(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=False, reason="no")
    with pytest.raises(AlreadyDecided, match="is rejected, not pending"):
        desk.decide(made.id, "bob", approve=True, reason="yes")


def test_an_edit_takes_all_approvals_back(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="fine")
    edited = desk.edit(made.id, {"key": "speed", "value": 4}, "agent", "better")
    assert (edited.status, edited.reviews) == ("pending", ())
    with pytest.raises(AlreadyDecided, match="was edited since"):
        desk.decide(made.id, "bob", approve=True, reason="fine", content_hash=made.content_hash)
    with pytest.raises(AlreadyDecided, match="not approved"):
        desk.apply(made.id, lambda each: "never")


def test_who_edits_a_proposal_cannot_approve_it(desk: Proposals) -> None:
    made = submitted(desk)
    desk.edit(made.id, {"key": "speed", "value": 4}, "ann", "better")
    with pytest.raises(AlreadyDecided, match="a change of their own"):
        desk.decide(made.id, "ann", approve=True, reason="mine")


def test_who_wrote_it_cannot_approve_it_after_somebody_elses_edit(desk: Proposals) -> None:
    made = submitted(desk)
    desk.edit(made.id, CONTENT, "helper", "same words")
    for name in ("agent", "helper"):
        with pytest.raises(AlreadyDecided, match="a change of their own"):
            desk.decide(made.id, name, approve=True, reason="mine")


@pytest.mark.parametrize("name", ["ag\u200bent", "\uff41gent", "age\u00adnt", "agent\ufe0f", "POLICY"])
def test_a_name_that_looks_like_the_authors_is_the_authors(desk: Proposals, name: str) -> None:
    made = submitted(desk)
    with pytest.raises(AlreadyDecided):
        desk.decide(made.id, name, approve=True, reason="I like it")


@pytest.mark.parametrize("name", ["\u0430gent", "a\nb", "\u200b"])
def test_a_name_that_nobody_has_is_refused(desk: Proposals, name: str) -> None:
    with pytest.raises(errors.SetupError):
        desk.decide(submitted(desk).id, name, approve=True, reason="I like it")


def test_what_is_carried_out_cannot_be_edited_meanwhile(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")

    def carry_out(each: Proposal) -> str:
        with pytest.raises(AlreadyDecided, match="is applying"):
            desk.edit(made.id, {"key": "speed", "value": 99}, "agent", "quickly")
        return "speed@1"

    assert desk.apply(made.id, carry_out).status == "applied"


def test_after_a_crash_it_is_carried_out_again_with_the_same_token(desk: Proposals) -> None:
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


def test_nothing_but_a_decision_makes_it_approved(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(quorum={"medium": 2}))
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")
    statuses: list[Any] = ["approved", "applied", "pending"]
    for status in statuses:
        with pytest.raises(errors.SetupError, match="is not closed as"):
            desk.close(made.id, status, "agent", "me")
    with pytest.raises(AlreadyDecided):
        desk.auto_approve(made.id, "please")
    with pytest.raises(errors.SetupError, match="no risk"):
        desk.submit("optimize", "x", CONTENT, "agent", risk="nonsense")  # type: ignore[arg-type]


def test_a_proposal_that_somebody_spoilt_hides_no_other(desk: Proposals, store: MemoryParameters) -> None:
    made = submitted(desk)
    store.set("proposals/odd", 5, "by hand", author="ann")
    assert desk.list() == [made]


def test_a_quorum_needs_different_people(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(quorum={"high": 2}))
    made = desk.submit("new_tool", "A tool", {"name": "x"}, "agent")
    assert desk.decide(made.id, "ann", approve=True, reason="ok").status == "pending"
    with pytest.raises(AlreadyDecided, match="has decided already"):
        desk.decide(made.id, "Ann", approve=True, reason="ok again")
    assert desk.decide(made.id, "bob", approve=True, reason="ok").status == "approved"


def test_only_named_approvers_decide(store: MemoryParameters) -> None:
    desk = Proposals(store, Policy(approvers=("ann",)))
    with pytest.raises(AlreadyDecided, match="none of its approvers"):
        desk.decide(submitted(desk).id, "bob", approve=True, reason="ok")


def test_nobody_decides_in_time_and_it_is_expired(desk: Proposals, clock: Clock) -> None:
    made = submitted(desk)
    clock.at += timedelta(days=7)
    assert desk.get(made.id).status == "expired"
    with pytest.raises(AlreadyDecided, match="is expired"):
        desk.decide(made.id, "ann", approve=True, reason="late")


def test_it_is_carried_out_once(desk: Proposals) -> None:
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


def test_what_cannot_be_carried_out_failed(desk: Proposals) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="ok")

    def carry_out(each: Proposal) -> str:
        raise ValueError("no such key")

    assert (desk.apply(made.id, carry_out).status, desk.get(made.id).outcome) == ("failed", "ValueError: no such key")


def test_of_many_who_decide_at_once_one_is_heard(desk: Proposals) -> None:
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
def test_a_secret_is_refused_and_nothing_is_written(
    desk: Proposals, store: MemoryParameters, content: Mapping[str, Any]
) -> None:  # G98
    with pytest.raises(SecretFound, match="looks like a secret"):
        submitted(desk, content)
    assert list(store.changes()) == []


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": object()}, {"x": {1: {2}}}, {"x": "y" * 1_100_000}])
def test_content_that_cannot_be_kept_is_refused(desk: Proposals, content: Mapping[str, Any]) -> None:
    with pytest.raises(errors.SetupError):
        submitted(desk, content)


def test_every_word_is_in_the_audit_log(desk: Proposals, store: MemoryParameters) -> None:
    made = submitted(desk)
    desk.decide(made.id, "ann", approve=True, reason="measured twice")
    desk.apply(made.id, lambda each: "speed@3")
    said = [(each.author, each.reason) for each in store.changes()]
    assert said == [
        ("agent", "proposed: Go faster"),
        ("ann", "approved: measured twice"),
        ("ann", "is carried out"),
        ("ann", "applied: speed@3"),
    ]


def _never(proposal: Proposal) -> bool:
    time.sleep(5)
    return True


class TestDeciders:
    def test_without_one_everything_is_rejected(self, desk: Proposals) -> None:  # G83
        assert run_decider(desk, submitted(desk), None).status == "rejected"

    def test_later_leaves_it_pending(self, desk: Proposals) -> None:
        assert run_decider(desk, submitted(desk), approval.DEFER).status == "pending"

    @pytest.mark.parametrize(("answer", "status"), [(True, "approved"), (False, "rejected"), (1, "rejected")])
    def test_a_function_decides(self, desk: Proposals, answer: Any, status: str) -> None:
        assert run_decider(desk, submitted(desk), Decider("ann", lambda each: answer)).status == status

    def test_one_that_raises_has_rejected_with_its_error(self, desk: Proposals) -> None:
        def approve(proposal: Proposal) -> bool:
            raise RuntimeError("no network")

        done = run_decider(desk, submitted(desk), Decider("ann", approve))
        assert (done.status, done.reviews[0].reason) == ("rejected", "ann failed: RuntimeError: no network")

    def test_one_that_takes_too_long_has_rejected(self, desk: Proposals) -> None:
        done = run_decider(desk, submitted(desk), Decider("ann", _never, seconds=0.05))
        assert (done.status, "within 0.05 seconds" in done.reviews[0].reason) == ("rejected", True)

    def test_the_author_is_no_decider(self, desk: Proposals) -> None:
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
    def test_only_words_pass_by_themselves(
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

    def test_a_signed_message_decides(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        made = submitted(desk)
        inbox = approval.SignedDecisions(desk, store, KEY, clock=clock)
        body = self.message(made, clock)
        assert inbox.accept(body, f"sha256={approval.sign(body, KEY)}").status == "approved"

    def test_the_same_message_again_is_refused(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        inbox = approval.SignedDecisions(desk, store, KEY, clock=clock)
        first, second = submitted(desk), submitted(desk)
        body = self.message(first, clock)
        inbox.accept(body, approval.sign(body, KEY))
        for each in (body, self.message(second, clock)):  # the nonce was used, whatever it says now
            with pytest.raises(approval.InvalidSignature, match="came before"):
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
    def test_a_message_that_is_old_or_odd_changes_nothing(
        self, desk: Proposals, store: MemoryParameters, clock: Clock, changes: dict[str, Any]
    ) -> None:
        made = submitted(desk)
        body = self.message(made, clock, **changes)
        with pytest.raises(approval.InvalidSignature):
            approval.SignedDecisions(desk, store, KEY, clock=clock).accept(body, approval.sign(body, KEY))
        assert desk.get(made.id).status == "pending"

    def test_one_changed_byte_is_noticed(self, desk: Proposals, store: MemoryParameters, clock: Clock) -> None:
        made = submitted(desk)
        body = self.message(made, clock)
        signature = approval.sign(body, KEY)
        for place in range(0, len(body), 7):
            forged = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises(approval.InvalidSignature):
                approval.SignedDecisions(desk, store, KEY, clock=clock).accept(forged, signature)
        assert desk.get(made.id).status == "pending"

    def test_a_short_key_is_refused(self, desk: Proposals, store: MemoryParameters) -> None:
        with pytest.raises(errors.SetupError, match="at least 16"):
            approval.SignedDecisions(desk, store, b"short")
