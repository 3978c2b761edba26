"""Runs every benchmark: `scripts/bench all [--quick] [--data DIR] [--folders DIR] [--llm NAME]`.

Benchmarks that succeeded at the same commit are skipped, so an interrupted run continues. `--fresh` starts over.
Tables are written to `bench/results/`. `--quick` takes under half an hour and writes to `.bench/quick/`; do not quote
its numbers. The final table lists benchmarks that were skipped because data or `--llm` is missing. A benchmark with a
real LLM needs a GPU or about a day.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import outcome

ROOT = Path(__file__).parent.parent
STATE_DIR = ROOT / ".bench"
FORMULAS = "--formulas"


class Bench(NamedTuple):
    """Benchmark and its arguments.

    Attributes:
        name: Name of the benchmark, and of its module unless `module` differs.
        full_args: Arguments for tables that may be quoted.
        quick: Arguments for `--quick`; None if the benchmark has no short form.
        needs: Required folder of `--data`, or `--folders`; "" if none.
        takes: Optional folder of `--data`; "" if none.
        asks: Whether it needs `--llm`.
        needs_endpoint: Whether that LLM must be an OpenAI-compatible endpoint.
        module: Module of a benchmark that has a part of its own with an LLM.
        data_flag: Option for the folder of `needs` or `takes`.
    """

    name: str
    full_args: Sequence[str] = ()
    quick: Sequence[str] | None = ("--quick",)
    needs: str = ""
    takes: str = ""
    asks: bool = False
    needs_endpoint: bool = False
    module: str = ""
    data_flag: str = "--data"


BENCHES = (
    Bench("engine"),
    Bench("population"),
    Bench("end_to_end"),
    Bench("faults"),
    Bench("sandbox"),
    Bench("fit", takes="llmsr"),
    Bench("sr", quick=("--seeds", "1", "--seconds", "5"), needs="llmsr"),
    Bench("laws", quick=("--seeds", "1", "--seconds", "5", "--laws", "glider", "hill"), needs="laws"),
    Bench("laws_growth", quick=("--seeds", "1", "--seconds", "5")),
    Bench("laws_model", quick=None, needs="laws", asks=True),
    Bench("packing", quick=("--seeds", "1", "--only", "uniform"), needs="binpacking"),
    Bench("capset", quick=("--seeds", "1", "--evaluations", "500", "--dimensions", "6")),
    Bench("records", ("--write",), quick=("--quick", "--write")),
    Bench(
        "folders",
        quick=(
            "--iterations",
            "3",
            "--without",
            "background_blur",
            "signal_processing",
            "circle_packing_with_artifacts",
        ),
        needs="--folders",
    ),
    Bench("tuner", quick=("--seeds", "1", "--groups", "test")),
    Bench("gepa", quick=("--seeds", "2")),
    Bench(
        "gepa_llm", quick=None, needs="ace_formula", asks=True, needs_endpoint=True, module="gepa", data_flag=FORMULAS
    ),
    Bench("replies", quick=(), needs="replies"),
    Bench("concurrency", quick=()),
    Bench("mind", quick=("--seeds", "0", "--tasks", "trip", "--ablations", "one island"), takes="natural_plan"),
    Bench("mind_alone", quick=("--methods", "Mind Evolution"), takes="natural_plan"),
    Bench("mind_model", quick=None, needs="natural_plan", asks=True),
    Bench(
        "race",
        ("--write",),
        quick=(
            "--write",
            "--calls",
            "12",
            "--seeds",
            "0",
            "--tasks",
            "roots",
            "binpack",
            "--out",
            ".bench/quick.jsonl",
        ),
        asks=True,
        needs_endpoint=True,
    ),
    Bench("repair", quick=("--num", "1")),
    Bench("workspace", quick=("--num", "10")),
    Bench("playbook", quick=("--turns", "1000")),
    Bench("playbook_llm", quick=None, needs="ace_formula", asks=True, module="playbook", data_flag=FORMULAS),
    Bench("survival", quick=("--only", "contest", "--seeds", "4")),
    Bench("survival_llm", quick=None, asks=True),
    Bench("governed_stores"),
    Bench("governed_logs"),
    Bench("governed_statistics"),
    Bench("dashboard", quick=("--steps", "5000", "--clients", "5", "--events", "500", "--rounds", "1")),
    Bench("dashboard_page", quick=("--steps", "5000")),
    Bench("structure", quick=()),
    Bench("scale", quick=("--rounds", "1", "--size", "20")),
    Bench("scale_stores", quick=("--sizes", "5000", "--commits", "300")),
)


def main() -> None:
    """Runs all benchmarks that are not done and prints the result of each."""
    parser = argparse.ArgumentParser(prog="scripts/bench all", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run small versions; write tables to .bench/quick")
    parser.add_argument(
        "--commits", action="store_true", help="list the saved tables with command and commit, as in docs/results.md"
    )
    parser.add_argument(
        "--data", type=Path, help="folder with llmsr/, laws/, binpacking/, natural_plan/, ace_formula/ and replies/"
    )
    parser.add_argument("--folders", type=Path, help="examples folder of an OpenEvolve checkout")
    parser.add_argument("--llm", help="LLM as in atoll run, for benchmarks that need one; local takes about a day")
    parser.add_argument("--only", nargs="+", choices=[bench.name for bench in BENCHES], help="run only these")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    args = parser.parse_args()
    if args.commits:
        print(list_tables())
        return
    results = STATE_DIR / "quick" if args.quick else outcome.RESULTS_DIR
    results.mkdir(parents=True, exist_ok=True)
    done_list = DoneList(STATE_DIR / ("quick.json" if args.quick else "whole.json"), results, is_fresh=args.fresh)
    rows = list[Sequence[object]]()
    for bench in BENCHES:
        if not args.only or bench.name in args.only:
            rows.append(_run(bench, args, done_list, results))
            print(f"{rows[-1][0]}: {rows[-1][1]}, {rows[-1][2]} minutes", file=sys.stderr, flush=True)
    print(outcome.table(("benchmark", "ended", "minutes", "arguments"), rows))
    sys.exit(1 if any(row[1] == "FAILED" for row in rows) else 0)


def list_tables() -> str:
    """Returns a Markdown table of the saved results with command and commit."""
    rows = list[Sequence[object]]()
    for path in sorted(outcome.RESULTS_DIR.glob("*.json")):
        results = json.loads(path.read_text())
        if "machine" in results:
            link = f"[{path.stem}](../bench/results/{path.stem}.md)"
            rows.append((link, f"`{results['command']}`", results["machine"]["commit"]))
    return outcome.table(("table", "command", "commit"), rows)


class DoneList:
    """Benchmarks that are done at this commit, with their minutes.

    At another commit everything is run again. Partial results of single benchmarks are deleted then.
    """

    def __init__(self, state: Path, results: Path, *, is_fresh: bool) -> None:
        self._path = state
        self._commit = str(outcome.machine()["commit"])
        saved = json.loads(state.read_text()) if state.exists() else {}
        self._minutes = dict[str, float]()
        if saved.get("commit") == self._commit and not is_fresh:
            self._minutes = saved["minutes"]
        else:
            for part in results.glob("*.parts.json"):
                part.unlink()
            self._write()  # at once, so that an interrupted first benchmark keeps its partial results

    def minutes(self, name: str) -> float | None:
        """Returns the minutes of a benchmark; None if it is not done."""
        return self._minutes.get(name)

    def note(self, name: str, minutes: float) -> None:
        """Saves that a benchmark is done."""
        self._minutes[name] = minutes
        self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({"commit": self._commit, "minutes": self._minutes}, indent=1) + "\n")


def _run(bench: Bench, args: argparse.Namespace, done_list: DoneList, results: Path) -> Sequence[object]:
    """Runs one benchmark unless it is done. Returns its row."""
    usual = bench.quick if args.quick else bench.full_args
    if usual is None:
        return bench.name, "skipped, has no short form", 0, ""
    data_args = _data(bench, args)
    command_args = [*usual, *data_args, *(["--llm", args.llm] if bench.asks and args.llm else [])]
    shown_args = outcome.spoken(command_args)
    if bench.needs and not data_args:
        flag = bench.needs if bench.needs.startswith("--") else f"--data with {bench.needs}/"
        return bench.name, f"skipped, needs {flag}", 0, shown_args
    if bench.asks and not args.llm:
        return bench.name, "skipped, needs --llm", 0, shown_args
    if bench.needs_endpoint and not args.llm.startswith("openai:"):
        return bench.name, "skipped, needs --llm openai:NAME@URL", 0, shown_args
    if (done := done_list.minutes(bench.name)) is not None:
        return bench.name, "done before", done, shown_args
    since = time.monotonic()
    environment = {**os.environ, outcome.RESULTS_VARIABLE: str(results)}
    status = subprocess.run(
        ["scripts/bench", bench.module or bench.name, *command_args], cwd=ROOT, env=environment, check=False
    ).returncode
    minutes = round((time.monotonic() - since) / 60, 1)
    if not status:
        done_list.note(bench.name, minutes)
    return bench.name, "FAILED" if status else "done", minutes, shown_args


def _data(bench: Bench, args: argparse.Namespace) -> Sequence[str]:
    """Returns the data arguments of a benchmark; empty if its data is missing."""
    if bench.needs == "--folders":
        return ["--folders", str(args.folders)] if args.folders else []
    name = bench.needs or bench.takes
    folder = args.data / name if args.data and name else None
    return [bench.data_flag, str(folder)] if folder and folder.is_dir() else []


if __name__ == "__main__":
    main()
