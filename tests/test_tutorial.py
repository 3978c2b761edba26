"""The tutorial works as it stands: its files are made, its commands run, its programs too, in its order."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
EXIT = re.compile(r"\s*# exit (\d+)$")


class Block(NamedTuple):
    """One fenced block: its language, the file it is to be saved as, and its lines."""

    language: str
    file: str
    text: str


def blocks() -> Iterator[Block]:
    for fence, text in re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
        language, _, file = fence.partition(" file=")
        yield Block(language, file, text)


def run(command: list[str], folder: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("ATOLL_STORE", "OPENAI_API_KEY")}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == status, f"{command}: {result.stderr}"
    return result.stdout + result.stderr


def run_console(text: str, folder: Path) -> None:
    """Runs the lines that begin with a prompt; the lines below one must be what it says."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, *expected = part.splitlines()
        found = EXIT.search(line)
        program, *arguments = shlex.split(EXIT.sub("", line))
        start = [sys.executable, "-P", "-m", "atoll"] if program == "atoll" else [program]
        said = run([*start, *arguments], folder, int(found[1]) if found else 0)
        for each in expected:
            assert each in said


@pytest.mark.timeout(300)
def test_the_tutorial_runs_from_its_beginning_to_its_end(tmp_path):
    kinds = set()
    for number, block in enumerate(blocks()):
        kinds.add(block.language)
        if block.file:
            (tmp_path / block.file).write_text(block.text, "utf-8")
        elif block.language == "console":
            run_console(block.text, tmp_path)
        elif block.language == "python":
            (tmp_path / f"block_{number}.py").write_text(block.text, "utf-8")
            run([sys.executable, f"block_{number}.py"], tmp_path)
    assert kinds == {"console", "python", "toml"}
    assert (tmp_path / "four.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
