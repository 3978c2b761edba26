"""The rules of the house: who may import whom, how large, how fast, and that the documents run."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "atoll"

# In the order of the house: up to KERNEL a room may also import what stands above it here.
RANKS = {
    "errors": 0,
    "profiler": 0,
    "candidate": 1,
    "evaluation": 1,
    "gate": 1,
    "journal": 1,
    "control": 1,
    "function": 2,
    "archipelago": 2,
    "versions": 2,
    "cluster": 2,
    "store": 3,
    "llm": 3,
    "sandbox": 3,
    "secrets": 3,
    "persons": 3,
    "foreign": 3,
    "mutation": 3,
    "executor": 4,
    "system": 5,
    "strategies": 5,
    "playbook": 5,
    "governed": 5,
    "systems": 6,
    "llmsr": 6,
    "programs": 6,
    "mind": 6,
    "survival": 6,
    "config": 7,
    "runs": 8,
    "evolve": 9,
    "dashboard": 10,
    "cli": 11,
}
KERNEL, SYSTEM, FACE = 2, 6, 10
ORDER = {room: place for place, room in enumerate(RANKS)}
# The names of the package itself and its start: they may import everything, and only a face may import them.
FRONT = "atoll"
EXEMPT = {FRONT, "__main__"}

# Third-party libraries that one room wraps for all the others.
SDKS = {
    "sqlalchemy": {"store"},
    "psycopg": {"store"},
    "pydantic_ai": {"llm"},
    "openai": {"llm"},
    "httpx2": {"llm"},
    "cloudpickle": {"sandbox"},
    "anthropic": {"llm"},
    "xllamacpp": {"llm"},
    "ray": {"executor"},
    "mcp": {"governed"},
}

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/")
INDEX_ADDRESS = re.compile(
    r"https?://\S*/simple\b|pythonhosted\.org|--(?:extra-)?index[-]url|--find[-]links|file:///\w"
)


@functools.cache
def sources() -> dict[str, Path]:
    """Returns every module under src by its dotted name; a package is named without `__init__`."""
    modules: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


def room(module: str) -> str:
    """Returns the name that the table of ranks knows a module by: `atoll.cluster.niches` is in `cluster`."""
    _, _, rest = module.partition(".")
    return rest.partition(".")[0] or FRONT


def is_module(name: str) -> bool:
    return name in sources() or (name.startswith("atoll.") and room(name) in RANKS and name.count(".") == 1)


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Returns the dotted names that a module imports, anywhere in it, as precisely as the source tells."""
    package = module if sources()[module].name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found.add(name if is_module(name) else base)
    return frozenset(found)


def own_imports(module: str) -> Iterator[str]:
    return (name for name in sorted(imports(module)) if name.partition(".")[0] == "atoll")


def foreign_imports(module: str) -> Iterator[str]:
    return (name.partition(".")[0] for name in sorted(imports(module)) if name.partition(".")[0] != "atoll")


def may_import(importer: str, imported: str) -> bool:
    """Decides between two rooms; `testing` stands outside the ranks and nothing in the house leans on it."""
    if importer == imported or importer in EXEMPT:
        return True
    if importer not in RANKS and importer != "testing":
        return True  # A stranger: the test above names it.
    if imported == FRONT:
        return RANKS.get(importer, 0) >= FACE
    if imported not in RANKS:
        return False
    if importer == "testing":
        return RANKS[imported] < FACE
    if RANKS[importer] <= KERNEL:
        return ORDER[imported] < ORDER[importer]
    return RANKS[imported] < RANKS[importer]


def kernel_modules() -> list[str]:
    return [module for module in sources() if RANKS.get(room(module), FACE) <= KERNEL]


def test_every_module_has_a_rank():
    strangers = {room(module) for module in sources()} - RANKS.keys() - EXEMPT - {"testing"}
    assert not strangers, "give it a place in docs/architecture.md and in RANKS"


def test_a_module_imports_only_lower_ranks():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if not may_import(room(module), room(name))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_kernel_imports_only_the_standard_library():
    wrong = [
        f"{module} imports {name}"
        for module in kernel_modules()
        for name in foreign_imports(module)
        if name not in sys.stdlib_module_names
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle():
    graph = {module: {name for name in own_imports(module) if name != module} for module in sources()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_systems_never_import_each_other():
    systems = {name for name, rank in RANKS.items() if rank == SYSTEM}
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if room(module) in systems and room(name) in systems - {room(module)}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_faces_reach_systems_only_through_config():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if RANKS.get(room(module), 0) >= FACE and RANKS.get(room(name)) == SYSTEM
    ]
    assert not wrong, "\n".join(wrong)


def test_an_sdk_is_imported_only_by_the_room_that_wraps_it():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in foreign_imports(module)
        if room(module) not in SDKS.get(name, {room(module)})
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_hides_behind_type_checking():
    wrong = [
        module
        for module in sources()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and "TYPE_CHECKING" in ast.unparse(node).split(".")
    ]
    assert not wrong, "\n".join(wrong)


def num_lines(module: str) -> int:
    return len(sources()[module].read_text(encoding="utf-8").splitlines())


def num_code_lines(module: str) -> int:
    """Counts the lines that hold code: no blank line, no comment, no docstring (contracts live in docstrings)."""
    text = sources()[module].read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and number not in docstrings for number, line in lines)


def test_the_kernel_is_under_2000_lines_of_code():
    sizes = {module: num_code_lines(module) for module in kernel_modules()}
    assert sum(sizes.values()) < 2000, (sum(sizes.values()), sizes)


def test_no_file_is_over_400_lines():
    large = {module: num_lines(module) for module in sources() if num_lines(module) > 400}
    assert not large


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a fresh interpreter that finds the package of this checkout and nothing of the current folder."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_atoll_takes_under_a_fifth_of_a_second(tmp_path):
    def seconds() -> float:
        before = os.times()
        assert python("-c", "import atoll", cwd=tmp_path).returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # CPU time, in which the start of the interpreter counts too. The best of five: other work only adds.
    assert min(seconds() for _ in range(5)) < 0.2


def test_import_atoll_loads_no_heavy_library(tmp_path):
    result = python("-c", "import sys, atoll; print(*sys.modules)", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not {"sqlalchemy", "typer", "rich", "numpy", "scipy"} & set(result.stdout.split())


def python_blocks(page: Path) -> str:
    """Returns the ```python blocks of a page as one program whose line numbers are those of the page."""
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
    assert block is None, f"a python block of {page.name} has no end"
    return "\n".join(program)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(PACKAGE.rglob("README.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page).strip()], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_python_blocks_of_a_page_run(page, tmp_path):
    script = tmp_path / f"{page.stem}.py"
    script.write_text(python_blocks(page), encoding="utf-8")
    result = python(str(script), cwd=tmp_path)
    assert result.returncode == 0, f"{page.name}:\n{result.stderr}"


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files: {error}")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_tracked_file_names_this_machine_or_a_package_index():
    wrong = []
    for path in tracked_files():
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(line) or INDEX_ADDRESS.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)
