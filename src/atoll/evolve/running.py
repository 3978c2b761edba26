"""One run from the front door to its result."""

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll import config, control, errors, evaluation, function, journal, llm, runs, store, system
from atoll.evaluation import Evaluation
from atoll.evolve import build, reading, subjects
from atoll.evolve.result import NOT_RUN, Result
from atoll.evolve.wishes import Wishes
from atoll.programs import dataset, instances
from atoll.runs import baselines
from atoll.runs.patience import Patience

ALL = -1  # the island of a record that concerns all of them
MEMORY = "sqlite://"
_EVALUATIONS, _WITH_MODEL = 500, 200
_TURN_SECONDS = 0.02
_MOST_STEPS = 10_000  # of a budget of dollars or tokens: a model may not say what it costs


def run(thing: Any, evaluator: Any, wishes: Wishes) -> Result:
    """Evolves a thing and says what came of it.

    Raises:
        SetupError: Something does not fit.
    """
    if isinstance(thing, Path) and (evaluator is None or isinstance(evaluator, os.PathLike)):
        return _of_task(thing, evaluator, wishes)
    if not callable(evaluator):
        raise errors.SetupError(f"The evaluator is {evaluator!r:.60}: give a function that scores a candidate.")
    subject = subjects.subject_of(thing, wishes.kind)
    data, sealed = _parts(wishes)
    found = Live(subject, evaluator, data, wishes).go()
    if sealed is not None:
        found = _tested(found, subject, evaluator, sealed, wishes)
    return found._replace(baselines={"start": found.start, **_baselines(subject, evaluator, data, wishes)})


def _parts(wishes: Wishes) -> tuple[dataset.Data | None, dataset.Sealed | None]:
    if wishes.data is None:
        if wishes.validation is not None or wishes.test is not None:
            raise errors.SetupError("validation and test are parts of a data set: give data too.")
        return None, None
    return dataset.split(wishes.data, wishes.validation, wishes.test, seed=wishes.seed)


def model_of(given: Any) -> Patience | None:
    """Returns the model that was given, which is given up after so many faults in a row.

    Raises:
        SetupError: It is neither a name nor a function.
    """
    if given is not None and not isinstance(given, str) and not callable(given):
        raise errors.SetupError(f"llm is {given!r:.60}: give a model's name, a function of the prompt, or None.")
    found = llm.make_llm(given) if isinstance(given, str) else given
    return None if found is None else Patience(llm.FromFunction(found))


def budget_of(given: object, *, has_model: bool) -> control.Budget:
    """Reads what a run may use.

    Raises:
        SetupError: It cannot be read, or never ends a run.
    """
    if given is None:
        return control.Budget(evaluations=_WITH_MODEL if has_model else _EVALUATIONS)
    budget = config.parse_budget(given) if isinstance(given, str) else given
    if not isinstance(budget, control.Budget):
        raise errors.SetupError(f'budget is {given!r:.60}: give e.g. "60s", "$1" or "500evals".')
    endless = all(getattr(budget, name) is None for name in ("iterations", "evaluations", "seconds"))
    if endless and (not has_model or budget == control.UNLIMITED):
        raise errors.SetupError('The budget never ends the run without a model: give e.g. "60s" or "500evals".')
    return replace(budget, iterations=_MOST_STEPS) if endless else budget


class Live:
    """A run of live objects: its place in a store, its parts and its evolver."""

    def __init__(
        self, subject: subjects.Subject, evaluator: Callable[..., Any], data: dataset.Data | None, wishes: Wishes
    ) -> None:
        self._subject, self._wishes, self._data = subject, wishes, data
        self._patience = model_of(wishes.llm)
        durable = llm.Durable(self._patience) if self._patience is not None else None
        budget = budget_of(wishes.budget, has_model=durable is not None)
        if wishes.workers < 1 or wishes.minibatch < 1:
            raise errors.SetupError("workers and minibatch must be at least 1.")
        self._made = build.make(subject, evaluator, data, wishes, durable, budget)

    def go(self) -> Result:
        """Runs to the end; without a store its records live as long as this call.

        Raises:
            SetupError: The start has no score, or the store cannot be opened.
            RunFailed: The run ended before its time.
        """
        with closing(_Closing(self._made.built.close)):
            if self._wishes.store is None:
                return self._gone(store.MemoryJournal(), None)
            with store.Store(self._wishes.store) as kept:
                run = kept.create(config=self._setup())
                with kept.claim(run):
                    return self._gone(kept.journal(run), kept.inbox(run))._replace(run=run)

    def _gone(self, records: journal.Journal, inbox: control.Inbox | None) -> Result:
        since = time.monotonic()
        evolver = self._evolver(records, inbox)
        self._watch(evolver)
        subject, calls = self._subject, self._made.meter.calls
        found = reading.read(evolver, records, subject.restore, subject.suffix, calls)
        return found._replace(cost=found.cost._replace(seconds=time.monotonic() - since))

    def _setup(self) -> dict[str, Any]:
        wishes = self._wishes
        said = {"kind": self._subject.kind, "seed": wishes.seed, "workers": wishes.workers, "target": wishes.target}
        return {"system": "evolve", "run": {**said, "objective": wishes.objective}}

    def _evolver(self, records: journal.Journal, inbox: control.Inbox | None) -> system.Evolver:
        made = self._made
        is_timed = made.budget.seconds is not None or made.budget.usd is not None
        is_alone = self._subject.kind == "parameters"  # each point depends on all before it
        workers = 1 if is_alone else self._wishes.workers
        config = replace(
            made.built.config,
            num_parallel=workers,
            window=workers,
            journal=records,
            budget=made.budget,
            stop_rules=tuple(made.stop_rules),
            inbox=inbox,
            seed=self._wishes.seed,
            ordered=not is_timed,
        )
        name = self._wishes.llm if isinstance(self._wishes.llm, str) else "a function" if self._patience else "none"
        records.write(journal.Record("started", 0, ALL, {"sandbox": made.built.sandbox, "llm": name}))
        return system.Evolver(config, made.built.report, made.built.close)

    def _watch(self, evolver: system.Evolver) -> None:
        """Waits for the end; a model that gives no reply any more ends it too, and so does Ctrl-C."""
        evolver.start()
        try:
            while not evolver.reason:
                time.sleep(_TURN_SECONDS)
                if self._patience is not None and self._patience.lost:
                    evolver.stop(f"failed: {self._patience.lost}")
            evolver.join()
        except KeyboardInterrupt:
            evolver.stop("interrupted")
        except errors.RunFailed as error:
            if "initial function" in str(error):
                raise errors.SetupError(str(error).replace("initial function", "start")) from error
            raise


