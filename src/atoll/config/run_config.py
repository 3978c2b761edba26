"""Configuration of a run: read from a task folder, overridden by options, validated, and stored with the run.

    system = "llmsr"

    [task]        what evolves and how it is evaluated; keys of the system
    [llmsr]       how it evolves; keys of the system, in a section of its name
    [run]         LLM, budget, seed, workers
    [llm]         options of LLM calls
    [sandbox]     limits and permissions of an evaluation
    [executor]    where candidates are evaluated: on this machine or on a cluster

A value may name a parameter of the store (`parameter_binding`). Later layers win: defaults, folder, `atoll.toml`, CLI.
"""

import difflib
import logging
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

from atoll import control, errors
from atoll.config import parameter_binding, systems, task_errors
from atoll.config.settings import (
    COMMON_SECTIONS,
    NO_SECTION,
    ExecutorSettings,
    LLMSettings,
    RunSettings,
    SandboxSettings,
    Sections,
    parse_budget,
    replace_iterations,
)
from atoll.config.task_errors import CONFIG_FILE
from atoll.system import (
    BuildContext,
    BuiltSystem,
    Settings,
    format_value,
    list_keys,
    suggest_nearest,
    validate_settings,
)

OPENEVOLVE_SYSTEM = "programs"  # runs the files of OpenEvolve
LLM_FROM_CONFIG = "config"  # as name of an LLM: the one in the OpenEvolve configuration of the folder
PARAMETERS_KEY = "parameters"  # key of a stored configuration: versions of the bound parameters
ADVICE_KEYS = ("mode", "engine", "llm")  # live settings that are not keys of a section
DEFAULT_ITERATIONS = 1000
DETERMINISTIC_WINDOW = 8  # iterations in flight for any number of workers: the result depends on it
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Validated configuration of a run.

    Attributes:
        bindings: Parameter names by setting, not read yet. These settings have their defaults until then.
        parameters: Requested name, key and version of each setting that was read from a parameter.
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
        """Returns the configuration as JSON data, with all defaults."""
        sections = {"task": self.task, self.system: self.options, "run": self.run, "llm": self.llm}
        sections |= {"sandbox": self.sandbox, "executor": self.executor}
        data: dict[str, Any] = {name: section.model_dump(mode="json") for name, section in sections.items()}
        for setting, name in self.bindings.items():
            data = parameter_binding.apply_bindings(data, setting, f"{parameter_binding.PARAMETER_PREFIX}{name}")
        if self.parameters:
            data[PARAMETERS_KEY] = {setting: dict(binding) for setting, binding in self.parameters.items()}
        return {"system": self.system, "folder": str(self.folder), **data}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], changes: Sequence[Sections] = ()) -> Self:
        """Reads the output of `to_data`, with changes.

        Raises:
            SetupError: A key or a value is wrong.
        """
        sections = systems.add_old_defaults(data, ("folder", PARAMETERS_KEY))
        changed_settings = {f"{section}.{key}" for layer in changes for section in layer for key in layer[section]}
        stored = data.get(PARAMETERS_KEY, {}).items()
        parameters = {setting: value for setting, value in stored if setting not in changed_settings}
        return replace(cls.from_layers(Path(data["folder"]), [sections, *changes]), parameters=parameters)

    @classmethod
    def from_layers(cls, folder: Path, layers: Sequence[Sections]) -> Self:
        """Merges layers of sections, later ones over earlier ones, and validates the result.

        Raises:
            SetupError: A key or a value is wrong.
        """
        system = _find_system(layers)
        models = _get_models(system)
        merged = _merge_layers(layers, models)
        for key, value in merged.pop(NO_SECTION, {}).items():
            section, name = _find_key(key, models)
            merged[section] = {**merged.get(section, {}), name: value}
        for section in merged:
            if section not in models:
                raise errors.SetupError(f"Unknown section [{section}]{suggest_nearest(section, models)}.")
        merged, bindings = parameter_binding.extract_bindings(system, merged, models)
        known_keys = [key for section, model in models.items() for key in list_keys(section, model)]
        settings = {
            section: validate_settings(section, model, merged.get(section, {}), known_keys)
            for section, model in models.items()
        }
        config = cls(system, folder, *(cast(Any, settings[section]) for section in models))
        config.get_budget()
        config.llm.to_options()
        return replace(config, bindings=bindings)

    def bind_parameters(self, read_parameter: parameter_binding.ReadParameter) -> Self:
        """Returns the configuration with the values and versions of its bound parameters.

        Raises:
            SetupError: A parameter does not exist, or its value is wrong for the setting.
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
                name = f"{parameter.key}@{parameter.version}"
                raise errors.SetupError(f"Parameter {name} has a wrong value for {setting}: {error}") from error
        return config

    def get_budget(self) -> control.Budget:
        """Returns the budget of the run.

        Raises:
            SetupError: The budget is not valid.
        """
        budget = parse_budget(self.run.budget)
        is_unlimited = budget == control.UNLIMITED and self.run.iterations is None and self.run.target is None
        iterations = DEFAULT_ITERATIONS if is_unlimited else self.run.iterations
        limits = [limit for limit in (iterations, budget.iterations) if limit is not None]
        return replace(budget, iterations=min(limits, default=None))

    def build(self, context: BuildContext) -> BuiltSystem:
        """Builds the run with its system.

        Raises:
            SetupError: A file is missing or wrong; the message says what to do.
        """
        built: BuiltSystem = systems.get_system(self.system).load("build")(self.task, self.options, context)
        return built


def load(
    task: Path, changes: Sequence[Sections] = (), *, evaluator: Path | None = None, settings: Path | None = None
) -> RunConfig:
    """Reads the configuration of a task folder, or makes one for a program and its evaluator.

    Args:
        task: Folder with `atoll.toml`, that file, a folder or file that a system recognizes such as OpenEvolve's or
            a table, or a program file if `evaluator` is given.
        changes: Sections that override those of the file, in order.
        evaluator: Evaluator file of the program.
        settings: OpenEvolve configuration file (option -c), if not the one in the folder.

    Raises:
        SetupError: The task does not exist, or its configuration is wrong; the message says what to do.
    """
    if evaluator is not None:
        return _build_config(task.absolute().parent, [_make_sections(task, evaluator, settings), *changes])
    folder = (task.parent if task.name == CONFIG_FILE else task).absolute()
    if folder.is_file():
        if implied_sections := systems.discover_sections(folder, None):
            return _build_config(folder.parent, [implied_sections, *changes])
        raise errors.SetupError(task_errors.explain_file(task, folder))
    if not folder.is_dir():
        hint = "a table or a program" if folder.suffix else f"a task folder, or make one: 'atoll init function {task}'"
        raise errors.SetupError(f"{task} does not exist. Name {hint}.")
    file_sections = _read_toml(file) if (file := folder / CONFIG_FILE).is_file() else {}
    implied_sections = systems.discover_sections(folder, file_sections.get("system"))
    if settings is not None and implied_sections.get("system") == OPENEVOLVE_SYSTEM:
        implied_sections = _make_sections(
            folder / implied_sections["task"]["program"], folder / implied_sections["task"]["evaluator"], settings
        )
    elif settings is not None:
        raise errors.SetupError(f"-c {settings} is for OpenEvolve folders, and {task} is not one. Use --set.")
    if not file_sections and not implied_sections:
        raise errors.SetupError(task_errors.explain_folder(task, folder))
    return _build_config(folder, [implied_sections, file_sections, *changes])


def _build_config(folder: Path, layers: Sequence[Sections]) -> RunConfig:
    """Makes the configuration; the LLM name `config` stands for the LLM of the folder's OpenEvolve configuration."""
    models, layers = _get_models(_find_system(layers)), replace_iterations(layers)
    for setting, name in _iter_renamed(layers[1:], models):  # the folder implies the first layer
        _logger.warning("%s is now called %s.", setting, name)
    merged = _merge_layers(layers, models)
    if merged.get("run", {}).get("llm") != LLM_FROM_CONFIG:
        return RunConfig.from_layers(folder, layers)
    if not (llm := merged.get("task", {}).get("model")):
        raise errors.SetupError(f"{folder.name} has no configuration that names an LLM. Pass --llm openai:NAME.")
    return RunConfig.from_layers(folder, [*layers, {"run": {"llm": llm}}])


