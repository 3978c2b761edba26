"""Texts beside GEPA: the same task, the same scripted model, the same number of evaluator calls.

The task (bench/tasks/rules.py) is a list of rules whose optimum is known. Both systems choose by the same validation
part; the test part is scored once at the end. What an engine takes itself is CPU time of a run whose model and
evaluator do nothing, with every child kept, as GEPA's own pool grows then.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import atoll
from atoll import control
from bench import outcome
from bench.tasks import rules

PEERS = True
ROOT = Path(__file__).parent.parent
CALLS = 600
SEEDS = range(10)
PROPOSALS = (100, 1000)
LIMIT_SECONDS = 600.0
LEAST_TIMES = 5.0


def atoll_contest(seed: int, calls: int) -> dict[str, Any]:
    bench, sets = rules.Bench(seed), rules.sets(seed)
    found = atoll.evolve(
        rules.START,
        bench.evaluate,
        data=sets.train,
        validation=sets.validation,
        test=sets.test,
        llm=bench.reply,
        budget=f"{calls}evals",
        target=1.0,
        seed=seed,
        workers=1,
        merge=False,
    )
    used = {"calls": found.cost.evaluator_calls, "replies": found.cost.llm_calls}
    return {"test": found.test, "validation": found.score, **used}


def atoll_overhead(proposals: int, store: Path | None = None) -> dict[str, Any]:
    importlib.import_module("atoll.evolve.running")  # GEPA's import is not counted either
    bench, since = rules.Climb(), time.process_time()
    budget = control.Budget(iterations=proposals)
    found = atoll.evolve(
        "value=0.0 start",
        bench.evaluate,
        data=range(10),
        validation=range(10, 20),
        llm=bench.reply,
        budget=budget,
        workers=1,
        merge=False,
        store=store,
    )
    seconds = time.process_time() - since
    used = {"proposals": bench.replies, "calls": found.cost.evaluator_calls}
    return {**used, "cpu_ms": 1e3 * seconds / max(1, bench.replies)}


def peer(*words: object) -> dict[str, Any]:
    """Runs GEPA's side in its own environment."""
    command = [
        str(ROOT / ".venv-peers" / "bin" / "python"),
        "-P",
        str(ROOT / "bench" / "gepa_peer.py"),
        *map(str, words),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if ended.returncode != 0:
        raise SystemExit(f"GEPA's side failed: {ended.stderr[-800:]}")
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    shown = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *shown))


def machine() -> Mapping[str, object]:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    facts = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return {**facts, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "commit": found.stdout.strip()}


def report(data: Mapping[str, Any]) -> str:
    contests, overheads = data["contest"], data["overhead"]
    names = list(contests[0]["systems"])
    rows = [
        [
            each["seed"],
            *(each["systems"][name][key] for name in names for key in ("test", "validation", "calls", "replies")),
        ]
        for each in contests
    ]
    means = [
        statistics.fmean(each["systems"][name][key] for each in contests)
        for name in names
        for key in ("test", "validation", "calls", "replies")
    ]
    headings = ["seed", *(f"{name} {key}" for name in names for key in ("test", "validation", "calls", "replies"))]
    lines = [f"Command: `scripts/bench gepa`. Machine: {json.dumps(data['machine'])}.", ""]
    lines += [f"### A prompt task with a known optimum (1.0), {data['calls']} evaluator calls", ""]
    lines += [table(headings, [*rows, ["mean", *means]]), "", "### What the engine takes for a proposal", ""]
    cells = [
        [
            each["proposals"],
            *(each["systems"][name]["cpu_ms"] for name in names),
            *([each["times"]] if "times" in each else []),
        ]
        for each in overheads
    ]
    lines += [table(["proposals", *(f"CPU ms, {name}" for name in names), "times less"], cells), "", *data["notes"], ""]
    return "\n".join(lines)


def verdicts(data: Mapping[str, Any]) -> Sequence[str]:
    """Says what was to be shown and whether it was."""
    names = list(data["contest"][0]["systems"])
    if len(names) < 2:
        return ["GEPA was not run (--no-peers)."]
    ours, theirs = (statistics.fmean(each["systems"][name]["test"] for each in data["contest"]) for name in names)
    times = data["overhead"][-1]["times"]
    return [
        f"- Mean test score {ours:.4f} against GEPA's {theirs:.4f}: {'reached' if ours >= theirs else 'MISSED'}.",
        f"- At {data['overhead'][-1]['proposals']} proposals {times:.1f} times less than GEPA; wanted {LEAST_TIMES:g}: "
        f"{'reached' if times >= LEAST_TIMES else 'MISSED'}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--calls", type=int, default=CALLS)
    chosen = parser.parse_args()
    contests, overheads = [], []
    for seed in range(chosen.seeds):
        systems = {"Atoll": atoll_contest(seed, chosen.calls)}
        systems |= {} if chosen.no_peers else {"GEPA 0.1.4": peer("contest", seed, chosen.calls)}
        contests.append({"seed": seed, "systems": systems})
        print(seed, json.dumps(systems), flush=True)
    for proposals in PROPOSALS:
        systems = {"Atoll": atoll_overhead(proposals)}
        systems |= {} if chosen.no_peers else {"GEPA 0.1.4": peer("overhead", proposals)}
        each: dict[str, Any] = {"proposals": proposals, "systems": systems}
        if not chosen.no_peers:
            each["times"] = systems["GEPA 0.1.4"]["cpu_ms"] / systems["Atoll"]["cpu_ms"]
        with tempfile.TemporaryDirectory() as folder:
            each["kept_cpu_ms"] = atoll_overhead(proposals, Path(folder) / "atoll.db")["cpu_ms"]
        overheads.append(each)
        print(proposals, json.dumps(systems), flush=True)
    data: dict[str, Any] = {"machine": machine(), "calls": chosen.calls, "contest": contests, "overhead": overheads}
    kept = ", ".join(f"{each['kept_cpu_ms']:.3g} at {each['proposals']}" for each in overheads)
    data["notes"] = [*verdicts(data), f"- Neither writes a file in the tables above; with a store Atoll takes {kept}."]
    outcome.RESULTS_DIR.mkdir(parents=True, exist_ok=True)
    (outcome.RESULTS_DIR / "gepa.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (outcome.RESULTS_DIR / "gepa.md").write_text(report(data), encoding="utf-8")
    print(report(data))


if __name__ == "__main__":
    main()
