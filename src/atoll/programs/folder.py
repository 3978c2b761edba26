"""An OpenEvolve folder, unmodified: which of its files are what, and what its config.yaml means here."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from atoll import errors, foreign
from atoll.programs import naming
from atoll.programs.config import EVALUATOR
from atoll.programs.translation import Found, translated

PROGRAMS = ("initial_program.*", "init_program.*", "initial_prompt.*", "*_prompt.txt")
FOLDERS = ("initial_program", "init_program")  # of several files
CONFIGS = ("config.yaml", "config.yml", "config_phase_*.yaml", "config_phase_*.yml")
TEXTS = (".txt", ".md")  # are rewritten as a whole
# OpenEvolve limits no memory; evaluators that load large libraries need more room than one function does.
MEMORY_MB, SECONDS = 8192, 300
_THINKING = ("off", "minimal", "low", "medium", "high")  # what llm.thinking can be


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns what an OpenEvolve folder says of itself, or None if it is none.

    Raises:
        SetupError: Its `config.yaml` is no YAML.
    """
    found = (path for pattern in PROGRAMS for path in sorted(folder.glob(pattern)) if path.is_file())
    program = next(found, None) or next((folder / name for name in FOLDERS if (folder / name).is_dir()), None)
    if program is None or not (folder / EVALUATOR).is_file():
        return None
    files = configs(folder)
    others = [file.name for file in files[1:]]
    said = [f"{files[0].name} is used; -c {folder / others[0]} would take another."] if others else []
    return sections(program.name, EVALUATOR, files[0] if files else None, said)


def configs(folder: Path) -> Sequence[Path]:
    """Returns the configurations of a folder, the one that counts first."""
    found = (path for pattern in CONFIGS for path in sorted(folder.glob(pattern)) if path.is_file())
    return [path for path in found if not re.fullmatch(r"config_phase_.*[^0-9]", path.stem)]


def sections(program: str, evaluator: str, file: Path | None, said: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Returns the sections that two files and a configuration stand for.

    Args:
        program: The file that evolves, relative to the task's folder or absolute.
        evaluator: The file that judges it.
        file: OpenEvolve's configuration; None: its defaults.
        said: Sentences to begin the notes with.

    Raises:
        SetupError: The configuration is no YAML, or holds something else than keys with values.
    """
    found = read(file) if file else {}
    settings, notes = translated(found)
    model, about = naming.named(found.get("llm"))
    settings["task.model"] = model
    settings["task.notes"] = [*said, *(f"{file.name if file else ''}: {note}" for note in (*about, *notes))]
    if Path(program).suffix in TEXTS:
        settings.setdefault("programs.diff_based_evolution", False)
    _mend(settings, found, file)
    made: dict[str, dict[str, Any]] = {"task": {"program": program, "evaluator": evaluator}, "programs": {}, "run": {}}
    made |= {"sandbox": {"seconds": SECONDS, "memory_mb": MEMORY_MB}, "llm": {}}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        if value is not None:
            made[section][key] = value
    return made


def read(file: Path) -> Found:
    """Returns what a YAML file holds.

    Raises:
        SetupError: It is no YAML, or holds something else than keys with values.
    """
    try:
        found = foreign.load(file.read_text(encoding="utf-8"), has_aliases=True)
    except (foreign.Unreadable, ValueError, OSError) as error:
        raise errors.SetupError(f"{file} is no YAML: {error}.") from error
    if not isinstance(found or {}, dict):
        raise errors.SetupError(f"{file} holds a {type(found).__name__}, not keys with values.")
    return found or {}


def _mend(settings: dict[str, Any], found: Found, file: Path | None) -> None:
    """Gives those settings their values whose meaning depends on others, or on files."""
    patience = settings.pop("run.patience", None)
    gain = settings.pop("run.least_gain", 0.001)
    if isinstance(patience, int) and patience > 0:
        settings |= {"run.patience": patience, "run.least_gain": gain}
    elif isinstance(patience, int) and patience < 0:  # "event based": it stops when the score is the threshold
        settings["run.target"] = gain
    if settings.get("llm.thinking") not in (None, *_THINKING):
        effort = settings.pop("llm.thinking")
        settings["task.notes"] = [
            *settings["task.notes"],
            f"llm.reasoning_effort {effort!r:.40} has no effect: unknown.",
        ]
    if settings.get("programs.migration_interval") == 0:
        settings["programs.migration_interval"] = 1
    if settings.get("sandbox.memory_mb") is not None:
        settings["sandbox.memory_mb"] = _whole(settings["sandbox.memory_mb"])
    dimensions = _section(found, "database").get("feature_dimensions")
    if isinstance(dimensions, list):
        settings["task.features"] = [name for name in dimensions if isinstance(name, str)]
    templates = _templates(found, file)
    for name in ("task.description", "programs.llm_feedback_prompt"):
        if isinstance(said := settings.get(name), str | int | float | date):  # a list stays one, and is refused as such
            settings[name] = _message(str(said), templates)
    if templates is not None and "programs.template_dir" in settings:
        settings["programs.template_dir"] = str(templates)


def _templates(found: Found, file: Path | None) -> Path | None:
    """Returns the folder of templates, which is named relative to the configuration, or to where one stands."""
    named = _section(found, "prompt").get("template_dir")
    if not isinstance(named, str) or file is None:
        return None
    beside = file.parent / named
    return (beside if beside.is_dir() else Path(named)).absolute()


def _message(said: str, templates: Path | None) -> str | None:
    """Returns a text that stands in the configuration, or in a template of that name."""
    if re.fullmatch(r"\w+", said):
        template = (templates or Path()) / f"{said}.txt"
        if templates is not None and template.is_file():
            return template.read_text(encoding="utf-8", errors="replace")
        return None if said in ("system_message", "evaluator_system_message") else said
    return said


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _section(found: Found, name: str) -> Mapping[str, Any]:
    section = found.get(name)
    return section if isinstance(section, dict) else {}
