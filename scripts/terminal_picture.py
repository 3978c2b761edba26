"""Makes an SVG picture of a real run in a terminal: python scripts/terminal_picture.py OUTPUT.svg COMMAND..."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, MAX_LINES = 100, 44


def main() -> None:
    """Runs the command, keeps the beginning and the end of its output, and writes the picture."""
    output, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COLUMNS": str(WIDTH), "ATOLL_STORE": "atoll.db", "ATOLL_STARTED_AS": "atoll"}
        environment["ATOLL_STORE"] = str(Path(folder, "atoll.db"))
        process = subprocess.run(
            [sys.executable, "-P", "-m", "atoll", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            check=True,
        )
        text = process.stdout.replace(f" --store {folder}/atoll.db", "").replace(f"{folder}/", "")
    lines = re.sub(r"\n{2,}", "\n\n", text).rstrip().splitlines()
    if len(lines) > MAX_LINES:
        lines = [*lines[:18], "  ...", *lines[-(MAX_LINES - 19) :]]
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text(f"$ atoll {' '.join(command)}", style="bold"))
    for line in lines:
        style = "bold green" if line.startswith("  best ") else "dim" if line.startswith("  ") else ""
        console.print(Text(line, style=style), soft_wrap=True)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="atoll"), flags=re.DOTALL)  # no web fonts
    Path(output).write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
