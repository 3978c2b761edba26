"""The one way in which an agent changes itself: propose, have it approved, carry it out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors
from atoll.governed import reserved_keys
from atoll.governed.agent.reflections import SelfReflector
from atoll.governed.agent.skills import SkillLearner
from atoll.governed.agent.tools import ToolBuilder
from atoll.governed.approval import DEFER, Decider, Policy, Proposal, Proposals, run_decider
from atoll.governed.approval.proposal import Type
from atoll.governed.approval.proposals import SecretScanner
from atoll.governed.errors import ParameterNotFound
from atoll.governed.parameters import ParameterStore

type Observer = Callable[[Proposal], None]


class QuotaExceeded(errors.AtollError):
    """A session made as many tools or skills as it may."""


class SessionQuota(NamedTuple):
    """How many a session may propose; 0 is none, None is as many as it likes."""

    tools: int | None = None
    skills: int | None = None


class Evolver:
    """Proposals of an agent, from its wish to what came of it.

    Args:
        store: Where everything is kept: proposals, tools, skills, reflections, parameters.
        decider: Who decides at once; `LATER` waits for somebody, None rejects everything.
        policy: What a decision takes.
        quota: How many tools and skills one session may propose.
        observer: Is told of every proposal that moved; cannot change anything.
        guard: Looks for secrets; None: the usual one.
        built_in: Names of tools that are taken.
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
    ) -> None:
        self._store, self._decider, self._quota, self._observer = store, decider, quota or SessionQuota(), observer
        self.proposals = Proposals(store, policy, scanner=scanner) if scanner else Proposals(store, policy)
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
    ) -> Proposal:
        """Puts a change on the table, has it decided, carries it out if it was approved, and returns how it ended.

        A rejection is an answer, not an error.

        Raises:
            SetupError: The content cannot be what it says; nothing was written.
            SecretFound: It holds something that looks like a secret; nothing was written.
            QuotaExceeded: The session made as many as it may; nothing was written.
        """
        self._check_content(proposal_type, content)
        proposal = self.proposals.submit(
            proposal_type, title, content, author, description=description, rationale=rationale
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
        """Carries out what was approved, maybe by another process and long ago.

        Raises:
            Decided: It is not approved.
        """
        applied = self.proposals.apply(proposal_id, self._apply_change)
        self._observer(applied)
        return applied

    def apply_approved(self) -> Sequence[Proposal]:
        """Carries out all that was approved and not yet carried out: after a restart, or after others decided."""
        approved = [proposal for proposal in self.proposals.list() if proposal.status in ("approved", "applying")]
        return [self.apply(proposal.id) for proposal in approved]

    def history(self) -> Sequence[Proposal]:
        """Returns all proposals ever made, oldest first."""
        return self.proposals.list()

    def system_prompt_fragment(self) -> str:
        """Returns what an agent should know of what it may become."""
        decision_note = "somebody else decides" if self._decider == DEFER else "each is decided before anything changes"
        sections = [
            f"You may propose new tools, skills and adjustments of yourself; {decision_note}, and you never do.",
            self.skill_learner.format_for_system_prompt(),
            self.reflector.format_for_system_prompt(),
        ]
        return "\n\n".join(section for section in sections if section)

    def _check_content(self, proposal_type: str, content: Mapping[str, Any]) -> None:
        limits = {"new_tool": self._quota.tools, "new_skill": self._quota.skills}
        limit = limits.get(proposal_type)
        if limit is not None and self._proposal_counts[proposal_type] >= limit:
            raise QuotaExceeded(f"This session may propose {limit} of {proposal_type}, and did.")
        if proposal_type == "new_tool":
            self.tool_builder.prepare(content)
        elif proposal_type == "new_skill":
            self.skill_learner.prepare(content)
        elif proposal_type == "optimize":
            _parse_parameter(content)
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
        author, token = proposal.approvals[-1].by, proposal.token
        match proposal.type:
            case "new_tool":
                return self.tool_builder.save(proposal.content, proposal.title, author, token)
            case "new_skill":
                return self.skill_learner.save(proposal.content, proposal.title, author, token)
            case "self_adjust":
                return self.reflector.mark_applied(proposal.content, author, token)
            case "optimize":
                key, value, expected = _parse_parameter(proposal.content)
                version = self._store.set(
                    key, value, proposal.title, author=author, expected_version=expected, token=token
                )
                return f"{key}@{version}"

    def get_current_value(self, proposal: Proposal) -> Any:
        """Returns what a parameter is now that a proposal would change; None: there is none, or it changes none."""
        if proposal.type != "optimize":
            return None
        try:
            return self._store.get(str(proposal.content.get("key"))).value
        except ParameterNotFound:
            return None


def _parse_parameter(content: Mapping[str, Any]) -> tuple[str, Any, int | None]:
    key, expected = content.get("key"), content.get("expected_version")
    if not isinstance(key, str) or not key.strip() or "value" not in content:
        raise errors.SetupError("A change of a parameter names its key and its value.")
    reserved_keys.check_not_reserved(key)
    if expected is not None and (not isinstance(expected, int) or isinstance(expected, bool)):
        raise errors.SetupError("expected_version is the number of the version that the change is based on.")
    return key, content["value"], expected
