"""Puts a run together for a thing: who proposes, who judges, what is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from atoll import cluster, control, errors, executor, function, llm, mutation, sandbox, system
from atoll.evolve.subjects import Subject
from atoll.evolve.wishes import Wishes
from atoll.llmsr.build import source_of
from atoll.programs import dataset, edits, front, instances, parameters, reflection, texts
from atoll.programs.notes import Notes
from atoll.runs import methods

_ISLANDS, _MIGRATION = 4, 50  # of code; steps of each island between migrations
_IDLE_STEPS = 300  # in a row without a call of the evaluator end a run of texts: nothing new comes any more


@dataclass(frozen=True, slots=True)
class Made:
    """The parts of a run.

    Attributes:
        meter: Counts the calls of the evaluator.
        stop_rules: What ends the run beside its budget.
        budget: What is left of the budget for the kernel to watch.
    """

    built: system.Built
    meter: instances.Meter
    stop_rules: Sequence[control.StopRule]
    budget: control.Budget


def open_place(
    subject: Subject, evaluator: Callable[..., Any], parts: Mapping[str, Sequence[Any]], wishes: Wishes, has_model: bool
) -> sandbox.Sandbox:
    """Opens where candidates are judged: a jail for code, this process for what is data.

    Raises:
        SetupError: There is no jail, or the evaluator cannot be sent there.
    """
    job = partial(instances.Asking, evaluator, subject.decode, parts)
    if not (subject.is_code if wishes.jail is None else wishes.jail):
        if subject.is_code:
            raise errors.SetupError("Code is judged in a jail: leave jail out, or say unsafe=True where there is none.")
        return instances.Here(job())
    place = executor.Place(
        sandbox.Limits(seconds=wishes.seconds),
        min(wishes.workers, executor.cores()),
        is_unsafe=wishes.unsafe or not has_model,
    )
    return place.open(job, source_of(evaluator))


def make(
    subject: Subject,
    evaluator: Callable[..., Any],
    data: dataset.Data | None,
    wishes: Wishes,
    model: llm.LLM | None,
    budget: control.Budget,
) -> Made:
    """Makes the parts; whoever gets them closes them.

    Raises:
        SetupError: They do not fit together.
    """
    parts = {"train": data.train, "validation": data.validation} if data else {}
    place = open_place(subject, evaluator, parts, wishes, model is not None)
    judge = instances.InstanceJudge(place, parts)
    try:
        skeleton = function.PyAstSkeleton(subject.content) if subject.kind == "function" else None
        props = function.DefaultFunctionProps(skeleton or function.Text(subject.content), judge=judge)
        chosen = _chosen(subject, data, wishes, model, function.DefaultFunction(props))
    except BaseException:
        place.close()
        raise
    report = {"kind": subject.kind, "engine": "no LLM" if model is None else "LLM", "workers": wishes.workers}
    built = system.Built(chosen, report, (), place.level, place.close)
    rules = [] if wishes.target is None else [control.target(wishes.target)]
    if isinstance(chosen.learner, Notes):
        most = _most_calls(data, wishes)
        rules += [_calls_used(chosen.learner, budget.evaluations, most), _nothing_new(judge.meter)]
        budget = replace(budget, evaluations=None)
    elif data and budget.evaluations is not None:
        budget = replace(budget, evaluations=max(1, budget.evaluations // len(data.validation)))
    return Made(built, judge.meter, rules, budget)


def _chosen(
    subject: Subject, data: dataset.Data | None, wishes: Wishes, model: llm.LLM | None, initial: function.Function
) -> cluster.EvolverConfig:
    if subject.given is not None:
        found = parameters.tunables(subject.given)
        islands = cluster.IslandConfig(1, 1, initial, parameters.Pointing(found), make_pool=_pool(1))
        learner = parameters.Searching(found, wishes.seed)
        return cluster.EvolverConfig(islands, reset_period=None, learner=learner)
    if subject.kind in ("text", "texts", "folder"):
        return _of_texts(subject, data, wishes, model, initial)
    engine = _engine(subject, wishes, model)
    count = 1 if wishes.method == "sequential" else _ISLANDS
    islands = cluster.IslandConfig(count, 2, initial, engine, make_pool=_pool(2, wishes.method))
    schedule = cluster.RoundRobin(count, migrate_every=_MIGRATION * count)
    return cluster.EvolverConfig(islands, schedule=schedule, learner=engine.learner)


def _of_texts(
    subject: Subject, data: dataset.Data | None, wishes: Wishes, model: llm.LLM | None, initial: function.Function
) -> cluster.EvolverConfig:
    writer: texts.Writer = edits.Edits() if model is None else reflection.Reflection(model, wishes.objective)
    batches = data.batches(wishes.minibatch, wishes.seed) if data else ()
    merging = 0.2 if wishes.merge else 0.0
    engine = texts.Texts(texts.Form(subject.kind != "text"), writer, batches, wishes.target, merging)
    pool = front.pareto_pool if data and wishes.method == "evolve" else _pool(2, wishes.method)
    islands = cluster.IslandConfig(1, 2, initial, engine, screen=texts.better_on_batch, make_pool=pool)
    learner = Notes(len(data.validation) if data else 1)
    return cluster.EvolverConfig(islands, reset_period=None, learner=learner)


def _engine(subject: Subject, wishes: Wishes, model: llm.LLM | None) -> mutation.Mixed:
    if model is not None:
        ask = partial(mutation.program_prompt, task_description=wishes.objective, language=subject.language)
        rewrite = mutation.Rewrite(model, ask, partial(mutation.fenced_code, language=subject.language))
        return mutation.mixed_with(rewrite, subject.content, "rewrite")
    if subject.language != "python" or not mutation.can_rewrite(subject.content):
        raise errors.SetupError(f"This {subject.kind} has nothing that its syntax could change: give a model with llm.")
    return mutation.without_llm(subject.content)


def _most_calls(data: dataset.Data | None, wishes: Wishes) -> int:
    """Returns how often the steps in flight may call the evaluator at most."""
    trials = 1 + (1 if wishes.target is None else texts.BATCHES_TRIED)
    one = len(data.validation) + trials * min(wishes.minibatch, len(data.train)) if data else 1
    return one * wishes.workers


def _calls_used(notes: Notes, limit: int | None, most: int) -> control.StopRule:
    """Stops before the evaluator is called more often than that; steps that were applied count, and no clock."""
    told = f"budget of {limit} evaluator calls used"
    return lambda now: told if limit is not None and notes.calls + most > limit else None


def _nothing_new(meter: instances.Meter) -> control.StopRule:
    last = [0, 0]  # the calls, and the step at which there were so many first

    def rule(now: control.Progress) -> str | None:
        if meter.calls != last[0]:
            last[:] = [meter.calls, now.applied]
        is_idle = now.applied - last[1] >= _IDLE_STEPS
        return f"nothing new to judge in {_IDLE_STEPS} steps" if is_idle else None

    return rule


def _pool(num_parents: int, method: str = "evolve") -> cluster.MakePool:
    if method == "sequential":
        return methods.from_best
    made = methods.FromStart if method == "best_of_n" else cluster.Niches
    return lambda island, rng, announce: made(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.RankChooser(rng),
        num_parents=num_parents,
    )
