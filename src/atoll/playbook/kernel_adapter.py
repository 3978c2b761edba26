"""ACE as a step of the kernel: a reflector proposes, static checks judge, the curator is the gate, versions keep."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from atoll import archipelago, cluster, errors, evaluation, function, gate, llm, versions
from atoll.playbook.config import Config
from atoll.playbook.curation import DeltaSchema
from atoll.playbook.curator import Curator
from atoll.playbook.playbook import Playbook
from atoll.playbook.reflectors import Experience, LLMReflector, Reflector, TaggingReflector
from atoll.playbook.store import KEY, PlaybookStore


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


def make_store(version_store: versions.Versions, *, key: str = KEY, config: Config | None = None) -> PlaybookStore:
    """Returns a playbook that is kept among versions, by the settings given."""
    return PlaybookStore(version_store, key=key, curator=Curator(config))


def make_reflector(model: llm.LLM | None = None) -> Reflector:
    """Returns who draws lessons: a model, or without one plain rules."""
    return TaggingReflector() if model is None else LLMReflector(model)


def make_island(
    version_store: versions.Versions,
    run: str,
    get_experience: Callable[[int, Playbook], Experience | None],
    *,
    key: str = KEY,
    reflector: Reflector | None = None,
    config: Config | None = None,
) -> cluster.IslandConfig:
    """Returns an island whose steps are ACE turns, to be given to a `cluster.Evolver` with one step in flight.

    Args:
        kept: Where the playbook is.
        run: The run's id; a step that runs again after a crash finds its own version by it.
        experience: What was gone through in a step.
        key: Which playbook.
        reflector: Who draws lessons; None: plain rules.
        config: What the curator goes by.
    """
    curator = Curator(config)
    evaluator = DeltaEvaluator(curator)
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(Playbook().dump()), candidate_evaluator=evaluator)
    )
    population = cluster.VersionedPopulation(version_store, key, initial, function.Text, run_id=run)

    def make_population(island: int, rng: Random, announce: Any) -> archipelago.Population:
        return population

    proposer = ReflectorProposer(reflector or TaggingReflector(), curator, get_experience)
    return cluster.IslandConfig(1, 1, initial, proposer, gate=make_curator_gate, make_population=make_population)
