"""Runs of all kinds in one store, made once, for tests that only read."""

import functools
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors, evaluation, function, gate, llm, store
from atoll.journal import Record
from atoll.testing import FailingJournal, ScriptedLLM
from tests import fixtures
from tests.store.samples import applied, candidate, child, founded, judged

LONG_ID = "20261115-142233-x7k2"  # as the store makes them

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
ESCAPE = "\x1b[2J\x1b]0;owned\x07"
MARKUP = "[/bold] \\[/red] [link=http://x]y[/] :smile: x[:key:]"
FENCE = "```\n# not a heading\n````"
FORMULA = '=HYPERLINK("http://x","y")'
ODD = "größer ≥ 日本語 🙂 \u202e\x00\ud800"
HOSTILE = [SCRIPT, ESCAPE, MARKUP, FENCE, FORMULA, ODD, "x = " + "9" * 20_000]


def plan(seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Returns a configuration as a session stores it."""
    return {
        "system": "llmsr",
        "folder": "/tasks/kinetic_energy",
        "task": {"file": "task.py", "comment": None},
        "llmsr": {"preset": "default", "num_islands": 3},
        "run": {"llm": "none", "iterations": 60, "budget": None, "seed": seed, "workers": 1},
        "is_ordered": True,
        "files": {"task.py": "0123456789abcdef"},
        **changes,
    }


def started(model: str = "none") -> Record:
    return Record("started", 0, -1, {"sandbox": "L0", "llm": model, "workers": 1})


def walk(
    run_store: store.Store, name: str, *, seed: int = 0, config: Mapping[str, Any] | None = None, **options: Any
) -> str:
    """Runs the toy problem: three islands, with migration and resets."""
    run_store.create_run(name, plan(seed) if config is None else config)
    records = run_store.journal(name)
    records.write(started())
    settings: dict[str, Any] = {"ordered": True, "window": 4, "seed": seed, "learner": fixtures.Bandit()} | options
    fixtures.make_evolver(records=records, **settings).run()
    return name


class Moody:
    """Evaluates like the toy evaluator, but raises below zero and gives feedback on the others."""

    def __call__(self, skeleton: function.AnySkeleton) -> evaluation.Evaluation:
        value = float(str(skeleton))
        if value < 0:
            raise ValueError(f"{value:.3f} is below zero")
        base = fixtures.evaluate(skeleton)
        return evaluation.Evaluation(base.score, base.scores, base.metrics, feedback=f"{value} is near\nbut not it")


def only_near(proposal: gate.Proposal) -> gate.Decision:
    """Rejects distant candidates."""
    is_near = proposal.evaluation is not None and (proposal.evaluation.score or 0.0) > -20.0
    return gate.Decision("accept" if is_near else "reject", "near enough" if is_near else "too far", "only_near")


class Asker:
    """Asks an LLM for the next number; an empty response gives no child."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = llm.JournaledLLM(model)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        answer = self._model(f"The best so far is {parent.skeleton()}.\nWhat comes next?")
        if not answer.text:
            return []
        return [
            function.derive_child(parent, function.Text(repr(float(answer.text))), engine="llm", model=answer.model)
        ]


REPLIES: dict[tuple[int, str | int], str] = {
    (1, 0): "1.0",
    (2, 0): "no number",
    (3, 0): "",
    (4, 0): "-1.0",
    (5, 0): "2.5",
    (6, 0): "0.5",
}


def ask(run_store: store.Store, name: str) -> str:
    """Runs with an LLM whose responses improve, are not numbers, are empty, fail, or are worse."""
    run_store.create_run(name, plan(run={"llm": "openai:some-model", "iterations": 7, "seed": 0}))
    records = run_store.journal(name)
    records.write(started("openai:some-model"))
    model = ScriptedLLM(REPLIES, failing=[(7, 0)])
    start = fixtures.make_initial(evaluator=Moody())
    fixtures.make_evolver(
        Asker(model), start=start, num_islands=1, iterations=7, records=records, ordered=True, window=1
    ).run()
    return name


def fail(run_store: store.Store, name: str) -> str:
    """Runs with failing children and a gate that rejects some."""
    islands = {"gate": only_near}
    return walk(
        run_store,
        name,
        start=fixtures.make_initial(evaluator=Moody()),
        islands=islands,
        engine=fixtures.Walker(children=2),
    )


def cut(run_store: store.Store, name: str) -> str:
    """Runs until the journal fails, in the middle of iterations."""
    run_store.create_run(name, plan())
    records = run_store.journal(name)
    records.write(started())
    try:
        fixtures.make_evolver(records=FailingJournal(records, 31), ordered=True, window=4).run()
    except errors.JournalFailed:
        return name
    raise AssertionError("the journal should have failed")


def attack(run_store: store.Store, name: str) -> str:
    """Stores candidates whose texts are markup, code, formulas or terminal commands."""
    run_store.create_run(
        name, plan(folder=f"/tasks/{SCRIPT.replace('/', '')}{MARKUP.replace('/', '')}", note=f"{SCRIPT}{ESCAPE}")
    )
    written = [started(), founded(1.0, "start\n")]
    for step, text in enumerate(HOSTILE, 1):
        parent = f"{step - 1}.0"
        data = dict(judged(f"{step}.0", 1.0 + step, content=f"{text}\nline two of {step}\n", parents=[parent]).data)
        result_data = {"score": 1.0 + step, "feedback": text, "metrics": {text: 1.0}, "scores": [1.0] * 40}
        data |= {"evaluation": result_data, "meta": {"engine": text, text: text}}
        decision = {"id": f"{step}.0", "decision": ["accept", text, text, None]}
        written += [Record("judged", step, 0, data), applied(step, decision)]
    steps = range(len(HOSTILE) + 1, 2 * len(HOSTILE) + 1)
    for step, text in zip(steps, HOSTILE, strict=True):
        data = dict(judged(f"{step}.0", None, content=text).data) | {"evaluation": {"score": None, "failure": text}}
        decision = {"id": f"{step}.0", "decision": ["reject", text, "judge", None]}
        written += [Record("judged", step, 0, data), applied(step, decision)]
    step = 2 * len(HOSTILE) + 1
    reply = {"text": SCRIPT, "prompt": ESCAPE, "model": MARKUP, "call": "0", "request": "x", "usage": [0, 1, 1, 0.5]}
    written.append(Record("replied", step, 0, reply))
    lost = {**dict(applied(step).data), "failure": SCRIPT, "cost": [0.0, 1, 1, 0.5, 1]}
    written.append(Record("applied", step, 0, lost))
    unjudged = candidate(f"{step + 1}.0", parents=["0.0"])
    written.append(applied(step + 1, child(f"{step + 1}.0", "reject", unjudged=unjudged)))
    run_store.journal(name).write(*written)
    return name


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="atoll-samples-")


@functools.cache
def library() -> str:
    """Returns the path of a store with all of them, made once. Tests must not write to it."""
    path = str(Path(_folder().name) / "samples.db")
    with store.Store(path, clock=lambda: datetime(2026, 11, 15, 14, 22, 33, tzinfo=UTC)) as run_store:
        walk(run_store, LONG_ID)
        walk(run_store, "again", seed=1)
        walk(run_store, "elsewhere", config=plan(folder="/tasks/other", files={"task.py": "f"}), iterations=20)
        walk(run_store, "bare", config={}, iterations=5)
        ask(run_store, "asked")
        fail(run_store, "failing")
        cut(run_store, "cut")
        attack(run_store, "hostile")
        run_store.create_run("empty", plan())
    return path
