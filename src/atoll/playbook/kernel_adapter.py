"""ACE as iterations of an evolver. The reflector proposes, static checks evaluate, the curator is the gate."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from atoll import archipelago, cluster, errors, evaluation, function, gate, llm, versions
from atoll.playbook.curation import DeltaSchema
from atoll.playbook.curator import Curator
from atoll.playbook.playbook import Config, Playbook
from atoll.playbook.reflectors import Experience, LLMReflector, Reflector, TaggingReflector
from atoll.playbook.store import KEY, PlaybookStore


@dataclass(frozen=True, slots=True)
class ReflectorProposer:
    """Proposes the current playbook changed by the lessons of an iteration.

    Attributes:
        reflector: Returns deltas; responses of an LLM are stored with the iteration.
        curator: Applies the deltas. Held and rejected deltas are noted in the candidate's metadata.
        get_experience: Returns the experience of an iteration, given its number and the current playbook; None means
            that it has none.
    """

    reflector: Reflector
    curator: Curator
    get_experience: Callable[[int, Playbook], Experience | None]

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child, or none if the reflector returns no deltas."""
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
    """Evaluates a playbook before it is used: it must be readable, short enough and free of forbidden text."""

    curator: Curator

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        try:
            playbook = Playbook.load(str(skeleton))
        except errors.SetupError as error:
            return evaluation.failed(str(error))
        config = self.curator.config
        tokens = playbook.count_tokens(self.curator.count_tokens)
        if tokens > config.max_tokens:
            return evaluation.failed(f"The playbook has {tokens:,} tokens; the limit is {config.max_tokens:,}.")
        schema = DeltaSchema(config)
        for bullet in playbook.bullets.values():
            if problem := schema.find_text_problem(bullet.content):
                return evaluation.failed(f"{bullet.id} is not valid: {problem}.")
        metrics = {"tokens": float(tokens), "bullets": float(len(playbook))}
        return evaluation.Evaluation(0.0, metrics=metrics, feedback="not used yet")


def decide_as_curator(proposal: gate.Proposal) -> gate.Decision:
    """Gate that follows the curator: accepts if a delta was applied, else holds if one was held."""
    if proposal.evaluation is not None and proposal.evaluation.failure is not None:
        return gate.Decision("reject", proposal.evaluation.failure, "curator")
    meta: Mapping[str, Any] = proposal.candidate.meta
    reason = str(meta.get("why") or "no deltas were proposed")
    if not proposal.known_candidates or meta.get("applied"):  # the initial candidate has no deltas
        return gate.Decision("accept", reason, "curator")
    return gate.Decision("hold" if meta.get("held") else "reject", reason, "curator")


def make_store(version_store: versions.Versions, *, key: str = KEY, config: Config | None = None) -> PlaybookStore:
    """Creates a playbook store with these settings."""
    return PlaybookStore(version_store, key=key, curator=Curator(config))


def make_reflector(model: llm.LLM | None = None) -> Reflector:
    """Returns a reflector that asks the LLM, or a rule-based one if there is none."""
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
    """Returns an island whose iterations are ACE turns. Use it in a `cluster.Evolver` with `num_parallel=1`.

    Args:
        version_store: Store of the playbook.
        run: Run id. An iteration that is repeated after a crash finds its own version by it.
        get_experience: Returns the experience of an iteration.
        key: Key of the playbook.
        reflector: Returns deltas; None means rule-based.
        config: Settings of the curator.
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
    return cluster.IslandConfig(1, 1, initial, proposer, gate=decide_as_curator, make_population=make_population)
