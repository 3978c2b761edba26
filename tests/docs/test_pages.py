"""The documents work as they stand: files are made, commands run, programs too, in the order of each page."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXIT = re.compile(r"\s*# exit (\d+)$")
PROGRAMS = {"atoll": ["-P", "-m", "atoll"], "pytest": ["-m", "pytest", "-p", "no:cacheprovider"], "python": []}


class Block(NamedTuple):
    """One fenced block: its language, the file it is to be saved as, and its lines."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for fence, text in re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        language, _, file = fence.partition(" file=")
        yield Block(language, file, text)


def run(command: list[str], folder: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("ATOLL_STORE", "OPENAI_API_KEY")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a reader has pytest, not all that the tests here have
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == status, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def run_console(text: str, folder: Path) -> None:
    """Runs the lines that begin with a prompt; the lines below one must be what it says."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, *expected = part.splitlines()
        found = EXIT.search(line)
        program, *arguments = shlex.split(EXIT.sub("", line))
        start = [sys.executable, *PROGRAMS[program]] if program in PROGRAMS else [program]
        said = run([*start, *arguments], folder, int(found[1]) if found else 0)
        for each in expected:
            assert each in said


def go_through(page: Path, folder: Path) -> None:
    """Does what a page says from its beginning to its end; programs that go on are one with those above them."""
    programs = list[str]()
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, "utf-8")
        elif block.language == "console":
            run_console(block.text, folder)
        elif block.language == "python":
            programs.append(block.text)
    if programs:
        (folder / "programs.py").write_text("\n\n".join(programs), "utf-8")
        run([sys.executable, "programs.py"], folder)


def pages() -> list[str]:
    """Returns the pages with commands to run; `tests/test_architecture.py` runs those that have programs alone."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [str(page.relative_to(ROOT)) for page in found if any(each.language == "console" for each in blocks(page))]


@pytest.mark.timeout(900)  # a busy machine is ten times slower
@pytest.mark.parametrize("page", pages())
def test_a_page_does_what_it_says(tmp_path, page):
    go_through(ROOT / page, tmp_path)


def test_the_reference_is_what_the_sources_say():
    run([sys.executable, str(ROOT / "scripts" / "api_reference.py"), "--check"], ROOT)


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


def test_every_link_between_documents_leads_somewhere():
    listed = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("src/**/*.md")]
    broken = [(page.name, each) for page in listed for each in links(page) if not (page.parent / each).exists()]
    assert not broken
