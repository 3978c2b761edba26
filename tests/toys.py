"""A small problem for tests of the kernel: walk to a number, one decimal text at a time."""

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from atoll import cluster, control, evaluation, function, journal, llm
from atoll.store import memory

TARGET = 3.0


def judge(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Scores a decimal number by how near it is to the target, seen from three sides."""
    value = float(str(skeleton))
    scores = tuple(-abs(value - TARGET - shift) for shift in (-1.0, 0.0, 1.0))
    return evaluation.Evaluation(-((value - TARGET) ** 2), scores, {"value": value})


class Walker:
    """Moves the best parent by a random distance, as far as the advice says; sleeps now and then."""

    def __init__(self, naps: float = 0.0, children: int = 1) -> None:
        self._naps, self._children = naps, children

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        stride = float(str(context.advice.get("stride", 0.5)))
        if self._naps:
            time.sleep(Random().random() * self._naps)
        texts = [repr(float(str(parent.skeleton())) + context.rng.gauss(0, stride)) for _ in range(self._children)]
        return [function.derive_child(parent, function.Text(text), stride=stride) for text in texts]


class Of:
    """Proposes these texts, whatever it is asked."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[-1].clone(function.Text(text)) for text in self._texts]


class Asking:
    """Asks a model how far to go, twice a step."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = llm.JournaledLLM(model)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        here = float(str(parent.skeleton()))
        there = sum(float(self._model(f"{here!r} by {which}").text) for which in ("first", "second"))
        return [parent.clone(function.Text(repr(here + there)))]


class Counting:
    """A model that answers by place and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def __call__(self, prompt: str) -> llm.Response:
        ledger = journal.CallCache.current.get()
        assert ledger is not None
        self.asked.append(ledger.position)
        step, call = ledger.position
        return llm.Response(repr(((step * 7 + len(call)) % 11 - 5) / 10), "counting")


class Bandit:
    """Learns which stride improves; its whole state comes from what it was taught."""

    def __init__(self) -> None:
        self.gains: dict[float, float] = {0.1: 0.0, 0.5: 0.0, 2.0: 0.0}
        self.taught: list[int] = []

    def advise(self, rng: Random) -> Mapping[str, float]:
        return {"stride": max(self.gains, key=lambda stride: self.gains[stride] + rng.random())}

    def learn(self, result: function.IterationResult) -> None:
        self.taught.append(result.iteration)
        stride = result.advice["stride"]
        assert isinstance(stride, float)
        bar = max(function.get_fitness(parent) for parent in result.parents)
        won = any(decision.verdict == "accept" and function.get_fitness(fn) > bar for fn, decision in result.children)
        self.gains[stride] = 0.9 * self.gains[stride] + won


def initial(start: str = "0.0", by: function.CandidateEvaluator = judge) -> function.DefaultFunction:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(start), candidate_evaluator=by))


def evolver(
    engine: function.Proposer | function.MutationEngine | None = None,
    *,
    start: function.Function | None = None,
    num_islands: int = 3,
    iterations: int | None = 60,
    records: journal.Journal | None = None,
    islands: Mapping[str, Any] | None = None,
    **options: Any,
) -> cluster.Evolver:
    """Makes an evolver on the toy problem; `islands` goes to its island config, `options` to its own."""
    config = cluster.IslandConfig(num_islands, 2, start or initial(), engine or Walker(), **(islands or {}))
    options.setdefault("schedule", cluster.RoundRobin(num_islands, migrate_every=7, reset_every=20))
    options.setdefault("budget", control.Budget(iterations=iterations))
    options.setdefault("num_parallel", 1)
    return cluster.Evolver(cluster.EvolverConfig(config, journal=records or memory.MemoryJournal(), **options))


def of_kind(records: journal.Journal, kind: str) -> list[journal.Record]:
    return [record for record in records.read() if record.kind == kind]


def results(records: journal.Journal) -> list[tuple[Any, ...]]:
    """Returns candidates, evaluations and decisions in the order of steps: all of a run but its times."""
    judged = {record.data["id"]: record.data for record in records.read() if record.kind in ("judged", "founded")}
    lines: list[tuple[Any, ...]] = [(0, "0.0", judged["0.0"]["content"], judged["0.0"]["evaluation"]["score"])]
    for record in of_kind(records, "applied"):
        for child in record.data["children"]:
            data = judged.get(child["id"], child)
            score = data["evaluation"]["score"] if "evaluation" in data else None
            lines.append((record.step, child["id"], data["content"], score, tuple(data["parents"]), *child["decision"]))
    return sorted(lines, key=lambda line: (line[0], line[1]))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for a condition."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.005)
