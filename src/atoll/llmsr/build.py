"""Puts an archipelago of functions together: from live functions, as the seed does, or from a task folder."""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import scipy

from atoll import cluster, control, errors, executor, function, journal, llm, mutation, profiler, sandbox, system
from atoll.candidate import JSON
from atoll.llmsr import laws, source
from atoll.llmsr.config import SEED_RESET_PERIOD, EvolverConfig, Model, Options, Task
from atoll.llmsr.engine import Announced, PyMutationEngine
from atoll.llmsr.presets import preset as find_preset

__all__ = ["Options", "Task", "build", "discover", "spawn_evolver"]

NAMES: Mapping[str, Any] = {"np": numpy, "numpy": numpy, "scipy": scipy, "math": math}  # what a new function may use


def spawn_evolver(
    config: EvolverConfig[..., Any, Any],
    *,
    preset: str = "default",
    reset_evaluations: int | None = None,
    budget: control.Budget = control.UNLIMITED,
    seed: int = 0,
    ordered: bool = False,
    records: journal.Journal | None = None,
    place: executor.Place | None = None,
    change: Callable[[system.Built], system.Built] = lambda built: built,
) -> system.Evolver:
    """Makes an evolver of one function; `start()` begins and returns, `stop()` ends and waits.

    Functions are judged in a jail, never in this process: evaluator and inputs are sent there once.

    Args:
        config: What evolves and how it is judged.
        preset: Whose formulas choose parents and reset islands: "default", "funsearch", "llmsr" or "seed".
        reset_evaluations: Functions judged between resets; by default 50 per island in the default preset.
        budget: What the run may use; by default it runs until `stop()`.
        seed: All dice come from it.
        ordered: The same seed gives the same run, whatever the timing; not with resets or budgets by the clock.
        records: Where the run is kept, e.g. `store.Store("atoll.db").journal(run)`; one that holds a run continues it.
        place: What judging one function may use, and how strong its jail must be; by default 30 s, 2 GiB, and the
            strongest jail that this machine has. Where it has none, functions of a model need `is_unsafe`.
        change: Makes the parts of the run other ones, e.g. `partial(methods.changed, "best_of_n")` (`atoll.runs`) those
            of a plain way that evolution is compared with.

    Raises:
        SetupError: The equation is no function defined with `def`, or something cannot be sent to another process.
    """
    subject = _Subject(
        source.of_function(config.equation),
        config.prompt_comment,
        config.evaluation_inputs,
        partial(sandbox.Scoring, config.evaluator, list(config.evaluation_inputs), names_of(config.equation)),
        source_of(config.evaluator),
        hear=config.profiler_fn,
    )
    is_own_period = preset != "default" or config.reset_period != SEED_RESET_PERIOD
    given: dict[str, Any] = {"num_islands": config.num_islands, "num_selected_clusters": config.num_selected_clusters}
    given |= {"reset_period": float(config.reset_period) if is_own_period else None, "preset": preset}
    options = system.check("EvolverConfig", Options, {**given, "reset_evaluations": reset_evaluations})
    model = _model(config.llm)
    usual = executor.Place(num_slots=min(config.num_parallel, executor.cores()), is_unsafe=model is None)
    built = change(subject.build(options, model, place or usual, config.num_parallel, seed))
    records = records or journal.Nowhere()
    run = replace(built.config, num_parallel=config.num_parallel, seed=seed, ordered=ordered)
    evolver = system.Evolver(replace(run, journal=records, budget=budget), built.report, built.close)
    evolver.use_profiler(config.profiler_fn)
    return evolver


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Recognises a folder with `train.csv`, where a law is searched for; others say what they are in `atoll.toml`."""
    if not (folder / laws.TRAIN).is_file():
        return None
    return {"task": {"data": "."}, "llmsr": {"num_islands": 1}, "run": {"workers": 1}}


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run from a task folder: its file is read here and run in the workers only; or from data."""
    if task.data is not None:
        if options.engine_weights:
            raise errors.SetupError(
                "llmsr.engine_weights is for functions: laws for data have one engine. Leave it out."
            )
        return laws.build(task.data, options.num_islands, parts)
    path = parts.folder / task.file
    start = source.of_file(path, task.function)
    text = path.read_text("utf-8-sig")
    comment = task.comment if task.comment is not None else ast.get_docstring(ast.parse(text)) or ""
    job = partial(sandbox.score_file, str(path), task.evaluator, task.inputs)
    subject = _Subject(start, comment, (), job, text, files=[path])
    return subject.build(options, parts.llm, parts.place, parts.workers, parts.seed)


