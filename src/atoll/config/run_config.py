"""A run's configuration: read from a task folder, changed from outside, checked once, stored with the run.

    system = "llmsr"

    [task]        what evolves and how it is judged; the system's own keys
    [llmsr]       how it evolves; the system's own keys, under its name
    [run]         model, budget, seed, workers
    [llm]         how the model is asked
    [sandbox]     what judging one candidate may use
    [executor]    where candidates are judged: here, or on a cluster

A value may name a parameter of the store instead (`binding`). Later wins: defaults, what the folder implies,
`atoll.toml`, the command line.
"""

import difflib
import importlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

from atoll import control, errors
from atoll.config import parameter_binding
from atoll.config.settings import (
    COMMON_SECTIONS,
    NO_SECTION,
    ExecutorSettings,
    LLMSettings,
    RunSettings,
    SandboxSettings,
    Sections,
    parse_budget,
)
from atoll.system import DisplayFormat, Settings, System, format_value, list_keys, suggest_nearest, validate_settings

CONFIG_FILE = "atoll.toml"
# The systems by name; a system is imported when it is used, or when a folder without `atoll.toml` may be its.
SYSTEMS: Mapping[str, str] = {
    "programs": "atoll.programs.build",
    "llmsr": "atoll.llmsr.build",
    "mind": "atoll.mind.build",
    "survival": "atoll.survival.build",
}
OPENEVOLVE_SYSTEM, FOLDER_MODULE = (
    "programs",
    "atoll.programs.openevolve.folder",
)  # the system that runs OpenEvolve's files, and who reads them
DISPLAY_MODULES: Mapping[str, str] = {
    "survival": "atoll.survival.episode_reports"
}  # of those whose candidates are no text for people
REVIEW_MODULES: Mapping[str, str] = {"mind": "atoll.mind.workspace.reviews"}  # of those whose work somebody may merge
EPISODE_MODULES: Mapping[str, str] = {"survival": "atoll.survival.episode_reports"}  # of those whose steps are lives
CHECKPOINT_MODULE, MODEL_NAMES_MODULE = "atoll.programs.openevolve.checkpoints", "atoll.programs.openevolve.model_names"
LLM_FROM_CONFIG = "config"  # as a model's name: the one that the folder's own configuration names
PARAMETERS_KEY = (
    "parameters"  # beside the sections of a stored plan: which versions of which parameters it was made with
)
ADVICE_KEYS = ("mode", "engine", "llm")  # what a step may be told besides settings: how to edit, who does, whom to ask
DEFAULT_ITERATIONS = 1000
DETERMINISTIC_WINDOW = 8  # steps in flight, whatever the number of workers: the result depends on it


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A configuration that was checked: all that a run is made from.

    Attributes:
        named: Settings that are parameters not yet read, and the parameters' names; they have their defaults till then.
        parameters: Settings that were read from parameters: which name was asked, what it stood for, which version.
    """

    system: str
    folder: Path
    task: Settings
    options: Settings
    run: RunSettings
    llm: LLMSettings
    sandbox: SandboxSettings
    executor: ExecutorSettings
    bindings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Returns it as plain data, every default spelled out."""
        sections = {"task": self.task, self.system: self.options, "run": self.run, "llm": self.llm}
        sections |= {"sandbox": self.sandbox, "executor": self.executor}
        data: dict[str, Any] = {name: section.model_dump(mode="json") for name, section in sections.items()}
        for setting, name in self.bindings.items():
            data = parameter_binding.apply_bindings(data, setting, f"{parameter_binding.PARAMETER_PREFIX}{name}")
        data |= (
            {
                PARAMETERS_KEY: {
                    bound_setting: dict(binding_data) for bound_setting, binding_data in self.parameters.items()
                }
            }
            if self.parameters
            else {}
        )
        return {"system": self.system, "folder": str(self.folder), **data}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], changes: Sequence[Sections] = ()) -> Self:
        """Reads back what `to_data` wrote, with changes.

        Raises:
            SetupError: A key or a value is wrong.
        """
        sections = {name: value for name, value in data.items() if name not in ("folder", PARAMETERS_KEY)}
        changed_settings = {f"{section}.{key}" for layer in changes for section in layer for key in layer[section]}
        parameters = {
            setting: parameter
            for setting, parameter in data.get(PARAMETERS_KEY, {}).items()
            if setting not in changed_settings
        }
        return replace(cls.from_layers(Path(data["folder"]), [sections, *changes]), parameters=parameters)

    @classmethod
    def from_layers(cls, folder: Path, layers: Sequence[Sections]) -> Self:
        """Merges layers of sections, later ones over earlier ones, and checks the result.

        Raises:
            SetupError: A key or a value is wrong.
        """
        system, merged = _merge_layers(layers)
        models = _get_models(system)
        for key, value in merged.pop(NO_SECTION, {}).items():
            section = _find_section(key, models)
            merged[section] = {**merged.get(section, {}), key: value}
        for section in merged:
            if section not in models:
                raise errors.SetupError(f"There is no section [{section}]{suggest_nearest(section, models)}.")
        merged, bindings = parameter_binding.extract_bindings(system, merged, models)
        known_keys = [key for section, model in models.items() for key in list_keys(section, model)]
        settings = {
            section: validate_settings(section, model, merged.get(section, {}), known_keys)
            for section, model in models.items()
        }
        config = cls(
            system,
            folder,
            settings["task"],
            settings[system],
            *(cast(Any, settings[common_section]) for common_section in COMMON_SECTIONS),
        )
        config.get_budget()
        return replace(config, bindings=bindings)

    def bind_parameters(self, read_parameter: parameter_binding.ReadParameter) -> Self:
        """Returns the plan with the values of the parameters that it names, and which versions those are.

        Raises:
            SetupError: There is no such parameter, or its value is wrong for the setting.
        """
        config = self
        for setting, name in self.bindings.items():
            parameter = parameter_binding.read_parameter(setting, name, read_parameter)
            data = parameter_binding.apply_bindings(config.to_data(), setting, parameter.value)
            binding_data = {"asked": name, "key": parameter.key, "version": parameter.version}
            try:
                config = self.from_data(
                    {**data, PARAMETERS_KEY: {**data.get(PARAMETERS_KEY, {}), setting: binding_data}}
                )
            except errors.SetupError as error:
                raise errors.SetupError(
                    f"Parameter {parameter.key}@{parameter.version} does not do: {error}"
                ) from error
        return config

    def get_budget(self) -> control.Budget:
        """Returns what the run may use.

        Raises:
            SetupError: The budget cannot be read.
        """
        budget = parse_budget(self.run.budget)
        is_unlimited = budget == control.UNLIMITED and self.run.iterations is None and self.run.target is None
        iterations = DEFAULT_ITERATIONS if is_unlimited else self.run.iterations
        limits = [limit for limit in (iterations, budget.iterations) if limit is not None]
        return replace(budget, iterations=min(limits, default=None))

    def load_builder(self) -> System:
        return load_system(self.system)


