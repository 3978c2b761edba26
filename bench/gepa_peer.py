"""GEPA part of bench/gepa.py, run in .venv-peers. Prints its result as one JSON line."""

import contextlib
import io
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # started with -P, or `gepa` would be bench/gepa.py

import gepa
from gepa.core.adapter import EvaluationBatch

from bench.tasks import prompt_sets, rules


def _format(item: Any) -> str:
    return item["input"] if isinstance(item, dict) else str(item)


class Adapter:
    """Adapts the evaluators to GEPA."""

    propose_new_texts = None

    def __init__(self, bench: Any, workers: int) -> None:
        self._bench, self._workers = bench, workers

    def evaluate(self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        with ThreadPoolExecutor(self._workers) as pool:
            evaluation = list(pool.map(lambda item: self._bench.evaluate(candidate["text"], item), batch))
        traces = [
            {"input": _format(item), "said": message} for item, (_, message) in zip(batch, evaluation, strict=True)
        ]
        scores = [score for score, _ in evaluation]
        return EvaluationBatch(
            outputs=[message for _, message in evaluation],
            scores=scores,
            trajectories=traces if capture_traces else None,
        )

    def make_reflective_dataset(self, candidate: dict[str, str], batch: Any, parts: list[str]) -> dict[str, Any]:
        entries = [{"Inputs": trajectory["input"], "Feedback": trajectory["said"]} for trajectory in batch.trajectories]
        return dict.fromkeys(parts, entries)


def optimize(
    bench: Any, start: str, train: Any, validation: Any, calls: int, seed: int, workers: int = 1, **options: Any
) -> tuple[Any, float]:
    """Returns the result of GEPA with its defaults, and its total CPU seconds."""
    since = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        result = gepa.optimize(
            seed_candidate={"text": start},
            trainset=list(train),
            valset=list(validation),
            adapter=Adapter(bench, workers),
            reflection_lm=bench.reply,
            max_metric_calls=calls,
            seed=seed,
            **options,
        )
    return result, time.process_time() - since


def contest(seed: int, calls: int) -> dict[str, Any]:
    bench, sets = rules.Bench(seed), rules.sets(seed)
    result, _ = optimize(bench, rules.START, sets.train, sets.validation, calls, seed)
    best = result.best_candidate["text"]
    used = bench.calls
    scores = [rules.Bench(seed).evaluate(best, item)[0] for item in sets.test]
    test = sum(scores) / len(scores)
    return {
        "test": test,
        "validation": result.val_aggregate_scores[result.best_idx],
        "calls": used,
        "replies": bench.replies,
    }


def overhead(proposals: int) -> dict[str, Any]:
    bench = rules.Climb()
    # 10 for the initial text, then 3 for the parent, 3 for the child and 10 for all, because every child is better.
    calls = 10 + 16 * proposals
    _, seconds = optimize(bench, "value=0.0 start", range(10), range(10, 20), calls, 0)
    return {"proposals": bench.replies, "calls": bench.calls, "cpu_ms": 1e3 * seconds / max(1, bench.replies)}


def prompts(name: str, seed: str, calls: str, replies: str, model: str, formulas: str) -> dict[str, Any]:
    """Runs GEPA on a data set with a real LLM, until the metric calls or the reflections are used."""
    max_replies = int(replies) or None
    task = prompt_sets.Task(name, model, max_replies)
    parts = prompt_sets.sets(name, int(seed), Path(formulas) if formulas else None)
    start = prompt_sets.STARTS[name]
    options: dict[str, Any] = {"workers": prompt_sets.WORKERS}
    options |= {"stop_callbacks": lambda state: task.is_over} if max_replies else {}
    limit = int(calls) or 100_000
    result, _ = optimize(task, start, parts.train, parts.validation, limit, int(seed), **options)
    best, used = result.best_candidate["text"], {"calls": task.calls, "replies": task.replies}
    scores = [task.evaluate(best, item)[0] for item in parts.test]
    validation = result.val_aggregate_scores
    usage = {**used, "best": best, "initial": validation[0]}
    return {"test": sum(scores) / len(scores), "validation": validation[result.best_idx], **usage}


if __name__ == "__main__":
    task_name, *words = sys.argv[1:]
    if task_name == "prompts":
        run_result = prompts(*words)
    else:
        run_result = contest(*map(int, words)) if task_name == "contest" else overhead(*map(int, words))
    print(json.dumps(run_result))
