"""Proposals that survive a restart: each is a parameter of the store, so every word about it is in the audit log."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from atoll import errors, persons, secrets
from atoll.governed.errors import ParameterNotFound, VersionConflict
from atoll.governed.parameters import ParameterStore
from atoll.governed.proposals.policy import POLICY, Policy
from atoll.governed.proposals.proposal import RISKS, TYPES, Proposal, Review, Risk, Status, Type, canonical, from_json

PREFIX = "proposals/"
_MOST_CHARS = 1_000_000

_CLOSING: tuple[Status, ...] = ("withdrawn", "superseded", "rejected")
_log = logging.getLogger(__name__)

type Clock = Callable[[], datetime]
type Guard = Callable[[str], Sequence[secrets.Found]]


class SecretFound(errors.AtollError):
    """What was proposed holds something that looks like a secret; nothing of it was written anywhere."""


class Decided(errors.Conflict):
    """Somebody decided before, or time did."""


class ProposalExpired(Decided):
    """Nobody decided in time, which is a rejection."""


def now() -> datetime:
    return datetime.now(UTC)


class Proposals:
    """Takes proposals in, has them decided, and carries each out once.

    Several processes may share the store: every step is a compare-and-set, so of two decisions one is a conflict.

    Args:
        store: Where they are kept.
        policy: What a decision takes.
        clock: What time it is.
        guard: Looks for secrets in what is proposed and said; `lambda text: []` looks for none.
    """

    def __init__(
        self, store: ParameterStore, policy: Policy | None = None, *, clock: Clock = now, guard: Guard = secrets.find
    ) -> None:
        self._store, self.policy, self._clock, self._guard = store, policy or Policy(), clock, guard

    def submit(
        self,
        proposal_type: Type,
        title: str,
        content: Mapping[str, Any],
        author: str,
        *,
        description: str = "",
        rationale: str = "",
        risk: Risk | None = None,
    ) -> Proposal:
        """Puts a proposal on the table and returns it, pending.

        Raises:
            SetupError: It has no title, no author, an unknown type, or its content is no JSON.
            SecretFound: Something in it looks like a secret.
        """
        if proposal_type not in TYPES:
            raise errors.SetupError(f"There is no proposal of type {proposal_type!r}: give one of {', '.join(TYPES)}.")
        if not title.strip() or not author.strip():
            raise errors.SetupError("A proposal needs a title and an author: say what it is and whose.")
        persons.folded(author)
        if risk is not None and risk not in RISKS:
            raise errors.SetupError(f"There is no risk {risk!r:.40}: it is one of {', '.join(RISKS)}.")
        text = _checked(content)
        self._refuse_secrets(title, description, rationale, text)
        at = self._clock()
        made = Proposal(
            f"p-{uuid.uuid4().hex[:12]}",
            proposal_type,
            title,
            content,
            author,
            at,
            at + self.policy.expires_after,
            description,
            rationale,
            risk or self.policy.risk_of(proposal_type),
        )
        self._store.set(PREFIX + made.id, made.to_json(), f"proposed: {title}", author=author, expected_version=0)
        return made

    def get(self, proposal_id: str) -> Proposal:
        """Returns a proposal as it stands; one whose time is over is expired, whoever looks.

        Raises:
            NotFound: There is none of that id.
        """
        return self._read(proposal_id)[0]

    def list(self, status: Status | None = None) -> Sequence[Proposal]:
        """Returns all proposals, or those of a status, oldest first."""
        found = []
        for key in self._store.list(PREFIX):
            try:
                found.append(self.get(key.removeprefix(PREFIX)))
            except errors.StoreFailed as error:
                _log.warning("%s", error)  # one that somebody spoilt hides no other
        return [each for each in sorted(found, key=lambda each: each.created_at) if status in (None, each.status)]

    def edit(self, proposal_id: str, content: Mapping[str, Any], author: str, reason: str) -> Proposal:
        """Changes what is proposed; what was said of it before counts no longer, and it is the editor's too.

        Raises:
            NotFound: There is none of that id.
            Decided: It is not pending or approved any more.
            SecretFound: Something in it looks like a secret.
        """
        self._refuse_secrets(_checked(content), reason)
        proposal, version = self._open(proposal_id, ("pending", "approved"))
        persons.folded(author)
        editors = (*proposal.editors, author)
        edited = replace(proposal, content=content, editors=editors, reviews=(), status="pending")
        edited = replace(edited, expires_at=self._clock() + self.policy.expires_after)
        return self._write(edited, version, f"edited: {reason}", author)

    def decide(
        self, proposal_id: str, by: str, *, approve: bool, reason: str, content_hash: str | None = None
    ) -> Proposal:
        """Takes one decision down: a rejection ends it, approvals count until there are enough.

        Args:
            content_hash: Of what the decider looked at; None: what is there now.

        Raises:
            NotFound: There is none of that id.
            SetupError: The reason or the name is empty.
            Decided: It is not pending any more, this person may not decide, or its content is another one by now.
        """
        if not reason.strip() or not by.strip():
            raise errors.SetupError("A decision needs a reason and a name: say why, and who you are.")
        self._refuse_secrets(reason)
        proposal, version = self._open(proposal_id, ("pending",))
        if refusal := self.policy.refusal(proposal, by):
            raise Decided(f"{by} cannot decide on proposal {proposal_id}: {refusal}.")
        if content_hash is not None and content_hash != proposal.content_hash:
            raise Decided(f"Proposal {proposal_id} was edited since it was looked at: look again.")
        reviewed = proposal.with_review(Review(by, approve, reason, self._clock(), proposal.content_hash))
        if not approve:
            reviewed = replace(reviewed, status="rejected")
        elif self.policy.is_carried(reviewed):
            reviewed = replace(reviewed, status="approved")
        verdict = "approved" if approve else "rejected"
        return self._write(reviewed, version, f"{verdict}: {reason}", by)

    def end(self, proposal_id: str, status: Status, by: str, reason: str) -> Proposal:
        """Closes a proposal without a decision: it is withdrawn, superseded, or rejected by a rule.

        Raises:
            SetupError: The status closes nothing.
            Decided: It was closed before.
        """
        if status not in _CLOSING:
            raise errors.SetupError(f"A proposal is not closed as {status}: give one of {', '.join(_CLOSING)}.")
        self._refuse_secrets(reason)
        proposal, version = self._open(proposal_id, ("pending", "approved"))
        return self._write(replace(proposal, status=status), version, f"{status}: {reason}", by)

    def let_pass(self, proposal_id: str, reason: str) -> Proposal:
        """Approves by rule what needs nobody: words alone, where the policy says so.

        Raises:
            Decided: It is not pending, or it does need somebody.
        """
        proposal, version = self._open(proposal_id, ("pending",))
        passed = proposal.with_review(Review(POLICY, True, reason, self._clock(), proposal.content_hash))
        if not self.policy.is_carried(passed):
            raise Decided(f"Proposal {proposal_id} needs somebody who approves it.")
        return self._write(replace(passed, status="approved"), version, f"approved: {reason}", POLICY)

    def apply(self, proposal_id: str, carry_out: Callable[[Proposal], str]) -> Proposal:
        """Carries an approved proposal out and says what it made.

        It is marked first, so that nobody edits it meanwhile; a crash in between leaves the mark, and it is carried
        out again: `carry_out` uses `Proposal.token` for what it sets, so that twice is once.

        Raises:
            Decided: It is not approved, or another process was faster.
        """
        proposal, version = self._open(proposal_id, ("approved", "applying"))
        if not self.policy.is_carried(proposal):
            raise Decided(f"Proposal {proposal_id} has not been approved by enough for what it says now.")
        by = proposal.approvals[-1].by
        if proposal.status == "approved":
            proposal = self._write(replace(proposal, status="applying"), version, "is carried out", by)
        outcome = errors.attempt(lambda: carry_out(proposal), passing=(errors.StoreFailed,))
        has_failed = isinstance(outcome, errors.Caught)
        done = replace(proposal, status="failed" if has_failed else "applied", outcome=str(outcome))
        _, version = self._open(proposal_id, ("applying",))
        return self._write(done, version, f"{done.status}: {done.outcome or proposal.title}", by)

    def _read(self, proposal_id: str) -> tuple[Proposal, int]:
        try:
            value, version = self._store.get(PREFIX + proposal_id)
        except ParameterNotFound:
            raise errors.NotFound(f"There is no proposal {proposal_id}.") from None
        try:
            found = from_json(value)
        except ValueError as error:
            raise errors.StoreFailed(f"Proposal {proposal_id} cannot be read: {error}.") from error
        if found.status == "pending" and self._clock() >= found.expires_at:
            found = replace(found, status="expired")
        return found, version

    def _open(self, proposal_id: str, statuses: tuple[Status, ...]) -> tuple[Proposal, int]:
        found, version = self._read(proposal_id)
        if found.status == "expired":
            raise ProposalExpired(f"Proposal {proposal_id} is expired since {found.expires_at:%Y-%m-%d %H:%M} UTC.")
        if found.status not in statuses:
            raise Decided(f"Proposal {proposal_id} is {found.status}, not {' or '.join(statuses)}.")
        return found, version

    def _write(self, proposal: Proposal, version: int, reason: str, by: str) -> Proposal:
        try:
            self._store.set(PREFIX + proposal.id, proposal.to_json(), reason, author=by, expected_version=version)
        except VersionConflict:
            raise Decided(f"Somebody else changed proposal {proposal.id} at the same time: look again.") from None
        return proposal

    def refuse_secrets(self, content: Mapping[str, Any]) -> None:
        """Refuses what could not be proposed for its secrets or its size.

        Raises:
            SetupError: It is too large, or no JSON.
            SecretFound: It holds something that looks like a secret.
        """
        self._refuse_secrets(_checked(content))

    def _refuse_secrets(self, *texts: str) -> None:
        for text in texts:
            if found := self._guard(text):
                kinds = ", ".join(dict.fromkeys(each.kind for each in found))
                raise SecretFound(f"This looks like a secret ({kinds}): take it out, and name a variable instead.")


def _checked(content: Mapping[str, Any]) -> str:
    try:
        text = canonical(content)
    except ValueError as error:
        raise errors.SetupError(f"The proposal cannot be kept: {error}.") from None
    if len(text) > _MOST_CHARS:
        raise errors.SetupError(f"The proposal has {len(text):,} characters: give at most {_MOST_CHARS:,}.")
    return "\n".join(_strings(content))


def _strings(value: Any, name: str = "") -> list[str]:
    """Returns all texts of a content as they are: in JSON a line break is two letters, and a key may hide behind it.

    What a value is called stands before it, as in a file, so that a guard sees it; so does what a parameter is called.
    """
    match value:
        case str():
            return [value, *([f'{name}: "{value}"'] if name else [])]
        case Mapping():
            called = next((each for key in ("key", "name") if isinstance(each := value.get(key), str)), "")
            found = [text for key, each in value.items() for text in (str(key), *_strings(each, str(key)))]
            return found + (_strings(value["value"], called) if called and "value" in value else [])
        case list() | tuple():
            return [text for each in value for text in _strings(each, name)]
        case _:
            return []