def load_system(name: str) -> System:
    """Returns a system by its name."""
    return cast(System, importlib.import_module(SYSTEMS[name]))


def get_display_format(name: str) -> DisplayFormat | None:
    """Returns how the candidates of a system are shown to people; None: as they are."""
    return cast(DisplayFormat, importlib.import_module(DISPLAY_MODULES[name])) if name in DISPLAY_MODULES else None


def get_review_module(name: str) -> Any:
    """Returns the module by which the work of a system is reviewed and merged; None: it leaves nothing to merge."""
    return importlib.import_module(REVIEW_MODULES[name]) if name in REVIEW_MODULES else None


def get_episode_reader(name: str) -> Any:
    """Returns the module that reads the lives of a system's runs; None: its steps are no lives."""
    return importlib.import_module(EPISODE_MODULES[name]) if name in EPISODE_MODULES else None


def load(
    task: Path, changes: Sequence[Sections] = (), *, evaluator: Path | None = None, settings: Path | None = None
) -> RunConfig:
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
        return _build_config(task.absolute().parent, [_make_sections(task, evaluator, settings), *changes])
    folder = (task.parent if task.name == CONFIG_FILE else task).absolute()
    if folder.is_file():
        raise errors.SetupError(f"{task} is a program: name its evaluator too, 'atoll run {task} EVALUATOR'.")
    if not folder.is_dir():
        raise errors.SetupError(f"{task} is no folder: give a task folder, or make one with 'atoll init llmsr {task}'.")
    file = folder / CONFIG_FILE
    file_sections = _read_toml(file) if file.is_file() else {}
    implied_sections = _discover_sections(folder, file_sections.get("system"))
    if settings is not None and implied_sections.get("system") == OPENEVOLVE_SYSTEM:
        implied_sections = _make_sections(
            folder / implied_sections["task"]["program"], folder / implied_sections["task"]["evaluator"], settings
        )
    elif settings is not None:
        raise errors.SetupError(f"-c {settings} is for OpenEvolve's folders, and {task} is none: use --set.")
    if not file_sections and not implied_sections:
        raise errors.SetupError(
            f"{task} holds neither {CONFIG_FILE} nor data (train.csv) nor an OpenEvolve program (initial_program.py with "
            f"evaluator.py): make a task folder with 'atoll init llmsr DIR'."
        )
    return _build_config(folder, [implied_sections, file_sections, *changes])


