"""OpenEvolve folders, unmodified: their files, and their config.yaml as settings."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from atoll import errors, safe_yaml
from atoll.programs.config import EVALUATOR_FILE
from atoll.programs.openevolve import model_names
from atoll.programs.openevolve.config_keys import RawConfig, translate_config
from atoll.programs.prompt import templates

PROGRAM_PATTERNS = ("initial_program.*", "init_program.*", "initial_prompt.*", "*_prompt.txt")
PROGRAM_FOLDERS = ("initial_program", "init_program")  # programs of several files
CONFIG_PATTERNS = ("config.yaml", "config.yml", "config_phase_*.yaml", "config_phase_*.yml")
TEXT_SUFFIXES = (".txt", ".md")  # full rewrites instead of diffs
# OpenEvolve has no memory limit, and evaluators may load large libraries.
DEFAULT_MEMORY_MB, DEFAULT_SECONDS = 8192, 300


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns the settings of an OpenEvolve folder, or None if it is not one.

    Raises:
        SetupError: Its `config.yaml` is not valid YAML.
    """
    programs = (path for pattern in PROGRAM_PATTERNS for path in sorted(folder.glob(pattern)) if path.is_file())
    program = next(programs, None) or next(
        (folder / name for name in PROGRAM_FOLDERS if (folder / name).is_dir()), None
    )
    if program is None or not (folder / EVALUATOR_FILE).is_file():
        return None
    files = find_configs(folder)
    other_names = [file.name for file in files[1:]]
    notes = [f"{files[0].name} is used; pass -c {folder / other_names[0]} for another."] if other_names else []
    return make_sections(program.name, EVALUATOR_FILE, files[0] if files else None, notes)


def find_configs(folder: Path) -> Sequence[Path]:
    """Returns the configuration files of a folder; the first one is used."""
    paths = (path for pattern in CONFIG_PATTERNS for path in sorted(folder.glob(pattern)) if path.is_file())
    return [path for path in paths if not re.fullmatch(r"config_phase_.*[^0-9]", path.stem)]


