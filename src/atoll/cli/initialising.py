"""The verb `atoll init`."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from atoll import errors
from atoll.cli import examples, options

# The example that a system's new folder starts from.
FIRST: Mapping[str, str] = {"llmsr": "kinetic_energy", "programs": "programs_minimum", "mind": "mind_natural_plan"}

_LEFT_OUT = ("__pycache__", ".pyc", ".db", ".db-wal", ".db-shm")


def init(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="llmsr, programs, mind, or the name of an example.")],
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
    from atoll.cli import output  # with rich: help need not wait for it

    place = examples.examples_dir()
    source = find(place, system)
    files = copy(source, folder)
    if as_json:
        output.print_json({"folder": str(folder), "example": source.name, "files": [str(each) for each in files]})
        return
    console, where, name = output.out(), output.shown(folder), output.own_name()
    output.say(console, f"{folder} holds {', '.join(str(each) for each in files)}: README.md says what is what. Next:")
    output.say(console, f"  without a model:  {name} run {where}")
    output.say(console, f"  with one:         {name} run {where} --llm openai:MODEL --budget '$1'")


def find(place: Path, system: str) -> Path:
    """Returns the folder that a new one starts from.

    Raises:
        SetupError: There is no such system or example.
    """
    known = list(tasks(place))
    name = FIRST.get(system, system)
    if name in known:
        return place / name
    systems = [each for each, example in FIRST.items() if example in known]
    there = f"there are {_listed(systems)}, and the examples {_listed(known)}" if known else "there is none"
    raise errors.SetupError(f"There is no system or example {system!r}: {there}.")


def tasks(place: Path) -> Iterator[str]:
    """Yields the names of the task folders among the examples."""
    for each in sorted(place.iterdir()):
        if (each / "atoll.toml").is_file() or (each / "initial_program.py").is_file():
            yield each.name


def copy(source: Path, folder: Path) -> Sequence[Path]:
    """Copies a task folder and returns the files that it has, relative to it.

    Raises:
        SetupError: The folder is not a new one, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise errors.SetupError(f"{folder} {what}: choose a folder that is not there yet.")
    inside = (path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file())
    files = [path for path in inside if not any(part.endswith(_LEFT_OUT) for part in path.parts)]
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, folder / path)
        readme = folder / "README.md"
        if readme.exists():  # its commands are for the new folder
            said = readme.read_text("utf-8").replace(f"examples/{source.name}", folder.as_posix())
            readme.write_text(said, "utf-8")
    except OSError as error:
        raise errors.SetupError(f"{error.filename} cannot be made: {error.strerror}.") from error
    return files


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