def _build_config(folder: Path, layers: Sequence[Sections]) -> RunConfig:
    """Makes the plan; a model called `config` is the one that the folder's own configuration names."""
    _, merged = _merge_layers(layers)
    if merged.get("run", {}).get("llm") != LLM_FROM_CONFIG:
        return RunConfig.from_layers(folder, layers)
    llm = merged.get("task", {}).get("model")
    if not llm:
        raise errors.SetupError(f"{folder.name} has no configuration that names a model: give one, --llm openai:NAME.")
    return RunConfig.from_layers(folder, [*layers, {"run": {"llm": llm}}])


def with_checkpoint(config: RunConfig, checkpoint: Path, *, only_checkpoint: bool = False) -> RunConfig:
    """Returns a plan whose first steps are the programs of a checkpoint of OpenEvolve's, beyond those it has.

    Args:
        plan: Of a folder or files of OpenEvolve's.
        checkpoint: Its folder.
        is_all: Whether the run ends with them.

    Raises:
        SetupError: It is no checkpoint, or the plan is another system's.
    """
    if config.system != OPENEVOLVE_SYSTEM:
        raise errors.SetupError(f"A checkpoint of OpenEvolve's is of no use in a task of the system {config.system}.")
    num_programs = len(importlib.import_module(CHECKPOINT_MODULE).read_programs(checkpoint))
    iterations = 0 if only_checkpoint else config.get_budget().iterations
    total_iterations = None if iterations is None else iterations + num_programs
    limits = {
        "iterations": total_iterations,
        **(dict.fromkeys(("budget", "target", "patience")) if only_checkpoint else {}),
    }
    return RunConfig.from_data(config.to_data(), [{"run": limits, "task": {"checkpoint": str(checkpoint.absolute())}}])


def with_openevolve_model(
    config: RunConfig,
    primary_model: str | None,
    secondary_model: str | None,
    api_base: str | None,
    *,
    has_llm_option: bool,
) -> RunConfig:
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
    if has_llm_option:
        raise errors.SetupError("--llm names a model, and so do --primary-model and --api-base: leave one out.")
    model_names = importlib.import_module(MODEL_NAMES_MODULE)
    llm = model_names.choose_model_name(primary_model, secondary_model, api_base, getattr(config.task, "model", None))
    return RunConfig.from_data(config.to_data(), [{"run": {"llm": llm}}])


def find_task_folder(checkpoint: Path) -> Path:
    """Returns the task's folder that a checkpoint of OpenEvolve's stands in.

    Raises:
        SetupError: It stands in none.
    """
    task_folder: Path | None = importlib.import_module(CHECKPOINT_MODULE).find_task_folder(checkpoint)
    if task_folder is None:
        raise errors.SetupError(
            f"{checkpoint} stands in no folder with evaluator.py: name the task, 'atoll import {checkpoint} TASK'."
        )
    return task_folder


