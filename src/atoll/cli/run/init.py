"""Command `init`."""

import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import atoll
from atoll import errors
from atoll.cli.terminal import options


def get_examples_dir() -> Path:
    """Returns the folder of the examples, in an installed package or in a checkout.

    Raises:
        SetupError: The examples are missing.
    """
    package = Path(atoll.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise errors.SetupError(f"Examples not found in {package} or {package.parents[1]}. Install Atoll again.")


def load_example(path: Path) -> ModuleType:
    """Imports an example from its file."""
    spec = importlib.util.spec_from_file_location(f"atoll_example_{path.stem}", path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_EXCLUDED_SUFFIXES = ("__pycache__", ".pyc", ".db", ".db-wal", ".db-shm")


def init(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="llmsr, programs, mind, survival, or an example.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")],
    as_json: options.JsonOption = False,
) -> None:
    """Create a task folder from a template or an example.

    \b
    Examples:
      atoll init llmsr my_task
      atoll init programs my_program
      atoll init funsearch_capset capset
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console as terminal  # slow import: rich

    examples_folder = get_examples_dir()
    template = find_template(examples_folder, system)
    files = copy_template(template, folder)
    if as_json:
        terminal.print_json({"folder": str(folder), "example": template.name, "files": [str(file) for file in files]})
        return
    folder_text, program = terminal.format_path(folder), terminal.get_program_name()
    terminal.print_result(f"Created {', '.join(str(file) for file in files)} in {folder}. Read README.md. Next:")
    terminal.print_result(f"  without an LLM:  {program} run {folder_text}")
    terminal.print_result(f"  with an LLM:     {program} run {folder_text} --llm openai:MODEL --budget '$1'")


def find_template(examples_folder: Path, system: str) -> Path:
    """Returns the template folder of a system or example.

    Raises:
        SetupError: Neither exists.
    """
    from atoll import config  # with pydantic: help need not wait for it

    task_names = list(iter_tasks(examples_folder))
    templates = {
        descriptor.name: examples_folder / descriptor.template  # an absolute path stays as it is
        for descriptor in config.iter_systems()
        if descriptor.template is not None
    }
    template = templates.get(system, examples_folder / system)
    if (system in templates or system in task_names) and template.is_dir():
        return template
    systems = [name for name, template in templates.items() if template.is_dir()]
    available = f"Systems: {', '.join(systems)}. Examples: {', '.join(task_names)}."
    raise errors.SetupError(f"System or example {system!r} not found. {available if task_names else ''}".rstrip())


def iter_tasks(examples_folder: Path) -> Iterator[str]:
    """Yields the names of the task folders among the examples."""
    for folder in sorted(examples_folder.iterdir()):
        if (folder / "atoll.toml").is_file() or (folder / "initial_program.py").is_file():
            yield folder.name


def copy_template(template: Path, folder: Path) -> Sequence[Path]:
    """Copies a task folder and returns its files, relative to it.

    Raises:
        SetupError: The folder is not empty, or cannot be created.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "is not empty" if folder.is_dir() else "is a file"
        raise errors.SetupError(f"{folder} {problem}. Choose a new folder.")
    relative_paths = (path.relative_to(template) for path in sorted(template.rglob("*")) if path.is_file())
    files = [path for path in relative_paths if not any(part.endswith(_EXCLUDED_SUFFIXES) for part in path.parts)]
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(template / path, folder / path)
        readme = folder / "README.md"
        if readme.exists():  # its commands name the folder
            readme_text = readme.read_text("utf-8").replace(f"examples/{template.name}", folder.as_posix())
            readme.write_text(readme_text, "utf-8")
    except OSError as error:
        raise errors.SetupError(f"{error.filename} cannot be created: {error.strerror}.") from error
    return files
