"""Results of a benchmark: printed as tables, saved as JSON with machine and command."""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

type Tables = Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]]

RESULTS_VARIABLE = "ATOLL_BENCH_RESULTS"  # names another folder, for runs that must not replace saved results
RESULTS_DIR = Path(os.environ.get(RESULTS_VARIABLE) or Path(__file__).parent / "results")
RESULTS_DIR.mkdir(parents=True, exist_ok=True)  # benchmarks save finished parts there


def machine() -> Mapping[str, Any]:
    """Returns the properties of the machine that affect the numbers."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "commit": _commit(),
        **({"gpu": gpu} if (gpu := _gpu()) else {}),
    }


def _commit() -> str:
    if shutil.which("git") is None:
        return ""
    query = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def _gpu() -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_format_cell(cell) for cell in line)} |" for line in lines)


def show(name: str, tables: Tables, notes: Sequence[str] = (), bench: str = "") -> str:
    """Prints tables and notes. Returns the text."""
    message = f"Command: `{command(bench or name)}`. Machine: {json.dumps(machine())}."
    parts = (f"### {title}\n\n{table(columns, rows)}" for title, (columns, rows) in tables.items())
    text = "\n\n".join([message, *parts, *notes])
    print(text)
    return text


def keep(name: str, tables: Tables, notes: Sequence[str] = (), bench: str = "", **facts: object) -> None:
    """Prints the tables and saves them as `results/NAME.json` and `results/NAME.md`; `bench`: its other name."""
    results: dict[str, object] = {"command": command(bench or name), "machine": machine(), **facts}
    for title, (columns, rows) in tables.items():
        results[title] = [dict(zip(columns, row, strict=True)) for row in rows]
    if notes:
        results["notes"] = list(notes)
    (RESULTS_DIR / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS_DIR / f"{name}.md").write_text(show(name, tables, notes, bench) + "\n")


def command(name: str) -> str:
    if (Path(__file__).parent.parent / "scripts" / name).exists():
        return f"scripts/{name}"  # it has its own script
    script = Path(sys.argv[0]).stem  # a benchmark with several results has another name than they have
    return f"scripts/bench {spoken([script if name.startswith(script) else name, *sys.argv[1:]])}"


def spoken(arguments: Sequence[str]) -> str:
    """Formats arguments for publication: local paths become DIR or FILE."""
    return shlex.join(_hide_path(argument) for argument in arguments)


def _hide_path(argument: str) -> str:
    path = Path(argument)
    if path.is_dir():
        return "DIR"
    return "FILE" if path.is_absolute() and path.is_file() else argument


def _format_cell(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
