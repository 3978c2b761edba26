"""Files, commands and programs of the documents work, in the order of each page."""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from atoll import cli
from tests import processes

ROOT = Path(__file__).resolve().parents[2]
EXIT = re.compile(r"\s*# exit (\d+)$")
PROGRAMS = {"pytest": ["-m", "pytest", "-p", "no:cacheprovider"], "python": []}
PRIVATE = ("ATOLL_STORE", "OPENAI_API_KEY")


class Block(NamedTuple):
    """Fenced block: its language, its file if it has one, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for fence, text in re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        language, _, file = fence.partition(" file=")
        yield Block(language, file, text)


def run(command: list[str], folder: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a reader has pytest without the plugins of these tests
    if command[0] == sys.executable:
        result = processes.run(command[1:], cwd=folder, env=environment)
    else:
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == status, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def run_atoll(arguments: list[str], folder: Path, status: int) -> str:
    """Runs `atoll` in this process: a new one would spend most of its time on imports."""
    output = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        assert cli.main(arguments) == status, f"{arguments}: {output.getvalue()}"
    return output.getvalue()


def run_console(text: str, folder: Path, skipped: Collection[str] = ()) -> None:
    """Runs the lines that begin with a prompt. The lines below a command must be part of its output.

    Commands with a task in `skipped` are left out.
    """
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, *expected = part.splitlines()
        exit_comment = EXIT.search(line)
        program, *arguments = shlex.split(EXIT.sub("", line))
        status = int(exit_comment[1]) if exit_comment else 0
        if any(argument in skipped for argument in arguments):
            continue
        if program == "atoll":
            output = run_atoll(arguments, folder, status)
        else:
            start = [sys.executable, *PROGRAMS[program]] if program in PROGRAMS else [program]
            output = run([*start, *arguments], folder, status)
        for expected_line in expected:
            assert expected_line in output


def follow_page(page: Path, folder: Path) -> None:
    """Writes the files and runs the commands of a page in order, then its Python blocks as one program."""
    programs, skipped = list[str](), set[str]()
    for block in blocks(page):
        if block.file:
            if "import gymnasium" in block.text and importlib.util.find_spec("gymnasium") is None:
                skipped.add(Path(block.file).parts[0])
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, "utf-8")
        elif block.language == "console":
            run_console(block.text, folder, skipped)
        elif block.language == "python":
            programs.append(block.text)
    if programs:
        (folder / "programs.py").write_text("\n\n".join(programs), "utf-8")
        run([sys.executable, "programs.py"], folder)


def pages() -> list[str]:
    """Returns the pages with commands; `test_python_blocks_of_page_run` runs those with only programs."""
    all_pages = sorted((ROOT / "docs").rglob("*.md"))
    with_commands = [page for page in all_pages if any(block.language == "console" for block in blocks(page))]
    return [str(page.relative_to(ROOT)) for page in with_commands]


@pytest.mark.timeout(900)  # a busy machine is ten times slower
@pytest.mark.parametrize("page", pages())
def test_commands_of_page_work(tmp_path, page, monkeypatch):
    for name in PRIVATE:
        monkeypatch.delenv(name, raising=False)
    follow_page(ROOT / page, tmp_path)


def python_blocks(page: Path) -> str:
    """Returns the ```python blocks of a page as one program with the page's line numbers."""
    program: list[str] = []
    block: list[str] | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if block is None:
            program.append("")
            block = [] if line.strip() == "```python" else None
        elif line.strip() == "```":
            program += [*textwrap.dedent("\n".join(block)).splitlines(), ""]
            block = None
        else:
            block.append(line)
    assert block is None, f"a python block of {page.name} is not closed"
    return "\n".join(program)


# Without pages that have commands: `test_commands_of_page_work` runs their commands and programs.
SCRIPT_PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("README.md")))
    if page.parent != ROOT / "docs" or "\n```console\n" not in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize(
    "page", [page for page in SCRIPT_PAGES if python_blocks(page).strip()], ids=lambda page: str(page.relative_to(ROOT))
)
def test_python_blocks_of_page_run(page, tmp_path):
    script = tmp_path / f"{page.stem}.py"
    # Fewer iterations of the law search: `tests/llmsr` checks what it finds.
    script.write_text(re.sub(r"\bsteps=\d+", "steps=12", python_blocks(page)), encoding="utf-8")
    run([sys.executable, "-P", str(script)], tmp_path)


def test_api_reference_is_up_to_date():
    run([sys.executable, str(ROOT / "scripts" / "api_reference.py"), "--check"], ROOT)


def read_prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)


def links(page: Path) -> Iterator[str]:
    yield from (link for link in re.findall(r"\]\(([^)\s]+)\)", read_prose(page)) if "://" not in link)


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: its headings in lower case, with hyphens and without punctuation."""
    headings = re.findall(r"^#+ (.*)$", read_prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_valid(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_links_between_documents_are_valid():
    listed = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("src/**/*.md")]
    broken = [(page.name, link) for page in listed for link in links(page) if not is_valid(page, link)]
    assert not broken