def make_sections(
    program: str, evaluator: str, file: Path | None, initial_notes: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Returns the settings for a program, an evaluator and a configuration file.

    Args:
        program: The program file, relative to the task folder or absolute.
        evaluator: The evaluator file.
        file: OpenEvolve's configuration; None: its defaults.
        initial_notes: Sentences to begin the notes with.

    Raises:
        SetupError: The configuration is not valid YAML, or not a mapping.
    """
    raw_config = read_config(file) if file else {}
    settings, notes = translate_config(raw_config)
    llm_section = raw_config.get("llm")
    models = model_names.ConfigModels() if llm_section is None else model_names.parse_llm_section(llm_section, file)
    settings |= {"task.model": models.name, "llm.models": dict(models.options)}
    settings["task.notes"] = [
        *initial_notes,
        *(f"{file.name if file else ''}: {note}" for note in (*models.notes, *notes)),
    ]
    if Path(program).suffix in TEXT_SUFFIXES:
        settings.setdefault("programs.diff_based_evolution", False)
    _adjust_settings(settings, raw_config, file)
    settings_by_section: dict[str, dict[str, Any]] = {
        "task": {"program": program, "evaluator": evaluator},
        "programs": {},
        "run": {},
    }
    settings_by_section |= {"sandbox": {"seconds": DEFAULT_SECONDS, "memory_mb": DEFAULT_MEMORY_MB}, "llm": {}}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        if value is not None:
            settings_by_section[section][key] = value
    return settings_by_section


def read_config(file: Path) -> RawConfig:
    """Reads a YAML file.

    Raises:
        SetupError: It is not valid YAML, or not a mapping.
    """
    try:
        raw_config = safe_yaml.load(file.read_text(encoding="utf-8"), allow_aliases=True)
    except (safe_yaml.InvalidYAML, ValueError, OSError) as error:
        raise errors.SetupError(f"{file} is not valid YAML: {error}.") from error
    if not isinstance(raw_config or {}, dict):
        raise errors.SetupError(f"{file} contains a {type(raw_config).__name__}; it must be keys with values.")
    return raw_config or {}


def _adjust_settings(settings: dict[str, Any], raw_config: RawConfig, file: Path | None) -> None:
    """Adjusts settings that depend on other settings or on files."""
    patience = settings.pop("run.patience", None)
    gain = settings.pop("run.min_gain", 0.001)
    if isinstance(patience, int) and patience > 0:
        settings |= {"run.patience": patience, "run.min_gain": gain}
    elif isinstance(patience, int) and patience < 0:  # OpenEvolve's "event based" mode: stop at this score
        settings["run.target"] = gain
    effort = settings.pop("llm.thinking", None)
    if effort is not None:
        settings["llm.thinking"] = model_names.translate_effort(effort)
        if settings["llm.thinking"] is None:
            settings["task.notes"].append(model_names.make_effort_note("llm.reasoning_effort", effort))
    if settings.get("programs.migration_interval") == 0:
        settings["programs.migration_interval"] = 1
    if settings.get("sandbox.memory_mb") is not None:
        settings["sandbox.memory_mb"] = _to_integer(settings["sandbox.memory_mb"])
    dimensions = _get_section(raw_config, "database").get("feature_dimensions")
    if isinstance(dimensions, list):
        settings["task.features"] = [name for name in dimensions if isinstance(name, str)]
    if (message := _get_section(raw_config, "prompt").get("system_message")) is not None:
        settings["task.description"] = message  # rather than llm.system_message
    _adjust_templates(settings, _find_template_folder(raw_config, file))


def _adjust_templates(settings: dict[str, Any], folder: Path | None) -> None:
    """Adjusts what depends on the template folder. As in OpenEvolve, all prompts are made of its templates."""
    names = [file.stem for file in folder.glob("*.txt")] if folder is not None and folder.is_dir() else []
    if folder is not None and "programs.template_dir" in settings:
        settings["programs.template_dir"] = str(folder)
    messages = {"system_message": "task.description", "evaluator_system_message": "programs.llm_feedback_prompt"}
    used_names = set(templates.Templates.read().texts) if names else set[str]()
    for name, setting in messages.items():
        message = settings.setdefault(setting, name)
        used_names.add(str(message))
        if isinstance(message, str | int | float | date):  # a list is refused later
            settings[setting] = _resolve_message(str(message), folder)
    settings.setdefault("programs.templates", {"system_message": "{description}"})  # the text alone, without a heading
    if {"diff_user", "full_rewrite_user"} & set(names) and "cross_user" not in names:
        settings.setdefault("programs.crossover", 0.0)  # its prompt would be ours
    if unused_names := sorted(set(names) - used_names):
        files = ", ".join(f"{name}.txt" for name in unused_names)
        settings["task.notes"].append(f"{files} in {folder} has no effect: no prompt uses it.")
    if folder is not None and (fragments := templates.find_unused_fragments(folder)):
        note = f"fragments.json: {', '.join(fragments)} has no effect: the prompt has no such part."
        settings["task.notes"].append(note)


def _find_template_folder(raw_config: RawConfig, file: Path | None) -> Path | None:
    """Returns the template folder, relative to the configuration file or to the current folder."""
    folder_name = _get_section(raw_config, "prompt").get("template_dir")
    if not isinstance(folder_name, str) or file is None:
        return None
    relative_folder = file.parent / folder_name
    return (relative_folder if relative_folder.is_dir() else Path(folder_name)).absolute()


def _resolve_message(text: str, templates: Path | None) -> str | None:
    """Returns the text of the configuration, or of the template with that name."""
    if re.fullmatch(r"\w+", text):
        template = (templates or Path()) / f"{text}.txt"
        if templates is not None and template.is_file():
            return template.read_text(encoding="utf-8", errors="replace")
        return None if text in ("system_message", "evaluator_system_message") else text
    return text


def _to_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _get_section(raw_config: RawConfig, name: str) -> Mapping[str, Any]:
    section = raw_config.get(name)
    return section if isinstance(section, dict) else {}


_LOOKUP_METHODS = {"get", "getenv", "pop", "setdefault"}
_ALWAYS_SET = {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "ENABLE_ARTIFACTS"}


def find_variables(source: str) -> Sequence[str]:
    """Returns the sorted names that a source looks up in `os.environ`; none if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return sorted(set(_iter_names(tree)) - _ALWAYS_SET)


def _iter_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if _is_environ(owner):
                yield name
            case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[ast.Constant(value=str(name)), *_]):
                if attr in _LOOKUP_METHODS and (
                    _is_environ(owner) or (attr == "getenv" and ast.unparse(owner) == "os")
                ):
                    yield name
            case ast.Call(func=ast.Name(id="getenv"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def make_environment_hint(source: str, visible: Collection[str]) -> str:
    """Returns a hint about environment variables that the evaluator reads but cannot see; empty if none."""
    missing = [name for name in find_variables(source) if name not in visible]
    if not missing:
        return ""
    quoted = ", ".join(f'"{name}"' for name in missing)
    return f"it reads {', '.join(missing)}, which the sandbox hides; to allow: --set 'sandbox.env=[{quoted}]'"
