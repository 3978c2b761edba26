"""Size of the source, files and functions that a command passes through, and start-up time.

    scripts/bench structure                  # this checkout
    scripts/bench structure --before DIR     # and another one, with the same Python packages

A file counts if one of its functions runs. A function counts once. Functions that run while modules are imported do not
count, nor do processes that the command starts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench import outcome

ROOT = Path(__file__).parent.parent
TASK = "examples/programs_minimum"
GOALS = {"source files": 530, "files on the way of `run`": 75, "source files over 500 lines": 2}
REPEATS = 5
# Runs one command of Atoll and prints [file, function] of every function that starts.
TRACER = """
import contextlib, json, sys
source, *arguments = sys.argv[1:]
seen = set()
def is_import(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "/atoll/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
def on_start(code, offset):
    if code.co_filename.startswith(source):
        if is_import(sys._getframe(1)):
            return None
        seen.add((code.co_filename.removeprefix(source), code.co_qualname))
    return sys.monitoring.DISABLE
sys.path.insert(0, source.removesuffix("atoll/"))
from atoll import cli
sys.monitoring.use_tool_id(3, "structure")
sys.monitoring.register_callback(3, sys.monitoring.events.PY_START, on_start)
sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
with contextlib.redirect_stdout(sys.stderr):
    status = cli.main(arguments)
sys.monitoring.set_events(3, 0)
print(json.dumps([status, sorted(seen)]))
"""


def count_steps(source: Path, *arguments: str) -> tuple[int, int]:
    """Returns how many files and functions a command passes through."""
    command = [sys.executable, "-c", TRACER, f"{source}/", *arguments]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed: {process.stderr[-2000:]}")
    status, functions = json.loads(process.stdout)
    if status:
        raise SystemExit(f"{' '.join(arguments)} ended with status {status}: {process.stderr[-2000:]}")
    return len({file for file, _ in functions}), len(functions)


def measure_seconds(source: Path, *arguments: str) -> float:
    """Returns the median CPU seconds of a Python process."""
    times = []
    for _ in range(REPEATS):
        before = os.times()
        environment = {**os.environ, "PYTHONPATH": str(source.parent)}
        subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(times)


def measure(checkout: Path) -> dict[str, float]:
    """Returns the figures of a checkout."""
    source = checkout / "src" / "atoll"
    lengths = [len(path.read_text().splitlines()) for path in source.rglob("*.py")]
    figures: dict[str, float] = {"source files": len(lengths), "source lines": sum(lengths)}
    figures["source files over 500 lines"] = sum(length > 500 for length in lengths)
    with tempfile.TemporaryDirectory() as folder:
        store = ["--store", f"{folder}/atoll.db"]
        ways = {
            "`run`": ["run", str(checkout / TASK), "--iterations", "20", *store],
            "`resume`": ["resume", "latest", "--iterations", "5", *store],
            "one evaluation (`run -i 0`)": ["run", str(checkout / TASK), "--iterations", "0", *store],
        }
        for name, arguments in ways.items():
            num_files, num_functions = count_steps(source, *arguments)
            figures |= {f"files on the way of {name}": num_files, f"functions on the way of {name}": num_functions}
        figures["`import atoll`, CPU s"] = measure_seconds(source, "-c", "import atoll")
        list_command = "import sys; from atoll import cli; sys.exit(cli.main(sys.argv[1:]))"
        figures["`atoll list`, CPU s"] = measure_seconds(source, "-c", list_command, "list", *store)
        figures["`import sqlalchemy, typer`, CPU s"] = measure_seconds(source, "-c", "import sqlalchemy, typer")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout to compare with")
    args = parser.parse_args()
    now = measure(ROOT)
    before = measure(args.before.resolve()) if args.before else {}
    rows = [[name, before.get(name, ""), value, *_judge(name, value)] for name, value in now.items()]
    columns = ["figure", "before", "now", "wanted at most", "reached"]
    notes = [f"Before: commit {_find_commit(args.before)}."] if args.before else []
    outcome.keep("structure", {"Structure": (columns, rows)}, notes)
    return 0


def _find_commit(checkout: Path) -> str:
    query = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(query, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()


def _judge(name: str, value: float) -> tuple[object, str]:
    if name not in GOALS:
        return "", ""
    return GOALS[name], "yes" if value <= GOALS[name] else "NO"


if __name__ == "__main__":
    sys.exit(main())
