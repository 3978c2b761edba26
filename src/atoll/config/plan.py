"""A run's configuration: read from a task folder, changed from outside, checked once, stored with the run.

    system = "llmsr"

    [task]        what evolves and how it is judged; the system's own keys
    [llmsr]       how it evolves; the system's own keys, under its name
    [run]         model, budget, seed, workers
    [llm]         how the model is asked
    [sandbox]     what judging one candidate may use

Later wins: defaults, what the folder implies, `atoll.toml`, the command line.
"""

import difflib
import importlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

from atoll import control, errors
from atoll.config.amounts import BARE, Sections, parse_budget
from atoll.config.sections import COMMON, LLMSettings, RunSettings, SandboxSettings
from atoll.system import Look, Settings, System, check, keys_of, nearest, shown

FILE = "atoll.toml"
# The systems by name; a system is imported when it is used, or when a folder without `atoll.toml` may be its.
SYSTEMS: Mapping[str, str] = {
    "programs": "atoll.programs.build",
    "llmsr": "atoll.llmsr.build",
    "mind": "atoll.mind.build",
    "survival": "atoll.survival.build",
}
FOREIGN, FOLDERS = "programs", "atoll.programs.folder"  # the system that runs OpenEvolve's files, and who reads them
LOOKS: Mapping[str, str] = {"survival": "atoll.survival.looks"}  # of those whose candidates are no text for people
REVIEWS: Mapping[str, str] = {"mind": "atoll.mind.workspace.reviews"}  # of those whose work somebody may merge
LIVES: Mapping[str, str] = {"survival": "atoll.survival.lives"}  # of those whose steps are lives
CHECKPOINTS, NAMING = "atoll.programs.checkpoints", "atoll.programs.naming"
NAMED = "config"  # as a model's name: the one that the folder's own configuration names
ADVISED = ("mode", "engine", "llm")  # what a step may be told besides settings: how to edit, who does, whom to ask
DEFAULT_ITERATIONS = 1000
DETERMINISTIC_WINDOW = 8  # steps in flight, whatever the number of workers: the result depends on it


@dataclass(frozen=True, slots=True)
class Plan:
    """A configuration that was checked: all that a run is made from."""

    system: str
    folder: Path
    task: Settings
    options: Settings
    run: RunSettings
    llm: LLMSettings
    sandbox: SandboxSettings

    def to_data(self) -> dict[str, Any]:
        """Returns it as plain data, every default spelled out."""
        sections = {"task": self.task, self.system: self.options, "run": self.run, "llm": self.llm}
        sections |= {"sandbox": self.sandbox}
        data = {name: section.model_dump(mode="json") for name, section in sections.items()}
        return {"system": self.system, "folder": str(self.folder), **data}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], changes: Sequence[Sections] = ()) -> Self:
        """Reads back what `to_data` wrote, with changes.

        Raises:
            SetupError: A key or a value is wrong.
        """
        sections = {name: value for name, value in data.items() if name != "folder"}
        return cls.of(Path(data["folder"]), [sections, *changes])

    @classmethod
    def of(cls, folder: Path, layers: Sequence[Sections]) -> Self:
        """Merges layers of sections, later ones over earlier ones, and checks the result.

        Raises:
            SetupError: A key or a value is wrong.
        """
        name, merged = _merged(layers)
        models = _models(name)
        for key, value in merged.pop(BARE, {}).items():
            section = _owner(key, models)
            merged[section] = {**merged.get(section, {}), key: value}
        for section in merged:
            if section not in models:
                raise errors.SetupError(f"There is no section [{section}]{nearest(section, models)}.")
        known = [key for section, model in models.items() for key in keys_of(section, model)]
        made = {section: check(section, model, merged.get(section, {}), known) for section, model in models.items()}
        plan = cls(name, folder, made["task"], made[name], *(cast(Any, made[each]) for each in COMMON))
        plan.budget()
        return plan

    def budget(self) -> control.Budget:
        """Returns what the run may use.

        Raises:
            SetupError: The budget cannot be read.
        """
        budget = parse_budget(self.run.budget)
        is_open = budget == control.UNLIMITED and self.run.iterations is None and self.run.target is None
        wanted = DEFAULT_ITERATIONS if is_open else self.run.iterations
        limits = [limit for limit in (wanted, budget.iterations) if limit is not None]
        return replace(budget, iterations=min(limits, default=None))

    def builder(self) -> System:
        return find(self.system)


