"""A run's configuration: read from a task folder, changed from outside, checked once, stored with the run.

    system = "llmsr"

    [task]        what evolves and how it is judged; the system's own keys
    [llmsr]       how it evolves; the system's own keys, under its name
    [run]         model, budget, seed, workers
    [llm]         how the model is asked
    [sandbox]     what judging one candidate may use

Later wins: defaults, what the folder implies, `atoll.toml`, the command line.
"""

import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

import pydantic

from atoll import control, errors, sandbox
from atoll.system import Names, Settings, System, check, keys_of, nearest, shown

FILE = "atoll.toml"
# The systems by name; a system is imported when it is used, or when a folder without `atoll.toml` may be its.
SYSTEMS: Mapping[str, str] = {"programs": "atoll.programs.build", "llmsr": "atoll.llmsr.build"}
FOREIGN, FOLDERS = "programs", "atoll.programs.folder"  # the system that runs OpenEvolve's files, and who reads them
CHECKPOINTS = "atoll.programs.checkpoints"
NAMED = "config"  # as a model's name: the one that the folder's own configuration names
DEFAULT_ITERATIONS = 1000
DETERMINISTIC_WINDOW = 8  # steps in flight, whatever the number of workers: the result depends on it

type Section = Mapping[str, Any]
type Sections = Mapping[str, Any]


class RunSettings(Settings):
    """Section `[run]`.

    Attributes:
        llm: A model by name; `none`: evolve without one; `config`: the one that OpenEvolve's configuration names.
        iterations: Steps; without it and without a budget 1,000.
        budget: What the run may use besides, e.g. "60s", "$1", "500evals", or several of them with commas.
        island_budget: What one island may use of a model, e.g. "$0.1" or "50calls".
        target: Stops once the best score reaches it.
        patience: Stops after so many steps without a new best.
        least_gain: What a new best must gain to count for that.
        seed: All dice come from it.
        workers: Steps at work at once.
        deterministic: The same seed gives the same run with any number of workers.
        window: Steps in flight; twice the workers by default, 8 when deterministic.
    """

    llm: str = "none"
    iterations: int | None = pydantic.Field(default=None, ge=0)
    budget: str | None = None
    island_budget: str | None = None
    target: float | None = None
    patience: int | None = pydantic.Field(default=None, ge=1)
    least_gain: float = pydantic.Field(default=0.0, ge=0)
    seed: int = 0
    workers: int = pydantic.Field(default=2, ge=1)
    deterministic: bool = False
    window: int | None = pydantic.Field(default=None, ge=1)


class LLMSettings(Settings):
    """Section `[llm]`; what is not set is left to the provider."""

    temperature: float | None = pydantic.Field(default=None, ge=0)
    top_p: float | None = pydantic.Field(default=None, gt=0, le=1)
    top_k: int | None = pydantic.Field(default=None, ge=1)
    seed: int | None = None
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = None
    stream: bool = False
    timeout_seconds: float | None = pydantic.Field(default=None, gt=0)
    retries: int = pydantic.Field(default=2, ge=0)
    backoff_seconds: float = pydantic.Field(default=0.5, ge=0)
    max_wait_seconds: float = pydantic.Field(default=60.0, ge=0)
    outage_seconds: float = pydantic.Field(default=120.0, ge=0)
    route: Literal["weights", "bandit", "plateau"] = "weights"
    plateau_steps: int = pydantic.Field(default=20, ge=1)
    cli_arguments: str = ""
    price_in: float | None = pydantic.Field(default=None, ge=0)
    price_out: float | None = pydantic.Field(default=None, ge=0)

    def options(self) -> dict[str, Any]:
        """Returns what a model is made with.

        Raises:
            SetupError: The arguments for a command line cannot be read.
        """
        given = self.model_dump(exclude={"route", "plateau_steps", "price_in", "price_out"})
        try:
            return {**given, "cli_arguments": shlex.split(self.cli_arguments)}
        except ValueError as error:
            raise errors.SetupError(f"llm.cli_arguments {self.cli_arguments!r:.60} cannot be read: {error}.") from None