def source_of(evaluator: Callable[..., Any]) -> str:
    """Returns an evaluator's source, which says what it needs of its jail; empty where it is not known."""
    try:
        return textwrap.dedent(inspect.getsource(evaluator))
    except (OSError, TypeError):
        return ""


def names_of(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns what a function finds in its module, and what new functions may use beside it."""
    seen, places = inspect.getclosurevars(fn), getattr(fn, "__globals__", {})
    header = ast.parse(source.of_function(fn).header + " pass").body[0]  # defaults and annotations have names too
    named = {node.id for node in ast.walk(header) if isinstance(node, ast.Name) and node.id in places}
    own = {**{name: places[name] for name in named}, **seen.globals, **seen.nonlocals}
    return {**NAMES, **{name: value for name, value in own.items() if value is not fn}}


def _model(given: Model) -> llm.LLM | None:
    model = llm.make_llm(given) if isinstance(given, str) else given
    if model is None:
        return None
    if not callable(model):
        raise errors.SetupError(f"llm is {model!r:.60}: give a model's name, a function of the prompt, or None.")
    return llm.Durable(llm.FromFunction(model))


@dataclass(frozen=True, slots=True)
class _Subject:
    """What evolves and where it is judged."""

    start: source.Source
    comment: str
    inputs: Sequence[Any]
    make_job: sandbox.MakeJob
    evaluator: str = ""
    hear: profiler.ProfilerFn[Any] = profiler.default_fn
    files: Sequence[Path] = ()

    def build(
        self, options: Options, model: llm.LLM | None, where: executor.Place, workers: int, seed: int
    ) -> system.Built:
        chosen = find_preset(options.preset)
        mixed = self._engine(model, options.engine_weights)
        engine = Announced(mixed)
        place = where.open(self.make_job, self.evaluator, str(self.files[0].parent) if self.files else None)
        judge = sandbox.SandboxJudge(place, sandbox.read_scores(chosen.reduce, partial=chosen.is_partial))
        props = function.DefaultFunctionProps(function.PyAstSkeleton(self.start.text), self.inputs, judge=judge)
        initial = function.DefaultFunction(props)
        for part in (initial, engine):
            part.use_profiler(self.hear)
        islands = cluster.IslandConfig(
            options.num_islands,
            options.num_selected_clusters,
            initial,
            engine,
            island_profiler_fn=self.hear,
            cluster_profiler_fn=self.hear,
            make_pool=chosen.make_pool(options.num_selected_clusters, options.temperature),
        )
        schedule = chosen.schedule(options, seed)
        report = self._report(options, schedule, model, workers)
        config = cluster.EvolverConfig(islands, schedule=schedule, learner=mixed.learner)
        plain = None if model is None else Announced(next(iter(mixed.engines.values())))
        return system.Built(config, report, self.files, place.level, place.close, plain=plain)

    def _engine(self, model: llm.LLM | None, weights: Mapping[mutation.Engine, float]) -> mutation.Mixed:
        if model is None:
            if not mutation.can_rewrite(self.start.text):
                raise errors.SetupError(f"{self.start.name} has nothing that its syntax could change: give a model.")
            return mutation.without_llm(self.start.text, weights=weights)
        engine = PyMutationEngine(self.comment, self.start.docstring, model)
        return mutation.mixed_with(engine, self.start.text, weights=weights)

    def _report(
        self, options: Options, schedule: cluster.RoundRobin, model: llm.LLM | None, workers: int
    ) -> Mapping[str, JSON]:
        seconds, count = schedule.reset_seconds, schedule.reset_every
        periods = ([f"{seconds:g} s"] if seconds else []) + ([f"{count} evaluations"] if count else [])
        return {
            "source": self.start.text,
            "comment": self.comment,
            "docstring": self.start.docstring,
            "engine": "syntax and tuner, no LLM" if model is None else "LLM",
            "preset": options.preset,
            "islands": options.num_islands,
            "clusters": options.num_selected_clusters,
            "workers": workers,
            "reset": f"the worse half every {' and every '.join(periods)}",
            "evaluator": system.BESIDE,
        }