def find(name: str) -> System:
    """Returns a system by its name."""
    return cast(System, importlib.import_module(SYSTEMS[name]))


def look(name: str) -> Look | None:
    """Returns how the candidates of a system are shown to people; None: as they are."""
    return cast(Look, importlib.import_module(LOOKS[name])) if name in LOOKS else None


def reviews(name: str) -> Any:
    """Returns the module by which the work of a system is reviewed and merged; None: it leaves nothing to merge."""
    return importlib.import_module(REVIEWS[name]) if name in REVIEWS else None


def lives(name: str) -> Any:
    """Returns the module that reads the lives of a system's runs; None: its steps are no lives."""
    return importlib.import_module(LIVES[name]) if name in LIVES else None


def load(
    task: Path, changes: Sequence[Sections] = (), *, evaluator: Path | None = None, settings: Path | None = None
) -> Plan:
    """Reads the configuration of a task folder, or of its `atoll.toml`; or of a program and its evaluator.

    Args:
        task: A folder with `atoll.toml`, that file, a folder that a system recognises, such as OpenEvolve's, or a
            program that `evaluator` judges.
        changes: Sections that win over the file's, in order.
        evaluator: Judges the program.
        settings: OpenEvolve's configuration, if not the one in the folder.

    Raises:
        SetupError: There is no task, or its configuration is wrong; the message says what to do.
    """
    if evaluator is not None:
        return _loaded(task.absolute().parent, [_of_files(task, evaluator, settings), *changes])
    folder = (task.parent if task.name == FILE else task).absolute()
    if folder.is_file():
        raise errors.SetupError(f"{task} is a program: name its evaluator too, 'atoll run {task} EVALUATOR'.")
    if not folder.is_dir():
        raise errors.SetupError(f"{task} is no folder: give a task folder, or make one with 'atoll init llmsr {task}'.")
    file = folder / FILE
    own = _read(file) if file.is_file() else {}
    implied = _implied(folder, own.get("system"))
    if settings is not None and implied.get("system") == FOREIGN:
        implied = _of_files(folder / implied["task"]["program"], folder / implied["task"]["evaluator"], settings)
    elif settings is not None:
        raise errors.SetupError(f"-c {settings} is for OpenEvolve's folders, and {task} is none: use --set.")
    if not own and not implied:
        raise errors.SetupError(
            f"{task} holds neither {FILE} nor data (train.csv) nor an OpenEvolve program (initial_program.py with "
            f"evaluator.py): make a task folder with 'atoll init llmsr DIR'."
        )
    return _loaded(folder, [implied, own, *changes])


def _loaded(folder: Path, layers: Sequence[Sections]) -> Plan:
    """Makes the plan; a model called `config` is the one that the folder's own configuration names."""
    _, merged = _merged(layers)
    if merged.get("run", {}).get("llm") != NAMED:
        return Plan.of(folder, layers)
    model = merged.get("task", {}).get("model")
    if not model:
        raise errors.SetupError(f"{folder.name} has no configuration that names a model: give one, --llm openai:NAME.")
    return Plan.of(folder, [*layers, {"run": {"llm": model}}])


def begun_with(plan: Plan, checkpoint: Path, *, is_all: bool = False) -> Plan:
    """Returns a plan whose first steps are the programs of a checkpoint of OpenEvolve's, beyond those it has.

    Args:
        plan: Of a folder or files of OpenEvolve's.
        checkpoint: Its folder.
        is_all: Whether the run ends with them.

    Raises:
        SetupError: It is no checkpoint, or the plan is another system's.
    """
    if plan.system != FOREIGN:
        raise errors.SetupError(f"A checkpoint of OpenEvolve's is of no use in a task of the system {plan.system}.")
    num_programs = len(importlib.import_module(CHECKPOINTS).read(checkpoint))
    iterations = 0 if is_all else plan.budget().iterations
    steps = None if iterations is None else iterations + num_programs
    limits = {"iterations": steps, **(dict.fromkeys(("budget", "target", "patience")) if is_all else {})}
    return Plan.from_data(plan.to_data(), [{"run": limits, "task": {"checkpoint": str(checkpoint.absolute())}}])


