"""Finds systems by entry points of the group `atoll.systems`. Each one is loaded when it is used."""

import functools
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.config.settings import COMMON_SECTIONS, Sections
from atoll.system import DisplayFormat, System, suggest_nearest

GROUP = "atoll.systems"
_logger = logging.getLogger(__name__)


@functools.cache
def _find_own() -> Mapping[str, metadata.EntryPoint]:
    """Returns Atoll's own systems, from its own metadata: a scan of all packages would delay every command."""
    try:
        own = {point.name: point for point in metadata.distribution("atoll").entry_points.select(group=GROUP)}
    except metadata.PackageNotFoundError:
        own = {}
    if not own:
        raise errors.SetupError("The installation of Atoll lists no systems. Run scripts/setup, or install it again.")
    return own


@functools.lru_cache(maxsize=1)
def _find_all(path: tuple[str, ...]) -> Mapping[str, metadata.EntryPoint]:
    """Returns the systems of all packages on a search path, Atoll's own first; those cannot be replaced."""
    return {point.name: point for point in metadata.entry_points(group=GROUP)} | dict(_find_own())


def list_systems() -> list[str]:
    """Returns the names of all installed systems, Atoll's own first."""
    return list(dict.fromkeys([*_find_own(), *sorted(_find_all(tuple(sys.path)))]))


def is_system(name: object) -> bool:
    return name in _find_own() or name in _find_all(tuple(sys.path))


def get_system(name: str) -> System:
    """Loads the descriptor of a system.

    Raises:
        SetupError: No package provides it, or its package cannot be loaded.
    """
    point = _find_own().get(name) or _find_all(tuple(sys.path)).get(name)
    if point is None:
        names = list_systems()
        raise errors.SetupError(f"Unknown system {name!r:.40}{suggest_nearest(name, names)}.")
    return _load(point)


@functools.cache
def _load(point: metadata.EntryPoint) -> System:
    loaded = errors.capture(point.load, reraise=())
    problem = str(loaded) if isinstance(loaded, errors.CaughtException) else ""
    if not problem and not isinstance(loaded, System):
        problem = f"{point.value} is not an atoll.system.System"
    if isinstance(loaded, System) and loaded.name != point.name:
        problem = f"its descriptor is named {loaded.name!r:.40}"
    if point.name in ("task", *COMMON_SECTIONS):
        problem = "its name is the name of a section of atoll.toml"
    if problem:
        package = point.dist.name if point.dist else point.value
        raise errors.SetupError(
            f"System {point.name} of package {package} cannot be loaded: {problem:.200}. Fix or uninstall the package."
        )
    assert isinstance(loaded, System)
    return loaded


@functools.cache  # one warning for each problem
def _warn(message: str) -> None:
    _logger.warning("%s", message)


def iter_systems() -> Iterator[System]:
    """Yields all systems that can be loaded, and logs a warning for each of the others."""
    for name in list_systems():
        try:
            yield get_system(name)
        except errors.SetupError as error:
            _warn(str(error))


def discover_sections(folder: Path, name: object) -> Sections:
    """Returns the sections that a system reads from a folder. Name None: the first system that recognizes it."""
    named = [get_system(str(name))] if name is not None and is_system(name) else []
    # OpenEvolve first: such a folder may contain a train.csv too.
    for system in sorted(iter_systems(), key=lambda system: system.openevolve is None) if name is None else named:
        sections = errors.capture(functools.partial(_discover, system, folder), reraise=(errors.SetupError,))
        if isinstance(sections, errors.CaughtException):
            _warn(f"System {system.name} cannot examine {folder}: {sections}.")
        elif sections is not None:
            return {"system": system.name, **sections}
    return {}


def _discover(system: System, folder: Path) -> Mapping[str, Any] | None:
    discover = system.load("discover")
    sections: Mapping[str, Any] | None = None if discover is None else discover(folder)
    return sections


def _load_part(name: str, part: str) -> Any:
    """Returns a part of a system; None if the system has none, or is not installed, or cannot be loaded."""
    try:
        return get_system(name).load(part) if is_system(name) else None
    except errors.SetupError as error:
        _warn(str(error))
        return None


def get_display_format(name: str) -> DisplayFormat | None:
    """Returns the display format of a system's candidates; None: they are plain text."""
    display: DisplayFormat | None = _load_part(name, "display")
    return display


def get_review_module(name: str) -> Any:
    """Returns the module that reviews and merges a system's candidates; None: it has none."""
    return _load_part(name, "reviews")


def get_episode_reader(name: str) -> Any:
    """Returns the module that reads the episodes of a system's runs; None: its runs have no episodes."""
    return _load_part(name, "episodes")


def add_old_defaults(data: Mapping[str, Any], excluded: Sequence[str]) -> dict[str, Any]:
    """Returns the sections of a stored run. Newer keys get the values of `Settings.OLD_DEFAULTS`."""
    name = data.get("system")
    completed = {section: value for section, value in data.items() if section not in excluded}
    if isinstance(name, str) and is_system(name):
        system = get_system(name)
        for section, part in (("task", "task"), (name, "options")):
            completed[section] = {**system.load(part).OLD_DEFAULTS, **completed.get(section, {})}
    return completed
