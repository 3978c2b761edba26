"""ACE as a step of the kernel: a reflector proposes, static checks judge, the curator is the gate, versions keep."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import errors, evaluation, function, gate
from atoll.playbook.curator import Curator
from atoll.playbook.experience import Experience, Reflector
from atoll.playbook.playbook import Playbook
from atoll.playbook.schema import DeltaSchema


@dataclass(frozen=True, slots=True)
class ReflectorProposer:
    """Proposes the head of a playbook with what a step's experience teaches.

    Attributes:
        reflector: Draws the deltas; with a model its replies are stored with the step.
        curator: Merges them; what it holds or rejects is told in the candidate's meta data.
        experience: What was gone through in a step, as a function of its number and of the playbook that was in force;
            None: nothing.
    """

    reflector: Reflector
    curator: Curator
    get_experience: Callable[[int, Playbook], Experience | None]

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child, or none where there is nothing to learn."""
        head = context.parents[-1]
        playbook = Playbook.load(str(head.skeleton()))
        experience = self.get_experience(context.iteration, playbook)
        if experience is None:
            return []
        deltas = self.reflector.reflect(replace(experience, playbook=playbook))
        if not deltas:
            return []
        changed, verdicts = self.curator.decide(playbook, deltas)
        counts = Counter(verdict.outcome for verdict in verdicts)
        summary = "; ".join(f"{verdict.delta.kind} {verdict.outcome}: {verdict.reason}" for verdict in verdicts)
        applied, held, rejected = counts["applied"], counts["held"], counts["rejected"]
        text = function.Text(changed.dump())
        return [function.derive_child(head, text, applied=applied, held=held, rejected=rejected, why=summary[:400])]


@dataclass(frozen=True, slots=True)
class DeltaEvaluator:
    """Judges what can be judged before a playbook is lived by: that it can be read, is short enough and clean."""

    curator: Curator

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        try:
            playbook = Playbook.load(str(skeleton))
        except errors.SetupError as error:
            return evaluation.failed(str(error))
        config = self.curator.config
        tokens = playbook.count_tokens(self.curator.count_tokens)
        if tokens > config.max_tokens:
            return evaluation.failed(f"It has {tokens:,} tokens; {config.max_tokens:,} are allowed.")
        schema = DeltaSchema(config)
        for bullet in playbook.bullets.values():
            if problem := schema.find_text_problem(bullet.content):
                return evaluation.failed(f"{bullet.id} cannot stay: {problem}.")
        metrics = {"tokens": float(tokens), "bullets": float(len(playbook))}
        return evaluation.Evaluation(0.0, metrics=metrics, feedback="nobody has lived by it yet")


def make_curator_gate(proposal: gate.Proposal) -> gate.Decision:
    """Decides as the curator did: accepts what has at least one applied delta, holds what only waits."""
    if proposal.evaluation is not None and proposal.evaluation.failure is not None:
        return gate.Decision("reject", proposal.evaluation.failure, "curator")
    meta: Mapping[str, Any] = proposal.candidate.meta
    reason = str(meta.get("why") or "nothing was proposed")
    if not proposal.known_candidates or meta.get("applied"):  # a founder stands for itself
        return gate.Decision("accept", reason, "curator")
    return gate.Decision("hold" if meta.get("held") else "reject", reason, "curator")
