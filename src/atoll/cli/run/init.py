"""The verb `atoll init`."""

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
    """Returns where the examples are: inside an installed package, or beside the sources of a checkout.

    Raises:
        SetupError: They are in neither place.
    """
    package = Path(atoll.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise errors.SetupError(f"The examples are neither in {package} nor beside it: install Atoll again.")


def load_example(path: Path) -> ModuleType:
    """Imports an example by its file."""
    spec = importlib.util.spec_from_file_location(f"atoll_example_{path.stem}", path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_EXCLUDED_SUFFIXES = ("__pycache__", ".pyc", ".db", ".db-wal", ".db-shm")


def init(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="llmsr, programs, mind, survival, or an example.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    as_json: options.JsonOption = False,
) -> None:
    """Makes a task folder that runs as it is, to change into your own.

    \b
    Examples:
      atoll init llmsr my_task
      atoll init programs my_program
      atoll init funsearch_capset capset
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console as terminal_console  # with rich: help need not wait for it

    examples_folder = get_examples_dir()
    template = find_template(examples_folder, system)
    files = copy_template(template, folder)
    if as_json:
        terminal_console.print_json(
            {"folder": str(folder), "example": template.name, "files": [str(file) for file in files]}
        )
        return
    console, folder_text, program = (
        terminal_console.get_stdout_console(),
        terminal_console.format_value(folder),
        terminal_console.get_program_name(),
    )
    terminal_console.print_line(
        console, f"{folder} holds {', '.join(str(file) for file in files)}: README.md says what is what. Next:"
    )
    terminal_console.print_line(console, f"  without a model:  {program} run {folder_text}")
    terminal_console.print_line(
        console, f"  with one:         {program} run {folder_text} --llm openai:MODEL --budget '$1'"
    )


def find_template(examples_folder: Path, system: str) -> Path:
    """Returns the folder that a new one starts from.

    Raises:
        SetupError: There is no such system or example.
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
    systems = [system_name for system_name, template in templates.items() if template.is_dir()]
    available = (
        f"there are {_join_names(systems)}, and the examples {_join_names(task_names)}"
        if task_names
        else "there is none"
    )
    raise errors.SetupError(f"There is no system or example {system!r}: {available}.")


def iter_tasks(examples_folder: Path) -> Iterator[str]:
    """Yields the names of the task folders among the examples."""
    for folder in sorted(examples_folder.iterdir()):
        if (folder / "atoll.toml").is_file() or (folder / "initial_program.py").is_file():
            yield folder.name


def copy_template(template: Path, folder: Path) -> Sequence[Path]:
    """Copies a task folder and returns the files that it has, relative to it.

    Raises:
        SetupError: The folder is not a new one, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "is not empty" if folder.is_dir() else "is a file"
        raise errors.SetupError(f"{folder} {problem}: choose a folder that is not there yet.")
    relative_paths = (path.relative_to(template) for path in sorted(template.rglob("*")) if path.is_file())
    files = [path for path in relative_paths if not any(part.endswith(_EXCLUDED_SUFFIXES) for part in path.parts)]
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(template / path, folder / path)
        readme = folder / "README.md"
        if readme.exists():  # its commands are for the new folder
            readme_text = readme.read_text("utf-8").replace(f"examples/{template.name}", folder.as_posix())
            readme.write_text(readme_text, "utf-8")
    except OSError as error:
        raise errors.SetupError(f"{error.filename} cannot be made: {error.strerror}.") from error
    return files


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names)