def _make_sections(program: Path, evaluator: Path, settings: Path | None) -> Sections:
    """Returns the sections that OpenEvolve's files stand for.

    Raises:
        SetupError: One of them is not there, or is no YAML.
    """
    for path in (program, evaluator, *([settings] if settings else ())):
        if not path.is_file() and not (path is program and path.is_dir()):
            raise errors.SetupError(f"There is no file {path}: name a program, its evaluator and, with -c, its YAML.")
    evaluator_path = evaluator.absolute()
    evaluator_name = evaluator_path.name if evaluator_path.parent == program.absolute().parent else str(evaluator_path)
    folder_module = importlib.import_module(FOLDER_MODULE)
    return {"system": OPENEVOLVE_SYSTEM, **folder_module.make_sections(program.name, evaluator_name, settings)}


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, no text, or numbers and nesting beyond all measure
        raise errors.SetupError(f"{file} is no TOML: {error}.") from error
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from error


def _discover_sections(folder: Path, system: object) -> Sections:
    for name in SYSTEMS:
        if system in (None, name):
            sections = load_system(name).discover(folder)
            if sections is not None:
                return {"system": name, **sections}
    return {}


def _merge_layers(layers: Sequence[Sections]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Returns the system's name and the sections, later layers over earlier ones."""
    system: Any = None
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, keys in layer.items():
            if section == "system":
                system = keys
            elif isinstance(keys, Mapping):
                merged[section] = {**merged.get(section, {}), **keys}
            else:
                raise errors.SetupError(f"[{section}] is a section with keys of its own, not {keys!r:.40}.")
    return system, merged


def _get_models(name: object) -> dict[str, type[Settings]]:
    if not isinstance(name, str) or name not in SYSTEMS:
        problem = f"{CONFIG_FILE} names no system" if name is None else f"There is no system {name!r:.40}"
        raise errors.SetupError(
            f'{problem}{suggest_nearest(str(name), SYSTEMS)}: write system = "...", one of {", ".join(SYSTEMS)}.'
        )
    builder = load_system(name)
    return {"task": builder.Task, name: builder.Options, **COMMON_SECTIONS}


def _find_section(key: str, models: Mapping[str, type[Settings]]) -> str:
    """Returns the section that a key belongs to which was named without one; the task's and the system's come first.

    Raises:
        SetupError: No section has it.
    """
    for section, model in models.items():
        if key in model.model_fields:
            return section
    names = {name: section for section, model in models.items() for name in model.model_fields}
    closest_keys = [f"{names[name]}.{name}" for name in difflib.get_close_matches(key, names, n=1)]
    raise errors.SetupError(f"There is no key {key}{f'; the nearest is {closest_keys[0]}' if closest_keys else ''}.")


def check_live_settings(system: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as the engine of a run under way is told them, without their section.

    Raises:
        SetupError: The system has no such key, or the value is wrong; one sentence, with the nearest right key.
    """
    if system not in SYSTEMS:
        return dict(settings)
    builder = load_system(system)
    models = {"task": builder.Task, system: builder.Options}
    checked: dict[str, Any] = {}
    for setting, value in settings.items():
        key = setting.removeprefix(f"{system}.").removeprefix("task.")
        if key not in ADVICE_KEYS and _find_section(key, models) == system:
            validate_settings(system, builder.Options, {key: value})
        checked[key] = value
    return checked


def iter_bindable_settings(system: str) -> Iterator[tuple[str, Any]]:
    """Yields the settings of a system that may be parameters, with their defaults.

    Raises:
        SetupError: There is no such system.
    """
    return parameter_binding.iter_bindable(system, _get_models(system))


def describe_settings(system: str) -> Iterator[tuple[str, str]]:
    """Yields every key of a system's configuration with its default."""
    for section, model in _get_models(system).items():
        for key, field_info in model.model_fields.items():
            yield f"{section}.{key}", format_value(field_info.get_default(call_default_factory=True))