def _load_openevolve() -> Any:
    return systems.get_system(OPENEVOLVE_SYSTEM).load("openevolve")


def with_checkpoint(config: RunConfig, checkpoint: Path, *, only_checkpoint: bool = False) -> RunConfig:
    """Returns a configuration whose first iterations are the programs of an OpenEvolve checkpoint.

    Args:
        config: Configuration of an OpenEvolve folder.
        checkpoint: Folder of the checkpoint.
        only_checkpoint: Whether the run ends after these programs.

    Raises:
        SetupError: The folder is not a checkpoint, or the configuration is of another system.
    """
    if config.system != OPENEVOLVE_SYSTEM:
        raise errors.SetupError(f"The system {config.system} cannot start from an OpenEvolve checkpoint.")
    num_programs = len(_load_openevolve().read_programs(checkpoint))
    iterations = 0 if only_checkpoint else config.get_budget().iterations
    total_iterations = None if iterations is None else iterations + num_programs
    limits: dict[str, Any] = dict.fromkeys(("budget", "target", "patience")) if only_checkpoint else {}
    limits["iterations"] = total_iterations
    return RunConfig.from_data(config.to_data(), [{"run": limits, "task": {"checkpoint": str(checkpoint.absolute())}}])


def with_openevolve_model(
    config: RunConfig,
    primary_model: str | None,
    secondary_model: str | None,
    api_base: str | None,
    *,
    has_llm_option: bool,
) -> RunConfig:
    """Returns a configuration with the LLM that the options of `openevolve-run` name.

    Args:
        config: Configuration; its task may name an LLM, for an `api_base` alone.
        primary_model: Name of an LLM.
        secondary_model: Name of an LLM that gets one call in six.
        api_base: URL of their server; None: OpenAI's.
        has_llm_option: Whether `--llm` was given too.

    Raises:
        SetupError: No LLM was named, or two were.
    """
    if has_llm_option:
        raise errors.SetupError("--llm and --primary-model or --api-base both name an LLM. Leave one out.")
    data, openevolve, task_model = config.to_data(), _load_openevolve(), getattr(config.task, "model", None)
    llm = openevolve.choose_model_name(primary_model, secondary_model, api_base, task_model)
    old_llm = "" if primary_model or secondary_model else task_model
    models = openevolve.rename_options(old_llm, llm, data["llm"]["models"])
    return RunConfig.from_data(data, [{"run": {"llm": llm}, "llm": {"models": models}}])


