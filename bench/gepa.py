"""Text evolution compared with GEPA and baselines: the same task, scripted LLM and number of evaluator calls.

The task (bench/tasks/rules.py) is a list of rules with a known optimum. All systems select by the same validation part;
the test part is scored once at the end. Best of N writes every child from the initial text, sequential from the best so
far. Without an LLM, lines are dropped, doubled and moved. The cost of an engine is the CPU time of a run whose LLM and
evaluator do nothing and whose children are all kept, as GEPA's population grows then.

    scripts/bench gepa                                                    # scripted LLM, some minutes
    scripts/bench gepa --llm openai:NAME@http://127.0.0.1:8000/v1 --formulas DIR     # a real LLM: bench/gepa_llm.py
"""

import argparse
import importlib
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import atoll
from atoll import control
from atoll.evolve import events, runner
from bench import baselines, gepa_llm, outcome
from bench.tasks import prompt_sets, rules

PEERS = True
ROOT = Path(__file__).parent.parent
GEPA = gepa_llm.GEPA
NO_LLM = "no LLM"
CALLS = 600
SEEDS = range(10)
PROPOSALS = (100, 1000)
LIMIT_SECONDS = 7200.0
LEAST_TIMES = 5.0
OUT = ROOT / ".bench" / "gepa_llm.jsonl"
LLM_SEEDS, LLM_CALLS, LLM_REPLIES = 3, 400, 24


def atoll_contest(seed: int, calls: int, way: str = baselines.EVOLUTION) -> dict[str, Any]:
    """Runs Atoll or one of its baselines. Returns its scores and usage."""
    bench, sets = rules.Bench(seed), rules.sets(seed)
    wished = events.EvolveOptions(
        llm=None if way == NO_LLM else bench.reply,
        data=sets.train,
        validation=sets.validation,
        test=sets.test,
        budget=f"{calls}evals",
        target=1.0,
        seed=seed,
        workers=1,
        merge=False,
        verbose=False,
        method=baselines.METHODS.get(way, "evolve"),
    )
    evaluation = runner.run(rules.START, bench.evaluate, wished)
    used = {"calls": evaluation.cost.evaluator_calls, "replies": evaluation.cost.llm_calls}
    return {"test": evaluation.test, "validation": evaluation.score, **used}


def atoll_overhead(proposals: int, store: Path | None = None) -> dict[str, Any]:
    importlib.import_module("atoll.evolve.runner")  # the import of GEPA is not counted either
    bench, since = rules.Climb(), time.process_time()
    budget = control.Budget(iterations=proposals)
    evaluation = atoll.evolve(
        "value=0.0 start",
        bench.evaluate,
        data=range(10),
        validation=range(10, 20),
        llm=bench.reply,
        budget=budget,
        workers=1,
        merge=False,
        store=store,
        verbose=False,
    )
    seconds = time.process_time() - since
    used = {"proposals": bench.replies, "calls": evaluation.cost.evaluator_calls}
    return {**used, "cpu_ms": 1e3 * seconds / max(1, bench.replies)}


