"""Compares an LLM as the thinker with rules, greedy and random actions, by the command line.

    scripts/bench survival_llm --llm openai:local@http://127.0.0.1:8100/v1 --jobs 20

"First way" is a stand-in for an LLM: it always answers with the example of the prompt, which is the plan that rules
prefer. An LLM that lives shorter changes plans for the worse.

Each seed is one run of a few episodes, in the same worlds for every contender. The table uses the mean of each run,
with 95 % bootstrap intervals over seeds. Finished runs are lines of `--out` and are not run again. Rules plan a
turn for which the LLM gives no valid plan; the table says how many.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from atoll.survival import grid
from atoll.testing import server
from bench import outcome
from bench.baselines import interval

ROOT = Path(__file__).parents[1]
FIRST_SEED, RUN_SECONDS = 35_000, 3600
WORLDS = tuple(grid.PRESETS)
CONTENDERS: Mapping[str, Sequence[str]] = {
    "LLM": ("thinker=llm",),
    "LLM, playbook off": ("thinker=llm", "playbook=off"),
    "first way": ("thinker=llm",),
    "rules": ("thinker=native",),
    "greedy": ("thinker=greedy",),
    "random": ("thinker=random",),
}
COLUMNS = ("contender", "seeds", "ticks, 95 %", "reward, 95 %", "planned by rules, %", "LLM calls")
_EXAMPLE = re.compile(r"To follow it, answer:\n(\{.*\})")


def follow_example(prompt: str, number: int) -> str:
    """Responds with the example of a prompt; to a request for a reflection, with an empty one."""
    example = _EXAMPLE.search(prompt)
    return example[1] if example else '{"text": ""}'


def run(contender: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Runs the episodes of a seed. Returns its JSON, or the error."""
    settings = [*CONTENDERS[contender], f"world={WORLDS[seed % len(WORLDS)]}"]
    command = [sys.executable, "-m", "atoll", "run", str(ROOT / "examples" / "survival"), "--seed", str(seed), "--json"]
    command += ["--episodes", str(args.episodes), *(part for setting in settings for part in ("--set", setting))]
    if contender.startswith("LLM"):
        command += ["--llm", args.llm]
    with tempfile.TemporaryDirectory() as folder, server.ModelServer(follow_example) as example:
        command += ["--store", f"{folder}/atoll.db"]
        command += ["--llm", f"openai:example@{example.url}"] if contender == "first way" else []
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=RUN_SECONDS)
    row = json.loads(ended.stdout.strip().splitlines()[-1]) if ended.returncode == 0 else {"error": ended.stderr[-500:]}
    return {"contender": contender, "seed": seed, "llm_option": args.llm, "num_episodes": args.episodes, **row}


def run_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    lines, seeds = (
        args.out.read_text().splitlines() if args.out.exists() else [],
        range(FIRST_SEED, FIRST_SEED + args.seeds),
    )
    rows = [
        row
        for row in map(json.loads, lines)
        if (row["llm_option"], row["num_episodes"]) == (args.llm, args.episodes) and row["seed"] in seeds
    ]
    finished, lock = {(row["contender"], row["seed"]) for row in rows}, Lock()
    waiting = [(name, seed) for name in CONTENDERS for seed in seeds if (name, seed) not in finished]

    def run_one(job: tuple[str, int]) -> None:
        row = run(*job, args)
        print(f"{job[0]} {job[1]}: {row.get('mean_ticks', row.get('error'))} ticks", flush=True)
        with lock, args.out.open("a") as file:
            if "mean_ticks" in row:
                rows.append(row)
                file.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run_one, waiting))
    return rows


def summarize(rows: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    lines = list[list[object]]()
    for name in CONTENDERS:
        own = [row for row in rows if row["contender"] == name]
        if not own:
            continue
        figures = [interval([row[key] for row in own]) for key in ("mean_ticks", "mean_reward")]
        turns = sum(row.get("turns", 0) for row in own)
        share = 100 * sum(row.get("rule_plans", 0) for row in own) / turns if turns else "-"
        texts = [f"{mean:.2f} [{low:.2f}, {high:.2f}]" for mean, low, high in figures]
        lines.append([name, len(own), *texts, share, sum(row["calls"] for row in own)])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", required=True, help="as in atoll run --llm")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20, help="runs at once")
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "survival_llm.jsonl", help="finished runs")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    outcome.keep("survival_llm", {"Episodes with an LLM": (COLUMNS, summarize(run_all(args)))})


if __name__ == "__main__":
    main()
