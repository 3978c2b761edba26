"""Playbook: 10,000 turns, questions with distractors, fresh pairs of rules, and offline learning with a real LLM.

    scripts/bench playbook                                                   # some minutes; no LLM, no data
    scripts/bench playbook --llm http://127.0.0.1:8080/v1 --formulas DIR     # a real LLM: about 3,500 calls

Turns: an agent with random habits tags and adds bullets every turn. Measured are the budget, the CPU time per turn, and
the files before and after a rollback. Questions: the learner is right only if a retrieved bullet states the rule.
Pairs: `bench/playbook_pairs.jsonl`, written after the first version of the code. See `playbook_pairs.py`.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from atoll import playbook, store
from bench import outcome, playbook_llm, playbook_pairs
from bench.playbook_llm import HEADINGS

EVERY = 10  # turns between two measurements of the machine's speed
NOTES = (
    "Times are CPU time of one process, retrieval, curation and the commit to SQLite included. The playbook fills in"
    " the first tenth. Other load increases CPU time at times; the fixed job shows by how much.",
    "The pairs were written after the first version. Seeing them, merges by embeddings alone were removed, and the LLM "
    "may compare more pairs of rules (30, then 120).",
)
_WORDS = """lava wolf bear river ghost cave swamp ice spider storm thorn cliff bat snake troll pit fog mud sand vine
cross enter touch follow feed climb watch hunt leave guard burn open carry trade bury paint
night dawn noon dusk winter spring rain snow wind heat"""
THINGS, DEEDS, TIMES = (line.split() for line in _WORDS.splitlines())


def tree(folder: Path) -> Mapping[str, bytes]:
    """Returns the files of `current` and `archive`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for part in ("current", "archive")
        for path in sorted((folder / part).rglob("*"))
    }


def habit(rng: Random, turn: int, known: Sequence[str]) -> list[playbook.Delta]:
    """Returns the changes of a turn: tags of used bullets, and sometimes a new rule, an update or a removal."""
    deltas = [playbook.tag(id, rng.choices(("helpful", "neutral", "harmful"), (4, 4, 2))[0]) for id in known[:2]]
    if rng.random() < 0.5:
        how, deed, thing = rng.choice(("Never", "Always")), rng.choice(DEEDS), rng.choice(THINGS)
        rule = f"{how} {deed} a {thing} at {rng.choice(TIMES)} within {rng.randint(2, 99)} steps."
        deltas.append(playbook.add(rng.choice(("tactics", "recipes", "reflections")), rule, evidence=f"turn {turn}"))
    if known and rng.random() < 0.05:
        deltas.append(playbook.remove(known[-1], evidence="it did not hold"))
    return deltas


def yardstick() -> float:
    """Returns the CPU time of a fixed job. A busy machine makes all work slower, sometimes by a factor of 2."""
    began = time.process_time()
    for _ in range(3):
        json.loads(json.dumps(_JOB, sort_keys=True))
    return time.process_time() - began


_JOB = [{"id": f"rule-{number:05}", "text": "Never cross a river at night.", "used": number} for number in range(200)]


