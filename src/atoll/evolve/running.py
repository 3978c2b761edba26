"""One run from the front door to its result."""

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll import config, control, errors, evaluation, function, journal, llm, runs, store, system
from atoll.evaluation import Evaluation
from atoll.evolve import build, subjects
from atoll.evolve.result import NOT_RUN, Ancestor, Gain, Result, Spent
from atoll.evolve.wishes import Wishes
from atoll.programs import dataset, instances
from atoll.runs.patience import Patience

ALL = -1  # the island of a record that concerns all of them
MEMORY = "sqlite://"
_EVALUATIONS, _WITH_MODEL = 500, 200
_TURN_SECONDS = 0.02
_LONGEST_LINE = 200  # ancestors in a result; the store has all
NOTHING_SPENT = Spent(0, 0, 0, 0, 0.0, 0.0)


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


def budget_of(given: str | control.Budget | None, *, has_model: bool) -> control.Budget:
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
    return budget


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
        """Runs to the end and reads the result from the store.

        Raises:
            SetupError: The start has no score, or the store cannot be opened.
            RunFailed: The run ended before its time.
        """
        since = time.monotonic()
        with closing(_Closing(self._made.built.close)), store.Store(self._wishes.store or MEMORY) as kept:
            run = kept.create(config=self._setup())
            with kept.claim(run):
                evolver = self._evolver(kept, run)
                self._watch(evolver)
            return self._result(kept, run, evolver.reason, time.monotonic() - since)

    def _setup(self) -> dict[str, Any]:
        wishes = self._wishes
        said = {"kind": self._subject.kind, "seed": wishes.seed, "workers": wishes.workers, "target": wishes.target}
        return {"system": "evolve", "run": {**said, "objective": wishes.objective}}

    def _evolver(self, kept: store.Store, run: str) -> system.Evolver:
        made, records = self._made, kept.journal(run)
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
            inbox=kept.inbox(run),
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

    def _result(self, kept: store.Store, run: str, reason: str, seconds: float) -> Result:
        subject, used = self._subject, runs.totals(kept, run)
        return read_result(kept, run, subject.restore, subject.suffix)._replace(
            reason=reason, cost=spent(used, self._made.meter.calls, seconds)
        )


class _Closing:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


def spent(used: runs.Totals, calls: int, seconds: float) -> Spent:
    """Sums up what a run took."""
    cost = used.cost
    return Spent(calls, used.steps, cost.calls, cost.tokens_in + cost.tokens_out, cost.usd, seconds)


def read_result(kept: store.Store, run: str, restore: Callable[[str], Any], suffix: str) -> Result:
    """Reads from the store what came of a run.

    Raises:
        RunFailed: Nothing has a score.
    """
    rows = kept.candidates(run)
    found = rows.best()
    if not found:
        raise errors.RunFailed("The run ended before anything had a score.")
    best, start = found[0], rows.get("0.0")
    return Result(
        best=restore(best.content),
        score=best.score or 0.0,
        start=start.score or 0.0,
        test=None,
        gain=gain(best.scores, start.scores),
        baselines={},
        cost=NOTHING_SPENT,
        lineage=_lineage(rows, best),
        scores=best.scores,
        reason="",
        run=run,
        content=best.content,
        suffix=suffix,
    )


def _lineage(rows: store.Candidates, best: store.Row) -> Sequence[Ancestor]:
    """Returns the best and its nearest ancestors, each once: a line of thousands would be read row by row."""
    found, queue = {best.id: best}, list(best.parents)
    for id in queue:  # grows as it goes
        row = None if id in found or len(found) >= _LONGEST_LINE else rows.find(id)
        if row is not None:
            found[row.id] = row
            queue.extend(row.parents)
    return [Ancestor(row.id, row.parents, row.score, row.content, _note(row)) for row in found.values()]


def _note(row: store.Row) -> str:
    return str(row.meta.get("note") or row.reason or "")


def gain(best: Sequence[float], start: Sequence[float]) -> Gain | None:
    """Compares instance by instance; None where there are too few to say how sure that is."""
    if len(best) != len(start) or len(best) < 2:
        return None
    differences = [mine - theirs for mine, theirs in zip(best, start, strict=True)]
    mean = statistics.fmean(differences)
    wide = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - wide, mean + wide)


def _tested(
    found: Result, subject: subjects.Subject, evaluator: Callable[..., Any], sealed: dataset.Sealed, wishes: Wishes
) -> Result:
    """Scores the best, and the start beside it, on the test set: here it is opened, and nowhere else."""
    parts = {"validation": sealed.open()}
    place = build.open_place(subject, evaluator, parts, wishes, wishes.llm is not None)
    with closing(place):
        judge = instances.InstanceJudge(place, parts)
        best, start = (_scored(judge, content) for content in (found.content, subject.content))
    return found._replace(test=best.score, gain=gain(best.scores, start.scores))


def _scored(judge: instances.InstanceJudge, content: str) -> Evaluation:
    return evaluation.clean(judge(function.Text(content)))


def _baselines(
    subject: subjects.Subject, evaluator: Callable[..., Any], data: dataset.Data | None, wishes: Wishes
) -> dict[str, float | str]:
    """Runs what the result should be compared with, each with the whole budget, in no store."""
    if not wishes.baselines:
        return {"best-of-N": NOT_RUN, **({"no LLM": NOT_RUN} if wishes.llm is not None else {})}
    plain = wishes._replace(store=None)
    made = {"best-of-N": Live(subject, evaluator, data, plain._replace(from_start=True)).go().score}
    if wishes.llm is not None:
        made["no LLM"] = Live(subject, evaluator, data, plain._replace(llm=None)).go().score
    return dict(made)


def _of_task(thing: Path, evaluator: os.PathLike[str] | None, wishes: Wishes) -> Result:
    """Runs a task folder, or a program with an evaluator's file, as the command line would."""
    folder = thing if evaluator is None else thing.parent
    changes: dict[str, Any] = {"run": {"seed": wishes.seed, "workers": wishes.workers, "target": wishes.target}}
    if evaluator is not None:
        task = {"program": str(thing.absolute()), "evaluator": str(Path(evaluator).absolute())}
        plan = config.Plan.of(folder.absolute(), [{"system": "programs", "task": task}, changes])
    else:
        plan = config.load(folder, [changes])
    given = wishes.llm if wishes.llm is not None else plan.run.llm
    model = model_of(given)
    budget = plan.budget() if wishes.budget is None else budget_of(wishes.budget, has_model=model is not None)
    since = time.monotonic()
    with store.Store(wishes.store or MEMORY) as kept:
        allowed = runs.Allowed(unsafe=wishes.unsafe)
        with runs.Session(kept, plan, budget=budget, model=lambda plan: model, allowed=allowed) as session:
            session.go()
            found = read_result(kept, session.run, str, Path(str(getattr(plan.task, "program", "x.py"))).suffix)
        used = runs.totals(kept, session.run)
        cost = spent(used, used.evaluations, time.monotonic() - since)
        missing = {"best-of-N": NOT_RUN, **({"no LLM": NOT_RUN} if model is not None else {})}
        reason = session.evolver.reason
    return found._replace(cost=cost, reason=reason, baselines={"start": found.start, **missing})
