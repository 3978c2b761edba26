"""Puts the evolution of a program together from its folder."""

from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from atoll import cluster, errors, evaluation, function, llm, mutation, sandbox, system
from atoll.programs.config import Options, Task, discover
from atoll.programs.evaluator import Evaluating

__all__ = ["Options", "Task", "build", "discover"]

LANGUAGES = {".py": "python", ".rs": "rust", ".r": "r", ".R": "r", ".txt": "text", ".md": "text", ".js": "javascript"}


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run; the evaluator is run in the workers only."""
    program, evaluator = parts.folder / task.program, parts.folder / task.evaluator
    text = _text(program, "task.program")
    _text(evaluator, "task.evaluator")
    engine = _engine(text, task, program.suffix, parts.llm)
    place = sandbox.Workers(
        partial(Evaluating, str(evaluator), program.suffix), parts.limits, num_workers=parts.workers
    )
    place.warm()
    judge = sandbox.SandboxJudge(place, read)
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(text), judge=judge))
    islands = cluster.IslandConfig(
        options.num_islands, options.num_parents, initial, engine, make_pool=partial(_make_pool, options.num_parents)
    )
    interval = options.migration_interval
    every = interval * options.num_islands if interval else None
    schedule = cluster.RoundRobin(options.num_islands, migrate_every=every)
    report = {
        "program": task.program,
        "description": task.description,
        "engine": "syntax and tuner, no LLM" if parts.llm is None else "LLM, full rewrites",
        "islands": options.num_islands,
        "parents": options.num_parents,
        "workers": parts.workers,
        "migration": f"the best of each island every {every} steps" if every else "never",
    }
    config = cluster.EvolverConfig(islands, schedule=schedule, learner=engine.learner)
    return system.Built(config, report, [program, evaluator], place.level, place.close)


def read(value: Any) -> evaluation.Evaluation:
    """Makes an evaluation of what the worker found: the score is `combined_score`, else the mean of all metrics."""
    metrics, artifacts = value["metrics"], value["artifacts"]
    feedback = "\n".join(f"{name}: {text}" for name, text in artifacts.items())
    if not metrics:
        return evaluation.failed("the evaluator returned no number", feedback=feedback)
    score = metrics["combined_score"] if "combined_score" in metrics else fmean(metrics.values())
    return evaluation.Evaluation(score, (score,), metrics, feedback)


def _text(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{path} cannot be read: {key} must name a text file.") from error


def _engine(text: str, task: Task, suffix: str, model: llm.LLM | None) -> mutation.Mixed:
    language = LANGUAGES.get(suffix, suffix.lstrip(".") or "text")
    if model is not None:
        ask = partial(mutation.program_prompt, task_description=task.description, language=language)
        rewrite = mutation.Rewrite(model, ask, partial(mutation.fenced_code, language=language))
        return mutation.mixed_with(rewrite, text, "rewrite")
    if suffix != ".py" or not mutation.can_rewrite(text):
        raise errors.SetupError(
            f"{task.program} is no Python that the syntax engine can change: give a model with --llm."
        )
    return mutation.without_llm(text)


def _make_pool(num_parents: int, island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    return cluster.Niches(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.RankChooser(rng),
        num_parents=num_parents,
    )