def turns(count: int, seed: int, budget: int) -> Sequence[object]:
    """Runs this many turns on SQLite. Returns a row."""
    rng, spent, largest, sticks = Random(seed), list[float](), 0, list[float]()
    config = playbook.Config(max_tokens=budget, refine_interval=200)
    with tempfile.TemporaryDirectory() as folder, store.Store(Path(folder) / "atoll.db") as opened_store:
        notes = playbook.make_store(opened_store.versions(), config=config)
        for turn in range(1, count + 1):
            began = time.process_time()
            query = f"a {rng.choice(THINGS)} at {rng.choice(TIMES)} {rng.choice(DEEDS)}"
            known = [item.bullet.id for item in notes.retrieve(query)]
            change = notes.apply(habit(rng, turn, known), f"turn {turn}", "agent", turn=turn)
            spent.append(time.process_time() - began)
            sticks += [yardstick()] if turn % EVERY == 0 else []
            largest = max(largest, change.playbook.count_tokens())
            if turn == count // 2:
                mark = notes.version
                playbook.export_folder(notes, Path(folder) / "files")
                before = tree(Path(folder) / "files")
        playbook.export_folder(notes, Path(folder) / "files")
        moved = tree(Path(folder) / "files") != before
        notes.rollback(mark)
        playbook.export_folder(notes, Path(folder) / "files")
        is_restored = tree(Path(folder) / "files") == before
        size = (Path(folder) / "atoll.db").stat().st_size
        versions = notes.version
    tenth = max(1, count // 10)
    first, last = 1000 * np.mean(spent[:tenth]), 1000 * np.mean(spent[-tenth:])
    warm = 1000 * np.mean(spent[tenth : 2 * tenth])
    sizes = [count, budget, largest]
    slower = np.mean(sticks[-tenth // EVERY :]) / np.mean(sticks[: max(1, tenth // EVERY)])
    times = [float(item) for item in (first, warm, last, last / first, last / warm, last / first / slower)]
    return [*sizes, *times, versions, size / 1e6, is_restored and moved]


COLUMNS = [
    "turns", "token budget", "most tokens", "ms per turn, first tenth", "second tenth", "last tenth", "last : first",
    "last : second", "last : first, relative to a fixed job",
    "versions", "MB on disk", "rollback restores the files byte for byte",
]  # fmt: skip


class Lookup:
    """Answers correctly only if a retrieved rule names the item and states the number."""

    def answer(self, question: str, excerpts: Sequence[playbook.Excerpt], reflection: str) -> playbook.Answer:
        thing = question.split('"')[1]
        for excerpt in excerpts:
            words = excerpt.text.split()
            if f'"{thing}"' in excerpt.text and "units" in words:
                return playbook.Answer(words[words.index("units") - 1], (excerpt.bullet.id,))
        return playbook.Answer("unknown", tuple(item.bullet.id for item in excerpts[:1]))


def questions(rules: int, requests: int, distractors: int, seed: int) -> tuple[Sequence[bool], Sequence[bool], int]:
    """Returns whether each answer was correct with and without the playbook, and the number of bullets."""
    rng = Random(seed)
    names = [f"{rng.choice(THINGS)} {rng.choice(DEEDS)} {number}" for number in range(rules + distractors)]
    truth = {name: str(rng.randint(100, 999)) for name in names}
    right: Callable[[str, str], bool] = lambda name, message: truth[name] == message  # noqa: E731

    def evaluate(question: str, answer: playbook.Answer) -> playbook.Grade:
        name = question.split('"')[1]
        lesson = f'Toll rule: "{name}" costs {truth[name]} units at the gate.'
        return playbook.Grade(right(name, answer.text), f"the toll is {truth[name]}", lesson)

    notes = playbook.make_store(store.MemoryVersions(), config=playbook.Config(max_tokens=80_000, max_deltas=1000))
    fillers = [f'Toll rule: "{name}" costs {truth[name]} units at the gate.' for name in names[rules:]]
    notes.apply([playbook.add("rules", filler) for filler in fillers], "distractors", "bench", turn=0)
    stream = [f'What is the toll for "{rng.choice(names[:rules])}" at the gate?' for _ in range(requests)]
    learner = playbook.OnlineLearner(notes, Lookup(), evaluate, playbook.TaggingReflector())
    online = [bool(turn.grade.is_correct) for turn in learner.run(stream)]
    without = [right(item.split('"')[1], Lookup().answer(item, (), "").text) for item in stream]
    return online, without, len(notes.current())


def interval(successes: int, count: int) -> tuple[float, float]:
    """Returns the 95 % Wilson interval of a share in percent."""
    z, p = 1.96, successes / count
    middle, spread = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return 100 * (middle - spread) / (1 + z * z / count), 100 * (middle + spread) / (1 + z * z / count)


def gained(ours: Sequence[bool], theirs: Sequence[bool], seed: int = 0) -> tuple[float, float, float]:
    """Returns the paired difference in percent with its 95 % bootstrap interval."""
    difference = np.array(ours, dtype=float) - np.array(theirs, dtype=float)
    rng = np.random.default_rng(seed)
    means = rng.choice(difference, (4000, len(difference))).mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return 100 * float(difference.mean()), 100 * float(low), 100 * float(high)


def compared(name: str, ours: Sequence[bool], theirs: Sequence[bool]) -> Sequence[object]:
    difference = gained(ours, theirs)
    spans = [interval(sum(item), len(item)) for item in (ours, theirs)]
    shares = [
        f"{100 * np.mean(item):.1f} ({low:.1f} to {high:.1f})"
        for item, (low, high) in zip((ours, theirs), spans, strict=True)
    ]
    return [name, len(ours), *shares, "{:+.1f} ({:+.1f} to {:+.1f})".format(*difference)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench playbook", description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--budgets", type=int, nargs="+", default=[4_000], metavar="TOKENS")
    parser.add_argument("--seed", type=int, default=1)
    playbook_llm.add_options(parser)
    options = parser.parse_args()
    if options.llm:
        runs = playbook_llm.run_all(options)
        tables: dict[str, Any] = {"Offline epochs with a validation split": (HEADINGS, playbook_llm.summarize(runs))}
        tables["Runs"] = (playbook_llm.RUN_HEADINGS, playbook_llm.list_runs(runs))
        facts = {"rows": [{key: row[key] for key in ("task", "seed", "summary", "playbook")} for row in runs]}
        outcome.keep("playbook_llm", tables, (), bench="playbook", **facts)
        return
    headings = ["questions", "number", "right with the playbook, %", "right without, %", "difference, points"]
    turn_rows = [turns(options.turns, options.seed, budget) for budget in options.budgets]
    online, without, bullets = questions(100, 1000, 500, options.seed)
    late = slice(len(online) // 2, None)
    rows = [compared("all questions", online, without), compared("second half", online[late], without[late])]
    tables = {"Turns": (COLUMNS, turn_rows)}
    tables[f"Questions whose rule is one of 100 among 500 distractors ({bullets} bullets at the end)"] = (
        headings,
        rows,
    )
    tables["Pairs, written after the first version of the code"] = (playbook_pairs.HEADINGS, playbook_pairs.measure())
    outcome.keep("playbook", tables, NOTES, seed=options.seed)


if __name__ == "__main__":
    main()
