"""Evolver of an agent, its only way to change itself. It proposes, an approver decides, the change is applied."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors, secret_scanner
from atoll.governed import principals, reserved_keys
from atoll.governed.agent.reflections import SelfReflector
from atoll.governed.agent.skills import SkillLearner
from atoll.governed.agent.tools import ToolBuilder
from atoll.governed.approval import DEFER, Decider, Policy, Proposal, Proposals, run_decider
from atoll.governed.approval.proposal import Type
from atoll.governed.approval.proposals import Clock, SecretScanner, now
from atoll.governed.errors import ParameterNotFound, VersionConflict
from atoll.governed.parameters import ParameterStore
from atoll.store.access import proposal_checks

type Observer = Callable[[Proposal], None]


class QuotaExceeded(errors.AtollError):
    """The session has used up its quota of tools or skills."""


class SessionQuota(NamedTuple):
    """Maximum number of proposals in a session; None: no limit."""

    tools: int | None = None
    skills: int | None = None


class Evolver:
    """Submits, decides and applies the proposals of an agent. `cluster.Evolver` evolves runs; this one does not.

    Args:
        store: Holds proposals, tools, skills, reflections and parameters.
        decider: Decides at once. `DEFER` leaves proposals pending; None rejects all of them.
        policy: Approval rules.
        quota: Maximum number of tools and skills per session.
        observer: Called with every proposal whose status changed.
        scanner: Finds secrets in texts; None: the default scanner.
        builtin_names: Tool names that new tools cannot use.
        clock: Current time.
    """

    def __init__(
        self,
        store: ParameterStore,
        decider: Decider | str | None = None,
        *,
        policy: Policy | None = None,
        quota: SessionQuota | None = None,
        observer: Observer = lambda proposal: None,
        scanner: SecretScanner | None = None,
        builtin_names: Sequence[str] = (),
        clock: Clock = now,
    ) -> None:
        self.store, self._decider, self._clock = store, decider, clock
        self._quota, self._observer = quota or SessionQuota(), observer
        self.proposals = Proposals(store, policy, scanner=scanner or secret_scanner.find_secrets, clock=clock)
        self.tool_builder = ToolBuilder(store, builtin_names)
        self.skill_learner = SkillLearner(store)
        self.reflector = SelfReflector(store)
        self._proposal_counts = {"new_tool": 0, "new_skill": 0}

    def propose(
        self,
        proposal_type: Type,
        title: str,
        content: Mapping[str, Any],
        author: str,
        *,
        description: str = "",
        rationale: str = "",
        evidence: Sequence[Mapping[str, Any]] = (),
    ) -> Proposal:
        """Submits a proposal and asks the decider. Applies it if it is approved at once. Returns its state.

        With `DEFER` that state is pending. A rejected proposal is returned, not raised.

        Raises:
            SetupError: The content is invalid; nothing was written.
            SecretFound: The content contains a secret; nothing was written.
            QuotaExceeded: The session has used up its quota; nothing was written.
        """
        self._check_quota_and_content(proposal_type, content)
        proposal = self.proposals.submit(
            proposal_type, title, content, author, description=description, rationale=rationale, evidence=evidence
        )
        if proposal_type in self._proposal_counts:
            self._proposal_counts[proposal_type] += 1
        self._observer(proposal)
        decided = run_decider(
            self.proposals, proposal, self._decider, allow_auto_approval=not self._replaces_existing(proposal)
        )
        if decided != proposal:
            self._observer(decided)
        return self.apply(decided.id) if decided.status == "approved" else decided

    def apply(self, proposal_id: str) -> Proposal:
        """Applies an approved proposal, also one that another process approved.

        A proposal for keys that need a canary stays approved. If the policy has a plan, its rollout starts.

        Raises:
            AlreadyDecided: The proposal is not approved.
        """
        proposal = self.proposals.get(proposal_id)
        if proposal.status == "approved" and self.needs_rollout(proposal):
            self._start_rollout(proposal)
            return proposal
        applied = self.proposals.apply(proposal_id, self._apply_change)
        self._observer(applied)
        return applied

    def notify(self, proposal: Proposal) -> None:
        """Calls the observer with a proposal that was changed in another way, for example by an edit."""
        self._observer(proposal)

    def apply_approved(self) -> Sequence[Proposal]:
        """Applies all approved proposals, for example after a restart."""
        approved = [proposal for proposal in self.proposals.list() if proposal.status in ("approved", "applying")]
        return [self.apply(proposal.id) for proposal in approved]

    def history(self) -> Sequence[Proposal]:
        """Returns all proposals, oldest first."""
        return self.proposals.list()

    def system_prompt_fragment(self) -> str:
        """Returns the system prompt section with approved skills and lessons."""
        decision_note = "an approver decides" if self._decider == DEFER else "each is decided before anything changes"
        sections = [
            f"You may propose new tools, skills and adjustments of yourself; {decision_note}. You cannot approve them.",
            self.skill_learner.format_for_system_prompt(),
            self.reflector.format_for_system_prompt(),
        ]
        return "\n\n".join(section for section in sections if section)

    def _check_quota_and_content(self, proposal_type: str, content: Mapping[str, Any]) -> None:
        limits = {"new_tool": self._quota.tools, "new_skill": self._quota.skills}
        limit = limits.get(proposal_type)
        if limit is not None and self._proposal_counts[proposal_type] >= limit:
            raise QuotaExceeded(f"This session has proposed {limit} {proposal_type}, its quota. Start a new session.")
        if proposal_type == "new_tool":
            self.tool_builder.prepare(content)
        elif proposal_type == "new_skill":
            self.skill_learner.prepare(content)
        elif proposal_type == "optimize":
            parse_changes(content)
        elif proposal_type == "self_adjust":
            self.reflector.find_adjustment(content)

    def _replaces_existing(self, proposal: Proposal) -> bool:
        if proposal.type != "new_skill":
            return False
        try:
            self.skill_learner.find(str(proposal.content.get("name")))
        except errors.NotFound:
            return False
        return True

    def _apply_change(self, proposal: Proposal) -> str:
        author, token = self.proposals.get_applier(proposal), proposal.token
        match proposal.type:
            case "new_tool":
                return self.tool_builder.save(proposal.content, proposal.title, author, token)
            case "new_skill":
                return self.skill_learner.save(proposal.content, proposal.title, author, token)
            case "self_adjust":
                return self.reflector.mark_applied(proposal.content, author, token)
            case "optimize":
                with self.store.transaction(proposal.title, author=author) as changes:
                    for index, (key, value, expected) in enumerate(parse_changes(proposal.content)):
                        base = proposal.base.get(key) if expected is None else expected
                        change_token = f"{token}/{index}" if index else token
                        changes.set(key, value, expected_version=base, token=change_token)
                return ", ".join(f"{change.key}@{change.version}" for change in changes.changes)

    def _start_rollout(self, proposal: Proposal) -> None:
        """Starts the canary of an approved proposal if the policy has a plan for its first key that needs one."""
        from atoll.governed import rollout  # slow import: numpy

        control = principals.get_control(self.store)
        policies = [control.get_policy(change.key) for change in proposal.changes]
        plan = next((policy.plan for policy in policies if policy.needs("canary") and policy.plan), None)
        active = rollout.Rollout(self.store, proposal.key).state()
        if plan is not None and (active is None or active.proposal != proposal.id):
            try:
                rollout.start_approved(self.store, proposal, rollout.RolloutPlan.from_policy(plan), clock=self._clock)
            except (errors.Conflict, VersionConflict) as error:
                advice = "Run 'atoll proposals apply' later."
                message = f"{proposal.id} is approved, but its rollout cannot start: {error} {advice}"
                raise errors.Conflict(message) from error

    def needs_rollout(self, proposal: Proposal) -> bool:
        """Returns whether the policy of the store asks for a canary of a key that a proposal changes."""
        control = principals.get_control(self.store)
        return any(control.get_policy(key).needs("canary") for key, _ in proposal_checks.iter_changes(proposal.content))

    def get_current_value(self, proposal: Proposal) -> Any:
        """Returns the current value of the parameter that a proposal changes; None if it does not exist."""
        if proposal.type != "optimize" or "changes" in proposal.content:
            return None
        try:
            return self.store.get(str(proposal.content.get("key"))).value
        except ParameterNotFound:
            return None


def parse_changes(content: Mapping[str, Any]) -> Sequence[tuple[str, Any, int | None]]:
    """Returns key, value and expected version of each parameter that a proposal sets.

    The content is one change, or a bundle: `{"changes": [{"key": ..., "value": ...}, ...]}`.

    Raises:
        SetupError: A change is not valid, or a key occurs twice.
    """
    if "changes" not in content:
        return [_parse_parameter(content)]
    items = content["changes"]
    if not isinstance(items, list | tuple) or not items or not all(isinstance(item, Mapping) for item in items):
        raise errors.SetupError('changes is not a list of changes. Write [{"key": ..., "value": ...}, ...].')
    changes = [_parse_parameter(item) for item in items]
    if len({key for key, _, _ in changes}) < len(changes):
        raise errors.SetupError("A bundle changes a key twice. Name each key once.")
    return changes


def _parse_parameter(content: Mapping[str, Any]) -> tuple[str, Any, int | None]:
    key, expected = content.get("key"), content.get("expected_version")
    if not isinstance(key, str) or not key.strip() or "value" not in content:
        raise errors.SetupError("A change of a parameter needs its key and its value. Pass both.")
    reserved_keys.check_not_reserved(key)
    if expected is not None and (not isinstance(expected, int) or isinstance(expected, bool)):
        raise errors.SetupError(f"expected_version is {expected!r:.40}. Pass the number of a version, or leave it out.")
    return key, content["value"], expected