def find_task_folder(checkpoint: Path) -> Path:
    """Returns the task folder that contains an OpenEvolve checkpoint.

    Raises:
        SetupError: No folder above the checkpoint is a task folder.
    """
    task_folder: Path | None = _load_openevolve().find_task_folder(checkpoint)
    if task_folder is None:
        hint = f"Name the task: 'atoll import {checkpoint} TASK'."
        raise errors.SetupError(f"No folder above {checkpoint} has an evaluator.py. {hint}")
    return task_folder


def _make_sections(program: Path, evaluator: Path, settings: Path | None) -> Sections:
    """Returns the sections that OpenEvolve files imply.

    Raises:
        SetupError: A file does not exist, or is not valid YAML.
    """
    for path in (program, evaluator, *([settings] if settings else ())):
        if not path.is_file() and not (path is program and path.is_dir()):
            raise errors.SetupError(f"File {path} not found. Name a program, its evaluator and, with -c, its YAML.")
    evaluator_path = evaluator.absolute()
    evaluator_name = evaluator_path.name if evaluator_path.parent == program.absolute().parent else str(evaluator_path)
    sections = _load_openevolve().make_sections(program.name, evaluator_name, settings)
    return {"system": OPENEVOLVE_SYSTEM, **sections}


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also for bytes that are not text, huge numbers and deep nesting
        raise errors.SetupError(f"{file} is not valid TOML: {error}.") from error
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from error