class SandboxSettings(Settings):
    """Section `[sandbox]`: what judging one candidate may use, and what its jail lets in.

    Attributes:
        seconds: Wall clock.
        memory_mb: Address space of the process, its libraries included.
        output_bytes: What the evaluator may return, and what is kept of printing.
        cpu_seconds: Processor time of each process; None: about `seconds`.
        disk_mb: All that is written to files.
        num_processes: Threads and processes at once.
        num_files: Files that are open at once.
        slots: Candidates that are judged at once; None: as many as workers, and at most as many as cores.
        require: The weakest level that will do.
        trusted: No jail: candidates share warm processes. With a model this needs `--unsafe`.
        env: Variables of the environment that an evaluation sees; a key's name needs `--unsafe-env`.
        programs: Programs that it may start, by name or path; `.`: what it builds in its own folder.
        reads: Files and folders that it may read; relative to the task's folder.
        network: Whether it has one.
    """

    seconds: float = pydantic.Field(default=30.0, gt=0)
    memory_mb: int | None = pydantic.Field(default=2048, ge=64)
    output_bytes: int = pydantic.Field(1_000_000, ge=1000)
    cpu_seconds: float | None = pydantic.Field(default=None, gt=0)
    disk_mb: int = pydantic.Field(default=256, ge=1)
    num_processes: int = pydantic.Field(default=64, ge=1)
    num_files: int = pydantic.Field(default=256, ge=16)
    slots: int | None = pydantic.Field(default=None, ge=1)
    require: Literal["L1", "L2", "L3"] | None = None
    trusted: bool = False
    env: Names = ()
    programs: Names = ()
    reads: Names = ()
    network: bool = False

    def limits(self) -> sandbox.Limits:
        names = [field.name for field in fields(sandbox.Limits)]
        return sandbox.Limits(**{name: getattr(self, name) for name in names})


COMMON: Mapping[str, type[Settings]] = {"run": RunSettings, "llm": LLMSettings, "sandbox": SandboxSettings}


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
            f"{task} holds neither {FILE} nor an OpenEvolve program (initial_program.py with evaluator.py): "
            f"make a task folder with 'atoll init llmsr DIR'."
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
        if not path.is_file():
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


def parse_set(text: str) -> Sections:
    """Reads `section.key=value`, the value as in TOML; what is no TOML is a text.

    Raises:
        SetupError: There is no `=`, or no section.
    """
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not (section and dot and key):
        raise errors.SetupError(f"--set {text} is not understood: write --set section.key=value, e.g. run.seed=7.")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"The value of --set {path.strip()} cannot be read: {error}.") from error
    return {section: {key: parsed}}


_AMOUNTS = {
    "seconds": re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(s|m|min|h)"),
    "usd": re.compile(r"\$\s*(\d{1,12}(?:\.\d+)?)()"),
    "evaluations": re.compile(r"(\d{1,18})\s*(evals?|evaluations?)"),
    "calls": re.compile(r"(\d{1,18})\s*(calls?)"),
    "tokens": re.compile(r"(\d{1,18})\s*(tokens?)"),
    "iterations": re.compile(r"(\d{1,18})\s*(its?|iterations?|steps?)"),
}
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_budget(text: str | None) -> control.Budget:
    """Reads `60s`, `$1`, `500evals`, `100calls`, `20000tokens`, or several with commas.

    Raises:
        SetupError: It is none of these.
    """
    limits: dict[str, Any] = {}
    for part in (text or "").split(","):
        if part.strip():
            limits |= _amount(part.strip())
    if text is not None and not limits:
        raise errors.SetupError("The budget is empty: write e.g. 60s, '$1' or 500evals.")
    return control.Budget(**limits)


def _amount(part: str) -> Mapping[str, float | int]:
    for name, pattern in _AMOUNTS.items():
        if found := pattern.fullmatch(part):
            number, unit = found.groups()
            if name in ("seconds", "usd"):
                return {name: float(number) * _SECONDS.get(unit, 1.0)}
            return {name: int(number)}
    raise errors.SetupError(f"A budget of {part!r} is not understood: write e.g. 60s, '$1' or 500evals.")


def describe(name: str) -> Iterator[tuple[str, str]]:
    """Yields every key of a system's configuration with its default."""
    for section, model in _models(name).items():
        for key, about in model.model_fields.items():
            yield f"{section}.{key}", shown(about.default)
