"""Small search problem for kernel tests: decimal numbers that approach a target."""

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from atoll import cluster, control, evaluation, function, journal, llm
from atoll.store import memory

TARGET = 3.0


def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Scores a decimal number by its distance to three targets."""
    value = float(str(skeleton))
    scores = tuple(-abs(value - TARGET - shift) for shift in (-1.0, 0.0, 1.0))
    return evaluation.Evaluation(-((value - TARGET) ** 2), scores, {"value": value})


class Walker:
    """Moves the best parent by a random distance. The advice sets the stride. Optional random delays."""

    def __init__(self, delays: float = 0.0, children: int = 1) -> None:
        self._delays, self._children = delays, children

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        stride = float(str(context.advice.get("stride", 0.5)))
        if self._delays:
            time.sleep(Random().random() * self._delays)
        texts = [repr(float(str(parent.skeleton())) + context.rng.gauss(0, stride)) for _ in range(self._children)]
        return [function.derive_child(parent, function.Text(text), stride=stride) for text in texts]


class FixedProposer:
    """Proposes the same texts in every iteration."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[-1].clone(function.Text(text)) for text in self._texts]


class LLMWalker:
    """Asks an LLM twice per iteration how far to move."""

    def __init__(self, model: llm.LLM) -> None:
        self._llm = llm.JournaledLLM(model)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        value = float(str(parent.skeleton()))
        distance = sum(float(self._llm(f"{value!r} by {which}").text) for which in ("first", "second"))
        return [parent.clone(function.Text(repr(value + distance)))]


class CountingLLM:
    """LLM whose response depends on the position of the call. Records these positions."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, str]] = []

    def __call__(self, prompt: str) -> llm.Response:
        calls = journal.CallCache.current.get()
        assert calls is not None
        self.requests.append(calls.position)
        iteration, call = calls.position
        return llm.Response(repr(((iteration * 7 + len(call)) % 11 - 5) / 10), "counting")


class Bandit:
    """Learns which stride improves. Its state depends only on the results it learned from."""

    def __init__(self) -> None:
        self.gains: dict[float, float] = {0.1: 0.0, 0.5: 0.0, 2.0: 0.0}
        self.learned: list[int] = []

    def advise(self, rng: Random) -> Mapping[str, float]:
        return {"stride": max(self.gains, key=lambda stride: self.gains[stride] + rng.random())}

    def learn(self, result: function.IterationResult) -> None:
        self.learned.append(result.iteration)
        stride = result.advice["stride"]
        assert isinstance(stride, float)
        threshold = max(function.get_fitness(parent) for parent in result.parents)
        improved = any(
            decision.verdict == "accept" and function.get_fitness(fn) > threshold for fn, decision in result.children
        )
        self.gains[stride] = 0.9 * self.gains[stride] + improved


def make_initial(start: str = "0.0", evaluator: function.CandidateEvaluator = evaluate) -> function.DefaultFunction:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(start), candidate_evaluator=evaluator))


def make_evolver(
    engine: function.Proposer | function.MutationEngine | None = None,
    *,
    start: function.Function | None = None,
    num_islands: int = 3,
    iterations: int | None = 60,
    records: journal.Journal | None = None,
    islands: Mapping[str, Any] | None = None,
    **options: Any,
) -> cluster.Evolver:
    """Makes an evolver for the problem. `islands` are options of IslandConfig, `options` those of EvolverConfig."""
    config = cluster.IslandConfig(num_islands, 2, start or make_initial(), engine or Walker(), **(islands or {}))
    options.setdefault("schedule", cluster.RoundRobin(num_islands, migrate_every=7, reset_every=20))
    options.setdefault("budget", control.Budget(iterations=iterations))
    options.setdefault("num_parallel", 1)
    return cluster.Evolver(cluster.EvolverConfig(config, journal=records or memory.MemoryJournal(), **options))


def list_records(records: journal.Journal, kind: str) -> list[journal.Record]:
    return [record for record in records.read() if record.kind == kind]


def list_results(records: journal.Journal) -> list[tuple[Any, ...]]:
    """Returns candidates, evaluations and decisions in iteration order, without times."""
    evaluated = {record.data["id"]: record.data for record in records.read() if record.kind in ("judged", "founded")}
    lines: list[tuple[Any, ...]] = [(0, "0.0", evaluated["0.0"]["content"], evaluated["0.0"]["evaluation"]["score"])]
    for record in list_records(records, "applied"):
        for child in record.data["children"]:
            data = evaluated.get(child["id"], child)
            score = data["evaluation"]["score"] if "evaluation" in data else None
            lines.append((record.step, child["id"], data["content"], score, tuple(data["parents"]), *child["decision"]))
    return sorted(lines, key=lambda line: (line[0], line[1]))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for a condition."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.005)