def _find_system(layers: Sequence[Sections]) -> Any:
    return next((layer["system"] for layer in reversed(layers) if "system" in layer), None)


def _get_keys(layer: Sections, section: str) -> Mapping[str, Any]:
    keys = layer.get(section, {})
    if not isinstance(keys, Mapping):
        raise errors.SetupError(f"[{section}] is a section with keys, not {keys!r:.40}.")
    return keys


def _merge_layers(layers: Sequence[Sections], models: Mapping[str, type[Settings]]) -> dict[str, dict[str, Any]]:
    """Returns the sections, later layers over earlier ones, with the new names of renamed keys."""
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section in layer:
            if section == "system":
                continue
            renamed = models[section].RENAMED if section in models else {}
            values = {renamed.get(key, key): value for key, value in _get_keys(layer, section).items()}
            merged[section] = {**merged.get(section, {}), **values}
    return merged


def _iter_renamed(layers: Sequence[Sections], models: Mapping[str, type[Settings]]) -> Iterator[tuple[str, str]]:
    """Yields the former names of settings that layers use, with their new names."""
    for layer in layers:
        for section, model in models.items():
            keys = {**_get_keys(layer, section), **_get_keys(layer, NO_SECTION)}
            yield from ((f"{section}.{old}", f"{section}.{new}") for old, new in model.RENAMED.items() if old in keys)


def _get_models(name: object) -> dict[str, type[Settings]]:
    if not isinstance(name, str) or not systems.is_system(name):
        names = systems.list_systems()
        problem = f"{CONFIG_FILE} names no system" if name is None else f"Unknown system {name!r:.40}"
        hint = suggest_nearest(str(name), names)
        raise errors.SetupError(f'{problem}{hint}. Write system = "...", one of {", ".join(names)}.')
    system = systems.get_system(name)
    return {"task": system.load("task"), name: system.load("options"), **COMMON_SECTIONS}


def _find_key(key: str, models: Mapping[str, type[Settings]]) -> tuple[str, str]:
    """Returns the section and the current name of a key given without a section; the task and the system come first.

    Raises:
        SetupError: No section has it.
    """
    for section, model in models.items():
        name = model.RENAMED.get(key, key)
        if name in model.model_fields:
            return section, name
    names = {name: section for section, model in models.items() for name in model.model_fields}
    closest_keys = [f"{names[name]}.{name}" for name in difflib.get_close_matches(key, names, n=1)]
    raise errors.SetupError(f"Unknown key {key}{f'; the nearest is {closest_keys[0]}' if closest_keys else ''}.")


def check_live_settings(system: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns live settings of a running run without their sections.

    Raises:
        SetupError: The system does not have the key, or the value is wrong. The message names the closest key.
    """
    if not systems.is_system(system):
        return dict(settings)
    models = {name: model for name, model in _get_models(system).items() if name not in COMMON_SECTIONS}
    checked: dict[str, Any] = {}
    for setting, value in settings.items():
        key = setting.removeprefix(f"{system}.").removeprefix("task.")
        if key not in ADVICE_KEYS:
            section, key = _find_key(key, models)
            if section == system:
                validate_settings(system, models[system], {key: value})
        checked[key] = value
    return checked


def iter_bindable_settings(system: str) -> Iterator[tuple[str, Any]]:
    """Yields the settings of a system that can be parameters, with their defaults."""
    return parameter_binding.iter_bindable(system, _get_models(system))


def describe_settings(system: str) -> Iterator[tuple[str, str]]:
    """Yields every setting of a system with its default."""
    for section, model in _get_models(system).items():
        for key, field_info in model.model_fields.items():
            yield f"{section}.{key}", format_value(field_info.get_default(call_default_factory=True))