def peer(*words: object) -> dict[str, Any]:
    """Runs GEPA in its own environment."""
    command = [
        str(ROOT / ".venv-peers" / "bin" / "python"),
        "-P",
        str(ROOT / "bench" / "gepa_peer.py"),
        *map(str, words),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if ended.returncode != 0:
        raise SystemExit(f"GEPA's side failed: {ended.stderr[-800:]}")
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return result


def contest(seed: int, calls: int, has_peers: bool) -> dict[str, Any]:
    """Runs all systems on the task of a seed."""
    result = {way: atoll_contest(seed, calls, way) for way in (*baselines.METHODS, NO_LLM)}
    return result | ({GEPA: peer("contest", seed, calls)} if has_peers else {})


def overhead(proposals: int, has_peers: bool) -> dict[str, Any]:
    """Measures the time per proposal of each engine, and of Atoll with a store."""
    item: dict[str, Any] = {"proposals": proposals, "systems": {baselines.EVOLUTION: atoll_overhead(proposals)}}
    if has_peers:
        item["systems"][GEPA] = peer("overhead", proposals)
        item["times"] = item["systems"][GEPA]["cpu_ms"] / item["systems"][baselines.EVOLUTION]["cpu_ms"]
    with tempfile.TemporaryDirectory() as folder:
        item["kept_cpu_ms"] = atoll_overhead(proposals, Path(folder) / "atoll.db")["cpu_ms"]
    return item


def tests(contests: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Returns the test scores of each system by seed."""
    return {name: [item["systems"][name]["test"] for item in contests] for name in contests[0]["systems"]}


def tables(calls: int, contests: Sequence[Mapping[str, Any]], overheads: Sequence[Mapping[str, Any]]) -> outcome.Tables:
    names = list(contests[0]["systems"])
    means = [
        [
            name,
            baselines.format_interval(scores),
            *(statistics.fmean(item["systems"][name][key] for item in contests) for key in _MEANS),
        ]
        for name, scores in tests(contests).items()
    ]
    engines = list(overheads[0]["systems"])
    takes = [
        [item["proposals"], *(item["systems"][name]["cpu_ms"] for name in engines), item.get("times", "-")]
        for item in overheads
    ]
    return {
        f"A prompt task with a known optimum (1.0), {calls} evaluator calls, means over {len(contests)} seeds": (
            ["system", "test, 95 %", *_MEANS],
            means,
        ),
        "Test score by seed": (
            ["seed", *names],
            [[item["seed"], *(item["systems"][name]["test"] for name in names)] for item in contests],
        ),
        "Time of the engine per proposal": (
            ["proposals", *(f"CPU ms, {name}" for name in engines), "times less"],
            takes,
        ),
    }


_MEANS = ("validation", "calls", "replies")


def verdicts(contests: Sequence[Mapping[str, Any]], overheads: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Describes whether the goals are met, and which baselines are as good."""
    scores = tests(contests)
    plain = baselines.verdicts("Test score", {name: item for name, item in scores.items() if name != GEPA})
    if GEPA not in scores:
        return [*plain, "GEPA was not run (--no-peers)."]
    means = {name: statistics.fmean(item) for name, item in scores.items()}
    ours, theirs, times = means[baselines.EVOLUTION], means[GEPA], overheads[-1]["times"]
    better = [name for name in scores if name not in (GEPA, baselines.EVOLUTION) and means[name] >= theirs]
    return [
        f"Mean test score {ours:.4f} against GEPA's {theirs:.4f}: {'reached' if ours >= theirs else 'MISSED'}.",
        *plain,
        f"Baselines that reach GEPA's mean too: {', '.join(better) or 'none'}.",
        f"At {overheads[-1]['proposals']} proposals {times:.1f} times less than GEPA; goal {LEAST_TIMES:g}: "
        f"{'reached' if times >= LEAST_TIMES else 'MISSED'}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--seeds", type=int, help="10; with --llm 3")
    parser.add_argument("--calls", type=int, help=f"evaluator calls: {CALLS}; with --llm {LLM_CALLS}")
    parser.add_argument("--replies", type=int, default=LLM_REPLIES, help="LLM calls of the contest at equal LLM calls")
    parser.add_argument("--llm", help="openai:NAME@URL runs the contests with a real LLM instead")
    parser.add_argument("--formulas", type=Path, help="folder with train.jsonl and test_100.jsonl")
    parser.add_argument("--data", nargs="+", choices=prompt_sets.NAMES, default=prompt_sets.NAMES)
    parser.add_argument("--jobs", type=int, default=8, help="runs at once with --llm")
    parser.add_argument("--out", type=Path, default=OUT, help="finished runs with --llm, one per line")
    chosen = parser.parse_args()
    if chosen.llm:
        gepa_llm.run_all(chosen, chosen.seeds or LLM_SEEDS, chosen.calls or LLM_CALLS, peer)
        return
    chosen.seeds, chosen.calls = chosen.seeds or len(SEEDS), chosen.calls or CALLS
    contests, overheads = list[dict[str, Any]](), list[dict[str, Any]]()
    for seed in range(chosen.seeds):
        contests.append({"seed": seed, "systems": contest(seed, chosen.calls, not chosen.no_peers)})
        print(json.dumps(contests[-1]), flush=True)
    for proposals in PROPOSALS:
        overheads.append(overhead(proposals, not chosen.no_peers))
        print(json.dumps(overheads[-1]), flush=True)
    stored = ", ".join(f"{item['kept_cpu_ms']:.3g} at {item['proposals']}" for item in overheads)
    notes = [
        *verdicts(contests, overheads),
        "Atoll and the baselines end if another iteration might exceed the limit, at the validation optimum, or after "
        "300 iterations without a new candidate; GEPA ends with the iteration that reaches the limit.",
        f"Neither writes a file in the last table; with a store Atoll takes {stored}.",
    ]
    facts: dict[str, Any] = {"calls": chosen.calls, "contest": contests, "overhead": overheads}
    outcome.keep("gepa", tables(chosen.calls, contests, overheads), notes, **facts)


if __name__ == "__main__":
    main()