def asking(plan: Plan, primary: str | None, secondary: str | None, address: str | None, *, is_named: bool) -> Plan:
    """Returns a plan with the model that the options of `openevolve-run` name.

    Args:
        plan: Whose task may name a model of its own, for an address alone.
        primary: A model's name, and so is `secondary`, which weighs a fifth.
        secondary: See there.
        address: Where they are; None: where OpenAI's are.
        is_named: Whether a model was named in our own way too.

    Raises:
        SetupError: There is no model, or there are two.
    """
    if is_named:
        raise errors.SetupError("--llm names a model, and so do --primary-model and --api-base: leave one out.")
    naming = importlib.import_module(NAMING)
    model = naming.chosen(primary, secondary, address, getattr(plan.task, "model", None))
    return Plan.from_data(plan.to_data(), [{"run": {"llm": model}}])


def task_of(checkpoint: Path) -> Path:
    """Returns the task's folder that a checkpoint of OpenEvolve's stands in.

    Raises:
        SetupError: It stands in none.
    """
    found: Path | None = importlib.import_module(CHECKPOINTS).task_of(checkpoint)
    if found is None:
        raise errors.SetupError(
            f"{checkpoint} stands in no folder with evaluator.py: name the task, 'atoll import {checkpoint} TASK'."
        )
    return found


def _of_files(program: Path, evaluator: Path, settings: Path | None) -> Sections:
    """Returns the sections that OpenEvolve's files stand for.

    Raises:
        SetupError: One of them is not there, or is no YAML.
    """
    for path in (program, evaluator, *([settings] if settings else ())):
        if not path.is_file() and not (path is program and path.is_dir()):
            raise errors.SetupError(f"There is no file {path}: name a program, its evaluator and, with -c, its YAML.")
    beside = evaluator.absolute()
    named = beside.name if beside.parent == program.absolute().parent else str(beside)
    folder = importlib.import_module(FOLDERS)
    return {"system": FOREIGN, **folder.sections(program.name, named, settings)}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, no text, or numbers and nesting beyond all measure
        raise errors.SetupError(f"{file} is no TOML: {error}.") from error
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from error


def _implied(folder: Path, named: object) -> Sections:
    for name in SYSTEMS:
        if named in (None, name):
            found = find(name).discover(folder)
            if found is not None:
                return {"system": name, **found}
    return {}


def _merged(layers: Sequence[Sections]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Returns the system's name and the sections, later layers over earlier ones."""
    name: Any = None
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, keys in layer.items():
            if section == "system":
                name = keys
            elif isinstance(keys, Mapping):
                merged[section] = {**merged.get(section, {}), **keys}
            else:
                raise errors.SetupError(f"[{section}] is a section with keys of its own, not {keys!r:.40}.")
    return name, merged


def _models(name: object) -> dict[str, type[Settings]]:
    if not isinstance(name, str) or name not in SYSTEMS:
        said = f"{FILE} names no system" if name is None else f"There is no system {name!r:.40}"
        raise errors.SetupError(
            f'{said}{nearest(str(name), SYSTEMS)}: write system = "...", one of {", ".join(SYSTEMS)}.'
        )
    builder = find(name)
    return {"task": builder.Task, name: builder.Options, **COMMON}


def _owner(key: str, models: Mapping[str, type[Settings]]) -> str:
    """Returns the section that a key belongs to which was named without one; the task's and the system's come first.

    Raises:
        SetupError: No section has it.
    """
    for section, model in models.items():
        if key in model.model_fields:
            return section
    names = {name: section for section, model in models.items() for name in model.model_fields}
    near = [f"{names[name]}.{name}" for name in difflib.get_close_matches(key, names, n=1)]
    raise errors.SetupError(f"There is no key {key}{f'; the nearest is {near[0]}' if near else ''}.")


def told(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as the engine of a run under way is told them, without their section.

    Raises:
        SetupError: The system has no such key, or the value is wrong; one sentence, with the nearest right key.
    """
    if name not in SYSTEMS:
        return dict(settings)
    builder = find(name)
    models = {"task": builder.Task, name: builder.Options}
    found: dict[str, Any] = {}
    for said, value in settings.items():
        key = said.removeprefix(f"{name}.").removeprefix("task.")
        if key not in ADVISED and _owner(key, models) == name:
            check(name, builder.Options, {key: value})
        found[key] = value
    return found


def describe(name: str) -> Iterator[tuple[str, str]]:
    """Yields every key of a system's configuration with its default."""
    for section, model in _models(name).items():
        for key, about in model.model_fields.items():
            yield f"{section}.{key}", shown(about.default)
