"""Every benchmark, one after the other: `scripts/bench all [--quick] [--data DIR] [--folders DIR] [--llm NAME]`.

What ended well is not run again at the same commit, so a run that was cut goes on where it was; `--fresh` begins again.
Tables are in `bench/results/`; those of `--quick` (under half an hour in all, smaller than what anybody should quote)
are in `.bench/quick/`, so that they never replace whole ones. What needs data that is not given is told, not left out
in silence; so is what asks a real model, which takes a machine for it or about a day.
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


class Bench(NamedTuple):
    """A benchmark and how it is run.

    Attributes:
        name: Of its module.
        whole: What is said to it for tables that may be quoted.
        quick: What is said to it for a look; None: there is no short form, and `--quick` leaves it out.
        needs: The folder of `--data` that it cannot do without, or `--folders`; "": none.
        takes: The folder of `--data` that it uses where there is one; "": none.
        asks: Whether it needs the model that `--llm` names.
    """

    name: str
    whole: Sequence[str] = ()
    quick: Sequence[str] | None = ("--quick",)
    needs: str = ""
    takes: str = ""
    asks: bool = False


BENCHES = (
    Bench("engine"),
    Bench("population"),
    Bench("end_to_end"),
    Bench("faults"),
    Bench("sandbox"),
    Bench("fit", takes="llmsr"),
    Bench("sr", quick=("--seeds", "1", "--seconds", "5"), needs="llmsr"),
    Bench("packing", quick=("--seeds", "1"), needs="binpacking"),
    Bench("capset", quick=("--seeds", "1", "--evaluations", "500", "--dimensions", "6")),
    Bench("folders", quick=("--iterations", "3"), needs="--folders"),
    Bench("tuner", quick=("--seeds", "1", "--groups", "test")),
    Bench("gepa", quick=("--seeds", "2")),
    Bench("concurrency", quick=()),
    Bench("mind", quick=("--seeds", "0", "--tasks", "trip"), takes="natural_plan"),
    Bench("mind_alone", quick=("--methods", "Mind Evolution"), takes="natural_plan"),
    Bench("mind_model", quick=None, needs="natural_plan", asks=True),
    Bench("workspace", quick=("--num", "10")),
    Bench("playbook", quick=("--turns", "1000")),
    Bench("survival", quick=("--only", "contest", "--seeds", "4")),
    Bench("governed_stores"),
    Bench("governed_logs"),
    Bench("governed_statistics"),
    Bench("dashboard", quick=("--steps", "5000", "--clients", "5", "--events", "500", "--rounds", "1")),
    Bench("dashboard_page", quick=("--steps", "5000")),
    Bench("scale", quick=("--rounds", "1", "--size", "20")),
    Bench("scale_stores", quick=("--sizes", "5000", "--commits", "300")),
)


def main() -> None:
    """Runs all that is not done yet and says what became of each."""
    parser = argparse.ArgumentParser(prog="scripts/bench all", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small runs, whose tables are kept in .bench/quick")
    parser.add_argument("--data", type=Path, help="a folder with llmsr/, binpacking/ and natural_plan/")
    parser.add_argument("--folders", type=Path, help="the folder examples of a checkout of OpenEvolve")
    parser.add_argument("--llm", help="a model as atoll run has it, for what asks one; local takes about a day")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in BENCHES], help="these alone")
    parser.add_argument("--fresh", action="store_true", help="forget what is done")
    given = parser.parse_args()
    results = STATE_DIR / "quick" if given.quick else outcome.RESULTS_DIR
    results.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(STATE_DIR / ("quick.json" if given.quick else "whole.json"), results, is_fresh=given.fresh)
    rows = list[Sequence[object]]()
    for bench in BENCHES:
        if not given.only or bench.name in given.only:
            rows.append(_run(bench, given, ledger, results))
            print(f"{rows[-1][0]}: {rows[-1][1]}, {rows[-1][2]} minutes", file=sys.stderr, flush=True)
    print(outcome.table(("benchmark", "ended", "minutes", "said to it"), rows))
    sys.exit(1 if any(row[1] == "FAILED" for row in rows) else 0)


class Ledger:
    """What is done at this commit: name by name, with the minutes it took.

    At another commit nothing is done, and what single benchmarks had kept of their own halves is of other code.
    """

    def __init__(self, state: Path, results: Path, *, is_fresh: bool) -> None:
        self._path = state
        self._commit = str(outcome.machine()["commit"])
        found = json.loads(state.read_text()) if state.exists() else {}
        self._minutes = dict[str, float]()
        if found.get("commit") == self._commit and not is_fresh:
            self._minutes = found["minutes"]
        else:
            for part in results.glob("*.parts.json"):
                part.unlink()
            self._write()  # at once, so that a cut within the first benchmark keeps what that one has done

    def minutes(self, name: str) -> float | None:
        """Returns what a benchmark took; None: it is not done."""
        return self._minutes.get(name)

    def note(self, name: str, minutes: float) -> None:
        """Keeps that a benchmark is done."""
        self._minutes[name] = minutes
        self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({"commit": self._commit, "minutes": self._minutes}, indent=1) + "\n")


def _run(bench: Bench, given: argparse.Namespace, ledger: Ledger, results: Path) -> Sequence[object]:
    """Runs one benchmark unless it is done and returns its row."""
    usual = bench.quick if given.quick else bench.whole
    if usual is None:
        return bench.name, "left out, has no short form", 0, ""
    found = _data(bench, given)
    said = [*usual, *found, *(["--llm", given.llm] if bench.asks and given.llm else [])]
    shown = outcome.spoken(said)
    if bench.needs and not found:
        flag = bench.needs if bench.needs.startswith("--") else f"--data with {bench.needs}/"
        return bench.name, f"left out, needs {flag}", 0, shown
    if bench.asks and not given.llm:
        return bench.name, "left out, needs --llm", 0, shown
    if (done := ledger.minutes(bench.name)) is not None:
        return bench.name, "done before", done, shown
    since = time.monotonic()
    environment = {**os.environ, outcome.RESULTS_VARIABLE: str(results)}
    status = subprocess.run(["scripts/bench", bench.name, *said], cwd=ROOT, env=environment, check=False).returncode
    minutes = round((time.monotonic() - since) / 60, 1)
    if not status:
        ledger.note(bench.name, minutes)
    return bench.name, "FAILED" if status else "done", minutes, shown


def _data(bench: Bench, given: argparse.Namespace) -> Sequence[str]:
    """Returns what tells a benchmark where its data are; nothing where they are not given."""
    if bench.needs == "--folders":
        return ["--folders", str(given.folders)] if given.folders else []
    name = bench.needs or bench.takes
    folder = given.data / name if given.data and name else None
    return ["--data", str(folder)] if folder and folder.is_dir() else []


if __name__ == "__main__":
    main()
