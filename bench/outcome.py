"""What a benchmark found: printed as tables, kept as JSON with the machine and the command."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS_DIR = Path(__file__).parent / "results"


def machine() -> Mapping[str, Any]:
    """Returns what the numbers depend on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "commit": commit.stdout.strip(),
    }


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_shown(cell) for cell in line)} |" for line in lines)


def keep(name: str, tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]], **facts: object) -> None:
    """Prints the tables and writes `results/NAME.json` and `results/NAME.md`."""
    command = f"scripts/bench {' '.join([name, *sys.argv[1:]])}"
    found = {"command": command, "machine": machine(), **facts}
    RESULTS_DIR.mkdir(exist_ok=True)
    texts = [f"Command: `{command}`. Machine: {json.dumps(found['machine'])}."]
    for title, (columns, rows) in tables.items():
        found[title] = [dict(zip(columns, row, strict=True)) for row in rows]
        texts.append(f"### {title}\n\n{table(columns, rows)}")
    (RESULTS_DIR / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS_DIR / f"{name}.md").write_text("\n\n".join(texts) + "\n")
    print("\n\n".join(texts))


def _shown(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