class _Closing:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


def _tested(
    found: Result, subject: subjects.Subject, evaluator: Callable[..., Any], sealed: dataset.Sealed, wishes: Wishes
) -> Result:
    """Scores the best, and the start beside it, on the test set: here it is opened, and nowhere else."""
    parts = {"validation": sealed.open()}
    place = build.open_place(subject, evaluator, parts, wishes, wishes.llm is not None)
    with closing(place):
        judge = instances.InstanceJudge(place, parts)
        best, start = (_scored(judge, content) for content in (found.content, subject.content))
    reason = found.reason if best.failure is None else f"{found.reason}; the test has no score: {best.failure}"
    return found._replace(test=best.score, gain=reading.gain(best.scores, start.scores), reason=reason)


def _scored(judge: instances.InstanceJudge, content: str) -> Evaluation:
    return evaluation.clean(judge(function.Text(content)))


def _baselines(
    subject: subjects.Subject, evaluator: Callable[..., Any], data: dataset.Data | None, wishes: Wishes
) -> dict[str, float | str]:
    """Runs what the result should be compared with, each with the whole budget, in no store."""
    plain = wishes._replace(store=None)
    rivals = {
        "best-of-N": plain._replace(method="best_of_n"),
        "sequential conditioning": plain._replace(method="sequential"),
    }
    if wishes.llm is not None:
        rivals["no LLM"] = plain._replace(llm=None)
    if not wishes.baselines:
        return dict.fromkeys(rivals, NOT_RUN)
    return {name: _rival(subject, evaluator, data, each) for name, each in rivals.items()}


def _rival(
    subject: subjects.Subject, evaluator: Callable[..., Any], data: dataset.Data | None, wishes: Wishes
) -> float | str:
    try:
        return Live(subject, evaluator, data, wishes).go().score
    except errors.SetupError as error:  # such as a program that no engine can change without a model
        return f"cannot be run: {error}"


def _given(model: llm.LLM) -> runs.MakeLLM:
    return lambda plan: model


def _of_task(thing: Path, evaluator: os.PathLike[str] | None, wishes: Wishes) -> Result:
    """Runs a task folder, or a program with an evaluator's file, as the command line would."""
    folder = thing if evaluator is None else thing.parent
    changes: dict[str, Any] = {"run": {"seed": wishes.seed, "workers": wishes.workers, "target": wishes.target}}
    if evaluator is not None:
        task = {"program": str(thing.absolute()), "evaluator": str(Path(evaluator).absolute())}
        plan = config.Plan.of(folder.absolute(), [{"system": "programs", "task": task}, changes])
    else:
        plan = config.load(folder, [changes])
    if isinstance(wishes.llm, str):
        plan = replace(plan, run=plan.run.model_copy(update={"llm": wishes.llm}))
    own = None if wishes.llm is None or isinstance(wishes.llm, str) else model_of(wishes.llm)
    model = own or (plan.run.llm if plan.run.llm.lower() != "none" else None)
    budget = plan.budget() if wishes.budget is None else budget_of(wishes.budget, has_model=model is not None)
    since = time.monotonic()
    with store.Store(wishes.store or MEMORY) as kept:
        allowed = runs.Allowed(unsafe=wishes.unsafe)
        with runs.Session(
            kept, plan, budget=budget, model=_given(own) if own is not None else None, allowed=allowed
        ) as session:
            session.go()
            suffix = Path(str(getattr(plan.task, "program", "x.py"))).suffix
            found = reading.read(session.evolver, kept.journal(session.run), str, suffix, None)
        rivals = _rivals(kept, session.run, _given(own) if own is not None else None, allowed, wishes)
    cost = found.cost._replace(seconds=time.monotonic() - since)
    run = session.run if wishes.store is not None else ""
    return found._replace(cost=cost, run=run, baselines={"start": found.start, **rivals})


def _rivals(
    kept: store.Store, run: str, model: runs.MakeLLM | None, allowed: runs.Allowed, wishes: Wishes
) -> dict[str, float | str]:
    """Runs the baselines of a task, or says of each that it was not."""
    found = dict[str, float | str]()
    for each in baselines.find(kept, run, has_model=model is not None or None):
        title = each.title.replace("best of N", "best-of-N")
        found[title] = _played(kept, run, each.name, model, allowed) if wishes.baselines else NOT_RUN
    return found


def _played(kept: store.Store, run: str, name: str, model: runs.MakeLLM | None, allowed: runs.Allowed) -> float | str:
    try:
        with baselines.start(kept, run, name, model=model, allowed=allowed) as session:
            session.go()
    except errors.SetupError as error:
        return f"cannot be run: {error}"
    score = runs.summarise(kept, session.run).best_score
    return "no score" if score is None else score
