"""Rules of the architecture: layers of imports, sizes and import time."""

import ast
import functools
import graphlib
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "atoll"

# In order: up to KERNEL a package may also import the ones above it in its own layer.
LAYERS = {
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
    "secret_scanner": 3,
    "identities": 3,
    "safe_yaml": 3,
    "mutation": 3,
    "noise": 3,
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
    "adapters": 10,
    "dashboard": 10,
    "cli": 11,
}
KERNEL, SYSTEM, FRONT_END = 2, 6, 10
ORDER = {package: index for index, package in enumerate(LAYERS)}
# `atoll/__init__.py` and `__main__.py` may import everything; only front ends may import them.
TOP = "atoll"
EXEMPT = {TOP, "__main__"}

# Third-party libraries that one package wraps for all others.
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
    "openfeature": {"governed"},
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


def tree(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


def package_of(module: str) -> str:
    """Returns the package of a module in the table: `atoll.cluster.populations` is in `cluster`."""
    return module.partition(".")[2].partition(".")[0] or TOP


def is_module(name: str) -> bool:
    return name in sources() or (name.startswith("atoll.") and package_of(name) in LAYERS and name.count(".") == 1)


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Returns the dotted names that a module imports anywhere."""
    package = module if sources()[module].name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                names.add(name if is_module(name) else base)
    return frozenset(names)


def own_imports(module: str) -> Iterator[str]:
    return (name for name in sorted(imports(module)) if name.partition(".")[0] == "atoll")


def other_imports(module: str) -> Iterator[str]:
    return (name.partition(".")[0] for name in sorted(imports(module)) if name.partition(".")[0] != "atoll")


def may_import(importer: str, imported: str) -> bool:
    """Decides between two packages. `testing` has no layer, and no other package may import it."""
    if importer == imported or importer in EXEMPT:
        return True
    if importer not in LAYERS and importer != "testing":
        return True  # test_every_package_has_a_layer reports it
    if imported == TOP:
        return LAYERS.get(importer, 0) >= FRONT_END
    if imported not in LAYERS:
        return False
    if importer == "testing":
        return LAYERS[imported] < FRONT_END
    if LAYERS[importer] <= KERNEL:
        return ORDER[imported] < ORDER[importer]
    return LAYERS[imported] < LAYERS[importer]


def kernel_modules() -> list[str]:
    return [module for module in sources() if LAYERS.get(package_of(module), FRONT_END) <= KERNEL]


def test_every_package_has_a_layer():
    unknown = {package_of(module) for module in sources()} - LAYERS.keys() - EXEMPT - {"testing"}
    assert not unknown, "add it to docs/architecture.md and to LAYERS"


def test_module_imports_only_lower_layers():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if not may_import(package_of(module), package_of(name))
    ]
    assert not wrong, "\n".join(wrong)


def test_kernel_imports_only_standard_library():
    wrong = [
        f"{module} imports {name}"
        for module in kernel_modules()
        for name in other_imports(module)
        if name not in sys.stdlib_module_names
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles():
    graph = {module: {name for name in own_imports(module) if name != module} for module in sources()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_systems_never_import_each_other():
    systems = {name for name, rank in LAYERS.items() if rank == SYSTEM}
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if package_of(module) in systems and package_of(name) in systems - {package_of(module)}
    ]
    assert not wrong, "\n".join(wrong)


def test_front_ends_reach_systems_only_through_config():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in own_imports(module)
        if LAYERS.get(package_of(module), 0) >= FRONT_END and LAYERS.get(package_of(name)) == SYSTEM
    ]
    assert not wrong, "\n".join(wrong)


def test_library_is_imported_only_by_wrapping_package():
    wrong = [
        f"{module} imports {name}"
        for module in sources()
        for name in other_imports(module)
        if package_of(module) not in SDKS.get(name, {package_of(module)})
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_imports_under_type_checking():
    """Its commands must start fast; the imports still count for the layers and cycles above."""
    wrong = [
        module
        for module in sources()
        if package_of(module) != "cli" and "TYPE_CHECKING" in sources()[module].read_text(encoding="utf-8")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and "TYPE_CHECKING" in re.split(r"[. ]", ast.unparse(node))
    ]
    assert not wrong, "\n".join(wrong)


def num_lines(module: str) -> int:
    return len(sources()[module].read_text(encoding="utf-8").splitlines())


def count_code_lines(module: str) -> int:
    """Counts logical lines: a wrapped statement counts once; docstrings and comments do not count."""
    text = sources()[module].read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(tree(module))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    count, start = 0, 0
    ignored = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            count, start = count + (start not in docstrings), 0
        elif token.type not in ignored:
            start = start or token.start[0]
    return count


def test_kernel_is_under_2000_lines_of_code():
    sizes = {module: count_code_lines(module) for module in kernel_modules()}
    assert sum(sizes.values()) < 2000, (sum(sizes.values()), sizes)


def test_no_file_is_over_400_lines():
    assert not {module: num_lines(module) for module in sources() if num_lines(module) > 400}


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a new interpreter that imports this checkout and nothing of the current folder."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_takes_under_200_ms(tmp_path):
    def seconds() -> float:
        before = os.times()
        assert python("-c", "import atoll", cwd=tmp_path).returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # CPU time with the start of the interpreter; the best of five, since other work only adds.
    assert min(seconds() for _ in range(5)) < 0.2


def test_import_loads_no_slow_library(tmp_path):
    result = python("-c", "import sys, atoll; print(*sys.modules)", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not {"sqlalchemy", "typer", "rich", "numpy", "scipy"} & set(result.stdout.split())


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files: {error}")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_tracked_file_names_machine_paths_or_package_indexes():
    wrong = []
    for path in tracked_files():
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" in content:
            continue
        for line_number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(line) or INDEX_ADDRESS.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{line_number}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)
